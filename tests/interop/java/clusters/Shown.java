import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.artemis.jms.client.ActiveMQConnection;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * What Artemis' clustered examples show: the first argument names them, with commas between; then where the nodes are.
 * Prints a line for each, with what each reader got. Messages are numbers; one that begins with "probe" only finds out
 * whether the nodes know of all readers.
 */
public class Shown {
    static final long PATIENCE = 60_000;
    static final long SOON = 400;
    static String[] urls;

    /** One reader: where it is connected, what it gets. */
    static final class Reader {
        final Connection connection;
        final Session session;
        final MessageConsumer consumer;
        final List<String> got = new ArrayList<>();
        Message last;

        Reader(Connection connection, Destination where, String subscription, int mode) throws JMSException {
            this.connection = connection;
            session = connection.createSession(false, mode);
            consumer = subscription == null ? session.createConsumer(where)
                : session.createDurableSubscriber((Topic) where, subscription);
        }

        /** Returns whether a message came within that time. A probe is not kept. */
        boolean take(long wait) throws JMSException {
            Message message = consumer.receive(wait);
            if (message == null) {
                return false;
            }
            last = message;
            String body = ((TextMessage) message).getText();
            if (!body.startsWith("probe")) {
                got.add(body);
            }
            return true;
        }

        void take(int count) throws JMSException {
            for (long until = System.currentTimeMillis() + PATIENCE; got.size() < count && System.currentTimeMillis() < until;) {
                take(SOON);
            }
        }
    }

    static ActiveMQConnectionFactory factory(String url) {
        return new ActiveMQConnectionFactory(url);
    }

    static Connection connected(ActiveMQConnectionFactory factory, String client) throws JMSException {
        Connection connection = factory.createConnection("u", "p");
        if (client != null) {
            connection.setClientID(client);
        }
        connection.start();
        return connection;
    }

    /** Returns a connection to each node. */
    static List<Connection> each(String client) throws JMSException {
        List<Connection> all = new ArrayList<>();
        for (String url : urls) {
            all.add(connected(factory(url), client));
        }
        return all;
    }

    static void end(List<Connection> all) throws JMSException {
        for (Connection one : all) {
            one.close();
        }
    }

    static void send(Connection from, Destination where, int first, int count, String group) throws JMSException {
        Session session = from.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(where);
        for (int number = first; number < first + count; number++) {
            TextMessage message = session.createTextMessage(String.valueOf(number));
            if (group != null) {
                message.setStringProperty("JMSXGroupID", group);
            }
            producer.send(message);
        }
        session.close();
    }

    /** Sends probes until one round of them reached every reader. */
    static void known(Connection from, Destination where, List<Reader> readers) throws JMSException {
        Session session = from.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(where);
        for (long until = System.currentTimeMillis() + PATIENCE; System.currentTimeMillis() < until;) {
            for (int i = 0; i < readers.size(); i++) {
                producer.send(session.createTextMessage("probe"));
            }
            boolean all = true;
            for (Reader reader : readers) {
                all &= reader.take(5 * SOON);
            }
            for (Reader reader : readers) {
                while (reader.take(SOON / 2)) {
                    continue;
                }
            }
            if (all) {
                break;
            }
        }
        session.close();
    }

    static void print(String name, List<Reader> readers) {
        StringBuilder line = new StringBuilder(name);
        for (Reader reader : readers) {
            line.append(" | ").append(String.join(" ", reader.got));
        }
        System.out.println(line);
    }

    static List<Reader> readers(List<Connection> connections, Destination where, String subscription) throws JMSException {
        List<Reader> all = new ArrayList<>();
        for (Connection one : connections) {
            all.add(new Reader(one, where, subscription, Session.AUTO_ACKNOWLEDGE));
        }
        return all;
    }

    static Destination queue(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createQueue("exampleQueue");
    }

    static Destination topic(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createTopic("exampleTopic");
    }

    /** A reader at each node; what the first node is sent is read in turn, or by all. */
    static void played(String name, boolean topic, String client, int count, int expected) throws JMSException {
        List<Connection> all = each(client);
        Destination where = topic ? topic(all.get(0)) : queue(all.get(0));
        List<Reader> readers = readers(all, where, client);
        known(all.get(0), where, readers);
        send(all.get(0), where, 0, count, null);
        for (Reader reader : readers) {
            reader.take(expected);
            reader.take(SOON); // one too many would be here soon
        }
        print(name, readers);
        end(all);
    }

    /** Returns which node a connection is with. */
    static int node(Connection connection) {
        String place = ((ActiveMQConnection) connection).getSessionFactory().getConnection().getRemoteAddress();
        String port = place.substring(place.lastIndexOf(':') + 1);
        for (int at = 0; at < urls.length; at++) {
            if (urls[at].endsWith(":" + port)) {
                return at;
            }
        }
        return -1;
    }

