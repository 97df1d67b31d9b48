"""The server's sessions of MQTT on a whole broker: QoS, sessions, retained messages, wills, and how they end."""

from __future__ import annotations

import pytest

from entrepot.core.guiding import HERE, REFUSED, THERE, UNREADY, Guidance, Guides, Visitor
from entrepot.model.address import MULTICAST, Destination, parse_one
from entrepot.model.message import BODY_TEXT, Message
from entrepot.protocols.mqtt import figures
from entrepot.protocols.mqtt.figures import Figures
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import Subscribe, Will, Wish, acknowledgement, publish
from entrepot.protocols.mqtt.retained import QUEUE
from entrepot.protocols.mqtt.schema import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SERVER_REFERENCE,
    SESSION_EXPIRY,
    V5,
    V31,
    V311,
    WILL_DELAY,
)
from entrepot.protocols.mqtt.uri import read_option
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from kit import Rig
from mqtt_peer import Peer

VERSIONS = pytest.mark.parametrize("version", [V31, V311, V5])


def house_of(rig: Rig) -> House:
    house = House(rig.broker)
    house.recover()
    rig.turn()
    return house


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_goes_from_a_client_to_a_client(version: int, qos: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r", version), Peer(rig, house, "w", version)
    assert reader.said == ["CONNACK 0"]
    assert reader.subscribe("a/+", qos=qos) == [f"SUBACK 1 {qos}"]
    answers = {0: [], 1: ["PUBACK 1 0"], 2: ["PUBREC 1 0", "PUBCOMP 1 0"]}
    assert writer.publish("a/b", "hello", qos) == answers[qos]
    number = " id 1" if qos else ""
    assert reader.hear()[0] == f"PUBLISH a/b q{qos}{number} hello"
    assert rig.broker.memory.used == 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_who_publishes_to_a_blocked_address_is_read_no_further_until_it_is_unblocked(qos: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r"), Peer(rig, house, "w")
    reader.subscribe("a/b", qos=qos)
    writer.subscribe("own/answers")
    (address,) = [name for name in rig.broker.table.addresses if name.endswith("b")]
    rig.broker.flow.block(address)
    writer.publish("a/c", "elsewhere", qos)
    assert writer.session.readable
    writer.publish("a/b", "one", qos)
    assert not writer.session.readable
    rig.broker.flow.unblock(address)
    rig.turn()
    assert writer.session.readable


@pytest.mark.parametrize(("published", "asked"), [(0, 2), (1, 2), (2, 1), (2, 0), (1, 0), (0, 1)])
def test_the_lower_qos_counts(published: int, asked: int) -> None:
    rig = Rig()
    house = house_of(rig)
    reader, writer = Peer(rig, house, "r"), Peer(rig, house, "w")
    reader.subscribe("t", qos=asked)
    writer.publish("t", "x", published)
    reader.hear()
    assert [one.qos for one in reader.messages] == [min(published, asked)]
    assert rig.broker.memory.used == 0


def test_octets_may_come_one_by_one() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5)
    reader.subscribe("a", qos=1)
    reader.feed(publish(V5, "a", b"x" * 300, 1, 7, properties={0x26: [("k", "v")]}), 1)
    said = reader.hear()
    assert "PUBACK 7 0" in said
    assert reader.payloads == ["x" * 300]
    assert reader.messages[0].properties == {0x26: [("k", "v")]}


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "kill", "crash", ""])
def test_a_session_waits_for_its_client_also_over_a_restart(how: str) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", clean=False)
    reader.subscribe("a/#", qos=2)
    if how not in ("kill", "crash"):
        reader.cut()
    writer = Peer(rig, house, "w")
    for qos in (0, 1, 2):
        writer.publish("a/b", f"m{qos}", qos)
    if how:
        rig.restart(how)
        house = house_of(rig)
    again = Peer(rig, house, "r", clean=False)
    assert again.said[0] == "CONNACK 0 present"
    kept = ["m1", "m2"] if how else ["m0", "m1", "m2"]
    assert again.payloads == kept
    assert rig.queue("r.a\\.>").count == 0


