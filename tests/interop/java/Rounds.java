import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.TransactionRolledBackException;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * A transacted producer and a transacted mover (receives from one queue, sends to another, in one transaction) under
 * failover, while somebody kills brokers. Prints "ready" once both have committed. The line "at" on standard input is
 * answered by how much both have done, "at NUMBER"; at any other line it lets the mover finish, and then prints what each
 * commit was reported as and what every queue holds:
 *
 *   committed|undone|doubtful BATCH     of the producer; BATCH:0 to BATCH:4 were sent
 *   moved committed|undone|doubtful BATCH:PART...   of the mover: what it received in one transaction
 *   out|left|dead BATCH:PART            what the target, the source and the dead letter queue hold
 */
public class Rounds {
    static final int BATCH = 5;
    static final int AHEAD = 2000; // messages that the producer may be ahead: the mover is slower, and must end some day
    static final long IDLE_MS = 1500; // after which the source counts as empty
    static final List<String> told = new ArrayList<>();
    static volatile boolean ending, produced;
    static final List<String> moves = new ArrayList<>();
    static volatile int batches, committed, committedMoves, moved;
    static volatile Throwable failure;

    /** What a commit is reported as. "In doubt" is ActiveMQ's wording for an answer that was lost. */
    static String commit(Session session) throws JMSException {
        try {
            session.commit();
            return "committed";
        } catch (TransactionRolledBackException undone) {
            return String.valueOf(undone.getMessage()).contains("in doubt") ? "doubtful" : "undone";
        }
    }

    /** The broker refused it, and lives: nothing of it counts. */
    static String undo(Session session, JMSException refused) throws Exception {
        System.err.println(refused);
        session.rollback();
        Thread.sleep(20);
        return "undone";
    }

    static Connection connect(String url) throws JMSException {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        factory.getRedeliveryPolicy().setMaximumRedeliveries(-1);
        factory.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
        factory.getRedeliveryPolicy().setRedeliveryDelay(0);
        Connection connection = factory.createConnection();
        connection.start();
        return connection;
    }

    static void produce(String url, String source) throws Exception {
        Connection connection = connect(url);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue(source));
        for (int batch = 0; !ending; batch++) {
            while (committed * BATCH - moved > AHEAD && !ending) Thread.sleep(20);
            String outcome;
            try {
                for (int part = 0; part < BATCH; part++) producer.send(session.createTextMessage(batch + ":" + part));
                outcome = commit(session);
            } catch (JMSException refused) { // its disk is full
                outcome = undo(session, refused);
            }
            told.add(outcome + " " + batch);
            batches = batch + 1;
            if (outcome.equals("committed")) committed++;
            Thread.sleep(2);
        }
        connection.close();
    }

    static void move(String url, String source, String target) throws Exception {
        Connection connection = connect(url);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue(source));
        MessageProducer producer = session.createProducer(session.createQueue(target));
        while (true) {
            Message message = consumer.receive(IDLE_MS);
            if (message == null && produced) break;
            StringBuilder texts = new StringBuilder();
            int taken = 0;
            String outcome;
            try {
                for (; message != null; message = ++taken < BATCH ? consumer.receive(5) : null) {
                    String text = ((TextMessage) message).getText();
                    texts.append(' ').append(text);
                    producer.send(session.createTextMessage(text));
                }
                outcome = commit(session);
            } catch (JMSException refused) { // what it consumed was lost with the connection: "rollback only"; a full disk
                outcome = undo(session, refused);
            }
            if (texts.length() > 0) moves.add("moved " + outcome + texts);
            if (outcome.equals("committed") && texts.length() > 0) committedMoves++;
            if (!outcome.equals("undone")) moved += taken;
        }
        connection.close();
    }

    static void drain(String url, String label, String queue) throws Exception {
        Connection connection = connect(url);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        for (Message message; (message = consumer.receive(1000)) != null; )
            System.out.println(label + " " + ((TextMessage) message).getText());
        connection.close();
    }

    interface Work { void run() throws Exception; }

    static Thread start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable problem) {
                problem.printStackTrace();
                failure = problem;
            }
        });
        thread.start();
        return thread;
    }

    public static void main(String[] args) throws Exception {
        String url = args[0], source = args[1], target = args[2];
        Thread producer = start(() -> produce(url, source));
        Thread mover = start(() -> move(url, source, target));
        while ((batches == 0 || committedMoves == 0) && failure == null) Thread.sleep(5);
        System.out.println("ready");
        System.out.flush();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null && line.equals("at"); ) {
            System.out.println("at " + Math.min(batches, committedMoves));
            System.out.flush();
        }
        ending = true;
        producer.join();
        produced = true;
        mover.join();
        if (failure != null) Runtime.getRuntime().halt(1);
        for (String line : told) System.out.println(line);
        for (String line : moves) System.out.println(line);
        drain(url, "out", target);
        drain(url, "left", source);
        drain(url, "dead", "ActiveMQ.DLQ");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
