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
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * 1 KiB texts from one producer through a queue to one consumer, each on a connection of its own, AUTO acknowledgement.
 *
 * Arguments: URL, "persistent" or "non-persistent", queue, seconds to warm up, seconds to measure. Prints one line of
 * JSON. Every text carries its number: each must come, once, in order and in full length, or the program exits with 1.
 */
public class Throughput {
    static final int LENGTH = 1024;
    static final int DIGITS = 10;
    static final long UNDER_WAY = 20_000; // as the loads over STOMP: nobody measures the paging of a growing backlog
    static final long PATIENCE_MS = 30_000;
    static final String FILLER = "x".repeat(LENGTH - DIGITS);

    static final AtomicLong sent = new AtomicLong();
    static final AtomicLong received = new AtomicLong();
    static volatile boolean enough;
    static volatile boolean allSent;
    static volatile Exception problem;

    public static void main(String[] arguments) throws Exception {
        boolean persistent = arguments[1].equals("persistent");
        long warm = (long) (Double.parseDouble(arguments[3]) * 1e9);
        long measure = (long) (Double.parseDouble(arguments[4]) * 1e9);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[0]);
        Connection reading = factory.createConnection();
        Connection writing = factory.createConnection();
        reading.start();
        writing.start();
        Session in = reading.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = in.createQueue(arguments[2]);
        MessageConsumer consumer = in.createConsumer(queue);
        Thread sender = new Thread(() -> send(writing, queue, persistent));
        sender.start();
        Thread receiver = new Thread(() -> receive(consumer));
        receiver.start();

        LockSupport.parkNanos(warm);
        long before = received.get();
        long start = System.nanoTime();
        for (long left = measure; left > 0 && problem == null; left = start + measure - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        long counted = received.get() - before;
        enough = true;
        sender.join(PATIENCE_MS);
        receiver.join(2 * PATIENCE_MS);
        if (problem == null && (sender.isAlive() || received.get() != sent.get())) {
            problem = new Exception(received.get() + " of " + sent.get() + " came");
        }
        if (problem == null && consumer.receive(200) != null) problem = new Exception("more came than was sent");
        if (problem != null) {
            System.err.println("FAILED: " + problem);
            System.exit(1);
        }
        reading.close();
        writing.close();
        System.out.printf(
            "{\"messages_per_second\": %.1f, \"seconds\": %.3f, \"total_sent\": %d, \"total_received\": %d}%n",
            counted / seconds, seconds, sent.get(), received.get());
        System.exit(0);
    }

    static void send(Connection connection, Queue queue, boolean persistent) {
        try {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
            for (long number = 0; !enough && problem == null; number++) {
                while (number - received.get() >= UNDER_WAY && !enough && problem == null) LockSupport.parkNanos(100_000);
                producer.send(session.createTextMessage(text(number)));
                sent.set(number + 1);
            }
            allSent = true;
        } catch (JMSException | RuntimeException failure) {
            problem = failure;
        }
    }

    static void receive(MessageConsumer consumer) {
        try {
            long number = 0;
            long last = System.nanoTime();
            while (problem == null && !(allSent && number == sent.get())) {
                Message message = consumer.receive(100);
                if (message != null) {
                    String text = ((TextMessage) message).getText();
                    if (text.length() != LENGTH || Long.parseLong(text, 0, DIGITS, 10) != number) {
                        throw new IllegalStateException("not number " + number + " but " + text.substring(0, DIGITS));
                    }
                    received.set(++number);
                    last = System.nanoTime();
                } else if (System.nanoTime() - last > PATIENCE_MS * 1_000_000) {
                    throw new IllegalStateException("only " + number + " came");
                }
            }
        } catch (JMSException | RuntimeException failure) {
            problem = failure;
        }
    }

    static String text(long number) {
        char[] digits = new char[DIGITS];
        for (int place = DIGITS - 1; place >= 0; place--, number /= 10) digits[place] = (char) ('0' + number % 10);
        return new String(digits).concat(FILLER);
    }
}