def test_a_clean_session_begins_with_nothing() -> None:
    rig = Rig()
    house = house_of(rig)
    Peer(rig, house, "r", clean=False).subscribe("a", qos=1)
    assert "r.a" in rig.broker.table.queues
    again = Peer(rig, house, "r", clean=True)
    assert again.said == ["CONNACK 0"]
    assert "r.a" not in rig.broker.table.queues
    assert house.states["r"].subscriptions == {}


def test_a_session_of_mqtt_5_ends_when_its_time_is_over() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, properties={SESSION_EXPIRY: 10})
    reader.subscribe("a", qos=1)
    reader.cut()
    rig.wait(9_000)
    assert "r" in house.states
    rig.wait(2_000)
    assert "r" not in house.states
    assert "r.a" not in rig.broker.table.queues
    rig.restart("kill")
    assert house_of(rig).states == {}


def test_a_session_ends_though_the_broker_was_started_again_meanwhile() -> None:
    rig = Rig()
    reader = Peer(rig, house_of(rig), "r", V5, properties={SESSION_EXPIRY: 10})
    reader.subscribe("a", qos=1)
    rig.restart("crash")
    house = house_of(rig)
    assert "r" in house.states
    rig.wait(11_000)
    assert house.states == {}
    assert "r.a" not in rig.broker.table.queues


def test_who_comes_with_the_same_client_id_takes_the_session_over() -> None:
    rig = Rig()
    house = house_of(rig)
    first = Peer(rig, house, "r", V5, properties={SESSION_EXPIRY: 100}, clean=True)
    first.subscribe("a", qos=1)
    second = Peer(rig, house, "r", V5, clean=False, properties={SESSION_EXPIRY: 100})
    assert second.said == ["CONNACK 0 present"]
    assert first.hear() == ["DISCONNECT 0x8e"]
    assert first.session.closing
    Peer(rig, house, "w").publish("a", "x", 1)
    second.hear()
    assert second.payloads == ["x"]


@pytest.mark.parametrize("how", ["", "close", "kill", "crash"])
def test_what_was_not_acknowledged_comes_again_in_order_with_its_identifier(how: str) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", clean=False, auto=False)
    reader.subscribe("a", qos=2)
    writer = Peer(rig, house, "w")
    for number in range(6):
        writer.publish("a", str(number), 1 + number % 2)
    reader.hear()
    before = [(one.payload, one.packet_id) for one in reader.messages]
    assert [int(payload) for payload, _ in sorted(before)] == list(range(6))
    if how not in ("kill", "crash"):
        reader.cut()
    if how:
        rig.restart(how)
        house = house_of(rig)
    again = Peer(rig, house, "r", clean=False)
    assert again.payloads == [str(number) for number in range(6)]
    for one in again.messages:  # a broker that was killed knows only of QoS 2 that it was sent
        assert one.dup or (how in ("kill", "crash") and one.qos == 1)
    after = {one.payload: one.packet_id for one in again.messages}
    for payload, packet_id in before:
        if int(payload) % 2 or not how:
            assert after[payload] == packet_id
    assert rig.queue("r.a").count == 0


# -- QoS 2 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["", "kill", "crash"])
def test_a_publish_of_qos_2_that_comes_again_is_taken_once(how: str) -> None:
    rig = Rig()
    house = house_of(rig)
    Peer(rig, house, "r", clean=False).subscribe("a", qos=2)
    writer = Peer(rig, house, "w", clean=False, auto=False)
    assert writer.publish("a", "x", 2, packet_id=7) == ["PUBREC 7 0"]
    if how:
        rig.restart(how)
        house = house_of(rig)
    writer = Peer(rig, house, "w", clean=False, auto=False)
    assert writer.publish("a", "x", 2, packet_id=7, dup=True) == ["PUBREC 7 0"]
    assert rig.queue("r.a").count == 1
    assert writer.ack(PUBREL, 7) == ["PUBCOMP 7 0"]
    assert writer.publish("a", "y", 2, packet_id=7) == ["PUBREC 7 0"]
    assert rig.queue("r.a").count == 2


