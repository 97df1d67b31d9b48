import java.util.TreeSet;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.RemoveInfo;

/**
 * Drives what advisories of virtual destinations are made of: readers of their targets, and the targets themselves.
 *
 * Not where this broker does otherwise on purpose: docs/advisories.md.
 */
public class Virtual {
    static final String MARK = "mark.of.virtual";
    static Session marks;

    static void all() throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(Advised.url).createConnection();
        connection.setClientID("virtual");
        connection.start();
        Session session = Advised.session(connection);
        marks = Advised.session(connection);
        told("before");
        reader(session, "queue", session.createQueue("mix.a"));
        reader(session, "queue again", session.createQueue("mix.a"));
        reader(session, "topic", session.createTopic("mix.b"));
        reader(session, "filtered", session.createQueue("mix.d"));
        reader(session, "wild", session.createQueue("mix.>"));
        reader(session, "source", session.createQueue("mix.in"));
        reader(session, "no target", session.createQueue("mix.none"));
        reader(session, "temporary", session.createTemporaryQueue());
        Advised.send(session, session.createQueue("mix.made"), "makes the queue");
        told("made by a message");
        MessageConsumer durable = session.createDurableSubscriber(session.createTopic("mix.b"), "sub");
        told("durable");
        durable.close();
        told("durable closed");
        session.unsubscribe("sub");
        told("durable unsubscribed");
        MessageConsumer stays = session.createConsumer(session.createQueue("mix.c"), "n = 1");
        told("selective");
        replayed(session);
        stays.close();
        told("selective closed");
        connection.close();
    }

    /** Print what was told of virtual destinations until a reader of another queue has come and gone. */
    static void told(String title) throws JMSException {
        marks.createConsumer(marks.createQueue(MARK)).close();
        TreeSet<String> lines = new TreeSet<>();
        for (Message message; (message = Advised.all.receive(5000)) != null; ) {
            String topic = ((Topic) message.getJMSDestination()).getTopicName().replace("ActiveMQ.Advisory.", "");
            if (topic.startsWith("VirtualDestination.")) lines.add(topic + " " + Advised.line(message));
            if (topic.equals("Consumer.Queue." + MARK) && ((ActiveMQMessage) message).getDataStructure() instanceof RemoveInfo) break;
        }
        for (String line : lines) System.out.println(title + ": " + line);
    }

    static void reader(Session session, String title, Destination where) throws JMSException {
        MessageConsumer consumer = session.createConsumer(where);
        told(title);
        consumer.close();
        told(title + " closed");
    }

    /** What is told to somebody who comes later. */
    static void replayed(Session session) throws JMSException {
        MessageConsumer late = session.createConsumer(session.createTopic("ActiveMQ.Advisory.VirtualDestination.Consumer.>"));
        TreeSet<String> lines = new TreeSet<>();
        for (Message message; (message = late.receive(700)) != null; )
            lines.add(((Topic) message.getJMSDestination()).getTopicName().replace("ActiveMQ.Advisory.", "") + " " + Advised.line(message));
        for (String line : lines) System.out.println("late: " + line);
        late.close();
    }
}
