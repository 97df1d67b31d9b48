import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.transport.TransportListener;
import org.apache.activemq.transport.failover.FailoverTransport;

/**
 * Many listeners on one queue, each with a connection of its own: where they are connected, how often they moved, and
 * what they received. Arguments: URL of the listeners, URL of the producer, queue, listeners, ms that a message takes.
 * Prints "ready", then obeys lines on standard input:
 *
 *   send N     send N persistent messages in the background; prints nothing
 *   where      prints "where PORT=COUNT ..." of the listeners
 *   moves      prints "moves N interrupted M": new connections after the first, and callbacks that said so
 *   got        prints "got DISTINCT duplicates D sent S"
 *   end        ends
 */
public class Spread {
    static final Map<String, AtomicInteger> got = new ConcurrentHashMap<>();
    static final AtomicInteger interrupted = new AtomicInteger(), resumed = new AtomicInteger();
    static final AtomicInteger sent = new AtomicInteger();

    static ActiveMQConnection connect(String url) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
        connection.addTransportListener(new TransportListener() {
            public void onCommand(Object command) {}
            public void onException(IOException error) {}
            public void transportInterupted() { interrupted.incrementAndGet(); }
            public void transportResumed() { resumed.incrementAndGet(); }
        });
        connection.start();
        return connection;
    }

    static void send(ActiveMQConnection connection, String queue, int count) {
        new Thread(() -> {
            try {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageProducer producer = session.createProducer(session.createQueue(queue));
                for (int at = 0; at < count; at++)
                    producer.send(session.createTextMessage("m" + sent.getAndIncrement()));
                session.close();
            } catch (Exception problem) {
                problem.printStackTrace();
            }
        }).start();
    }

    public static void main(String[] args) throws Exception {
        String queue = args[2];
        int takes = Integer.parseInt(args[4]);
        List<ActiveMQConnection> listeners = new ArrayList<>();
        for (int at = 0; at < Integer.parseInt(args[3]); at++) {
            ActiveMQConnection connection = connect(args[0]);
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createConsumer(session.createQueue(queue)).setMessageListener(message -> {
                try {
                    got.computeIfAbsent(((TextMessage) message).getText(), key -> new AtomicInteger()).incrementAndGet();
                    Thread.sleep(takes);
                } catch (Exception problem) {
                    problem.printStackTrace();
                }
            });
            listeners.add(connection);
        }
        ActiveMQConnection sending = connect(args[1]);
        int first = resumed.get();
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null && !line.equals("end"); ) {
            if (line.startsWith("send ")) send(sending, queue, Integer.parseInt(line.substring(5)));
            if (line.equals("where")) {
                Map<Integer, Integer> places = new TreeMap<>();
                for (ActiveMQConnection each : listeners) {
                    FailoverTransport transport = each.getTransport().narrow(FailoverTransport.class);
                    java.net.URI place = transport.isConnected() ? transport.getConnectedTransportURI() : null;
                    if (place != null) places.merge(place.getPort(), 1, Integer::sum);
                }
                StringBuilder text = new StringBuilder("where");
                places.forEach((port, count) -> text.append(" " + port + "=" + count));
                System.out.println(text);
            }
            if (line.equals("moves")) System.out.println("moves " + (resumed.get() - first) + " interrupted " + interrupted);
            if (line.equals("got")) {
                int all = 0;
                for (AtomicInteger each : got.values()) all += each.get();
                System.out.println("got " + got.size() + " duplicates " + (all - got.size()) + " sent " + sent);
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
