"""What the standard says and no other test here shows: what a client sends, and how it is answered.

`mqtt_5.toml` and `mqtt_3.toml` say which test shows which statement.
"""

from __future__ import annotations

import pytest

from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import Connect, Farewell, Will, publish, whole
from entrepot.protocols.mqtt.schema import (
    CONNECT,
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    PAYLOAD_FORMAT,
    PUBLISH,
    PUBREL,
    REASON,
    REQUEST_PROBLEM,
    REQUEST_RESPONSE,
    RESPONSE_TOPIC,
    SESSION_EXPIRY,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    USER_PROPERTY,
    V5,
    V31,
    V311,
)
from kit import Rig
from mqtt_peer import Peer

NEWER = pytest.mark.parametrize("version", [V311, V5])
LIVES = {SESSION_EXPIRY: 100}


def house_of(rig: Rig) -> House:
    house = House(rig.broker)
    house.recover()
    rig.turn()
    return house


def text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def connect(flags: int, fields: bytes, version: int = V311, name: bytes = b"MQTT") -> bytes:
    """Return a CONNECT: ``fields`` are those of its payload."""
    properties = b"\0" if version == V5 else b""
    return whole(CONNECT, 0, text(name) + bytes((version, flags)) + b"\0\0" + properties + fields)


# -- CONNECT -----------------------------------------------------------------------------------------------------------

WRONG_ENTRIES = {
    "the reserved flag": connect(3, text(b"a")),
    "another protocol": connect(2, text(b"a"), name=b"MQTX"),
    "will QoS 3": connect(2 | 4 | 24, text(b"a") + text(b"w") + text(b"x")),
    "a will QoS without a will": connect(2 | 8, text(b"a")),
    "will retain without a will": connect(2 | 32, text(b"a")),
    "a will that is not there": connect(2 | 4, text(b"a")),
    "a will topic without a payload": connect(2 | 4, text(b"a") + text(b"w")),
    "a user name that is not there": connect(2 | 128, text(b"a")),
    "a password that is not there": connect(2 | 128 | 64, text(b"a") + text(b"me")),
    "a will that no flag says": connect(2, text(b"a") + text(b"w") + text(b"x")),
    "a user name that no flag says": connect(2, text(b"a") + text(b"me")),
    "no client id": connect(2, b""),
    "a client id that is no UTF-8": connect(2, text(b"\xff")),
    "a client id with a surrogate": connect(2, text(b"\xed\xa0\x80")),
    "a client id with NUL": connect(2, text(b"a\0")),
    "a will topic that is no UTF-8": connect(2 | 4, text(b"a") + text(b"\xff") + text(b"x")),
    "a user name that is no UTF-8": connect(2 | 128, text(b"a") + text(b"\xff")),
}


@NEWER
@pytest.mark.parametrize("kind", WRONG_ENTRIES)
def test_who_enters_wrongly_is_not_in(kind: str, version: int) -> None:
    octets = bytearray(WRONG_ENTRIES[kind])
    if version == V5:
        octets[8] = V5
        octets[12:12] = b"\0"
        if octets[9] & 4:
            octets[15 + octets[14] : 15 + octets[14]] = b"\0"  # properties of the will, where one is there
        octets[1] = len(octets) - 2
    rig = Rig()
    house = house_of(rig)
    bad = Peer(rig, house, connects=False, version=version)
    bad.feed(bytes(octets))
    assert not [word for word in bad.hear() if word.startswith("CONNACK 0")]
    assert bad.session.closing
    assert not house.states


def test_a_password_needs_a_user_name_before_mqtt_5() -> None:
    rig = Rig()
    house = house_of(rig)
    bad = Peer(rig, house, connects=False)
    bad.feed(connect(2 | 64, text(b"a") + text(b"secret")))
    assert bad.hear() == []
    assert bad.session.closing
    assert Peer(rig, house, "b", V5, password=b"secret").said == ["CONNACK 0"]


