import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSslConnectionFactory;

/** Who is let in by which certificate, or password, and what he may do then. */
public class Certified {
    /** Arguments: place over TLS, place without, trust store, then key stores ("none" for none). */
    public static void main(String[] args) throws Exception {
        for (int i = 3; i < args.length; i++) {
            String store = args[i];
            ActiveMQSslConnectionFactory factory = new ActiveMQSslConnectionFactory(args[0]);
            factory.setTrustStore(args[2]);
            factory.setTrustStorePassword("secret");
            factory.setTrustStoreType("PKCS12");
            if (!store.equals("none")) {
                factory.setKeyStore(store);
                factory.setKeyStorePassword("secret");
                factory.setKeyStoreType("PKCS12");
            }
            String title = store.substring(store.lastIndexOf('/') + 1);
            attempt(title, factory, null, null);
            attempt(title + " with a password", factory, "app", "secret");
        }
        ActiveMQConnectionFactory plain = new ActiveMQConnectionFactory(args[1]);
        attempt("plain", plain, null, null);
        attempt("plain with a password", plain, "app", "secret");
        attempt("plain with a wrong one", plain, "app", "guess");
        System.exit(0);
    }

    static void attempt(String title, ActiveMQConnectionFactory factory, String user, String password) {
        Connection connection = null;
        try {
            connection = factory.createConnection(user, password);
            connection.start();
            System.out.println(title + ": in");
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            for (String name : new String[] {"SHOP.own", "SECRET.other"}) {
                try {
                    MessageProducer producer = session.createProducer(session.createQueue(name));
                    producer.send(session.createTextMessage("x"));
                    System.out.println(title + ": sends to " + name);
                } catch (JMSException refused) {
                    System.out.println(title + ": " + refused.getMessage());
                }
            }
        } catch (JMSException refused) {
            System.out.println(title + ": " + refused.getClass().getSimpleName() + ": " + refused.getMessage());
        } finally {
            try {
                if (connection != null) connection.close();
            } catch (JMSException gone) {
                System.out.println(title + ": " + gone.getMessage());
            }
        }
    }
}
