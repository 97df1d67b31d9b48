"""What comes back is not what comes again: replay and every comparison of repetitions together lose nothing."""

from __future__ import annotations

import pytest

from bridged import Network, Site
from entrepot.base.compiled import is_compiled
from entrepot.cluster.networks.bridge import Bridge
from entrepot.cluster.networks.comparison import OURS, Comparison
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.model import address as names
from entrepot.model.message import Language, Message
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE

Q = "queue://Q"
OTHER = "ActiveMQ 5.17.2"

pytestmark = pytest.mark.skipif(is_compiled(), reason="replaces methods, which native callers do not see")


def start(*wires: tuple[str, str], duplex: bool = False, audit: int = -1, program: str = OURS) -> Network:
    """Return a network whose queue messages may go back, and in which a reader takes all and settles nothing."""
    said = {-1: "entrepot", 0: "false", 1: "true"}[audit]
    options = f"networkTTL=5&checkDuplicateMessagesOnDuplex={said}"
    network = Network(71, list(wires), duplex=duplex, options=options, audit=audit, program=program).start()
    network.circled = lambda site, body, path: None  # type: ignore[method-assign]  # replay is meant to do that
    for site in network.sites.values():
        refilter(site)
    network.run(500)
    return network


def refilter(site: Site) -> None:
    assert site.neighbourhood is not None
    site.neighbourhood.filters = lambda name, topic: BridgeFilterOptions(replay_when_no_consumers=True)  # type: ignore[misc]


def visit(site: Site, *, settles: bool = False) -> int:
    """Seat a reader for a while; return how many messages it was given."""
    site.read(Q, prefetch=1000)
    reader = site.readers[Q]
    if not settles:
        reader.wake = lambda: None  # type: ignore[method-assign]
    site.network.run(3000)
    given = sum(consumer.delivered for consumer in reader.consumers)
    site.leave(Q)
    site.network.run(500)
    return int(given)


def held(site: Site) -> int:
    assert site.broker is not None
    queue = site.broker.table.queues.get("Q")
    return 0 if queue is None else int(queue.count)


@pytest.mark.parametrize("program", [OURS, OTHER])
@pytest.mark.parametrize("audit", [-1, 0, 1])
@pytest.mark.parametrize("duplex", [False, True])
def test_messages_go_to_and_fro_as_often_as_readers_move(duplex: bool, audit: int, program: str) -> None:
    wires = [("a", "b")] if duplex else [("a", "b"), ("b", "a")]
    network = start(*wires, duplex=duplex, audit=audit, program=program)
    a, b = network.sites["a"], network.sites["b"]
    for number in range(20):
        a.send(Q, f"m{number}")
    network.run(200)
    for _ in range(2):
        assert visit(b) == 20
        assert visit(a) == 20
    visit(b, settles=True)
    assert (held(a), held(b)) == (0, 0)
    assert len(network.seen) == 20
    for site in (a, b):
        assert site.broker is not None
        assert site.broker.sending.repetitions.count == 0


def deafened(bridge: Bridge) -> None:
    """Let the answers to messages get lost on their way to ``bridge``."""
    genuine = bridge.link.confirmed

    def deaf(confirmation: int, now: int) -> bool:
        return confirmation not in bridge.link.under_way and genuine(confirmation, now)

    bridge.link.confirmed = deaf  # type: ignore[method-assign]


def sent_twice(network: Network, near: str, *, restart: str = "", torn: bool = False) -> None:
    """Have ten messages sent from ``near`` whose answers get lost, and again on a new connection."""
    site = network.sites[near]
    (bridge,) = [one for one in site.bridges() if one.initiator]
    deafened(bridge)
    for number in range(10):
        site.send(Q, f"m{number}")
    network.run(300)
    assert len(bridge.link.under_way) == 10
    if restart:
        network.sites[restart].crash(torn=torn)
        network.run(100)
    network.cut("a", "b")
    del bridge.link.confirmed
    network.run(200)
    network.heal()
    network.run(3000)
    assert held(site) == 0


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("restart", ["", "a", "b"])
@pytest.mark.parametrize("duplex", [False, True])
def test_what_a_bridge_sends_again_is_dropped_counted_and_found(duplex: bool, restart: str, torn: bool) -> None:
    network = start(("a", "b"), duplex=duplex)
    b = network.sites["b"]
    b.read("queue://other")
    b.read(Q)
    network.run(300)
    sent_twice(network, "a", restart=restart, torn=torn)
    if not (torn and restart == "b"):  # the reader's own settlements were lost with the machine that had them
        assert all(len(where) == 1 for where in network.seen.values())
    assert len(network.seen) == 10
    assert b.broker is not None
    assert b.broker.sending.repetitions.count == 10
    assert b.broker.table.queues["Q"].fates.repeated == 10
    assert b.broker.sending.repetitions.last["ID:a-m3:1:1:1"].code == "same-copy"
    b.broker.check()


