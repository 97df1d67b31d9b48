import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;

/**
 * In how many ways a consumer can end, and what the next one sees of what it held. Arguments: URL, then
 *
 *   table        every way, kind of destination and mode of acknowledgement; prints one line each
 *   loop MODE... ten connections in turn take one message each and close; prints counts, what is left, dead letters
 *   send NAME... six messages into each queue
 *   read NAME... what is in each queue: text/delivery count, with R where it is marked as redelivered
 */
public class Ends {
    static final int MESSAGES = 6;
    static ActiveMQConnectionFactory factory;

    static final Map<String, Integer> MODES = new TreeMap<>();
    static {
        MODES.put("auto", Session.AUTO_ACKNOWLEDGE);
        MODES.put("dups", Session.DUPS_OK_ACKNOWLEDGE);
        MODES.put("client", Session.CLIENT_ACKNOWLEDGE);
        MODES.put("individual", ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        MODES.put("transacted", Session.SESSION_TRANSACTED);
    }

    static ActiveMQConnection connect(String clientId) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        if (clientId != null) connection.setClientID(clientId);
        connection.start();
        return connection;
    }

    static Session open(Connection connection, String mode) throws Exception {
        return connection.createSession(mode.equals("transacted"), MODES.get(mode));
    }

    static void send(String name, boolean topic, int from, int count) throws Exception {
        Connection connection = connect(null);
        Session session = open(connection, "auto");
        Destination where = topic ? session.createTopic(name) : session.createQueue(name);
        MessageProducer producer = session.createProducer(where);
        for (int at = from; at < from + count; at++) producer.send(session.createTextMessage("m" + at));
        connection.close();
    }

    static String drain(MessageConsumer consumer) throws Exception {
        StringBuilder found = new StringBuilder();
        Message message = consumer.receive(4000);
        while (message != null) {
            found.append(' ').append(((TextMessage) message).getText());
            found.append('/').append(message.getIntProperty("JMSXDeliveryCount"));
            if (message.getJMSRedelivered()) found.append('R');
            message = consumer.receive(400);
        }
        return found.length() == 0 ? " nothing" : found.toString();
    }

    static String read(String name) throws Exception {
        Connection connection = connect(null);
        Session session = open(connection, "auto");
        String found = drain(session.createConsumer(session.createQueue(name)));
        connection.close();
        return found;
    }

    static Message next(MessageConsumer consumer) throws Exception {
        Message message = consumer.receive(5000);
        if (message == null) throw new IllegalStateException("nothing came");
        return message;
    }

    /** Takes three messages and settles some: "none", "first" (the first is settled), "last" (only the third). */
    static void take(Session session, MessageConsumer consumer, String mode, String settles) throws Exception {
        for (int at = 1; at <= 3; at++) {
            Message message = next(consumer);
            boolean now = settles.equals("first") && at == 1 || settles.equals("last") && at == 3;
            if (now && mode.equals("transacted")) session.commit();
            else if (now) message.acknowledge();
        }
    }

    static void end(String way, ActiveMQConnection connection, Session session, MessageConsumer consumer)
            throws Exception {
        if (way.startsWith("rollback+")) { session.rollback(); way = way.substring(9); }
        if (way.startsWith("recover+")) { session.recover(); way = way.substring(8); }
        switch (way) {
            case "consumer": consumer.close(); session.close(); connection.close(); break;
            case "session": session.close(); connection.close(); break;
            case "connection": connection.close(); break;
            case "cut": connection.getTransport().stop(); break;
            default: throw new IllegalArgumentException(way);
        }
    }

    static String ofQueue(String name, String mode, String settles, String way) throws Exception {
        send(name, false, 1, MESSAGES);
        ActiveMQConnection connection = connect(null);
        Session session = open(connection, mode);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        take(session, consumer, mode, settles);
        end(way, connection, session, consumer);
        return read(name);
    }

    static String ofDurable(String name, String mode, String settles, String way) throws Exception {
        ActiveMQConnection connection = connect(name);
        Session session = open(connection, mode);
        Topic topic = session.createTopic(name);
        MessageConsumer consumer = session.createDurableSubscriber(topic, "sub");
        send(name, true, 1, MESSAGES);
        take(session, consumer, mode, settles);
        end(way, connection, session, consumer);
        Thread.sleep(way.equals("cut") ? 1000 : 0); // the client id is free when the broker has noticed
        connection = connect(name);
        session = open(connection, "auto");
        String found = drain(session.createDurableSubscriber(topic, "sub"));
        connection.close();
        return found;
    }

    /** Two sessions of one connection, on queues of their own: the last message that was delivered is one of them. */
    static String ofTwoQueues(String name, String mode, String way, boolean backwards) throws Exception {
        String one = name + ".1", two = name + ".2";
        send(backwards ? two : one, false, 1, MESSAGES);
        send(backwards ? one : two, false, 11, MESSAGES);
        ActiveMQConnection connection = connect(null);
        Session first = open(connection, mode), second = open(connection, mode);
        MessageConsumer a = first.createConsumer(first.createQueue(one));
        MessageConsumer b = second.createConsumer(second.createQueue(two));
        next(a); next(a); next(b);
        if (way.equals("session")) first.close();
        end(way, connection, second, b);
        return read(one) + " |" + read(two);
    }

