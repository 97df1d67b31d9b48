"""What the standard says and no other test here shows: subscriptions, and what goes to their clients.

`mqtt_5.toml` and `mqtt_3.toml` say which test shows which statement.
"""

from __future__ import annotations

import pytest

from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.packets import Subscribe, Wish, acknowledgement
from entrepot.protocols.mqtt.schema import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    RECEIVE_MAXIMUM,
    SESSION_EXPIRY,
    SUBSCRIPTION_ID,
    UNSUBSCRIBE,
    V5,
    V311,
)
from kit import Rig
from mqtt_peer import Peer

NEWER = pytest.mark.parametrize("version", [V311, V5])
LIVES = {SESSION_EXPIRY: 100}
NO_LOCAL = 4


def house_of(rig: Rig) -> House:
    house = House(rig.broker)
    house.recover()
    rig.turn()
    return house


# -- SUBSCRIBE ---------------------------------------------------------------------------------------------------------

WRONG = {
    "SUBSCRIBE without a filter": (b"\x82\x02\x00\x01", "0x82"),
    "SUBSCRIBE with reserved flags": (b"\x80\x06\x00\x01\x00\x01a\x00", "0x81"),
    "SUBSCRIBE with reserved options": (b"\x82\x06\x00\x01\x00\x01a\x40", "0x81"),
    "SUBSCRIBE with QoS 3": (b"\x82\x06\x00\x01\x00\x01a\x03", "0x81"),
    "SUBSCRIBE with identifier 0": (b"\x82\x06\x00\x00\x00\x01a\x00", "0x82"),
    "a filter that is no UTF-8": (b"\x82\x06\x00\x01\x00\x01\xff\x00", "0x81"),
    "UNSUBSCRIBE without a filter": (b"\xa2\x02\x00\x01", "0x82"),
    "UNSUBSCRIBE with reserved flags": (b"\xa0\x05\x00\x01\x00\x01a", "0x81"),
    "UNSUBSCRIBE of what is no UTF-8": (b"\xa2\x05\x00\x01\x00\x01\xff", "0x81"),
    "UNSUBSCRIBE with identifier 0": (b"\xa2\x05\x00\x00\x00\x01a", "0x82"),
}


@NEWER
@pytest.mark.parametrize("kind", WRONG)
def test_what_is_asked_wrongly_ends_the_connection(kind: str, version: int) -> None:
    octets, reason = WRONG[kind]
    if version == V5:  # without properties
        octets = octets[:1] + bytes((octets[1] + 1,)) + octets[2:4] + b"\0" + octets[4:]
    rig = Rig()
    bad = Peer(rig, house_of(rig), "bad", version)
    bad.feed(octets)
    assert bad.hear() == ([f"DISCONNECT {reason}"] if version == V5 else [])
    assert bad.session.closing


def test_options_of_mqtt_5_are_reserved_before() -> None:
    rig = Rig()
    bad = Peer(rig, house_of(rig), "bad")
    bad.subscribe("a", options=NO_LOCAL)
    assert bad.session.closing


def test_no_local_is_not_for_shared_subscriptions() -> None:
    rig = Rig()
    bad = Peer(rig, house_of(rig), "bad", V5)
    assert bad.subscribe("$share/g/a", options=NO_LOCAL) == ["DISCONNECT 0x82"]


