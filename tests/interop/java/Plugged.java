import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.TreeMap;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** What plugins do to messages, and what they answer: persistence, the path of brokers, statistics, separators. */
public class Plugged {
    static ActiveMQConnection connection;
    static Session session;

    public static void main(String[] args) throws Exception {
        connection = (ActiveMQConnection) new ActiveMQConnectionFactory(args[0] + "?jms.watchTopicAdvisories=false").createConnection();
        connection.setClientID("plugged");
        connection.start();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        for (String part : Arrays.asList(args).subList(1, args.length)) {
            System.out.println("## " + part);
            switch (part) {
                case "stamps": stamps(); break;
                case "statistics": statistics(); break;
                case "separator": separator(); break;
                case "leave": send(session, session.createQueue("left"), DeliveryMode.NON_PERSISTENT, null); break;
                default: throw new IllegalArgumentException(part);
            }
        }
        connection.close();
        System.exit(0);
    }

    static void send(Session with, Destination where, int mode, String path) throws JMSException {
        MessageProducer producer = with.createProducer(where);
        producer.setDeliveryMode(mode);
        Message message = with.createTextMessage("text");
        if (path != null) message.setStringProperty("BrokerPath", path);
        producer.send(message);
        producer.close();
    }

    // -- persistence and path ------------------------------------------------------------------------------------------

    static void stamps() throws Exception {
        for (Destination where : new Destination[] {session.createQueue("stamped"), session.createTopic("stamped"), session.createTemporaryQueue()}) {
            MessageConsumer consumer = session.createConsumer(where);
            String kind = where.getClass().getSimpleName();
            for (int mode : new int[] {DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT}) {
                send(session, where, mode, null);
                stamped(kind, consumer);
            }
            send(session, where, DeliveryMode.PERSISTENT, "elsewhere");
            stamped(kind + " passed on", consumer);
            Session work = connection.createSession(true, Session.SESSION_TRANSACTED);
            send(work, where, DeliveryMode.NON_PERSISTENT, null);
            work.commit();
            work.close();
            stamped(kind + " committed", consumer);
            consumer.close();
        }
        MessageConsumer consumer = session.createConsumer(session.createQueue("stamped"), "JMSDeliveryMode = 'PERSISTENT'");
        send(session, session.createQueue("stamped"), DeliveryMode.NON_PERSISTENT, null);
        stamped("selected", consumer);
        consumer.close();
    }

