"""Queues of an upstream are read while somebody reads them here; nothing is lost, and nothing comes twice."""

from __future__ import annotations

import pytest

from entrepot.cluster.federation.arrival import RELEASED
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.demand import Demand
from entrepot.cluster.federation.options import Match, QueuePolicy
from entrepot.cluster.federation.peer import LOOP
from entrepot.cluster.federation.reader import State
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.model import address as names
from entrepot.protocols.artemis.large import LargeArrival
from kit import Rig

from .federated import Pair, made, send, texts, waiting

ALL = QueuePolicy(name="P")
LARGE = 8 * RELEASED + 7  # octets: twice what a consumer is given to begin with


def pair(*policies: QueuePolicy, **options: object) -> Pair:
    """Return two brokers that both have the queue Q."""
    found = Pair(queues=policies or (ALL,), **options)  # type: ignore[arg-type]
    made(found.far, "Q")
    made(found.near, "Q")
    found.run()
    return found


def test_it_reads_there_exactly_while_somebody_reads_here() -> None:
    both = pair()
    send(both.far, "Q", "a")
    both.run()
    assert (both.upstream.readers, waiting(both.far, "Q")) == ({}, 1)
    reader = both.near.reader("Q")
    both.run()
    assert texts(reader) == ["a"]
    assert both.reader.state is State.READING
    assert waiting(both.far, "Q") == 0, "acknowledged there"
    reader.ack()
    reader.close()
    both.run()
    assert (both.upstream.everyone(), both.far.queue("Q").roster.consumers) == ([], [])
    send(both.far, "Q", "b")
    both.run()
    assert (waiting(both.far, "Q"), waiting(both.near, "Q")) == (1, 0)


def test_one_consumer_there_for_all_that_want_the_same() -> None:
    both = pair()
    first, second = both.near.reader("Q"), both.near.reader("Q")
    both.run()
    assert len(both.far.queue("Q").roster.consumers) == 1
    first.close()
    both.run()
    assert len(both.far.queue("Q").roster.consumers) == 1
    second.close()
    both.run()
    assert both.far.queue("Q").roster.consumers == []


def test_who_reads_there_comes_first() -> None:
    both = pair(QueuePolicy(name="P", priority=-3), priority=-2)
    there = both.far.reader("Q")
    here = both.near.reader("Q", priority=4)
    both.run()
    (remote,) = [one for one in both.far.queue("Q").roster.consumers if one.kind == INCOMING_BRIDGE]
    assert int(remote.priority) == 4 - 3 - 2
    send(both.far, "Q", "a")
    both.run()
    assert (texts(there), texts(here)) == (["a"], [])
    there.ack()
    there.close()
    send(both.far, "Q", "b")
    both.run()
    assert texts(here) == ["b"]


def test_a_selector_goes_along() -> None:
    both = pair()
    reader = both.near.reader("Q", selector="color = 'red' AND JMSPriority > 3")
    both.run()
    assert both.reader.wish.selector == "color = 'red' AND AMQPriority > 3"
    send(both.far, "Q", "a", color="blue")
    send(both.far, "Q", "b", color="red")
    both.run()
    assert (texts(reader), waiting(both.far, "Q")) == (["b"], 1)


@pytest.mark.parametrize(
    ("includes", "excludes", "reads"),
    [
        ((), (), True),
        ((Match(queue="Q"),), (), True),
        ((Match(address="#", queue="*"),), (), True),
        ((Match(address="other.#"),), (), False),
        ((Match(queue="Q", address="other"),), (), False),
        ((), (Match(queue="Q"),), False),
        ((Match(queue="#"),), (Match(address="Q"),), False),
    ],
)
def test_a_policy_says_which(includes: tuple[Match, ...], excludes: tuple[Match, ...], reads: bool) -> None:
    both = pair(QueuePolicy(name="P", includes=includes, excludes=excludes))
    both.near.reader("Q")
    both.run()
    assert len(both.upstream.readers) == (1 if reads else 0)


