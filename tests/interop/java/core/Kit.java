import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.*;
import org.apache.activemq.artemis.api.core.ActiveMQException;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.api.core.client.ClientMessage;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.activemq.artemis.jms.client.ActiveMQMessage;

/** What the features share: connections, and what happened as text that does not depend on the run. */
class Kit {
    static final long WAIT = 5000, QUIET = 250;
    static String url;
    static int serial;

    interface Action { Object run() throws Exception; }

    static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static String fresh(String stem) {
        return stem + "." + (++serial);
    }

    static String with(String options) {
        return options.isEmpty() ? url : url + "?" + options;
    }

    static ActiveMQConnectionFactory factory(String options) {
        return new ActiveMQConnectionFactory(with(options));
    }

    static Connection connect(String options) throws JMSException {
        Connection connection = factory(options).createConnection();
        connection.start();
        return connection;
    }

    static Connection connect() throws JMSException {
        return connect("");
    }

    static Session auto(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static Session transacted(Connection connection) throws JMSException {
        return connection.createSession(true, Session.SESSION_TRANSACTED);
    }

    static void send(Session session, Destination where, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(where);
        for (String text : texts) producer.send(session.createTextMessage(text));
        producer.close();
    }

    /** Sends over a connection of its own, so that nothing of the session under test is touched. */
    static void put(String queue, String... texts) throws JMSException {
        Connection connection = connect();
        Session session = auto(connection);
        send(session, session.createQueue(queue), texts);
        connection.close();
    }

    /** What comes: `count` messages, each with its delivery count where that is not 1, and then nothing more. */
    static List<String> texts(MessageConsumer consumer, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = consumer.receive(WAIT);
            if (message == null) break;
            found.add(brief(message));
        }
        Message more = consumer.receive(QUIET);
        if (more != null) found.add("and more: " + brief(more));
        return found;
    }

    static String brief(Message message) throws JMSException {
        if (message == null) return "none";
        String text = message instanceof TextMessage ? ((TextMessage) message).getText() : message.getClass().getSimpleName();
        if (text != null && text.length() > 60) text = text.substring(0, 20) + "... of " + text.length();
        int count = message.getIntProperty("JMSXDeliveryCount");
        return text + (count == 1 ? "" : " x" + count) + (message.getJMSRedelivered() ? " again" : "");
    }

    /** What is in a queue, taken out of it. */
    static List<String> left(String queue) throws JMSException {
        Connection connection = connect();
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        List<String> found = new ArrayList<>();
        for (Message message; (message = consumer.receive(QUIET)) != null; ) found.add(brief(message));
        connection.close();
        return found;
    }

    /** What a browser sees, by another connection. */
    static List<String> seen(String queue) throws JMSException {
        Connection connection = connect();
        Session session = auto(connection);
        List<String> found = browse(session.createBrowser(session.createQueue(queue)));
        connection.close();
        return found;
    }

