"""What the hub tells comes into the trace: readers, brokers, and messages that are in no queue."""

from __future__ import annotations

from entrepot.base.reasons import FULL, READER_BEHIND, SAME_DUPLICATE_ID, Reason
from entrepot.core.events import announcing
from entrepot.core.events import trace as records
from entrepot.core.events.facts import BROKER_JOINED, BROKER_LEFT, Hub, Place
from entrepot.core.events.neighbours import BrokerFact
from entrepot.core.events.trace import Trace, TraceSink
from entrepot.core.events.tracing import Tracing
from entrepot.model.message import Language, Message


class Blocks(TraceSink):
    """Keeps what the records and names of each block are."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.names: list[bytes] = []

    def write(self, head: bytes, records: bytes, names: bytes, facts: int) -> None:
        self.records.append(records)
        self.names.append(names)

    def kinds(self) -> list[int]:
        """Return the kinds of the records so far."""
        octets = b"".join(self.records)
        return [octets[at] for at in range(0, len(octets), records.RECORD_OCTETS)]


def traced() -> tuple[Hub, Trace, Blocks]:
    """Return a hub on which a trace hangs, the trace, and what it wrote."""
    sink = Blocks()
    trace = Trace(sink)
    trace.tick(1_000_000, 1_700_000_000_000)
    return Hub([Tracing(trace, lambda message: f"ID:x:{message.number}")], strict=True), trace, sink


def message(number: int) -> Message:
    one = Message(Language(250, "x"), "Nowhere", b"")
    one.number = number
    return one


def test_what_is_in_no_queue_is_noted_with_its_address() -> None:
    hub, trace, sink = traced()
    announcing.unrouted(hub, message(1), "Nowhere")
    announcing.repeated(hub, message(2), "Twice", "ID:x:2", SAME_DUPLICATE_ID)
    announcing.dropped(hub, Place("Q", "Q"), message(3), "", Reason(FULL))
    trace.flush()
    noted = [kind for kind in sink.kinds() if kind not in (records.IDENTITY, records.SPAN)]
    assert noted == [records.UNROUTED, records.DUPLICATE, records.UNROUTED]
    assert all(name in b"".join(sink.names) for name in (b"Nowhere", b"Twice", b"Q"))


def test_what_is_refused_or_an_advisory_or_without_a_message_is_not_noted() -> None:
    hub, trace, sink = traced()
    announcing.unrouted(hub, None, "Nowhere")
    announcing.unrouted(hub, message(1), "ActiveMQ.Advisory.Queue")
    announcing.dropped(hub, Place("Q", "Q"), message(3), "", Reason(READER_BEHIND))
    trace.flush()
    assert sink.kinds() == []


def test_a_broker_that_brings_messages_has_its_name_until_it_left() -> None:
    hub, trace, sink = traced()
    hub.announce(BrokerFact(BROKER_JOINED, 7, "west-1", "west"))
    assert trace.live == {(records.NAME_ORIGIN, 7): "west-1\twest"}
    hub.announce(BrokerFact(BROKER_LEFT, 7, "west-1", "west"))
    trace.flush()
    assert trace.live == {}
    assert b"west-1\twest" in sink.names[0], "what this turn noted keeps its name"
