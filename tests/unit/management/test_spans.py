"""Spans of OpenTelemetry: what each broker makes of a watched message, and which is the child of which."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.core.events import watching
from entrepot.core.events.watching import Watch, mark_of
from entrepot.core.observing import observe
from entrepot.management import spans as made
from entrepot.management.spans import CLIENT, SERVER, Span, SpanMaker, body_octets
from entrepot.model import address as names
from entrepot.model.message import Message
from kit import MILLISECOND, Rig
from unit.base.test_trace_context import SAMPLED, SPAN, TRACE, in_each_language, stomp


class Traced:
    """A broker whose spans are collected. ``flush`` is called as the loop would when a turn is over."""

    def __init__(self, ratio: float = 0.0, **options: object) -> None:
        self.rig = Rig(**options)  # type: ignore[arg-type]
        self.spans: list[Span] = []
        self.soon: list[Callable[[], None]] = []
        self.now = 0
        broker = self.rig.broker
        self.maker = SpanMaker(
            self.spans.append,
            self._clock,
            lambda: self.rig.lots.token(8).hex(),
            broker.ids.identity_of,
            self.soon.append,
        )
        observe(broker, self.maker)
        broker.watch = Watch(broker.hub, self.rig.journal, self.rig.lots, ratio)

    def _clock(self) -> int:
        """Return ns since 1970; no two are the same."""
        self.now += 1000
        return self.rig.wall * MILLISECOND + self.now

    def send(self, headers: str = f"traceparent:{SAMPLED}\n", to: str = "/queue/orders", **fields: object) -> Message:
        parsed = names.parse(to)
        message = stomp(headers)
        message.address = parsed[0].name
        message.durable = bool(fields.pop("durable", True))
        self.rig.broker.send(message, self.rig.broker.target(parsed))
        self.rig.turn()
        return message

    def flush(self) -> None:
        for act in self.soon:
            act()
        self.soon.clear()

    def named(self) -> list[str]:
        return [span.name for span in self.spans]

    def one(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name.startswith(name)]
        return found


def test_a_message_that_is_sent_stored_read_and_acknowledged() -> None:
    traced = Traced()
    message = traced.send(f"traceparent:{SAMPLED}\ntracestate:v=1\n")
    traced.rig.wait(250)
    reader = traced.rig.reader("/queue/orders", client_id="shop")
    reader.ack()
    traced.flush()
    assert traced.named() == [f"{what} orders" for what in ("route", "receive", "persist", "dispatch", "acknowledge")]
    receive, route, persist = traced.one("receive"), traced.one("route"), traced.one("persist")
    dispatch, acknowledge = traced.one("dispatch"), traced.one("acknowledge")
    assert {span.trace for span in traced.spans} == {TRACE}
    assert (receive.parent, receive.kind, receive.remote, receive.state) == (SPAN, SERVER, True, "v=1")
    assert [span.parent for span in (route, persist, dispatch)] == [receive.span] * 3
    assert (acknowledge.parent, acknowledge.kind) == (dispatch.span, SERVER)
    assert len({span.span for span in traced.spans}) == 5
    assert route.end == persist.start
    assert dispatch.end - dispatch.start >= 250 * MILLISECOND, "how long it waited"
    assert acknowledge.start == dispatch.end
    assert all(span.start <= span.end and not span.error for span in traced.spans)
    assert receive.attributes == {
        "messaging.system": "activemq",
        "messaging.operation.name": "receive",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": traced.rig.broker.ids.identity_of(message),
        "messaging.message.envelope.size": len(message.raw),
        "messaging.message.body.size": len("hello"),
    }
    assert (route.attributes["entrepot.queues"], route.attributes["entrepot.queue"]) == (1, "orders")
    assert acknowledge.attributes["messaging.operation.type"] == "settle"


def test_a_consumer_is_named_once_the_hub_knows_it() -> None:
    traced = Traced()
    reader = traced.rig.reader("/queue/orders", client_id="shop")
    traced.send()
    assert traced.one("dispatch").attributes["messaging.client.id"] == "shop"
    reader.close()
    assert traced.maker._clients == {}


def test_what_is_not_sampled_makes_no_span() -> None:
    traced = Traced()
    reader = traced.rig.reader("/queue/orders")
    traced.send("a:b\n")
    reader.ack()
    traced.flush()
    assert traced.spans == []


def test_a_trace_that_begins_here_has_no_parent() -> None:
    traced = Traced(1.0)
    message = traced.send("a:b\n", durable=False)
    receive = traced.one("receive")
    assert (receive.parent, receive.links) == ("", [])
    assert message.fact("traceparent") == f"00-{receive.trace}-{receive.span}-01"
    assert "persist orders" not in traced.named()


def test_one_turn_of_acknowledgements_is_one_span_with_links() -> None:
    traced = Traced()
    reader = traced.rig.reader("/queue/orders")
    for _ in range(3):
        traced.send()
    reader.ack()
    traced.flush()
    acknowledge = traced.one("acknowledge")
    handed = [span for span in traced.spans if span.name == "dispatch orders"]
    assert acknowledge.links == [(span.trace, span.span) for span in handed]
    assert acknowledge.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in acknowledge.attributes
    assert acknowledge.start == handed[0].end


def test_who_needs_no_acknowledgement_holds_nothing() -> None:
    traced = Traced()
    traced.rig.reader("/queue/orders", auto=True)
    traced.send()
    traced.flush()
    assert traced.one("acknowledge").parent == traced.one("receive").span
    assert len(traced.maker._held) == 0


def test_what_comes_back_and_dies_is_told() -> None:
    traced = Traced(max_deliveries="2")
    traced.send()
    reader = traced.rig.reader("/queue/orders")
    reader.give_back()
    reader.give_back()
    receive = traced.one("receive")
    assert traced.one("return").parent == receive.span
    dead = traced.one("dead-letter")
    assert (dead.parent, dead.name) == (receive.span, "dead-letter orders")
    assert dead.error
    again = [span for span in traced.spans if span.name.startswith("dispatch")]
    assert again[-1].attributes["entrepot.deliveries"] == 1
    assert len(traced.maker._held) == 0


def test_a_bridge_makes_a_forward_and_no_acknowledgement() -> None:
    traced = Traced()
    message = traced.send()
    queue = traced.rig.queue("orders")
    watch = traced.rig.broker.watch
    assert watch is not None
    watch.leaves(message, queue.place(), 0, "far")
    watch.left(message)
    assert traced.rig.drain("/queue/orders")  # as the bridge: handed out, then settled
    traced.flush()
    forward = traced.one("forward")
    assert (forward.parent, forward.kind) == (traced.one("receive").span, CLIENT)
    assert forward.attributes["entrepot.peer"] == "far"
    assert forward.end > forward.start
    assert "acknowledge orders" not in traced.named()
    assert len(traced.maker._crossing) == 0


def test_a_message_of_a_bridge_has_the_bridge_for_its_parent_and_its_producer_for_a_link() -> None:
    traced = Traced()
    hop = "1234567890abcdef"
    traced.send(f"traceparent:{SAMPLED}\n{watching.HOP}:00-{TRACE}-{hop}-01 {SPAN}\n")
    receive = traced.one("receive")
    assert (receive.parent, receive.links) == (hop, [(TRACE, SPAN)])


def test_a_refused_send_is_an_error() -> None:
    traced = Traced(max_messages="1", full="FAIL")
    traced.send("a:b\n")
    with pytest.raises(Exception, match="full"):
        traced.send()
    receive = traced.one("receive")
    assert receive.error
    assert (len(traced.maker._sends), len(traced.maker._routed)) == (0, 0)


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "HELD_MAX", 3)
    traced = Traced(disk=False)
    reader = traced.rig.reader("/queue/orders", 10)
    for _ in range(10):
        traced.send()
    assert len(traced.maker._held) == 3
    reader.ack()
    traced.flush()
    assert traced.one("acknowledge").attributes["messaging.batch.message_count"] == 10


def test_a_fact_about_a_message_whose_mark_is_broken_is_forgotten() -> None:
    traced = Traced()
    message = stomp("a:b\n")
    message.watched = True
    for text in ("", "x", f"{SAMPLED} soon", SAMPLED):
        message.mark("traced", text)
        assert mark_of(message) is None
    assert traced.spans == []


def test_bodies_are_measured_where_that_takes_no_opening() -> None:
    assert [body_octets(message) for message in in_each_language(SAMPLED)[:1]] == [5]
    assert body_octets(in_each_language(SAMPLED)[5]) == 4
    assert body_octets(in_each_language(SAMPLED)[2]) > 0
    assert body_octets(in_each_language(SAMPLED)[3]) == -1