    static List<String> browse(QueueBrowser browser) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Enumeration<?> each = browser.getEnumeration(); each.hasMoreElements(); ) found.add(brief((Message) each.nextElement()));
        return found;
    }

    /** Does it, and says what came of it: the result, or the class of the exception, and its code where it has one. */
    static void attempt(String label, Action action) {
        String outcome;
        try {
            Object result = action.run();
            outcome = result instanceof String || result instanceof Number || result instanceof Boolean || result instanceof List ? result.toString() : "done";
        } catch (Throwable problem) {
            outcome = problem(problem);
        }
        say(label + ": " + outcome);
    }

    static String problem(Throwable problem) {
        String text = problem.getClass().getName();
        if (problem instanceof ActiveMQException) text += " " + ((ActiveMQException) problem).getType();
        if (problem instanceof javax.transaction.xa.XAException) text += " " + ((javax.transaction.xa.XAException) problem).errorCode;
        Throwable cause = problem.getCause();
        if (problem instanceof JMSException && cause instanceof ActiveMQException) text += " by " + ((ActiveMQException) cause).getType();
        return text;
    }

    /** Everything that JMS and the core API say about a message. */
    static void dump(String label, Message message) throws Exception {
        if (message == null) {
            say(label + ": none");
            return;
        }
        say(label + ": " + message.getClass().getSimpleName());
        long now = System.currentTimeMillis();
        say("  id " + shape(message.getJMSMessageID()) + ", destination " + where(message.getJMSDestination()) + ", reply " + where(message.getJMSReplyTo()));
        say("  type " + message.getJMSType() + ", mode " + message.getJMSDeliveryMode() + ", priority " + message.getJMSPriority() + ", redelivered " + message.getJMSRedelivered());
        long sent = message.getJMSTimestamp();
        long over = message.getJMSExpiration(), due = message.getJMSDeliveryTime();
        say("  sent " + (sent == 0 ? "0" : Math.abs(now - sent) < 60_000 ? "lately" : "" + sent)
            + ", expires " + (over == 0 ? "never" : sent == 0 ? "some day" : "after " + Math.round((over - sent) / 1000.0) + " s")
            + ", due " + (due == 0 ? "0" : sent == 0 ? "some day" : "after " + Math.round((due - sent) / 100.0) * 100 + " ms"));
        String correlation = message.getJMSCorrelationID();
        say("  correlation " + (correlation == null ? null : correlation.startsWith("ID:") ? shape(correlation) : correlation) + ", bytes " + correlationBytes(message));
        for (Object name : new java.util.TreeSet<Object>(Collections.list((Enumeration<?>) message.getPropertyNames()))) say("  " + name + " = " + held((String) name, message.getObjectProperty((String) name)));
        ClientMessage core = ((ActiveMQMessage) message).getCoreMessage();
        Map<String, String> properties = new TreeMap<>();
        for (SimpleString name : core.getPropertyNames()) properties.put(name.toString(), held(name.toString(), core.getObjectProperty(name)));
        say("  core type " + core.getType() + ", durable " + core.isDurable() + ", large " + core.isLargeMessage() + ", address " + named(String.valueOf(core.getAddressSimpleString())) + ", " + properties);
        body(message);
    }

    static void body(Message message) throws Exception {
        if (message instanceof TextMessage) {
            say("  text " + shown(((TextMessage) message).getText()));
        } else if (message instanceof BytesMessage) {
            BytesMessage bytes = (BytesMessage) message;
            byte[] all = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(all);
            say("  bytes " + all.length + " " + (all.length < 200 ? Arrays.toString(all) : "hash " + Arrays.hashCode(all)));
        } else if (message instanceof MapMessage) {
            MapMessage map = (MapMessage) message;
            for (Object name : new java.util.TreeSet<Object>(Collections.list((Enumeration<?>) map.getMapNames()))) say("  entry " + name + " = " + value(map.getObject((String) name)));
        } else if (message instanceof StreamMessage) {
            try {
                while (true) say("  item " + value(((StreamMessage) message).readObject()));
            } catch (MessageEOFException end) {
                say("  end of stream");
            }
        } else if (message instanceof ObjectMessage) {
            say("  object " + ((ObjectMessage) message).getObject());
        }
    }

    static String correlationBytes(Message message) {
        try {
            byte[] bytes = message.getJMSCorrelationIDAsBytes();
            return bytes == null ? "null" : bytes.length > 20 ? "" + bytes.length : Arrays.toString(bytes);
        } catch (JMSException problem) {
            return problem(problem);
        }
    }

    /** What is the same in each run of a property that the broker or the client library sets. */
    static String held(String name, Object value) {
        switch (name) {
            case "_AMQ_ORIG_MESSAGE_ID":
                return "some id"; // a number at Artemis, here the message id that its sender knows
            case "__AMQ_CID": case "_AMQ_ACTUAL_EXPIRY": case "_AMQ_SCHED_DELIVERY": case "_AMQ_INGRESS_TIMESTAMP":
                return "a " + value.getClass().getSimpleName();
            case "JMSReplyTo":
                return named(value.toString());
            default:
                return value(value);
        }
    }

    static String value(Object value) {
        if (value == null) return "null";
        if (value instanceof byte[]) return "byte[] " + Arrays.toString((byte[]) value);
        return value.getClass().getSimpleName() + " " + shown(named(value.toString()));
    }

    static String shown(String text) {
        if (text == null) return "null";
        if (text.length() > 200) return text.length() + " units, hash " + text.hashCode();
        StringBuilder made = new StringBuilder("'");
        for (char unit : text.toCharArray()) made.append(unit >= ' ' && unit < 127 ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        return made.append("'").toString();
    }

    static String shape(String id) {
        return id == null ? "null" : id.replaceAll("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID");
    }

    static String named(String text) {
        return shape(text);
    }

    static String where(Destination place) throws JMSException {
        if (place == null) return "none";
        String kind = place instanceof TemporaryQueue ? "temporary queue " : place instanceof TemporaryTopic ? "temporary topic " : place instanceof Queue ? "queue " : place instanceof Topic ? "topic " : "old ";
        return kind + named(place instanceof Queue ? ((Queue) place).getQueueName() : place instanceof Topic ? ((Topic) place).getTopicName() : place.toString());
    }

    static List<String> texts(List<?> values) {
        List<String> made = new ArrayList<>();
        for (Object each : values) made.add(each.toString());
        return made;
    }

    /** All that an answer says: each getter, by name. */
    static String answer(Object answer) throws Exception {
        Map<String, String> all = new TreeMap<>();
        for (Class<?> type : answer.getClass().getInterfaces()) {
            for (Method each : type.getMethods()) {
                if (each.getParameterCount() > 0 || !each.getName().matches("(is|get|supports).*")) continue;
                each.setAccessible(true);
                Object value = each.invoke(answer);
                if (value instanceof List) value = new java.util.TreeSet<Object>(texts((List<?>) value));
                all.put(each.getName(), named(String.valueOf(value)));
            }
        }
        return all.toString();
    }
}
