import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnection;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.activemq.artemis.core.client.impl.ClientSessionInternal;

/**
 * Connects by a router as the users 0-client, 1-client, ...: prints the port of the broker that serves each, or the refusal.
 *
 * Not by client ids: a redirected client that is quick creates its session again, and then says no client id.
 */
public class Routed {
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < Integer.parseInt(arguments[1]); i++) {
            try (Connection connection = new ActiveMQConnectionFactory(arguments[0]).createConnection(i + "-client", "p")) {
                connection.start();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageProducer producer = session.createProducer(session.createQueue("routed"));
                producer.send(session.createTextMessage("from " + i));
                ClientSessionInternal first = (ClientSessionInternal) ((ActiveMQConnection) connection).getInitialSession();
                String place = first.getConnection().getTransportConnection().getRemoteAddress();
                System.out.println(i + "-client " + place.substring(place.lastIndexOf(':') + 1));
            } catch (JMSException refused) {
                System.out.println(i + "-client refused: " + refused.getMessage());
            }
        }
        System.out.println("end");
    }
}
