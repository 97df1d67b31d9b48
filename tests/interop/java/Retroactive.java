import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnectionFactory;

/** New durable subscriptions with consumer.retroactive=true: what they get of what others still have. */
public class Retroactive {
    static String url;

    public static void main(String[] args) throws Exception {
        url = args[0];
        if (args[1].equals("before")) {
            subscribe("first", "news", null, 0);
            send("m1", "m2", "m3");
            System.out.println("plain " + subscribe("plain", "news", null, 9));
            System.out.println("retroactive " + subscribe("second", "news?consumer.retroactive=true", null, 9));
            System.out.println("again " + subscribe("second", "news?consumer.retroactive=true", null, 9));
        } else {
            System.out.println("restarted " + subscribe("fourth", "news?consumer.retroactive=true", null, 9));
            System.out.println("one is read " + subscribe("first", "news", null, 1));
            System.out.println("the rest " + subscribe("fifth", "news?consumer.retroactive=true", null, 9));
            System.out.println("selected " + subscribe("third", "news?consumer.retroactive=true", "n = 2", 9));
            send("m4");
            System.out.println("first " + subscribe("first", "news", null, 9));
            System.out.println("fifth " + subscribe("fifth", "news?consumer.retroactive=true", null, 9));
        }
        System.exit(0);
    }

    static void send(String... texts) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createTopic("news"));
        for (String text : texts) {
            TextMessage message = session.createTextMessage(text);
            message.setIntProperty("n", text.charAt(1) - '0');
            producer.send(message);
        }
        connection.close();
    }

    /** Subscribe durably, take up to so many messages, and go away. */
    static List<String> subscribe(String name, String topic, String selector, int most) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url + "?jms.prefetchPolicy.all=1").createConnection();
        connection.setClientID(name);
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableSubscriber(session.createTopic(topic), name, selector, false);
        connection.start();
        List<String> found = new ArrayList<>();
        Message message;
        while (found.size() < most && (message = consumer.receive(700)) != null) {
            found.add(((TextMessage) message).getText());
            message.acknowledge();
        }
        consumer.close();
        session.close();
        connection.close();
        return found;
    }
}
