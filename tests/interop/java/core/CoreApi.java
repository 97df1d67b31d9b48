import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.activemq.artemis.api.core.ActiveMQException;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.api.core.client.ActiveMQClient;
import org.apache.activemq.artemis.api.core.client.ClientConsumer;
import org.apache.activemq.artemis.api.core.client.ClientMessage;
import org.apache.activemq.artemis.api.core.client.ClientProducer;
import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.api.core.client.ClientSessionFactory;
import org.apache.activemq.artemis.api.core.client.ServerLocator;

/** The client without JMS: queues and addresses with all their fields, queries, and the settlements that JMS hides. */
class CoreApi extends Kit {
    static void list(Map<String, Features.Feature> features) {
        features.put("coreQueues", CoreApi::queues);
        features.put("coreQueries", CoreApi::queries);
        features.put("coreRefusals", CoreApi::refusals);
        features.put("coreMessages", CoreApi::messages);
        features.put("coreAcknowledge", CoreApi::acknowledge);
        features.put("coreHandlers", CoreApi::handlers);
        features.put("coreMetadata", CoreApi::metadata);
        features.put("coreRouting", CoreApi::routing);
    }

    interface Work { void with(ClientSessionFactory factory, ClientSession session) throws Exception; }

    static void open(String options, Work work) throws Exception {
        try (ServerLocator locator = ActiveMQClient.createServerLocator(Kit.with(options)); ClientSessionFactory factory = locator.createSessionFactory(); ClientSession session = factory.createSession()) {
            session.start();
            work.with(factory, session);
        }
    }

    /** A name as the client wants it; how it is made differs between versions. */
    static SimpleString name(String text) throws Exception {
        Method maker;
        try {
            maker = SimpleString.class.getMethod("of", String.class);
        } catch (NoSuchMethodException old) {
            maker = SimpleString.class.getMethod("toSimpleString", String.class);
        }
        return (SimpleString) maker.invoke(null, text);
    }

    static QueueConfiguration queue(String text) throws Exception {
        try {
            return (QueueConfiguration) QueueConfiguration.class.getMethod("of", String.class).invoke(null, text);
        } catch (NoSuchMethodException old) {
            return QueueConfiguration.class.getConstructor(String.class).newInstance(text);
        }
    }

    static String queried(ClientSession session, String text) throws Exception {
        return answer(session.queueQuery(name(text)));
    }

    static String addressed(ClientSession session, String text) throws Exception {
        return answer(session.addressQuery(name(text)));
    }

    static void queues() throws Exception {
        open("", (factory, session) -> {
            String stem = fresh("coreQueues");
            session.createQueue(queue(stem).setAddress(stem + ".address").setRoutingType(RoutingType.ANYCAST));
            say("plain " + queried(session, stem));
            String all = fresh("coreQueues");
            session.createQueue(queue(all).setAddress(all).setRoutingType(RoutingType.MULTICAST).setFilterString("x > 1").setDurable(true).setMaxConsumers(7).setPurgeOnNoConsumers(true)
                .setExclusive(true).setGroupRebalance(true).setGroupBuckets(5).setGroupFirstKey("first").setLastValue(true).setLastValueKey("key").setNonDestructive(false).setConsumersBeforeDispatch(2)
                .setDelayBeforeDispatch(300L).setRingSize(9L).setEnabled(true).setAutoDelete(true).setAutoDeleteDelay(5000L).setAutoDeleteMessageCount(3L));
            say("all " + queried(session, all));
            String temporary = fresh("coreQueues");
            session.createQueue(queue(temporary).setAddress(temporary).setRoutingType(RoutingType.ANYCAST).setDurable(false).setTemporary(true));
            say("temporary " + queried(session, temporary));
            String made = fresh("coreQueues");
            session.createQueue(queue(made).setRoutingType(RoutingType.ANYCAST).setAutoCreated(true).setAutoCreateAddress(true));
            say("auto " + queried(session, made));
            session.createSharedQueue(queue(stem + ".shared").setAddress(stem + ".topic").setRoutingType(RoutingType.MULTICAST).setDurable(false));
            session.createSharedQueue(queue(stem + ".shared").setAddress(stem + ".topic").setRoutingType(RoutingType.MULTICAST).setDurable(false));
            say("shared " + queried(session, stem + ".shared"));
            attempt("shared with another filter", () -> { session.createSharedQueue(queue(stem + ".shared").setAddress(stem + ".topic").setRoutingType(RoutingType.MULTICAST).setDurable(false).setFilterString("y = 1")); return null; });
            attempt("shared at another address", () -> { session.createSharedQueue(queue(stem + ".shared").setAddress(stem + ".else").setRoutingType(RoutingType.MULTICAST).setDurable(false)); return null; });
            attempt("twice", () -> { session.createQueue(queue(stem).setAddress(stem + ".address").setRoutingType(RoutingType.ANYCAST)); return null; });
            attempt("delete", () -> { session.deleteQueue(name(stem)); return null; });
            say("then " + session.queueQuery(name(stem)).isExists());
            attempt("delete again", () -> { session.deleteQueue(name(stem)); return null; });
            attempt("delete while it is read", () -> { session.createConsumer(name(temporary)); session.deleteQueue(name(temporary)); return null; });
        });
    }

