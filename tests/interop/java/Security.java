import java.util.Collections;
import java.util.List;
import javax.jms.Connection;
import javax.jms.ExceptionListener;
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

/** Who may come in, and what he may do: prints what a client sees. The broker has the users and rules of the test. */
public class Security {
    interface Step {
        Object run() throws Exception;
    }

    static String url;

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        admission();
        rights();
        temporaries();
        advisories();
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
        say("wrong password", () -> open("app", "wrong"));
        say("unknown", () -> open("nobody", "secret"));
        say("empty", () -> open("", ""));
        say("without", () -> open(null, null));
        say("without password", () -> open("app", null));
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
        for (String name : new String[] {"SECRET.there", "SHOP.in.there", "SHOP.out.there"}) {
            all.createProducer(all.createQueue(name)).send(all.createTextMessage("from the boss"));
        }
        ActiveMQConnection connection = open("app", "secret");
        connection.setExceptionListener(error -> System.out.println("listener: " + error.getMessage()));
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        String[] names = {"SHOP.own", "SHOP.in.there", "SHOP.in.new", "SHOP.out.there", "SHOP.out.new",
            "SECRET.there", "SECRET.new"};
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
        for (String name : new String[] {"SHOP.own", "SECRET.news"}) {
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
            connection.destroyDestination((org.apache.activemq.command.ActiveMQDestination) all.createQueue("SHOP.own"));
            return "yes";
        });
        say("destroy other", () -> {
            connection.destroyDestination(
                (org.apache.activemq.command.ActiveMQDestination) all.createQueue("SECRET.there"));
            return "yes";
        });
        say("transaction", () -> {
            Session local = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageProducer any = local.createProducer(null);
            any.send(local.createQueue("SHOP.tx"), local.createTextMessage("good"));
            any.send(local.createQueue("SECRET.there"), local.createTextMessage("bad"));
            local.commit();
            return "committed";
        });
        say("still works", () -> {
            session.createProducer(session.createQueue("SHOP.own")).send(session.createTextMessage("again"));
            MessageConsumer consumer = session.createConsumer(session.createQueue("SHOP.own"));
            return ((TextMessage) consumer.receive(2000)).getText();
        });
        connection.close();
        say("untouched", () -> {
            List<Message> seen = Collections.list(all.createBrowser(all.createQueue("SECRET.there")).getEnumeration());
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
