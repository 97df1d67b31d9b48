import java.util.List;
import java.util.Map;
import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.IMqttToken;
import org.eclipse.paho.client.mqttv3.MqttAsyncClient;
import org.eclipse.paho.client.mqttv3.MqttCallbackExtended;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttException;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** A client of Eclipse Paho for MQTT 3.1.1. */
final class PahoThree extends Peer implements MqttCallbackExtended {
    static final class Made implements Maker {
        @Override
        public int version() {
            return 4;
        }

        @Override
        public Peer make(Settings settings) {
            return new PahoThree(settings);
        }
    }

    private MqttAsyncClient client;

    private PahoThree(Settings settings) {
        super(settings);
    }

    @Override
    String connect() throws Exception {
        client = new MqttAsyncClient("tcp://127.0.0.1:" + settings.port, settings.name, new MemoryPersistence());
        client.setCallback(this);
        MqttConnectOptions options = new MqttConnectOptions();
        options.setMqttVersion(MqttConnectOptions.MQTT_VERSION_3_1_1);
        options.setCleanSession(settings.clean);
        options.setUserName(settings.user);
        options.setPassword(settings.password.toCharArray());
        options.setAutomaticReconnect(settings.comesBack);
        if (settings.willTopic != null) {
            options.setWill(settings.willTopic, "will".getBytes(), settings.willQos, settings.willRetained);
        }
        IMqttToken token = client.connect(options);
        try {
            token.waitForCompletion(PATIENCE_S * 1000);
        } catch (MqttException refused) {
            return "refused " + refused.getReasonCode();
        }
        return "connected" + (token.getSessionPresent() ? " present" : "");
    }

    @Override
    String subscribe(String filter, int qos, List<String> options) throws Exception {
        IMqttToken token = client.subscribe(filter, qos);
        token.waitForCompletion(PATIENCE_S * 1000);
        return Integer.toString(token.getGrantedQos()[0]);
    }

    @Override
    String unsubscribe(String filter) throws Exception {
        client.unsubscribe(filter).waitForCompletion(PATIENCE_S * 1000);
        return "unsubscribed";
    }

    @Override
    String publish(String topic, byte[] payload, int qos, boolean retain, Map<String, String> properties)
            throws Exception {
        client.publish(topic, payload, qos, retain).waitForCompletion(PATIENCE_S * 1000);
        return "published";
    }

    @Override
    void leave() throws Exception {
        client.disconnect(0).waitForCompletion(PATIENCE_S * 1000);
        client.close();
    }

    @Override
    public void connectComplete(boolean again, String uri) {
        if (again) {
            happened.add("is back");
        }
    }

    @Override
    public void connectionLost(Throwable cause) {
        happened.add("lost");
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        arrived.add(new Came(topic, message.getPayload(), message.getQos(), message.isRetained(), Map.of()));
    }

    @Override
    public void deliveryComplete(IMqttDeliveryToken token) {
        // `publish` waits for it
    }
}
