import java.io.BufferedReader;
import java.io.InputStreamReader;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * A client with a list of brokers. For each line on standard input it sends a message, waits for the confirmation,
 * receives that very message, and prints "works" and the address of the broker it is connected to.
 *
 * Argument: URL. Ends with the input.
 */
public class Failover {
    public static void main(String[] arguments) throws Exception {
        ActiveMQConnection connection =
            (ActiveMQConnection) new ActiveMQConnectionFactory(arguments[0]).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("bench.failover.java");
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (int round = 0; input.readLine() != null; round++) {
            producer.send(session.createTextMessage("round " + round));
            while (true) {
                Message message = consumer.receive(30_000);
                if (message == null) {
                    System.out.println("FAILED: no message came");
                    System.exit(1);
                }
                if (((TextMessage) message).getText().equals("round " + round)) break;
            }
            System.out.println("works " + connection.getTransport().getRemoteAddress());
        }
        System.exit(0);
    }
}
