import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Sends to a queue while brokers come and go, and says what it was promised, a line for each batch of five:
 * "kept N.A" (N: batch, A: attempt), "rolled-back N.A", or "in-doubt N.A" where the client cannot know.
 * Arguments: URL, queue, "transacted" or "single", number of batches.
 */
public class Sender {
    public static void main(String[] args) throws Exception {
        boolean transacted = args[2].equals("transacted");
        int batches = Integer.parseInt(args[3]);
        Connection connection = new ActiveMQConnectionFactory(args[0]).createConnection();
        connection.start();
        Session session = connection.createSession(transacted, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(args[1]));
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        for (int batch = 0; batch < batches; batch++) {
            for (int attempt = 0; ; attempt++) {
                String name = batch + "." + attempt;
                try {
                    for (int part = 0; part < 5; part++) producer.send(session.createTextMessage(name + "." + part));
                    if (transacted) session.commit();
                    System.out.println("kept " + name);
                    System.out.flush();
                    break;
                } catch (JMSException problem) {
                    boolean doubt = String.valueOf(problem.getMessage()).contains("in doubt");
                    System.out.println((doubt ? "in-doubt " : "rolled-back ") + name);
                    System.out.flush();
                    if (transacted && !doubt) try { session.rollback(); } catch (JMSException over) { }
                }
            }
            Thread.sleep(8);
        }
        connection.close();
        System.out.println("done");
    }
}
