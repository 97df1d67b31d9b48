import java.util.Arrays;
import java.util.Map;
import javax.jms.*;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/** XA: branches in all their lives, recovery, and what is refused. */
class Branches extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("xa", Branches::xa);
        features.put("xaRecovery", Branches::recovery);
        features.put("xaRefusals", Branches::refusals);
        features.put("xaSuspended", Branches::suspended);
    }

    static class Id implements Xid {
        final byte[] global, branch;

        Id(String global, String branch) {
            this.global = global.getBytes();
            this.branch = branch.getBytes();
        }

        @Override public int getFormatId() { return 4711; }
        @Override public byte[] getGlobalTransactionId() { return global; }
        @Override public byte[] getBranchQualifier() { return branch; }
    }

    static XAConnection connectXA() throws JMSException {
        XAConnection connection = factory("").createXAConnection();
        connection.start();
        return connection;
    }

    /** One branch that sends. */
    static void sent(XASession session, XAResource resource, Xid id, Queue queue, String text) throws Exception {
        resource.start(id, XAResource.TMNOFLAGS);
        send(session, queue, text);
        resource.end(id, XAResource.TMSUCCESS);
    }

    static void xa() throws Exception {
        XAConnection connection = connectXA();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        String name = fresh("xa");
        Queue queue = session.createQueue(name);
        Id one = new Id("g1", "b1"), two = new Id("g2", "b2"), three = new Id("g3", "b3");
        sent(session, resource, one, queue, "two phases");
        say("prepare " + resource.prepare(one) + " hidden " + seen(name));
        resource.commit(one, false);
        say("committed " + seen(name));
        sent(session, resource, two, queue, "one phase");
        resource.commit(two, true);
        sent(session, resource, three, queue, "rolled back");
        resource.rollback(three);
        Id four = new Id("g4", "b4");
        sent(session, resource, four, queue, "prepared and rolled back");
        say("prepare " + resource.prepare(four));
        resource.rollback(four);
        say("there " + seen(name));
        Id five = new Id("g5", "b5");
        MessageConsumer consumer = session.createConsumer(queue);
        resource.start(five, XAResource.TMNOFLAGS);
        say("received " + brief(consumer.receive(WAIT)));
        resource.end(five, XAResource.TMSUCCESS);
        resource.rollback(five);
        Id six = new Id("g6", "b6");
        resource.start(six, XAResource.TMNOFLAGS);
        say("again " + brief(consumer.receive(WAIT)));
        resource.end(six, XAResource.TMSUCCESS);
        say("prepare " + resource.prepare(six));
        resource.commit(six, false);
        consumer.close();
        say("left " + left(name));
        say("the same manager " + resource.isSameRM(connection.createXASession().getXAResource()));
        attempt("time-out", () -> resource.setTransactionTimeout(120) + " " + resource.getTransactionTimeout());
        Id empty = new Id("g7", "b7");
        resource.start(empty, XAResource.TMNOFLAGS);
        resource.end(empty, XAResource.TMSUCCESS);
        say("prepare of nothing " + resource.prepare(empty));
        resource.commit(empty, false);
        connection.close();
    }

    static String recovered(XAResource resource) throws XAException {
        StringBuilder found = new StringBuilder();
        Xid[] all = resource.recover(XAResource.TMSTARTRSCAN);
        Arrays.sort(all, (a, b) -> new String(a.getGlobalTransactionId()).compareTo(new String(b.getGlobalTransactionId())));
        for (Xid each : all) found.append(each.getFormatId()).append('/').append(new String(each.getGlobalTransactionId())).append('/').append(new String(each.getBranchQualifier())).append(' ');
        resource.recover(XAResource.TMENDRSCAN);
        return "[" + found.toString().trim() + "]";
    }

    static void recovery() throws Exception {
        XAConnection connection = connectXA();
        XASession session = connection.createXASession();
        String name = fresh("recovery");
        Queue queue = session.createQueue(name);
        put(name, "taken");
        XAResource resource = session.getXAResource();
        Id sends = new Id("r1", "b"), takes = new Id("r2", "b");
        sent(session, resource, sends, queue, "sent in a branch");
        say("prepare " + resource.prepare(sends));
        MessageConsumer consumer = session.createConsumer(queue);
        resource.start(takes, XAResource.TMNOFLAGS);
        say("took " + brief(consumer.receive(WAIT)));
        resource.end(takes, XAResource.TMSUCCESS);
        say("prepare " + resource.prepare(takes));
        connection.close();
        XAConnection later = connectXA();
        XAResource found = later.createXASession().getXAResource();
        say("found " + recovered(found) + " hidden " + seen(name));
        found.commit(sends, false);
        say("committed " + seen(name));
        found.rollback(takes);
        say("found " + recovered(found) + " left " + left(name));
        later.close();
    }

    static void refusals() throws Exception {
        XAConnection connection = connectXA();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        String name = fresh("refusals");
        Queue queue = session.createQueue(name);
        Id unknown = new Id("unknown", "b"), one = new Id("e1", "b");
        attempt("commit of an unknown branch", () -> { resource.commit(unknown, false); return null; });
        attempt("rollback of it", () -> { resource.rollback(unknown); return null; });
        attempt("prepare of it", () -> resource.prepare(unknown));
        attempt("end of it", () -> { resource.end(unknown, XAResource.TMSUCCESS); return null; });
        attempt("forget it", () -> { resource.forget(unknown); return null; });
        attempt("resume it", () -> { resource.start(unknown, XAResource.TMRESUME); return null; });
        attempt("join it", () -> { resource.start(unknown, XAResource.TMJOIN); return null; });
        sent(session, resource, one, queue, "x");
        attempt("prepare", () -> resource.prepare(one));
        attempt("commit", () -> { resource.commit(one, false); return null; });
        attempt("commit again", () -> { resource.commit(one, false); return null; });
        say("left " + left(name));
        Id failing = new Id("e2", "b");
        resource.start(failing, XAResource.TMNOFLAGS);
        send(session, queue, "failing");
        attempt("end as failed", () -> { resource.end(failing, XAResource.TMFAIL); return null; });
        attempt("rollback of the failed", () -> { resource.rollback(failing); return null; });
        Id begun = new Id("e4", "b");
        sent(session, resource, begun, queue, "y");
        attempt("start again", () -> { resource.start(begun, XAResource.TMNOFLAGS); return null; });
        Id ended = new Id("e3", "b");
        resource.start(ended, XAResource.TMNOFLAGS);
        attempt("prepare before the end", () -> resource.prepare(ended));
        attempt("rollback before the end", () -> { resource.rollback(ended); return null; });
        say("left " + left(name));
        attempt("commit of the session", () -> { session.commit(); return null; });
        connection.close();
    }

    static void suspended() throws Exception {
        XAConnection connection = connectXA();
        XASession session = connection.createXASession(), second = connection.createXASession();
        XAResource resource = session.getXAResource(), joining = second.getXAResource();
        String name = fresh("suspended");
        Queue queue = session.createQueue(name);
        Id one = new Id("s1", "b"), two = new Id("s2", "b");
        resource.start(one, XAResource.TMNOFLAGS);
        send(session, queue, "first of one");
        resource.end(one, XAResource.TMSUSPEND);
        resource.start(two, XAResource.TMNOFLAGS);
        send(session, queue, "of two");
        resource.end(two, XAResource.TMSUCCESS);
        resource.commit(two, true);
        say("two is there " + seen(name));
        resource.start(one, XAResource.TMRESUME);
        send(session, queue, "second of one");
        resource.end(one, XAResource.TMSUCCESS);
        joining.start(one, XAResource.TMJOIN);
        send(second, queue, "joined");
        joining.end(one, XAResource.TMSUCCESS);
        say("prepare " + resource.prepare(one));
        resource.commit(one, false);
        say("all " + seen(name));
        connection.close();
    }
}