@pytest.mark.parametrize("how", ["", "kill", "crash"])
def test_pubrel_comes_again_until_it_is_answered(how: str) -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", clean=False, auto=False)
    reader.subscribe("a", qos=2)
    Peer(rig, house, "w").publish("a", "x", 2)
    reader.hear()
    number = reader.messages[0].packet_id
    assert reader.ack(PUBREC, number) == [f"PUBREL {number} 0"]
    assert rig.queue("r.a").count == 0
    if how:
        rig.restart(how)
        house = house_of(rig)
    else:
        reader.cut()
    again = Peer(rig, house, "r", clean=False, auto=False)
    assert again.said == ["CONNACK 0 present", f"PUBREL {number} 0"]
    again.ack(PUBCOMP, number)
    again.cut()
    assert Peer(rig, house, "r", clean=False).said == ["CONNACK 0 present"]


def test_nothing_of_qos_2_is_said_before_the_disk_has_it() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", clean=False, auto=False)
    reader.subscribe("a", qos=2)
    writer = Peer(rig, house, "w", clean=False, auto=False)
    writer.feed(publish(V311, "a", b"x", 2, 1))
    assert writer.session.outgoing() == b""
    assert reader.session.outgoing() == b""
    assert writer.hear() == ["PUBREC 1 0"]
    reader.hear()
    assert reader.payloads == ["x"]
    reader.feed(acknowledgement(PUBREC, reader.messages[0].packet_id, V311))
    assert reader.session.outgoing() == b""
    writer.feed(acknowledgement(PUBREL, 1, V311))
    assert writer.session.outgoing() == b""


# -- retained ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["", "close", "kill", "crash"])
def test_the_last_retained_message_of_each_topic_is_for_who_comes(how: str) -> None:
    rig = Rig()
    house = house_of(rig)
    writer = Peer(rig, house, "w")
    writer.publish("a/1", "old", 1, retain=True)
    writer.publish("a/1", "new", 1, retain=True)
    writer.publish("a/2", "two", 0, retain=True)
    writer.publish("b", "other", 1, retain=True)
    if how:
        writer.cut()
        rig.restart(how)
        house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("a/#", qos=1)
    reader.hear()
    found = sorted((one.topic, one.payload, one.qos, one.retain) for one in reader.messages)
    assert found == [("a/1", b"new", 1, True), ("a/2", b"two", 0, True)]
    assert rig.queue(QUEUE).count == 3


def test_what_is_retained_while_a_subscription_waits_for_the_disk_comes_once() -> None:
    rig = Rig()
    house = house_of(rig)
    writer, reader = Peer(rig, house, "w"), Peer(rig, house, "r", clean=False)
    writer.publish("a", "old", 1, retain=True)
    packet = Subscribe(1)
    packet.wishes = [Wish("#", 2)]
    reader.feed(packet.octets(V311))
    writer.publish("a", "new", 2, retain=True)
    reader.hear()
    assert reader.payloads == ["old", "new"]


def test_an_empty_payload_takes_a_retained_message_back() -> None:
    rig = Rig()
    house = house_of(rig)
    writer, reader = Peer(rig, house, "w"), Peer(rig, house, "r")
    writer.publish("a", "x", 1, retain=True)
    writer.publish("a", "", 1, retain=True)
    reader.subscribe("#")
    assert reader.hear() == []
    assert rig.queue(QUEUE).count == 0


def test_a_subscriber_that_is_there_sees_no_retain_flag_unless_it_asks_for_it() -> None:
    rig = Rig()
    house = house_of(rig)
    plain, exact, writer = Peer(rig, house, "p", V5), Peer(rig, house, "e", V5), Peer(rig, house, "w", V5)
    plain.subscribe("a")
    exact.subscribe("a", options=8)
    writer.publish("a", "x", 1, retain=True)
    assert plain.hear() == ["PUBLISH a q0 x"]
    assert exact.hear() == ["PUBLISH a q0 retain x"]