    static void queries() throws Exception {
        open("", (factory, session) -> {
            String stem = fresh("coreQueries");
            say("queue that is not " + queried(session, stem));
            say("strict queue that is not " + queried(session, "strict.none"));
            say("address that is not " + addressed(session, stem));
            say("strict address that is not " + addressed(session, "strict.none"));
            session.createAddress(name(stem), RoutingType.ANYCAST, false);
            say("address " + addressed(session, stem));
            attempt("address again", () -> { session.createAddress(name(stem), RoutingType.ANYCAST, false); return null; });
            attempt("address with both types", () -> { session.createAddress(name(stem + ".both"), java.util.EnumSet.of(RoutingType.ANYCAST, RoutingType.MULTICAST), false); return null; });
            say("both " + addressed(session, stem + ".both"));
            session.createQueue(queue(stem + ".q1").setAddress(stem).setRoutingType(RoutingType.ANYCAST));
            session.createQueue(queue(stem + ".q2").setAddress(stem).setRoutingType(RoutingType.ANYCAST).setDurable(false));
            say("queues of it " + addressed(session, stem));
            ClientProducer producer = session.createProducer(stem);
            for (int i = 0; i < 3; i++) producer.send(session.createMessage(i % 2 == 0));
            say("counts " + queried(session, stem + ".q1") + queried(session, stem + ".q2"));
            session.createConsumer(name(stem + ".q1"));
            say("read " + session.queueQuery(name(stem + ".q1")).getConsumerCount() + ", qualified " + session.queueQuery(name(stem + "::" + stem + ".q1")).isExists());
            say("special settings " + queried(session, "last.query") + queried(session, "ring.query") + queried(session, "exclusive.query"));
        });
    }

    static void refusals() throws Exception {
        open("", (factory, session) -> {
            String stem = fresh("coreRefusals");
            attempt("consumer of no queue", () -> session.createConsumer(name(stem)));
            session.createQueue(queue(stem).setRoutingType(RoutingType.ANYCAST));
            attempt("bad filter of a consumer", () -> session.createConsumer(name(stem), name("x >>> 1")));
            attempt("bad filter of a queue", () -> { session.createQueue(queue(stem + ".f").setAddress(stem).setRoutingType(RoutingType.ANYCAST).setFilterString("x >>> 1")); return null; });
            attempt("queue of a type that the address lacks", () -> { session.createQueue(queue(stem + ".m").setAddress("only.queue").setRoutingType(RoutingType.MULTICAST)); return null; });
            attempt("queue of an address that is not", () -> { session.createQueue(queue("strict.q").setAddress("strict.q").setRoutingType(RoutingType.ANYCAST).setAutoCreateAddress(false)); return null; });
            attempt("send to an address that is not", () -> { session.createProducer("strict.none").send(session.createMessage(true)); return null; });
            attempt("send without waiting, then a query", () -> { session.createProducer("strict.none").send(session.createMessage(false)); return session.queueQuery(name(stem)).isExists(); });
            attempt("queue without a name", () -> { session.createQueue(queue("").setAddress(stem).setRoutingType(RoutingType.ANYCAST)); return null; });
            attempt("ring of last values", () -> { session.createQueue(queue(stem + ".rl").setAddress(stem).setRoutingType(RoutingType.ANYCAST).setRingSize(2L).setLastValue(true)); return null; });
            attempt("commit of nothing", () -> { session.commit(); return null; });
            attempt("rollback of nothing", () -> { session.rollback(); return null; });
            say("it goes on " + session.queueQuery(name(stem)).isExists());
        });
    }

