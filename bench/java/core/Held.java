import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * What a broker holds for silent connections, and for one large message. Each step prints a line, then waits for one.
 *
 * Arguments: URL, "idle" and a number of connections, or "large" and a size in bytes.
 */
public class Held {
    public static void main(String[] arguments) throws Exception {
        long amount = Long.parseLong(arguments[2]);
        if (arguments[1].equals("idle")) idle(arguments[0], (int) amount); else large(arguments[0], amount);
        System.exit(0);
    }

    static void step(String name) throws Exception {
        System.out.println(name);
        System.out.flush();
        while (System.in.read() != '\n') { /* until the line ends */ }
    }

    static void idle(String url, int count) throws Exception {
        List<Connection> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Connection connection = new ActiveMQConnectionFactory(url).createConnection();
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createConsumer(session.createQueue("bench.idle"));
            all.add(connection);
        }
        step("connected");
        for (Connection each : all) each.close();
    }

    static void large(String url, long size) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("bench.large");
        BytesMessage small = session.createBytesMessage();
        small.writeBytes(new byte[1000]);
        session.createProducer(queue).send(small);
        session.createConsumer(queue).receive(5000);
        step("ready");
        BytesMessage message = session.createBytesMessage();
        message.setObjectProperty("JMS_AMQ_InputStream", new Counting(size));
        session.createProducer(queue).send(message);
        step("sent");
        Connection reading = new ActiveMQConnectionFactory(url).createConnection();
        reading.start();
        Session other = reading.createSession(false, Session.AUTO_ACKNOWLEDGE);
        connection.close();
        Message received = other.createConsumer(queue).receive(60_000);
        Checking check = new Checking();
        received.setObjectProperty("JMS_AMQ_SaveStream", check);
        step(check.count == size && check.right ? "received" : "wrong: " + check.count + " of " + size);
        reading.close();
    }

    /** Octets that can be told apart by their place. */
    static byte at(long place) {
        return (byte) (place * 31 + (place >> 16));
    }

    static class Counting extends InputStream {
        final long size;
        long place;

        Counting(long size) { this.size = size; }

        @Override public int read() { return place < size ? at(place++) & 0xff : -1; }

        @Override public int read(byte[] into, int from, int count) {
            if (place >= size) return -1;
            int many = (int) Math.min(count, size - place);
            for (int i = 0; i < many; i++) into[from + i] = at(place++);
            return many;
        }
    }

    static class Checking extends OutputStream {
        long count;
        boolean right = true;

        @Override public void write(int octet) {
            right &= (byte) octet == at(count++);
        }

        @Override public void write(byte[] octets, int from, int many) {
            for (int i = 0; i < many; i++) right &= octets[from + i] == at(count++);
        }
    }
}
