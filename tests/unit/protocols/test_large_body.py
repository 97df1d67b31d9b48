"""Large bodies that came over CORE, as readers of other languages get them: octets, texts, and compressed ones."""

from __future__ import annotations

import zlib

import pytest

from entrepot.base.errors import BodyLost, LimitExceeded
from entrepot.model.address import parse
from entrepot.model.message import Message
from entrepot.protocols import large_body
from entrepot.protocols.amqp.performatives import Flow
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.headers import TYPE_BYTES, TYPE_TEXT, Headers, assembled
from entrepot.protocols.artemis.packets import (
    FlowToken,
    ForceDelivery,
    ReattachSession,
    ReattachSessionReply,
    Receive,
    ReceiveContinuation,
    SendContinuation,
    SendLarge,
)
from entrepot.protocols.large_body import JAVA, UNITS, Count, LargeBody, length_of
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.schema import V5, V311
from entrepot.protocols.openwire.commands import ActiveMQQueue
from entrepot.protocols.openwire.convert import text_message
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.primitives import encode_modified_utf8
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from mqtt_peer import Peer

from .amqp.wired import Client as AmqpClient
from .amqp.wired import Hub as AmqpHub
from .artemis.wired import ANYCAST, MULTICAST, ROUTING, Client, Hub
from .openwire.wired import Hub as OpenWireHub

TEXT = "grün \N{GRINNING FACE} \0 " * 9_000
OCTETS = bytes(range(256)) * 700


def sent(hub: Hub, body: bytes, kind: int, **properties: object) -> Message:
    """Send ``body`` as a large message; return it as the broker has it."""
    client = Client(hub)
    client.open()
    client.make("q")
    send(client, "q", ANYCAST, body, kind, **properties)
    reference = hub.rig.queue("q").backlog.first()
    assert reference is not None
    return reference.message


def send(client: Client, address: str, routing: int, body: bytes, kind: int, **properties: object) -> None:
    headers = Headers()
    headers.address = address
    headers.kind = kind
    headers.durable = True
    octets = assembled(b"", headers, {ROUTING: routing, "color": "red", **properties})
    client.say(SendLarge(headers=octets[4:]), 10)
    client.say(SendContinuation(body=body, continues=False, body_size=len(body)), 10)


def units(text: str) -> bytes:
    octets = text.encode("utf-16-le")
    return b"\1" + len(octets).to_bytes(4, "big") + octets


CASES = [
    pytest.param(OCTETS, TYPE_BYTES, {}, OCTETS, id="octets"),
    pytest.param(units(TEXT), TYPE_TEXT, {}, TEXT.encode(), id="text"),
    pytest.param(zlib.compress(OCTETS), TYPE_BYTES, {"_AMQ_LARGE_COMPRESSED": True}, OCTETS, id="compressed octets"),
    pytest.param(zlib.compress(units(TEXT)), TYPE_TEXT, {"_AMQ_LARGE_COMPRESSED": True}, TEXT.encode(), id="both"),
    pytest.param(b"", TYPE_BYTES, {}, b"", id="nothing"),
]


@pytest.mark.parametrize(("body", "kind", "properties", "shown"), CASES)
def test_what_core_has_on_disk_is_read_in_the_common_form(
    body: bytes, kind: int, properties: dict[str, object], shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_body, "PIECE_MAX", 1_001)
    hub = Hub()
    message = sent(hub, body, kind, **properties)
    reader = LargeBody(hub.rig.broker, message)
    found = b""
    while not reader.done:
        found += reader.piece()
    assert found == shown
    assert length_of(hub.rig.broker, message) == len(shown)


@pytest.mark.parametrize(("body", "kind", "properties", "shown"), CASES)
@pytest.mark.parametrize("version", ["1.0", "1.2"])
def test_a_reader_of_stomp_gets_the_whole_body(
    body: bytes, kind: int, properties: dict[str, object], shown: bytes, version: str
) -> None:
    hub = Hub()
    sent(hub, body, kind, **properties)
    rig = hub.rig
    session = StompSession(Shell(), rig.broker, StompOptions(), 99, "stomp")
    session.receive(b"CONNECT\naccept-version:%s\nhost:x\n\n\0" % version.encode(), rig.now)
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\n\n\0", rig.now)
    said = b""
    for _ in range(50):
        rig.turn()
        rig.broker.effort.go_on()
        said += session.outgoing()
    head, _, rest = said.partition(b"MESSAGE\n")[2].partition(b"\n\n")
    lines = head.split(b"\n")
    assert b"content-length:%d" % len(shown) in lines
    assert sum(line.startswith(b"content-length") for line in lines) == 1
    assert b"color:red" in lines
    assert rest[: len(shown)] == shown
    assert rest[len(shown) :].strip() == b"\0"