@pytest.mark.parametrize(("handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling(handling: int, first: int, second: int) -> None:
    rig = Rig()
    house = house_of(rig)
    Peer(rig, house, "w").publish("a", "x", 1, retain=True)
    reader = Peer(rig, house, "r", V5)
    reader.subscribe("a", options=handling << 4)
    reader.hear()
    assert len(reader.messages) == first
    reader.subscribe("a", options=handling << 4)
    reader.hear()
    assert len(reader.messages) == first + second


# -- wills -------------------------------------------------------------------------------------------------------------


def test_a_will_is_spoken_when_the_connection_is_lost_and_not_after_disconnect() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("will/#", qos=1)
    Peer(rig, house, "a", will=Will("will/a", b"gone", 1)).cut()
    Peer(rig, house, "b", will=Will("will/b", b"gone", 1)).leave()
    reader.hear()
    assert [one.topic for one in reader.messages] == ["will/a"]


def test_a_will_is_retained_if_it_says_so_and_spoken_at_disconnect_with_will() -> None:
    rig = Rig()
    house = house_of(rig)
    Peer(rig, house, "a", V5, will=Will("will/a", b"gone", 1, True)).leave(4)
    reader = Peer(rig, house, "r")
    reader.subscribe("will/#")
    assert reader.hear() == ["PUBLISH will/a q0 retain gone"] or reader.payloads == ["gone"]


def test_a_delayed_will_is_dropped_when_the_client_comes_back() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("w")
    will = Will("w", b"gone")
    will.properties = {WILL_DELAY: 5}
    options = {"properties": {SESSION_EXPIRY: 100}, "clean": False}
    Peer(rig, house, "a", V5, will=will, **options).cut()
    rig.wait(3_000)
    back = Peer(rig, house, "a", V5, **options)
    rig.wait(10_000)
    assert reader.hear() == []
    back.leave()
    Peer(rig, house, "a", V5, will=will, **options).cut()
    rig.wait(6_000)
    assert reader.hear() == ["PUBLISH w q0 gone"]


def test_a_delayed_will_survives_a_crash() -> None:
    rig = Rig()
    house = house_of(rig)
    will = Will("w", b"gone", 1)
    will.properties = {WILL_DELAY: 5}
    Peer(rig, house, "a", V5, will=will, properties={SESSION_EXPIRY: 100})
    rig.restart("crash")
    house = house_of(rig)
    reader = Peer(rig, house, "r")
    reader.subscribe("w", qos=1)
    rig.wait(6_000)
    assert [word[:11] for word in reader.hear()] == ["PUBLISH w q"]


# -- MQTT 5 ------------------------------------------------------------------------------------------------------------


def test_receive_maximum_holds_back_what_the_client_did_not_answer() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, auto=False, properties={0x21: 2})
    reader.subscribe("a", qos=2)
    writer = Peer(rig, house, "w")
    for number in range(5):
        writer.publish("a", str(number), 1)
    reader.hear()
    assert reader.payloads == ["0", "1"]
    assert reader.ack(PUBACK, reader.messages[0].packet_id) == ["PUBLISH a q1 id 3 2"]
    reader.ack(PUBACK, reader.messages[1].packet_id)
    reader.ack(PUBACK, reader.messages[2].packet_id)
    assert reader.payloads == ["0", "1", "2", "3", "4"]


def test_topic_aliases_both_ways() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, properties={0x22: 5})
    reader.subscribe("a/long/topic", identifier=9)
    writer = Peer(rig, house, "w", V5)
    writer.publish("a/long/topic", "1", properties={0x23: 3})
    writer.publish("", "2", properties={0x23: 3})
    reader.hear()
    assert [(one.topic, one.properties) for one in reader.messages] == [
        ("a/long/topic", {0x0B: [9], 0x23: 1}),
        ("", {0x0B: [9], 0x23: 1}),
    ]


def test_a_message_too_large_for_its_client_counts_as_delivered() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, properties={0x27: 60, SESSION_EXPIRY: 100})
    reader.subscribe("a", qos=1)
    writer = Peer(rig, house, "w")
    writer.publish("a", "x" * 100, 1)
    writer.publish("a", "y", 1)
    reader.hear()
    assert reader.payloads == ["y"]
    assert rig.queue("r.a").count == 0


def test_shared_subscriptions_share() -> None:
    rig = Rig()
    house = house_of(rig)
    members = [Peer(rig, house, f"m{number}", V5) for number in range(3)]
    for one in members:
        assert one.subscribe("$share/g/a/+", qos=1)[0].startswith("SUBACK 1 1")
    writer = Peer(rig, house, "w")
    for number in range(30):
        writer.publish(f"a/{number}", str(number), 1)
    for one in members:
        one.hear()
    counts = [len(one.messages) for one in members]
    assert sum(counts) == 30
    assert min(counts) >= 5
    for one in members:
        one.cut()
    assert not [name for name in rig.broker.table.queues if name.startswith("g")]


