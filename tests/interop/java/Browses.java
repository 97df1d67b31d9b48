import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;

/** What a QueueBrowser shows while others read. Argument: URL. Prints a line for each question. */
public class Browses {
    static Session session;

    static void send(String name, String... texts) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (String text : texts) producer.send(session.createTextMessage(text));
        Thread.sleep(200);
    }

    static void look(String what, String name) throws Exception {
        List<String> found = new ArrayList<>();
        Enumeration<?> all = session.createBrowser(session.createQueue(name)).getEnumeration();
        while (all.hasMoreElements()) {
            Message message = (Message) all.nextElement();
            found.add(((TextMessage) message).getText() + "@" + message.getJMSDestination());
        }
        found.sort(null);
        System.out.println(what + ": " + found);
    }

    public static void main(String[] given) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(given[0]).createConnection();
        connection.start();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer idle = session.createConsumer(session.createQueue("browse.read"));
        send("browse.read", "1", "2", "3");
        look("prefetched", "browse.read");
        idle.receive(1000);
        Thread.sleep(200);
        look("one settled", "browse.read");
        Session client = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer slow = client.createConsumer(session.createQueue("browse.held?consumer.prefetchSize=2"));
        send("browse.held", "1", "2", "3", "4");
        slow.receive(1000);
        look("some held", "browse.held");
        send("browse.w.a", "x");
        send("browse.w.b", "y");
        look("wildcard", "browse.w.*");
        look("composite", "browse.w.b,browse.w.a");
        connection.close();
        System.exit(0);
    }
}
