import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** Groups that are sent to every node, and where each is read: prints a line for each group. */
public class Grouped {
    static final String QUEUE = "grouped";
    static final int GROUPS = 6;
    static final int EACH = 12;
    static final long PATIENCE = 60_000;

    /** What one node gave to its reader. */
    static class Place {
        final Connection connection;
        final Session session;
        final MessageProducer producer;
        final Map<String, List<String>> got = new HashMap<>();

        Place(String url) throws Exception {
            connection = new ActiveMQConnectionFactory(url).createConnection("u", "p");
            session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            producer = session.createProducer(session.createQueue(QUEUE));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            Session reading = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            reading.createConsumer(reading.createQueue(QUEUE)).setMessageListener(this::take);
            connection.start();
        }

        synchronized void take(Message message) {
            try {
                String group = message.getStringProperty("JMSXGroupID");
                got.computeIfAbsent(group == null ? "" : group, key -> new ArrayList<>()).add(message.getStringProperty("what"));
            } catch (Exception error) {
                error.printStackTrace();
            }
        }

        synchronized List<String> of(String group) {
            return new ArrayList<>(got.getOrDefault(group, List.of()));
        }

        void send(String group, String what) throws Exception {
            Message message = session.createTextMessage(what);
            message.setStringProperty("what", what);
            if (group != null) {
                message.setStringProperty("JMSXGroupID", group);
            }
            producer.send(message);
        }
    }

    /** Every node knows every reader: what is sent to one goes round. */
    static void meet(List<Place> places) throws Exception {
        long until = System.currentTimeMillis() + PATIENCE;
        for (int from = 0; from < places.size(); from++) {
            for (int round = 0; ; round++) {
                String what = from + "/" + round;
                for (int i = 0; i < places.size(); i++) {
                    places.get(from).send(null, what);
                }
                Thread.sleep(100);
                if (places.stream().allMatch(one -> one.of("").contains(what))) {
                    break;
                }
                if (System.currentTimeMillis() > until) {
                    throw new IllegalStateException("node " + from + " does not know all readers");
                }
            }
        }
    }

    static String judged(List<Place> places, String group, String run) {
        Map<Integer, List<String>> where = new TreeMap<>();
        for (int at = 0; at < places.size(); at++) {
            List<String> got = places.get(at).of(group);
            if (!got.isEmpty()) {
                where.put(at, got);
            }
        }
        if (where.size() != 1) {
            return "torn " + where;
        }
        int at = where.keySet().iterator().next();
        List<String> got = where.get(at);
        for (int from = 0; from < places.size(); from++) {
            int last = -1;
            for (String what : got) {
                String[] parts = what.split("/");
                if (Integer.parseInt(parts[0]) == from) {
                    int number = Integer.parseInt(parts[1]);
                    if (number <= last) {
                        return "out of order " + got;
                    }
                    last = number;
                }
            }
        }
        return at + " got " + got.size() + " in order";
    }

    public static void main(String[] urls) throws Exception {
        List<Place> places = new ArrayList<>();
        for (String url : urls) {
            places.add(new Place(url));
        }
        meet(places);
        for (int i = 0; i < EACH; i++) {
            for (int group = 0; group < GROUPS; group++) {
                int from = (i + group) % places.size();
                places.get(from).send("g" + group, from + "/" + i);
            }
        }
        long until = System.currentTimeMillis() + PATIENCE;
        int expected = GROUPS * EACH;
        while (System.currentTimeMillis() < until) {
            int got = 0;
            for (Place place : places) {
                for (int group = 0; group < GROUPS; group++) {
                    got += place.of("g" + group).size();
                }
            }
            if (got >= expected) {
                break;
            }
            Thread.sleep(50);
        }
        for (int group = 0; group < GROUPS; group++) {
            System.out.println("g" + group + " at " + judged(places, "g" + group, ""));
        }
        for (Place place : places) {
            place.connection.close();
        }
        System.exit(0);
    }
}