    /** Two consumers of one session share a queue. */
    static String ofTwoConsumers(String name, String mode, String way) throws Exception {
        ActiveMQConnection connection = connect(null);
        Session session = open(connection, mode);
        MessageConsumer a = session.createConsumer(session.createQueue(name + "?consumer.prefetchSize=3"));
        MessageConsumer b = session.createConsumer(session.createQueue(name + "?consumer.prefetchSize=3"));
        send(name, false, 1, MESSAGES);
        next(a); next(b); next(a);
        if (way.equals("consumer")) a.close();
        end(way, connection, session, b);
        return read(name);
    }

    /** What comes back late has an old number and stands behind newer ones in what the consumer holds. */
    static String ofComeBack(String name, String mode, String way) throws Exception {
        ActiveMQConnection connection = connect(null), other = connect(null);
        Session session = open(connection, mode), away = open(other, "client");
        MessageConsumer b = away.createConsumer(away.createQueue(name + "?consumer.prefetchSize=1"));
        send(name, false, 1, 1);
        next(b);
        MessageConsumer a = session.createConsumer(session.createQueue(name));
        send(name, false, 2, 3);
        next(a); next(a);
        b.close(); // m1 goes to a, behind m4
        Thread.sleep(300);
        end(way, connection, session, a);
        other.close();
        return read(name);
    }

    static void table() throws Exception {
        Map<String, String> lines = new ConcurrentSkipListMap<>();
        ExecutorService pool = Executors.newFixedThreadPool(12);
        List<Future<?>> runs = new ArrayList<>();
        Map<String, Callable<String>> plan = new TreeMap<>();
        for (String mode : MODES.keySet()) {
            List<String> ways = new ArrayList<>(List.of("consumer", "session", "connection", "cut"));
            if (mode.equals("transacted")) ways.addAll(List.of("rollback+connection", "rollback+consumer"));
            if (mode.equals("client")) ways.addAll(List.of("recover+connection", "recover+consumer"));
            boolean settles = !mode.equals("auto") && !mode.equals("dups");
            for (String way : ways) {
                for (String which : settles ? List.of("none", "first", "last") : List.of("none")) {
                    String suffix = mode + "." + which + "." + way;
                    plan.put("queue." + suffix, () -> ofQueue("queue." + suffix, mode, which, way));
                    plan.put("durable." + suffix, () -> ofDurable("durable." + suffix, mode, which, way));
                }
                if (way.contains("+") || mode.equals("dups")) continue;
                String suffix = mode + "." + way;
                plan.put("two-queues." + suffix, () -> ofTwoQueues("two-queues." + suffix, mode, way, false));
                plan.put("two-back." + suffix, () -> ofTwoQueues("two-back." + suffix, mode, way, true));
                plan.put("two-consumers." + suffix, () -> ofTwoConsumers("two-consumers." + suffix, mode, way));
                plan.put("come-back." + suffix, () -> ofComeBack("come-back." + suffix, mode, way));
            }
        }
        for (Map.Entry<String, Callable<String>> each : plan.entrySet())
            runs.add(pool.submit(() -> {
                try {
                    lines.put(each.getKey(), each.getValue().call());
                } catch (Exception problem) {
                    lines.put(each.getKey(), " " + problem);
                }
            }));
        for (Future<?> run : runs) run.get();
        lines.forEach((what, found) -> System.out.println(what + ":" + found));
    }

    static String loop(String mode) throws Exception {
        String name = "loop." + mode;
        send(name, false, 1, 20);
        StringBuilder counts = new StringBuilder();
        for (int at = 0; at < 10; at++) {
            Connection connection = connect(null);
            Session session = open(connection, mode);
            Message message = session.createConsumer(session.createQueue(name)).receive(1500);
            counts.append(' ').append(message == null ? "none" : message.getIntProperty("JMSXDeliveryCount"));
            if (message != null && mode.equals("transacted")) session.commit();
            else if (message != null && mode.equals("client")) message.acknowledge();
            Thread.sleep(50);
            connection.close();
        }
        return mode + ":" + counts + " left" + read(name) + " dead" + read("ActiveMQ.DLQ") + "\n";
    }

    static String done(String what, String name) throws Exception {
        switch (what) {
            case "loop": return loop(name);
            case "send": send(name, false, 1, MESSAGES); return "";
            default: return name + ":" + read(name) + "\n";
        }
    }

    public static void main(String[] given) throws Exception {
        factory = new ActiveMQConnectionFactory(given[0]);
        factory.setWatchTopicAdvisories(false);
        if (given[1].equals("table")) table();
        ExecutorService pool = Executors.newFixedThreadPool(12); // each waits to see that no more comes
        List<Future<String>> runs = new ArrayList<>();
        for (String name : List.of(given).subList(2, given.length)) runs.add(pool.submit(() -> done(given[1], name)));
        for (Future<String> run : runs) System.out.print(run.get());
        System.exit(0);
    }
}
