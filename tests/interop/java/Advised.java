import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.DataStructure;
import org.apache.activemq.command.DestinationInfo;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.command.RemoveSubscriptionInfo;

/** Drives the events behind the policy switches of advisories, and what retroactive consumers get; prints what is told. */
public class Advised {
    static String url;
    static Session eyes;
    static MessageConsumer all;

    public static void main(String[] args) throws Exception {
        url = args[0];
        ActiveMQConnection watching = connect("?jms.watchTopicAdvisories=false");
        eyes = watching.createSession(false, Session.AUTO_ACKNOWLEDGE);
        all = eyes.createConsumer(eyes.createTopic("ActiveMQ.Advisory.>"));
        told("", "nothing");
        queues();
        topics();
        bodies();
        durable();
        slow();
        discarded();
        full();
        anonymous();
        retroactive();
        Virtual.all();
        watching.close();
        System.out.println("end");
        System.exit(0);
    }

    static ActiveMQConnection connect(String options) throws JMSException {
        ActiveMQConnection made = (ActiveMQConnection) new ActiveMQConnectionFactory(url + options).createConnection();
        made.start();
        return made;
    }

    static Session session(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    /** Print what was told about {@code stem} below the given words, each different line once. */
    static void told(String title, String stem, String... words) throws JMSException {
        Set<String> found = new LinkedHashSet<>();
        List<String> wanted = Arrays.asList(words);
        for (Message message; (message = all.receive(wanted.contains("SlowConsumer") ? 2500 : 700)) != null; ) {
            String topic = ((Topic) message.getJMSDestination()).getTopicName().replace("ActiveMQ.Advisory.", "");
            if (topic.contains(stem) && wanted.contains(topic.split("\\.")[0])) found.add(topic + " " + line(message));
        }
        List<String> sorted = new ArrayList<>(found);
        Collections.sort(sorted);
        for (String line : sorted) System.out.println(title + ": " + line);
    }

    static String line(Message message) throws JMSException {
        TreeMap<String, String> properties = new TreeMap<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements(); ) {
            String name = (String) names.nextElement();
            Object value = message.getObjectProperty(name);
            String text = String.valueOf(value).replaceAll("ID:[-.:\\w]+", "ID").replaceAll("test-\\w+", "ID").replaceAll("tcp://[-.:\\w]+", "URL");
            if (name.equals("usageCount") || name.equals("discardedCount")) text = value.getClass().getSimpleName();
            if (name.equals("originBrokerName")) text = "NAME";
            properties.put(name, text);
        }
        String body = message instanceof TextMessage ? " saying " + ((TextMessage) message).getText() : "";
        return message.getJMSType() + body + " about " + structure(message) + " " + properties;
    }

    static String structure(Message message) throws JMSException {
        DataStructure data = ((ActiveMQMessage) message).getDataStructure();
        if (data == null) return "nothing";
        String kind = data.getClass().getSimpleName();
        if (data instanceof DestinationInfo) return kind + " " + ((DestinationInfo) data).getDestination();
        if (data instanceof ConsumerInfo) {
            ConsumerInfo info = (ConsumerInfo) data;
            return kind + " " + info.getDestination() + " " + info.getSubscriptionName() + " " + info.getPrefetchSize();
        }
        if (data instanceof ProducerInfo) return kind + " " + ((ProducerInfo) data).getDestination();
        if (data instanceof RemoveSubscriptionInfo) return kind + " " + ((RemoveSubscriptionInfo) data).getClientId() + " " + ((RemoveSubscriptionInfo) data).getSubscriptionName();
        if (data instanceof TextMessage) {
            Message carried = (Message) data;
            return kind + " " + carried.getJMSDestination() + " with " + (((ActiveMQMessage) data).getContent() == null ? "no" : "a") + " body marked " + carried.getStringProperty("mark");
        }
        return kind;
    }

    static final String[] FATES = {"MessageDelivered", "MessageConsumed", "NoConsumer", "MessageDLQd", "Expired", "MessageDispatched"};

    static void send(Session session, javax.jms.Destination where, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(where);
        for (String text : texts) {
            TextMessage message = session.createTextMessage(text);
            message.setStringProperty("mark", "yes");
            producer.send(message);
        }
        producer.close();
    }

    static void sendBriefly(Session session, javax.jms.Destination where, String text) throws JMSException {
        MessageProducer producer = session.createProducer(where);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        producer.send(session.createTextMessage(text));
        producer.close();
    }

    static void queues() throws Exception {
        ActiveMQConnection connection = connect("?jms.redeliveryPolicy.maximumRedeliveries=0");
        Session session = session(connection);
        javax.jms.Queue queue = session.createQueue("told.queue");
        send(session, queue, "one");
        told("sent to nobody", "told.queue", FATES);
        sendBriefly(session, session.createQueue("told.queue.brief"), "one");
        told("sent briefly", "told.queue.brief", FATES);
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(2000);
        told("consumed", "told.queue", FATES);
        send(session, queue, "two");
        consumer.receive(2000);
        told("sent to somebody", "told.queue", FATES);
        consumer.close();
        Session work = connection.createSession(true, Session.SESSION_TRANSACTED);
        send(session, queue, "poison");
        consumer = work.createConsumer(queue);
        consumer.receive(2000);
        work.rollback();
        consumer.receive(300);
        told("poison", "told.queue", FATES);
        consumer.close();
        connection.close();
    }