@pytest.mark.parametrize(("body", "kind", "properties", "shown"), CASES)
@pytest.mark.parametrize("version", [V311, V5])
def test_a_subscriber_of_mqtt_gets_the_whole_body(
    body: bytes, kind: int, properties: dict[str, object], shown: bytes, version: int
) -> None:
    hub = Hub()
    house = House(hub.rig.broker)
    house.recover()
    hub.rig.turn()
    reader = Peer(hub.rig, house, "r", version)
    reader.subscribe("t", qos=1)
    client = Client(hub)
    client.open()
    send(client, "t", MULTICAST, body, kind, **properties)
    reader.hear()
    assert [bytes(one.payload) for one in reader.messages] == [shown]


@pytest.mark.parametrize("version", [V311, V5])
def test_a_body_that_is_too_long_for_mqtt_is_skipped(version: int) -> None:
    hub = Hub()
    house = House(hub.rig.broker)
    house.recover()
    hub.rig.turn()
    reader = Peer(hub.rig, house, "r", version)
    reader.subscribe("t", qos=1)
    outbound = reader.session.outbound
    assert outbound is not None
    outbound.packet_max = len(OCTETS)
    client = Client(hub)
    client.open()
    send(client, "t", MULTICAST, zlib.compress(OCTETS), TYPE_BYTES, _AMQ_LARGE_COMPRESSED=True)
    send(client, "t", MULTICAST, zlib.compress(b"short" * 9), TYPE_BYTES, _AMQ_LARGE_COMPRESSED=True)
    reader.hear()
    assert [bytes(one.payload) for one in reader.messages] == [b"short" * 9]


BOMB = bytes(12 << 20)  # from 12 KB
LONG = "grün \N{GRINNING FACE} \0 " * 300_000  # 5 MB, and 6 in UTF-16
TURN_MAX = 6 << 20  # octets that may be counted in one turn: some 20 pieces


