import java.util.Map;
import javax.jms.*;

/** Readers of all kinds: topics, durable and shared subscriptions, browsers, temporary destinations, selectors. */
class Subscribing extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("topics", Subscribing::topics);
        features.put("durable", Subscribing::durable);
        features.put("shared", Subscribing::shared);
        features.put("sharedDurable", Subscribing::sharedDurable);
        features.put("noLocal", Subscribing::noLocal);
        features.put("clientIds", Subscribing::clientIds);
        features.put("browsers", Subscribing::browsers);
        features.put("temporary", Subscribing::temporary);
        features.put("requestReply", Subscribing::requestReply);
        features.put("selectors", Subscribing::selectors);
        features.put("wildcards", Subscribing::wildcards);
        features.put("qualified", Subscribing::qualified);
    }

    static void topics() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(fresh("topics"));
        send(session, topic, "unheard");
        MessageConsumer one = session.createConsumer(topic), two = session.createConsumer(topic, "colour = 'red'");
        MessageProducer producer = session.createProducer(topic);
        for (String colour : new String[] {"red", "blue"}) {
            Message message = session.createTextMessage(colour);
            message.setStringProperty("colour", colour);
            producer.send(message);
        }
        say("one " + texts(one, 2) + ", two " + texts(two, 1));
        one.close();
        send(session, topic, "later");
        MessageConsumer three = session.createConsumer(topic);
        say("three " + texts(three, 0));
        dump("a message", deliver(session, topic, three));
        connection.close();
    }

    static Message deliver(Session session, Destination where, MessageConsumer consumer) throws JMSException {
        send(session, where, "shown");
        return consumer.receive(WAIT);
    }

    static Connection connectAs(String id, String options) throws JMSException {
        Connection connection = factory(options).createConnection();
        connection.setClientID(id);
        connection.start();
        return connection;
    }

    static void durable() throws Exception {
        Connection connection = connectAs("durable-1", "");
        Session session = auto(connection);
        Topic topic = session.createTopic(fresh("durableTopic")), other = session.createTopic(fresh("durableTopic"));
        TopicSubscriber subscriber = session.createDurableSubscriber(topic, "sub.one");
        attempt("second of the same", () -> { auto(connection).createDurableSubscriber(topic, "sub.one"); return null; });
        attempt("unsubscribe while it is read", () -> { session.unsubscribe("sub.one"); return null; });
        send(session, topic, "a");
        say("there " + texts(subscriber, 1));
        subscriber.close();
        send(session, topic, "b", "c");
        connection.close();
        Connection again = connectAs("durable-1", "");
        Session back = auto(again);
        say("missed " + texts(back.createDurableConsumer(topic, "sub.one"), 2));
        back.close();
        Session changing = auto(again);
        send(changing, topic, "for the old selector");
        MessageConsumer selective = changing.createDurableSubscriber(topic, "sub.one", "n > 1", false);
        say("changed selector " + texts(selective, 0));
        MessageProducer producer = changing.createProducer(topic);
        for (int n = 0; n < 4; n++) {
            Message message = changing.createTextMessage("n" + n);
            message.setIntProperty("n", n);
            producer.send(message);
        }
        say("selected " + texts(selective, 2));
        selective.close();
        MessageConsumer moved = changing.createDurableSubscriber(other, "sub.one");
        send(changing, topic, "old topic");
        send(changing, other, "new topic");
        say("changed topic " + texts(moved, 1));
        moved.close();
        attempt("unsubscribe", () -> { changing.unsubscribe("sub.one"); return null; });
        attempt("unsubscribe again", () -> { changing.unsubscribe("sub.one"); return null; });
        say("nothing is kept " + texts(changing.createDurableSubscriber(topic, "sub.one"), 0));
        again.close();
        Connection nameless = connect();
        attempt("without a client id", () -> { auto(nameless).createDurableSubscriber(topic, "sub.two"); return null; });
        nameless.close();
    }

    static void shared() throws Exception {
        Connection one = connect(), two = connect(), sender = connect();
        Session first = auto(one), second = auto(two), sending = auto(sender);
        Topic topic = first.createTopic(fresh("sharedTopic"));
        MessageConsumer a = first.createSharedConsumer(topic, "crew"), b = second.createSharedConsumer(topic, "crew"), whole = second.createConsumer(topic);
        send(sending, topic, Sending.numbered("s", 6));
        say("alone " + texts(whole, 6));
        say("shared " + texts(a, 3) + " " + texts(b, 3));
        attempt("another selector", () -> { second.createSharedConsumer(topic, "crew", "x = 1"); return null; });
        Topic other = first.createTopic(fresh("sharedTopic"));
        attempt("another topic", () -> { second.createSharedConsumer(other, "crew"); return null; });
        a.close();
        send(sending, topic, "to the one who is left");
        say("left " + texts(b, 1));
        b.close();
        send(sending, topic, "to nobody");
        say("anew " + texts(first.createSharedConsumer(topic, "crew"), 0));
        one.close();
        two.close();
        sender.close();
    }

    static void sharedDurable() throws Exception {
        Connection one = connect(), two = connect();
        Session first = auto(one), second = auto(two);
        Topic topic = first.createTopic(fresh("sharedDurableTopic"));
        MessageConsumer a = first.createSharedDurableConsumer(topic, "squad"), b = second.createSharedDurableConsumer(topic, "squad");
        send(first, topic, Sending.numbered("d", 4));
        say("shared " + texts(a, 2) + " " + texts(b, 2));
        attempt("unsubscribe while it is read", () -> { first.unsubscribe("squad"); return null; });
        a.close();
        b.close();
        send(first, topic, "kept");
        say("kept " + texts(first.createSharedDurableConsumer(topic, "squad"), 1));
        first.close();
        attempt("another selector, nobody reading", () -> texts(second.createSharedDurableConsumer(topic, "squad", "x = 1"), 0));
        second.close();
        Session last = auto(two);
        attempt("unsubscribe", () -> { last.unsubscribe("squad"); return null; });
        one.close();
        two.close();
    }

    static void noLocal() throws Exception {
        Connection connection = connectAs("local-1", ""), other = connect();
        Session session = auto(connection), far = auto(other);
        Topic topic = session.createTopic(fresh("localTopic"));
        MessageConsumer deaf = session.createConsumer(topic, null, true), durable = session.createDurableSubscriber(topic, "sub", "", true);
        send(session, topic, "own");
        send(far, topic, "from elsewhere");
        say("not its own " + texts(deaf, 1) + ", durable " + texts(durable, 1));
        connection.close();
        other.close();
    }

    static void clientIds() throws Exception {
        Connection connection = connectAs("unique", "");
        attempt("the same id", () -> { connectAs("unique", ""); return null; });
        attempt("too late", () -> { connection.setClientID("other"); return null; });
        connection.close();
        attempt("free again", () -> { connectAs("unique", "").close(); return null; });
        attempt("in the URL", () -> { Connection made = connect("clientID=by-url"); String id = made.getClientID(); made.close(); return id; });
    }

    static void browsers() throws Exception {
        String name = fresh("browsers");
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(name);
        say("empty " + browse(session.createBrowser(queue)));
        MessageProducer producer = session.createProducer(queue);
        for (int n = 0; n < 6; n++) {
            Message message = session.createTextMessage("n" + n);
            message.setIntProperty("n", n);
            producer.send(message);
        }
        QueueBrowser browser = session.createBrowser(queue);
        say("all " + browse(browser) + " once more " + browse(browser));
        say("some " + browse(session.createBrowser(queue, "n >= 4")));
        MessageConsumer consumer = session.createConsumer(queue, "n = 0");
        say("taken " + brief(consumer.receive(WAIT)));
        consumer.close();
        say("then " + browse(browser));
        browser.close();
        attempt("bad selector", () -> session.createBrowser(queue, "n >>> 4"));
        TemporaryQueue temporary = session.createTemporaryQueue();
        send(session, temporary, "t");
        say("temporary " + browse(session.createBrowser(temporary)));
        attempt("closed session", () -> { session.close(); return browser.getEnumeration().hasMoreElements(); });
        connection.close();
    }

    static void temporary() throws Exception {
        Connection connection = connect(), other = connect();
        Session session = auto(connection), far = auto(other);
        TemporaryQueue queue = session.createTemporaryQueue();
        TemporaryTopic topic = session.createTemporaryTopic();
        say(where(queue) + ", " + where(topic));
        MessageConsumer consumer = session.createConsumer(queue), listener = session.createConsumer(topic);
        send(far, queue, "from elsewhere");
        send(far, topic, "told");
        say("queue " + texts(consumer, 1) + ", topic " + texts(listener, 1));
        attempt("read by another connection", () -> { far.createConsumer(queue).close(); return null; });
        attempt("delete while it is read", () -> { queue.delete(); return null; });
        consumer.close();
        attempt("delete", () -> { queue.delete(); return null; });
        attempt("read what was deleted", () -> session.createConsumer(queue));
        attempt("send to what was deleted", () -> { send(far, queue, "lost"); return null; });
        listener.close();
        attempt("delete the topic", () -> { topic.delete(); return null; });
        TemporaryQueue kept = session.createTemporaryQueue();
        String name = kept.getQueueName();
        send(session, kept, "goes with its connection");
        session.close();
        attempt("after its session", () -> browse(far.createBrowser(kept)));
        connection.close();
        Thread.sleep(QUIET);
        attempt("after its connection", () -> browse(far.createBrowser(kept)));
        other.close();
    }

    static void requestReply() throws Exception {
        Connection serving = connect(), asking = connect();
        Session server = auto(serving), client = auto(asking);
        Queue requests = server.createQueue(fresh("requests"));
        server.createConsumer(requests).setMessageListener(message -> {
            try {
                TextMessage answer = server.createTextMessage("answer to " + ((TextMessage) message).getText());
                answer.setJMSCorrelationID(message.getJMSMessageID());
                server.createProducer(null).send(message.getJMSReplyTo(), answer);
            } catch (JMSException problem) {
                say(problem(problem));
            }
        });
        TemporaryQueue answers = client.createTemporaryQueue();
        MessageConsumer consumer = client.createConsumer(answers);
        MessageProducer producer = client.createProducer(requests);
        for (int i = 0; i < 3; i++) {
            TextMessage request = client.createTextMessage("request " + i);
            request.setJMSReplyTo(answers);
            producer.send(request);
            Message answer = consumer.receive(WAIT);
            say(brief(answer) + ", correlated " + request.getJMSMessageID().equals(answer.getJMSCorrelationID()));
        }
        QueueSession session = ((QueueConnection) asking).createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
        say("requestor " + brief(new QueueRequestor(session, requests).request(session.createTextMessage("by requestor"))));
        serving.close();
        asking.close();
    }

    static void selectors() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        String[] all = {
            "n = 2", "n BETWEEN 1 AND 2", "n IN (1, 3)", "NOT (n = 1)", "name LIKE 'x_2%'", "name LIKE 'x!_2' ESCAPE '!'", "missing IS NULL", "missing IS NOT NULL", "n IS NOT NULL AND flag = TRUE",
            "n * 2 + 1 > 5", "n / 2 > 0.9", "price < 1.5e0", "JMSPriority > 6", "JMSDeliveryMode = 'NON_PERSISTENT'", "JMSType = 'kind1'", "JMSCorrelationID = 'c2'", "JMSTimestamp > 0",
            "AMQPriority = 7", "AMQDurable = 'DURABLE'", "AMQExpiration = 0", "AMQExpiration > 0", "AMQSize > 0", "missing = 1", "missing <> 1", "flag", "name = 'x_1' OR n = 3", "name IN ('x_1')", "n = '2'", "text = 2",
            "convert_string_expressions:text = 2", "JMSXGroupID = 'g1'", "n <> 2 AND name <> 'x_3'", "TRUE", "hyphenated_props:my-n = 1", "AMQUserID LIKE 'ID:%'", "JMSMessageID LIKE 'ID:%'",
        };
        for (String selector : all) {
            Queue queue = session.createQueue(fresh("selectors"));
            MessageProducer producer = session.createProducer(queue);
            for (int n = 0; n < 4; n++) {
                Message message = session.createTextMessage("m" + n);
                message.setIntProperty("n", n);
                message.setStringProperty("name", "x_" + n);
                message.setStringProperty("text", "" + n);
                message.setDoubleProperty("price", n * 0.75);
                message.setBooleanProperty("flag", n % 2 == 0);
                message.setStringProperty("JMSXGroupID", "g" + n % 2);
                message.setJMSType("kind" + n);
                message.setJMSCorrelationID("c" + n);
                producer.send(message, n % 2 == 0 ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT, 4 + n, n == 3 ? 60_000 : 0);
            }
            attempt(selector, () -> browse(session.createBrowser(queue, selector)));
        }
        Queue queue = session.createQueue(fresh("selectors"));
        for (String bad : new String[] {"n =", "n = = 1", "'x", "n LIKE 5", "(n = 1", "n BETWEEN 1", "n IN ()", "1", "n + 1"}) {
            attempt("bad " + bad, () -> { session.createConsumer(queue, bad).close(); return null; });
        }
        connection.close();
    }

    static void wildcards() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        String stem = fresh("wild");
        MessageConsumer one = session.createConsumer(session.createTopic(stem + ".*")), any = session.createConsumer(session.createTopic(stem + ".#")), exact = session.createConsumer(session.createTopic(stem + ".a"));
        send(session, session.createTopic(stem + ".a"), "a");
        send(session, session.createTopic(stem + ".a.b"), "a.b");
        send(session, session.createTopic(stem), "stem");
        say("one word " + texts(one, 1));
        say("any words " + texts(any, 3));
        say("exact " + texts(exact, 1));
        send(session, session.createTopic(stem + ".late"), "to a topic made later");
        say("later " + texts(one, 1) + " " + texts(any, 1));
        connection.close();
    }

    static void qualified() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        String stem = fresh("qualified");
        MessageConsumer a = session.createConsumer(session.createQueue(stem + "::" + stem + ".a")), b = session.createConsumer(session.createQueue(stem + "::" + stem + ".b"));
        send(session, session.createQueue(stem + "::" + stem + ".a"), "only a");
        send(session, session.createQueue(stem), "either", "other");
        say("a " + texts(a, 2) + ", b " + texts(b, 1));
        attempt("a topic's queue", () -> {
            MessageConsumer queue = session.createConsumer(session.createQueue("many::many.one"));
            send(session, session.createTopic("many"), "told");
            return texts(queue, 1);
        });
        attempt("the other", () -> texts(session.createConsumer(session.createQueue("many::many.two")), 1));
        connection.close();
    }
}
