import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttAsyncClient;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.MqttSubscription;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/** A client of Eclipse Paho for MQTT 5. */
final class PahoFive extends Peer implements MqttCallback {
    static final class Made implements Maker {
        @Override
        public int version() {
            return 5;
        }

        @Override
        public Peer make(Settings settings) {
            return new PahoFive(settings);
        }
    }

    private MqttAsyncClient client;

    private PahoFive(Settings settings) {
        super(settings);
    }

    @Override
    String connect() throws Exception {
        client = new MqttAsyncClient("tcp://127.0.0.1:" + settings.port, settings.name, new MemoryPersistence());
        client.setCallback(this);
        MqttConnectionOptions options = new MqttConnectionOptions();
        options.setCleanStart(settings.clean);
        options.setSessionExpiryInterval(settings.expiry);
        options.setUserName(settings.user);
        options.setPassword(settings.password.getBytes());
        options.setAutomaticReconnect(settings.comesBack);
        if (settings.receiveMaximum > 0) {
            options.setReceiveMaximum(settings.receiveMaximum);
        }
        if (settings.willTopic != null) {
            MqttProperties properties = new MqttProperties();
            properties.setWillDelayInterval(settings.willDelay);
            options.setWillMessageProperties(properties);
            options.setWill(settings.willTopic,
                    new MqttMessage("will".getBytes(), settings.willQos, settings.willRetained, null));
        }
        IMqttToken token = client.connect(options);
        try {
            token.waitForCompletion(PATIENCE_S * 1000);
        } catch (MqttException refused) {
            return "refused " + refused.getReasonCode();
        }
        MqttProperties said = token.getResponseProperties();
        boolean named = said != null && said.getAssignedClientIdentifier() != null;
        return "connected" + (token.getSessionPresent() ? " present" : "") + (named ? " named" : "");
    }

    @Override
    String subscribe(String filter, int qos, List<String> options) throws Exception {
        MqttSubscription subscription = new MqttSubscription(filter, qos);
        subscription.setNoLocal(options.contains("noLocal"));
        subscription.setRetainAsPublished(options.contains("asPublished"));
        subscription.setRetainHandling(options.contains("handling1") ? 1 : options.contains("handling2") ? 2 : 0);
        IMqttToken token = client.subscribe(new MqttSubscription[] {subscription});
        return answered(token);
    }

    @Override
    String unsubscribe(String filter) throws Exception {
        return answered(client.unsubscribe(filter));
    }

    @Override
    String publish(String topic, byte[] payload, int qos, boolean retain, Map<String, String> properties)
            throws Exception {
        MqttMessage message = new MqttMessage(payload, qos, retain, properties(properties));
        IMqttToken token = client.publish(topic, message);
        return qos == 0 ? "published" : answered(token);
    }

    private static String answered(IMqttToken token) throws Exception {
        try {
            token.waitForCompletion(PATIENCE_S * 1000);
        } catch (MqttException refused) {
            if (token.getReasonCodes() == null) {
                return Integer.toString(refused.getReasonCode());
            }
        }
        return Integer.toString(token.getReasonCodes()[0]);
    }

    private static MqttProperties properties(Map<String, String> wanted) {
        MqttProperties made = new MqttProperties();
        List<UserProperty> users = new ArrayList<>();
        for (Map.Entry<String, String> each : new TreeMap<>(wanted).entrySet()) {
            String value = each.getValue();
            switch (each.getKey()) {
                case "content" -> made.setContentType(value);
                case "response" -> made.setResponseTopic(value);
                case "correlation" -> made.setCorrelationData(value.getBytes());
                case "format" -> made.setPayloadFormat(value.equals("1"));
                case "expiry" -> made.setMessageExpiryInterval(Long.valueOf(value));
                default -> users.add(new UserProperty(each.getKey(), value));
            }
        }
        made.setUserProperties(users);
        return made;
    }

    @Override
    void leave() throws Exception {
        if (client.isConnected()) { // it leaves by itself when a message of QoS 2 is refused
            client.disconnect(0).waitForCompletion(PATIENCE_S * 1000);
        }
        client.close(true);
    }

    @Override
    public void connectComplete(boolean again, String uri) {
        if (again) {
            happened.add("is back");
        }
    }

    @Override
    public void disconnected(MqttDisconnectResponse response) {
        boolean told = response.getException() == null || response.getException().getCause() == null;
        happened.add(told ? "sent away " + response.getReturnCode() : "lost");
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        Map<String, String> found = new TreeMap<>();
        MqttProperties said = message.getProperties();
        if (said.getContentType() != null) {
            found.put("content", said.getContentType());
        }
        if (said.getResponseTopic() != null) {
            found.put("response", said.getResponseTopic());
        }
        if (said.getCorrelationData() != null) {
            found.put("correlation", new String(said.getCorrelationData()));
        }
        if (said.getPayloadFormat()) {
            found.put("format", "1");
        }
        if (said.getMessageExpiryInterval() != null) {
            found.put("expiry", left(said.getMessageExpiryInterval(), 1000));
        }
        said.getUserProperties().forEach(each -> found.put(each.getKey(), each.getValue()));
        arrived.add(new Came(topic, message.getPayload(), message.getQos(), message.isRetained(), found));
    }

    @Override
    public void deliveryComplete(IMqttToken token) {
        // `publish` waits for it
    }

    @Override
    public void mqttErrorOccurred(MqttException error) {
        happened.add("error " + error);
    }

    @Override
    public void authPacketArrived(int code, MqttProperties properties) {
        happened.add("auth " + code);
    }
}
