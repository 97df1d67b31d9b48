import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Messages a second from one producer to one consumer, each on a connection of its own: the whole way, 1 KiB texts. */
public class Throughput {
    public static void main(String[] args) throws Exception {
        String url = args[0];
        boolean persistent = args[1].equals("persistent");
        int count = Integer.parseInt(args[2]);
        run(url, persistent, count / 4); // lets the machine compile
        System.out.println((long) run(url, persistent, count));
        System.exit(0);
    }

    static double run(String url, boolean persistent, int count) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url + "?jms.useAsyncSend=true");
        Connection reading = factory.createConnection();
        reading.start();
        Session in = reading.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = in.createQueue("throughput." + persistent);
        MessageConsumer consumer = in.createConsumer(queue);
        Connection writing = factory.createConnection();
        writing.start();
        Session out = writing.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = out.createProducer(queue);
        producer.setDeliveryMode(persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        String text = "x".repeat(1024);
        long start = System.nanoTime();
        Thread sender = new Thread(() -> {
            try {
                for (int i = 0; i < count; i++) producer.send(out.createTextMessage(text));
            } catch (JMSException problem) {
                problem.printStackTrace();
            }
        });
        sender.start();
        for (int i = 0; i < count; i++) if (consumer.receive(20_000) == null) throw new Exception("only " + i + " came");
        double rate = count / ((System.nanoTime() - start) / 1e9);
        reading.close();
        writing.close();
        return rate;
    }
}
