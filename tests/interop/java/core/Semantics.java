import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.*;

/** What Artemis' queues do that JMS does not know: groups, priorities of consumers, last values, rings, diverts. */
class Semantics extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("groups", Semantics::groups);
        features.put("consumerPriority", Semantics::consumerPriority);
        features.put("exclusive", Semantics::exclusive);
        features.put("lastValue", Semantics::lastValue);
        features.put("ring", Semantics::ring);
        features.put("nonDestructive", Semantics::nonDestructive);
        features.put("purged", Semantics::purged);
        features.put("maxConsumers", Semantics::maxConsumers);
        features.put("retroactive", Semantics::retroactive);
        features.put("diverts", Semantics::diverts);
        features.put("queueParameters", Semantics::queueParameters);
    }

    static Message with(Session session, String text, String name, Object value) throws JMSException {
        Message made = session.createTextMessage(text);
        made.setObjectProperty(name, value);
        return made;
    }

    static void groups() throws Exception {
        Connection connection = connect();
        Session session = auto(connection), other = auto(connection);
        Queue queue = session.createQueue(fresh("groups"));
        MessageConsumer one = session.createConsumer(queue), two = other.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 8; i++) producer.send(with(session, "g" + i % 2 + "-" + i, "JMSXGroupID", "g" + i % 2));
        say("one " + texts(one, 4) + " two " + texts(two, 4));
        Message end = with(session, "end of g0", "JMSXGroupID", "g0");
        end.setIntProperty("JMSXGroupSeq", -1);
        producer.send(end);
        say("end " + texts(one, 1) + " " + texts(two, 0));
        one.close();
        producer.send(with(session, "after the close", "JMSXGroupID", "g0"));
        say("moved " + texts(two, 1));
        Connection grouping = connect("groupID=always");
        Session always = auto(grouping);
        MessageProducer grouped = always.createProducer(queue);
        grouped.send(always.createTextMessage("by URL"));
        dump("grouped", two.receive(WAIT));
        grouping.close();
        connection.close();
    }

    static void consumerPriority() throws Exception {
        Connection connection = connect();
        Session session = auto(connection), other = auto(connection);
        String name = fresh("consumerPriority");
        MessageConsumer low = session.createConsumer(session.createQueue(name + "?consumer-priority=1")), high = other.createConsumer(other.createQueue(name + "?consumer-priority=5"));
        send(session, session.createQueue(name), "a", "b", "c");
        say("high " + texts(high, 3) + " low " + texts(low, 0));
        high.close();
        send(session, session.createQueue(name), "d");
        say("low " + texts(low, 1));
        connection.close();
    }

    static void exclusive() throws Exception {
        Connection connection = connect();
        Session session = auto(connection), other = auto(connection);
        Queue queue = session.createQueue("exclusive.q");
        MessageConsumer one = session.createConsumer(queue), two = other.createConsumer(queue);
        send(session, queue, "a", "b", "c", "d");
        say("one " + texts(one, 4) + " two " + texts(two, 0));
        one.close();
        send(session, queue, "e");
        say("two " + texts(two, 1));
        connection.close();
    }

    static void lastValue() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue("last.q");
        MessageProducer producer = session.createProducer(queue);
        for (String text : new String[] {"a1", "b1", "a2", "c1", "a3", "b2"}) producer.send(with(session, text, "_AMQ_LVQ_NAME", text.substring(0, 1)));
        producer.send(session.createTextMessage("no key"));
        say("there " + seen("last.q"));
        MessageConsumer consumer = session.createConsumer(queue);
        say("got " + texts(consumer, 4));
        connection.close();
    }

    static void ring() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        send(session, session.createQueue("ring.q"), "1", "2", "3", "4", "5");
        say("newest three " + seen("ring.q"));
        Session transacted = transacted(connection);
        MessageConsumer consumer = transacted.createConsumer(session.createQueue("ring.q"));
        say("held " + brief(consumer.receive(WAIT)));
        transacted.rollback();
        consumer.close();
        say("after rollback " + left("ring.q"));
        connection.close();
    }

    static void nonDestructive() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue("kept.for.all");
        send(session, queue, "x", "y");
        say("first " + texts(session.createConsumer(queue), 2));
        Session other = auto(connection);
        say("second " + texts(other.createConsumer(queue), 2));
        say("still " + seen("kept.for.all"));
        connection.close();
    }

    static void purged() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue("purged.q");
        send(session, queue, "to nobody");
        MessageConsumer consumer = session.createConsumer(queue);
        send(session, queue, "seen", "not taken");
        say("got " + brief(consumer.receive(WAIT)));
        consumer.close();
        Thread.sleep(QUIET);
        say("left " + left("purged.q"));
        connection.close();
    }

    static void maxConsumers() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue("one.reader.q");
        MessageConsumer one = session.createConsumer(queue);
        attempt("second", () -> session.createConsumer(queue));
        one.close();
        attempt("after the first", () -> { session.createConsumer(queue).close(); return null; });
        connection.close();
    }

    static void retroactive() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic("retro.t");
        MessageConsumer early = session.createConsumer(topic);
        send(session, topic, "1", "2", "3", "4");
        say("early " + texts(early, 4));
        say("late " + texts(session.createConsumer(topic), 2));
        connection.close();
    }

    static void diverts() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        send(session, session.createQueue("divert.copy"), "copied");
        say("source " + left("divert.copy"));
        MessageConsumer target = session.createConsumer(session.createQueue("diverted.copy"));
        dump("copy", target.receive(WAIT));
        MessageProducer producer = session.createProducer(session.createQueue("divert.move"));
        for (int n = 0; n < 4; n++) producer.send(with(session, "n" + n, "n", n));
        say("source " + left("divert.move") + ", target " + left("diverted.move"));
        connection.close();
    }

    static void queueParameters() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        String name = fresh("parameters");
        Queue queue = session.createQueue(name + "?max-consumers=1&last-value-key=code&purge-on-no-consumers=false");
        MessageConsumer one = session.createConsumer(queue);
        Session other = auto(connection);
        attempt("second", () -> other.createConsumer(session.createQueue(name)));
        one.close();
        other.close();
        MessageProducer producer = session.createProducer(session.createQueue(name));
        List<String> all = new ArrayList<>();
        for (String text : new String[] {"a1", "a2", "b1", "a3"}) producer.send(with(session, text, "code", text.substring(0, 1)));
        say("last values " + left(name) + all);
        connection.close();
    }
}
