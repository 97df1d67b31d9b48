"""Which messages are watched: those whose producers recorded them, and of the others as many as the ratio says."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from librt.strings import BytesWriter

from entrepot.base.errors import Refused
from entrepot.base.trace_context import ABSENT, UNCLEAR, UNSAMPLED, TraceContext, parse, said
from entrepot.core.events.facts import (
    EVERY_KIND,
    MESSAGE_CONSUMED,
    MESSAGE_DISPATCHED,
    MESSAGE_WATCHED,
    Fact,
    Listener,
    MessageFact,
)
from entrepot.core.events.watching import (
    ACCEPTED,
    FORWARDED,
    HOP,
    PERSISTED,
    RECEIVED,
    REFUSED,
    ROUTED,
    Watch,
    WatchedFact,
    hop_of,
    mark_of,
)
from entrepot.core.observing import observe
from entrepot.core.sending.handing import Postponement
from entrepot.model import address as names
from entrepot.model.message import Language, Message
from entrepot.protocols.amqp.presenting import presented
from entrepot.protocols.artemis import arriving
from entrepot.protocols.artemis import convert as core
from entrepot.protocols.mqtt import delivery
from entrepot.protocols.mqtt.codec import properties_octets
from entrepot.protocols.mqtt.schema import USER_PROPERTY
from entrepot.protocols.openwire import convert as openwire
from entrepot.protocols.openwire.convert import named
from entrepot.protocols.stomp.codec import CONTEXT_AT, Reader
from entrepot.protocols.stomp.commands import SEND
from entrepot.protocols.stomp.escapes import V12
from entrepot.protocols.stomp.headers import write_headers
from entrepot.protocols.stomp.options import StompOptions
from kit import Rig
from unit.base.test_trace_context import MALFORMED, SAMPLED, SPAN, TRACE, UNRECORDED, in_each_language, stomp


class Follower(Listener):
    """Remembers what happened to watched messages."""

    def __init__(self) -> None:
        super().__init__(0, MESSAGE_WATCHED | MESSAGE_DISPATCHED | MESSAGE_CONSUMED)
        self.follows = True
        self.facts: list[Fact] = []

    def heard(self, fact: Fact) -> None:
        self.facts.append(fact)

    def stages(self) -> list[int]:
        return [int(fact.stage) for fact in self.facts if isinstance(fact, WatchedFact)]


def watched_rig(ratio: float = 0.0, *, honours: bool = True, disk: bool = True) -> tuple[Rig, Follower]:
    rig = Rig(disk=disk)
    follower = Follower()
    observe(rig.broker, follower)
    rig.broker.watch = Watch(rig.broker.hub, rig.journal, rig.lots, ratio, honours)
    return rig, follower


def send(rig: Rig, headers: str, to: str = "/queue/orders", *, durable: bool = True) -> Message:
    parsed = names.parse(to)
    message = stomp(headers)
    message.address = parsed[0].name
    message.durable = durable
    rig.broker.send(message, rig.broker.target(parsed))
    rig.turn()
    return message


def test_what_its_producer_recorded_is_watched_and_keeps_its_context() -> None:
    rig, follower = watched_rig()
    message = send(rig, f"traceparent:{SAMPLED}\ntracestate:v=1\n")
    assert message.watched
    assert follower.stages() == [RECEIVED, ROUTED, ACCEPTED, PERSISTED]
    first = follower.facts[0]
    assert isinstance(first, WatchedFact)
    assert (first.parent, first.created, first.state) == (SPAN, SPAN, "v=1")
    mark = mark_of(message)
    assert mark is not None
    assert (mark.trace, mark.wall) == (TRACE, rig.wall)
    assert mark.span != SPAN
    assert message.fact("traceparent") == SAMPLED
    assert message.rare is not None
    assert "traceparent" not in message.rare.annotations


@pytest.mark.parametrize("headers", [f"traceparent:{UNRECORDED}\n", "a:b\n", "traceparent:nonsense\n"])
def test_what_nobody_recorded_is_not(headers: str) -> None:
    rig, follower = watched_rig()
    assert not send(rig, headers).watched
    assert follower.facts == []


class Sealed(Language):
    """Octets that nobody may look through."""

    def context(self, message: Message) -> int:
        raise AssertionError("looked through")


SEALED = Sealed(202, "a language of this test")


def sealed(context: int) -> Message:
    message = Message(SEALED, "orders", b"")
    message.context = context
    return message


@pytest.mark.parametrize(("context", "ratio", "watched"), [(ABSENT, 0.0, 0), (ABSENT, 1.0, 9), (UNSAMPLED, 1.0, 0)])
def test_what_was_seen_when_it_came_is_not_looked_for_again(context: int, ratio: float, watched: int) -> None:
    rig, _ = watched_rig(ratio)
    target = rig.broker.target(names.parse("/queue/orders"))
    messages = [sealed(context) for _ in range(9)]
    for message in messages:
        rig.broker.send(message, target)
    assert sum(message.watched for message in messages) == watched


def test_without_honours_the_ratio_is_for_what_its_producer_did_not_record_too() -> None:
    rig, _ = watched_rig(1.0, honours=False)
    message = stomp(f"traceparent:{UNRECORDED}\n")
    message.context = UNSAMPLED
    rig.broker.send(message, rig.broker.target(names.parse("/queue/orders")))
    assert message.watched


@pytest.mark.parametrize(
    ("headers", "context"),
    [
        ("", ABSENT),
        ("a:traceparent\ntransparent:x\ntracestate:x\nTraceparent:x\n", ABSENT),
        (f"a:b\ntraceparent:{SAMPLED}\n", UNCLEAR),
        (f"traceparent:{UNRECORDED}\n", UNSAMPLED),
        (f"traceparent:{UNRECORDED}\ntraceparent:{SAMPLED}\n", UNSAMPLED),
        (f"traceparent:{SAMPLED}\ntraceparent:{UNRECORDED}\n", UNCLEAR),
        ("traceparent:\n", UNCLEAR),
    ],
)
def test_the_headers_of_stomp_are_read_once(headers: str, context: int) -> None:
    reader = Reader(StompOptions())
    reader.connected = True
    for chunk in (f"SEND\ndestination:/queue/a\npersistent:true\n{headers}", "\nbody\0"):
        reader.feed(chunk.encode())
        reader.next()
    assert reader.command == SEND
    assert reader.persistent
    assert reader.seen >> CONTEXT_AT == context
    reader.feed(b"SEND\ndestination:/queue/a\n\nbody\0")
    reader.next()
    assert (reader.persistent, reader.seen) == (False, 0), "nothing is left over for the next frame"


class FewLots:
    """Lots for gaps; it has none for spans."""

    def __init__(self) -> None:
        self.gaps = 0

    def token(self, octets: int) -> bytes:
        raise AssertionError("a span was begun")

    def fraction(self) -> float:
        self.gaps += 1
        return 0.999_999_999  # a gap of some 2000 messages


@pytest.mark.parametrize("headers", [f"traceparent:{UNRECORDED}\n", "a:b\n"])
def test_a_message_that_is_not_recorded_has_nothing_made_for_it(headers: str) -> None:
    rig, follower = watched_rig(disk=False)
    lots = FewLots()
    rig.broker.watch = Watch(rig.broker.hub, rig.journal, lots, 0.01)
    for _ in range(1000):
        message = send(rig, headers, durable=False)
        assert message.rare is None  # no annotation, no mark
    assert follower.facts == []
    assert lots.gaps == 1  # one draw for all of them, and no span


def test_a_message_without_a_context_gets_that_of_the_broker() -> None:
    rig, follower = watched_rig(1.0)
    message = send(rig, "a:b\n", durable=False)
    mark = mark_of(message)
    assert mark is not None
    assert message.fact("traceparent") == said(mark.trace, mark.span)
    assert follower.stages() == [RECEIVED, ROUTED, ACCEPTED]
    assert follower.facts[0].parent == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", [text for text in MALFORMED if text.isascii() and len(text) < 2000 and "\0" not in text]
)
def test_a_malformed_context_is_none(text: str) -> None:
    rig, _ = watched_rig(1.0)
    message = send(rig, f"traceparent:{text}\n")
    mark = mark_of(message)
    assert mark is not None
    assert mark.trace != TRACE
    assert parse(message.fact("traceparent")) is not None


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5])
def test_the_ratio_is_met_and_no_gap_is_like_the_other(ratio: float) -> None:
    rig, _ = watched_rig(ratio, disk=False)
    watch = rig.broker.watch
    assert watch is not None
    taken = [at for at in range(40_000) if watch.takes(stomp("a:b\n"), "q", 0, 0)]
    assert len(taken) == pytest.approx(40_000 * ratio, rel=0.15)
    assert len({after - before for before, after in itertools.pairwise(taken)}) > 3


def test_no_more_are_watched_in_a_second_than_may_be() -> None:
    rig, _ = watched_rig(1.0)
    watch = rig.broker.watch
    assert watch is not None
    watch.most = 3
    assert sum(send(rig, "a:b\n").watched for _ in range(5)) == 3
    assert watch.passed_over == 2
    rig.wait(1000)
    assert send(rig, f"traceparent:{SAMPLED}\n").watched


def test_without_honour_the_ratio_alone_counts() -> None:
    rig, _ = watched_rig(0.0, honours=False)
    assert not send(rig, f"traceparent:{SAMPLED}\n").watched
    rig, _ = watched_rig(1.0, honours=False)
    message = send(rig, f"traceparent:{UNRECORDED}\n")
    mark = mark_of(message)
    assert mark is not None
    assert mark.trace == TRACE


def test_what_the_broker_says_itself_is_not_watched() -> None:
    rig, follower = watched_rig(1.0)
    assert not send(rig, f"traceparent:{SAMPLED}\n", "/topic/ActiveMQ.Advisory.Connection").watched
    assert follower.facts == []


def test_others_hear_nothing_of_it_and_followers_nothing_of_the_rest() -> None:
    rig, follower = watched_rig()
    everything = Follower()
    everything.kinds, everything.always, everything.follows = EVERY_KIND, 0, False
    observe(rig.broker, everything)
    reader = rig.reader("/queue/orders")
    send(rig, "a:b\n")
    send(rig, f"traceparent:{SAMPLED}\n")
    reader.ack()
    about = [fact.message for fact in follower.facts if isinstance(fact, MessageFact)]
    assert len(about) == 6  # four stages, handed out, settled
    assert all(message is not None and message.watched for message in about)
    kinds = {fact.kind for fact in everything.facts}
    assert not kinds & {MESSAGE_WATCHED, MESSAGE_DISPATCHED, MESSAGE_CONSUMED}
    queue = rig.queue("orders")
    assert queue.fates.tells == 0, "no queue need tell of each message"


def test_a_refused_message_is_told_as_refused() -> None:
    rig, follower = watched_rig()
    rig.policies.add("orders", {"max_messages": "1", "full": "FAIL"})
    send(rig, "a:b\n")
    with pytest.raises(Refused):
        send(rig, f"traceparent:{SAMPLED}\n")
    assert follower.stages()[-1] == REFUSED


def test_the_mark_survives_a_restart_and_a_copy() -> None:
    rig, _ = watched_rig()
    message = send(rig, f"traceparent:{SAMPLED}\n")
    before = mark_of(message)
    rig.restart()
    (delivery,) = rig.drain("/queue/orders")
    after = mark_of(delivery.message)
    assert before is not None
    assert after is not None
    assert (after.trace, after.span, after.wall) == (before.trace, before.span, before.wall)
    twin = mark_of(delivery.message.twin("other"))
    assert twin is not None
    assert twin.span == before.span


def test_transactions_send_watched_messages_later() -> None:
    rig, follower = watched_rig()
    message = stomp(f"traceparent:{SAMPLED}\n")
    message.address, message.durable = "orders", True
    postponed = Postponement(rig.broker)
    rig.broker.sending.send_later(message, rig.broker.target(names.parse("/queue/orders")), postponed)
    while not postponed.hand_out(10, False):
        pass
    rig.turn()
    assert follower.stages() == [RECEIVED, ROUTED, ACCEPTED, PERSISTED]
    assert len(rig.drain("/queue/orders")) == 1


def test_a_bridge_writes_its_span_for_the_next_broker_alone() -> None:
    rig, follower = watched_rig()
    message = send(rig, f"traceparent:{SAMPLED}\n")
    watch = rig.broker.watch
    assert watch is not None
    place = rig.queue("orders").place()
    watch.leaves(message, place, 7, "far")
    fact = follower.facts[-1]
    assert isinstance(fact, WatchedFact)
    assert (fact.stage, fact.consumer, fact.peer) == (FORWARDED, 7, "far")
    assert message.fact(HOP) == f"{said(TRACE, fact.span)} {SPAN}"
    context = TraceContext(TRACE, SPAN, True)
    assert hop_of(message, context) == fact.span
    assert hop_of(message, TraceContext(TRACE, "1" * 16, True)) == "", "it was copied onto another message"
    watch.left(message)
    assert message.fact(HOP) is None


@pytest.mark.parametrize("hop", ["", SAMPLED, SAMPLED + " ", "x " + SPAN, f"{said('1' * 32, SPAN)} {SPAN}", " " * 99])
def test_a_forged_hop_is_none(hop: str) -> None:
    context = TraceContext(TRACE, SPAN, True)
    assert hop_of(stomp(f"{HOP}:{hop}\n"), context) == ""


def as_openwire(message: Message) -> str:
    return str(
        openwire.message_of(openwire.presented(message, named("q", False, False), "ID:1", "n", None), "q").fact(HOP)
    )


def as_core(message: Message) -> str:
    return str(arriving.message_of(core.presented(message, core.ROUTING_NONE, "ID:1"), "").fact(HOP))


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("written", [as_openwire, as_core])
def test_the_next_broker_reads_what_the_bridge_wrote_whatever_the_language(
    which: int, written: Callable[[Message], str]
) -> None:
    message = in_each_language(SAMPLED)[which]
    message.number = 1
    for hop in ("first", "second"):
        message.annotate(HOP, hop)
        assert written(message) == hop


def test_a_trace_that_began_here_is_written_in_each_protocol() -> None:
    message = in_each_language("nothing")[5]
    message.annotate("traceparent", SAMPLED)
    message.watched = True
    assert delivery._begun(message) == properties_octets({USER_PROPERTY: [("traceparent", SAMPLED)]})
    assert delivery._begun(in_each_language(SAMPLED)[5]) == b""
    plain = stomp("a:b\n")
    plain.annotate("traceparent", SAMPLED)
    assert presented(plain, 0, names.ANYCAST, "ID:1", 0).count(b"\xa3\x0btraceparent") == 1
    out = BytesWriter()
    write_headers(out, {"traceparent": SAMPLED}, V12)
    assert out.getvalue() == f"traceparent:{SAMPLED}\n".encode()