    static void stamped(String title, MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(1000);
        if (message == null) { System.out.println(title + ": nothing"); return; }
        TreeMap<String, Object> properties = new TreeMap<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements(); ) {
            String name = (String) names.nextElement();
            properties.put(name, message.getObjectProperty(name));
        }
        System.out.println(title + ": mode " + message.getJMSDeliveryMode() + " " + properties);
    }

    // -- statistics ----------------------------------------------------------------------------------------------------

    static void statistics() throws Exception {
        MessageConsumer reader = session.createConsumer(session.createQueue("counted.a"));
        for (int i = 0; i < 5; i++) send(session, session.createQueue("counted.a"), DeliveryMode.PERSISTENT, null);
        for (int i = 0; i < 2; i++) reader.receive(1000);
        reader.close();
        for (int i = 0; i < 3; i++) send(session, session.createQueue("counted.b"), DeliveryMode.PERSISTENT, null);
        MessageConsumer durable = session.createDurableSubscriber(session.createTopic("counted.topic"), "sub", "n > 0", false);
        MessageProducer writer = session.createProducer(session.createQueue("counted.b"));
        asked(session.createQueue("ActiveMQ.Statistics.Broker"), false, 1);
        asked(session.createTopic("ActiveMQ.Statistics.Broker"), false, 1);
        asked(session.createQueue("ActiveMQ.Statistics.Destination.counted.a"), true, 1);
        asked(session.createQueue("ActiveMQ.Statistics.Destination.counted.b"), true, 1);
        asked(session.createTopic("ActiveMQ.Statistics.Destination.counted.topic"), true, 1);
        asked(session.createQueue("ActiveMQ.Statistics.Destination.counted.>"), true, 2);
        asked(session.createQueue("ActiveMQ.Statistics.Destination.none"), true, 1);
        Message question = session.createMessage();
        question.setBooleanProperty("ActiveMQ.Statistics.Destination.List.End.With.Null", true);
        asked(session.createQueue("ActiveMQ.Statistics.Destination.counted.>"), question, true, 3);
        question = session.createMessage();
        question.setBooleanProperty("ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp", true);
        asked(session.createQueue("ActiveMQ.Statistics.Destination.counted.b"), question, true, 1);
        MessageConsumer picky = session.createConsumer(session.createQueue("counted.b"), "n = 1");
        MessageConsumer topical = session.createConsumer(session.createTopic("counted.topic"));
        asked(session.createQueue("ActiveMQ.Statistics.Subscription"), true, 2);
        picky.close();
        topical.close();
        question = session.createMessage();
        question.setBooleanProperty("ActiveMQ.Statistics.Broker.Reset", true);
        asked(session.createQueue("ActiveMQ.Statistics.Broker"), question, false, 1);
        asked(session.createQueue("ActiveMQ.Statistics.Destination.counted.b"), true, 1);
        writer.close();
        durable.close();
        session.unsubscribe("sub");
    }

    static void asked(Destination where, boolean values, int answers) throws JMSException {
        asked(where, session.createMessage(), values, answers);
    }

    static final List<String> VARYING = Arrays.asList("averageMessageSize", "memoryUsage",
        "memoryLimit", "memoryPercentUsage", "brokerId", "connectionId", "messagesCached", "firstMessageTimestamp");

    /** What this broker does not count. */
    static final List<String> ABSENT = Arrays.asList("averageEnqueueTime", "minEnqueueTime", "maxEnqueueTime", "storeLimit", "storePercentUsage",
        "tempUsage", "tempLimit", "tempPercentUsage");

    static void asked(Destination where, Message question, boolean values, int answers) throws JMSException {
        Destination back = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(back);
        question.setJMSReplyTo(back);
        question.setJMSCorrelationID("asked");
        MessageProducer producer = session.createProducer(where);
        producer.send(question);
        producer.close();
        List<String> lines = new ArrayList<>();
        for (int i = 0; i <= answers; i++) {
            Message message = consumer.receive(i < answers ? 1500 : 200);
            if (message != null) lines.add(line(message, values));
        }
        Collections.sort(lines);
        System.out.println(where + " " + lines.size());
        for (String line : lines) System.out.println("  " + line);
        consumer.close();
    }

    static String line(Message message, boolean values) throws JMSException {
        TreeMap<String, String> entries = new TreeMap<>();
        for (Enumeration<?> names = ((MapMessage) message).getMapNames(); names.hasMoreElements(); ) {
            String name = (String) names.nextElement();
            if (ABSENT.contains(name)) continue;
            Object value = ((MapMessage) message).getObject(name);
            String kind = value == null ? "null" : value.getClass().getSimpleName();
            entries.put(name, values && !VARYING.contains(name) ? kind + " " + value : kind);
        }
        if (String.valueOf(entries.get("destinationName")).contains("topic://")) entries.remove("enqueueCount");
        // ActiveMQ forgets to say which question it answers when that is about subscriptions
        String answered = entries.containsKey("sessionId") ? "" : message.getJMSCorrelationID() + " ";
        return message.getJMSType() + " " + answered + entries;
    }

    // -- separator -----------------------------------------------------------------------------------------------------

    static void separator() throws Exception {
        MessageConsumer wild = session.createConsumer(session.createTopic("way/*/end"));
        MessageConsumer dotted = session.createConsumer(session.createQueue("far.queue"));
        MessageConsumer slashed = session.createConsumer(session.createQueue("near/queue"));
        send(session, session.createTopic("way/to/end"), DeliveryMode.PERSISTENT, null);
        came("wild", wild);
        send(session, session.createTopic("way.with.end"), DeliveryMode.PERSISTENT, null);
        came("wild from dots", wild);
        send(session, session.createQueue("far/queue"), DeliveryMode.PERSISTENT, null);
        came("dots", dotted);
        send(session, session.createQueue("near.queue"), DeliveryMode.PERSISTENT, null);
        came("slashes", slashed);
        MessageProducer anonymous = session.createProducer(null);
        anonymous.send(session.createQueue("near/queue"), session.createTextMessage("anonymous"));
        came("anonymous", slashed);
        wild.close();
        dotted.close();
        slashed.close();
        MessageConsumer durable = session.createDurableSubscriber(session.createTopic("way/durable"), "sub");
        durable.close();
        send(session, session.createTopic("way.durable"), DeliveryMode.PERSISTENT, null);
        durable = session.createDurableSubscriber(session.createTopic("way/durable"), "sub");
        came("durable", durable);
        durable.close();
        session.unsubscribe("sub");
    }

    static void came(String title, MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(1000);
        System.out.println(title + ": " + (message == null ? "nothing" : message.getJMSDestination().toString()));
    }
}
