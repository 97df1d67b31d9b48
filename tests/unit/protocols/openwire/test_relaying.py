"""A message passed on as it came says the same as one that was opened, changed and encoded anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.model.message import BARE_OCTETS, Message
from entrepot.protocols.artemis.arriving import message_of as core_message
from entrepot.protocols.artemis.headers import TYPE_BYTES, Headers, assembled
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.bodies import bytes_message, map_message, pack_properties, text_message
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    BrokerId,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
)
from entrepot.protocols.openwire.convert import decode, has_no_path, message_of, named, presented
from entrepot.protocols.openwire.relaying import Crossing
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE

HERE = "ID:here-1"
OURS = ProducerId("A->B-1", 1, 1)
PREFIX = "ID:here-1:-1:1:1:"
WALL = 1_700_000_000_123


def anew(message: Message, counter: int, identity: str) -> commands.Message:
    """What the bridge says when it opens the message."""
    made = presented(message, named(message.address, False, False), identity, HERE, None)
    made.broker_path = [*(made.broker_path or ()), BrokerId(HERE)]
    made.producer_id = OURS
    made.redelivery_counter = counter
    made.broker_out_time = WALL
    made.command_id = 77
    made.response_required = True
    return made


def crossed(message: Message, counter: int, frame_max: int = 1 << 20) -> commands.Message | None:
    out = BytesWriter()
    crossing = Crossing(OURS, HERE, PREFIX)
    if not crossing.write(out, message, named(message.address, False, False), 77, True, counter, WALL, frame_max):
        assert len(out) == 0
        return None
    frame = out.getvalue()
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return decode(frame[4:])


def fields(command: commands.Message) -> dict[str, object]:
    names = [name for name in dir(command) if not name.startswith("_") and name not in ("first",)]
    found = {name: getattr(command, name) for name in names if not callable(getattr(command, name))}
    return {name: value for name, value in found.items() if not name.startswith("mark_")}


def received(command: commands.Message, address: str = "Q") -> Message:
    command.message_id = MessageId(producer_id=ProducerId("ID:x-1", 3, 4), producer_sequence_id=9)
    command.producer_id = ProducerId("ID:x-1", 3, 4)
    command.destination = ActiveMQQueue(address)
    command.timestamp = WALL - 5
    message = message_of(command, address)
    message.number = 4711
    return message


texts = st.text(max_size=40)
opened = st.one_of(
    texts.map(text_message),
    st.binary(max_size=60).map(bytes_message),
    st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 9), max_size=3).map(map_message),
)


@given(
    opened, st.integers(0, 3), st.booleans(), st.one_of(st.none(), texts), st.one_of(st.none(), st.integers(0, 5)),
    st.integers(0, 9), st.one_of(st.none(), st.text(min_size=1, max_size=8)),
)  # fmt: skip
def test_what_came_over_openwire_crosses_as_if_it_were_opened(
    command: commands.Message,
    counter: int,
    durable: bool,
    correlation: str | None,
    extra: int | None,
    priority: int,
    reply: str | None,
) -> None:
    command.persistent = durable
    command.correlation_id = correlation
    command.priority = priority
    command.marshalled_properties = None if extra is None else pack_properties({"n": extra})
    command.reply_to = None if reply is None else ActiveMQQueue(reply)
    message = received(command)
    made = crossed(message, counter)
    assert made is not None
    assert fields(made) == fields(anew(message, counter, ""))
    assert not has_no_path(message_of(made, "Q").raw)


@given(st.binary(max_size=60), st.integers(0, 3), st.booleans(), st.booleans())
def test_what_came_over_stomp_crosses_as_if_it_were_converted(
    body: bytes, counter: int, durable: bool, text: bool
) -> None:
    if text:
        body = bytes(octet % 127 + 1 for octet in body)
    head = b"\n" if text else b"content-length:%d\n\n" % len(body)
    message = Message(STOMP_LANGUAGE, "orders.new", head + body + b"\0")
    message.body_at = len(head)
    message.durable = durable
    message.number = 4711
    message.timestamp = WALL - 5
    made = crossed(message, counter)
    assert made is not None
    assert fields(made) == fields(anew(message, counter, f"{PREFIX}4711"))


def test_what_must_be_opened_is_left_to_be_opened() -> None:
    plain = text_message("x")
    plain.transaction_id = LocalTransactionId(1, ConnectionId("c"))
    assert crossed(received(plain), 0) is None, "the transaction does not cross"
    been = text_message("x")
    been.broker_path = [BrokerId("ID:other")]
    assert crossed(received(been), 0) is None, "the path grows"
    user = text_message("x")
    user.user_id = ""
    assert crossed(received(user), 0) is None
    renamed = received(text_message("x"))
    renamed.address = "elsewhere"
    assert crossed(renamed, 0) is None, "the destination is another one"
    noted = received(text_message("x"))
    noted.annotate("why", "dead")
    assert crossed(noted, 0) is None, "the broker added a property"
    headers = Message(STOMP_LANGUAGE, "Q", b"a:b\n\nx\0")
    headers.body_at = 5
    assert crossed(headers, 0) is None, "a header is a property"
    foreign = Message(STOMP_LANGUAGE, "Q", b"\n\xc3\xa4\0")
    foreign.body_at = 1
    assert crossed(foreign, 0) is None, "Java writes other octets"
    assert crossed(received(text_message("x" * 200)), 0, frame_max=100) is None, "no peer takes that"


def test_a_body_alone_whose_sender_gave_it_an_id_keeps_that() -> None:
    headers = Headers()
    headers.kind = TYPE_BYTES
    headers.user_id = bytes(range(16))
    message = core_message(assembled(b"x", headers, {}), "Q")
    assert message.language.bare(message) == (BARE_OCTETS, b"x")
    assert crossed(message, 0) is None, "what is written without opening it gets an id of its number here"