def test_message_expiry_is_passed_on_and_obeyed() -> None:
    rig = Rig()
    house = house_of(rig)
    reader = Peer(rig, house, "r", V5, properties={SESSION_EXPIRY: 100})
    reader.subscribe("a", qos=1)
    reader.cut()
    writer = Peer(rig, house, "w", V5)
    writer.publish("a", "short", 1, properties={0x02: 2})
    writer.publish("a", "long", 1, properties={0x02: 60})
    rig.wait(10_000)
    again = Peer(rig, house, "r", V5, clean=False, properties={SESSION_EXPIRY: 100})
    assert again.payloads == ["long"]
    assert again.messages[0].properties == {0x02: 50}


def test_no_local() -> None:
    rig = Rig()
    house = house_of(rig)
    one = Peer(rig, house, "a", V5)
    one.subscribe("t", options=4)
    one.publish("t", "mine", 1)
    Peer(rig, house, "b", V5).publish("t", "yours")
    one.hear()
    assert one.payloads == ["yours"]


def test_a_client_without_an_id_gets_one() -> None:
    rig = Rig()
    house = house_of(rig)
    one = Peer(rig, house, "", V5)
    assert str(one.properties[0x12]).startswith("auto-")
    assert Peer(rig, house, "", V311).said == ["CONNACK 0"]
    assert Peer(rig, house, "", V311, clean=False).said == ["CONNACK 2"]
    assert Peer(rig, house, "", V31).said == ["CONNACK 2"]


def test_wildcards_do_not_reach_topics_with_a_dollar() -> None:
    rig = Rig()
    house = house_of(rig)
    options = MqttOptions()
    options.dollar_topics = True
    reader, writer = Peer(rig, house, "r"), Peer(rig, house, "w", options=options)
    reader.subscribe("#", "+/x", "$own/#")
    writer.publish("$own/x", "1", 0, retain=True)
    reader.hear()
    assert len(reader.messages) == 1
    late = Peer(rig, house, "l")
    late.subscribe("#")
    assert late.hear() == []


def test_silence_ends_a_connection() -> None:
    rig = Rig()
    house = house_of(rig)
    one = Peer(rig, house, "a", V5, keep_alive=10)
    rig.now = int(one.session.deadline())
    rig.broker.tick(rig.now, rig.wall)
    one.session.advance(rig.now)
    assert one.hear() == ["DISCONNECT 0x8d"]


def test_other_languages_read_it_and_are_read() -> None:
    rig = Rig()
    house = house_of(rig)
    stomp = rig.reader("a.b", routing=MULTICAST)
    reader, writer = Peer(rig, house, "r", V5), Peer(rig, house, "w", V5)
    reader.subscribe("a/b", qos=1)
    said = {0x01: 1, 0x03: "text/plain", 0x08: "re/ply", 0x09: b"c", 0x26: [("k", "v")]}
    writer.publish("a/b", "text", 2, properties=said)
    common = stomp.deliveries[0].message.common()
    assert (common.body_kind, common.body) == (BODY_TEXT, "text")
    assert (common.content_type, common.reply_to, common.correlation_id) == ("text/plain", "topic://re.ply", "c")
    assert common.properties == {"k": "v", "ActiveMQ.MQTT.QoS": 2}
    assert reader.hear()[0].startswith("PUBLISH a/b q1")
    assert reader.messages[0].properties == said
    foreign = Message(STOMP_LANGUAGE, "a.b", b"k:v\n\nfrom elsewhere\0")
    foreign.body_at = 5
    foreign.durable = True
    rig.broker.send(foreign, rig.broker.target([Destination("a.b", MULTICAST)]))
    assert reader.hear() == ["PUBLISH a/b q1 id 2 from elsewhere"]
    assert reader.messages[1].properties == {0x01: 1, 0x26: [("k", "v")]}


