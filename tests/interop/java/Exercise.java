import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.*;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.DestinationDoesNotExistException;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.DataStructure;
import org.apache.activemq.command.DestinationInfo;
import org.apache.activemq.command.ProducerInfo;

/** Does what a JMS client can ask of a broker and prints what happened: the same on every broker that is right. */
public class Exercise {
    static final long WAIT = 5000, QUIET = 300;
    static String url;
    static int serial;

    interface Feature { void run() throws Exception; }

    public static void main(String[] args) throws Exception {
        url = args[0];
        Map<String, Feature> features = features();
        List<String> wanted = new ArrayList<>(args.length > 1 ? Arrays.asList(args).subList(1, args.length) : features.keySet());
        for (String name : wanted) {
            say("## " + name);
            Thread watchdog = watchdog(name);
            try {
                features.get(name).run();
            } catch (Throwable problem) {
                say("THREW " + problem.getClass().getName() + ": " + problem.getMessage());
                if (System.getenv("TRACE") != null) problem.printStackTrace(System.out);
            }
            watchdog.interrupt();
        }
        say("## end");
        System.exit(0);
    }

    static Thread watchdog(String name) {
        Thread thread = new Thread(() -> {
            try {
                Thread.sleep(40_000);
                say("STUCK in " + name);
                System.exit(3);
            } catch (InterruptedException done) {
                // it ended in time
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static Map<String, Feature> features() {
        Map<String, Feature> all = new java.util.LinkedHashMap<>();
        all.put("types", Exercise::types);
        all.put("compression", Exercise::compression);
        all.put("headers", Exercise::headers);
        all.put("properties", Exercise::properties);
        all.put("wire", Exercise::wire);
        all.put("acknowledge", Exercise::acknowledge);
        all.put("individual", Exercise::individual);
        all.put("optimized", Exercise::optimized);
        all.put("redelivery", Exercise::redelivery);
        all.put("counters", Exercise::counters);
        all.put("poison", Exercise::poison);
        all.put("expired", Exercise::expired);
        all.put("pull", Exercise::pull);
        all.put("browse", Exercise::browse);
        all.put("temporary", Exercise::temporary);
        all.put("durable", Exercise::durable);
        all.put("noLocal", Exercise::noLocal);
        all.put("exclusive", Exercise::exclusive);
        all.put("priority", Exercise::priority);
        all.put("groups", Exercise::groups);
        all.put("wildcards", Exercise::wildcards);
        all.put("composite", Exercise::composite);
        all.put("virtual", Exercise::virtual);
        all.put("options", Exercise::options);
        all.put("selectors", Exercise::selectors);
        all.put("window", Exercise::window);
        all.put("local", Exercise::local);
        all.put("xa", Exercise::xa);
        all.put("clientId", Exercise::clientId);
        all.put("asynchronous", Exercise::asynchronous);
        all.put("prefetch", Exercise::prefetch);
        all.put("failover", Exercise::failover);
        all.put("advisories", Exercise::advisories);
        all.put("sources", Exercise::sources);
        return all;
    }

    static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static String fresh(String stem) {
        return stem + "." + (++serial);
    }

    static ActiveMQConnection connect(String options) throws JMSException {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url + options);
        factory.setTrustAllPackages(true);
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.start();
        return connection;
    }

    static ActiveMQConnection connect() throws JMSException {
        return connect("");
    }

    static Session auto(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static void sendTexts(Session session, Destination where, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(where);
        for (String text : texts) producer.send(session.createTextMessage(text));
        producer.close();
    }

    static String text(Message message) throws JMSException {
        return message == null ? "nothing" : message instanceof TextMessage ? ((TextMessage) message).getText() : message.getClass().getSimpleName();
    }

    static List<String> drain(MessageConsumer consumer) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message message; (message = consumer.receive(found.isEmpty() ? 1500 : QUIET)) != null; ) found.add(text(message));
        return found;
    }

    static List<String> receive(MessageConsumer consumer, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        while (found.size() < count) {
            Message message = consumer.receive(WAIT);
            if (message == null) { found.add("MISSING"); break; }
            found.add(text(message));
        }
        return found;
    }

    /**
     * Begin to browse, and let what there is come first. The browser of ActiveMQ looks for a message, and then whether the
     * end came: where messages and end came between the two looks, it says that there is no message.
     */
    static Enumeration<?> begun(QueueBrowser browser) throws JMSException {
        Enumeration<?> all = browser.getEnumeration();
        try {
            Thread.sleep(20);
        } catch (InterruptedException never) {
            throw new java.lang.IllegalStateException(never);
        }
        return all;
    }

    static List<String> left(String queue) throws JMSException {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        QueueBrowser browser = session.createBrowser(session.createQueue(queue));
        List<String> found = new ArrayList<>();
        for (Enumeration<?> all = begun(browser); all.hasMoreElements(); ) found.add(text((Message) all.nextElement()));
        connection.close();
        return found;
    }

    static void attempt(String what, Feature feature) {
        try {
            feature.run();
            say(what + ": ok");
        } catch (XAException refused) {
            say(what + ": XAException " + refused.errorCode);
        } catch (InvalidDestinationException | DestinationDoesNotExistException refused) {
            say(what + ": there is no such destination"); // said by the client or by the broker, whoever knows first
        } catch (Exception refused) {
            say(what + ": " + refused.getClass().getName());
        }
    }

    // -- messages ---------------------------------------------------------------------------------------------------

    static final String ODD = "a\u0000b\u00e9\u20ac\ud83d\ude00z";

    static void sendAll(Session session, Destination where) throws JMSException {
        MessageProducer producer = session.createProducer(where);
        producer.send(session.createMessage());
        producer.send(session.createTextMessage(ODD));
        producer.send(session.createTextMessage(""));
        producer.send(session.createTextMessage());
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeInt(42);
        bytes.writeUTF(ODD);
        bytes.writeBytes(new byte[3000]);
        producer.send(bytes);
        MapMessage map = session.createMapMessage();
        map.setBoolean("boolean", true);
        map.setByte("byte", (byte) -3);
        map.setChar("char", '\u20ac');
        map.setShort("short", (short) -300);
        map.setInt("int", 1 << 30);
        map.setLong("long", 1L << 60);
        map.setFloat("float", 1.5f);
        map.setDouble("double", Math.PI);
        map.setString("string", ODD);
        map.setBytes("bytes", new byte[] {1, 2, 3});
        producer.send(map);
        StreamMessage stream = session.createStreamMessage();
        stream.writeInt(7);
        stream.writeString(ODD);
        stream.writeDouble(2.25);
        stream.writeBytes(new byte[] {9, 8});
        producer.send(stream);
        producer.send(session.createObjectMessage(new ArrayList<Serializable>(Arrays.asList("one", 2, 3.0))));
        producer.close();
    }

    static String shown(Message message) throws JMSException {
        if (message == null) return "nothing";
        String kind = message.getClass().getSimpleName();
        if (message instanceof TextMessage) return kind + " " + escape(((TextMessage) message).getText());
        if (message instanceof BytesMessage) {
            BytesMessage bytes = (BytesMessage) message;
            return kind + " " + bytes.getBodyLength() + " " + bytes.readInt() + " " + escape(bytes.readUTF());
        }
        if (message instanceof MapMessage) {
            MapMessage map = (MapMessage) message;
            Map<String, String> sorted = new TreeMap<>();
            for (Enumeration<?> all = map.getMapNames(); all.hasMoreElements(); ) {
                String name = (String) all.nextElement();
                Object value = map.getObject(name);
                sorted.put(name, value.getClass().getSimpleName() + "=" + (value instanceof byte[] ? Arrays.toString((byte[]) value) : escape(value.toString())));
            }
            return kind + " " + sorted;
        }
        if (message instanceof StreamMessage) {
            StreamMessage stream = (StreamMessage) message;
            String head = stream.readInt() + " " + escape(stream.readString()) + " " + stream.readDouble();
            return kind + " " + head + " " + Arrays.toString((byte[]) stream.readObject());
        }
        if (message instanceof ObjectMessage) return kind + " " + ((ObjectMessage) message).getObject();
        return kind;
    }

    static String escape(String text) {
        if (text == null) return "null";
        StringBuilder plain = new StringBuilder();
        for (char each : text.toCharArray()) plain.append(each >= ' ' && each < 127 ? String.valueOf(each) : String.format("\\u%04x", (int) each));
        return plain.toString();
    }

    static void allTypes(String options) throws JMSException {
        ActiveMQConnection connection = connect(options);
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("types"));
        sendAll(session, queue);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int i = 0; i < 8; i++) say(shown(consumer.receive(WAIT)));
        connection.close();
    }

