import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.TreeSet;
import javax.jms.*;

/**
 * One message of each kind, sent or shown, in whichever language a client library speaks: only JMS is used here.
 *
 * Arguments: the class of the connection factory, URL, "say" or "hear", queues.
 */
public class Mapped {
    static final long WAIT = 5000, QUIET = 500;
    static Session session;

    public static void main(String[] args) throws Exception {
        ConnectionFactory factory = (ConnectionFactory) Class.forName(args[0]).getConstructor(String.class).newInstance(args[1]);
        if (args[0].equals("org.apache.activemq.ActiveMQConnectionFactory")) factory.getClass().getMethod("setTrustAllPackages", boolean.class).invoke(factory, true);
        Connection connection = factory.createConnection();
        connection.start();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        for (String name : Arrays.asList(args).subList(3, args.length)) {
            if (args[2].equals("say")) say(name); else hear(name);
        }
        connection.close();
        System.exit(0);
    }

    static void say(String name) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(name));
        Message[] all = {
            session.createMessage(), session.createTextMessage("text"), session.createTextMessage("caf\u00e9 \u20ac \ud83d\ude00"), session.createTextMessage(""), session.createTextMessage(),
            bytes(), session.createBytesMessage(), map(), session.createMapMessage(), stream(), session.createObjectMessage("an object"), session.createObjectMessage(),
        };
        for (Message message : all) producer.send(message, DeliveryMode.NON_PERSISTENT, 4, 0);
        Message full = session.createTextMessage("full");
        full.setJMSCorrelationID("correlation");
        full.setJMSType("kind");
        full.setJMSReplyTo(session.createQueue("answers"));
        properties(full);
        producer.send(full, DeliveryMode.PERSISTENT, 4, 60_000);
        Message told = session.createTextMessage("told");
        told.setJMSReplyTo(session.createTopic("announcements"));
        told.setStringProperty("JMSXGroupID", "group");
        told.setIntProperty("JMSXGroupSeq", 3);
        producer.send(told, DeliveryMode.PERSISTENT, 4, 0);
        producer.close();
    }

    static BytesMessage bytes() throws Exception {
        BytesMessage made = session.createBytesMessage();
        made.writeBytes(new byte[] {0, 1, -1, 65});
        return made;
    }

    static MapMessage map() throws Exception {
        MapMessage made = session.createMapMessage();
        made.setBoolean("boolean", true);
        made.setByte("byte", (byte) 1);
        made.setBytes("bytes", new byte[] {1, 2});
        made.setChar("char", 'c');
        made.setDouble("double", 1.5);
        made.setFloat("float", 2.5f);
        made.setInt("int", 3);
        made.setLong("long", 4);
        made.setShort("short", (short) 5);
        made.setString("string", "six \u20ac");
        return made;
    }

    static StreamMessage stream() throws Exception {
        StreamMessage made = session.createStreamMessage();
        made.writeBoolean(true);
        made.writeByte((byte) 1);
        made.writeBytes(new byte[] {1, 2});
        made.writeChar('c');
        made.writeDouble(1.5);
        made.writeFloat(2.5f);
        made.writeInt(3);
        made.writeLong(4);
        made.writeShort((short) 5);
        made.writeString("six");
        return made;
    }

    static void properties(Message message) throws Exception {
        message.setBooleanProperty("aBoolean", true);
        message.setByteProperty("aByte", (byte) 1);
        message.setShortProperty("aShort", (short) 2);
        message.setIntProperty("anInt", 3);
        message.setLongProperty("aLong", 4);
        message.setFloatProperty("aFloat", 5.5f);
        message.setDoubleProperty("aDouble", 6.25);
        message.setStringProperty("aString", "seven \u20ac");
        message.setStringProperty("an_empty_one", "");
    }

    static void hear(String name) throws Exception {
        say("from", name);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        for (Message message = consumer.receive(WAIT); message != null; message = consumer.receive(QUIET)) {
            try {
                show(message);
            } catch (Exception problem) {
                say("  failed", problem.getClass().getName());
            }
        }
    }

    static void say(String label, Object value) {
        System.out.println(label + " " + value);
    }

    static String where(Destination place) throws Exception {
        return place == null ? "none" : place instanceof Queue ? "queue " + ((Queue) place).getQueueName() : "topic " + ((Topic) place).getTopicName();
    }

    static String value(Object value) {
        if (value == null) return "null";
        if (value instanceof byte[]) return "bytes " + Arrays.toString((byte[]) value);
        StringBuilder made = new StringBuilder(value.getClass().getSimpleName() + " '");
        for (char unit : value.toString().toCharArray()) made.append(unit >= ' ' && unit < 127 ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        return made.append("'").toString();
    }

    static void show(Message message) throws Exception {
        String kind = message.getClass().getSimpleName().replace("ActiveMQ", "");
        say(kind, "mode " + message.getJMSDeliveryMode() + " priority " + message.getJMSPriority() + " type " + message.getJMSType() + " correlation " + message.getJMSCorrelationID()
            + " reply " + where(message.getJMSReplyTo()) + " destination " + where(message.getJMSDestination()) + " redelivered " + message.getJMSRedelivered()
            + " expires " + (message.getJMSExpiration() > 0) + " dated " + (message.getJMSTimestamp() > 0));
        for (Object name : new TreeSet<Object>(Collections.list((Enumeration<?>) message.getPropertyNames()))) {
            Object held = message.getObjectProperty((String) name);
            say("  " + name, name.toString().matches("__HDR_.*|__AMQ_CID|_AMQ_NATIVE.*") ? "held as " + (held == null ? null : held.getClass().getSimpleName()) : value(held));
        }
        if (message instanceof TextMessage) {
            say("  text", value(((TextMessage) message).getText()));
        } else if (message instanceof BytesMessage) {
            byte[] all = new byte[(int) ((BytesMessage) message).getBodyLength()];
            ((BytesMessage) message).readBytes(all);
            say("  octets", Arrays.toString(all));
        } else if (message instanceof MapMessage) {
            MapMessage map = (MapMessage) message;
            for (Object name : new TreeSet<Object>(Collections.list((Enumeration<?>) map.getMapNames()))) say("  entry " + name, value(map.getObject((String) name)));
        } else if (message instanceof StreamMessage) {
            try {
                while (true) say("  item", value(((StreamMessage) message).readObject()));
            } catch (MessageEOFException end) {
                say("  end", "of stream");
            }
        } else if (message instanceof ObjectMessage) {
            say("  object", value(((ObjectMessage) message).getObject()));
        }
    }
}
