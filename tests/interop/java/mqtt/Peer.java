import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** One client of one library, as the conversation knows it. What comes to it is in `arrived`, what happens in `happened`. */
abstract class Peer {
    static final long PATIENCE_S = 10;

    /** How a client comes. `expiry` is in seconds, and of MQTT 5. */
    static final class Settings {
        final String name;
        final int port;
        boolean clean = true;
        long expiry = 0;
        boolean comesBack = false;
        int receiveMaximum = 0;
        String user = "app";
        String password = "secret";
        String willTopic = null;
        int willQos = 1;
        boolean willRetained = false;
        long willDelay = 0;

        Settings(String name, int port) {
            this.name = name;
            this.port = port;
        }

        Settings staying() {
            clean = false;
            expiry = 60;
            return this;
        }

        Settings will(String topic, int qos, boolean retained) {
            willTopic = topic;
            willQos = qos;
            willRetained = retained;
            return this;
        }
    }

    /** Makes clients of one library. */
    interface Maker {
        int version();

        Peer make(Settings settings);
    }

    /** What came. */
    static final class Came {
        final String topic;
        final byte[] payload;
        final String shown;

        Came(String topic, byte[] payload, int qos, boolean retained, Map<String, String> properties) {
            this.topic = topic;
            this.payload = payload;
            String text = payload.length > 40 ? payload.length + " octets" : new String(payload, StandardCharsets.UTF_8);
            String more = properties.isEmpty() ? "" : " " + new TreeMap<>(properties);
            shown = topic + " '" + text + "' q" + qos + (retained ? " retained" : "") + more;
        }
    }

    final Settings settings;
    final BlockingQueue<Came> arrived = new LinkedBlockingQueue<>();
    final BlockingQueue<String> happened = new LinkedBlockingQueue<>();

    Peer(Settings settings) {
        this.settings = settings;
    }

    /** Return how the broker answers: a code, and whether the session was there. */
    abstract String connect() throws Exception;

    /** Return the codes of SUBACK. `options`: noLocal, asPublished, handling1 and handling2, of MQTT 5. */
    abstract String subscribe(String filter, int qos, List<String> options) throws Exception;

    /** Return the codes of UNSUBACK; before MQTT 5 there are none. */
    abstract String unsubscribe(String filter) throws Exception;

    /** Publish and wait for the last answer; return its code where there is one. */
    abstract String publish(String topic, byte[] payload, int qos, boolean retain, Map<String, String> properties)
            throws Exception;

    abstract void leave() throws Exception;

    String subscribe(String filter, int qos) throws Exception {
        return subscribe(filter, qos, List.of());
    }

    String publish(String topic, String text, int qos) throws Exception {
        return publish(topic, text.getBytes(StandardCharsets.UTF_8), qos, false, Map.of());
    }

    String retain(String topic, String text, int qos) throws Exception {
        return publish(topic, text.getBytes(StandardCharsets.UTF_8), qos, true, Map.of());
    }

    /** Return what came, sorted: `count` messages, and all that came before a mark that `writer` publishes now. */
    List<String> came(Peer writer, int count) throws Exception {
        List<String> found = new ArrayList<>();
        for (Came each : messages(writer, count)) {
            found.add(each.shown);
        }
        Collections.sort(found);
        return found;
    }

    /** The same in their order. The mark is of QoS 2: its last packet comes behind those of all that was sent before. */
    List<Came> messages(Peer writer, int count) throws Exception {
        String mark = "mark/" + settings.name;
        subscribe(mark, 2);
        writer.publish(mark, "mark", 2);
        List<Came> found = new ArrayList<>();
        boolean marked = false;
        while (!marked || found.size() < count) {
            Came next = arrived.poll(PATIENCE_S, TimeUnit.SECONDS);
            if (next == null) {
                break; // the transcript shows what is missing
            }
            if (next.topic.equals(mark)) {
                marked = true;
            } else {
                found.add(next);
            }
        }
        return found;
    }

    String next() throws Exception {
        String found = happened.poll(PATIENCE_S, TimeUnit.SECONDS);
        return found == null ? "nothing" : found;
    }

    /** Return how the time that is left to a message is shown: it is not always the same. */
    static String left(Long seconds, long given) {
        return seconds > 0 && seconds <= given ? "at most " + given : seconds.toString();
    }
}
