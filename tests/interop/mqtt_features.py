"""What MQTT can do, as one program over paho-mqtt: the same on every broker, told as lines of text."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any

import pytest

paho = pytest.importorskip("paho.mqtt.client")
PacketTypes = pytest.importorskip("paho.mqtt.packettypes").PacketTypes
Properties = pytest.importorskip("paho.mqtt.properties").Properties
SubscribeOptions = pytest.importorskip("paho.mqtt.subscribeoptions").SubscribeOptions

PATIENCE = 5.0
QUIET = 0.25  # s without a message: none will come


class Client(paho.Client):
    """paho's client, but for a fault: of two attempts to come back, the second forgets that PUBREL is due.

    It sends the PUBLISH again then, under an identifier that the broker has forgotten because its PUBREL had come: so
    the message is there twice, at every broker (seen with 2.2.0, whose broker was away for longer than one attempt).
    """

    def _messages_reconnect_reset_out(self) -> None:
        released = [one for one in self._out_messages.values() if one.state == paho.mqtt_ms_resend_pubrel]
        super()._messages_reconnect_reset_out()
        for message in released:
            message.state = paho.mqtt_ms_resend_pubrel


class Peer:
    """One client; everything that happens to it comes into ``happened``."""

    def __init__(self, port: int, name: str, version: int, *, clean: bool = True, **more: Any) -> None:
        self.version = version
        self.happened: queue.Queue[str] = queue.Queue()
        self.arrived: queue.Queue[str] = queue.Queue()
        five = version == paho.MQTTv5
        self.client = Client(
            paho.CallbackAPIVersion.VERSION2, name, protocol=version, clean_session=None if five else clean
        )
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda c, u, mid, codes, p: self.happened.put(
            "subscribed " + " ".join(str(int(one.value)) for one in codes)
        )
        self.client.on_unsubscribe = lambda c, u, mid, codes, p: self.happened.put("unsubscribed")
        self.client.on_message = self._came
        will = more.pop("will", None)
        if will:
            self.client.will_set(*will)
        arguments: dict[str, Any] = {}
        if five:
            arguments["clean_start"] = clean
            properties = Properties(PacketTypes.CONNECT)
            for key, value in more.items():
                setattr(properties, key, value)
            arguments["properties"] = properties
        self.client.connect("127.0.0.1", port, 30, **arguments)
        self.client.loop_start()
        self.welcome = self.happened.get(timeout=PATIENCE)

    def _connected(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        self.happened.put(f"connected {code}" + (" present" if flags.session_present else ""))

    def _came(self, client: Any, data: Any, message: Any) -> None:
        text = message.payload[:20].decode("utf-8", "replace")
        shown = f"{message.topic} {text!r} q{message.qos}" + (" retained" if message.retain else "")
        if self.version == paho.MQTTv5:
            said = message.properties.json()
            found = {key: said[key] for key in sorted(said) if key not in ("TopicAlias",)}
            shown += f" {found}" if found else ""
        self.arrived.put(shown)

    def subscribe(self, *arguments: Any, **more: Any) -> str:
        self.client.subscribe(*arguments, **more)
        return self.happened.get(timeout=PATIENCE)

    def publish(self, topic: str, text: str, qos: int = 0, retain: bool = False, **more: Any) -> None:
        properties = None
        if more:
            properties = Properties(PacketTypes.PUBLISH)
            for key, value in more.items():
                setattr(properties, key, value)
        self.client.publish(topic, text, qos, retain, properties).wait_for_publish(PATIENCE)

    def came(self, count: int) -> list[str]:
        """Return what came: ``count`` messages, and those that nobody expects."""
        found: list[str] = []
        until = time.monotonic() + PATIENCE
        while len(found) < count and time.monotonic() < until:
            try:
                found.append(self.arrived.get(timeout=0.1))
            except queue.Empty:
                continue
        try:
            while True:
                found.append(self.arrived.get(timeout=QUIET))
        except queue.Empty:
            return sorted(found)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def drop(self) -> None:
        """Lose the connection without a word."""
        sock = self.client.socket()
        self.client.loop_stop()
        if sock is not None:
            sock.close()


def transcript(port: int, version: int) -> list[str]:
    """Return what happens."""
    said: list[str] = []
    for name, feature in FEATURES.items():
        said.append(f"-- {name}")
        said += feature(port, version)
    return said


def _qos(port: int, version: int) -> list[str]:
    reader, writer = Peer(port, "f-r", version), Peer(port, "f-w", version)
    said = [reader.subscribe([("f/+/x", 0), ("f/one", 1), ("f/two", 2), ("bad/#/x", 1)][:3])]
    for qos in range(3):
        for topic in ("f/any/x", "f/one", "f/two", "f/none"):
            writer.publish(topic, f"{topic} {qos}", qos)
    said += reader.came(9)
    reader.leave()
    writer.leave()
    return said


def _session(port: int, version: int) -> list[str]:
    more = {"SessionExpiryInterval": 60} if version == paho.MQTTv5 else {}
    Peer(port, "f-s", version).leave()
    reader = Peer(port, "f-s", version, clean=False, **more)
    said = [reader.welcome, reader.subscribe("s/#", 2)]
    reader.leave() if version != paho.MQTTv5 else reader.drop()
    writer = Peer(port, "f-w", version)
    for qos in (1, 2):
        writer.publish("s/a", f"kept {qos}", qos)
    again = Peer(port, "f-s", version, clean=False, **more)
    said += [again.welcome, *again.came(2)]
    again.leave()
    said.append(Peer(port, "f-s", version).welcome)
    writer.leave()
    return said


def _retained(port: int, version: int) -> list[str]:
    writer = Peer(port, "f-w", version)
    writer.publish("r/1", "one", 1, True)
    writer.publish("r/1", "uno", 1, True)
    writer.publish("r/2", "two", 0, True)
    reader = Peer(port, "f-r", version)
    said = [reader.subscribe("r/#", 1), *reader.came(2)]
    writer.publish("r/2", "due", 1, True)
    said += reader.came(1)
    for topic in ("r/1", "r/2"):
        writer.publish(topic, "", 1, True)
    said += reader.came(2)
    late = Peer(port, "f-l", version)
    said += [late.subscribe("r/+", 1), *late.came(0)]
    for one in (writer, reader, late):
        one.leave()
    return said


def _will(port: int, version: int) -> list[str]:
    reader = Peer(port, "f-r", version)
    said = [reader.subscribe("w/#", 1)]
    Peer(port, "f-a", version, will=("w/lost", "gone", 1, False)).drop()
    said += reader.came(1)
    Peer(port, "f-b", version, will=("w/left", "gone", 1, False)).leave()
    said += reader.came(0)
    reader.leave()
    return said


def _names(port: int, version: int) -> list[str]:
    reader, writer = Peer(port, "f-r", version), Peer(port, "f-w", version)
    said = [reader.subscribe([("n/+", 0), ("n//x", 0), ("m/#", 0), ("+/+/deep", 0)])]
    for topic in ("n/a", "n/", "n//x", "m", "m/", "m/a/b", "N/a", "a/b/deep", "n/a.b*c>d", "n/ü €"):
        writer.publish(topic, topic)
    said += reader.came(9)
    reader.leave()
    writer.leave()
    return said


def _overtaken(port: int, version: int) -> list[str]:
    first = Peer(port, "f-same", version)
    first.client.on_disconnect = lambda *rest: first.happened.put("sent away")
    first.client.reconnect_delay_set(60)
    second = Peer(port, "f-same", version)
    said = [second.welcome, first.happened.get(timeout=PATIENCE)]
    first.client.loop_stop()
    second.leave()
    return said


def _properties(port: int, version: int) -> list[str]:
    if version != paho.MQTTv5:
        return []
    reader, writer = Peer(port, "f-r", version), Peer(port, "f-w", version)
    subscribing = Properties(PacketTypes.SUBSCRIBE)
    subscribing.SubscriptionIdentifier = 7
    said = [reader.subscribe("p/#", options=SubscribeOptions(qos=1, noLocal=True), properties=subscribing)]
    writer.publish(
        "p/all",
        "text",
        1,
        UserProperty=[("a", "1"), ("a", "2")],
        ContentType="text/plain",
        ResponseTopic="p/answer",
        CorrelationData=b"id",
        PayloadFormatIndicator=1,
        MessageExpiryInterval=100,
    )
    reader.publish("p/own", "not for me", 1)
    said += reader.came(1)
    shared = [Peer(port, f"f-s{number}", version) for number in range(2)]
    said += [one.subscribe("$share/g/q/#", 1) for one in shared]
    for number in range(10):
        writer.publish("q/x", str(number), 1)
    time.sleep(QUIET)
    said.append(f"shared {sum(len(one.came(0)) for one in shared)}")
    as_published = Peer(port, "f-p", version)
    options = SubscribeOptions(qos=1, retainAsPublished=True, retainHandling=2)
    writer.publish("h/1", "kept", 1, True)
    said += [as_published.subscribe("h/#", options=options), *as_published.came(0)]
    writer.publish("h/1", "kept again", 1, True)
    said += as_published.came(1)
    writer.publish("h/1", "", 1, True)
    for one in (reader, writer, as_published, *shared):
        one.leave()
    return said


FEATURES: dict[str, Callable[[int, int], list[str]]] = {
    "qos": _qos,
    "session": _session,
    "retained": _retained,
    "will": _will,
    "names": _names,
    "overtaken": _overtaken,
    "properties": _properties,
}
