import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ScheduledMessage;

/** Manages delayed messages by messages, as ActiveMQ's documentation shows. Argument: URL. Prints what it is told. */
public class Jobs {
    static Session session;
    static MessageConsumer answers;
    static Queue replies;

    static void schedule(String text, long delay, boolean again) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue("jobs.target"));
        TextMessage message = session.createTextMessage(text);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, delay);
        if (again) {
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_PERIOD, delay);
            message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_REPEAT, 5);
        }
        message.setStringProperty("colour", "red");
        producer.send(message);
    }

    static Message ask(String action) throws Exception {
        Message request = session.createMessage();
        request.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION, action);
        return request;
    }

    static void send(Message request) throws Exception {
        session.createProducer(session.createTopic(ScheduledMessage.AMQ_SCHEDULER_MANAGEMENT_DESTINATION)).send(request);
    }

    static List<Message> browse(String what, long from, long to) throws Exception {
        Message request = ask(ScheduledMessage.AMQ_SCHEDULER_ACTION_BROWSE);
        request.setJMSReplyTo(replies);
        if (to > 0) {
            request.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION_START_TIME, Long.toString(from));
            request.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION_END_TIME, Long.toString(to));
        }
        send(request);
        List<Message> found = new ArrayList<>();
        Message message;
        while ((message = answers.receive(1000)) != null) found.add(message);
        List<String> shown = new ArrayList<>();
        for (Message one : found)
            shown.add(((TextMessage) one).getText() + " delay " + one.getLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY)
                    + " colour " + one.getStringProperty("colour")
                    + " job " + one.propertyExists("scheduledJobId"));
        shown.sort(null);
        System.out.println(what + ": " + shown);
        return found;
    }

    public static void main(String[] given) throws Exception {
        try {
            manage(given[0]);
        } catch (Exception problem) {
            problem.printStackTrace(System.out);
        }
        System.exit(0);
    }

    static void manage(String url) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        replies = session.createTemporaryQueue();
        answers = session.createConsumer(replies);
        MessageConsumer target = session.createConsumer(session.createQueue("jobs.target"));
        browse("none", 0, 0);
        for (int at = 1; at <= 3; at++) schedule("m" + at, at * 60_000L, at == 3);
        List<Message> all = browse("all", 0, 0);
        long now = System.currentTimeMillis();
        browse("between", now + 90_000, now + 150_000);
        String job = null;
        for (Message one : all) if (((TextMessage) one).getText().equals("m2")) job = one.getStringProperty("scheduledJobId");
        Message remove = ask(ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVE);
        remove.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_ID, job);
        send(remove);
        browse("one removed", 0, 0);
        Message some = ask(ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVEALL);
        some.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION_START_TIME, Long.toString(now + 150_000));
        some.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION_END_TIME, Long.toString(now + 250_000));
        send(some);
        browse("later ones removed", 0, 0);
        schedule("soon", 1500, false);
        schedule("gone", 1500, false);
        for (Message one : browse("two more", 0, now + 30_000))
            if (((TextMessage) one).getText().equals("gone")) {
                remove = ask(ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVE);
                remove.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_ID, one.getStringProperty("scheduledJobId"));
                send(remove);
            }
        Message came = target.receive(3000);
        System.out.println("came: " + (came == null ? "nothing" : ((TextMessage) came).getText()));
        came = target.receive(700);
        System.out.println("then: " + (came == null ? "nothing" : ((TextMessage) came).getText()));
        send(ask(ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVEALL));
        browse("all removed", 0, 0);
    }
}
