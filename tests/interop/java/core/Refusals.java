import java.util.Map;
import javax.jms.*;

/** What is refused, and as which class: missing destinations, wrong routing types, rights, closed objects. */
class Refusals extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("missing", Refusals::missing);
        features.put("routingTypes", Refusals::routingTypes);
        features.put("closed", Refusals::closed);
        features.put("foreignUser", Refusals::foreignUser);
        features.put("rights", Refusals::rights);
    }

    /** Nothing is made below `strict`. */
    static void missing() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        attempt("queue", () -> where(session.createQueue("strict.none")));
        attempt("topic", () -> where(session.createTopic("strict.none")));
        Queue queue = org.apache.activemq.artemis.api.jms.ActiveMQJMSClient.createQueue("strict.none");
        Topic topic = org.apache.activemq.artemis.api.jms.ActiveMQJMSClient.createTopic("strict.none");
        attempt("consumer", () -> session.createConsumer(queue));
        attempt("producer", () -> session.createProducer(queue));
        attempt("subscriber", () -> session.createConsumer(topic));
        attempt("producer of a topic", () -> session.createProducer(topic));
        attempt("browser", () -> browse(session.createBrowser(queue)));
        attempt("send without a producer's destination", () -> { session.createProducer(null).send(queue, session.createMessage()); return null; });
        attempt("the session goes on", () -> where(session.createTemporaryQueue()));
        connection.close();
    }

    /** `only.queue` is anycast, `only.topic` multicast, and nothing is added to either. */
    static void routingTypes() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        attempt("topic of a queue's address", () -> { session.createConsumer(session.createTopic("only.queue")); return null; });
        attempt("queue of a topic's address", () -> { session.createConsumer(session.createQueue("only.topic")); return null; });
        attempt("send to the queue as a topic", () -> { send(session, session.createTopic("only.queue"), "x"); return null; });
        attempt("send to the topic as a queue", () -> { send(session, session.createQueue("only.topic"), "x"); return null; });
        attempt("right", () -> { send(session, session.createQueue("only.queue"), "x"); return left("only.queue"); });
        String name = fresh("both");
        send(session, session.createQueue(name), "q");
        MessageConsumer topic = session.createConsumer(session.createTopic(name));
        send(session, session.createTopic(name), "t");
        say("both kinds: topic " + texts(topic, 1) + ", queue " + left(name));
        connection.close();
    }

    static void closed() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("closed"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.close();
        attempt("receive from a closed consumer", () -> consumer.receive(10));
        producer.close();
        attempt("send by a closed producer", () -> { producer.send(session.createMessage()); return null; });
        session.close();
        session.close();
        attempt("closed session", () -> session.createConsumer(queue));
        connection.close();
        connection.close();
        attempt("closed connection", () -> connection.createSession(false, 1));
        attempt("acknowledge mode", () -> { try (Connection other = connect()) { return other.createSession(false, 55); } });
    }

    static void foreignUser() throws Exception {
        attempt("nobody listens", () -> new org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory("tcp://127.0.0.1:1").createConnection());
        Connection connection = connect();
        ConnectionMetaData about = connection.getMetaData();
        say("JMS " + about.getJMSVersion() + " by " + about.getJMSProviderName());
        connection.close();
    }

    /** Only on a broker with users: app has every right but under `kept`, where it may only browse; guest may read `open`. */
    static void rights() throws Exception {
        if (System.getenv("SECURED") == null) return;
        attempt("wrong password", () -> factory("").createConnection("app", "wrong"));
        attempt("unknown user", () -> factory("").createConnection("nobody", "secret"));
        attempt("no user", () -> factory("").createConnection());
        Connection connection = factory("").createConnection("app", "secret");
        connection.start();
        Session session = auto(connection);
        for (String name : new String[] {"kept.q", "free.q"}) {
            attempt(name + " consumer", () -> { session.createConsumer(session.createQueue(name)).close(); return null; });
            attempt(name + " producer", () -> { session.createProducer(session.createQueue(name)).close(); return null; });
            attempt(name + " send", () -> { send(session, session.createQueue(name), "x"); return null; });
            attempt(name + " not waited for", () -> {
                MessageProducer producer = session.createProducer(session.createQueue(name));
                producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
                producer.send(session.createMessage());
                return null;
            });
            attempt(name + " browse", () -> browse(session.createBrowser(session.createQueue(name))).size());
            attempt(name + " subscriber", () -> { session.createConsumer(session.createTopic(name + ".t")).close(); return null; });
        }
        Session transacted = transacted(connection);
        attempt("in a transaction", () -> { send(transacted, transacted.createQueue("kept.q"), "x"); return null; });
        attempt("commit", () -> { transacted.commit(); return null; });
        attempt("temporary queue", () -> where(session.createTemporaryQueue()));
        Connection guest = factory("").createConnection("guest", "guest");
        guest.start();
        Session reading = auto(guest);
        attempt("guest: temporary queue", () -> where(reading.createTemporaryQueue()));
        attempt("guest: send", () -> { send(reading, reading.createQueue("open.q"), "x"); return null; });
        attempt("guest: read", () -> brief(reading.createConsumer(reading.createQueue("open.q")).receive(QUIET)));
        guest.close();
        connection.close();
    }
}