    static void messages() throws Exception {
        open("", (factory, session) -> {
            String stem = fresh("coreMessages");
            session.createQueue(queue(stem).setRoutingType(RoutingType.ANYCAST));
            ClientProducer producer = session.createProducer(stem);
            ClientMessage message = session.createMessage((byte) 0, true, 0, 0, (byte) 5);
            message.putBooleanProperty("boolean", true).putByteProperty("byte", (byte) 1).putBytesProperty("bytes", new byte[] {1, 2}).putDoubleProperty("double", 1.5).putFloatProperty("float", 2.5f)
                .putIntProperty("int", 3).putLongProperty("long", 4).putShortProperty("short", (short) 5).putStringProperty("string", "six");
            message.putObjectProperty("null", null);
            message.putObjectProperty("char", 'c');
            message.getBodyBuffer().writeString("in the body");
            producer.send(message);
            producer.send(session.createMessage(false));
            ClientConsumer consumer = session.createConsumer(stem);
            for (int i = 0; i < 2; i++) {
                ClientMessage received = consumer.receive(WAIT);
                List<String> properties = new ArrayList<>();
                for (SimpleString each : received.getPropertyNames()) properties.add(each + "=" + value(received.getObjectProperty(each)));
                Collections.sort(properties);
                say("type " + received.getType() + " durable " + received.isDurable() + " priority " + received.getPriority() + " body " + received.getBodySize() + " user " + received.getUserID() + " " + properties);
                if (i == 0) say("body " + received.getBodyBuffer().readString());
                received.acknowledge();
            }
            say("nothing more " + consumer.receiveImmediate());
            say("count " + counted(session, stem));
        });
    }

    static String number(ClientMessage message) {
        return message == null ? "none" : message.getIntProperty("n") + (message.getDeliveryCount() == 1 ? "" : "x" + message.getDeliveryCount());
    }

    /** How many a queue holds, once what was acknowledged is on disk. */
    static long counted(ClientSession session, String queue) throws Exception {
        Thread.sleep(QUIET);
        return session.queueQuery(name(queue)).getMessageCount();
    }

    static void acknowledge() throws Exception {
        open("ackBatchSize=0", (factory, session) -> {
            String stem = fresh("coreAcknowledge");
            session.createQueue(queue(stem).setRoutingType(RoutingType.ANYCAST));
            ClientProducer producer = session.createProducer(stem);
            for (int n = 0; n < 6; n++) producer.send(session.createMessage(true).putIntProperty("n", n));
            ClientConsumer consumer = session.createConsumer(stem);
            List<ClientMessage> held = new ArrayList<>();
            for (int n = 0; n < 4; n++) held.add(consumer.receive(WAIT));
            held.get(1).acknowledge();
            held.get(3).individualAcknowledge();
            say("waiting " + counted(session, stem));
            consumer.close();
            ClientConsumer again = session.createConsumer(stem);
            List<String> rest = new ArrayList<>();
            for (int n = 0; n < 3; n++) rest.add(number(again.receive(WAIT)));
            say("rest " + rest + " " + again.receiveImmediate());
            again.close();
            try (ClientSession transacted = factory.createSession(false, false, 0)) {
                transacted.start();
                ClientConsumer third = transacted.createConsumer(stem);
                List<String> seen = new ArrayList<>();
                for (int n = 0; n < 3; n++) {
                    ClientMessage one = third.receive(WAIT);
                    seen.add(number(one));
                    one.acknowledge();
                }
                transacted.rollback();
                say("seen " + seen + " then " + number(third.receive(WAIT)) + ", rollback only " + transacted.isRollbackOnly());
                transacted.rollback(true);
                ClientMessage first = third.receive(WAIT);
                say("and " + number(first));
                first.acknowledge();
                transacted.commit();
            }
            say("waiting " + counted(session, stem));
            try (ClientSession before = factory.createSession(null, null, false, true, true, true, 0)) {
                before.start();
                ClientConsumer eager = before.createConsumer(stem);
                say("acknowledged before " + number(eager.receive(WAIT)) + " " + number(eager.receive(WAIT)));
            }
            say("waiting " + counted(session, stem));
        });
    }

