import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.base.errors import CorruptJournal, Refused
from entrepot.model.message import SHORT_OCTETS_MAX, Message, language, read_envelope, write_envelope

LANGUAGE = language(250)
texts = st.text(max_size=40)


def written(message: Message) -> bytes:
    writer = BytesWriter()
    write_envelope(message, writer)
    return writer.getvalue()


@given(
    address=texts,
    raw=st.binary(max_size=200),
    numbers=st.lists(st.integers(0, 1 << 60), min_size=2, max_size=2),
    priority=st.integers(0, 9),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    before=st.binary(max_size=20),
)
def test_an_envelope_reads_back(address, raw, numbers, priority, flags, before):
    message = Message(LANGUAGE, address, raw)
    message.timestamp, message.expiration = numbers
    message.priority = priority
    message.body_at = len(raw) // 2
    message.durable, message.redelivered, message.escaped = flags
    again = read_envelope(before + written(message), len(before))
    for name in (
        "address",
        "raw",
        "timestamp",
        "expiration",
        "priority",
        "body_at",
        "durable",
        "redelivered",
        "escaped",
    ):
        assert getattr(again, name) == getattr(message, name), name
    assert again.language is LANGUAGE
    assert again.rare is None


@given(
    group=texts,
    sequence=st.integers(-(1 << 31), (1 << 31) - 1),
    duplicate=st.binary(max_size=50),
    identity=texts,
    numbers=st.lists(st.integers(0, 1 << 60), min_size=3, max_size=3),
    annotations=st.dictionaries(texts, texts, max_size=5),
)
def test_what_is_rare_reads_back(group, sequence, duplicate, identity, numbers, annotations):
    message = Message(LANGUAGE, "a", b"x")
    rare = message.need_rare()
    rare.group, rare.group_sequence, rare.duplicate_id, rare.identity = group, sequence, duplicate, identity
    rare.deliver_at, rare.large_id, rare.large_length = numbers
    rare.annotations = annotations
    again = read_envelope(written(message), 0).rare
    assert again is not None
    for name in ("group", "group_sequence", "duplicate_id", "identity", "deliver_at", "large_id", "annotations"):
        assert getattr(again, name) == getattr(rare, name), name
    assert again.large_length == numbers[2]


def test_an_unknown_layout_is_refused():
    octets = written(Message(LANGUAGE, "a", b"x"))
    with pytest.raises(CorruptJournal, match="layout 9"):
        read_envelope(b"\x09" + octets[1:], 0)


def test_a_group_that_the_layout_cannot_say_is_refused():
    message = Message(LANGUAGE, "a", b"x")
    message.need_rare().group = "g" * (SHORT_OCTETS_MAX + 1)
    with pytest.raises(Refused, match="32768 octets"):
        written(message)


def test_a_twin_shares_nothing_that_changes():
    message = Message(LANGUAGE, "a", b"x")
    message.annotate("key", "one")
    message.priority = 7
    twin = message.twin("b")
    twin.annotate("key", "two")
    assert (message.need_rare().annotations["key"], twin.priority, twin.address) == ("one", 7, "b")


def test_facts_come_from_the_envelope_first():
    message = Message(LANGUAGE, "a", b"x")
    message.durable = True
    message.expiration = 5
    message.annotate("why", "because")
    facts = {name: message.fact(name) for name in ("JMSPriority", "JMSDeliveryMode", "AMQExpiration", "AMQSize", "why")}
    assert facts == {
        "JMSPriority": 4,
        "JMSDeliveryMode": "PERSISTENT",
        "AMQExpiration": 5,
        "AMQSize": 1,
        "why": "because",
    }
