import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.*;

/**
 * A transacted producer and a transacted consumer that go on while somebody cuts their connections or kills the broker.
 *
 * Arguments: URL for both. The line "at" on standard input is answered by how much both have done, "at NUMBER"; at any
 * other line it ends once everything was received, and prints what became of all messages, and which exceptions were
 * seen. Each batch is one transaction. A commit whose outcome is not known is done again: each message carries a
 * duplicate id, so that the broker refuses what it has. A message that comes after the commit of its receipt was
 * answered came twice.
 */
public class Rounds extends Kit {
    static final int BATCH = 5;
    static final int AHEAD = 2000; // messages that the producer may be ahead: the consumer is slower, and must end some day
    static volatile boolean enough;
    static volatile boolean produced; // the last batch may wait for an answer for long, and comes then
    static volatile int sent;
    static final Map<Integer, String> fates = new ConcurrentHashMap<>();
    static final Map<String, AtomicInteger> problems = new ConcurrentHashMap<>();
    static final AtomicInteger doubled = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        url = args[0];
        Thread producer = new Thread(Rounds::produce), consumer = new Thread(Rounds::consume);
        consumer.start();
        producer.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null && line.equals("at"); ) say("at " + Math.min(sent, fates.size()));
        enough = true;
        producer.join(60_000);
        consumer.join(60_000);
        int lost = 0, unknown = 0;
        for (int number = 0; number < sent; number++) {
            String fate = fates.get(number);
            if (fate == null) {
                lost++;
                System.err.println("lost " + number);
            }
            else if (!fate.equals("settled")) unknown++;
        }
        say("sent " + (sent > 0) + " lost " + lost + " doubled " + doubled + " stuck " + (producer.isAlive() || consumer.isAlive()));
        System.err.println("sent " + sent + ", settled without an answer " + unknown + ", " + new TreeMap<>(problems));
        System.exit(0);
    }

    static void saw(String where, Throwable problem) {
        System.err.println(System.currentTimeMillis() + " at " + sent + " " + where + ": " + problem(problem));
        problems.computeIfAbsent(where + ": " + problem(problem), key -> new AtomicInteger()).incrementAndGet();
    }

    interface Work { void with(Session session) throws Exception; }

    /** Works with a session, and with a new connection whenever that failed for good. */
    static void again(String name, Work work) {
        while (true) {
            try (Connection connection = connect()) {
                work.with(connection.createSession(true, Session.SESSION_TRANSACTED));
                return;
            } catch (Exception problem) {
                saw(name, problem);
                pause();
            }
        }
    }

    static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException nobody) {
            throw new RuntimeException(nobody);
        }
    }

    static void produce() {
        again("producer", session -> {
            MessageProducer producer = session.createProducer(session.createQueue("rounds"));
            while (!enough) {
                if (sent - fates.size() > AHEAD) {
                    pause();
                    continue;
                }
                batch(session, producer);
                if (sent == 0) say("going");
                sent += BATCH;
            }
        });
        produced = true;
    }

    /** Sends the batch until the broker has it. */
    static void batch(Session session, MessageProducer producer) throws Exception {
        for (int attempt = 0; attempt < 2000; attempt++) {
            try {
                for (int number = sent; number < sent + BATCH; number++) {
                    TextMessage message = session.createTextMessage("" + number);
                    message.setStringProperty("_AMQ_DUPL_ID", "d" + number);
                    producer.send(message);
                }
                session.commit();
                return;
            } catch (JMSException problem) {
                saw("send", problem);
                if (problem(problem).endsWith("DUPLICATE_ID_REJECTED")) return; // all of it was committed before
                if (problem(problem).endsWith("OBJECT_CLOSED") || problem instanceof javax.jms.IllegalStateException) throw problem;
                try {
                    session.rollback();
                } catch (JMSException nothing) {
                    saw("rollback", nothing);
                }
                pause();
            }
        }
        throw new JMSException("a batch was never taken");
    }

    static void consume() {
        again("consumer", session -> {
            MessageConsumer consumer = session.createConsumer(session.createQueue("rounds"));
            int quiet = 0;
            while (!(produced && fates.size() >= sent && quiet > 3) && quiet < 20) {
                List<Integer> taken = new ArrayList<>();
                try {
                    for (Message message; taken.size() < 3 && (message = consumer.receive(250)) != null; ) taken.add(Integer.parseInt(((TextMessage) message).getText()));
                    if (taken.isEmpty()) {
                        if (produced) quiet++;
                        continue;
                    }
                    quiet = 0;
                    session.commit();
                    for (int number : taken) if ("settled".equals(fates.put(number, "settled"))) doubled.incrementAndGet();
                } catch (JMSException problem) {
                    saw("receive", problem);
                    for (int number : taken) if ("settled".equals(fates.get(number))) doubled.incrementAndGet(); else fates.put(number, "unknown");
                    if (problem(problem).endsWith("OBJECT_CLOSED") || problem instanceof javax.jms.IllegalStateException) throw problem;
                    try {
                        session.rollback();
                    } catch (JMSException nothing) {
                        saw("rollback", nothing);
                    }
                }
            }
        });
    }
}
