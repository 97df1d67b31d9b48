import java.util.*;
import javax.management.*;
import org.jolokia.client.*;
import org.jolokia.client.exception.*;
import org.jolokia.client.request.*;

/** Asks a broker by Jolokia's own client: URL, FAMILY, user, password. Prints a line for each question, or the class that was thrown. */
public class Asks {
    interface Question { Object ask() throws Exception; }

    static J4pClient client;

    static void line(String what, Question question) {
        String told;
        try {
            told = text(question.ask());
        } catch (J4pBulkRemoteException e) {
            StringBuilder all = new StringBuilder(e.getClass().getSimpleName());
            for (Object each : e.getResults())
                all.append(each instanceof J4pRemoteException ? " " + remote((J4pRemoteException) each)
                    : " = " + text(((J4pResponse<?>) each).getValue()));
            told = all.toString();
        } catch (J4pRemoteException e) {
            told = remote(e);
        } catch (Exception e) {
            told = e.getClass().getSimpleName();
        }
        System.out.println(what + ": " + told);
    }

    static String remote(J4pRemoteException e) {
        return "J4pRemoteException " + e.getStatus() + " " + e.getErrorType() + (e.getRemoteStackTrace() == null ? " without a trace" : "");
    }

    /** One form for each value: maps by their keys, classes of numbers are said. */
    static String text(Object value) {
        if (value instanceof Map) {
            TreeMap<String, String> sorted = new TreeMap<>();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) sorted.put(String.valueOf(each.getKey()), text(each.getValue()));
            return sorted.toString();
        }
        if (value instanceof Collection) {
            List<String> all = new ArrayList<>();
            for (Object each : (Collection<?>) value) all.add(text(each));
            return all.toString();
        }
        return value == null ? "null" : value instanceof String ? "'" + value + "'" : value.getClass().getSimpleName() + " " + value;
    }

    static J4pReadResponse readOf(String bean, String... attributes) throws Exception {
        return client.execute(new J4pReadRequest(bean, attributes));
    }

    static Collection<ObjectName> search(String pattern) throws Exception {
        J4pSearchResponse found = client.execute(new J4pSearchRequest(pattern));
        return found.getObjectNames();
    }

    static Object read(String bean, String... attributes) throws Exception {
        return client.execute(new J4pReadRequest(bean, attributes)).getValue();
    }

    static Object exec(String bean, String operation, Object... arguments) throws Exception {
        return client.execute(new J4pExecRequest(bean, operation, arguments)).getValue();
    }

    static Object post(J4pRequest request) throws Exception {
        request.setPreferredHttpMethod("POST");
        return client.execute(request).getValue();
    }

    static J4pClient as(String url, String user, String password) {
        J4pClientBuilder made = J4pClient.url(url);
        return user.isEmpty() ? made.build() : made.user(user).password(password).build();
    }

    public static void main(String[] given) throws Exception {
        boolean artemis = given[1].equals("artemis");
        client = as(given[0], given[2], given[3]);
        String broker = artemis ? "org.apache.activemq.artemis:broker=\"ref\"" : "org.apache.activemq:type=Broker,brokerName=ref";
        String orders = queue(broker, artemis, "orders");
        String size = artemis ? "MessageCount" : "QueueSize";
        String in = artemis ? "MessagesAdded" : "EnqueueCount";

        J4pVersionResponse version = client.execute(new J4pVersionRequest());
        line("protocol", () -> version.getProtocolVersion().split("\\.")[0].matches("[789]"));
        line("read", () -> read(orders, size));
        line("read by POST", () -> post(new J4pReadRequest(orders, size)));
        line("read several", () -> read(orders, size, in, "Name", "Paused"));
        line("read all", () -> ((Map<?, ?>) read(orders)).containsKey(size));
        line("read all by name", () -> readOf(orders).getAttributes().contains(size));
        String all = artemis ? broker + ",component=addresses,subcomponent=queues,*" : broker + ",destinationType=Queue,destinationName=*";
        line("read a pattern", () -> of((Map<?, ?>) read(all, size), orders));
        line("read names of a pattern", () -> readOf(all, size).getObjectNames().contains(new ObjectName(orders)));
        line("read of a pattern by name", () -> readOf(all, size).getValue(new ObjectName(orders), size));
        line("read a path", () -> {
            J4pReadRequest asked = new J4pReadRequest(broker, artemis ? "AddressNames" : "Queues");
            asked.setPath("0");
            return post(asked) != null;
        });
        line("search", () -> search(all).contains(new ObjectName(orders)));
        line("search for nothing", () -> search("no.such:*"));
        line("list", () -> ((Map<?, ?>) client.execute(new J4pListRequest(new ObjectName(orders))).getValue()).keySet().containsAll(List.of("attr", "op", "desc")));
        line("list as Java", () -> {
            J4pListResponse listed = client.execute(new J4pListRequest(new ObjectName(orders)));
            MBeanInfo info = listed.getMbeanInfo();
            String type = Arrays.stream(info.getAttributes()).filter(each -> each.getName().equals(size)).findFirst().get().getType();
            return type + " " + Arrays.stream(info.getOperations()).anyMatch(each -> each.getName().equals(artemis ? "countMessages" : "purge"));
        });
        line("list an attribute", () -> {
            String[] parts = orders.split(":", 2);
            return client.execute(new J4pListRequest(List.of(parts[0], parts[1], "attr", size, "type"))).getValue();
        });
        line("list of no domain", () -> client.execute(new J4pListRequest(List.of("no.such"))).getValue());
        if (artemis) {
            line("exec of a text", () -> exec(orders, "countMessages(java.lang.String)", "n = 1"));
            line("exec with a slash", () -> exec(orders, "countMessages(java.lang.String)", "n / 1 = 1"));
            line("exec of null", () -> post(new J4pExecRequest(orders, "countMessages(java.lang.String)", (Object) null)));
            line("exec of whole numbers", () -> String.valueOf(exec(broker, "listQueues(java.lang.String,int,int)", "", 1, 50)).contains("\"name\":\"orders\""));
            line("exec of a map", () -> exec(orders, "sendMessage(java.util.Map,int,java.lang.String,boolean,java.lang.String,java.lang.String)",
                new HashMap<>(Map.of("colour", "red")), 3, "hello", true, given[2].isEmpty() ? null : given[2], given[2].isEmpty() ? null : given[3]) != null);
            line("exec of a map by POST", () -> post(new J4pExecRequest(orders, "sendMessage(java.util.Map,int,java.lang.String,boolean,java.lang.String,java.lang.String)",
                new HashMap<>(Map.of("colour", "red")), 3, "hello", true, given[2].isEmpty() ? null : given[2], given[2].isEmpty() ? null : given[3])) != null);
            line("found by its property", () -> exec(orders, "countMessages(java.lang.String)", "colour = 'red'"));
            line("exec of yes", () -> exec(orders, "pause(boolean)", false));
            line("exec without its signature", () -> exec(orders, "removeAllMessages"));
            line("exec of one form", () -> exec(orders, "removeAllMessages()"));
            line("exec that is refused", () -> exec(broker, "destroyQueue(java.lang.String)", "no.such"));
        } else {
            line("exec of a text", () -> ((List<?>) exec(orders, "browse(java.lang.String)", "n = 1")).size());
            line("exec with a slash", () -> ((List<?>) exec(orders, "browse(java.lang.String)", "n / 1 = 1")).size());
            line("exec of a map", () -> exec(orders, "sendTextMessage(java.util.Map,java.lang.String,java.lang.String,java.lang.String)",
                new HashMap<>(Map.of("colour", "red")), "hello", given[2], given[3]) != null);
            line("exec of a map by POST", () -> post(new J4pExecRequest(orders, "sendTextMessage(java.util.Map,java.lang.String,java.lang.String,java.lang.String)",
                new HashMap<>(Map.of("colour", "red")), "hello", given[2], given[3])) != null);
            line("found by its property", () -> ((List<?>) exec(orders, "browse(java.lang.String)", "colour = 'red'")).size());
            line("exec of whole numbers", () -> exec(orders, "copyMatchingMessagesTo(java.lang.String,java.lang.String,int)", "n = 1", "other", 1));
            line("exec of no arguments", () -> exec(orders, "pause()"));
            line("exec without its signature", () -> ((List<?>) exec(orders, "browse")).size());
            line("exec that is refused", () -> exec(orders, "browse(java.lang.String)", "n = = 1"));
        }
        line("paused", () -> read(orders, "Paused"));
        line("exec back", () -> exec(orders, "resume()"));
        line("exec of no operation", () -> exec(orders, "noSuch()"));
        line("exec of too few", () -> exec(orders, artemis ? "moveMessages(java.lang.String,java.lang.String)" : "moveMessageTo(java.lang.String,java.lang.String)", "x"));
        line("exec of a wrong type", () -> exec(orders, artemis ? "expireMessage(long)" : "retryMessages(int)", "many"));
        line("no attribute", () -> read(orders, "NoSuch"));
        line("one attribute of two", () -> read(orders, size, "NoSuch"));
        line("no MBean", () -> read(queue(broker, artemis, "no.such"), size));
        line("no MBean of a pattern", () -> read("no.such:*", size));
        line("exec of no MBean", () -> exec(queue(broker, artemis, "no.such"), "pause()"));
        line("write what is not there", () -> client.execute(new J4pWriteRequest(orders, "NoSuch", "x")).getValue());
        line("write what is only read", () -> client.execute(new J4pWriteRequest(orders, size, 5)).getValue());
        line("bulk", () -> {
            List<String> told = new ArrayList<>();
            for (J4pResponse<?> each : client.<J4pReadResponse, J4pReadRequest>execute(List.of(new J4pReadRequest(orders, "Name"), new J4pReadRequest(orders, "Paused"))))
                told.add(text(each.getValue()));
            return told;
        });
        line("bulk with mistakes", () -> client.execute(List.<J4pRequest>of(new J4pReadRequest(orders, "Name"), new J4pReadRequest(orders, "NoSuch"), new J4pExecRequest(orders, "noSuch()"))));
        line("options", () -> ((Map<?, ?>) client.execute(new J4pReadRequest(orders, size, "NoSuch"),
            Map.of(J4pQueryParameter.IGNORE_ERRORS, "true", J4pQueryParameter.MAX_DEPTH, "3")).getValue()).get(size));
        line("as somebody else", () -> as(given[0], "nobody", "wrong").execute(new J4pReadRequest(orders, size)).getValue());
        if (!given[2].isEmpty())
            line("as nobody", () -> as(given[0], "", "").execute(new J4pReadRequest(orders, size)).getValue());
        line("where nobody is", () -> as("http://127.0.0.1:9/jolokia", "", "").execute(new J4pReadRequest(orders, size)).getValue());
    }

    static String queue(String broker, boolean artemis, String name) {
        return artemis ? broker + ",component=addresses,address=\"" + name + "\",subcomponent=queues,routing-type=\"anycast\",queue=\"" + name + "\""
            : broker + ",destinationType=Queue,destinationName=" + name;
    }

    static Object of(Map<?, ?> found, String bean) throws Exception {
        for (Object each : found.keySet())
            if (new ObjectName((String) each).equals(new ObjectName(bean))) return found.get(each);
        return null;
    }
}
