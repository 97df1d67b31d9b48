import java.util.Map;
import javax.jms.*;

/** What settings of addresses and diverts do to messages: copies, limits, lifetimes, filters, dead letters of their own. */
class Addresses extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("divertTypes", Addresses::divertTypes);
        features.put("divertChain", Addresses::divertChain);
        features.put("letterQueues", Addresses::letterQueues);
        features.put("lifetimes", Addresses::lifetimes);
        features.put("noRoute", Addresses::noRoute);
        features.put("filters", Addresses::filters);
        features.put("limits", Addresses::limits);
        features.put("routingTypes", Addresses::routingTypes);
        features.put("ingress", Addresses::ingress);
    }

    static void divertTypes() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        send(session, session.createQueue("types"), "by queue");
        send(session, session.createTopic("types"), "by topic");
        for (String type : new String[] {"strip", "any", "multi", "pass"}) {
            for (String queue : new String[] {".q", ".t"}) {
                MessageConsumer reader = session.createConsumer(session.createQueue("types." + type + "::types." + type + queue));
                for (Message each; (each = reader.receive(QUIET)) != null; ) {
                    say(queue + " " + brief(each) + " from " + each.getObjectProperty("_AMQ_ORIG_ROUTING_TYPE") + " to " + where(each.getJMSDestination()));
                }
                reader.close();
            }
        }
        say("own: " + left("types"));
        connection.close();
    }

    static void divertChain() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(session.createQueue("chain.a"));
        producer.send(session.createTextMessage("for ever"));
        producer.setTimeToLive(600_000);
        producer.setPriority(7);
        Message second = session.createTextMessage("for ten minutes");
        second.setStringProperty("_AMQ_DUPL_ID", "once");
        producer.send(second);
        MessageConsumer end = session.createConsumer(session.createQueue("chain.c"));
        dump("first", end.receive(WAIT));
        dump("second", end.receive(WAIT));
        say("between " + left("chain.b") + ", beside " + left("chain.d"));
        connection.close();
    }

    static void letterQueues() throws Exception {
        Connection connection = connect();
        Session session = auto(connection), transacted = transacted(connection);
        send(session, session.createQueue("letters.bad"), "poison");
        MessageConsumer consumer = transacted.createConsumer(session.createQueue("letters.bad"));
        say("poison " + brief(consumer.receive(WAIT)));
        transacted.rollback();
        consumer.close();
        MessageProducer producer = session.createProducer(session.createQueue("letters.old"));
        producer.setTimeToLive(50);
        producer.send(session.createTextMessage("too old"));
        Thread.sleep(1_500);
        MessageConsumer dead = session.createConsumer(session.createQueue("letters.all::DLQ.letters.bad.x"));
        dump("dead", dead.receive(WAIT));
        MessageConsumer late = session.createConsumer(session.createQueue("letters.late::EXP.letters.old"));
        dump("late", late.receive(WAIT));
        connection.close();
    }

    static String lifetime(Session session, String queue, long ttl) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.setTimeToLive(ttl);
        producer.send(session.createTextMessage("lives"));
        producer.close();
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        Message got = consumer.receive(WAIT);
        consumer.close();
        if (got == null) return "gone";
        long left = got.getJMSExpiration() - got.getJMSTimestamp();
        return got.getJMSExpiration() == 0 ? "never" : Math.round(left / 1000.0) + " s";
    }

    static void lifetimes() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        for (String queue : new String[] {"life.default", "life.bounds", "life.min", "life.none"}) {
            say(queue + ": none " + lifetime(session, queue, 0) + ", 5 s " + lifetime(session, queue, 5_000) + ", 900 s " + lifetime(session, queue, 900_000));
        }
        connection.close();
    }

    static void noRoute() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        send(session, session.createTopic("unrouted"), "to nobody");
        MessageConsumer dead = session.createConsumer(session.createQueue("dead.here"));
        dump("letter", dead.receive(WAIT));
        connection.close();
    }

    static void filters() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        String queue = fresh("filters");
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.send(session.createTextMessage("plain"));
        producer.setPriority(9);
        producer.setTimeToLive(600_000);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        Message other = session.createTextMessage("other");
        other.setStringProperty("JMSXGroupID", "g");
        other.setStringProperty("hue", "hyphen");
        other.setStringProperty("number", "12");
        producer.send(other);
        String own = "AMQUserID = '" + other.getJMSMessageID() + "'";
        for (String filter : new String[] {
            "AMQPriority > 5", "AMQPriority = 4", "AMQExpiration = 0", "AMQExpiration > 0", "AMQDurable = 'DURABLE'",
            "AMQDurable = 'NON_DURABLE'", "AMQTimestamp > 0", "AMQSize > 10", "AMQSize > 100000", "AMQAddress = '" + queue + "'", "AMQGroupID = 'g'",
            "AMQUserID IS NULL", "AMQNothing IS NULL", own, "JMSPriority = 9", "JMSMessageID = '" + other.getJMSMessageID() + "'",
            "hyphenated_props:a-b IS NULL", "\"hue\" = 'hyphen'", "convert_string_expressions:number = 12", "number = 12", "_AMQ_GROUP_ID = 'g'",
        }) {
            String label = filter.replace(other.getJMSMessageID(), "it");
            attempt(label, () -> browse(session.createBrowser(session.createQueue(queue), filter)));
        }
        connection.close();
    }

    static void limits() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        for (String queue : new String[] {"few.fails", "few.drops", "paged.fails", "paged.drops"}) {
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            int sent = 0;
            String refusal = "none";
            for (int i = 0; i < 40; i++) {
                try {
                    producer.send(session.createTextMessage("m" + i));
                    sent++;
                } catch (JMSException full) {
                    refusal = full.getClass().getSimpleName();
                    break;
                }
            }
            say(queue + ": sent " + sent + ", refused by " + refusal + ", there " + left(queue).size());
        }
        connection.close();
    }

    static void routingTypes() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        attempt("topic of queues", () -> { send(session, session.createTopic("only.queue"), "x"); return "sent"; });
        attempt("reader of it", () -> { session.createConsumer(session.createTopic("only.queue")).close(); return "read"; });
        attempt("queue of topics", () -> { send(session, session.createQueue("only.topic"), "x"); return "sent"; });
        attempt("reader of that", () -> { session.createConsumer(session.createQueue("only.topic")).close(); return "read"; });
        attempt("topic of queues, free", () -> { send(session, session.createTopic("divert.copy"), "x"); return "sent"; });
        attempt("reader of it, free", () -> { session.createConsumer(session.createTopic("divert.copy")).close(); return "read"; });
        attempt("queue of topics, free", () -> { send(session, session.createQueue("many"), "x"); return "sent"; });
        attempt("reader of that, free", () -> { session.createConsumer(session.createQueue("many")).close(); return "read"; });
        connection.close();
    }

    static void ingress() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        send(session, session.createQueue("stamped"), "when");
        Message got = session.createConsumer(session.createQueue("stamped")).receive(WAIT);
        Object when = got.getObjectProperty("JMS_AMQ_INGRESS_TIMESTAMP");
        if (when == null) when = got.getObjectProperty("_AMQ_INGRESS_TIMESTAMP");
        say("ingress " + (when instanceof Long && Math.abs((Long) when - System.currentTimeMillis()) < 60_000 ? "lately" : "" + when));
        connection.close();
    }
}