    static void topics() throws Exception {
        ActiveMQConnection connection = connect("");
        Session session = session(connection);
        Topic topic = session.createTopic("told.topic");
        send(session, topic, "one");
        sendBriefly(session, topic, "brief");
        told("topic without", "told.topic", FATES);
        MessageConsumer consumer = session.createConsumer(topic);
        send(session, topic, "two");
        consumer.receive(2000);
        told("topic with", "told.topic", FATES);
        connection.close();
    }

    static void bodies() throws Exception {
        ActiveMQConnection connection = connect("");
        Session session = session(connection);
        send(session, session.createQueue("whole.queue"), "one");
        told("whole", "whole.queue", FATES);
        connection.close();
    }

    static void durable() throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
        connection.setClientID("advised");
        connection.start();
        Session session = session(connection);
        Topic topic = session.createTopic("told.durable");
        MessageConsumer consumer = session.createDurableSubscriber(topic, "sub");
        send(session, topic, "one");
        consumer.receive(2000);
        told("durable", "told.durable", "Consumer", "MessageConsumed");
        consumer.close();
        told("closed", "told.durable", "Consumer");
        session.unsubscribe("sub");
        told("unsubscribed", "told.durable", "Consumer");
        connection.close();
    }

    static void slow() throws Exception {
        ActiveMQConnection connection = connect("?jms.prefetchPolicy.topicPrefetch=2");
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Topic topic = session.createTopic("slow.topic");
        MessageConsumer consumer = session.createConsumer(topic);
        send(session, topic, "1", "2", "3", "4", "5", "6");
        told("slow", "slow.topic", "SlowConsumer");
        connection.close();
    }

    static void discarded() throws Exception {
        ActiveMQConnection connection = connect("?jms.prefetchPolicy.topicPrefetch=1");
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Topic topic = session.createTopic("few.topic");
        MessageConsumer consumer = session.createConsumer(topic);
        send(session, topic, "1", "2", "3", "4", "5", "6");
        told("discarded", "few.topic", "MessageDiscarded");
        connection.close();
    }

    static void full() throws Exception {
        ActiveMQConnection connection = connect("?jms.alwaysSyncSend=true&jms.sendTimeout=1000");
        Session session = session(connection);
        javax.jms.Queue queue = session.createQueue("full.queue");
        char[] text = new char[3000];
        Arrays.fill(text, 'x');
        MessageProducer producer = session.createProducer(queue);
        boolean waits = false;
        for (int i = 0; i < 6 && !waits; i++) {
            try {
                producer.send(session.createTextMessage(new String(text)));
            } catch (JMSException timedOut) {
                waits = true;
            }
        }
        System.out.println("producers wait " + waits);
        told("full", "full.queue", "FULL", "FastProducer");
        MessageConsumer consumer = eyes.createConsumer(queue);
        while (consumer.receive(500) != null);
        consumer.close();
        connection.close();
    }

    static void anonymous() throws Exception {
        ActiveMQConnection connection = connect("");
        Session session = session(connection);
        MessageProducer producer = session.createProducer(null);
        told("anonymous", "Anonymous", "Producer");
        producer.close();
        told("anonymous", "Anonymous", "Producer");
        connection.close();
    }

    static void retroactive() throws Exception {
        ActiveMQConnection connection = connect("");
        Session session = session(connection);
        for (String name : new String[] {"recall.none", "recall.last", "recall.count", "recall.sized", "recall.timed", "recall.always", "recall.kept"}) {
            MessageProducer producer = session.createProducer(session.createTopic(name));
            for (int i = 0; i < 9; i++) {
                TextMessage message = session.createTextMessage("m" + i);
                if (name.endsWith("kept") && i % 4 == 0) message.setBooleanProperty("ActiveMQ.Retain", true);
                message.setIntProperty("n", i);
                producer.send(message);
            }
            String query = name.endsWith("always") ? "" : "?consumer.retroactive=true";
            List<String> got = texts(session.createConsumer(session.createTopic(name + query)));
            if (name.endsWith("sized")) System.out.println("recall.sized some " + (got.size() > 0 && got.size() < 9) + " last " + got.get(got.size() - 1));
            else System.out.println(name + " " + got);
            if (name.endsWith("count")) {
                System.out.println("selected " + texts(session.createConsumer(session.createTopic(name + query), "n < 8")));
                System.out.println("wild " + texts(session.createConsumer(session.createTopic("recall.c*.>" + query))));
                System.out.println("wild " + texts(session.createConsumer(session.createTopic("recall.>" + query), "n = 8")));
                System.out.println("not asked " + texts(session.createConsumer(session.createTopic(name))));
            }
        }
        connection.close();
    }

    static List<String> texts(MessageConsumer consumer) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message message; (message = consumer.receive(400)) != null; ) {
            String retained = message.propertyExists("ActiveMQ.Retained") ? " " + message.getObjectProperty("ActiveMQ.Retained") : "";
            found.add(((TextMessage) message).getText() + retained);
        }
        consumer.close();
        return found;
    }
}