class Turns:
    """How many octets were counted in each turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.octets = [0]
        self.spent = 0
        genuine = Count.step

        def step(count: Count) -> bool:
            effort = count.broker.effort
            if effort.spent < self.spent:  # another turn
                self.octets.append(0)
            before = count.total
            done = genuine(count)
            self.octets[-1] += count.total - before
            self.spent = int(effort.spent)
            return done

        monkeypatch.setattr(Count, "step", step)

    def check(self, total: int) -> None:
        assert sum(self.octets) == total
        assert max(self.octets) <= TURN_MAX


def stored_text(hub: Hub, text: str) -> None:
    """Put a large text of STOMP into the queue."""
    broker = hub.rig.broker
    overflow = broker.journal.overflow
    blob = broker.ids.next_number()
    overflow.create(blob)
    overflow.write(blob, text.encode())
    overflow.seal(blob)
    message = Message(STOMP_LANGUAGE, "q", b"\n")
    message.body_at = 1
    message.durable = True
    rare = message.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = blob, len(text.encode()), True
    broker.send(message, broker.target(parse("queue://q")))
    overflow.release(blob)
    hub.rig.turn()


def bomb(hub: Hub) -> None:
    sent(hub, zlib.compress(BOMB), TYPE_BYTES, _AMQ_LARGE_COMPRESSED=True)


@pytest.mark.parametrize("ack", ["client", "auto"])
def test_a_bomb_is_counted_over_turns_for_a_reader_of_stomp(ack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    turns = Turns(monkeypatch)
    rig = hub.rig
    session = StompSession(Shell(), rig.broker, StompOptions(), 99, "stomp")
    session.receive(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", rig.now)
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:%s\n\n\0" % ack.encode(), rig.now)
    while rig.broker.effort.waits():
        rig.broker.effort.go_on()
    pieces = []
    while octets := session.outgoing():
        pieces.append(octets)
        rig.turn()
    assert b"".join(pieces).endswith(b"content-length:%d\n\n" % len(BOMB) + BOMB + b"\0")
    turns.check(len(BOMB))
    assert rig.queue("q").count == (ack == "client")


def test_a_bomb_is_counted_over_turns_for_a_reader_of_openwire(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    turns = Turns(monkeypatch)
    reader = OpenWireHub(hub.rig).client()
    reader.consume(ActiveMQQueue("q"))
    found = []
    while not found:
        found = [dispatch.message for dispatch in reader.dispatches()]
    assert found[0] is not None
    assert found[0].content == BOMB
    turns.check(len(BOMB))


def test_a_text_is_counted_over_turns_for_a_reader_of_openwire(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    stored_text(hub, LONG)
    turns = Turns(monkeypatch)
    reader = OpenWireHub(hub.rig).client()
    reader.consume(ActiveMQQueue("q"))
    found: list[str] = []
    while not found:
        found = reader.texts()
    assert found == [LONG]
    turns.check(len(text_message(LONG).content or b"") - 4)


def test_a_text_is_counted_over_turns_for_a_reader_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    stored_text(hub, LONG)
    turns = Turns(monkeypatch)
    client = Client(hub)
    client.open()
    client.consume("q", credits=-1)
    for _ in range(100):
        hub.turn()
    assert b"".join(one.body for one in client.take(ReceiveContinuation)) == units(LONG)
    turns.check(len(LONG.encode("utf-16-le")))


def test_a_bomb_is_counted_over_turns_for_a_reader_of_amqp(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    turns = Turns(monkeypatch)
    other = AmqpHub(hub.rig)
    reader = AmqpClient(other)
    reader.receiver("q")
    for _ in range(100):
        other.turn()
    assert reader.bodies() == [BOMB]
    turns.check(len(BOMB))


def test_a_bomb_is_counted_over_turns_for_a_subscriber_of_mqtt(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    house = House(hub.rig.broker)
    house.recover()
    hub.rig.turn()
    reader = Peer(hub.rig, house, "r", V311)
    reader.subscribe("t", qos=1)
    turns = Turns(monkeypatch)
    client = Client(hub)
    client.open()
    send(client, "t", MULTICAST, zlib.compress(BOMB), TYPE_BYTES, _AMQ_LARGE_COMPRESSED=True)
    while not reader.messages:
        reader.hear()
    assert reader.messages[0].payload == BOMB
    turns.check(len(BOMB))


def done(hub: Hub) -> None:
    while hub.rig.broker.effort.waits():
        hub.rig.broker.effort.go_on()


def stomp(hub: Hub, *frames: bytes) -> StompSession:
    session = StompSession(Shell(), hub.rig.broker, StompOptions(), 99, "stomp")
    for frame in (b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", *frames):
        session.receive(frame, hub.rig.now)
    return session


def written(hub: Hub, session: StompSession) -> bytes:
    done(hub)
    pieces = []
    while octets := session.outgoing():
        pieces.append(octets)
        hub.rig.turn()
        done(hub)
    return b"".join(pieces)


LOOK = b"SUBSCRIBE\nid:1\ndestination:/queue/q\nbrowser:true\n\n\0"


def test_a_bomb_is_counted_over_turns_for_a_browser_of_stomp(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    stomp(hub, b"SEND\ndestination:/queue/q\n\nsmall\0")
    turns = Turns(monkeypatch)
    octets = written(hub, stomp(hub, LOOK))
    large = octets.index(b"content-length:%d\n\n" % len(BOMB) + BOMB + b"\0")
    assert large < octets.index(b"small") < octets.index(b"browser:end")
    turns.check(len(BOMB))
    assert hub.rig.queue("q").count == 2


def test_a_browser_keeps_what_it_looks_at_and_a_consumer_takes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    turns = Turns(monkeypatch)
    session = stomp(hub, LOOK)
    overflow = hub.rig.broker.journal.overflow
    assert hub.rig.broker.effort.waits()
    hub.rig.drain("queue://q")
    hub.rig.turn()
    assert overflow.sizes, "the browser holds it"
    octets = written(hub, session)
    assert BOMB + b"\0" in octets
    turns.check(len(BOMB))
    assert not overflow.sizes


@pytest.mark.parametrize("how", ["unsubscribes", "leaves"])
def test_a_browser_that_ends_lets_go_of_what_it_looks_at(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    turns = Turns(monkeypatch)
    session = stomp(hub, LOOK)
    if how == "leaves":
        session.detach("gone", hub.rig.now)
    else:
        session.receive(b"UNSUBSCRIBE\nid:1\n\n\0", hub.rig.now)
    hub.rig.drain("queue://q")
    hub.rig.turn()
    assert b"MESSAGE" not in written(hub, session)
    assert sum(turns.octets) <= TURN_MAX
    assert not hub.rig.broker.journal.overflow.sizes


def test_a_bomb_is_counted_over_turns_for_a_browser_of_openwire(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    turns = Turns(monkeypatch)
    reader = OpenWireHub(hub.rig).client()
    reader.consume(ActiveMQQueue("q"), browser=True)
    found: list[object] = []
    while len(found) < 2:
        found += [dispatch.message and dispatch.message.content for dispatch in reader.dispatches()]
    assert found == [BOMB, None]
    turns.check(len(BOMB))


def test_a_text_is_counted_over_turns_for_a_browser_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    stored_text(hub, LONG)
    turns = Turns(monkeypatch)
    client = Client(hub)
    client.open()
    client.consume("q", credits=-1, browse=True)
    client.say(ForceDelivery(consumer=0, sequence=1), 10)
    for _ in range(100):
        hub.turn()
    pieces = client.take(ReceiveContinuation)
    assert b"".join(one.body for one in pieces) == units(LONG)
    assert len(client.take(Receive)) == 1, "there is no more"
    turns.check(len(LONG.encode("utf-16-le")))


@pytest.mark.parametrize("away", [0, 3, 100])
def test_a_browser_of_core_goes_on_where_it_was_over_another_connection(away: int) -> None:
    """``away``: turns between the two connections, in which the text is counted in part, or whole."""
    hub = Hub()
    stored_text(hub, LONG)
    client = Client(hub)
    client.open(name="s", window=1_000_000)
    client.send("q", "small")
    client.consume("q", credits=0, browse=True)
    seen = int(client.session.channels[10].session.channel.written) - 1
    grant = FlowToken(consumer=0, credits=-1)
    grant.channel = 10
    client.session.receive(client.encoder.encode(grant), hub.rig.now)
    assert hub.rig.broker.effort.waits(), "it is being counted"
    client.session.detach("cut", hub.rig.now)
    hub.clients.remove(client)
    for _ in range(away):
        hub.rig.broker.effort.go_on()
        hub.rig.turn()
    other = Client(hub)
    assert other.ask(ReattachSession(name="s", last_confirmed=seen), ReattachSessionReply, 1).reattached
    for _ in range(100):
        hub.turn()
    assert b"".join(one.body for one in other.take(ReceiveContinuation)) == units(LONG)
    assert other.texts() == ["small"]


def test_a_bomb_is_counted_over_turns_for_a_browser_of_amqp(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    turns = Turns(monkeypatch)
    other = AmqpHub(hub.rig)
    reader = AmqpClient(other)
    reader.receiver("q", distribution_mode="copy", credit=0)
    reader.credit(10, drain=True)
    for _ in range(100):
        other.turn()
    assert reader.bodies() == [BOMB]
    assert reader.take(Flow)[-1].drain
    turns.check(len(BOMB))
    assert hub.rig.queue("q").count == 1


LEASE = b"queue:/queue/q\ngroup:g\n"


def leased(hub: Hub, form: bytes) -> StompSession:
    return stomp(
        hub,
        b"ATTACH\n" + LEASE + b"receipt:a\n\n\0",
        b"CLAIM\n" + LEASE + b"epoch:1\nmax:10\nreceipt:b\n\n\0",
        b"READ\n" + LEASE + b"epoch:1\n" + form + b"receipt:c\n\n\0",
    )


@pytest.mark.parametrize("form", [b"", b"form:batch\n"])
def test_a_bomb_is_counted_over_turns_for_a_reader_by_lease(form: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    bomb(hub)
    stomp(hub, b"SEND\ndestination:/queue/q\n\nsmall\0")
    hub.rig.turn()
    turns = Turns(monkeypatch)
    octets = written(hub, leased(hub, form))
    large = octets.index(b"content-length:%d\n\n" % len(BOMB) + BOMB + b"\0")
    assert octets.count(BOMB) == 1
    assert large < octets.index(b"small") < octets.index(b"receipt-id:c")
    turns.check(len(BOMB))


def packed(hub: Hub, body: bytes) -> None:
    """Put a short message of CORE into the queue, which is compressed."""
    headers = Headers()
    headers.address, headers.kind, headers.durable = "q", TYPE_BYTES, True
    octets = assembled(zlib.compress(body), headers, {ROUTING: ANYCAST, "_AMQ_LARGE_COMPRESSED": True})
    broker = hub.rig.broker
    broker.send(message_of(octets, "q"), broker.target(parse("queue://q")))


@pytest.mark.parametrize("form", [b"", b"form:batch\n"])
def test_what_inflates_is_given_by_lease_a_few_at_a_time(form: bytes) -> None:
    hub = Hub()
    body = bytes(2 << 20)
    for _ in range(8):
        packed(hub, body)
    session = leased(hub, form)
    pieces = []
    done(hub)
    while octets := session.outgoing():
        pieces.append(len(octets))
        hub.rig.turn()
        done(hub)
    assert sum(pieces) > 8 * len(body)
    assert max(pieces) < 2 * len(body)


@pytest.mark.parametrize("form", [b"", b"form:batch\n"])
def test_a_reader_by_lease_gets_the_headers_of_what_has_no_body(form: bytes) -> None:
    hub = Hub()
    sent(hub, OCTETS, TYPE_BYTES, _AMQ_LARGE_COMPRESSED=True)
    stomp(hub, b"SEND\ndestination:/queue/q\n\nsmall\0")
    hub.rig.turn()
    octets = written(hub, leased(hub, form))
    assert octets.count(b"color:red") == 1
    assert b"said to be compressed is not" in octets
    assert octets.index(b"color:red") < octets.index(b"small") < octets.index(b"receipt-id:c")


def test_a_bomb_beyond_the_limit_is_a_dead_letter_that_keeps_its_body() -> None:
    hub = Hub()
    bomb(hub)
    reader = OpenWireHub(hub.rig).client(options=smaller(len(BOMB) // 2))
    reader.consume(ActiveMQQueue("q"))
    assert reader.dispatches() == []
    dead = hub.rig.queue("ActiveMQ.DLQ").backlog.first()
    assert dead is not None
    rare = dead.message.need_rare()
    assert "longer than the" in rare.annotations["dlqDeliveryFailureCause"]
    assert zlib.decompress(hub.rig.broker.journal.overflow.whole(dead.message)) == BOMB
    with pytest.raises(BodyLost, match="longer than the"):
        length_of(hub.rig.broker, dead.message, most=len(BOMB) - 1)
    assert length_of(hub.rig.broker, dead.message) == len(BOMB)
    with pytest.raises(LimitExceeded, match="longer than the"):
        length_of(hub.rig.broker, dead.message, most=len(BOMB) - 1)


def smaller(octets: int) -> OpenWireOptions:
    options = OpenWireOptions()
    options.wire = WireFormatOptions(max_frame_size=octets)
    return options


@pytest.mark.parametrize("text", ["", "plain", "gr\u00fcn", "\0", "\N{GRINNING FACE}", "\U0010ffff\0\uffff"])
def test_lengths_of_texts_are_what_is_written(text: str) -> None:
    hub = Hub()
    stored_text(hub, text * 50)
    reference = hub.rig.queue("q").backlog.first()
    assert reference is not None
    assert length_of(hub.rig.broker, reference.message, JAVA) == len(encode_modified_utf8(text * 50))
    assert length_of(hub.rig.broker, reference.message, UNITS) == len((text * 50).encode("utf-16-le"))


def test_what_is_known_of_a_body_goes_with_it() -> None:
    hub = Hub()
    message = sent(hub, zlib.compress(OCTETS), TYPE_BYTES, _AMQ_LARGE_COMPRESSED=True)
    overflow = hub.rig.broker.journal.overflow
    assert length_of(hub.rig.broker, message) == len(OCTETS)
    assert overflow.lengths
    hub.rig.drain("queue://q")
    hub.rig.turn()
    assert not overflow.lengths


def test_what_is_said_to_be_compressed_and_is_not_has_no_body() -> None:
    hub = Hub()
    message = sent(hub, OCTETS, TYPE_BYTES, _AMQ_LARGE_COMPRESSED=True)
    with pytest.raises(BodyLost, match="is not"):
        length_of(hub.rig.broker, message)