    static void handlers() throws Exception {
        open("confirmationWindowSize=5000", (factory, session) -> {
            String stem = fresh("coreHandlers");
            session.createQueue(queue(stem).setRoutingType(RoutingType.ANYCAST));
            List<String> answered = Collections.synchronizedList(new ArrayList<>());
            CountDownLatch all = new CountDownLatch(10);
            session.setSendAcknowledgementHandler(message -> {
                answered.add("" + message.getIntProperty("n"));
                all.countDown();
            });
            ClientProducer producer = session.createProducer(stem);
            for (int n = 0; n < 10; n++) producer.send(session.createMessage(n % 2 == 0).putIntProperty("n", n));
            say("answered " + all.await(5, TimeUnit.SECONDS) + " " + answered);
            CountDownLatch heard = new CountDownLatch(10);
            List<String> got = Collections.synchronizedList(new ArrayList<>());
            ClientConsumer consumer = session.createConsumer(stem);
            consumer.setMessageHandler(message -> {
                got.add(number(message));
                try {
                    message.acknowledge();
                } catch (ActiveMQException problem) {
                    got.add(problem(problem));
                }
                heard.countDown();
            });
            say("heard " + heard.await(5, TimeUnit.SECONDS) + " " + got);
        });
    }

    static void metadata() throws Exception {
        open("", (factory, session) -> {
            session.addMetaData("key", "value");
            try (ClientSession other = factory.createSession()) {
                attempt("unique", () -> { session.addUniqueMetaData("unique", "pair"); return null; });
                attempt("taken", () -> { other.addUniqueMetaData("unique", "pair"); return null; });
                attempt("another value", () -> { other.addUniqueMetaData("unique", "second"); return null; });
            }
            try (ClientSession other = factory.createSession()) {
                attempt("free again", () -> { other.addUniqueMetaData("unique", "second"); return null; });
            }
        });
    }

    /** Which queues a message reaches, by its routing type and theirs. */
    static void routing() throws Exception {
        open("", (factory, session) -> {
            String stem = fresh("coreRouting");
            session.createAddress(name(stem), java.util.EnumSet.of(RoutingType.ANYCAST, RoutingType.MULTICAST), false);
            for (String each : new String[] {"a1", "a2"}) session.createQueue(queue(stem + "." + each).setAddress(stem).setRoutingType(RoutingType.ANYCAST));
            for (String each : new String[] {"m1", "m2"}) session.createQueue(queue(stem + "." + each).setAddress(stem).setRoutingType(RoutingType.MULTICAST));
            session.createQueue(queue(stem + ".f").setAddress(stem).setRoutingType(RoutingType.MULTICAST).setFilterString("n = 1"));
            for (RoutingType type : new RoutingType[] {RoutingType.ANYCAST, RoutingType.MULTICAST, null}) {
                ClientProducer producer = session.createProducer(stem);
                for (int n = 0; n < 2; n++) {
                    ClientMessage message = session.createMessage(true);
                    if (type != null) message.setRoutingType(type);
                    producer.send(message.putIntProperty("n", n));
                }
                List<String> counts = new ArrayList<>();
                for (String each : Arrays.asList("a1", "a2", "m1", "m2", "f")) counts.add(each + "=" + session.queueQuery(name(stem + "." + each)).getMessageCount());
                say(type + " " + counts);
            }
            session.createProducer(stem + "::" + stem + ".a1").send(session.createMessage(true));
            say("qualified " + session.queueQuery(name(stem + ".a1")).getMessageCount());
            attempt("queue that is not, qualified", () -> { session.createProducer(stem + "::" + stem + ".none").send(session.createMessage(true)); return null; });
        });
    }
}
