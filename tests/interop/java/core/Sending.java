import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.*;

/** How messages get in: waited for or not, answered later, with priority, expiry, delay, and in duplicate. */
class Sending extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("blocking", Sending::blocking);
        features.put("completion", Sending::completion);
        features.put("producerWindow", Sending::producerWindow);
        features.put("confirmationWindow", Sending::confirmationWindow);
        features.put("priority", Sending::priority);
        features.put("expiry", Sending::expiry);
        features.put("delay", Sending::delay);
        features.put("duplicates", Sending::duplicates);
        features.put("anonymous", Sending::anonymous);
        features.put("contexts", Sending::contexts);
        features.put("fullAddresses", Sending::fullAddresses);
    }

    static String[] numbered(String stem, int count) {
        String[] made = new String[count];
        for (int i = 0; i < count; i++) made[i] = stem + i;
        return made;
    }

    static void blocking() throws Exception {
        for (String options : new String[] {"", "blockOnDurableSend=false", "blockOnNonDurableSend=true", "blockOnAcknowledge=true"}) {
            Connection connection = connect(options);
            Session session = auto(connection);
            Queue queue = session.createQueue(fresh("blocking"));
            MessageProducer producer = session.createProducer(queue);
            for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
                producer.setDeliveryMode(mode);
                for (int i = 0; i < 5; i++) producer.send(session.createTextMessage(mode + "-" + i));
            }
            say(options + " " + texts(session.createConsumer(queue), 10));
            connection.close();
            say("left " + left(queue.getQueueName()));
        }
    }

    static void completion() throws Exception {
        for (String options : new String[] {"confirmationWindowSize=10000", "confirmationWindowSize=300", ""}) {
            Connection connection = connect(options);
            Session session = auto(connection);
            Queue queue = session.createQueue(fresh("completion"));
            MessageProducer producer = session.createProducer(queue);
            List<String> answered = Collections.synchronizedList(new ArrayList<>());
            CountDownLatch all = new CountDownLatch(20);
            for (int i = 0; i < 20; i++) {
                producer.send(session.createTextMessage("c" + i), i % 2 == 0 ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT, 4, 0, new CompletionListener() {
                    @Override public void onCompletion(Message message) {
                        try {
                            answered.add(((TextMessage) message).getText());
                        } catch (JMSException problem) {
                            answered.add(problem(problem));
                        }
                        all.countDown();
                    }
                    @Override public void onException(Message message, Exception problem) {
                        answered.add(problem(problem));
                        all.countDown();
                    }
                });
            }
            say(options + " in time " + all.await(10, TimeUnit.SECONDS) + " " + answered);
            say("there " + texts(session.createConsumer(queue), 20).size());
            connection.close();
        }
    }

    static void producerWindow() throws Exception {
        for (String options : new String[] {"producerWindowSize=1000", "producerWindowSize=-1", "producerWindowSize=200000&blockOnDurableSend=false"}) {
            Connection connection = connect(options);
            Session session = auto(connection);
            Queue queue = session.createQueue(fresh("window"));
            send(session, queue, numbered("a text of some length, so that credits are used up, ", 60));
            say(options + " " + texts(session.createConsumer(queue), 60).size());
            connection.close();
        }
    }

    static void confirmationWindow() throws Exception {
        for (String options : new String[] {"confirmationWindowSize=1", "confirmationWindowSize=2000", "confirmationWindowSize=1000000&blockOnDurableSend=false"}) {
            Connection connection = connect(options);
            Session session = transacted(connection);
            Queue queue = session.createQueue(fresh("confirm"));
            send(session, queue, numbered("m", 50));
            session.commit();
            say(options + " " + texts(session.createConsumer(queue), 50).size());
            session.commit();
            Session other = auto(connection);
            Queue second = session.createQueue(fresh("confirm"));
            send(other, second, Bodies.prose(300_000), "small");
            say("large " + texts(other.createConsumer(second), 2));
            connection.close();
            say("left " + left(queue.getQueueName()) + left(second.getQueueName()));
        }
    }

    static void priority() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("priority"));
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {4, 0, 9, 4, 7, 1, 9, 5}) producer.send(session.createTextMessage("p" + priority), DeliveryMode.PERSISTENT, priority, 0);
        say("in order " + texts(session.createConsumer(queue), 8));
        attempt("priority 10", () -> { producer.setPriority(10); return null; });
        connection.close();
    }

    static void expiry() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("expiry.queue"));
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("short"), DeliveryMode.PERSISTENT, 4, 100);
        producer.send(session.createTextMessage("brief"), DeliveryMode.NON_PERSISTENT, 4, 100);
        producer.send(session.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, 60_000);
        Thread.sleep(400);
        say("received " + texts(session.createConsumer(queue), 1));
        MessageConsumer over = session.createConsumer(session.createQueue("expired.here"));
        dump("expired", over.receive(WAIT));
        dump("expired", over.receive(WAIT));
        // a consumer that holds a message until it is over: the client says so
        Queue held = session.createQueue(fresh("expiry.held"));
        Connection other = connect();
        other.stop();
        Session late = auto(other);
        MessageConsumer consumer = late.createConsumer(held);
        session.createProducer(held).send(session.createTextMessage("held"), DeliveryMode.PERSISTENT, 4, 300);
        other.start();
        Thread.sleep(800);
        say("held " + brief(consumer.receive(QUIET)));
        dump("expired at the client", over.receive(WAIT));
        other.close();
        connection.close();
    }

    static void delay() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        String name = fresh("delay");
        Queue queue = session.createQueue(name);
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryDelay(900);
        producer.send(session.createTextMessage("later"));
        producer.setDeliveryDelay(500);
        producer.send(session.createTextMessage("sooner"));
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("now"));
        say("now " + brief(consumer.receive(WAIT)));
        say("too early " + brief(consumer.receive(100)));
        dump("sooner", consumer.receive(WAIT));
        say("later " + brief(consumer.receive(WAIT)));
        Session transacted = transacted(connection);
        MessageProducer third = transacted.createProducer(queue);
        third.setDeliveryDelay(400);
        third.send(transacted.createTextMessage("after commit"));
        transacted.commit();
        say("transacted " + texts(consumer, 1));
        Topic topic = session.createTopic(fresh("delayTopic"));
        MessageConsumer subscriber = session.createConsumer(topic);
        MessageProducer teller = session.createProducer(topic);
        teller.setDeliveryDelay(400);
        teller.send(session.createTextMessage("told late"));
        say("topic " + brief(subscriber.receive(50)) + " " + texts(subscriber, 1));
        connection.close();
    }

    static Message marked(Session session, String text, String id) throws JMSException {
        Message made = session.createTextMessage(text);
        made.setStringProperty("_AMQ_DUPL_ID", id);
        return made;
    }

    static void duplicates() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        String name = fresh("duplicates");
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        attempt("one", () -> { producer.send(marked(session, "one", "id1")); return null; });
        attempt("one again", () -> { producer.send(marked(session, "one again", "id1")); return null; });
        attempt("two", () -> { producer.send(marked(session, "two", "id2")); return null; });
        Session transacted = transacted(connection);
        MessageProducer second = transacted.createProducer(queue);
        attempt("in a transaction", () -> { second.send(marked(transacted, "three", "id3")); second.send(marked(transacted, "two again", "id2")); return null; });
        attempt("commit", () -> { transacted.commit(); return null; });
        attempt("a fresh one", () -> { second.send(marked(transacted, "three later", "id3")); return null; });
        attempt("commit of it", () -> { transacted.commit(); return null; });
        say("there " + seen(name));
        connection.close();
    }

    static void anonymous() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(null);
        String queue = fresh("anonymous");
        attempt("to a new queue", () -> { producer.send(session.createQueue(queue), session.createTextMessage("q")); return null; });
        say("there " + seen(queue));
        Topic topic = session.createTopic(fresh("anonymousTopic"));
        MessageConsumer consumer = session.createConsumer(topic);
        attempt("to a topic", () -> { producer.send(topic, session.createTextMessage("t")); return null; });
        say("there " + texts(consumer, 1));
        attempt("to nowhere", () -> { producer.send(session.createTextMessage("n")); return null; });
        Topic unheard = session.createTopic(fresh("unheard"));
        attempt("to a topic that nobody hears", () -> { producer.send(unheard, session.createTextMessage("t")); return null; });
        connection.close();
    }

    static void contexts() throws Exception {
        try (JMSContext context = factory("").createContext(JMSContext.AUTO_ACKNOWLEDGE)) {
            Queue queue = context.createQueue(fresh("contexts"));
            JMSProducer producer = context.createProducer().setPriority(6).setProperty("p", 5).setJMSType("t").setTimeToLive(60_000);
            producer.send(queue, "text").send(queue, Collections.<String, Object>singletonMap("k", 1L)).send(queue, new byte[] {1, 2});
            JMSConsumer consumer = context.createConsumer(queue);
            dump("first", consumer.receive(WAIT));
            say("map " + consumer.receiveBody(Map.class, WAIT));
            say("bytes " + consumer.receiveBody(byte[].class, WAIT).length);
            say("no wait " + consumer.receiveNoWait());
        }
        try (JMSContext context = factory("").createContext(JMSContext.SESSION_TRANSACTED)) {
            Queue queue = context.createQueue(fresh("contexts"));
            context.createProducer().send(queue, "rolled back");
            context.rollback();
            context.createProducer().send(queue, "kept");
            context.commit();
            JMSConsumer consumer = context.createConsumer(queue);
            say(brief(consumer.receive(WAIT)) + " " + brief(consumer.receive(QUIET)));
            context.commit();
        }
    }

    /** Addresses `full.blocks` and `full.fails` hold 20 KB. */
    static void fullAddresses() throws Exception {
        Connection connection = connect("producerWindowSize=2000");
        Session session = auto(connection);
        Queue fails = session.createQueue("full.fails.q");
        MessageProducer producer = session.createProducer(fails);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(new byte[4000]);
        String said = "no refusal";
        for (int i = 0; i < 40 && said.equals("no refusal"); i++) {
            try {
                producer.send(message);
            } catch (JMSException problem) {
                said = problem(problem);
            }
        }
        say("fails: " + said);
        int there = left("full.fails.q").size();
        say("some were taken " + (there > 2 && there < 12));
        Queue blocks = session.createQueue("full.blocks.q");
        CountDownLatch sent = new CountDownLatch(1);
        Thread sender = new Thread(() -> {
            try (JMSContext context = factory("producerWindowSize=2000").createContext()) {
                for (int i = 0; i < 20; i++) context.createProducer().send(blocks, new byte[4000]);
                sent.countDown();
            } catch (RuntimeException problem) {
                say("sender " + problem(problem));
            }
        });
        sender.start();
        say("blocks: all sent at once " + sent.await(1, TimeUnit.SECONDS));
        MessageConsumer consumer = session.createConsumer(blocks);
        int received = 0;
        while (received < 20 && consumer.receive(WAIT) != null) received++;
        say("received " + received + ", then all sent " + sent.await(5, TimeUnit.SECONDS));
        connection.close();
    }
}
