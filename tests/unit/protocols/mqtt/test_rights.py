"""Every packet of MQTT, to every kind of topic, without the right: refused, and nothing has happened.

A packet that is new to the protocol fails `test_every_packet_is_here` until there is a row for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.core.security.access import EVERYTHING, Rule
from entrepot.model.address import UNTYPED
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.packets import Subscribe, Will, Wish, acknowledgement, publish
from entrepot.protocols.mqtt.schema import (
    AUTH,
    DISCONNECT,
    NOT_AUTHORIZED,
    PACKETS,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SESSION_EXPIRY,
    UNSUBSCRIBE,
    V5,
    V31,
    V311,
)
from mqtt_peer import Peer

from ..guarded import PASSWORD, STRANGERS, Scene

VERSIONS = (V31, V311, V5)
TOPICS = {
    "topic": "secret",
    "new topic": "fresh",
    "below it": "secret/x",
    "virtual topic": "VirtualTopic/secret",
    "advisory": "ActiveMQ/Advisory/Consumer/Queue/secret",
    "management": "activemq/management",
    "scheduler": "ActiveMQ/Scheduler/Management",
    "statistics": "ActiveMQ/Statistics/Broker",
    "queue of its address": "secret::secret",
    "queue of another address": "open::secret",
    "temporary topic by its plain name": "{temporary}",
    "Java's temporary topic by its plain name": "{wire}",
}
"""Where one publishes to that is not his."""

FILTERS = {
    **TOPICS,
    "wildcard": "#",
    "one level": "+",
    "all below it": "secret/#",
    "wildcard of topics of Classic": "VirtualTopic/+",
    "shared": "$share/g/secret",
    "boss's shared": "$share/boss/secret",
    "shared wildcard": "$share/g/#",
}
"""And what one subscribes to. `ActiveMQ.Advisory` of connections is read by nobody else, either."""

UNUSED = ("scheduler", "statistics", "management")  # boss's PUBLISH there is taken by a service that keeps nothing
Steps = Callable[["World", Peer, str], list[bytes]]


class World(Scene):
    """The scene, with MQTT in it: a session of boss that is away, one that has something unacknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.house = House(self.rig.broker)
        self.house.recover()
        self.rig.turn()
        away = self.mqtt("boss", "away", clean=False)
        away.subscribe("secret", qos=1)
        away.cut()
        self.reader = self.mqtt("boss", "reader", clean=False)
        self.reader.auto = False
        self.reader.subscribe("secret", qos=2)
        self.reader.subscribe("$share/boss/secret", qos=1)
        self.mqtt("boss", "writer").publish("secret", "kept", 2, retain=True)
        self.settle()

    def mqtt(self, user: str, client_id: str, version: int = V5, **more: Any) -> Peer:
        properties = {SESSION_EXPIRY: 1000} if version == V5 and not more.get("clean", True) else {}
        more.setdefault("properties", properties)
        return Peer(self.rig, self.house, client_id, version, user=user, password=PASSWORD.encode(), **more)

    def settle(self) -> None:
        super().settle()
        if hasattr(self, "reader"):
            self.reader.hear()

    def picture(self) -> dict[str, object]:
        return {
            **super().picture(),
            "sessions": {name: sorted(state.subscriptions) for name, state in self.house.states.items()},
            "owners": {name: state.user for name, state in self.house.states.items()},
            "away": self.reader.session.closing,
        }

    def name(self, text: str) -> str:
        return text.format(temporary=self.temporary_topic, wire=self.wire.physical_name)


class Row:
    def __init__(self, steps: Steps, places: dict[str, str], useless: tuple[str, ...] = ()) -> None:
        self.steps = steps
        self.places = places
        self.useless = useless


def publishing(qos: int, *, retain: bool = False) -> Steps:
    def steps(scene: World, peer: Peer, topic: str) -> list[bytes]:
        said = [publish(peer.version, topic, b"x", qos, 7 if qos else 0, retain=retain)]
        if qos == 2:
            said.append(acknowledgement(PUBREL, 7, peer.version))
        return said

    return steps