    /** Returns connections of one factory, once it knows of all nodes; the client shares them out. */
    static List<Connection> spread(ActiveMQConnectionFactory factory, int count) throws Exception {
        Connection initial = connected(factory, null);
        for (long until = System.currentTimeMillis() + PATIENCE; System.currentTimeMillis() < until; Thread.sleep(50)) {
            if (factory.getServerLocator().getTopology().getMembers().size() >= urls.length) {
                break;
            }
        }
        List<Connection> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            all.add(connected(factory, null));
        }
        initial.close();
        return all;
    }

    static String nodes(List<Connection> all) {
        TreeSet<Integer> found = new TreeSet<>();
        for (Connection one : all) {
            found.add(node(one));
        }
        return found.toString();
    }

    /** One factory knows one node; its connections are with all, each reads its part of what node {@code at} is sent. */
    static void discovered(String name, String first, int count, int at) throws Exception {
        List<Connection> all = spread(factory(first), urls.length);
        Destination where = queue(all.get(0));
        List<Reader> readers = readers(all, where, null);
        Connection from = all.get(0);
        for (Connection one : all) {
            from = node(one) == at ? one : from;
        }
        known(from, where, readers);
        send(from, where, 0, count, null);
        for (Reader reader : readers) {
            reader.take(count / urls.length);
            reader.take(SOON);
        }
        print(name + " nodes " + nodes(all), readers);
        end(all);
    }

    static void grouping() throws Exception {
        List<Connection> all = each(null);
        Reader reader = new Reader(all.get(0), queue(all.get(0)), null, Session.AUTO_ACKNOWLEDGE);
        Thread.sleep(1500);
        for (int at = 0; at < all.size(); at++) {
            send(all.get(at), queue(all.get(at)), 10 * at, 10, "Group-0");
        }
        reader.take(10 * all.size());
        Collections.sort(reader.got, (one, other) -> Integer.parseInt(one) - Integer.parseInt(other));
        print("clustered-grouping", List.of(reader));
        end(all);
    }

    static void redistribution() throws Exception {
        List<Connection> all = each(null);
        Destination where = queue(all.get(0));
        List<Reader> readers = new ArrayList<>();
        for (Connection one : all) {
            readers.add(new Reader(one, where, null, Session.CLIENT_ACKNOWLEDGE));
        }
        known(all.get(0), where, readers);
        for (Reader reader : readers) {
            reader.last.acknowledge();
        }
        send(all.get(0), where, 0, 10, null);
        for (Reader reader : readers) {
            reader.take(5);
        }
        print("queue-message-redistribution first", readers);
        readers.get(0).last.acknowledge();
        readers.get(1).session.close(); // nothing of what it got is acknowledged
        readers.get(0).take(10);
        readers.get(0).last.acknowledge();
        print("queue-message-redistribution then", readers.subList(0, 1));
        end(all);
    }

    static void symmetric(String discovery) throws Exception {
        int count = 500;
        List<Connection> all = spread(factory(discovery), urls.length);
        Destination news = topic(all.get(0));
        Destination work = queue(all.get(0));
        List<Reader> readers = readers(all, news, null);
        List<Reader> workers = List.of(new Reader(all.get(0), work, null, Session.AUTO_ACKNOWLEDGE));
        Connection from = all.get(all.size() / 2);
        known(from, news, readers);
        known(from, work, workers);
        send(from, news, 0, count, null);
        send(from, work, 0, count, null);
        StringBuilder line = new StringBuilder("symmetric-cluster nodes " + nodes(all));
        for (Reader reader : readers) {
            reader.take(count);
            line.append(" | ").append(reader.got.size());
        }
        workers.get(0).take(count);
        System.out.println(line.append(" | ").append(new TreeSet<>(workers.get(0).got).size()));
        end(all);
    }

    static void spreading(String discovery) throws Exception {
        List<Connection> all = spread(factory(discovery), urls.length);
        for (int at = 0; at < all.size(); at++) {
            send(all.get(at), queue(all.get(at)), 100 * at, 10, null);
        }
        List<Reader> readers = new ArrayList<>();
        for (Connection one : all) {
            Reader reader = new Reader(one, queue(one), null, Session.AUTO_ACKNOWLEDGE);
            reader.take(10);
            reader.take(SOON);
            readers.add(reader);
        }
        print("client-side-load-balancing nodes " + nodes(all), readers);
        end(all);
    }

    /** Prints "kill", and goes on when a line is read: the node that serves is dead then. */
    static void kill() throws Exception {
        System.out.println("kill");
        System.out.flush();
        for (int one = System.in.read(); one != '\n';) {
            one = System.in.read();
        }
    }

    static void shared() throws Exception {
        String places = "(" + String.join(",", urls) + ")?ha=true&retryInterval=100&retryIntervalMultiplier=1.0&reconnectAttempts=-1";
        Connection connection = connected(factory(places), null);
        Destination where = queue(connection);
        Reader reader = new Reader(connection, where, null, Session.AUTO_ACKNOWLEDGE);
        send(connection, where, 0, 10, null);
        reader.take(6);
        kill();
        reader.take(10);
        kill();
        send(connection, where, 10, 10, null);
        for (long until = System.currentTimeMillis() + PATIENCE; System.currentTimeMillis() < until;) {
            reader.take(SOON);
            if (new TreeSet<>(reader.got).size() == 20) {
                break;
            }
        }
        System.out.println("shared-storage-static-cluster | " + new TreeSet<>(reader.got).size());
        connection.close();
    }

    public static void main(String[] arguments) throws Exception {
        urls = arguments[2].split(",");
        String discovery = arguments[1];
        for (String name : arguments[0].split(",")) {
            switch (name) {
                case "clustered-queue", "clustered-jgroups" -> played(name, false, null, 10, 5);
                case "clustered-topic", "clustered-topic-uri" -> played(name, true, null, 10, 10);
                case "clustered-durable-subscription" -> played(name, true, "mine", 10, 5);
                case "clustered-static-discovery", "clustered-static-discovery-uri" -> discovered(name, urls[3], 20, 3);
                case "clustered-static-oneway" -> discovered(name, urls[0], 18, 0);
                case "clustered-grouping" -> grouping();
                case "queue-message-redistribution" -> redistribution();
                case "symmetric-cluster" -> symmetric(discovery);
                case "client-side-load-balancing" -> spreading(discovery);
                case "shared-storage-static-cluster" -> shared();
                default -> throw new IllegalArgumentException(name);
            }
        }
        System.exit(0);
    }
}
