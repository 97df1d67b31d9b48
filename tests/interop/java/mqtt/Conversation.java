import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;

/**
 * What MQTT can do, as one conversation over any client library, told as lines of text.
 *
 * Arguments: port, and the library: paho3, paho5, hive3, hive5.
 */
public final class Conversation {
    private static final int LARGE = 1 << 20;
    private static final int READERS = 22;

    private interface Feature {
        void run() throws Exception;
    }

    private final int port;
    private final Peer.Maker maker;
    private final boolean five;
    private Peer writer;
    private final BlockingQueue<Peer> readers = new LinkedBlockingQueue<>();
    private int clients;

    private Conversation(int port, Peer.Maker maker) {
        this.port = port;
        this.maker = maker;
        five = maker.version() == 5;
    }

    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset(); // what Paho finds worth a line
        Peer.Maker maker = switch (arguments[1]) {
            case "paho3" -> new PahoThree.Made();
            case "paho5" -> new PahoFive.Made();
            case "hive3" -> new HiveThree.Made();
            case "hive5" -> new HiveFive.Made();
            default -> throw new IllegalArgumentException(arguments[1]);
        };
        int code = 1;
        try {
            new Conversation(Integer.parseInt(arguments[0]), maker).run();
            code = 0;
        } catch (Exception | Error broken) {
            broken.printStackTrace();
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // there are threads of clients that were cut off
    }