def subscribing(qos: int, kind: int = 0) -> Steps:
    def steps(scene: World, peer: Peer, topic: str) -> list[bytes]:
        packet = Subscribe(9)
        packet.wishes = [Wish(topic, qos)]
        return [packet.octets(peer.version, kind) if kind else packet.octets(peer.version)]

    return steps


def answering(kind: int) -> Steps:
    """Acknowledge by the ids that boss's reader was given."""
    return lambda scene, peer, topic: [acknowledgement(kind, number, peer.version) for number in (1, 2, 3, 7)]


NONE = {"": ""}
ROWS: dict[str, Row] = {
    "PUBLISH": Row(publishing(0), TOPICS, (*UNUSED, "advisory")),
    "PUBLISH, at least once": Row(publishing(1), TOPICS, (*UNUSED, "advisory")),
    "PUBLISH, once": Row(publishing(2), TOPICS, (*UNUSED, "advisory")),
    "PUBLISH to be retained": Row(publishing(1, retain=True), TOPICS, (*UNUSED, "advisory")),
    "SUBSCRIBE": Row(subscribing(0), FILTERS),
    "SUBSCRIBE, at least once": Row(subscribing(1), FILTERS),
}
ALIEN: dict[str, Row] = {
    "PUBACK": Row(answering(PUBACK), NONE),
    "PUBREC": Row(answering(PUBREC), NONE),
    "PUBREL": Row(answering(PUBREL), NONE),
    "PUBCOMP": Row(answering(PUBCOMP), NONE),
    "UNSUBSCRIBE": Row(subscribing(0, UNSUBSCRIBE), FILTERS),
}
"""What is said of a connection's own: without effect, whatever it names."""

HARMLESS = {"PINGREQ", "DISCONNECT", "AUTH"}
OF_THE_SERVER = {"WILL", "CONNACK", "SUBACK", "UNSUBACK", "PINGRESP"}


def test_every_packet_is_here() -> None:
    words = {name.partition(",")[0].partition(" ")[0] for name in (*ROWS, *ALIEN)} | HARMLESS | {"CONNECT"}
    missing = set(PACKETS) - words - OF_THE_SERVER
    assert not missing, f"no row of this test is about {missing}"


def say(scene: World, peer: Peer, said: list[bytes]) -> list[str]:
    heard = len(peer.said)
    for octets in said:
        if not peer.session.closing:
            peer.feed(octets)
        scene.settle()
        peer.hear()
    return peer.said[heard:]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("verb", ROWS)
def test_without_the_right_nothing_happens(verb: str, version: int) -> None:
    row = ROWS[verb]
    scene = World()
    before = scene.picture()
    for user in STRANGERS:
        for kind, text in row.places.items():
            peer = scene.mqtt(user, f"{user}-{kind}", version)
            found = say(scene, peer, row.steps(scene, peer, scene.name(text)))
            context = f"{user}: {verb} {kind}: {found}"
            assert peer.messages == [], context
            if verb.startswith("SUBSCRIBE"):
                failed = NOT_AUTHORIZED if version == V5 else 0x80
                told = version == V31 or found == [f"SUBACK 9 {int(failed)}"]  # 3.1 cannot say it
                assert told or peer.session.closing, context
            elif version == V5 and "," in verb:
                assert found[0].endswith(f"7 {int(NOT_AUTHORIZED)}"), context
            peer.cut()
            scene.settle()
            assert scene.picture() == before, context


@pytest.mark.parametrize("verb", ALIEN)
def test_what_is_another_connections_stays(verb: str) -> None:
    row = ALIEN[verb]
    scene = World()
    before = scene.picture()
    for user in (*STRANGERS, "boss"):
        for kind, text in row.places.items():
            peer = scene.mqtt(user, f"{user}-{kind}")
            say(scene, peer, row.steps(scene, peer, scene.name(text)))
            assert peer.messages == []
            peer.cut()
            scene.settle()
            assert scene.picture() == before, f"{user}: {verb} {kind}"