def test_nothing_is_compared_where_the_operator_does_not_want_it() -> None:
    network = start(("a", "b"), audit=0)
    network.sites["b"].read(Q)
    network.run(300)
    sent_twice(network, "a")
    assert all(len(where) == 2 for where in network.seen.values())


@pytest.mark.parametrize("audit", [-1, 1])
def test_ids_of_other_brokers_are_compared_where_the_operator_wants_it(audit: int) -> None:
    network = start(("a", "b"), audit=audit, program=OTHER)
    b = network.sites["b"]
    b.read(Q)
    network.run(300)
    sent_twice(network, "a", restart="a")
    assert {len(where) for where in network.seen.values()} == {1 if audit == 1 else 2}
    assert b.broker is not None
    assert b.broker.sending.repetitions.count == (10 if audit == 1 else 0)


def test_what_one_user_sends_says_nothing_about_what_another_one_does() -> None:
    network = start(("a", "b"))
    b = network.sites["b"]
    assert b.broker is not None
    copies = b.broker.copies
    hers = copies.stream("mallory\tID:a", "Q")
    copies.note(hers, 7, 70, False)
    assert copies.seen(hers, 7, 70)
    assert not copies.seen(copies.stream("\tID:a", "Q"), 7, 70)


def test_what_a_bridge_brings_says_nothing_about_what_its_producer_sends_himself() -> None:
    """It did: a producer that failed over sent again what was lost with its broker, and was told that it was there."""
    network = start(("a", "b"))
    a, b = network.sites["a"], network.sites["b"]
    b.read(Q)
    network.run(300)
    a.send(Q, "m")
    network.run(300)
    assert network.seen == {"m": ["b"]}
    assert b.broker is not None
    assert not b.broker.sequences.seen("ID:a-m:1:1", 1)
    assert b.broker.sequences.had("ID:a-m:1:1", 1)  # `where` may say that it was here


def test_a_store_that_is_set_up_again_from_its_files_of_yesterday_loses_nothing() -> None:
    """It gives numbers again, and with them ids to messages that come without one: they are other messages."""
    network = start(("a", "b"))
    a, b = network.sites["a"], network.sites["b"]
    b.read(Q)
    network.run(300)

    def unnamed(text: str) -> None:
        broker = a.broker
        assert broker is not None
        message = message_in(STOMP_LANGUAGE, "Q", text.encode())
        message.timestamp = int(broker.wall)
        broker.send(message, broker.target(names.parse(Q)))

    broker = a.broker
    assert broker is not None
    before = int(broker.ids.number)
    a.turn(lambda: unnamed("one"))
    network.run(300)
    broker.ids.number = before
    a.turn(lambda: unnamed("two"))
    network.run(300)
    assert b.broker is not None
    assert b.broker.table.queues["Q"].accepted == 2
    assert b.broker.sending.repetitions.count == 0


def message_in(language: Language, address: str, body: bytes) -> Message:
    made = Message(language, address, b"\n" + body + b"\0")
    made.body_at = 1
    return made


def test_what_a_peer_chooses_to_be_called_takes_no_memory() -> None:
    network = start(("a", "b"))
    broker = network.sites["b"].broker
    assert broker is not None
    named = [Comparison(broker, "user", peer * 100_000, OURS, -1).sender for peer in ("x", "y")]
    assert max(map(len, named)) < 200
    assert named[0] != named[1]
    broker.sending.repetitions.add("i" * 100_000, "Q", "why", 1)
    assert (broker.sending.repetitions.count, broker.sending.repetitions.last) == (1, {})
