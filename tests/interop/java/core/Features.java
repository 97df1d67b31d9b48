import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Does what a client of Artemis can ask of a broker and prints what happened: the same on every broker that is right. */
public class Features extends Kit {
    interface Feature { void run() throws Exception; }

    /** URL, then names of features; none: all of them. */
    public static void main(String[] args) throws Exception {
        url = args[0];
        Map<String, Feature> features = new LinkedHashMap<>();
        Bodies.list(features);
        Sending.list(features);
        Settling.list(features);
        Subscribing.list(features);
        Branches.list(features);
        Refusals.list(features);
        Semantics.list(features);
        Addresses.list(features);
        try {
            Class.forName("CoreApi").getDeclaredMethod("list", Map.class).invoke(null, features);
        } catch (ClassNotFoundException old) {
            // a client without QueueConfiguration: the program was compiled without this part
        }
        List<String> wanted = args.length > 1 ? Arrays.asList(args).subList(1, args.length) : new ArrayList<>(features.keySet());
        if (wanted.equals(Arrays.asList("names"))) {
            say(String.join(" ", features.keySet()));
            return;
        }
        for (String name : wanted) {
            say("## " + name);
            serial = 0;
            Thread watchdog = watchdog(name);
            try {
                features.get(name).run();
            } catch (Throwable problem) {
                say("THREW " + problem(problem) + ": " + problem.getMessage());
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
                Thread.sleep(60_000);
                say("STUCK in " + name);
                if (System.getenv("TRACE") != null) Thread.getAllStackTraces().forEach((each, at) -> say(each + " " + Arrays.toString(at)));
                System.exit(3);
            } catch (InterruptedException done) {
                // it ended in time
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
