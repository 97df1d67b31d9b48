import javax.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Comes in by the mechanism that the URL names, sends to itself, and says what came; or says that it may not come in. */
public class Proves {
    public static void main(String[] arguments) throws Exception {
        for (int at = 1; at < arguments.length; at += 2) {
            JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
            try (Connection connection = factory.createConnection(arguments[at], arguments[at + 1])) {
                connection.start();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                Queue queue = session.createQueue("proved");
                session.createProducer(queue).send(session.createTextMessage("hello"));
                System.out.println(((TextMessage) session.createConsumer(queue).receive(20000)).getText());
            } catch (JMSSecurityException refused) {
                System.out.println("refused");
            }
        }
    }
}
