import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.lifecycle.MqttClientDisconnectedContext;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.Mqtt5Client;
import com.hivemq.client.mqtt.mqtt5.Mqtt5ClientBuilder;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperty;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5ConnAckException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5DisconnectException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5PubAckException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5PubRecException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5SubAckException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5UnsubAckException;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5ConnectBuilder;
import com.hivemq.client.mqtt.mqtt5.message.connect.connack.Mqtt5ConnAck;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PayloadFormatIndicator;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishBuilder;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishResult;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5RetainHandling;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** A client of HiveMQ's library for MQTT 5. */
final class HiveFive extends Peer {
    static final class Made implements Maker {
        @Override
        public int version() {
            return 5;
        }

        @Override
        public Peer make(Settings settings) {
            return new HiveFive(settings);
        }
    }

    private Mqtt5AsyncClient client;
    private boolean was;

    private HiveFive(Settings settings) {
        super(settings);
    }

    @Override
    String connect() throws Exception {
        Mqtt5ClientBuilder builder = Mqtt5Client.builder().serverHost("127.0.0.1").serverPort(settings.port)
                .addDisconnectedListener(this::lost).addConnectedListener(context -> came())
                .simpleAuth().username(settings.user).password(settings.password.getBytes()).applySimpleAuth();
        if (!settings.name.isEmpty()) {
            builder = builder.identifier(settings.name);
        }
        if (settings.comesBack) {
            builder = builder.automaticReconnect().initialDelay(100, TimeUnit.MILLISECONDS).applyAutomaticReconnect();
        }
        client = builder.buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::arrived);
        Mqtt5ConnectBuilder.Send<CompletableFuture<Mqtt5ConnAck>> connect = client.connectWith()
                .cleanStart(settings.clean).sessionExpiryInterval(settings.expiry).keepAlive(30);
        if (settings.receiveMaximum > 0) {
            connect = connect.restrictions().receiveMaximum(settings.receiveMaximum).applyRestrictions();
        }
        if (settings.willTopic != null) {
            connect = connect.willPublish().topic(settings.willTopic).payload("will".getBytes())
                    .qos(MqttQos.fromCode(settings.willQos)).retain(settings.willRetained)
                    .delayInterval(settings.willDelay).applyWillPublish();
        }
        try {
            Mqtt5ConnAck said = connect.send().get(PATIENCE_S, TimeUnit.SECONDS);
            boolean named = said.getAssignedClientIdentifier().isPresent();
            return "connected" + (said.isSessionPresent() ? " present" : "") + (named ? " named" : "");
        } catch (ExecutionException refused) {
            if (refused.getCause() instanceof Mqtt5ConnAckException) {
                Mqtt5ConnAckException told = (Mqtt5ConnAckException) refused.getCause();
                return "refused " + told.getMqttMessage().getReasonCode().getCode();
            }
            throw refused;
        }
    }

    @Override
    String subscribe(String filter, int qos, List<String> options) throws Exception {
        Mqtt5RetainHandling handling = Mqtt5RetainHandling.fromCode(
                options.contains("handling1") ? 1 : options.contains("handling2") ? 2 : 0);
        try {
            return Integer.toString(client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos))
                    .noLocal(options.contains("noLocal")).retainAsPublished(options.contains("asPublished"))
                    .retainHandling(handling).send().get(PATIENCE_S, TimeUnit.SECONDS).getReasonCodes().get(0)
                    .getCode());
        } catch (ExecutionException refused) {
            return Integer.toString(((Mqtt5SubAckException) refused.getCause()).getMqttMessage().getReasonCodes().get(0)
                    .getCode());
        }
    }

    @Override
    String unsubscribe(String filter) throws Exception {
        try {
            return Integer.toString(client.unsubscribeWith().topicFilter(filter).send()
                    .get(PATIENCE_S, TimeUnit.SECONDS).getReasonCodes().get(0).getCode());
        } catch (ExecutionException refused) {
            return Integer.toString(((Mqtt5UnsubAckException) refused.getCause()).getMqttMessage().getReasonCodes()
                    .get(0).getCode());
        }
    }

    @Override
    String publish(String topic, byte[] payload, int qos, boolean retain, Map<String, String> properties)
            throws Exception {
        Mqtt5PublishBuilder.Complete builder = Mqtt5Publish.builder().topic(topic).payload(payload)
                .qos(MqttQos.fromCode(qos)).retain(retain);
        for (Map.Entry<String, String> each : new TreeMap<>(properties).entrySet()) {
            String value = each.getValue();
            builder = switch (each.getKey()) {
                case "content" -> builder.contentType(value);
                case "response" -> builder.responseTopic(value);
                case "correlation" -> builder.correlationData(value.getBytes());
                case "format" -> builder.payloadFormatIndicator(Mqtt5PayloadFormatIndicator.fromCode(1));
                case "expiry" -> builder.messageExpiryInterval(Long.parseLong(value));
                default -> builder.userProperties().add(each.getKey(), value).applyUserProperties();
            };
        }
        try {
            Mqtt5PublishResult result = client.publish(builder.build()).get(PATIENCE_S, TimeUnit.SECONDS);
            if (result instanceof Mqtt5PublishResult.Mqtt5Qos1Result) {
                return Integer.toString(((Mqtt5PublishResult.Mqtt5Qos1Result) result).getPubAck().getReasonCode()
                        .getCode());
            }
            if (result instanceof Mqtt5PublishResult.Mqtt5Qos2Result) {
                return Integer.toString(((Mqtt5PublishResult.Mqtt5Qos2Result) result).getPubRec().getReasonCode()
                        .getCode());
            }
            return "published";
        } catch (ExecutionException refused) {
            Throwable why = refused.getCause();
            if (why instanceof Mqtt5PubAckException) {
                return Integer.toString(((Mqtt5PubAckException) why).getMqttMessage().getReasonCode().getCode());
            }
            return Integer.toString(((Mqtt5PubRecException) why).getMqttMessage().getReasonCode().getCode());
        }
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

    private void lost(MqttClientDisconnectedContext context) {
        if (!client.getState().isConnected()) { // it is an attempt to come back
            return;
        }
        Throwable why = context.getCause();
        happened.add(why instanceof Mqtt5DisconnectException
                ? "sent away " + ((Mqtt5DisconnectException) why).getMqttMessage().getReasonCode().getCode()
                : "lost");
    }

    private void arrived(Mqtt5Publish message) {
        Map<String, String> found = new TreeMap<>();
        message.getContentType().ifPresent(value -> found.put("content", value.toString()));
        message.getResponseTopic().ifPresent(value -> found.put("response", value.toString()));
        message.getCorrelationData()
                .ifPresent(value -> found.put("correlation", StandardCharsets.UTF_8.decode(value).toString()));
        message.getPayloadFormatIndicator().filter(value -> value.getCode() == 1)
                .ifPresent(value -> found.put("format", "1"));
        message.getMessageExpiryInterval().ifPresent(value -> found.put("expiry", left(value, 1000)));
        for (Mqtt5UserProperty each : message.getUserProperties().asList()) {
            found.put(each.getName().toString(), each.getValue().toString());
        }
        arrived.add(new Came(message.getTopic().toString(), message.getPayloadAsBytes(), message.getQos().getCode(),
                message.isRetain(), found));
    }
}
