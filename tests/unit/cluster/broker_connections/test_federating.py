"""Federation of queues over AMQP: what is read here is fetched there, while it is, and no longer (artemis.md 4.13)."""

from __future__ import annotations

from typing import Any

from entrepot.cluster.broker_connections.answers import Refusals
from entrepot.cluster.broker_connections.federating import Federating
from entrepot.cluster.broker_connections.options import FederationEntry, FetchOptions, FetchPolicy
from entrepot.cluster.broker_connections.outlook import outlook
from entrepot.cluster.broker_connections.wanted import Wish
from entrepot.cluster.federation.options import Match, QueuePolicy
from entrepot.core.broker import selector_or_none
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.model import address as names
from kit import Rig

from ..carrying.crossed import Taker
from .called import Called, body_in


def policy(name: str = "p", *, credit: int = 1_000, pull: int = 100, **said: Any) -> FetchPolicy:
    made = QueuePolicy(name=name, **{"includes": (Match(address="Q"),), "keeps": True, "priorities": False, **said})
    return FetchPolicy(queues=made, options=FetchOptions(credit=credit, credit_low=credit // 2, pull=pull))


class Federated(Called):
    """``near`` fetches from ``far``."""

    def __init__(self, *policies: FetchPolicy, far_has: bool = True, **options: Any) -> None:
        self.far_has = far_has
        super().__init__(federation=FederationEntry(name="F", policies=policies or (policy(),)), **options)
        if far_has:
            self.make_there()

    def make_there(self, queue: str = "Q") -> None:
        self.far.broker.addresses.queues.need(names.parse_one(queue, names.ANYCAST))
        self.run()

    def read(self, rig: Rig | None = None, queue: str = "Q", *, prefetch: int = 0) -> Taker:
        owner = rig or self.near
        taker = Taker(owner, queue)
        if prefetch:
            taker.tracked = True
            taker.prefetch = prefetch
        owner.broker.subscribe(taker)
        taker.window.reopen()
        self.pass_ms(10)
        return taker

    def stop(self, taker: Taker, rig: Rig | None = None) -> None:
        (rig or self.near).broker.unsubscribe(taker)
        self.pass_ms(10)

    def readers(self) -> list[tuple[int, int]]:
        """Return kind and priority of each that reads the queue there."""
        found = self.far.queue("Q").roster.consumers
        return [(int(one.kind), int(one.priority)) for one in found]


def test_when_it_ends_it_hears_nothing_more() -> None:
    pair = Federated(start=False)
    wishes: dict[str, Wish] = {}
    assert pair.entry.federation is not None
    federating = Federating(pair.near.broker, "F", wishes, lambda: None)
    federating.add(pair.entry.federation.policies[0])
    pair.read()
    assert list(wishes) == ["fetch Q::Q at -1 for p"]
    federating.end()
    pair.read(queue="Q")
    assert list(wishes) == ["fetch Q::Q at -1 for p"], "whoever had them clears them"


def bodies(taker: Taker) -> list[str]:
    return [body_in(one.raw) for one in taker.messages]


def test_a_queue_is_read_there_while_it_is_read_here() -> None:
    pair = Federated()
    pair.send("a", "b", rig=pair.far)
    assert pair.readers() == []
    taker = pair.read()
    assert pair.readers() == [(INCOMING_BRIDGE, -1)]
    assert bodies(taker) == ["a", "b"]
    pair.send("c", rig=pair.far)
    pair.pass_ms(10)
    assert bodies(taker) == ["a", "b", "c"]
    pair.stop(taker)
    assert pair.readers() == []
    pair.send("d", rig=pair.far)
    pair.pass_ms(10)
    assert pair.there() == ["d"]


def test_what_no_policy_means_is_not_fetched() -> None:
    pair = Federated(policy(includes=(Match(address="X"),)))
    pair.read()
    assert pair.readers() == []


def test_a_queue_that_is_not_there_is_asked_for_again() -> None:
    pair = Federated(far_has=False)
    pair.read()
    (why,) = [said for said in pair.said if "there is no queue" in said]
    assert "fetch Q::Q at -1 for p" in why
    pair.make_there()
    pair.pass_ms(2_000)
    assert pair.readers() == [(INCOMING_BRIDGE, -1)]


def test_after_a_cut_what_was_not_answered_comes() -> None:
    pair = Federated()
    taker = pair.read()
    for cable in pair.cables.values():
        cable.heard = False  # no answer arrives there
    pair.send("a", rig=pair.far)
    pair.cut()
    pair.send("b", rig=pair.far)
    pair.pass_ms(3_000)
    assert set(bodies(taker)) == {"a", "b"}
    assert bodies(taker)[-1] == "b"
    assert int(pair.far.queue("Q").count) == 0


def test_what_comes_for_a_queue_that_is_gone_goes_back() -> None:
    pair = Federated()
    pair.read()
    pair.near.broker.queues.delete(pair.near.queue("Q"), "a test")
    pair.send("a", rig=pair.far)
    pair.pass_ms(10)
    assert pair.there() == ["a"]


def test_no_more_is_on_its_way_than_the_credit_says() -> None:
    pair = Federated(policy(credit=2))
    taker = pair.read()
    (taking,) = pair.connection.takings.values()
    assert taking.credit == 2
    pair.send(*"abcde", rig=pair.far)
    pair.pass_ms(10)
    assert bodies(taker) == list("abcde")


def settle(pair: Federated, taker: Taker) -> None:
    """Let the reader acknowledge the message that it has, and take another one."""
    (consumer,) = pair.near.queue("Q").roster.consumers
    (number,) = consumer.in_flight
    assert pair.near.queue("Q").settle(consumer, number)
    taker.window.reopen()
    pair.run()


def test_what_is_pulled_comes_when_nothing_waits_here() -> None:
    pair = Federated(policy(credit=0, pull=2))
    pair.send("own", "more")
    pair.send(*"abcde", rig=pair.far)
    taker = pair.read(prefetch=1)
    pair.pass_ms(5_000)
    assert bodies(taker) == ["own"]
    (told,) = outlook(pair.connector, "Q", now=int(pair.near.now))
    assert told["code"] == "full"
    assert "it pulls (amqpCredits 0), and asks for nothing while 1 messages wait here" in str(told["text"])
    settle(pair, taker)
    assert bodies(taker) == ["own", "more"], "what waits here comes first"
    pair.pass_ms(1_100)
    assert (pair.waiting(), pair.waiting(rig=pair.far)) == (3, 3), "nothing waited here but what is at hand"
    settle(pair, taker)
    pair.pass_ms(5_000)
    assert bodies(taker)[-1] == "a"
    assert (pair.waiting(), pair.waiting(rig=pair.far)) == (2, 3), "one waits"
    settle(pair, taker)
    pair.pass_ms(1_100)
    assert bodies(taker)[-1] == "b"
    assert (pair.waiting(), pair.waiting(rig=pair.far)) == (3, 1)
    for _ in range(4):
        settle(pair, taker)
        pair.pass_ms(1_100)
    assert bodies(taker) == ["own", "more", *"abcde"]
    assert pair.waiting(rig=pair.far) == 0


def test_what_another_federation_reads_here_counts_where_it_is_said() -> None:
    for federated in (False, True):
        pair = Federated(policy(federated=federated))
        taker = Taker(pair.near, "Q")
        taker.kind = INCOMING_BRIDGE
        taker.priority = -1
        pair.near.broker.subscribe(taker)
        pair.pass_ms(10)
        assert pair.readers() == ([(INCOMING_BRIDGE, -1)] if federated else [])


def test_selectors_go_along() -> None:
    pair = Federated()
    taker = Taker(pair.near, "Q")
    taker.selector = selector_or_none("colour = 'red'")
    pair.near.broker.subscribe(taker)
    pair.pass_ms(10)
    pair.send("a", rig=pair.far)
    pair.pass_ms(10)
    (key,) = [one for one in pair.connection.wanted.wishes if one.startswith("fetch")]
    assert key == "fetch Q::Q where colour = 'red' at -1 for p"
    assert int(pair.near.queue("Q").count) == 0
    assert pair.there() == ["a"]


def test_a_refusal_is_news_once() -> None:
    refusals = Refusals()
    assert refusals.add("k", "away", 7)
    assert not refusals.add("k", "away", 9)
    assert (refusals.why("k"), refusals.due) == ("away", {"k": 9})
    refusals.forget("k")
    assert (refusals.why("k"), refusals.due) == ("", {})
