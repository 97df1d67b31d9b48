import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** What waits on node A and is read on node B moves there, after the delay of its address. Prints what was seen. */
public class Moved {
    static final long PATIENCE = 15_000;
    static final long DELAY = Long.parseLong(System.getProperty("delay", "400"));

    static Connection connect(String url) throws Exception {
        return new ActiveMQConnectionFactory(url + "?consumerWindowSize=0").createConnection("u", "p");
    }

    static void send(String url, String name, boolean topic, int first, int count, int octets) throws Exception {
        try (Connection connection = connect(url)) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(topic ? session.createTopic(name) : session.createQueue(name));
            for (int i = first; i < first + count; i++) {
                BytesMessage message = session.createBytesMessage();
                message.writeBytes(new byte[octets]);
                message.setIntProperty("i", i);
                producer.send(message);
            }
        }
    }

    /** Reads up to that many, and then what comes beyond it within a moment. */
    static List<Integer> read(MessageConsumer consumer, int expected, int octets) throws Exception {
        List<Integer> got = new ArrayList<>();
        long until = System.currentTimeMillis() + PATIENCE;
        while (System.currentTimeMillis() < until) {
            Message message = consumer.receive(got.size() < expected ? 200 : 500);
            if (message != null) {
                long length = ((BytesMessage) message).getBodyLength();
                got.add(length == octets ? message.getIntProperty("i") : -1);
            } else if (got.size() >= expected) {
                break;
            }
        }
        return got;
    }

    static String told(List<Integer> got) {
        List<Integer> sorted = new ArrayList<>(got);
        Collections.sort(sorted);
        return got.size() + " in order " + got.equals(sorted);
    }

    static void queue(String a, String b, String name, int count, int octets) throws Exception {
        send(a, name, false, 0, count, octets);
        long began = System.nanoTime();
        try (Connection there = connect(b)) {
            Session session = there.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(name));
            there.start();
            Message first = consumer.receive(PATIENCE);
            boolean waited = System.nanoTime() - began >= (DELAY - 5) * 1_000_000;
            List<Integer> got = new ArrayList<>(List.of(first == null ? -2 : first.getIntProperty("i")));
            got.addAll(read(consumer, count - 1, octets));
            System.out.println(name + " " + told(got) + " after the delay " + waited);
        }
    }

    static void left(String a, String b, String name) throws Exception {
        try (Connection there = connect(b); Connection here = connect(a)) {
            Session near = here.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Destination queue = near.createQueue(name);
            MessageConsumer leaving = near.createConsumer(queue);
            here.start();
            send(a, name, false, 0, 20, 10);
            Message last = null;
            for (int i = 0; i < 5; i++) {
                last = leaving.receive(PATIENCE);
            }
            last.acknowledge();
            leaving.receive(PATIENCE); // and is not acknowledged: it comes back
            Session far = there.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = far.createConsumer(far.createQueue(name));
            there.start();
            here.close();
            List<Integer> got = read(consumer, 15, 10);
            System.out.println(name + " " + told(got) + " from " + (got.isEmpty() ? -1 : got.get(0)));
        }
    }

    static void durable(String a, String b, String name) throws Exception {
        try (Connection here = connect(a)) {
            here.setClientID("client");
            Session session = here.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createDurableSubscriber(session.createTopic(name), "sub").close();
        }
        send(a, name, true, 0, 10, 10);
        try (Connection there = connect(b)) {
            there.setClientID("client");
            Session session = there.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(session.createTopic(name), "sub");
            there.start();
            System.out.println(name + " " + told(read(consumer, 10, 10)));
        }
    }

    public static void main(String[] urls) throws Exception {
        String a = urls[0];
        String b = urls[1];
        try (ActiveMQConnectionFactory both = new ActiveMQConnectionFactory("(" + a + "," + b + ")?ha=true");
             Connection connection = both.createConnection("u", "p")) {
            connection.start();
            long until = System.currentTimeMillis() + PATIENCE;
            while (both.getServerLocator().getTopology().getMembers().size() < 2 && System.currentTimeMillis() < until) {
                Thread.sleep(50);
            }
        }
        Thread.sleep(1000);
        queue(a, b, "moved.backlog", 30, 10);
        queue(a, b, "moved.large", 3, 1_000_000);
        left(a, b, "moved.left");
        durable(a, b, "moved.news");
        System.out.println("end");
        System.exit(0);
    }
}
