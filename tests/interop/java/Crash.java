import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import javax.jms.*;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/** Two halves around a crash of the broker: what was promised before it must be there after it. */
public class Crash {
    static class Branch implements Xid {
        final byte[] global;

        Branch(String name) { global = name.getBytes(); }

        public int getFormatId() { return 5; }
        public byte[] getGlobalTransactionId() { return global; }
        public byte[] getBranchQualifier() { return new byte[] {1, 0, -1}; }
    }

    static String url;

    public static void main(String[] args) throws Exception {
        url = args[0];
        if (args[1].equals("before")) before(); else after();
        Runtime.getRuntime().halt(0); // connections die with the process, as in a crash of the client
    }

    static List<String> left(String queue) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        List<String> found = new ArrayList<>();
        Enumeration<?> all = Exercise.begun(session.createBrowser(session.createQueue(queue)));
        while (all.hasMoreElements()) found.add(((TextMessage) all.nextElement()).getText());
        connection.close();
        return found;
    }

    static void send(Session session, Destination where, String text) throws JMSException {
        session.createProducer(where).send(session.createTextMessage(text));
    }

    static void before() throws Exception {
        Connection plain = new ActiveMQConnectionFactory(url).createConnection();
        plain.setClientID("crash");
        plain.start();
        Session session = plain.createSession(false, Session.AUTO_ACKNOWLEDGE);
        send(session, session.createQueue("plain"), "kept");
        send(session, session.createQueue("settled"), "to be settled");
        send(session, session.createQueue("returned"), "wanted back");
        Topic topic = session.createTopic("topic");
        session.createDurableSubscriber(topic, "sub").close();
        send(session, topic, "missed");
        XAConnection connection = new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.start();
        XASession branches = connection.createXASession();
        XAResource resource = branches.getXAResource();
        StringBuilder told = new StringBuilder();
        for (String name : new String[] {"sends", "settles", "returns"}) {
            Branch branch = new Branch(name);
            resource.start(branch, XAResource.TMNOFLAGS);
            if (name.equals("sends")) send(branches, branches.createQueue("out"), "sent in a branch");
            if (name.equals("settles")) branches.createConsumer(branches.createQueue("settled")).receive(5000);
            if (name.equals("returns")) {
                branches.createConsumer(branches.createQueue("returned")).receive(5000);
                send(branches, branches.createQueue("never"), "never sent");
            }
            resource.end(branch, XAResource.TMSUCCESS);
            told.append(told.length() == 0 ? "" : " ").append("prepared ").append(resource.prepare(branch));
        }
        System.out.println(told);
        System.out.flush();
    }

    static void after() throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.start();
        XAResource resource = connection.createXASession().getXAResource();
        System.out.println("found " + resource.recover(XAResource.TMSTARTRSCAN).length);
        System.out.println("waiting " + left("plain") + " hidden " + left("settled"));
        resource.commit(new Branch("sends"), false);
        System.out.println("committed " + left("out"));
        resource.commit(new Branch("settles"), false);
        System.out.println("settled " + left("settled"));
        resource.rollback(new Branch("returns"));
        System.out.println("rolled back " + left("returned") + " sent " + left("never"));
        Connection plain = new ActiveMQConnectionFactory(url).createConnection();
        plain.setClientID("crash");
        plain.start();
        Session session = plain.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer durable = session.createDurableSubscriber(session.createTopic("topic"), "sub");
        List<String> missed = new ArrayList<>();
        for (Message message; (message = durable.receive(missed.isEmpty() ? 5000 : 300)) != null; ) missed.add(((TextMessage) message).getText());
        System.out.println("durable " + missed);
        System.out.println("found " + resource.recover(XAResource.TMSTARTRSCAN).length);
        System.out.flush();
    }
}
