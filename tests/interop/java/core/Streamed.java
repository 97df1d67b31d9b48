import java.io.InputStream;
import java.io.OutputStream;
import java.util.zip.CRC32;
import javax.jms.*;

/**
 * One message, streamed to a queue and from it, that no side holds in memory.
 *
 * Arguments: URL, octets. Prints how long the body was that came, and whether it is the one that was sent.
 */
public class Streamed extends Kit {
    static final CRC32 out = new CRC32(), in = new CRC32();
    static long came;

    static class Source extends InputStream {
        long left;

        Source(long length) { left = length; }

        @Override public int read() {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 255;
        }

        @Override public int read(byte[] to, int at, int most) {
            if (left == 0) return -1;
            int size = (int) Math.min(most, left);
            for (int i = 0; i < size; i++) to[at + i] = (byte) ((left - i) * 31 >> 3);
            out.update(to, at, size);
            left -= size;
            return size;
        }
    }

    static class Sink extends OutputStream {
        @Override public void write(int octet) { write(new byte[] {(byte) octet}, 0, 1); }

        @Override public void write(byte[] from, int at, int size) {
            in.update(from, at, size);
            came += size;
        }
    }

    public static void main(String[] args) throws Exception {
        url = args[0];
        long length = Long.parseLong(args[1]);
        try (Connection connection = connect()) {
            Session session = auto(connection);
            Queue queue = session.createQueue("streamed");
            BytesMessage message = session.createBytesMessage();
            message.setObjectProperty("JMS_AMQ_InputStream", new Source(length));
            session.createProducer(queue).send(message);
            Message got = session.createConsumer(queue).receive(60_000);
            got.setObjectProperty("JMS_AMQ_SaveStream", new Sink());
            say("came " + came + " whole " + (came == length && in.getValue() == out.getValue()));
        }
        System.exit(0);
    }
}
