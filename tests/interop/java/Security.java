import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQDestination;

/** Who may come in, and what he may do: prints what a client sees. The broker has the users and rules of the test. */
public class Security {
    interface Step {
        Object run() throws Exception;
    }

    static String url;

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        admission();
        if (arguments.length == 1) {
            rights();
            temporaries();
            advisories();
        }
        System.out.println("## end");
        System.exit(0);
    }

    static void say(String what, Step step) {
        try {
            System.out.println(what + ": " + step.run());
        } catch (Exception error) {
            Throwable cause = error.getCause();
            System.out.println(what + ": " + error.getClass().getName() + ": " + error.getMessage()
                + (cause == null ? "" : " <- " + cause.getClass().getName()));
        }
    }

    static ActiveMQConnection open(String user, String password) throws JMSException {
        ActiveMQConnection made =
            (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection(user, password);
        made.start();
        return made;
    }

    static void admission() {
        System.out.println("## admission");
        say("right", () -> { open("app", "secret").close(); return "in"; });
        say("wrong password", () -> { open("app", "wrong").close(); return "in"; });
        say("unknown", () -> { open("nobody", "secret").close(); return "in"; });
        say("empty", () -> { open("", "").close(); return "in"; });
        say("without", () -> { open(null, null).close(); return "in"; });
        say("without password", () -> { open("app", null).close(); return "in"; });
        say("closed", () -> {
            ActiveMQConnection made =
                (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection("app", "wrong");
            try {
                made.start();
            } catch (JMSException refused) {
                return "closed " + made.isClosed() + " failed " + made.isTransportFailed();
            }
            return "in";
        });
    }

    static void rights() throws Exception {
        System.out.println("## rights");
        ActiveMQConnection boss = open("boss", "manager");
        Session all = boss.createSession(false, Session.AUTO_ACKNOWLEDGE);
        for (String name : new String[] {"SECRET.there", "SHOP.in.there", "SHOP.out.there", "LOCKED.there"}) {
            all.createProducer(all.createQueue(name)).send(all.createTextMessage("from the boss"));
        }
        ActiveMQConnection connection = open("app", "secret");
        List<String> told = Collections.synchronizedList(new ArrayList<>());
        connection.setExceptionListener(error -> told.add(error.getMessage()));
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        String[] names = {"SHOP.own", "SHOP.in.there", "SHOP.in.new", "SHOP.out.there", "SHOP.out.new",
            "SECRET.there", "SECRET.new", "LOCKED.there", "LOCKED.new"};
        for (String name : names) {
            say("produce " + name, () -> { session.createProducer(session.createQueue(name)).close(); return "yes"; });
            say("send " + name, () -> {
                MessageProducer any = session.createProducer(null);
                any.send(session.createQueue(name), session.createTextMessage("text"));
                any.close();
                return "yes";
            });
            say("consume " + name, () -> {
                MessageConsumer consumer = session.createConsumer(session.createQueue(name));
                Message message = consumer.receive(500);
                consumer.close();
                return message == null ? "nothing" : ((TextMessage) message).getText();
            });
            say("browse " + name, () -> {
                QueueBrowser browser = session.createBrowser(session.createQueue(name));
                boolean more = browser.getEnumeration().hasMoreElements();
                browser.close();
                return more;
            });
        }
        for (String name : new String[] {"SHOP.own", "SECRET.news", "LOCKED.news"}) {
            say("publish " + name, () -> { session.createProducer(session.createTopic(name)).close(); return "yes"; });
            say("subscribe " + name, () -> { session.createConsumer(session.createTopic(name)).close(); return "yes"; });
        }
        say("composite", () -> {
            session.createProducer(session.createQueue("SHOP.own,SECRET.there")).send(session.createTextMessage("two"));
            return "yes";
        });
        say("composite consumer", () -> {
            session.createConsumer(session.createQueue("SHOP.own,SECRET.there")).close();
            return "yes";
        });
        say("destroy own", () -> {
            connection.destroyDestination((ActiveMQDestination) all.createQueue("SHOP.own"));
            return "yes";
        });
        say("transaction", () -> {
            Session local = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageProducer any = local.createProducer(null);
            any.send(local.createQueue("SHOP.tx"), local.createTextMessage("good"));
            any.send(local.createQueue("SECRET.there"), local.createTextMessage("bad"));
            try {
                local.commit();
            } catch (JMSException refused) {
                return "not committed";
            }
            return "committed";
        });
        for (int wait = 0; told.isEmpty() && wait < 300; wait++) Thread.sleep(10); // it is told on a thread of its own
        System.out.println("told: " + told);
        say("durable", () -> {
            ActiveMQConnection named = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection("app", "secret");
            named.setClientID("me");
            Session own = named.createSession(false, Session.AUTO_ACKNOWLEDGE);
            own.createDurableSubscriber(own.createTopic("SHOP.own"), "s").close();
            own.unsubscribe("s");
            try {
                own.createDurableSubscriber(own.createTopic("SECRET.news"), "s");
            } finally {
                named.close();
            }
            return "yes";
        });
        say("wildcard", () -> { session.createConsumer(session.createQueue("SHOP.in.*")).close(); return "yes"; });
        say("still works", () -> {
            session.createProducer(session.createQueue("SHOP.own")).send(session.createTextMessage("again"));
            MessageConsumer consumer = session.createConsumer(session.createQueue("SHOP.own"));
            return ((TextMessage) consumer.receive(2000)).getText();
        });
        connection.close();
        say("untouched", () -> {
            List<?> seen = Collections.list(all.createBrowser(all.createQueue("SECRET.there")).getEnumeration());
            return seen.size();
        });
        boss.close();
    }

    static void temporaries() throws Exception {
        System.out.println("## temporaries");
        ActiveMQConnection connection = open("app", "secret");
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        say("temporary", () -> {
            TemporaryQueue own = session.createTemporaryQueue();
            session.createProducer(own).send(session.createTextMessage("to myself"));
            return ((TextMessage) session.createConsumer(own).receive(2000)).getText();
        });
        connection.close();
    }

    static void advisories() throws Exception {
        System.out.println("## advisories");
        say("poor", () -> {
            Connection connection = open("poor", "church");
            connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            connection.close();
            return "in";
        });
        ActiveMQConnection connection = open("app", "secret");
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        say("read", () -> {
            session.createConsumer(session.createTopic("ActiveMQ.Advisory.Connection")).close();
            return "yes";
        });
        connection.close();
    }
}