def test_a_lost_acknowledgement_is_no_second_message() -> None:
    both = pair()
    reader = both.near.reader("Q")
    both.run()
    both.mute()
    send(both.far, "Q", "a", "b")
    both.run()
    assert (texts(reader), waiting(both.far, "Q")) == (["a", "b"], 2)
    both.cut()
    both.pass_ms(3_000)
    assert (texts(reader), waiting(both.far, "Q")) == (["a", "b"], 0)
    report = both.upstream.report(both.near.now)
    assert (report["received"], report["duplicates"]) == (2, 2)


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_this_broker_falls(how: str) -> None:
    both = pair()
    both.near.reader("Q")
    both.run()
    both.mute()
    send(both.far, "Q", "a", "b")
    both.run()
    assert waiting(both.far, "Q") == 2
    both.fell(both.near, how)
    both.near.reader("Q")
    both.pass_ms(3_000)
    assert waiting(both.far, "Q") == 0
    (reader,) = both.near.readers
    assert sorted(texts(reader)) == ["a", "b"]


def test_nothing_is_acknowledged_that_is_not_on_disk_here() -> None:
    both = pair()
    both.near.reader("Q")
    both.run()
    send(both.far, "Q", "a")
    both.far.turn()
    for cable in both.cables.values():  # by hand: the near broker takes it, and its disk does not get its turn
        assert cable.near.session is not None
        assert cable.far.session is not None
        cable.near.session.receive(cable.far.session.outgoing(), both.near.now)
        assert cable.near.session.outgoing() == b"", "it said nothing yet"
    assert both.upstream.is_busy()
    assert waiting(both.far, "Q") == 1
    both.run()
    assert (waiting(both.far, "Q"), both.upstream.is_busy()) == (0, False)


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_the_upstream_falls(how: str) -> None:
    both = pair()
    send(both.far, "Q", *"abc")
    both.far.turn()
    reader = both.near.reader("Q")
    both.mute()
    both.step()
    both.step()
    both.fell(both.far, how)
    both.pass_ms(3_000)
    assert sorted(texts(reader)) == ["a", "b", "c"]
    assert waiting(both.far, "Q") == 0


def test_who_leaves_before_all_is_safe_loses_nothing() -> None:
    both = pair()
    reader = both.near.reader("Q", prefetch=1)
    both.run()
    send(both.far, "Q", *"abcdefgh")
    both.far.turn()
    for cable in both.cables.values():
        assert cable.near.session is not None
        assert cable.far.session is not None
        cable.near.session.receive(cable.far.session.outgoing(), both.near.now)
    taken = both.reader
    reader.close()
    both.near.broker.advance()
    both.run()
    assert taken.state is State.CLOSED
    assert waiting(both.far, "Q") + waiting(both.near, "Q") == 8
    again = both.near.reader("Q")
    both.run()
    assert sorted(texts(again)) == list("abcdefgh")
    assert taken.duplicates == 0


def test_a_queue_that_is_not_there_is_waited_for() -> None:
    both = Pair(queues=(ALL,))
    made(both.near, "Q")
    reader = both.near.reader("Q")
    both.run()
    assert both.reader.state is State.WAITING
    assert "there is no queue Q" in both.reader.why
    made(both.far, "Q")
    send(both.far, "Q", "a")
    both.pass_ms(2_000)
    assert (texts(reader), both.reader.why) == (["a"], "")


def test_a_queue_that_is_deleted_there_is_waited_for() -> None:
    both = pair()
    reader = both.near.reader("Q")
    both.run()
    both.far.broker.queues.delete(both.far.queue("Q"), "an operator wants it")
    both.run()
    assert both.reader.state is State.WAITING
    made(both.far, "Q")
    send(both.far, "Q", "a")
    both.pass_ms(3_000)
    assert texts(reader) == ["a"]


def test_where_there_is_no_room_here_it_stays_there() -> None:
    both = Pair(queues=(ALL,), near=Rig({"Q": {"max-size-bytes": "2000", "address-full-policy": "FAIL"}}, seed=1))
    made(both.near, "Q")
    made(both.far, "Q")
    reader = both.near.reader("Q", prefetch=1)
    both.run()
    send(both.far, "Q", *[f"{number}" for number in range(60)])
    both.run()
    assert both.reader.state is State.WAITING
    assert "cannot be taken" in both.reader.why
    assert waiting(both.far, "Q") + waiting(both.near, "Q") == 60
    for _ in range(60):
        reader.ack()
        both.pass_ms(4_000)
        if len(reader.deliveries) == 60 and not waiting(both.near, "Q"):
            break
    assert sorted(texts(reader), key=int) == [f"{number}" for number in range(60)]
    assert waiting(both.far, "Q") == 0


