import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.HashSet;
import java.util.Set;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.config.FileDeploymentManager;
import org.apache.activemq.artemis.core.config.impl.FileConfiguration;
import org.apache.activemq.artemis.core.server.impl.ActiveMQServerImpl;
import org.apache.activemq.artemis.core.security.CheckType;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.ActiveMQSecurityManager;

/** Runs an Artemis broker from the broker.xml that it is given, until it is killed, or stopped by SIGTERM. USER:PASSWORD, if given, is the only user; with a login.config for JAAS its entry "activemq" decides. */
public class Artemis {
    public static void main(String[] args) throws Exception {
        FileConfiguration configuration = new FileConfiguration();
        FileDeploymentManager deployment = new FileDeploymentManager(new File(args[0]).toURI().toString());
        deployment.addDeployable(configuration);
        deployment.readConfiguration();
        String only = args.length > 1 ? args[1] : null;
        boolean jaas = System.getProperty("java.security.auth.login.config") != null;
        ActiveMQSecurityManager security = jaas ? new ActiveMQJAASSecurityManager("activemq") : new ActiveMQSecurityManager() {
            @Override public boolean validateUser(String user, String password) {
                return only == null || only.equals(user + ":" + password);
            }
            @Override public boolean validateUserAndRole(String user, String password, Set<Role> roles, CheckType check) {
                return validateUser(user, password);
            }
        };
        ActiveMQServerImpl server = new ActiveMQServerImpl(
            configuration, Boolean.getBoolean("jmx") ? ManagementFactory.getPlatformMBeanServer() : null, security);
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                server.stop();
            } catch (Exception problem) {
                problem.printStackTrace();
            }
        }));
        System.out.println("started");
        System.out.flush();
        Thread.currentThread().join();
    }
}
