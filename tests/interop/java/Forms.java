import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Maps and objects of all kinds, for STOMP clients that ask for them in one of ActiveMQ's forms; and what those send. */
public class Forms {
    static final int DRAWN = 60;
    static final String LETTERS = "abcXYZ019 _-./<>&\"'\\\u00e4\u20ac\n\t\r\u0001\u007f\u0085\u2028";
    static Session session;

    public static void main(String[] args) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(args[0]).createConnection();
        connection.start();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        if (args[1].equals("say")) for (int i = 2; i < args.length; i++) say(args[i]);
        if (args[1].equals("hear")) hear(args[2], Integer.parseInt(args[3]));
        connection.close();
    }

    static void say(String name) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        producer.send(ofEachType());
        producer.send(session.createMapMessage());
        for (int size = 1; size < 4; size++) producer.send(ofTexts(size));
        producer.send(ofTexts(60));
        producer.send(ofReals());
        producer.send(ofNumbersAsText());
        producer.send(nested());
        Random random = new Random(7);
        for (int i = 0; i < DRAWN; i++) producer.send(drawn(random));
        Object[] objects = {"a string", "", 7, 7L, (short) 7, (byte) 7, 'c', true, 1.5, 1.5f};
        for (Object object : objects) producer.send(session.createObjectMessage((java.io.Serializable) object));
        producer.send(session.createTextMessage("text"));
        producer.send(session.createMessage());
        BytesMessage octets = session.createBytesMessage();
        octets.writeBytes(new byte[] {1, 2});
        producer.send(octets);
        producer.close();
    }

    static MapMessage ofEachType() throws Exception {
        MapMessage map = session.createMapMessage();
        map.setString("text", "a b\u00e4\u20ac <&>\"'/\\\n\t\r\u0001x");
        map.setInt("int", 5);
        map.setLong("long", 1L << 40);
        map.setShort("short", (short) 3);
        map.setByte("byte", (byte) -1);
        map.setBoolean("boolean", true);
        map.setChar("char", 'c');
        map.setChar("zero", '\0');
        map.setDouble("double", 1.5);
        map.setFloat("float", 1e10f);
        map.setBytes("octets", new byte[] {0, 1, (byte) 255});
        map.setString("null", null);
        map.setString("empty", "");
        map.setStringProperty("property", "x");
        map.setIntProperty("number", 3);
        map.setJMSType("t");
        map.setJMSCorrelationID("c");
        return map;
    }

    static MapMessage ofTexts(int size) throws Exception {
        MapMessage map = session.createMapMessage();
        for (int i = 0; i < size; i++) map.setString("key" + i * 7919, "v" + i);
        return map;
    }

    static MapMessage ofReals() throws Exception {
        MapMessage map = session.createMapMessage();
        double[] reals = {0, -0.0, 0.1, 3, 1e7, 1e-5, 0.001, 1e21, 12345.125, 9999999.5, 1e100, Double.NaN,
            Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.MAX_VALUE};
        for (double real : reals) {
            map.setDouble("d" + real, real);
            map.setFloat("f" + real, (float) real);
        }
        return map;
    }

    static MapMessage ofNumbersAsText() throws Exception {
        String[] texts = {"17", "-7", "+7", "007", "-0", "0", "1.50", "1.5", "-1.5", "1.0", "-0.0", "1e5", "1.0E10", "1.0E-5",
            ".5", "5.", "1.5f", "0x10", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "NaN", "true",
            "false", "TRUE", "null", "{a:1}", "[1]", " 1", "1 ", "-", ".", "E", "1.2.3", "1E5E5", "\u0661"};
        MapMessage map = session.createMapMessage();
        for (String text : texts) map.setString(text, text);
        return map;
    }

    static MapMessage nested() throws Exception {
        Map<String, Object> inner = new HashMap<>();
        inner.put("x", 1);
        inner.put("y", Arrays.asList("p", 2L, null, true));
        MapMessage map = session.createMapMessage();
        map.setObject("nested", inner);
        map.setObject("list", new ArrayList<Object>(Arrays.asList(1, "z", new ArrayList<Object>(), 2, inner, inner)));
        map.setObject("empty", new HashMap<String, Object>());
        return map;
    }

    static MapMessage drawn(Random random) throws Exception {
        MapMessage map = session.createMapMessage();
        for (int i = random.nextInt(30); i > 0; i--) {
            String key = "k" + text(random);
            switch (random.nextInt(6)) {
                case 0: map.setInt(key, random.nextInt()); break;
                case 1: map.setLong(key, random.nextLong()); break;
                case 2: map.setDouble(key, random.nextInt(1 << 20) / 8.0); break;
                case 3: map.setBoolean(key, random.nextBoolean()); break;
                default: map.setString(key, text(random));
            }
        }
        return map;
    }

    static String text(Random random) {
        StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(8); i > 0; i--) text.append(LETTERS.charAt(random.nextInt(LETTERS.length())));
        return text.toString();
    }

    static void hear(String name, int count) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        for (int i = 0; i < count; i++) System.out.println("heard " + line(consumer.receive(10_000)));
    }

    static String line(Message message) throws Exception {
        if (message == null) return "nothing";
        String kind = message.getClass().getSimpleName();
        Object body = "";
        if (message instanceof TextMessage) body = ((TextMessage) message).getText();
        if (message instanceof BytesMessage) body = ((BytesMessage) message).getBodyLength();
        if (message instanceof ObjectMessage) body = shown(((ObjectMessage) message).getObject());
        if (message instanceof MapMessage) {
            TreeMap<String, String> entries = new TreeMap<>();
            for (Enumeration<?> names = ((MapMessage) message).getMapNames(); names.hasMoreElements(); ) {
                String key = (String) names.nextElement();
                entries.put(key, shown(((MapMessage) message).getObject(key)));
            }
            body = entries;
        }
        TreeSet<String> properties = new TreeSet<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements(); ) {
            String key = (String) names.nextElement();  // the words of an error are each broker's own
            properties.add(key.endsWith("-error") ? key : key + "=" + message.getObjectProperty(key));
        }
        return kind + " | " + body + " | " + properties;
    }

    static String shown(Object value) {
        if (value instanceof Map) {
            TreeMap<String, String> entries = new TreeMap<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) entries.put((String) entry.getKey(), shown(entry.getValue()));
            return entries.toString();
        }
        if (value instanceof List) {
            List<String> all = new ArrayList<>();
            for (Object each : (List<?>) value) all.add(shown(each));
            return all.toString();
        }
        if (value instanceof Character && (Character) value == 0) return "NUL:Character";
        return value + (value == null ? "" : ":" + value.getClass().getSimpleName());
    }
}