    static void types() throws Exception {
        allTypes("");
    }

    static void compression() throws Exception {
        allTypes("?jms.useCompression=true");
    }

    static void headers() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("headers"));
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
            TextMessage sent = session.createTextMessage("x");
            sent.setJMSCorrelationID("correlation \u20ac");
            sent.setJMSType("kind");
            sent.setJMSReplyTo(session.createTopic("answers"));
            producer.send(sent, mode, 7, 60_000);
            Message got = consumer.receive(WAIT);
            say("mode " + got.getJMSDeliveryMode() + " priority " + got.getJMSPriority() + " type " + got.getJMSType());
            say("correlation " + escape(got.getJMSCorrelationID()) + " reply to " + got.getJMSReplyTo() + " at " + got.getJMSDestination());
            say("same id " + got.getJMSMessageID().equals(sent.getJMSMessageID()) + " same time " + (got.getJMSTimestamp() == sent.getJMSTimestamp()));
            say("expires as sent " + (got.getJMSExpiration() == sent.getJMSExpiration()) + " redelivered " + got.getJMSRedelivered());
            say("in time " + (got.getLongProperty("JMSActiveMQBrokerInTime") > 0) + " out time " + (got.getLongProperty("JMSActiveMQBrokerOutTime") > 0) + " count " + got.getIntProperty("JMSXDeliveryCount"));
        }
        connection.close();
    }

    static void properties() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("properties"));
        MessageProducer producer = session.createProducer(queue);
        Message sent = session.createMessage();
        sent.setBooleanProperty("boolean", true);
        sent.setByteProperty("byte", (byte) 1);
        sent.setShortProperty("short", (short) 2);
        sent.setIntProperty("int", 3);
        sent.setLongProperty("long", 4L);
        sent.setFloatProperty("float", 0.5f);
        sent.setDoubleProperty("double", 0.25);
        sent.setStringProperty("string", ODD);
        sent.setStringProperty("large", "x".repeat(20_000));
        sent.setObjectProperty("list", new ArrayList<Object>(Arrays.asList(1, "two")));
        producer.send(sent);
        Message got = session.createConsumer(queue).receive(WAIT);
        Map<String, String> sorted = new TreeMap<>();
        for (Enumeration<?> all = got.getPropertyNames(); all.hasMoreElements(); ) {
            String name = (String) all.nextElement();
            if (name.startsWith("JMS")) continue;
            Object value = got.getObjectProperty(name);
            String text = escape(String.valueOf(value));
            sorted.put(name, value.getClass().getSimpleName() + " " + (text.length() > 100 ? text.length() + " characters" : text));
        }
        say(sorted.toString());
        connection.close();
    }

    static void wire() throws Exception {
        for (int version = 1; version <= 12; version++) {
            for (String tight : new String[] {"true", "false"}) {
                for (String cache : new String[] {"true", "false"}) {
                    String options = "?wireFormat.version=" + version + "&wireFormat.tightEncodingEnabled=" + tight + "&wireFormat.cacheEnabled=" + cache + "&wireFormat.maxInactivityDuration=0";
                    ActiveMQConnection connection = connect(options);
                    Session session = auto(connection);
                    Queue queue = session.createQueue(fresh("wire"));
                    sendAll(session, queue);
                    MessageConsumer consumer = session.createConsumer(queue);
                    StringBuilder all = new StringBuilder();
                    for (int i = 0; i < 8; i++) all.append(shown(consumer.receive(WAIT)));
                    consumer.close();
                    Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
                    sendTexts(transacted, queue, "a", "b");
                    transacted.commit();
                    QueueBrowser browser = session.createBrowser(queue);
                    int count = 0;
                    for (Enumeration<?> each = begun(browser); each.hasMoreElements(); each.nextElement()) count++;
                    say(version + " tight " + tight + " cache " + cache + ": " + Integer.toHexString(all.toString().hashCode()) + " browsed " + count);
                    connection.close();
                }
            }
        }
    }

    // -- acknowledgement --------------------------------------------------------------------------------------------

    static void acknowledge() throws Exception {
        String name = fresh("acknowledge");
        for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE}) {
            ActiveMQConnection connection = connect();
            Session session = connection.createSession(false, mode);
            Queue queue = session.createQueue(name + "." + mode);
            sendTexts(session, queue, "a", "b", "c", "d");
            MessageConsumer consumer = session.createConsumer(queue);
            say("mode " + mode + " " + receive(consumer, 2));
            if (mode == Session.CLIENT_ACKNOWLEDGE) {
                Message third = consumer.receive(WAIT);
                third.acknowledge();
                say("acknowledged " + text(third));
            }
            connection.close();
            say("left " + left(name + "." + mode));
        }
    }

    static void individual() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        String name = fresh("individual");
        sendTexts(session, session.createQueue(name), "a", "b", "c");
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        consumer.receive(WAIT);
        consumer.receive(WAIT).acknowledge();
        consumer.receive(WAIT);
        connection.close();
        say("left " + left(name));
    }

    static void optimized() throws Exception {
        ActiveMQConnection connection = connect("?jms.optimizeAcknowledge=true&jms.prefetchPolicy.queuePrefetch=10");
        Session session = auto(connection);
        String name = fresh("optimized");
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (int i = 0; i < 100; i++) producer.send(session.createTextMessage("m" + i));
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        List<String> got = receive(consumer, 100);
        say(got.size() + " from " + got.get(0) + " to " + got.get(99));
        connection.close();
        say("left " + left(name));
    }

    static void redelivery() throws Exception {
        ActiveMQConnection connection = connect();
        RedeliveryPolicy policy = connection.getRedeliveryPolicy();
        policy.setInitialRedeliveryDelay(0);
        policy.setRedeliveryDelay(0);
        policy.setMaximumRedeliveries(2);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        String name = fresh("redelivery");
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.send(session.createTextMessage("bad"));
        producer.send(session.createTextMessage("good"));
        session.commit();
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        for (int i = 0; i < 3; i++) {
            Message message = consumer.receive(WAIT);
            say(text(message) + " redelivered " + message.getJMSRedelivered() + " count " + message.getIntProperty("JMSXDeliveryCount"));
            session.rollback();
        }
        Message next = consumer.receive(WAIT);
        say("then " + text(next));
        session.commit();
        connection.close();
        connection = connect();
        session = auto(connection);
        consumer = session.createConsumer(session.createQueue("ActiveMQ.DLQ"));
        Message dead = consumer.receive(WAIT);
        say("dead " + text(dead) + " was for " + ((ActiveMQMessage) dead).getOriginalDestination() + " now " + dead.getJMSDestination());
        say("cause " + dead.getStringProperty("dlqDeliveryFailureCause").replaceAll("[{\\[].*[}\\]]", "..."));
        connection.close();
    }

    static void counters() throws Exception {
        String name = fresh("counters");
        ActiveMQConnection connection = connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        sendTexts(session, session.createQueue(name), "a", "b", "c");
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        receive(consumer, 2);
        consumer.close();
        connection.close();
        connection = connect();
        session = auto(connection);
        consumer = session.createConsumer(session.createQueue(name));
        for (int i = 0; i < 3; i++) {
            Message message = consumer.receive(WAIT);
            say(text(message) + " redelivered " + message.getJMSRedelivered() + " count " + message.getIntProperty("JMSXDeliveryCount"));
        }
        connection.close();
    }

    static void poison() throws Exception {
        ActiveMQConnection connection = connect();
        connection.getRedeliveryPolicy().setMaximumRedeliveries(0);
        connection.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
        Session session = auto(connection);
        String name = fresh("poison");
        CountDownLatch seen = new CountDownLatch(2);
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        consumer.setMessageListener(message -> {
            try {
                got.add(text(message));
            } catch (JMSException problem) {
                got.add(problem.toString());
            }
            seen.countDown();
            if (got.size() == 1) throw new java.lang.IllegalStateException("cannot be processed");
        });
        ActiveMQConnection other = connect();
        sendTexts(auto(other), new ActiveMQQueue(name), "a", "b");
        seen.await(10, TimeUnit.SECONDS);
        Thread.sleep(300);
        connection.close();
        say("got " + got + " left " + left(name));
        Session reading = auto(other);
        Message dead = reading.createConsumer(reading.createQueue("ActiveMQ.DLQ")).receive(WAIT);
        say("dead " + text(dead));
        other.close();
    }

    static void expired() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        String name = fresh("expired");
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.send(session.createTextMessage("short"), DeliveryMode.PERSISTENT, 4, 100);
        producer.send(session.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, 100_000);
        Thread.sleep(400);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        say("got " + drain(consumer));
        MessageConsumer dead = session.createConsumer(session.createQueue("ActiveMQ.DLQ"));
        Message message = dead.receive(WAIT);
        say("dead " + text(message) + " expired " + (message.getLongProperty("originalExpiration") > 0) + " now " + message.getJMSExpiration());
        connection.close();
    }

    static void pull() throws Exception {
        ActiveMQConnection connection = connect("?jms.prefetchPolicy.all=0");
        Session session = auto(connection);
        String name = fresh("pull");
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        say("empty " + text(consumer.receiveNoWait()));
        long before = System.currentTimeMillis();
        say("timed " + text(consumer.receive(300)));
        say("waited " + (System.currentTimeMillis() - before >= 290));
        sendTexts(session, session.createQueue(name), "a", "b", "c");
        say("one " + text(consumer.receive(WAIT)) + " left " + left(name));
        MessageConsumer second = session.createConsumer(session.createQueue(name));
        say("second " + text(second.receiveNoWait()) + " first " + text(consumer.receive()));
        Thread later = new Thread(() -> {
            try {
                Thread.sleep(200);
                ActiveMQConnection other = connect();
                sendTexts(auto(other), new ActiveMQQueue(name), "d");
                other.close();
            } catch (Exception problem) {
                say(problem.toString());
            }
        });
        later.start();
        say("later " + text(consumer.receive(WAIT)));
        later.join();
        connection.close();
        say("left " + left(name));
    }

    static void browse() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("browse"));
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 150; i++) {
            Message message = session.createTextMessage("m" + i);
            message.setIntProperty("number", i);
            producer.send(message);
        }
        for (String selector : new String[] {null, "number > 145"}) {
            QueueBrowser browser = session.createBrowser(queue, selector);
            int count = 0;
            String last = "";
            for (Enumeration<?> all = begun(browser); all.hasMoreElements(); count++) last = text((Message) all.nextElement());
            browser.close();
            say("browsed " + count + " last " + last);
        }
        QueueBrowser empty = session.createBrowser(session.createQueue(fresh("browse.empty")));
        say("empty " + empty.getEnumeration().hasMoreElements());
        say("received " + receive(session.createConsumer(queue), 150).size());
        connection.close();
    }

    // -- destinations -----------------------------------------------------------------------------------------------

    static void temporary() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        ActiveMQConnection server = connect();
        Session serving = auto(server);
        String name = fresh("temporary");
        serving.createConsumer(serving.createQueue(name)).setMessageListener(request -> {
            try {
                MessageProducer answering = serving.createProducer(request.getJMSReplyTo());
                Message answer = serving.createTextMessage("answer to " + text(request));
                answer.setJMSCorrelationID(request.getJMSMessageID());
                answering.send(answer);
            } catch (JMSException problem) {
                say(problem.toString());
            }
        });
        for (int kind = 0; kind < 2; kind++) {
            Destination replies = kind == 0 ? session.createTemporaryQueue() : session.createTemporaryTopic();
            MessageConsumer consumer = session.createConsumer(replies);
            TextMessage request = session.createTextMessage("question " + kind);
            request.setJMSReplyTo(replies);
            session.createProducer(session.createQueue(name)).send(request);
            Message answer = consumer.receive(WAIT);
            say(text(answer) + " correlated " + request.getJMSMessageID().equals(answer.getJMSCorrelationID()));
            attempt("foreign consumer", () -> serving.createConsumer(replies));
            attempt("delete in use", () -> {
                if (replies instanceof TemporaryQueue) ((TemporaryQueue) replies).delete(); else ((TemporaryTopic) replies).delete();
            });
            consumer.close();
            attempt("delete", () -> {
                if (replies instanceof TemporaryQueue) ((TemporaryQueue) replies).delete(); else ((TemporaryTopic) replies).delete();
            });
            Thread.sleep(200);
            attempt("send to what is gone", () -> {
                Session other = auto(server);
                sendTexts(other, replies, "too late");
            });
        }
        TemporaryQueue orphan = session.createTemporaryQueue();
        connection.close();
        Thread.sleep(200);
        attempt("send to the gone connection's", () -> sendTexts(auto(server), orphan, "too late"));
        server.close();
    }

    static void durable() throws Exception {
        String topicName = fresh("durable");
        String client = fresh("client");
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        Connection connection = factory.createConnection();
        connection.setClientID(client);
        connection.start();
        Session session = auto(connection);
        Topic topic = session.createTopic(topicName);
        TopicSubscriber subscriber = session.createDurableSubscriber(topic, "sub");
        attempt("second active", () -> session.createDurableSubscriber(topic, "sub"));
        subscriber.close();
        sendTexts(session, topic, "a", "b");
        connection.close();
        connection = factory.createConnection();
        connection.setClientID(client);
        connection.start();
        Session again = auto(connection);
        sendTexts(again, topic, "c");
        subscriber = again.createDurableSubscriber(topic, "sub");
        say("offline ones " + receive(subscriber, 3));
        sendTexts(again, topic, "d");
        say("online one " + receive(subscriber, 1));
        attempt("unsubscribe in use", () -> again.unsubscribe("sub"));
        subscriber.close();
        attempt("unsubscribe", () -> again.unsubscribe("sub"));
        attempt("unsubscribe again", () -> again.unsubscribe("sub"));
        subscriber = again.createDurableSubscriber(topic, "selective", "colour = 'red'", false);
        subscriber.close();
        MessageProducer producer = again.createProducer(topic);
        for (String colour : new String[] {"red", "blue", "red"}) {
            TextMessage message = again.createTextMessage(colour);
            message.setStringProperty("colour", colour);
            producer.send(message);
        }
        subscriber = again.createDurableSubscriber(topic, "selective", "colour = 'red'", false);
        say("selected " + drain(subscriber));
        subscriber.close();
        subscriber = again.createDurableSubscriber(topic, "selective", "colour = 'blue'", false);
        say("changed " + drain(subscriber));
        subscriber.close();
        again.unsubscribe("selective");
        TopicSubscriber wild = again.createDurableSubscriber(again.createTopic(topicName + ".>"), "wild");
        wild.close();
        sendTexts(again, again.createTopic(topicName + ".x.y"), "deep");
        wild = again.createDurableSubscriber(again.createTopic(topicName + ".>"), "wild");
        Message deep = wild.receive(WAIT);
        say("wild " + text(deep) + " at " + deep.getJMSDestination());
        wild.close();
        again.unsubscribe("wild");
        connection.close();
        attempt("without client id", () -> {
            ActiveMQConnection nameless = connect("?jms.clientID=");
            nameless.close();
        });
    }

    static void noLocal() throws Exception {
        ActiveMQConnection connection = connect();
        ActiveMQConnection other = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(fresh("noLocal"));
        MessageConsumer deaf = session.createConsumer(topic, null, true);
        MessageConsumer all = session.createConsumer(topic, null, false);
        sendTexts(session, topic, "mine");
        sendTexts(auto(other), topic, "theirs");
        say("deaf " + drain(deaf) + " all " + drain(all));
        connection.close();
        other.close();
    }

    static void exclusive() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        String name = fresh("exclusive");
        MessageConsumer first = session.createConsumer(session.createQueue(name + "?consumer.exclusive=true"));
        MessageConsumer second = session.createConsumer(session.createQueue(name + "?consumer.exclusive=true"));
        sendTexts(session, session.createQueue(name), "a", "b", "c", "d");
        say("first " + receive(first, 4) + " second " + text(second.receive(QUIET)));
        first.close();
        sendTexts(session, session.createQueue(name), "e");
        say("second " + receive(second, 1));
        connection.close();
    }

    static void priority() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        String name = fresh("priority");
        MessageConsumer low = session.createConsumer(session.createQueue(name + "?consumer.priority=1"));
        MessageConsumer high = session.createConsumer(session.createQueue(name + "?consumer.priority=10"));
        sendTexts(session, session.createQueue(name), "a", "b", "c", "d");
        say("high " + receive(high, 4) + " low " + text(low.receive(QUIET)));
        connection.close();
    }

    static void groups() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("groups"));
        MessageConsumer one = session.createConsumer(queue);
        MessageConsumer two = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 12; i++) {
            TextMessage message = session.createTextMessage("g" + i % 3 + "-" + i / 3);
            message.setStringProperty("JMSXGroupID", "g" + i % 3);
            message.setIntProperty("JMSXGroupSeq", i / 3 + 1);
            producer.send(message);
        }
        Map<String, String> owners = new TreeMap<>();
        int firsts = 0, total = 0;
        for (MessageConsumer consumer : new MessageConsumer[] {one, two}) {
            for (Message message; (message = consumer.receive(QUIET)) != null; total++) {
                String group = message.getStringProperty("JMSXGroupID");
                String owner = consumer == one ? "one" : "two";
                owners.merge(group, owner, (before, now) -> before.equals(now) ? before : "both");
                if (message.propertyExists("JMSXGroupFirstForConsumer") && message.getBooleanProperty("JMSXGroupFirstForConsumer")) firsts++;
            }
        }
        say(total + " messages, " + owners.size() + " groups, torn " + owners.containsValue("both") + ", firsts " + firsts);
        connection.close();
    }

    static void wildcards() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        String stem = fresh("wild");
        MessageConsumer star = session.createConsumer(session.createTopic(stem + ".*"));
        MessageConsumer rest = session.createConsumer(session.createTopic(stem + ".>"));
        sendTexts(session, session.createTopic(stem + ".a"), "a");
        sendTexts(session, session.createTopic(stem + ".a.b"), "a.b");
        say("star " + drain(star) + " rest " + drain(rest));
        MessageConsumer queues = session.createConsumer(session.createQueue(stem + ".q.>"));
        sendTexts(session, session.createQueue(stem + ".q.one"), "1");
        sendTexts(session, session.createQueue(stem + ".q.two.deep"), "2");
        List<String> got = receive(queues, 2);
        Collections.sort(got);
        say("queues " + got);
        connection.close();
        say("left " + left(stem + ".q.one") + left(stem + ".q.two.deep"));
    }

    static void composite() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        String stem = fresh("composite");
        MessageConsumer topic = session.createConsumer(session.createTopic(stem + ".t"));
        sendTexts(session, session.createQueue(stem + ".a," + stem + ".b,topic://" + stem + ".t"), "x");
        for (MessageConsumer consumer : new MessageConsumer[] {session.createConsumer(session.createQueue(stem + ".a")), session.createConsumer(session.createQueue(stem + ".b")), topic}) {
            ActiveMQMessage message = (ActiveMQMessage) consumer.receive(WAIT);
            say(text(message) + " at " + message.getJMSDestination() + " originally " + message.getOriginalDestination());
        }
        MessageConsumer both = session.createConsumer(session.createQueue(stem + ".c," + stem + ".d"));
        sendTexts(session, session.createQueue(stem + ".c"), "c");
        sendTexts(session, session.createQueue(stem + ".d"), "d");
        List<String> got = receive(both, 2);
        Collections.sort(got);
        say("both " + got);
        connection.close();
    }

    static void virtual() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        String topic = "VirtualTopic." + fresh("orders");
        MessageConsumer a = session.createConsumer(session.createQueue("Consumer.A." + topic));
        MessageConsumer b = session.createConsumer(session.createQueue("Consumer.B." + topic));
        MessageConsumer plain = session.createConsumer(session.createTopic(topic));
        sendTexts(session, session.createTopic(topic), "x");
        for (MessageConsumer consumer : new MessageConsumer[] {a, b, plain}) {
            ActiveMQMessage message = (ActiveMQMessage) consumer.receive(WAIT);
            say(text(message) + " at " + message.getJMSDestination() + " originally " + message.getOriginalDestination());
        }
        connection.close();
    }

    static void options() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        String name = fresh("options");
        MessageConsumer narrow = session.createConsumer(session.createQueue(name + "?consumer.prefetchSize=1"));
        MessageConsumer wide = session.createConsumer(session.createQueue(name + "?consumer.prefetchSize=100"));
        sendTexts(session, session.createQueue(name), "a", "b", "c", "d", "e", "f");
        Thread.sleep(200);
        List<String> few = new ArrayList<>();
        Message first = narrow.receive(WAIT);
        say("narrow " + text(first));
        say("wide " + receive(wide, 5));
        MessageConsumer selective = session.createConsumer(session.createQueue(name + ".s?consumer.selector=x%3D1"));
        attempt("unknown option", () -> session.createConsumer(session.createQueue(name + "?consumer.nonsense=1")));
        selective.close();
        connection.close();
    }

    static void selectors() throws Exception {
        ActiveMQConnection connection = connect();
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("selectors"));
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 10; i++) {
            TextMessage message = session.createTextMessage("m" + i);
            message.setIntProperty("number", i);
            message.setStringProperty("name", i % 2 == 0 ? "even" : "odd");
            message.setBooleanProperty("large", i > 5);
            message.setDoubleProperty("real", i / 4.0);
            message.setJMSType("t" + i % 3);
            message.setJMSCorrelationID("c" + i);
            producer.send(message, i % 2 == 0 ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT, i % 10, 0);
        }
        for (String selector : new String[] {
            "number BETWEEN 3 AND 5", "name = 'even' AND large", "JMSType IN ('t1')", "JMSCorrelationID LIKE 'c_' AND real > 1.2",
            "JMSPriority < 2", "JMSDeliveryMode = 'PERSISTENT' OR number + 1 = 8", "absent IS NULL"
        }) {
            MessageConsumer consumer = session.createConsumer(queue, selector);
            List<String> got = drain(consumer);
            Collections.sort(got);
            say(selector + ": " + got);
            consumer.close();
        }
        attempt("invalid", () -> session.createConsumer(queue, "number >"));
        connection.close();
    }

    // -- sending ----------------------------------------------------------------------------------------------------

    static void window() throws Exception {
        ActiveMQConnection connection = connect("?jms.useAsyncSend=true&jms.producerWindowSize=20000");
        Session session = auto(connection);
        Queue queue = session.createQueue(fresh("window"));
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 200; i++) producer.send(session.createTextMessage("m" + i + "x".repeat(500)));
        say("received " + receive(session.createConsumer(queue), 200).size());
        connection.close();
    }

    static void asynchronous() throws Exception {
        String name = fresh("asynchronous");
        ActiveMQConnection connection = connect("?jms.useAsyncSend=true");
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (int i = 0; i < 500; i++) producer.send(session.createTextMessage("m" + i));
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        boolean ordered = true;
        List<String> got = receive(consumer, 500);
        for (int i = 0; i < 500; i++) ordered &= got.get(i).equals("m" + i);
        say("received " + got.size() + " in order " + ordered);
        connection.close();
    }

    static void prefetch() throws Exception {
        String name = fresh("prefetch");
        ActiveMQConnection connection = connect("?jms.prefetchPolicy.queuePrefetch=5");
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (int i = 0; i < 40; i++) producer.send(session.createTextMessage("m" + i));
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        Thread.sleep(300);
        ActiveMQConnection other = connect();
        Session theirs = auto(other);
        MessageConsumer rest = theirs.createConsumer(theirs.createQueue(name));
        List<String> got = receive(rest, 35);
        say("the other one got " + got.size() + " from " + got.get(0));
        say("ours " + receive(consumer, 5));
        other.close();
        for (int i = 0; i < 30; i++) producer.send(session.createTextMessage("n" + i));
        List<String> more = receive(consumer, 30); // more than the prefetch without an acknowledgement
        say("unacknowledged " + more.size());
        connection.close();
        say("left " + left(name).size());
        Session transacted;
        connection = connect("?jms.prefetchPolicy.queuePrefetch=5");
        transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        consumer = transacted.createConsumer(transacted.createQueue(name));
        say("in one transaction " + receive(consumer, 35).size());
        transacted.commit();
        connection.close();
        say("left " + left(name).size());
    }

    // -- transactions -----------------------------------------------------------------------------------------------

    static void local() throws Exception {
        String name = fresh("local");
        ActiveMQConnection connection = connect();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(name);
        sendTexts(session, queue, "a", "b");
        say("before " + left(name));
        session.commit();
        say("committed " + left(name));
        sendTexts(session, queue, "c");
        session.rollback();
        say("rolled back " + left(name));
        MessageConsumer consumer = session.createConsumer(queue);
        say("got " + receive(consumer, 2));
        session.rollback();
        Message again = consumer.receive(WAIT);
        say("again " + text(again) + " redelivered " + again.getJMSRedelivered() + " " + text(consumer.receive(WAIT)));
        session.commit();
        say("left " + left(name));
        sendTexts(session, queue, "d", "e");
        session.commit();
        receive(consumer, 1);
        sendTexts(session, session.createQueue(name + ".out"), "result");
        connection.close();
        say("closed inside " + left(name) + " " + left(name + ".out"));
    }

    static class Branch implements Xid {
        final byte[] global, branch;

        Branch(String name) {
            global = name.getBytes();
            branch = "b".getBytes();
        }

        public int getFormatId() { return 77; }
        public byte[] getGlobalTransactionId() { return global; }
        public byte[] getBranchQualifier() { return branch; }
    }

    static XAConnection xaConnect() throws JMSException {
        XAConnection connection = new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.start();
        return connection;
    }

    static int mine(XAResource resource, String prefix) throws XAException {
        int count = 0;
        for (Xid each : resource.recover(XAResource.TMSTARTRSCAN)) if (new String(each.getGlobalTransactionId()).startsWith(prefix)) count++;
        return count;
    }

    static void xa() throws Exception {
        String name = fresh("xa");
        String prefix = name + System.nanoTime();
        XAConnection connection = xaConnect();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        Branch one = new Branch(prefix + "1");
        resource.start(one, XAResource.TMNOFLAGS);
        sendTexts(session, session.createQueue(name), "a");
        resource.end(one, XAResource.TMSUCCESS);
        say("prepare " + resource.prepare(one) + " prepared " + mine(resource, prefix) + " visible " + left(name));
        resource.commit(one, false);
        say("committed " + left(name) + " prepared " + mine(resource, prefix));
        Branch two = new Branch(prefix + "2");
        resource.start(two, XAResource.TMNOFLAGS);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        say("got " + text(consumer.receive(WAIT)));
        sendTexts(session, session.createQueue(name + ".out"), "b");
        resource.end(two, XAResource.TMSUCCESS);
        say("prepare " + resource.prepare(two));
        resource.rollback(two);
        say("rolled back " + left(name + ".out"));
        consumer.close();
        Branch three = new Branch(prefix + "3");
        resource.start(three, XAResource.TMNOFLAGS);
        resource.end(three, XAResource.TMSUCCESS);
        say("idle " + resource.prepare(three));
        Branch four = new Branch(prefix + "4");
        resource.start(four, XAResource.TMNOFLAGS);
        sendTexts(session, session.createQueue(name + ".out"), "one phase");
        resource.end(four, XAResource.TMSUCCESS);
        resource.commit(four, true);
        say("one phase " + left(name + ".out"));
        attempt("commit of the unknown", () -> resource.commit(new Branch(prefix + "x"), false));
        attempt("rollback of the unknown", () -> resource.rollback(new Branch(prefix + "x")));
        Branch five = new Branch(prefix + "5");
        resource.start(five, XAResource.TMNOFLAGS);
        sendTexts(session, session.createQueue(name + ".out"), "not prepared");
        resource.end(five, XAResource.TMSUCCESS);
        attempt("commit of the unprepared", () -> resource.commit(five, false));
        attempt("rollback of it", () -> resource.rollback(five));
        connection.close();
        say("left " + left(name) + left(name + ".out"));
    }

    // -- connections ------------------------------------------------------------------------------------------------

    static void clientId() throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        String client = fresh("client");
        Connection first = factory.createConnection();
        first.setClientID(client);
        first.start();
        Connection second = factory.createConnection();
        attempt("the same client id", () -> {
            second.setClientID(client);
            second.start();
        });
        second.close();
        first.close();
        Connection third = factory.createConnection();
        attempt("after it was closed", () -> {
            third.setClientID(client);
            third.start();
        });
        third.close();
    }

    static void failover() throws Exception {
        String name = fresh("failover");
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory("failover:(" + url + ")?timeout=5000");
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.start();
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        sendTexts(session, session.createQueue(name), "a");
        say("before " + receive(consumer, 1));
        TemporaryQueue temporary = session.createTemporaryQueue();
        MessageConsumer temporaryConsumer = session.createConsumer(temporary);
        connection.getTransport().narrow(org.apache.activemq.transport.failover.FailoverTransport.class).handleTransportFailure(new java.io.IOException("cut by the test"));
        sendTexts(session, session.createQueue(name), "b");
        say("after " + receive(consumer, 1));
        sendTexts(session, temporary, "t");
        say("temporary " + receive(temporaryConsumer, 1));
        connection.close();
        say("left " + left(name));
    }

    // -- advisories -------------------------------------------------------------------------------------------------

    static String structure(Message message) {
        DataStructure data = ((ActiveMQMessage) message).getDataStructure();
        if (data == null) return "nothing";
        String kind = data.getClass().getSimpleName();
        if (data instanceof DestinationInfo) return kind + (((DestinationInfo) data).isAddOperation() ? " add " : " remove ") + plain(((DestinationInfo) data).getDestination());
        if (data instanceof ConsumerInfo) return kind + " " + plain(((ConsumerInfo) data).getDestination());
        if (data instanceof ProducerInfo) return kind + " " + plain(((ProducerInfo) data).getDestination());
        return kind;
    }

    static String plain(ActiveMQDestination where) {
        return where == null ? "none" : where.isTemporary() ? where.getDestinationTypeAsString() : where.getQualifiedName();
    }

    static List<String> advise(MessageConsumer consumer, String stem) throws JMSException {
        List<String> found = new ArrayList<>();
        for (Message message; (message = consumer.receive(700)) != null; ) {
            String topic = ((Topic) message.getJMSDestination()).getTopicName().replace("ActiveMQ.Advisory.", "");
            boolean general = topic.equals("Connection") || topic.startsWith("Temp");
            String told = topic + " " + structure(message);
            if (!told.contains(stem) && !general) continue;
            if (message.propertyExists("consumerCount")) told += " consumers " + message.getObjectProperty("consumerCount");
            if (message.propertyExists("producerCount")) told += " producers " + message.getObjectProperty("producerCount");
            if (message.propertyExists("orignalMessageId")) told += " about a message";
            if (!"Advisory".equals(message.getJMSType())) told += " type " + message.getJMSType();
            if (!message.propertyExists("originBrokerId") || !message.propertyExists("originBrokerName") || !message.propertyExists("originBrokerURL")) told += " without origin";
            found.add(told);
        }
        Collections.sort(found);
        return found;
    }

    static void advisories() throws Exception {
        String stem = fresh("advised");
        ActiveMQConnection watching = connect("?jms.watchTopicAdvisories=false");
        Session eyes = auto(watching);
        MessageConsumer all = eyes.createConsumer(eyes.createTopic("ActiveMQ.Advisory.>"));
        advise(all, "nothing that there is");
        ActiveMQConnection connection = connect("?jms.watchTopicAdvisories=false");
        Session session = auto(connection);
        Queue queue = session.createQueue(stem);
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (String told : advise(all, stem)) say("opened: " + told);
        MessageConsumer late = eyes.createConsumer(eyes.createTopic("ActiveMQ.Advisory.Consumer.Queue." + stem));
        for (String told : advise(late, stem)) say("replayed: " + told);
        late = eyes.createConsumer(eyes.createTopic("ActiveMQ.Advisory.Producer.Queue." + stem));
        for (String told : advise(late, stem)) say("replayed: " + told);
        late = eyes.createConsumer(eyes.createTopic("ActiveMQ.Advisory.Queue"));
        for (String told : advise(late, stem)) say("replayed: " + told);
        advise(all, "nothing that there is");
        TemporaryQueue temporary = session.createTemporaryQueue();
        session.createTemporaryTopic();
        temporary.delete();
        for (String told : advise(all, stem)) say("temporary: " + told);
        consumer.close();
        producer.close();
        for (String told : advise(all, stem)) say("closed: " + told);
        sendExpiring(session, stem + ".expiring");
        for (String told : advise(all, stem + ".expiring")) if (told.startsWith("Expired") || told.startsWith("MessageDLQd")) say("expired: " + told);
        MessageConsumer topical = session.createConsumer(session.createTopic(stem + ".topic"));
        for (String told : advise(all, stem + ".topic")) say("topic: " + told);
        topical.close();
        connection.close();
        for (String told : advise(all, stem)) say("gone: " + told);
        watching.close();
    }

    static void sendExpiring(Session session, String name) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.send(session.createTextMessage("short"), DeliveryMode.PERSISTENT, 4, 50);
        producer.close();
        Thread.sleep(300);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        consumer.receive(QUIET);
        consumer.close();
    }

    static void sources() throws Exception {
        ActiveMQConnection connection = connect();
        say("queues named after creation " + (connection.getDestinationSource() != null));
        String name = fresh("sources");
        Session session = auto(connection);
        sendTexts(session, session.createQueue(name), "x");
        for (int i = 0; i < 30 && !connection.getDestinationSource().getQueues().contains(new ActiveMQQueue(name)); i++) Thread.sleep(100);
        say("heard of it " + connection.getDestinationSource().getQueues().contains(new ActiveMQQueue(name)));
        connection.close();
    }
}