@pytest.mark.parametrize(
    ("verb", "kind"), [(verb, kind) for verb, row in ROWS.items() for kind in row.places if kind not in row.useless]
)
def test_with_the_right_it_happens(verb: str, kind: str) -> None:
    """Else a refusal proves nothing: the packet might be wrong."""
    row = ROWS[verb]
    scene = World()
    peer = scene.mqtt("boss", "mine")
    before = scene.picture()
    found = say(scene, peer, row.steps(scene, peer, scene.name(row.places[kind])))
    assert not peer.session.closing, found
    assert not [one for one in found if one.endswith(str(int(NOT_AUTHORIZED)))], found
    quiet = verb.startswith("PUBLISH") and not verb.endswith("retained")  # what nobody reads leaves nothing
    assert quiet or peer.messages or scene.picture() != before, "nothing has happened"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", TOPICS)
def test_a_will_is_refused_when_it_is_said(kind: str, version: int) -> None:
    scene = World()
    before = scene.picture()
    for user in STRANGERS:
        for retain in (False, True):
            will = Will(scene.name(TOPICS[kind]), b"gone", 1, retain)
            peer = scene.mqtt(user, f"{user}-will", version, will=will)
            assert peer.said
            assert peer.said[0] not in ("CONNACK 0",), kind
            peer.cut()
            scene.settle()
            scene.rig.wait(10_000)
            scene.settle()
            assert scene.picture() == before, kind


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_id", ["away", "reader"])
def test_a_session_is_its_users(client_id: str, version: int) -> None:
    scene = World()
    before = scene.picture()
    for user in STRANGERS:
        for clean in (True, False):
            peer = scene.mqtt(user, client_id, version, clean=clean)
            assert peer.said[0] not in ("CONNACK 0", "CONNACK 0 present")
            peer.cut()
            scene.settle()
            assert scene.picture() == before


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_not_come_in(version: int) -> None:
    scene = World()
    before = scene.picture()
    every = [publish(version, "secret", b"x", 1, 1), bytes((AUTH << 4, 0)), bytes((DISCONNECT << 4, 0))]
    for user, password in (("boss", b"wrong"), ("nobody", PASSWORD.encode()), ("boss", None), (None, None)):
        peer = Peer(scene.rig, scene.house, "x", version, user=user, password=password)
        assert peer.said[0] != "CONNACK 0"
        for octets in every:
            peer.session.receive(octets, scene.rig.now)
        scene.settle()
        peer.hear()
        assert len(peer.said) == 1
        peer.cut()
        assert scene.picture() == before


def test_nothing_is_done_before_connect() -> None:
    scene = World()
    before = scene.picture()
    for row in (*ROWS.values(), *ALIEN.values()):
        peer = Peer(scene.rig, scene.house, connects=False)
        for octets in row.steps(scene, peer, "secret"):
            peer.session.receive(octets, scene.rig.now)
        assert peer.session.closing
        scene.settle()
        assert scene.picture() == before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("holder", ["stomp", "java"])
def test_a_client_id_that_another_user_has_in_another_protocol_is_not_taken_over(holder: str, version: int) -> None:
    scene = World()
    session = scene.stomp("boss", client_id="held").session if holder == "stomp" else scene.java("boss", "held").session
    before = scene.picture()
    for user in STRANGERS:
        peer = scene.mqtt(user, "held", version)
        assert "CONNACK 0" not in peer.said
        peer.cut()
        scene.settle()
        assert not session.closing
        assert scene.picture() == before
    assert scene.mqtt("boss", "held", version).said == ["CONNACK 0"]  # it is his, and the newer one has it


def test_who_loses_a_right_may_not_go_on() -> None:
    scene = World()
    broker = scene.rig.broker
    peer = scene.mqtt("app", "writer-of-app")
    assert peer.publish("open/x", "1", 1) == ["PUBACK 1 0"]
    broker.access.protect(broker.access._directory, [Rule(">", UNTYPED, {"boss": EVERYTHING})])
    broker.table.version += 1  # as a reload does
    assert peer.publish("open/x", "2", 1) == [f"PUBACK 2 {int(NOT_AUTHORIZED)}"]