    private void run() throws Exception {
        Map<String, Feature> features = new LinkedHashMap<>();
        features.put("qos", this::qos);
        features.put("order", this::order);
        features.put("wildcards", this::wildcards);
        features.put("retained", this::retained);
        features.put("will", this::will);
        features.put("session", this::session);
        features.put("takeover", this::takeover);
        features.put("refused", this::refused);
        features.put("large", this::large);
        features.put("reconnect", this::reconnect);
        if (five) {
            features.put("properties", this::properties);
            features.put("options", this::options);
            features.put("shared", this::shared);
            features.put("will delay", this::willDelay);
            features.put("receive maximum", this::receiveMaximum);
            features.put("reason codes", this::reasonCodes);
        }
        gather();
        writer = peer("writer");
        Peer kept = null;
        long due = 0;
        if (five) { // what expires does so while the other features run
            kept = peer(new Peer.Settings("expiring", port).staying());
            kept.subscribe("expiring/#", 1);
            kept.leave();
            writer.publish("expiring/soon", "soon".getBytes(), 1, false, Map.of("expiry", "1"));
            writer.publish("expiring/late", "late".getBytes(), 1, false, Map.of("expiry", "1000"));
            due = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2500); // Mosquitto counts whole seconds
        }
        for (Map.Entry<String, Feature> each : features.entrySet()) {
            System.out.println("-- " + each.getKey());
            each.getValue().run();
        }
        if (kept != null) {
            System.out.println("-- expiry");
            TimeUnit.NANOSECONDS.sleep(due - System.nanoTime());
            Peer again = maker.make(new Peer.Settings("expiring", port).staying());
            say(again.connect());
            say(again.came(writer, 1));
            end(again);
        }
    }

    /** Connect readers at the same time: one of Paho's takes a third of a second, which it sleeps. */
    private void gather() {
        for (int number = 0; number < READERS; number++) {
            Peer made = maker.make(new Peer.Settings(fresh("reader"), port));
            start(() -> {
                made.connect();
                readers.add(made);
            });
        }
    }

    private Peer reader() throws Exception {
        Peer found = readers.poll(Peer.PATIENCE_S, TimeUnit.SECONDS);
        if (found == null) {
            throw new IllegalStateException("no more readers");
        }
        return found;
    }

    private static void start(Feature work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception broken) {
                broken.printStackTrace();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private Peer peer(Peer.Settings settings) throws Exception {
        Peer made = maker.make(settings);
        String answer = made.connect();
        if (!answer.startsWith("connected")) {
            throw new IllegalStateException(settings.name + " is " + answer);
        }
        return made;
    }

    private Peer peer(String name) throws Exception {
        return peer(new Peer.Settings(name, port));
    }

    /** A client of the user who may use nothing but topics under open, and marks. */
    private Peer guest() throws Exception {
        Peer.Settings settings = new Peer.Settings(fresh("guest"), port);
        settings.user = "guest";
        return peer(settings);
    }

    private static void say(String line) {
        System.out.println(line);
    }

    private static void say(List<String> lines) {
        lines.forEach(Conversation::say);
    }

    /** A client id that nobody else has: who has left may still be on the way. */
    private String fresh(String kind) {
        return kind + ++clients;
    }

    /** Let a client go without waiting for it. */
    private static void part(Peer peer) {
        start(peer::leave);
    }

    /** End a session that would stay. */
    private void end(Peer peer) throws Exception {
        part(peer(peer.settings.name));
    }

    private void qos() throws Exception {
        Peer reader = reader();
        for (int granted = 0; granted < 3; granted++) {
            say(reader.subscribe("qos/" + granted, granted));
        }
        for (int granted = 0; granted < 3; granted++) {
            for (int sent = 0; sent < 3; sent++) {
                writer.publish("qos/" + granted, "sent " + sent, sent);
            }
        }
        say(reader.came(writer, 9));
        say(reader.unsubscribe("qos/1"));
        writer.publish("qos/1", "for nobody", 1);
        say(reader.came(writer, 0));
        part(reader);
    }

    private void order() throws Exception {
        Peer reader = reader();
        for (int qos = 0; qos < 3; qos++) {
            reader.subscribe("order/" + qos, qos);
            StringBuilder expected = new StringBuilder();
            StringBuilder found = new StringBuilder();
            for (int number = 0; number < 50; number++) {
                writer.publish("order/" + qos, number + " ", qos);
                expected.append(number).append(' ');
            }
            for (Peer.Came each : reader.messages(writer, 50)) {
                found.append(new String(each.payload, StandardCharsets.UTF_8));
            }
            say("qos " + qos + (found.toString().equals(expected.toString()) ? " in order" : " " + found));
        }
        part(reader);
    }

    private void wildcards() throws Exception {
        String[] topics = {"wild/a", "wild/", "wild/a/b", "wild//b", "wild", "/wild", "Wild/a", "x/y/deep", "wild/\u00fc \u20ac"};
        for (String filter : List.of("wild/+", "wild/#", "wild/+/b", "+/wild", "+/+/deep", "wild/a", "#")) {
            Peer reader = reader();
            say(filter + " " + reader.subscribe(filter, 0));
            for (String topic : topics) {
                writer.publish(topic, "text", 0);
            }
            List<String> came = reader.came(writer, 0);
            say(came);
            part(reader);
        }
    }

    private void retained() throws Exception {
        writer.retain("retained/1", "one", 1);
        writer.retain("retained/1", "uno", 2);
        writer.retain("retained/2", "two", 0);
        Peer reader = reader();
        say(reader.subscribe("retained/+", 1));
        say(reader.came(writer, 2));
        writer.retain("retained/2", "due", 1);
        say(reader.came(writer, 1));
        say(reader.subscribe("retained/+", 1)); // once more: they come once more
        say(reader.came(writer, 2));
        writer.retain("retained/1", "", 1);
        writer.retain("retained/2", "", 1);
        say(reader.came(writer, 2));
        Peer late = reader();
        late.subscribe("retained/+", 1);
        say(late.came(writer, 0));
        part(late);
        part(reader);
    }

    private void will() throws Exception {
        Peer reader = reader();
        reader.subscribe("will/#", 2);
        for (int qos = 0; qos < 3; qos++) {
            Wire wire = new Wire(port);
            Peer lost = peer(new Peer.Settings(fresh("lost"), wire.port()).will("will/lost", qos, false));
            wire.cut();
            Peer.Came came = reader.arrived.poll(Peer.PATIENCE_S, TimeUnit.SECONDS);
            say(came == null ? "no will" : came.shown);
            lost.happened.poll(Peer.PATIENCE_S, TimeUnit.SECONDS);
        }
        Peer left = peer(new Peer.Settings("left", port).will("will/left", 1, false));
        left.leave();
        peer("left").leave(); // it is known to be gone by then
        say(reader.came(writer, 0));
        Wire wire = new Wire(port);
        peer(new Peer.Settings(fresh("lost"), wire.port()).will("will/kept", 1, true));
        wire.cut();
        say(reader.arrived.poll(Peer.PATIENCE_S, TimeUnit.SECONDS).shown);
        Peer late = reader();
        late.subscribe("will/kept", 1);
        say(late.came(writer, 1));
        writer.retain("will/kept", "", 1);
        part(late);
        part(reader);
    }

    private void session() throws Exception {
        Peer.Settings staying = new Peer.Settings("staying", port).staying();
        Peer first = maker.make(staying);
        say(first.connect());
        say(first.subscribe("session/#", 2));
        first.leave();
        for (int qos = 0; qos < 3; qos++) {
            writer.publish("session/" + qos, "offline " + qos, qos);
        }
        Peer again = maker.make(staying);
        say(again.connect());
        List<String> came = again.came(writer, 2);
        came.removeIf(line -> line.contains("offline 0")); // may be kept, may be dropped
        say(came);
        writer.publish("session/later", "online", 2);
        say(again.came(writer, 1));
        again.leave();
        Peer anew = maker.make(new Peer.Settings("staying", port));
        say(anew.connect());
        writer.publish("session/gone", "for nobody", 1);
        say(anew.came(writer, 0));
        part(anew);
    }

    private void takeover() throws Exception {
        Peer first = peer(new Peer.Settings("same", port).staying().will("takeover/will", 1, false));
        first.subscribe("takeover/#", 1);
        Peer second = maker.make(new Peer.Settings("same", port).staying());
        say(second.connect());
        say(first.next());
        writer.publish("takeover/now", "text", 1);
        say(second.came(writer, 1));
        end(second);
    }

    private void refused() throws Exception {
        Peer.Settings wrong = new Peer.Settings("wrong", port);
        wrong.password = "wrong";
        say("password " + maker.make(wrong).connect());
        Peer reader = guest();
        say("secret " + reader.subscribe("secret/one", 1));
        say("open " + reader.subscribe("open/one", 1));
        writer.publish("open/one", "text", 1);
        say(reader.came(writer, 1));
        part(reader);
    }

    private void large() throws Exception {
        byte[] payload = new byte[LARGE];
        for (int at = 0; at < payload.length; at++) {
            payload[at] = (byte) (at * 31 + at / 257);
        }
        Peer reader = reader();
        reader.subscribe("large/#", 2);
        for (int qos = 0; qos < 3; qos++) {
            writer.publish("large/" + qos, payload, qos, false, Map.of());
            for (Peer.Came each : reader.messages(writer, 1)) {
                say(each.shown + (Arrays.equals(each.payload, payload) ? " as sent" : " broken"));
            }
        }
        part(reader);
    }

    private void reconnect() throws Exception {
        Wire wire = new Wire(port);
        Peer.Settings settings = new Peer.Settings("back", wire.port()).staying();
        settings.comesBack = true;
        Peer reader = peer(settings);
        say(reader.subscribe("back/#", 2));
        wire.cut();
        reader.next();
        for (int qos = 1; qos < 3; qos++) {
            writer.publish("back/" + qos, "while it was away", qos);
        }
        wire.mend();
        say(reader.next());
        say(reader.came(writer, 2));
        writer.publish("back/now", "it is back", 2);
        say(reader.came(writer, 1));
        end(reader);
    }

    private void properties() throws Exception {
        Peer reader = reader();
        reader.subscribe("properties", 1);
        Map<String, String> all = Map.of("a", "1", "b", "\u00fc", "content", "text/plain", "response", "answer/here",
                "correlation", "id", "format", "1", "expiry", "1000");
        writer.publish("properties", "all".getBytes(), 1, false, all);
        writer.publish("properties", "none".getBytes(), 1, false, Map.of());
        say(reader.came(writer, 2));
        part(reader);
        Peer nameless = maker.make(new Peer.Settings("", port));
        say(nameless.connect());
        part(nameless);
    }

    private void options() throws Exception {
        writer.retain("options/kept", "kept", 1);
        Peer reader = reader();
        say(reader.subscribe("options/#", 1, List.of("noLocal", "asPublished", "handling1")));
        say(reader.came(writer, 1));
        say(reader.subscribe("options/#", 1, List.of("noLocal", "asPublished", "handling1")));
        say(reader.came(writer, 0));
        reader.publish("options/own", "not for me", 1);
        say(reader.came(writer, 0));
        writer.retain("options/kept", "kept again", 1);
        say(reader.came(writer, 1));
        say(reader.subscribe("options/#", 1, List.of("handling2")));
        say(reader.came(writer, 0));
        reader.publish("options/own", "for me", 1);
        say(reader.came(writer, 0));
        writer.retain("options/kept", "", 1);
        part(reader);
    }

    private void shared() throws Exception {
        List<Peer> members = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            Peer member = reader();
            say(member.subscribe("$share/group/shared/+", 1));
            members.add(member);
        }
        Peer alone = reader();
        alone.subscribe("shared/+", 1);
        for (int number = 0; number < 30; number++) {
            writer.publish("shared/x", Integer.toString(number), 1);
        }
        say("alone " + alone.came(writer, 30).size());
        int count = 0;
        TreeSet<Integer> different = new TreeSet<>();
        for (int number = 0; number < 3; number++) {
            for (Peer.Came each : members.get(number).messages(writer, 10)) {
                count++;
                different.add(Integer.valueOf(new String(each.payload, StandardCharsets.UTF_8)));
            }
        }
        say("shared " + count + ", different " + different.size());
        members.add(alone);
        for (Peer each : members) {
            part(each);
        }
    }

    private void willDelay() throws Exception {
        Peer reader = reader();
        reader.subscribe("delayed/#", 1);
        Wire wire = new Wire(port);
        Peer.Settings settings = new Peer.Settings("delayed", wire.port()).staying().will("delayed/will", 1, false);
        settings.willDelay = 50;
        peer(settings);
        wire.cut();
        Peer back = maker.make(new Peer.Settings("delayed", port).staying()); // before the delay is over
        say(back.connect());
        say(reader.came(writer, 0));
        end(back);
        part(reader);
    }

    private void receiveMaximum() throws Exception {
        Peer.Settings narrow = new Peer.Settings(fresh("narrow"), port);
        narrow.receiveMaximum = 2;
        Peer reader = peer(narrow);
        reader.subscribe("narrow", 2);
        for (int number = 0; number < 20; number++) {
            writer.publish("narrow", Integer.toString(number), 1 + number % 2);
        }
        say("came " + reader.came(writer, 20).size());
        part(reader);
    }

    private void reasonCodes() throws Exception {
        Peer reader = reader();
        say("read by nobody " + writer.publish("nobody/reads", "text", 1));
        say("read by nobody " + writer.publish("nobody/reads", "text", 2));
        reader.subscribe("nobody/reads", 1);
        say("read " + writer.publish("nobody/reads", "text", 1));
        say("read " + writer.publish("nobody/reads", "text", 2));
        say("not subscribed " + reader.unsubscribe("never/subscribed"));
        say("subscribed " + reader.unsubscribe("nobody/reads"));
        part(reader);
        Peer guest = guest();
        say("secret " + guest.publish("secret/one", "text", 1));
        say("secret " + guest.publish("secret/one", "text", 2));
        part(guest);
    }
}
