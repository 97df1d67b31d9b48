import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import javax.jms.*;

/** What messages carry: bodies of all kinds, properties, headers, large bodies. */
class Bodies extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("bodies", Bodies::bodies);
        features.put("texts", Bodies::texts);
        features.put("properties", Bodies::properties);
        features.put("headers", Bodies::headers);
        features.put("large", Bodies::large);
        features.put("largeCompressed", Bodies::largeCompressed);
        features.put("largeStreams", Bodies::largeStreams);
        features.put("largeHandling", Bodies::largeHandling);
    }

    /** Sends it twice, persistent and not, and shows what comes. */
    static void through(Session session, String label, Message message) throws Exception {
        Queue queue = session.createQueue(fresh("bodies"));
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        producer.send(message, DeliveryMode.PERSISTENT, 4, 0);
        dump(label, consumer.receive(WAIT));
        producer.send(message, DeliveryMode.NON_PERSISTENT, 7, 0);
        Message second = consumer.receive(WAIT);
        say("  second: mode " + second.getJMSDeliveryMode() + ", priority " + second.getJMSPriority());
        body(second);
        producer.close();
        consumer.close();
    }

    static void bodies() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        through(session, "message", session.createMessage());
        through(session, "text", session.createTextMessage("plain"));
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBoolean(true);
        bytes.writeByte((byte) -7);
        bytes.writeBytes(new byte[] {1, 2, 3});
        bytes.writeChar('\u20ac');
        bytes.writeDouble(Math.PI);
        bytes.writeFloat(-0.5f);
        bytes.writeInt(Integer.MIN_VALUE);
        bytes.writeLong(Long.MAX_VALUE);
        bytes.writeShort((short) -2);
        bytes.writeUTF("na\u00efve \u20ac \ud83d\ude00");
        through(session, "bytes", bytes);
        through(session, "no bytes", session.createBytesMessage());
        MapMessage map = session.createMapMessage();
        map.setBoolean("boolean", true);
        map.setByte("byte", (byte) 5);
        map.setBytes("bytes", new byte[] {9, 8});
        map.setBytes("no bytes", new byte[0]);
        map.setChar("char", 'x');
        map.setDouble("double", 1e300);
        map.setFloat("float", 1.5f);
        map.setInt("int", -1);
        map.setLong("long", Long.MIN_VALUE);
        map.setShort("short", Short.MAX_VALUE);
        map.setString("string", "s\u00fc\u00df");
        map.setString("null", null);
        map.setString("empty", "");
        through(session, "map", map);
        through(session, "empty map", session.createMapMessage());
        StreamMessage stream = session.createStreamMessage();
        stream.writeBoolean(false);
        stream.writeByte((byte) 6);
        stream.writeBytes(new byte[] {4, 5});
        stream.writeChar('y');
        stream.writeDouble(-1e-300);
        stream.writeFloat(2.5f);
        stream.writeInt(77);
        stream.writeLong(-78L);
        stream.writeShort((short) 79);
        stream.writeString("t\u0000u");
        stream.writeString(null);
        stream.writeString("");
        through(session, "stream", stream);
        through(session, "object", session.createObjectMessage(new ArrayList<>(Arrays.asList("a", 1, 2.0))));
        through(session, "no object", session.createObjectMessage());
        connection.close();
    }

    static void texts() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        char[] many = new char[5000];
        Arrays.fill(many, 'm');
        char[] wide = new char[4000];
        Arrays.fill(wide, '\u20ac');
        String[] all = {null, "", "x", "12345678", "123456789", "\u0000", "\u00e9\u20ac", "\ud83d\ude00", "lone \ud83d", new String(many), new String(wide)};
        for (String text : all) through(session, "text", session.createTextMessage(text));
        connection.close();
    }

    static void properties() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Message message = session.createMessage();
        message.setBooleanProperty("aBoolean", true);
        message.setByteProperty("aByte", (byte) 1);
        message.setShortProperty("aShort", (short) 2);
        message.setIntProperty("anInt", 3);
        message.setLongProperty("aLong", 4L);
        message.setFloatProperty("aFloat", 5.5f);
        message.setDoubleProperty("aDouble", 6.25);
        message.setStringProperty("aString", "seven \u00fc \ud83d\ude00");
        message.setStringProperty("anEmpty", "");
        message.setStringProperty("aNull", null);
        message.setObjectProperty("anObject", Integer.valueOf(8));
        message.setStringProperty("JMSXGroupID", "g");
        message.setIntProperty("JMSXGroupSeq", 9);
        message.setStringProperty("_AMQ_LVQ_NAME", "key");
        for (int i = 0; i < 40; i++) message.setIntProperty("n" + i, i);
        through(session, "properties", message);
        Message received = session.createMessage();
        attempt("bad name", () -> { received.setStringProperty("no-name", "x"); return null; });
        attempt("bad type", () -> { received.setObjectProperty("list", new ArrayList<String>()); return null; });
        connection.close();
    }

    static void headers() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Message message = session.createTextMessage("h");
        message.setJMSCorrelationID("app specific");
        message.setJMSType("kind");
        message.setJMSReplyTo(session.createQueue("answers"));
        through(session, "to a queue", message);
        message.setJMSReplyTo(session.createTopic("announcements"));
        message.setJMSCorrelationIDAsBytes(new byte[] {0, 1, -1});
        through(session, "to a topic", message);
        message.setJMSReplyTo(session.createTemporaryQueue());
        message.setJMSCorrelationID("ID:12345678-1234-1234-1234-123456789abc");
        through(session, "to a temporary queue", message);
        message.setJMSReplyTo(session.createTemporaryTopic());
        message.setJMSCorrelationID(null);
        through(session, "to a temporary topic", message);
        Queue queue = session.createQueue(fresh("headers"));
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (int priority = 0; priority < 10; priority += 3) {
            producer.send(session.createMessage(), DeliveryMode.NON_PERSISTENT, priority, 10_000);
            dump("priority " + priority, consumer.receive(WAIT));
        }
        producer.setDisableMessageID(true);
        producer.setDisableMessageTimestamp(true);
        producer.send(session.createTextMessage("anonymous"));
        dump("without id and timestamp", consumer.receive(WAIT));
        connection.close();
    }

    static byte[] noise(int size) {
        byte[] made = new byte[size];
        new Random(size).nextBytes(made);
        return made;
    }

    static String prose(int size) {
        StringBuilder made = new StringBuilder();
        while (made.length() < size) made.append("the quick brown fox \u00e9 ").append(made.length());
        made.setLength(size);
        return made.toString();
    }

    static void large() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        for (int size : new int[] {102_000, 102_400, 250_000, 1_048_576}) {
            BytesMessage bytes = session.createBytesMessage();
            bytes.writeBytes(noise(size));
            bytes.setStringProperty("tag", "t" + size);
            through(session, "bytes of " + size, bytes);
        }
        through(session, "text of 200000", session.createTextMessage(prose(200_000)));
        MapMessage map = session.createMapMessage();
        map.setBytes("big", noise(150_000));
        map.setString("small", "s");
        Queue queue = session.createQueue(fresh("map"));
        session.createProducer(queue).send(map);
        MapMessage back = (MapMessage) session.createConsumer(queue).receive(WAIT);
        say("map " + Arrays.hashCode(back.getBytes("big")) + " " + back.getString("small"));
        connection.close();
        Connection small = connect("minLargeMessageSize=500&blockOnDurableSend=false");
        session = auto(small);
        through(session, "text of 3000 with a low limit", session.createTextMessage(prose(3_000)));
        small.close();
    }

    static void largeCompressed() throws Exception {
        Connection connection = connect("compressLargeMessage=true");
        Session session = auto(connection);
        through(session, "text that gets small", session.createTextMessage(prose(300_000)));
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(noise(300_000));
        through(session, "bytes that stay large", bytes);
        connection.close();
    }

    static void largeStreams() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("streams"));
        byte[] content = noise(3_000_000);
        BytesMessage message = session.createBytesMessage();
        message.setObjectProperty("JMS_AMQ_InputStream", (InputStream) new ByteArrayInputStream(content));
        message.setStringProperty("name", "streamed");
        session.createProducer(queue).send(message);
        MessageConsumer consumer = session.createConsumer(queue);
        Message received = consumer.receive(WAIT);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        received.setObjectProperty("JMS_AMQ_SaveStream", out);
        say("saved " + out.size() + ", the same " + Arrays.equals(out.toByteArray(), content) + ", " + received.getStringProperty("name"));
        connection.close();
    }

    static void largeHandling() throws Exception {
        Connection connection = connect();
        Session session = transacted(connection);
        String name = fresh("large");
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage(prose(150_000)));
        session.rollback();
        say("rolled back " + seen(name));
        producer.send(session.createTextMessage(prose(150_000)));
        producer.send(session.createTextMessage("small"));
        producer.send(session.createTextMessage(prose(160_000)));
        session.commit();
        say("committed " + seen(name));
        MessageConsumer consumer = session.createConsumer(queue);
        say("first " + texts(consumer, 3));
        session.rollback();
        say("again " + texts(consumer, 3));
        session.commit();
        say("left " + left(name));
        Session other = auto(connection);
        Topic topic = session.createTopic(fresh("largeTopic"));
        MessageConsumer one = other.createConsumer(topic), two = other.createConsumer(topic, "tag = 'x'");
        List<Message> sent = new ArrayList<>();
        for (String tag : new String[] {"x", "y"}) {
            TextMessage text = other.createTextMessage(prose(120_000));
            text.setStringProperty("tag", tag);
            other.createProducer(topic).send(text);
            sent.add(text);
        }
        say("subscribers " + texts(one, 2) + " " + texts(two, 1));
        MessageProducer expiring = other.createProducer(queue);
        expiring.send(other.createTextMessage(prose(130_000)), DeliveryMode.PERSISTENT, 4, 50);
        Thread.sleep(200);
        say("expired " + left(name));
        connection.close();
    }
}