BAD = [
    (b"\x30\x00", "0x82"),  # not CONNECT: before it nothing is said
    (b"\x36\x05\x00\x01a\x00\x01", "0x81"),  # QoS 3
    (b"\x32\x06\x00\x01a\x00\x00\x00", "0x82"),  # packet identifier 0
    (b"\x30\x05\x00\x01\x00\x00x", "0x81"),  # NUL in a topic
    (b"\x30\x05\x00\x01+\x00x", "0x90"),  # a wildcard
    (b"\x30\x03\x00\x00\x00", "0x82"),  # no topic
    (b"\x30\x06\x00\x00\x03\x23\xff\xff", "0x94"),  # an alias out of range
    (b"\x30\x06\x00\x00\x03\x23\x00\x07", "0x82"),  # one that stands for nothing
    (b"\x30\x05\x00\x01a\x02\x0b\x01"[:7], "0x81"),  # cut-off properties
    (b"\x30\x06\x00\x01a\x02\x0b\x01", "0x82"),  # a subscription identifier from a client
    (b"\x82\x02\x00\x01", "0x81"),  # SUBSCRIBE without properties
    (b"\x82\x03\x00\x01\x00", "0x82"),  # without a filter
    (b"\x82\x07\x00\x01\x00\x00\x01a\x03", "0x81"),  # QoS 3
    (b"\x80\x07\x00\x01\x00\x00\x01a\x00", "0x81"),  # reserved flags
    (b"\x62\x01\x00", "0x81"),  # PUBREL cut off
    (b"\x60\x02\x00\x01", "0x81"),  # PUBREL without its flags
    (b"\xc1\x00", "0x81"),  # PINGREQ with flags
    (b"\xf0\x00", "0x82"),  # AUTH
    (b"\x20\x02\x00\x00", "0x82"),  # CONNACK from a client
    (b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00", "0x82"),  # a second CONNECT
    (b"\xff\xff\xff\xff\xff", "0x81"),  # an endless length
]


@pytest.mark.parametrize(("octets", "reason"), BAD[1:])
def test_what_breaks_the_standard_ends_that_connection_only(octets: bytes, reason: str) -> None:
    rig = Rig()
    house = house_of(rig)
    bad, good = Peer(rig, house, "bad", V5), Peer(rig, house, "good", V5)
    good.subscribe("t", qos=1)
    bad.feed(octets)
    assert bad.hear() == [f"DISCONNECT {reason}"]
    assert bad.session.closing
    assert bad.properties[0x1F]
    good.publish("t", "x", 1)
    assert good.payloads == ["x"]


def test_the_first_packet_must_be_connect() -> None:
    rig = Rig()
    bad = Peer(rig, house_of(rig), connects=False)
    bad.feed(BAD[0][0])
    assert bad.hear() == []
    assert bad.session.closing


def test_a_packet_above_the_limit_is_refused_before_it_is_held() -> None:
    rig = Rig()
    options = MqttOptions()
    options.packet_octets_max = 1000
    bad = Peer(rig, house_of(rig), "x", V5, options=options)
    bad.feed(b"\x30\xff\x7f")
    assert bad.hear() == ["DISCONNECT 0x95"]


def test_two_shared_subscriptions_are_not_one_because_their_names_meet() -> None:
    """The queue of ``$share/a.b/c`` and ``$share/a/b/c`` would have one name, and the second throw away the first."""
    rig = Rig()
    house = house_of(rig)
    first, second = Peer(rig, house, "first", clean=False), Peer(rig, house, "second", V5)
    assert first.subscribe("$share/a/b/c", qos=1)[0] == "SUBACK 1 1"
    first.cut()
    Peer(rig, house, "sender").publish("b/c", "waits", 1)
    assert second.subscribe("$share/a.b/c", qos=1)[0] == "SUBACK 1 143"
    back = Peer(rig, house, "first", clean=False)
    back.hear()
    assert back.payloads == ["waits"]


# -- Classic's virtual topics ------------------------------------------------------------------------------------------


def _virtual() -> MqttOptions:
    options = MqttOptions()
    assert read_option(options, "transport.subscriptionStrategy", "mqtt-virtual-topic-subscriptions")
    return options


def test_topics_are_virtual_ones_where_the_connector_says_so() -> None:
    """Queues are called as in Classic, and JMS reads them by that name (classic.md 6.4)."""
    rig = Rig()
    house = House(rig.broker)
    kept = Peer(rig, house, "c1", clean=False, options=_virtual())
    kept.subscribe("a/b", qos=1)
    kept.subscribe("a/+/c", qos=2)
    kept.subscribe("x", qos=0)
    names = sorted(name for name in rig.broker.table.queues if name.startswith("Consumer."))
    assert names == ["Consumer.c1:AT_LEAST_ONCE.VirtualTopic.a.b", "Consumer.c1:EXACTLY_ONCE.VirtualTopic.a.*.c"]
    fleeting = Peer(rig, house, "c2", options=_virtual())
    fleeting.subscribe("#", qos=1)
    fleeting.publish("a/b", "one", 1)
    fleeting.publish("a/b/c", "two", 2)
    assert [repr(one) for one in fleeting.messages] == ["PUBLISH a/b q1 id 1 one", "PUBLISH a/b/c q1 id 2 two"]
    kept.hear()
    assert kept.payloads == ["one", "two"]
    kept.cut()
    fleeting.publish("a/b", "three", 1)
    assert rig.broker.table.queues["Consumer.c1:AT_LEAST_ONCE.VirtualTopic.a.b"].count == 1
    back = Peer(rig, house, "c1", clean=False)  # over a connector without the strategy: names are the session's
    back.hear()
    assert back.payloads == ["three"]
    back.unsubscribe("a/b")
    assert sorted(name for name in rig.broker.table.queues if name.startswith("Consumer.")) == names[1:]


def test_the_queue_of_a_virtual_topic_is_one_clients() -> None:
    """A client id with dots could spell the name of another client's queue."""
    rig = Rig()
    house = House(rig.broker)
    good = Peer(rig, house, "c1", clean=False, options=_virtual())
    good.subscribe("x:AT_LEAST_ONCE/VirtualTopic/y", qos=1)
    bad = Peer(rig, house, "c1:AT_LEAST_ONCE.VirtualTopic.x", clean=False, options=_virtual())
    bad.subscribe("y", qos=1)
    names = [name for name in rig.broker.table.queues if name.startswith("Consumer.")]
    assert names == [
        "Consumer.c1:AT_LEAST_ONCE.VirtualTopic.x:AT_LEAST_ONCE.VirtualTopic.y",
        "Consumer.c1:AT_LEAST_ONCE\\.VirtualTopic\\.x:AT_LEAST_ONCE.VirtualTopic.y",
    ]
    bad.publish("x:AT_LEAST_ONCE/VirtualTopic/y", "hers", 1)
    good.hear()
    assert (good.payloads, bad.payloads) == (["hers"], [])


def test_other_protocols_meet_virtual_topics_by_name() -> None:
    rig = Rig()
    house = House(rig.broker)
    reader = Peer(rig, house, "c1", clean=False, options=_virtual())
    reader.subscribe("a/b", qos=1)
    reader.cut()
    plain = Peer(rig, house, "c2")
    plain.publish("VirtualTopic/a/b", "from afar", 1)  # the topic VirtualTopic.a.b, as a JMS client has it
    queue = rig.broker.table.queues["Consumer.c1:AT_LEAST_ONCE.VirtualTopic.a.b"]
    assert queue.count == 1
    assert rig.broker.queues.need(parse_one("queue://Consumer.c1:AT_LEAST_ONCE.VirtualTopic.a.b")) is queue


def test_retained_messages_and_wills_of_virtual_topics() -> None:
    rig = Rig()
    house = House(rig.broker)
    sender = Peer(rig, house, "s", options=_virtual(), will=Will("w", b"gone", 1))
    sender.publish("r", "kept", 1, retain=True)
    reader = Peer(rig, house, "r", options=_virtual())
    reader.subscribe("#", qos=1)
    sender.cut()
    reader.hear()
    assert [(one.topic, one.retain) for one in reader.messages] == [("r", True), ("w", False)]


# -- $SYS --------------------------------------------------------------------------------------------------------------


def test_figures_of_the_broker_are_shown_to_who_subscribes_to_them_alone() -> None:
    rig = Rig()
    house = house_of(rig)
    other, reader = Peer(rig, house, "other"), Peer(rig, house, "reader")
    other.subscribe("#", qos=1)
    reader.subscribe("$SYS/broker/clients/+")
    shown = {one.topic.removeprefix("$SYS/broker/clients/"): one.payload for one in reader.messages}
    assert shown == {"connected": b"2", "disconnected": b"0", "total": b"2", "maximum": b"2"}
    assert all(one.retain for one in reader.messages)
    reader.messages.clear()
    rig.wait(10_000)  # nothing has changed
    assert reader.hear() == []
    Peer(rig, house, "third")
    rig.wait(10_000)
    reader.hear()
    last = [(one.topic.rpartition("/")[2], one.payload, one.retain) for one in reader.messages]
    assert last == [("connected", b"3", False), ("total", b"3", False), ("maximum", b"3", False)]
    assert other.messages == []
    assert other.publish("$SYS/broker/clients/connected", "17", 1) == ["PUBACK 2 0"]
    assert reader.hear() == []
    reader.cut()
    rig.wait(10_000)
    assert isinstance(house.figures, Figures)
    assert not house.figures.readers


def test_figures_of_the_broker_are_there_for_others_when_one_wants_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "READERS_OF_ONE", 3)
    monkeypatch.setattr(figures, "READERS_MAX", 4)
    rig = Rig()
    house = house_of(rig)
    greedy = Peer(rig, house, "greedy", V5)
    filters = ["$SYS/#", "$SYS/broker/+", "$SYS/broker/uptime", "$SYS/broker/version"]
    assert [greedy.subscribe(text)[0] for text in filters] == ["SUBACK 1 0", "SUBACK 2 0", "SUBACK 3 0", "SUBACK 4 128"]
    assert "SUBACK 5 0" in greedy.subscribe("$SYS/#")  # it has that one
    other = Peer(rig, house, "other")
    other.subscribe("$SYS/broker/version")
    assert [one.topic for one in other.messages] == ["$SYS/broker/version"]
    late = Peer(rig, house, "late")
    assert late.subscribe("$SYS/broker/version")[0] == "SUBACK 1 128"
    greedy.unsubscribe("$SYS/broker/+")
    assert late.subscribe("$SYS/broker/version")[0] == "SUBACK 2 0"
    assert isinstance(house.figures, Figures)
    assert len(house.figures.readers) == len(house.figures.owners) == 4


