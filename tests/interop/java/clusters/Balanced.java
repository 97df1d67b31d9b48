import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** Two nodes of a cluster, A and B: what is sent to A is read where readers are. Prints what was seen. */
public class Balanced {
    static final long PATIENCE = 20_000;

    /** Counts what a destination gives on one node. */
    static final class Reader implements AutoCloseable {
        final AtomicInteger count = new AtomicInteger();
        final Connection connection;

        Reader(String url, String name, boolean topic, String selector) throws Exception {
            connection = new ActiveMQConnectionFactory(url).createConnection("u", "p");
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Destination where = topic ? session.createTopic(name) : session.createQueue(name);
            MessageConsumer consumer = session.createConsumer(where, selector);
            consumer.setMessageListener(message -> count.incrementAndGet());
            connection.start();
        }

        @Override public void close() throws Exception {
            connection.close();
        }
    }

    static void send(String url, String name, boolean topic, int count, int octets) throws Exception {
        try (Connection connection = new ActiveMQConnectionFactory(url).createConnection("u", "p")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(topic ? session.createTopic(name) : session.createQueue(name));
            for (int i = 0; i < count; i++) {
                var message = session.createBytesMessage();
                message.writeBytes(new byte[octets]);
                message.setIntProperty("i", i);
                producer.send(message);
            }
        }
    }

    static String await(int expected, Reader... readers) throws Exception {
        long until = System.currentTimeMillis() + PATIENCE;
        int total = 0;
        while (total < expected && System.currentTimeMillis() < until) {
            Thread.sleep(20);
            total = 0;
            for (Reader reader : readers) {
                total += reader.count.get();
            }
        }
        Thread.sleep(300); // what comes twice comes soon
        StringBuilder text = new StringBuilder();
        for (Reader reader : readers) {
            text.append(' ').append(reader.count.get());
        }
        return text.toString();
    }

    public static void main(String[] urls) throws Exception {
        String a = urls[0];
        String b = urls[1];
        try (ActiveMQConnectionFactory both = new ActiveMQConnectionFactory("(" + a + "," + b + ")?ha=true")) {
            try (Connection connection = both.createConnection("u", "p")) {
                connection.start();
                long until = System.currentTimeMillis() + PATIENCE;
                while (both.getServerLocator().getTopology().getMembers().size() < 2 && System.currentTimeMillis() < until) {
                    Thread.sleep(50);
                }
                System.out.println("members " + both.getServerLocator().getTopology().getMembers().size());
            }
        }
        try (Reader here = new Reader(a, "both", false, null); Reader there = new Reader(b, "both", false, null)) {
            Thread.sleep(1500);
            send(a, "both", false, 20, 10);
            System.out.println("both" + await(20, here, there));
            here.close();
            Thread.sleep(500);
            send(a, "both", false, 10, 10);
            System.out.println("there" + await(20, there));
        }
        try (Reader there = new Reader(b, "odd", false, "i = 3 OR i = 5"); Reader here = new Reader(a, "odd", false, null)) {
            Thread.sleep(1000);
            send(a, "odd", false, 10, 10);
            System.out.println("filtered total " + (await(10, here, there).isEmpty() ? 0 : here.count.get() + there.count.get())
                + " there at most two " + (there.count.get() <= 2));
        }
        try (Reader one = new Reader(b, "news", true, null); Reader two = new Reader(b, "news", true, null);
             Reader here = new Reader(a, "news", true, null)) {
            Thread.sleep(1000);
            send(a, "news", true, 5, 10);
            System.out.println("topic" + await(15, one, two, here));
        }
        try (Reader there = new Reader(b, "large", false, null)) {
            Thread.sleep(1000);
            send(a, "large", false, 3, 1_000_000);
            System.out.println("large" + await(3, there));
        }
        System.out.println("end");
        System.exit(0);
    }
}
