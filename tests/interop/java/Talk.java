import java.util.Enumeration;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** The Java side of a talk with a STOMP client: says text, octets and nothing, hears, asks and answers; prints it. */
public class Talk {
    static Session session;

    public static void main(String[] args) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(args[0]).createConnection();
        connection.start();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        if (args[1].equals("say")) say(args[2]);
        if (args[1].equals("hear")) hear(args[2], Integer.parseInt(args[3]));
        if (args[1].equals("ask")) ask(args[2]);
        if (args[1].equals("serve")) serve(args[2]);
        connection.close();
    }

    static void say(String name) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.send(session.createTextMessage("text \u00e4\u20ac"));
        BytesMessage octets = session.createBytesMessage();
        octets.writeBytes(new byte[] {0, 1, (byte) 0xff});
        producer.send(octets);
        producer.send(session.createMessage());
    }

    static void hear(String name, int count) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        for (int i = 0; i < count; i++) System.out.println("heard " + line(consumer.receive(5000)));
    }

    static String line(Message message) throws Exception {
        if (message == null) return "nothing";
        TreeMap<String, Object> properties = new TreeMap<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements(); ) {
            String name = (String) names.nextElement();
            properties.put(name, message.getObjectProperty(name) + ":" + message.getObjectProperty(name).getClass().getSimpleName());
        }
        String body = "";
        if (message instanceof TextMessage) body = ((TextMessage) message).getText();
        if (message instanceof BytesMessage) {
            byte[] octets = new byte[(int) ((BytesMessage) message).getBodyLength()];
            ((BytesMessage) message).readBytes(octets);
            body = java.util.Arrays.toString(octets);
        }
        if (message instanceof MapMessage) {
            TreeMap<String, Object> entries = new TreeMap<>();
            for (Enumeration<?> names = ((MapMessage) message).getMapNames(); names.hasMoreElements(); ) {
                String name = (String) names.nextElement();
                Object value = ((MapMessage) message).getObject(name);
                entries.put(name, value + ":" + (value == null ? "" : value.getClass().getSimpleName()));
            }
            body = entries.toString();
        }
        if (message instanceof ObjectMessage) body = "object";
        return message.getClass().getSimpleName() + " | " + body + " | " + message.getJMSCorrelationID() + " " + message.getJMSType() + " " + properties;
    }

    static void ask(String name) throws Exception {
        Destination replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        TextMessage question = session.createTextMessage("question");
        question.setJMSReplyTo(replies);
        question.setJMSCorrelationID("c-1");
        session.createProducer(session.createQueue(name)).send(question);
        System.out.println("answered " + line(consumer.receive(10_000)));
    }

    static void serve(String name) throws Exception {
        Message question = session.createConsumer(session.createQueue(name)).receive(10_000);
        System.out.println("asked " + line(question));
        TextMessage answer = session.createTextMessage("answer");
        answer.setJMSCorrelationID(question.getJMSCorrelationID());
        session.createProducer(question.getJMSReplyTo()).send(answer);
    }
}
