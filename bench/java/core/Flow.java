import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * Texts from some producers through one queue to as many consumers, each on a connection of its own, AUTO.
 *
 * Arguments: URL, "persistent" or "non-persistent", queue, seconds to warm up, seconds to measure, producers (and
 * consumers), length. Prints one line of JSON. Every text carries its producer and its number: each must come once, in
 * full length, and to one consumer in rising order, or the program exits with 1.
 */
public class Flow {
    static final int DIGITS = 10, NAME = 2;
    static final long UNDER_WAY = 20_000; // as the loads over STOMP: nobody measures the paging of a growing backlog
    static final long PATIENCE_MS = 60_000;

    static final AtomicLong sent = new AtomicLong(), received = new AtomicLong();
    static volatile boolean enough, allSent;
    static volatile Exception problem;
    static List<AtomicLong> sums = new ArrayList<>();
    static List<AtomicLong> counts = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        int mode = arguments[1].equals("persistent") ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT;
        long warm = (long) (Double.parseDouble(arguments[3]) * 1e9), measure = (long) (Double.parseDouble(arguments[4]) * 1e9);
        int pairs = Integer.parseInt(arguments[5]), length = Integer.parseInt(arguments[6]);
        List<Thread> senders = new ArrayList<>(), receivers = new ArrayList<>();
        List<Connection> connections = new ArrayList<>();
        for (int i = 0; i < pairs; i++) {
            sums.add(new AtomicLong());
            counts.add(new AtomicLong());
        }
        for (int i = 0; i < pairs; i++) {
            Connection reading = new ActiveMQConnectionFactory(arguments[0]).createConnection();
            reading.start();
            connections.add(reading);
            Session session = reading.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(arguments[2]));
            receivers.add(new Thread(() -> receive(consumer, pairs, length)));
        }
        for (int i = 0; i < pairs; i++) {
            Connection writing = new ActiveMQConnectionFactory(arguments[0]).createConnection();
            connections.add(writing);
            int number = i;
            senders.add(new Thread(() -> send(writing, arguments[2], mode, number, pairs, length)));
        }
        for (Thread each : receivers) each.start();
        for (Thread each : senders) each.start();
        LockSupport.parkNanos(warm);
        long before = received.get(), start = System.nanoTime();
        for (long left = measure; left > 0 && problem == null; left = start + measure - System.nanoTime()) LockSupport.parkNanos(left);
        double seconds = (System.nanoTime() - start) / 1e9;
        long counted = received.get() - before;
        enough = true;
        for (Thread each : senders) each.join(PATIENCE_MS);
        allSent = true;
        for (Thread each : receivers) each.join(PATIENCE_MS);
        if (problem == null && received.get() != sent.get()) problem = new Exception(received.get() + " of " + sent.get() + " came");
        for (int i = 0; i < pairs && problem == null; i++) {
            long many = counts.get(i).get();
            if (sums.get(i).get() != many * (many - 1) / 2) problem = new Exception("of producer " + i + " some came twice and others never");
        }
        if (problem != null) {
            System.err.println("FAILED: " + problem);
            System.exit(1);
        }
        for (Connection each : connections) each.close();
        System.out.printf("{\"messages_per_second\": %.1f, \"seconds\": %.3f, \"total_sent\": %d, \"total_received\": %d}%n", counted / seconds, seconds, sent.get(), received.get());
        System.exit(0);
    }

    static void send(Connection connection, String queue, int mode, int name, int pairs, int length) {
        try {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            producer.setDeliveryMode(mode);
            String filler = "x".repeat(length - DIGITS - NAME);
            for (long number = 0; !enough && problem == null; number++) {
                while (sent.get() - received.get() >= UNDER_WAY && !enough && problem == null) LockSupport.parkNanos(100_000);
                producer.send(session.createTextMessage(String.format("%02d", name) + digits(number) + filler));
                sent.incrementAndGet();
            }
        } catch (JMSException | RuntimeException failure) {
            problem = failure;
        }
    }

    static void receive(MessageConsumer consumer, int pairs, int length) {
        try {
            long[] last = new long[pairs];
            java.util.Arrays.fill(last, -1);
            long heard = System.nanoTime();
            while (problem == null && !(allSent && received.get() >= sent.get())) {
                Message message = consumer.receive(100);
                if (message == null) {
                    if (System.nanoTime() - heard > PATIENCE_MS * 1_000_000) throw new IllegalStateException("nothing came for a minute");
                    continue;
                }
                heard = System.nanoTime();
                String text = ((TextMessage) message).getText();
                int name = Integer.parseInt(text, 0, NAME, 10);
                long number = Long.parseLong(text, NAME, NAME + DIGITS, 10);
                if (text.length() != length || number <= last[name]) throw new IllegalStateException("after " + last[name] + " came " + number);
                last[name] = number;
                sums.get(name).addAndGet(number);
                counts.get(name).incrementAndGet();
                received.incrementAndGet();
            }
        } catch (JMSException | RuntimeException failure) {
            problem = failure;
        }
    }

    static String digits(long number) {
        char[] made = new char[DIGITS];
        for (int place = DIGITS - 1; place >= 0; place--, number /= 10) made[place] = (char) ('0' + number % 10);
        return new String(made);
    }
}
