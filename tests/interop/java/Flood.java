import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Sends non-persistent messages, which wait for no answer, to a queue that nobody reads. Arguments: URL, queue.
 * Prints "stopped" when none went out for a second, then how many another connection must take until one goes out.
 */
public class Flood {
    public static void main(String[] given) {
        try {
            flood(given);
        } catch (Exception problem) {
            problem.printStackTrace();
        }
        System.exit(0);
    }

    static void flood(String[] given) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(given[0]);
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(given[1]));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        AtomicInteger sent = new AtomicInteger();
        Thread sender = new Thread(() -> {
            try {
                while (true) {
                    producer.send(session.createTextMessage("x".repeat(1000)));
                    sent.incrementAndGet();
                }
            } catch (Exception problem) {
                problem.printStackTrace();
            }
        });
        sender.setDaemon(true);
        sender.start();
        int before = -1;
        for (int at = 0; at < 10 && sent.get() != before; at++) {
            before = sent.get();
            Thread.sleep(1000);
        }
        System.out.println(sent.get() == before ? "stopped" : "sent " + sent.get());
        Connection other = factory.createConnection();
        other.start();
        Session reading = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = reading.createConsumer(reading.createQueue(given[1]));
        int taken = 0;
        while (sent.get() == before && consumer.receive(2000) != null) taken++;
        Thread.sleep(200);
        System.err.println("sent " + before + ", taken " + taken);
        System.out.println(sent.get() > before ? "went on" : "stands still");
    }
}