def test_a_version_that_nobody_knows_is_answered() -> None:
    rig = Rig()
    bad = Peer(rig, house_of(rig), connects=False)
    bad.feed(connect(2, text(b"a"), version=6))
    assert bad.hear() == ["CONNACK 1"]
    assert bad.session.closing


@NEWER
def test_nothing_is_done_for_who_is_refused(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("#")
    bad = Peer(rig, house, "x" * 2000, version, connects=False)
    bad.feed(Connect("x" * 2000, version).octets() + publish(version, "a", b"x", 0, 0, retain=True))
    assert bad.hear() == ["CONNACK 133" if version == V5 else "CONNACK 2"]
    assert bad.session.closing
    assert reader.hear() == []


@NEWER
@pytest.mark.parametrize(
    "client_id", ["a", "0123456789abcdefghijklm", "nopqrstuvwxyzABCDEFGHIJ", "KLMNOPQRSTUVWXYZ", "\u00fc/#$", "x" * 100]
)
def test_client_ids(client_id: str, version: int) -> None:
    rig = Rig()
    assert Peer(rig, house_of(rig), client_id, version).said == ["CONNACK 0"]


@NEWER
def test_connack_comes_first_and_once(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    more = {"properties": LIVES} if version == V5 else {}
    for entry in ("CONNACK 0", "CONNACK 0 present"):
        peer = Peer(rig, house, "a", version, clean=False, connects=False)
        made = Connect("a", version)
        made.clean = False
        made.properties = more.get("properties", {})
        peer.feed(made.octets())
        rig.turn()
        octets = peer.session.outgoing()
        assert octets[2] == (1 if "present" in entry else 0)  # the reserved bits are 0
        peer.reader.feed(octets)
        while peer.reader.next():
            peer._take()
        peer.subscribe("a", qos=1)
        peer.ping()
        assert peer.said[0] == entry
        assert len([word for word in peer.said if word.startswith("CONNACK")]) == 1
        peer.cut()
    assert Peer(rig, house, "a", version, clean=True).said == ["CONNACK 0"]


@NEWER
def test_nothing_but_connack_comes_first_whatever_happens_meanwhile(version: int) -> None:
    """CONNACK of a session that stays waits for the disk; who is sent away before it gets no DISCONNECT."""
    for end in ("taken over", "stopped"):
        rig = Rig()
        house = house_of(rig)
        peer = Peer(rig, house, connects=False, version=version)
        made = Connect("a", version)
        made.clean = False
        made.properties = dict(LIVES) if version == V5 else {}
        peer.feed(made.octets())
        assert peer.session.outgoing() == b""
        if end == "stopped":
            peer.session.farewell("it stops")
        else:
            assert Peer(rig, house, "a", version).said[0].startswith("CONNACK 0")
        said = peer.hear()
        assert all(word.startswith("CONNACK") for word in said), said
        if end == "taken over":
            assert said == (["CONNACK 136"] if version == V5 else [])
            assert peer.session.closing


def test_response_information_is_not_given() -> None:
    rig = Rig()
    for asked in (0, 1):
        peer = Peer(rig, house_of(rig), "a", V5, properties={REQUEST_RESPONSE: asked})
        assert 0x1A not in peer.properties


def test_enhanced_authentication_is_refused() -> None:
    rig = Rig()
    peer = Peer(rig, house_of(rig), "a", V5, properties={0x15: "SCRAM-SHA-256"})
    assert peer.said == ["CONNACK 140"]
    assert peer.session.closing
    assert 0x15 not in peer.properties
    assert 0x15 not in Peer(rig, house_of(rig), "b", V5).properties


@pytest.mark.parametrize("version", [V31, V311, V5])
def test_a_second_connect_ends_the_connection(version: int) -> None:
    rig = Rig()
    peer = Peer(rig, house_of(rig), "a", version)
    peer.feed(Connect("b", version).octets())
    assert peer.hear() == (["DISCONNECT 0x82"] if version == V5 else [])
    assert peer.session.closing


# -- reasons -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("properties", [{}, {REQUEST_PROBLEM: 0}, {0x27: 24}])
def test_a_reason_is_said_where_it_is_wanted_and_has_room(properties: dict[int, int], qos: int) -> None:
    rig = Rig(max_octets="1kb", full="FAIL")
    peer = Peer(rig, house_of(rig), "a", V5, properties=dict(properties), auto=False)
    reader = Peer(rig, peer.house, "r", V5, clean=False, properties=LIVES)
    reader.subscribe("a", qos=1)
    reader.cut()
    Peer(rig, peer.house, "w").publish("a", "x" * 100_000, 1)  # it is full now
    said = peer.publish("a", "x", qos)
    assert said == [f"{'PUBACK' if qos == 1 else 'PUBREC'} 1 151"]
    assert (REASON in peer.properties) == (not properties)


@pytest.mark.parametrize("size", [20, 400])
def test_a_farewell_is_not_too_long_for_the_client(size: int) -> None:
    rig = Rig()
    peer = Peer(rig, house_of(rig), "a", V5, properties={0x27: size})
    peer.feed(b"\x36\x05\x00\x01a\x00\x01")
    assert peer.hear() == ["DISCONNECT 0x81"]
    assert (REASON in peer.properties) == (size > 20)


@pytest.mark.parametrize("size", [20, 400])
def test_a_refusal_is_not_too_long_for_the_client(size: int) -> None:
    rig = Rig()
    peer = Peer(rig, house_of(rig), "x" * 2000, V5, properties={0x27: size})
    assert peer.said == ["CONNACK 133"]
    assert (REASON in peer.properties) == (size > 20)


# -- PUBLISH -----------------------------------------------------------------------------------------------------------


def test_properties_of_a_message_are_passed_on_as_they_are() -> None:
    rig = Rig()
    house = house_of(rig)
    said = {
        PAYLOAD_FORMAT: 1,
        CONTENT_TYPE: "text/\u00fc",
        RESPONSE_TOPIC: "answers/here",
        CORRELATION_DATA: b"\0\xff",
        USER_PROPERTY: [("b", "1"), ("a", "2"), ("b", "0"), ("a", "2")],
    }
    reader = Peer(rig, house, "r", V5)
    reader.subscribe("a", qos=1)
    Peer(rig, house, "w", V5).publish("a", "\ufeffx", 1, properties=dict(said))
    reader.hear()
    assert reader.messages[0].properties == said
    assert reader.messages[0].payload == b"\xef\xbb\xbfx"
    will = Will("a", b"gone", 1)
    will.properties = dict(said)
    Peer(rig, house, "x", V5, will=will).cut()
    reader.hear()
    assert reader.messages[1].properties == said


@pytest.mark.parametrize("property_", [b"\x26\0\1\xff\0\1v", b"\x26\0\1k\0\1\xff", b"\x08\0\1\xff", b"\x03\0\1\xff"])
def test_text_of_properties_is_text(property_: bytes) -> None:
    """User properties, response topic, content type."""
    rig = Rig()
    peer = Peer(rig, house_of(rig), "a", V5)
    peer.feed(whole(PUBLISH, 0, text(b"a") + bytes((len(property_),)) + property_))
    assert peer.hear() == ["DISCONNECT 0x81"]


def test_dup_is_not_passed_on() -> None:
    rig = Rig()
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r"), Peer(rig, house, "w")
    reader.subscribe("a", qos=2)
    for qos in (1, 2):
        writer.publish("a", "x", qos, dup=True)
    reader.hear()
    assert [one.dup for one in reader.messages] == [False, False]


@NEWER
def test_an_identifier_is_free_again_when_it_is_answered(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r", version), Peer(rig, house, "w", version)
    reader.subscribe("a", qos=2)
    for qos in (1, 2):
        for payload in ("one", "two"):  # the second says that it is the same, and is another one
            writer.publish("a", f"{payload} {qos}", qos, packet_id=5, dup=payload == "two")
    reader.hear()
    assert reader.payloads == ["one 1", "two 1", "one 2", "two 2"]


def test_an_identifier_is_free_again_when_it_is_refused() -> None:
    rig = Rig(max_octets="1kb", full="FAIL")
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r", V5, clean=False, properties=LIVES), Peer(rig, house, "w", V5)
    reader.subscribe("a", qos=2)
    reader.cut()
    writer.publish("a", "x" * 100_000, 1)
    assert writer.publish("a", "no", 2, packet_id=7) == ["PUBREC 7 151", "PUBCOMP 7 0"]
    reader = Peer(rig, house, "r", V5, clean=False, properties=LIVES)
    assert writer.publish("a", "yes", 2, packet_id=7, dup=True) == ["PUBREC 7 0", "PUBCOMP 7 0"]
    reader.hear()
    assert reader.payloads[1:] == ["yes"]


def test_the_exchange_goes_on_though_the_message_expired() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, clean=False, properties=LIVES)
    reader.subscribe("a", qos=2)
    reader.cut()
    writer = Peer(rig, house, "w", V5, auto=False)
    assert writer.publish("a", "x", 2, packet_id=7, properties={MESSAGE_EXPIRY: 1}) == ["PUBREC 7 0"]
    rig.wait(10_000)
    assert writer.publish("a", "x", 2, packet_id=7, dup=True, properties={MESSAGE_EXPIRY: 1}) == ["PUBREC 7 0"]
    assert writer.ack(PUBREL, 7) == ["PUBCOMP 7 0"]
    assert Peer(rig, house, "r", V5, clean=False, properties=LIVES).payloads == []


@NEWER
@pytest.mark.parametrize("qos", [1, 2])
def test_answers_come_in_the_order_of_the_messages(qos: int, version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    more = {"properties": LIVES} if version == V5 else {}
    Peer(rig, house, "r", version, clean=False, **more).subscribe("stored", qos=qos)
    writer = Peer(rig, house, "w", version, auto=False)
    for number in range(1, 21):  # what is for nobody needs no disk, and waits for what does
        topic = "stored" if number % 3 else "nobody"
        writer.feed(publish(version, topic, b"x", qos, number))
    assert [int(word.split()[1]) for word in writer.hear()] == list(range(1, 21))


@NEWER
def test_what_is_retained_outlives_its_session(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    writer = Peer(rig, house, "w", version)
    writer.publish("a", "kept", 1, retain=True)
    writer.leave()
    assert "w" not in house.states
    late = Peer(rig, house, "l", version)
    late.subscribe("a")
    late.hear()
    assert late.payloads == ["kept"]


@NEWER
def test_a_retained_message_of_qos_0_takes_the_place_of_the_last(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    writer = Peer(rig, house, "w", version)
    writer.publish("a", "old", 2, retain=True)
    writer.publish("a", "new", 0, retain=True)
    late = Peer(rig, house, "l", version)
    late.subscribe("a", qos=2)
    late.hear()
    assert [(one.payload, one.qos) for one in late.messages] == [(b"new", 0)]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_fails_for_the_moment_ends_the_connection(qos: int) -> None:
    rig = Rig(max_octets="1kb", full="FAIL")
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r", clean=False), Peer(rig, house, "w")
    reader.subscribe("a", qos=2)
    reader.cut()
    writer.publish("a", "x" * 100_000, 1)
    assert writer.publish("a", "no", qos) == []
    assert writer.session.closing


@NEWER
def test_what_is_not_retained_leaves_what_is(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    writer = Peer(rig, house, "w", version)
    writer.publish("a", "kept", 1, retain=True)
    writer.publish("a", "other", 1)
    writer.publish("a", "", 1)
    late = Peer(rig, house, "l", version)
    late.subscribe("a")
    assert [late.said[-1], *late.hear()][-1] == "PUBLISH a q0 retain kept"


def test_aliases_end_with_the_connection_and_reach_as_far_as_was_said() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5)
    reader.subscribe("+")
    writer = Peer(rig, house, "w", V5)
    most = writer.properties[TOPIC_ALIAS_MAXIMUM]
    for alias in (1, most):
        assert writer.publish(f"t{alias}", "x", properties={TOPIC_ALIAS: alias}) == []
        assert writer.publish("", "y", properties={TOPIC_ALIAS: alias}) == []
    reader.hear()
    assert [one.topic for one in reader.messages] == ["t1", "t1", f"t{most}", f"t{most}"]
    assert not [one for one in reader.messages if TOPIC_ALIAS in one.properties]  # it may have none
    writer.cut()
    again = Peer(rig, house, "w", V5)
    assert again.publish("", "z", properties={TOPIC_ALIAS: 1}) == ["DISCONNECT 0x82"]


def test_an_alias_is_not_used_before_the_client_knows_it() -> None:
    """The first message to the topic is too large for the client, and is dropped with the alias that it would tell."""
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, properties={TOPIC_ALIAS_MAXIMUM: 1, 0x27: 60})
    reader.subscribe("+", qos=1)
    writer = Peer(rig, house, "w")
    writer.publish("a", "x" * 100, 1)
    for number in range(2):
        writer.publish("a", str(number), 1)
        writer.publish("b", str(number), 1)
    reader.hear()
    assert [(one.topic, one.payload) for one in reader.messages] == [("a", b"0"), ("b", b"0"), ("", b"1"), ("b", b"1")]


@pytest.mark.parametrize("topic", ["a/+", "#"])
def test_a_response_topic_has_no_wildcards(topic: str) -> None:
    rig = Rig()
    writer = Peer(rig, house_of(rig), "w", V5)
    assert writer.publish("a", "x", properties={RESPONSE_TOPIC: topic}) == ["DISCONNECT 0x82"]


def test_more_than_receive_maximum_ends_the_connection() -> None:
    rig = Rig()
    options = MqttOptions()
    options.receive_maximum = 2
    writer = Peer(rig, house_of(rig), "w", V5, options=options, auto=False)
    assert writer.properties[0x21] == 2
    writer.publish("a", "x", 2)
    writer.publish("a", "x", 2)
    assert writer.publish("a", "x", 2) == ["DISCONNECT 0x93"]


@NEWER
def test_a_pubrel_that_nobody_expects_is_answered(version: int) -> None:
    rig = Rig()
    peer = Peer(rig, house_of(rig), "a", version)
    assert peer.ack(PUBREL, 9)[0].startswith("PUBCOMP 9")


# -- DISCONNECT --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "spoken"), [(0, False), (4, True), (0x80, True), (0x81, True), (0x93, True)])
def test_only_a_normal_farewell_takes_the_will_back(code: int, spoken: bool) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("w")
    Peer(rig, house, "a", V5, will=Will("w", b"gone")).leave(code)
    assert reader.hear() == (["PUBLISH w q0 gone"] if spoken else [])
    Peer(rig, house, "b", V5).cut()
    assert reader.hear() == []


def test_nothing_is_said_after_a_farewell() -> None:
    rig = Rig()
    house = house_of(rig)
    peer = Peer(rig, house, "a", V5, properties=LIVES)
    peer.subscribe("a")
    peer.feed(b"\x36\x05\x00\x01a\x00\x01" + b"\xc0\x00")
    Peer(rig, house, "w").publish("a", "x")
    assert peer.hear() == ["DISCONNECT 0x81"]
    assert SESSION_EXPIRY not in peer.properties
    assert peer.session.closing


@NEWER
def test_a_farewell_with_flags_is_malformed(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("w")
    peer = Peer(rig, house, "a", version, will=Will("w", b"gone"))
    peer.feed(b"\xe1\x00")
    assert peer.hear() == (["DISCONNECT 0x81"] if version == V5 else [])
    assert peer.session.closing
    peer.cut()
    assert reader.hear() == ["PUBLISH w q0 gone"]


@pytest.mark.parametrize("version", [V31, V311, V5])
def test_who_left_is_heard_no_more(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("a")
    peer = Peer(rig, house, "a", version)
    peer.feed(Farewell(0).octets(version) + publish(version, "a", b"x", 0, 0))
    assert reader.hear() == []
    assert peer.session.closing


@NEWER
def test_a_ping_is_answered(version: int) -> None:
    rig = Rig()
    assert Peer(rig, house_of(rig), "a", version).ping() == ["PINGRESP"]
