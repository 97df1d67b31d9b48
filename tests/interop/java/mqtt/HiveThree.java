import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt3.Mqtt3Client;
import com.hivemq.client.mqtt.mqtt3.Mqtt3ClientBuilder;
import com.hivemq.client.mqtt.mqtt3.exceptions.Mqtt3ConnAckException;
import com.hivemq.client.mqtt.mqtt3.exceptions.Mqtt3SubAckException;
import com.hivemq.client.mqtt.mqtt3.message.connect.Mqtt3ConnectBuilder;
import com.hivemq.client.mqtt.mqtt3.message.connect.connack.Mqtt3ConnAck;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** A client of HiveMQ's library for MQTT 3.1.1. */
final class HiveThree extends Peer {
    static final class Made implements Maker {
        @Override
        public int version() {
            return 4;
        }

        @Override
        public Peer make(Settings settings) {
            return new HiveThree(settings);
        }
    }

    private Mqtt3AsyncClient client;
    private boolean was;

    private HiveThree(Settings settings) {
        super(settings);
    }

    @Override
    String connect() throws Exception {
        Mqtt3ClientBuilder builder = Mqtt3Client.builder().identifier(settings.name).serverHost("127.0.0.1")
                .serverPort(settings.port).addDisconnectedListener(context -> lost())
                .addConnectedListener(context -> came()).simpleAuth().username(settings.user)
                .password(settings.password.getBytes()).applySimpleAuth();
        if (settings.comesBack) {
            builder = builder.automaticReconnect().initialDelay(100, TimeUnit.MILLISECONDS).applyAutomaticReconnect();
        }
        client = builder.buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::arrived);
        Mqtt3ConnectBuilder.Send<java.util.concurrent.CompletableFuture<Mqtt3ConnAck>> connect = client.connectWith()
                .cleanSession(settings.clean).keepAlive(30);
        if (settings.willTopic != null) {
            connect = connect.willPublish().topic(settings.willTopic).payload("will".getBytes())
                    .qos(MqttQos.fromCode(settings.willQos)).retain(settings.willRetained).applyWillPublish();
        }
        try {
            Mqtt3ConnAck said = connect.send().get(PATIENCE_S, TimeUnit.SECONDS);
            return "connected" + (said.isSessionPresent() ? " present" : "");
        } catch (ExecutionException refused) {
            if (refused.getCause() instanceof Mqtt3ConnAckException) {
                Mqtt3ConnAckException told = (Mqtt3ConnAckException) refused.getCause();
                return "refused " + told.getMqttMessage().getReturnCode().getCode();
            }
            throw refused;
        }
    }

    @Override
    String subscribe(String filter, int qos, List<String> options) throws Exception {
        try {
            return Integer.toString(client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send()
                    .get(PATIENCE_S, TimeUnit.SECONDS).getReturnCodes().get(0).getCode());
        } catch (ExecutionException refused) {
            return Integer.toString(((Mqtt3SubAckException) refused.getCause()).getMqttMessage().getReturnCodes().get(0)
                    .getCode());
        }
    }

    @Override
    String unsubscribe(String filter) throws Exception {
        client.unsubscribeWith().topicFilter(filter).send().get(PATIENCE_S, TimeUnit.SECONDS);
        return "unsubscribed";
    }

    @Override
    String publish(String topic, byte[] payload, int qos, boolean retain, Map<String, String> properties)
            throws Exception {
        client.publishWith().topic(topic).payload(payload).qos(MqttQos.fromCode(qos)).retain(retain).send()
                .get(PATIENCE_S, TimeUnit.SECONDS);
        return "published";
    }

    @Override
    void leave() throws Exception {
        client.disconnect().get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private void came() {
        if (was) {
            happened.add("is back");
        }
        was = true;
    }

    private void lost() {
        if (client.getState().isConnected()) { // else it is an attempt to come back
            happened.add("lost");
        }
    }

    private void arrived(Mqtt3Publish message) {
        arrived.add(new Came(message.getTopic().toString(), message.getPayloadAsBytes(), message.getQos().getCode(),
                message.isRetain(), Map.of()));
    }
}
