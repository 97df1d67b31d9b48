import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.*;

/** How messages are acknowledged, given back, and redelivered; what a window holds. */
class Settling extends Kit {
    static final int INDIVIDUAL = 101, PRE = 100; // ActiveMQJMSConstants

    static void list(Map<String, Features.Feature> features) {
        features.put("acknowledge", Settling::acknowledge);
        features.put("individual", Settling::individual);
        features.put("recover", Settling::recover);
        features.put("transactions", Settling::transactions);
        features.put("redelivery", Settling::redelivery);
        features.put("redeliveryDelay", Settling::redeliveryDelay);
        features.put("listeners", Settling::listeners);
        features.put("windows", Settling::windows);
        features.put("waiting", Settling::waiting);
    }

    static void acknowledge() throws Exception {
        for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE, INDIVIDUAL, PRE}) {
            String name = fresh("acknowledge");
            put(name, "a", "b", "c", "d", "e");
            Connection connection = connect();
            Session session = connection.createSession(false, mode);
            MessageConsumer consumer = session.createConsumer(session.createQueue(name));
            for (int i = 0; i < 3; i++) say(mode + " " + brief(consumer.receive(WAIT)));
            connection.close();
            say("left " + left(name));
        }
        String name = fresh("acknowledge");
        put(name, "a", "b", "c", "d", "e");
        Connection connection = connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        consumer.receive(WAIT);
        Message second = consumer.receive(WAIT);
        consumer.receive(WAIT);
        second.acknowledge();
        consumer.receive(WAIT);
        connection.close();
        say("client: left " + left(name));
    }

    static void individual() throws Exception {
        String name = fresh("individual");
        put(name, "a", "b", "c", "d", "e");
        Connection connection = connect();
        Session session = connection.createSession(false, INDIVIDUAL);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        List<Message> held = new ArrayList<>();
        for (int i = 0; i < 5; i++) held.add(consumer.receive(WAIT));
        held.get(3).acknowledge();
        held.get(1).acknowledge();
        connection.close();
        say("left " + left(name));
        Connection mixed = connect();
        Session auto = auto(mixed);
        Queue queue = auto.createQueue(fresh("individual"));
        MessageProducer producer = auto.createProducer(queue);
        for (int priority : new int[] {4, 4, 8, 4, 1}) producer.send(auto.createTextMessage("p" + priority), DeliveryMode.PERSISTENT, priority, 0);
        say("priorities " + texts(auto.createConsumer(queue), 5));
        mixed.close();
        say("left " + left(queue.getQueueName()));
    }

    static void recover() throws Exception {
        String name = fresh("recover");
        put(name, "a", "b", "c");
        Connection connection = connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        consumer.receive(WAIT).acknowledge();
        say("before " + brief(consumer.receive(WAIT)));
        session.recover();
        say("after " + texts(consumer, 2));
        session.recover();
        Message last = null;
        for (int i = 0; i < 2; i++) last = consumer.receive(WAIT);
        say("once more " + brief(last));
        last.acknowledge();
        connection.close();
        say("left " + left(name));
    }

    static void transactions() throws Exception {
        String name = fresh("transactions"), answers = fresh("answers");
        Connection connection = connect();
        Session session = transacted(connection);
        Queue queue = session.createQueue(name);
        send(session, queue, "never");
        session.rollback();
        send(session, queue, "a", "b", "c");
        say("before the commit " + seen(name));
        session.commit();
        say("after it " + seen(name));
        MessageConsumer consumer = session.createConsumer(queue);
        say("got " + brief(consumer.receive(WAIT)));
        send(session, session.createQueue(answers), "answer");
        session.rollback();
        say("answers " + left(answers));
        say("again " + brief(consumer.receive(WAIT)) + ", " + brief(consumer.receive(WAIT)));
        send(session, session.createQueue(answers), "answer");
        session.commit();
        say("answers " + left(answers));
        say("uncommitted " + brief(consumer.receive(WAIT)));
        session.close();
        say("back " + left(name));
        Session closing = transacted(connection);
        send(closing, queue, "dropped by the close");
        closing.close();
        say("dropped " + left(name));
        Session two = transacted(connection);
        MessageConsumer first = two.createConsumer(queue), other = two.createConsumer(two.createQueue(answers));
        put(name, "x");
        put(answers, "y");
        say("both " + brief(first.receive(WAIT)) + " " + brief(other.receive(WAIT)));
        two.rollback();
        say("both " + brief(first.receive(WAIT)) + " " + brief(other.receive(WAIT)));
        two.commit();
        attempt("commit of an auto session", () -> { auto(connection).commit(); return null; });
        connection.close();
        say("left " + left(name) + left(answers));
    }

    /** Three attempts: address setting `three.#`. */
    static void redelivery() throws Exception {
        String name = fresh("three.redelivery");
        put(name, "poison", "good");
        Connection connection = connect();
        Session session = transacted(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        for (int i = 0; i < 5; i++) {
            Message message = consumer.receive(1000);
            say("attempt " + brief(message));
            if (message == null) break;
            if (((TextMessage) message).getText().equals("good")) session.commit(); else session.rollback();
        }
        connection.close();
        Connection other = connect();
        Session looking = auto(other);
        MessageConsumer dead = looking.createConsumer(looking.createQueue("dead.here"));
        dump("dead", dead.receive(WAIT));
        say("no more " + brief(dead.receive(QUIET)));
        other.close();
    }

    /** `slow.#`: 400 ms, twice as much each time. */
    static void redeliveryDelay() throws Exception {
        String name = fresh("slow.redelivery");
        put(name, "delayed");
        Connection connection = connect();
        Session session = transacted(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        long began = System.nanoTime();
        for (int i = 0; i < 3; i++) {
            String came = brief(consumer.receive(WAIT));
            say("attempt " + came + ", not before its time " + (System.nanoTime() - began >= (i == 0 ? 0 : 350_000_000L << (i - 1))));
            began = System.nanoTime();
            session.rollback();
        }
        connection.close();
    }

    static void listeners() throws Exception {
        String name = fresh("listeners");
        put(name, "a", "fails", "b", "c");
        Connection connection = connect();
        connection.stop();
        Session session = auto(connection);
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(5);
        session.createConsumer(session.createQueue(name)).setMessageListener(message -> {
            try {
                heard.add(brief(message));
                all.countDown();
                if (((TextMessage) message).getText().equals("fails") && !message.getJMSRedelivered()) throw new RuntimeException("first time");
            } catch (JMSException problem) {
                heard.add(problem(problem));
            }
        });
        say("stopped " + heard);
        connection.start();
        say("in time " + all.await(5, TimeUnit.SECONDS) + " " + heard);
        connection.close();
        say("left " + left(name));
    }

    static void windows() throws Exception {
        for (String options : new String[] {"consumerWindowSize=0", "consumerWindowSize=-1", "consumerWindowSize=1", "consumerWindowSize=500", ""}) {
            String name = fresh("windows");
            put(name, Sending.numbered("m", 12));
            Connection slow = connect(options), quick = connect("consumerWindowSize=0");
            Session first = auto(slow), second = auto(quick);
            MessageConsumer idle = first.createConsumer(first.createQueue(name));
            Thread.sleep(QUIET);
            MessageConsumer busy = second.createConsumer(second.createQueue(name));
            List<String> taken = new ArrayList<>();
            for (Message message; (message = busy.receive(QUIET)) != null; ) taken.add(brief(message));
            boolean between = !taken.isEmpty() && taken.size() < 12;
            say(options + ": the other takes " + (options.endsWith("=500") ? "some " + between : taken.toString()));
            List<String> rest = new ArrayList<>();
            for (Message message; (message = idle.receive(QUIET)) != null; ) rest.add(brief(message));
            say("  in all " + (taken.size() + rest.size()) + (options.endsWith("=500") ? "" : ", held " + rest));
            slow.close();
            quick.close();
            say("  left " + left(name));
        }
    }

    static void waiting() throws Exception {
        for (String options : new String[] {"", "consumerWindowSize=0", "consumerWindowSize=-1"}) {
            String name = fresh("waiting");
            Connection connection = connect(options);
            Session session = auto(connection);
            MessageConsumer consumer = session.createConsumer(session.createQueue(name));
            say(options + " nothing " + brief(consumer.receiveNoWait()) + " " + brief(consumer.receive(100)));
            put(name, "one", "two", "three");
            say("no wait " + brief(consumer.receiveNoWait()) + ", " + brief(consumer.receive(WAIT)) + ", " + brief(consumer.receiveNoWait()) + ", " + brief(consumer.receiveNoWait()));
            connection.stop();
            put(name, "four");
            say("stopped " + brief(consumer.receive(100)) + " " + brief(consumer.receiveNoWait()));
            connection.start();
            say("started " + brief(consumer.receive(WAIT)));
            connection.close();
        }
    }
}
