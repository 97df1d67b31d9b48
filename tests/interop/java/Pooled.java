import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.ServerSession;
import javax.jms.ServerSessionPool;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * A ConnectionConsumer with prefetch 1 whose pool has one ServerSession, which blocks its connection while that is busy.
 * Arguments: URL, queue, messages. Prints how many were handled, each in a transaction.
 */
public class Pooled implements ServerSessionPool, ServerSession {
    final Semaphore free = new Semaphore(1);
    final ExecutorService worker = Executors.newSingleThreadExecutor();
    final CountDownLatch left;
    Session session;

    Pooled(int messages) { left = new CountDownLatch(messages); }

    public ServerSession getServerSession() throws JMSException {
        free.acquireUninterruptibly();
        return this;
    }

    public Session getSession() { return session; }

    public void start() throws JMSException {
        worker.submit(() -> {
            session.run();
            try {
                session.commit();
                left.countDown();
            } catch (JMSException problem) {
                problem.printStackTrace();
            }
            free.release();
        });
    }

    public static void main(String[] given) throws Exception {
        int messages = Integer.parseInt(given[2]);
        Pooled pool = new Pooled(messages);
        Connection connection = new ActiveMQConnectionFactory(given[0]).createConnection();
        Session sender = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = sender.createQueue(given[1] + "?consumer.prefetchSize=1");
        MessageProducer producer = sender.createProducer(sender.createQueue(given[1]));
        for (int at = 0; at < messages; at++) producer.send(sender.createTextMessage("m" + at));
        pool.session = connection.createSession(true, Session.SESSION_TRANSACTED);
        pool.session.setMessageListener(message -> {});
        connection.createConnectionConsumer(queue, null, pool, 1);
        connection.start();
        pool.left.await(20, TimeUnit.SECONDS);
        System.out.println("handled " + (messages - pool.left.getCount()));
        System.exit(0);
    }
}