@NEWER
def test_each_filter_has_its_answer_in_the_order_of_the_filters(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", version)
    packet = Subscribe(77)
    packet.wishes = [Wish("a", 2), Wish("b/#/c", 1), Wish("c", 0), Wish("c+", 1), Wish("d", 1), Wish("", 1)][:5]
    reader.feed(packet.octets(version))
    refused = 0x8F if version == V5 else 0x80
    assert reader.hear() == [f"SUBACK 77 2 {refused} 0 {refused} 1"]
    writer = Peer(rig, house, "w")
    for topic in ("a", "c", "d"):
        writer.publish(topic, topic, 2)
    reader.hear()
    assert sorted((one.topic, one.qos) for one in reader.messages) == [("a", 2), ("c", 0), ("d", 1)]
    packet.wishes = [Wish("a", 0), Wish("never", 0), Wish("d", 0)]
    reader.feed(packet.octets(version, UNSUBSCRIBE))
    assert reader.hear() == ["UNSUBACK 77 0 17 0" if version == V5 else "UNSUBACK 77"]


@NEWER
def test_a_subscription_takes_the_place_of_the_same_one(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    writer = Peer(rig, house, "w", V5)
    writer.publish("a/kept", "kept", 1, retain=True)
    reader = Peer(rig, house, "r", version, clean=False)
    for qos in (1, 2, 0):
        reader.subscribe("a/+", qos=qos)
        reader.hear()
        assert [(one.payload, one.retain) for one in reader.messages] == [(b"kept", True)]
        reader.messages.clear()
        writer.publish("a/x", "new", 2)
        reader.hear()
        assert [(one.payload, one.qos) for one in reader.messages] == [(b"new", qos)]
        reader.messages.clear()


def test_a_message_carries_the_identifiers_of_the_subscriptions_that_it_comes_by() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5)
    reader.subscribe("a/#", qos=0, identifier=1)
    reader.subscribe("a/+", qos=2, identifier=268_435_455)
    reader.subscribe("a/b", qos=1)
    Peer(rig, house, "w", V5).publish("a/b", "x", 2)
    reader.hear()
    found = sorted((one.qos, *one.properties.get(SUBSCRIPTION_ID, [])) for one in reader.messages)
    assert found == [(0, 1), (1,), (2, 268_435_455)]
    reader.messages.clear()
    reader.subscribe("a/+", qos=2)
    reader.unsubscribe("a/#", "a/b")
    Peer(rig, house, "v", V5).publish("a/b", "x", 2)
    reader.hear()
    assert [one.properties for one in reader.messages] == [{}]


@NEWER
def test_filters_are_compared_character_by_character(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r", version), Peer(rig, house, "w", version)
    names = ["a", "A", "/a", "a/", "a//b", "a/b", "\u00e9", "e\u0301", " a", "a.b", "a/ b"]
    reader.subscribe(*names)
    for name in names:
        writer.publish(name, name)
    reader.hear()
    assert [(one.topic, one.payload.decode()) for one in reader.messages] == [(name, name) for name in names]
    reader.messages.clear()
    assert reader.unsubscribe("+", "A/", "\u00e9")[0].startswith("UNSUBACK")
    for name in names:
        writer.publish(name, name)
    reader.hear()
    assert [one.topic for one in reader.messages] == [name for name in names if name != "\u00e9"]


@NEWER
def test_what_is_on_its_way_is_finished_after_unsubscribe(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", version, auto=False)
    reader.subscribe("a", qos=2)
    writer = Peer(rig, house, "w", version)
    writer.publish("a", "begun", 2)
    writer.publish("a", "begun", 1)
    reader.hear()
    two, one = reader.messages
    assert reader.unsubscribe("a")[0].startswith("UNSUBACK")
    writer.publish("a", "too late", 1)
    assert reader.hear() == []
    assert reader.ack(PUBREC, two.packet_id) == [f"PUBREL {two.packet_id} 0"]
    assert reader.ack(PUBCOMP, two.packet_id) == []
    assert reader.ack(PUBACK, one.packet_id) == []
    assert house.states["r"].flights == {}


@NEWER
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_a_topic_come_in_their_order(qos: int, version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r", version), Peer(rig, house, "w", version)
    reader.subscribe("a/#", qos=qos)
    for number in range(50):
        writer.publish("a/b", str(number), qos)
    reader.hear()
    assert reader.payloads == [str(number) for number in range(50)]


# -- what is on its way ------------------------------------------------------------------------------------------------


def test_other_packets_do_not_wait_for_receive_maximum() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, auto=False, properties={RECEIVE_MAXIMUM: 1})
    reader.subscribe("a", "zero", qos=1)
    writer = Peer(rig, house, "w", V5)
    for number in range(3):
        writer.publish("a", str(number), 1)
    reader.hear()
    assert reader.payloads == ["0"]
    assert reader.ping() == ["PINGRESP"]
    assert reader.subscribe("b", qos=1) == ["SUBACK 2 1"]
    assert reader.publish("c", "x", 1) == ["PUBACK 3 0"]
    assert reader.unsubscribe("b") == ["UNSUBACK 4 0"]
    assert reader.ack(PUBACK, reader.messages[0].packet_id, 0x80) == ["PUBLISH a q1 id 2 1"]


@NEWER
def test_nothing_is_sent_again_while_the_connection_is_there(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", version, auto=False)
    reader.subscribe("a", qos=2)
    Peer(rig, house, "w").publish("a", "x", 2)
    reader.hear()
    rig.wait(10_000_000)
    assert reader.hear() == []
    reader.ack(PUBREC, 1)
    rig.wait(10_000_000)
    assert reader.hear() == []
    assert [one.dup for one in reader.messages] == [False]


@NEWER
def test_pubrel_come_in_the_order_of_pubrec(version: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", version, auto=False)
    reader.subscribe("a", qos=2)
    writer = Peer(rig, house, "w")
    for number in range(5):
        writer.publish("a", str(number), 2)
    reader.hear()
    order = [3, 1, 5, 2, 4]
    for packet_id in order:
        reader.feed(acknowledgement(PUBREC, packet_id, version))
    assert reader.hear() == [f"PUBREL {packet_id} 0" for packet_id in order]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_client_refuses_is_not_sent_again(qos: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, clean=False, auto=False, properties=LIVES)
    reader.subscribe("a", qos=qos)
    Peer(rig, house, "w").publish("a", "x", qos)
    reader.hear()
    assert reader.ack(PUBACK if qos == 1 else PUBREC, reader.messages[0].packet_id, 0x83) == []
    reader.cut()
    assert Peer(rig, house, "r", V5, clean=False, properties=LIVES).said == ["CONNACK 0 present"]
    assert rig.queue("r.a").count == 0


def test_a_session_is_kept_while_its_connection_is_there() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, clean=False, properties={SESSION_EXPIRY: 10}, keep_alive=0xFFFF)
    reader.subscribe("a", qos=1)
    rig.wait(50_000)
    reader.ping()
    assert "r" in house.states
    reader.cut()
    rig.wait(9_000)
    assert Peer(rig, house, "r", V5, clean=False).said == ["CONNACK 0 present"]


# -- shared ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["$share//a", "$share/g", "$share/g/", "$share/+/a", "$share/g#/a", "$share/"])
def test_what_is_no_shared_subscription_is_refused(text: str) -> None:
    rig = Rig()
    assert Peer(rig, house_of(rig), "a", V5).subscribe(text) == ["SUBACK 1 143"]


def test_each_member_has_its_own_qos() -> None:
    rig = Rig()
    house = house_of(rig)
    members = [Peer(rig, house, f"m{qos}", V5) for qos in (1, 2)]
    for qos, one in enumerate(members, 1):
        one.subscribe("$share/g/a", qos=qos)
    writer = Peer(rig, house, "w")
    for number in range(10):
        writer.publish("a", str(number), 2)
    for qos, one in enumerate(members, 1):
        one.hear()
        assert {message.qos for message in one.messages} == {qos}


@pytest.mark.parametrize("qos", [1, 2])
def test_what_one_member_refuses_goes_to_no_other(qos: int) -> None:
    rig = Rig()
    house = house_of(rig)
    first, second = (Peer(rig, house, name, V5, auto=False) for name in "ab")
    first.subscribe("$share/g/t", qos=qos)
    Peer(rig, house, "w").publish("t", "x", qos)
    first.hear()
    second.subscribe("$share/g/t", qos=qos)
    first.ack(PUBACK if qos == 1 else PUBREC, first.messages[0].packet_id, 0x80)
    assert second.hear() == []
    assert rig.broker.memory.used == 0


def test_what_a_member_did_not_finish_goes_to_another() -> None:
    """Not as the standard has it (5: 4.8.2-4 and -5): the queue of a shared subscription is a queue as any other."""
    rig = Rig()
    house = house_of(rig)
    first = Peer(rig, house, "a", V5, clean=False, auto=False, properties=LIVES)
    first.subscribe("$share/g/t", qos=2)
    Peer(rig, house, "w").publish("t", "x", 2)
    first.hear()
    second = Peer(rig, house, "b", V5)
    second.subscribe("$share/g/t", qos=2)
    first.cut()
    second.hear()
    assert second.payloads == ["x"]