@pytest.mark.parametrize("how", ["", "stop", "kill"])
@pytest.mark.parametrize("qos", [0, 1])
def test_figures_go_on_for_a_session_that_goes_on(qos: int, how: str) -> None:
    rig = Rig()
    house = house_of(rig)
    first = Peer(rig, house, "reader", clean=False)
    first.subscribe("$SYS/broker/clients/+", qos=qos)
    if how:
        rig.restart(how)
        house = house_of(rig)
    else:
        first.cut()
        rig.wait(10_000)
    reader = Peer(rig, house, "reader", clean=False)
    assert reader.said == ["CONNACK 0 present"]
    rig.wait(10_000)
    reader.hear()
    assert ("$SYS/broker/clients/connected", b"1") in [(one.topic, one.payload) for one in reader.messages]  # behind
    reader.messages.clear()
    Peer(rig, house, "third")
    rig.wait(10_000)
    reader.hear()
    assert ("$SYS/broker/clients/connected", b"2") in [(one.topic, one.payload) for one in reader.messages]


# -- connection routers ------------------------------------------------------------------------------------------------


class _Guides(Guides):
    def __init__(self, verdict: int) -> None:
        self.verdict = verdict

    def ask(self, name: str, visitor: Visitor) -> Guidance:
        found = Guidance(self.verdict, f"{visitor.client_id} is served elsewhere")
        found.host, found.port = "b.example", 1884
        return found


@pytest.mark.parametrize(
    ("verdict", "version", "said", "place"),
    [
        (HERE, V5, "CONNACK 0", None),
        (THERE, V5, "CONNACK 156", "b.example:1884"),
        (THERE, V311, "CONNACK 3", None),
        (REFUSED, V5, "CONNACK 156", None),
        (UNREADY, V5, "CONNACK 136", None),
        (UNREADY, V311, "CONNACK 3", None),
    ],
)
def test_a_router_says_who_is_served_where(verdict: int, version: int, said: str, place: str | None) -> None:
    rig = Rig()
    house = house_of(rig)
    rig.broker.guides = _Guides(verdict)
    options = MqttOptions()
    options.router = "r"
    client = Peer(rig, house, "c", version, options=options)
    assert client.said == [said]
    assert client.properties.get(SERVER_REFERENCE) == place
    assert ("c" in house.states) is (verdict == HERE)