def test_the_queue_is_deleted_here_with_messages_on_their_way() -> None:
    both = pair()
    both.near.reader("Q")
    both.run()
    send(both.far, "Q", "a")
    both.near.broker.queues.delete(both.near.queue("Q"), "an operator wants it")
    both.run()
    assert waiting(both.far, "Q") == 1, "it was for no other queue here"


@pytest.mark.parametrize("size", [0, 5, LARGE])
def test_a_large_message_comes(size: int) -> None:
    both = pair()
    reader = both.near.reader("Q")
    both.run()
    far = both.far.broker
    plain = Rig(seed=3)
    send(plain, "Q", "x")
    (one,) = plain.drain("Q")
    raw = one.message.raw
    large = LargeArrival(far, raw[int(one.message.body_at) :], "Q")
    body = bytes(range(256)) * (size // 256) + b"y" * (size % 256)
    for at in range(0, len(body), 100_000):
        large.write(body[at : at + 100_000])
    far.send(large.complete(-1), far.target(names.parse("Q", names.ANYCAST)))
    large.finish()
    both.run()
    (got,) = reader.deliveries
    rare = got.message.rare
    assert rare is not None
    assert int(rare.large_length) == size
    assert waiting(both.far, "Q") == 0


def test_what_another_federation_reads_here_counts_only_if_asked_for() -> None:
    for federated in (False, True):
        both = pair(QueuePolicy(name="P", federated=federated))
        both.near.reader("Q", kind=INCOMING_BRIDGE)
        both.run()
        assert len(both.upstream.readers) == int(federated)


def test_who_looks_only_wants_nothing() -> None:
    both = pair()
    both.near.broker.reading.browse([names.parse_one("Q", names.ANYCAST)], None)
    both.run()
    assert both.upstream.readers == {}


def test_a_consumer_that_was_there_before_counts() -> None:
    both = Pair(queues=(ALL,), start=False)
    made(both.far, "Q")
    send(both.far, "Q", "a")
    reader = both.near.reader("Q", routing=names.ANYCAST)
    both.start()
    both.run()
    assert texts(reader) == ["a"]


def test_stopped_and_started() -> None:
    both = pair()
    reader = both.near.reader("Q")
    both.run()
    both.connector.leave(both.near.now)
    both.run()
    assert both.far.queue("Q").roster.consumers == []
    send(both.far, "Q", "a")
    assert both.connector.outlook("Q", topic=False, now=both.near.now)[0]["code"] == "stopped"
    both.start()
    assert texts(reader) == ["a"]


def test_an_upstream_that_is_this_broker_is_given_up() -> None:
    rig = Rig(seed=1)
    both = Pair(queues=(ALL,), near=rig, far=rig)
    assert both.upstream.link.state.value == "failed"
    assert LOOP.format("upstream") in both.said


def test_it_is_explained() -> None:
    both = pair(QueuePolicy(name="P", includes=(Match(queue="Q"),)))

    def code() -> list[object]:
        return [row["code"] for row in both.connector.outlook("Q", topic=False, now=both.near.now)]

    assert code() == ["unwanted"]
    both.near.reader("Q")
    both.run()
    assert code() == ["reading"]
    both.reachable = False
    both.cut()
    both.run()
    assert code() == ["down"]
    assert both.connector.outlook("R", topic=False, now=both.near.now) == []


def test_demand_ends_with_those_who_want() -> None:
    both = Pair(queues=(ALL,), start=False)
    came: list[int] = []
    demand = Demand(both.near.broker, both.entry, lambda: came.append(len(demand.wishes)))
    made(both.near, "Q")
    reader = both.near.reader("Q")
    demand.begin()
    both.near.broker.advance()
    (wish,) = demand.about("Q")
    assert (wish.local, demand.means("Q", topic=False), came) == ("Q", ["P"], [1])
    reader.close()
    both.near.broker.advance()
    assert (demand.wishes, came) == ({}, [1, 0])
    demand.end()
    both.near.reader("Q")
    both.near.broker.advance()
    assert (demand.wishes, came) == ({}, [1, 0]), "it hears nothing any more"


def test_one_that_was_never_started_says_so() -> None:
    connector = FederationConnector(Pair(queues=(ALL,), start=False).entry)
    report = connector.report(5)
    assert (report["connector"], report["state"], report["since_ms"]) == ("F/U", "stopped", -1)
    assert connector.drain(0)
