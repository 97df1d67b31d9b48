from __future__ import annotations

import pytest

from entrepot.base.errors import Fault, InvalidDestination
from entrepot.model.ids import message_id_prefix
from entrepot.protocols.openwire.codec import Decoder
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    BrokerId,
    ConnectionId,
    ConsumerId,
    Destination,
    KeepAliveInfo,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import (
    DestinationKind,
    components,
    destination,
    foreign_producer,
    id_apart,
    is_queue,
    is_temporary,
    kind_of,
    parse_consumer_id,
    parse_destination,
    parse_message_id,
    parse_producer_id,
    qualified_name,
    temporary_owner,
    text_of,
)

from .examples import format_of, vectors

PRODUCER = ProducerId("ID:h-1-2-3:1", 7, 4)


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (ConnectionId("ID:h-1-2-3:1"), "ID:h-1-2-3:1"),
        (BrokerId("ID:b"), "ID:b"),
        (SessionId("c", -1), "c:-1"),
        (ConsumerId("c", 1, 2), "c:1:2"),
        (ProducerId("c", 2, 1), "c:1:2"),  # value 2 of session 1
        (MessageId(producer_id=PRODUCER, producer_sequence_id=9), "ID:h-1-2-3:1:4:7:9"),
        (MessageId(producer_id=ProducerId("ID:h", 5, -1), producer_sequence_id=1), "ID:h:-1:5:1"),  # ActiveMQ's own
        (MessageId(text_view="ID:other"), "ID:other"),
        (MessageId(text_view="other"), "ID:other"),
        (LocalTransactionId(5, ConnectionId("c")), "TX:c:5"),
        (XATransactionId(1, b"\x01\xab", b""), "XID:[1,globalId=1ffffffab,branchId=]"),
    ],
    ids=repr,
)
def test_text_of_identities(identity: Structure, text: str) -> None:
    assert text_of(identity) == text


def test_only_identities_have_a_text() -> None:
    with pytest.raises(Fault):
        text_of(KeepAliveInfo())


def test_java_says_the_same() -> None:
    compared = 0
    for vector in vectors():
        wanted = vector["get"].get("TransactionKey") or vector["get"].get("QualifiedName")
        if wanted is None or vector["mode"] not in (0, 2):
            continue
        (value,) = Decoder(format_of(vector)).feed(bytes.fromhex(vector["hex"]))
        said = qualified_name(value) if isinstance(value, Destination) else text_of(value)
        assert said == wanted
        if isinstance(value, Destination):
            assert is_queue(value) == vector["get"]["Queue"]
            assert is_temporary(value) == vector["get"]["Temporary"]
            if is_temporary(value):
                assert vector["get"]["DestinationType"] == {102: 5, 103: 6}[kind_of(value)]
        compared += 1
    assert compared >= 100


def test_texts_become_identities_again() -> None:
    identity = MessageId(producer_id=PRODUCER, producer_sequence_id=9)
    assert parse_message_id(text_of(identity)) == identity
    assert parse_producer_id("ID:h-1-2-3:1:4:7") == PRODUCER
    assert parse_consumer_id("c:-1:2") == ConsumerId("c", -1, 2)


@pytest.mark.parametrize("text", ["", "abc", "a:1", "a:1:2", "a:b:1:2", "a:1:2:99999999999999999999", "a:1:2:\u0663"])
def test_any_other_text_is_kept_as_it_is(text: str) -> None:
    assert parse_message_id(text).text_view == text


@pytest.mark.parametrize("kind", DestinationKind)
def test_destinations_by_kind(kind: DestinationKind) -> None:
    where = destination(kind, "A.B")
    assert kind_of(where) is kind
    assert where.type_id == kind
    assert parse_destination(qualified_name(where)) == where


def test_a_name_without_qualifier_is_of_the_kind_that_is_expected() -> None:
    assert parse_destination("A") == ActiveMQQueue("A")
    assert parse_destination("A", DestinationKind.TOPIC) == ActiveMQTopic("A")
    for empty in ("", "  ", "queue://", "topic:// "):
        with pytest.raises(InvalidDestination):
            parse_destination(empty)


def test_composites_come_apart() -> None:
    assert components(ActiveMQQueue("A")) == [ActiveMQQueue("A")]
    assert components(ActiveMQTopic("A, queue://B,C")) == [ActiveMQTopic("A"), ActiveMQQueue("B"), ActiveMQTopic("C")]
    with pytest.raises(InvalidDestination):
        components(ActiveMQQueue("A,,B"))


def test_a_temporary_destination_names_its_owner() -> None:
    assert temporary_owner(ActiveMQTempTopic("ID:h-1-2-3:1:17")) == "ID:h-1-2-3:1"


def test_senders_of_other_protocols_are_one_producer_here_and_apart_elsewhere() -> None:
    """What an id says stays; ActiveMQ reads back what it shows, and knows no two of them from one producer."""
    prefix = message_id_prefix("n-1")
    assert parse_message_id(f"{prefix}7") == MessageId(producer_id=foreign_producer("n-1"), producer_sequence_id=7)
    seventh, ninth = (id_apart(f"{prefix}{number}", "n-1", number, 4) for number in (7, 9))
    assert [text_of(one) for one in (seventh, ninth)] == [f"{prefix}7", f"{prefix}9"]
    assert seventh.producer_id != ninth.producer_id
    shown = "ID:n-1:-6:7:1"  # by Java's MessageId
    assert parse_message_id(shown) == seventh
    assert text_of(parse_message_id(shown)) == f"{prefix}7"


def test_copies_that_share_an_id_are_apart() -> None:
    original = f"{message_id_prefix('n-1')}7"
    one, other = id_apart(original, "n-1", 7, 4), id_apart(original, "n-1", 7, 5)
    assert text_of(one) == text_of(other) == original
    assert one.producer_id != other.producer_id


def test_a_message_with_a_new_number_keeps_its_id() -> None:
    """One that died and was sent again, or came from another node of ours; two of one id may meet in a queue."""
    known = f"{message_id_prefix('n-1')}7"
    crossing = [id_apart(known, node, number, queue) for node, number, queue in (
        ("n-1", 7, 4), ("n-1", 8, 4), ("n-1", 9, 4), ("n-2", 7, 4), ("n-2", 7, 5))]  # fmt: skip
    assert {text_of(one) for one in crossing} == {known}
    assert len({text_of(one.producer_id) for one in crossing if one.producer_id is not None}) == len(crossing)
    assert text_of(parse_message_id("ID:n-1:8:-6:7:1")) == known  # by Java's MessageId


def test_ids_of_another_form_are_apart_too() -> None:
    java = MessageId(producer_id=PRODUCER, producer_sequence_id=5)
    assert id_apart(text_of(java), "here", 3, 4) == java
    other, third = id_apart("ID:AMQP_ULONG:7", "here", 3, 4), id_apart("ID:AMQP_ULONG:7", "here", 4, 4)
    assert text_of(other) == text_of(third) == "ID:AMQP_ULONG:7"
    assert other.producer_id != third.producer_id
