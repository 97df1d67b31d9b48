import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A way to the broker that can be cut and mended. */
final class Wire {
    private final ServerSocket door;
    private final int target;
    private final List<Socket> ends = new ArrayList<>();
    private boolean whole = true;

    Wire(int target) throws IOException {
        this.target = target;
        door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    int port() {
        return door.getLocalPort();
    }

    synchronized void cut() {
        whole = false;
        ends.forEach(Wire::close);
        ends.clear();
    }

    synchronized void mend() {
        whole = true;
    }

    private void accept() {
        try {
            while (true) {
                join(door.accept());
            }
        } catch (IOException over) {
            // the program ends
        }
    }

    private synchronized void join(Socket near) throws IOException {
        if (!whole) {
            close(near);
            return;
        }
        Socket far = new Socket(InetAddress.getLoopbackAddress(), target);
        ends.add(near);
        ends.add(far);
        start(() -> pump(near, far));
        start(() -> pump(far, near));
    }

    private static void pump(Socket from, Socket to) {
        try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
            in.transferTo(out);
        } catch (IOException cut) {
            // the other direction is told below
        }
        close(from);
        close(to);
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException gone) {
            // it is closed
        }
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }
}
