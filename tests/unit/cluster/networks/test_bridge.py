"""Brokers in one thread, joined by bridges: what crosses, what does not, and what happens when a cable breaks."""

from __future__ import annotations

import pytest

from bridged import INTERVAL, Network, Site
from entrepot.base.compiled import is_compiled
from entrepot.base.environment import MILLISECOND
from entrepot.cluster.link import State
from entrepot.cluster.networks.bridge import Bridge
from entrepot.cluster.networks.forwarding import COMPRESS_UPTO
from entrepot.cluster.networks.lists import Place
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.cluster.networks.wanted import ForgetDurable, Reader, Subscribe, Unsubscribe
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import composite
from entrepot.core.events.facts import (
    BRIDGE_STARTED,
    BRIDGE_STOPPED,
    BROKER_JOINED,
    BROKER_LEFT,
    FORWARD_FAILED,
    Fact,
    Listener,
)
from entrepot.core.events.neighbours import BridgeFact, BrokerFact
from entrepot.core.observing import observe
from entrepot.core.owners import ConnectionOwner
from entrepot.core.security.directory import Directory, Subject
from entrepot.model.address import ANYCAST, Destination, parse
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import MessageId
from entrepot.protocols.openwire.convert import OPENWIRE_LANGUAGE, message_of
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.simulation.requests import Talk

Q = "queue://Q"
T = "topic://T"


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("where", [Q, T])
def test_what_a_reader_of_the_far_broker_wants_crosses_in_order(duplex: bool, where: str) -> None:
    network = Network(1, [("A", "B")], duplex=duplex).start()
    network.sites["B"].read(where)
    network.run(500)
    for number in range(50):
        network.sites["A"].send(where, f"m{number}")
    network.run(500)
    assert list(network.seen) == [f"m{number}" for number in range(50)]
    assert all(where == ["B"] for where in network.seen.values())


@pytest.mark.parametrize("duplex", [False, True])
def test_only_a_duplex_bridge_brings_messages_back(duplex: bool) -> None:
    network = Network(2, [("A", "B")], duplex=duplex).start()
    network.sites["A"].read(Q)
    network.run(300)
    network.sites["B"].send(Q, "back")
    network.run(300)
    assert list(network.seen) == (["back"] if duplex else [])


class _Told(Listener):
    """Remembers facts about bridges and the brokers behind them."""

    def __init__(self) -> None:
        super().__init__(BROKER_JOINED | BROKER_LEFT | BRIDGE_STARTED | BRIDGE_STOPPED | FORWARD_FAILED)
        self.told: list[tuple[str, str]] = []

    def heard(self, fact: Fact) -> None:
        assert isinstance(fact, (BridgeFact, BrokerFact))
        self.told.append((fact.name, fact.broker))


@pytest.mark.parametrize("duplex", [False, True])
def test_bridges_and_the_brokers_behind_them_are_facts(duplex: bool) -> None:
    network = Network(2, [("A", "B")], duplex=duplex).start()
    a, b = _Told(), _Told()
    observe(network.sites["A"].broker, a)
    observe(network.sites["B"].broker, b)
    network.run(300)
    assert ("bridge.started", "B") in a.told
    assert ("broker.joined", "A") in b.told
    assert (("bridge.started", "A") in b.told) == duplex
    network.cut("A", "B")
    network.run(INTERVAL // MILLISECOND * 4)
    assert ("bridge.stopped", "B") in a.told
    assert ("broker.left", "A") in b.told


@pytest.mark.parametrize("first", ["reader", "message", "bridge"])
def test_demand_is_found_whatever_was_there_first(first: str) -> None:
    network = Network(3, [("A", "B")])
    a, b = network.sites["A"], network.sites["B"]
    if first == "bridge":
        network.start()
        network.run(300)
        a.send(Q, "m")
        b.read(Q)
    elif first == "message":
        a.boot()
        a.send(Q, "m")
        network.start()
        network.run(300)
        b.read(Q)
    else:
        b.boot()
        b.read(Q)
        network.start()
        a.send(Q, "m")
    network.run(500)
    assert list(network.seen) == ["m"]


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ("", {"A1": 15, "B1": 8, "B2": 7}),  # the far broker is one consumer
        ("conduitSubscriptions=false", {"A1": 10, "B1": 10, "B2": 10}),  # and here each of its consumers is
        ("decreaseNetworkConsumerPriority=true", {"A1": 30, "B1": 0, "B2": 0}),
        ("conduitSubscriptions=false&decreaseNetworkConsumerPriority=true", {"A1": 30, "B1": 0, "B2": 0}),
    ],
)
def test_how_the_consumers_of_two_brokers_share_a_queue(options: str, shares: dict[str, int]) -> None:
    """The example of ActiveMQ's page on networks: one consumer here, two there, thirty messages."""
    network = Network(4, [("A", "B")], options=options).start()
    for key in shares:
        network.sites[key[0]].read(Q, key=key, prefetch=1000)
    network.run(300)
    for number in range(30):
        network.sites["A"].send(Q, f"m{number}")
    network.run(500)
    assert {key: len(network.kept.get((key[0], key), {})) for key in shares} == shares


def test_a_local_reader_comes_before_the_bridge() -> None:
    network = Network(4, [("A", "B")], options="decreaseNetworkConsumerPriority=true").start()
    network.sites["A"].read(Q, prefetch=1000)
    network.sites["B"].read(Q, prefetch=1000)
    network.run(300)
    for number in range(20):
        network.sites["A"].send(Q, f"m{number}")
    network.run(300)
    assert {tuple(where) for where in network.seen.values()} == {("A",)}


@pytest.mark.parametrize(("ttl", "reached"), [(1, False), (2, True), (-1, True)])
def test_a_message_crosses_as_many_brokers_as_its_ttl(ttl: int, reached: bool) -> None:
    network = Network(5, [("A", "B"), ("B", "C")], options=f"networkTTL={ttl}").start()
    network.sites["C"].read(Q)
    network.run(500)
    network.sites["A"].send(Q, "m")
    network.run(500)
    assert list(network.seen) == (["m"] if reached else [])


@pytest.mark.parametrize(
    "wires", [[("A", "B"), ("B", "C"), ("C", "A")], [("A", "B"), ("B", "A"), ("B", "C"), ("C", "B")]]
)
@pytest.mark.parametrize("where", [Q, T])
def test_rings_and_meshes_give_each_message_once(wires: list[tuple[str, str]], where: str) -> None:
    network = Network(6, wires, options="networkTTL=4").start()
    network.sites["C"].read(where)
    network.run(1000)
    for number in range(20):
        network.sites["A"].send(where, f"m{number}")
    network.run(1000)
    assert sorted(network.seen) == sorted(f"m{number}" for number in range(20))
    assert all(sites == ["C"] for sites in network.seen.values())


@pytest.mark.parametrize("duplex", [False, True])
def test_a_durable_reader_gets_what_was_sent_while_the_bridge_was_away(duplex: bool) -> None:
    network = Network(7, [("A", "B")], duplex=duplex).start()
    network.sites["B"].read(T, durable="d")
    network.run(500)
    broker = network.sites["A"].broker
    assert broker is not None
    assert r"NC_B_inbound_A.NC-DS_A_T" in broker.table.queues
    network.cut("A", "B")
    network.run(200)
    for number in range(10):
        network.sites["A"].send(T, f"m{number}")
    network.run(200)
    assert not network.seen
    network.heal()
    network.run(1000)
    assert list(network.seen) == [f"m{number}" for number in range(10)]


def test_a_restarted_broker_takes_its_durable_demand_up_again() -> None:
    network = Network(8, [("A", "B")]).start()
    network.sites["B"].read(T, durable="d")
    network.run(500)
    network.sites["B"].crash(torn=False)
    network.sites["A"].crash(torn=False)
    network.sites["A"].boot()
    network.sites["A"].send(T, "m")
    network.run(300)
    network.heal()
    network.run(1000)
    assert list(network.seen) == ["m"]


@pytest.mark.parametrize("seed", range(60, 65))  # which writes a torn crash takes is drawn
def test_durable_demand_survives_a_machine_that_loses_what_was_not_synced(seed: int) -> None:
    network = Network(seed, [("A", "B")]).start()
    network.sites["B"].read(T, durable="d")
    network.run(500)
    network.sites["B"].crash(torn=True)
    network.sites["A"].crash(torn=True)  # nothing was sent: no answer has brought a sync
    network.sites["A"].boot()
    network.sites["A"].send(T, "m")
    network.run(300)
    network.heal()
    network.run(1000)
    assert list(network.seen) == ["m"]


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("duplex", [False, True])
def test_a_broken_cable_is_found_and_everything_arrives(silent: bool, duplex: bool) -> None:
    network = Network(9, [("A", "B")], duplex=duplex).start()
    network.sites["B"].read(Q)
    network.run(500)
    network.cut("A", "B", silent=silent)
    for number in range(20):
        network.sites["A"].send(Q, f"m{number}")
    network.run(3 * INTERVAL // MILLISECOND + 500)
    (bridge,) = network.sites["A"].bridges()
    assert bridge.link.state in (State.WAITING, State.DIALLING), "the black hole was not found within three intervals"
    network.heal()
    network.run(6000)
    assert sorted(network.seen) == sorted(f"m{number}" for number in range(20))
    assert not network.unmarked


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("deaf", ["AB", "BA"])
def test_a_half_open_connection_is_found_also_with_messages_on_their_way(deaf: str, duplex: bool) -> None:
    """What is deaf at B looks from A like a broker that lives and is full: then it is B that finds out."""
    network = Network(9, [("A", "B")], duplex=duplex).start()
    network.sites["B"].read(Q)
    network.run(500)
    network.deafen(*deaf)
    for number in range(20):
        network.sites["A"].send(Q, f"m{number}")
    network.run(3 * INTERVAL // MILLISECOND + 500)
    (bridge,) = network.sites["A"].bridges()
    assert bridge.link.counts.failures == 1
    network.run(1000)
    assert sorted(network.seen) == sorted(f"m{number}" for number in range(20))
    assert not network.unmarked


def test_a_peer_that_accepts_and_says_nothing_is_given_up() -> None:
    network = Network(10, [("A", "B")]).start()
    network.run(300)
    network.cut("A", "B")
    network.cuts.clear()
    b = network.sites["B"]
    answer = b.turn
    b.turn = lambda action: None  # type: ignore[method-assign]  # the machine accepts, and the broker is stuck
    network.run(11_000)
    (bridge,) = network.sites["A"].bridges()
    assert bridge.link.counts.failures >= 2
    b.turn = answer  # type: ignore[method-assign]
    network.run(12_000)
    assert bridge.link.state is State.OPEN


def test_a_bridge_to_oneself_is_dropped_for_good() -> None:
    network = Network(11, [("A", "A")]).start()
    network.run(2000)
    bridge = next(iter(network.sites["A"].connectors[0].bridges.values()))
    assert bridge.link.state is State.FAILED
    assert bridge.link.attempt == 1


def test_readers_of_one_queue_share_a_subscription_unless_told_otherwise() -> None:
    for conduit, expected in (("true", 1), ("false", 2)):
        network = Network(12, [("A", "B")], options=f"conduitSubscriptions={conduit}").start()
        network.sites["B"].read(Q)
        network.sites["B"].read("queue://Q?x=1")  # a second reader of the same queue
        network.run(500)
        broker = network.sites["A"].broker
        assert broker is not None
        assert len(broker.table.queues["Q"].roster.consumers) == expected
        network.sites["B"].leave(Q)
        network.sites["B"].leave("queue://Q?x=1")
        network.run(300)
        assert len(broker.table.queues["Q"].roster.consumers) == 0


def test_a_stale_connection_gives_way_to_the_broker_that_comes_again() -> None:
    network = Network(13, [("A", "B")], duplex=True).start()
    network.sites["B"].read(Q)
    network.run(300)
    network.sites["A"].crash(torn=True)  # B is not told
    network.sites["A"].boot()
    network.run(1000)
    network.sites["A"].send(Q, "m")
    network.run(500)
    assert list(network.seen) == ["m"]
    assert len(network.sites["B"].bridges()) == 1


@pytest.mark.parametrize("duplex", [False, True])
def test_a_canary_comes_back_through_the_other_broker_on_every_link(duplex: bool) -> None:
    network = Network(31, [("A", "B")], duplex=duplex).start()
    network.run(3 * INTERVAL // MILLISECOND)
    ends = [bridge for site in network.sites.values() for bridge in site.bridges()]
    assert len(ends) == (2 if duplex else 1)
    for bridge in ends:
        told = bridge.report(network.world.time)
        assert told["canary"] == "message"
        assert bridge.link.supervision.probes >= 2
        assert 0 < bridge.link.supervision.round_trip < 100 * MILLISECOND
        assert told["received"] == 0, "a canary is no message of anybody"


@pytest.mark.skipif(is_compiled(), reason="replaces a method, which native callers do not see")
def test_canaries_are_numbered_from_one_on_each_connection_apart_from_messages() -> None:
    network = Network(35, [("A", "B")]).start()
    (bridge,) = network.sites["A"].bridges()
    seen: list[MessageId] = []
    genuine = bridge.canary.came_back

    def note(message: commands.Message) -> bool:
        back = genuine(message)
        if back and message.message_id is not None:
            seen.append(message.message_id)
        return back

    bridge.canary.came_back = note  # type: ignore[method-assign]
    network.run(70 * INTERVAL // MILLISECOND)
    network.cut("A", "B")
    network.run(20)
    network.heal()
    network.run(5 * INTERVAL // MILLISECOND)
    by_producer: dict[str, list[int]] = {}
    for each in seen:
        assert each.producer_id is not None
        assert each.producer_id != bridge.forwarding.producer
        by_producer.setdefault(str(each.producer_id), []).append(int(each.producer_sequence_id))
    before, after = by_producer.values()
    assert before == list(range(1, len(before) + 1))
    assert after == list(range(1, len(after) + 1))
    assert len(before) > 63


def test_a_broker_that_refuses_the_canary_keeps_its_link() -> None:
    network = Network(32, [("A", "B")]).start()
    network.run(300)
    (bridge,) = network.sites["A"].bridges()
    bridge.canary.returns = False
    bridge.canary.topic = ""  # as after a refusal
    network.run(5 * INTERVAL // MILLISECOND)
    assert bridge.link.state is State.OPEN
    assert bridge.link.counts.connections == 1
    assert bridge.report(network.world.time)["canary"] == "answer"


@pytest.mark.skipif(is_compiled(), reason="replaces a method, which native callers do not see")
def test_a_lost_canary_costs_no_link_that_works() -> None:
    network = Network(33, [("A", "B")]).start()
    network.sites["B"].read(Q)
    network.run(300)
    (bridge,) = network.sites["A"].bridges()
    genuine = bridge.canary.came_back
    swallowed = []

    def swallow(message: object) -> bool:
        if not swallowed and bridge.canary.returns and bridge.canary.flying:
            swallowed.append(message)
            return True
        return genuine(message)  # type: ignore[arg-type]

    bridge.canary.came_back = swallow  # type: ignore[method-assign]
    for number in range(60):
        network.sites["A"].send(Q, f"m{number}")
        network.run(100)
    assert swallowed
    assert bridge.link.counts.connections == 1
    assert len(network.seen) == 60


def test_what_is_reported_of_a_bridge_follows_it() -> None:
    network = Network(34, [("A", "B")]).start()
    network.sites["B"].read(Q)
    network.sites["A"].send(Q, "m")
    network.run(500)
    (bridge,) = network.sites["A"].bridges()
    told = bridge.report(network.world.time)
    assert (told["state"], told["peer"], told["demand"], told["sent"], told["confirmed"]) == ("open", "B", ["Q"], 1, 1)
    network.cut("A", "B")
    network.run(20)
    told = bridge.report(network.world.time)
    assert told["state"] in ("waiting", "dialling")
    assert told["error"]
    assert told["failures"]


def test_what_the_ends_tell_each_other_is_not_counted_as_sent() -> None:
    network = Network(36, [("A", "B")], duplex=True).start()
    for site in network.sites.values():
        site.read(Q)
        site.read("queue://other")
    network.run(2_000)
    ends = [bridge for site in network.sites.values() for bridge in site.bridges()]
    assert any(feed.forwarded for bridge in ends for feed in bridge.feeds.values())
    assert [bridge.report(network.world.time)["sent"] for bridge in ends] == [0, 0]


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("synced", [False, True])
def test_a_subscription_that_went_while_the_bridge_was_down_goes_here_too_if_lists_are_compared(
    duplex: bool, synced: bool
) -> None:
    network = Network(41, [("A", "B")], duplex=duplex, options="syncDurableSubs=true" if synced else "").start()
    a, b = network.sites["A"], network.sites["B"]
    b.read(T, durable="gone")
    b.read("topic://kept", durable="kept")
    network.run(500)

    def ours() -> list[str]:
        assert a.broker is not None
        return sorted(
            queue.address
            for queue in a.broker.table.queues.values()
            if "NC-DS_" in (queue.definition.subscription or ("", ""))[1]
        )

    assert ours() == ["T", "kept"]
    network.cut("A", "B")
    b.leave(T)
    assert b.broker is not None
    b.broker.reading.forget_durable("B", "gone")
    assert b.neighbourhood is not None
    told = b.neighbourhood.acceptor.advisories
    for consumer_id in [key for key, info in told.consumers.items() if info.subscription_name == "gone"]:
        told.consumer_removed(consumer_id)  # as the session of its client says it
    network.run(200)
    network.heal()
    network.run(2000)
    assert network.is_open()
    assert ours() == (["kept"] if synced else ["T", "kept"])


def test_a_subscription_that_came_while_the_bridge_was_down_is_served_before_it_is_used() -> None:
    network = Network(42, [("A", "B")], options="syncDurableSubs=true").start()
    a, b = network.sites["A"], network.sites["B"]
    network.run(300)
    network.cut("A", "B")
    b.read(T, durable="new")
    network.run(100)
    b.leave(T)
    network.heal()
    network.run(1000)
    assert a.broker is not None
    assert [
        queue.address
        for queue in a.broker.table.queues.values()
        if "NC-DS_" in (queue.definition.subscription or ("", ""))[1]
    ] == ["T"]


def test_readers_of_a_virtual_topics_queue_are_demand_for_the_topic() -> None:
    lists = "useVirtualDestSubs=true"
    network = Network(43, [("A", "B")], options=lists).start()
    a, b = network.sites["A"], network.sites["B"]
    assert b.neighbourhood is not None
    b.neighbourhood.acceptor.advisories.virtual = True
    b.read("queue://Consumer.x.VirtualTopic.Y")
    network.run(300)
    (bridge,) = a.bridges()
    assert sorted(demand.name for demand in bridge.demand.demands) == ["Consumer.x.VirtualTopic.Y", "VirtualTopic.Y"]
    a.send("topic://VirtualTopic.Y", "m")
    network.run(500)
    assert network.seen["m"] == [
        "B",
        "B",
    ]  # over both demands, as in Classic: its advice is to exclude the queues (4.8)
    b.leave("queue://Consumer.x.VirtualTopic.Y")
    network.run(300)
    assert not bridge.demand.demands


@pytest.mark.parametrize("unread", [False, True])
def test_what_a_composite_fills_is_demand_for_the_composite(unread: bool) -> None:
    network = Network(45, [("A", "B")], options="useVirtualDestSubs=true").start()
    a, b = network.sites["A"], network.sites["B"]
    assert b.neighbourhood is not None
    assert b.broker is not None
    b.neighbourhood.acceptor.advisories.virtual = True
    b.neighbourhood.acceptor.advisories.virtual_on_creation = unread
    b.broker.table.add_divert(composite("all", False, [(Destination("one", ANYCAST), None)]))
    if unread:
        b.send("queue://one", "makes the queue")
    else:
        b.read("queue://one")
    network.run(300)
    (bridge,) = a.bridges()
    assert sorted(demand.name for demand in bridge.demand.demands) == (["all"] if unread else ["all", "one"])
    a.send("queue://all", "m")
    network.run(500)
    if unread:
        assert b.broker.table.queues["one"].count == 2
        b.broker.queues.delete(b.broker.table.queues["one"], "nobody needs it")
    else:
        assert network.seen["m"] == ["B"]
        b.leave("queue://one")
    network.run(300)
    assert not bridge.demand.demands


@pytest.mark.skipif(is_compiled(), reason="replaces a method, which native callers do not see")
@pytest.mark.parametrize("audited", [False, True])
def test_an_audited_producer_behind_a_duplex_bridge_is_heard_once(audited: bool) -> None:
    options = f"checkDuplicateMessagesOnDuplex={str(audited).lower()}"
    network = Network(44, [("A", "B")], duplex=True, options=options).start()
    a, b = network.sites["A"], network.sites["B"]
    b.read(Q)
    network.run(300)
    (bridge,) = a.bridges()
    genuine = bridge.link.confirmed

    def deaf(confirmation: int, now: int) -> bool:
        return confirmation not in bridge.link.under_way and genuine(confirmation, now)

    bridge.link.confirmed = deaf  # type: ignore[method-assign]
    a.send(Q, "m")
    network.run(200)
    assert network.seen["m"] == ["B"]
    network.cut("A", "B")
    bridge.link.confirmed = genuine  # type: ignore[method-assign]
    network.run(200)
    network.heal()
    network.run(2000)
    assert network.seen["m"] == (["B"] if audited else ["B", "B"])
    (far,) = b.bridges()
    assert far.inbound.duplicates == (1 if audited else 0)


def test_two_connectors_between_one_pair_serve_what_each_is_for() -> None:
    network = Network(45, [("A", "B")])
    site = network.sites["A"]
    site.wiring = [f"static:(tcp://B:1)?name={name}&destinationFilter=Queue.{name}.%3E" for name in ("orders", "news")]
    network.start()
    network.sites["B"].read("queue://orders.x")
    network.sites["B"].read("queue://news.y")
    network.run(500)
    found = {bridge.options.name: [one.name for one in bridge.demand.demands] for bridge in site.bridges()}
    assert found == {"orders": ["orders.x"], "news": ["news.y"]}
    for number in range(5):
        site.send("queue://orders.x", f"o{number}")
        site.send("queue://news.y", f"n{number}")
    network.run(500)
    assert len(network.seen) == 10


@pytest.mark.skipif(is_compiled(), reason="replaces a method, which native callers do not see")
@pytest.mark.parametrize("replay", [False, True])
def test_what_crossed_and_is_not_wanted_there_comes_back_where_the_policy_lets_it(replay: bool) -> None:
    network = Network(51, [("A", "B")], duplex=True).start()
    a, b = network.sites["A"], network.sites["B"]
    for site in (a, b):
        assert site.neighbourhood is not None
        if replay:
            # Classic needs enableAudit="false" for that; nothing here is switched off
            site.neighbourhood.filters = lambda name, topic: BridgeFilterOptions(replay_when_no_consumers=True)  # type: ignore[misc]
    b.read("queue://other")
    b.read(Q, prefetch=1)
    network.run(300)
    slow = b.readers[Q]
    slow.wake = lambda: None  # type: ignore[method-assign]  # takes one and settles nothing
    for number in range(20):
        a.send(Q, f"m{number}")
    network.run(500)
    b.leave(Q)
    network.run(300)
    a.read(Q)
    returned: list[Message] = []
    network.consumed = lambda site, reader, message, deliveries: returned.append(message)  # type: ignore[method-assign]
    network.run(3000)  # the checker of circles would call a return what it is
    assert len(returned) == (20 if replay else 0)


def test_a_temporary_queue_of_another_protocol_does_not_come_back_to_its_own_broker() -> None:
    """It once did, without its path: its broker took it for another's, and deleted it when that bridge broke."""
    network = Network(41, [("A", "B"), ("B", "C"), ("C", "A")], duplex=True, options="networkTTL=3").start()
    network.run(500)
    a = network.sites["A"]
    name = "ID:A-c9:1-5:answers"

    def make() -> None:
        assert a.broker is not None
        owner = ConnectionOwner("9")
        a.broker.queues.create(QueueDefinition(name=name, address=name, durable=False, temporary=True, owner=owner))

    a.turn(make)
    network.run(500)
    for other in "BC":
        broker = network.sites[other].broker
        assert broker is not None
        assert name in broker.table.queues
    assert [bridge.temporaries.known for bridge in a.bridges()] == [{}, {}]
    network.cut("A", "C")
    network.cut("A", "B")
    network.run(3000)
    assert a.broker is not None
    assert name in a.broker.table.queues


# -- found by networks from seeds --------------------------------------------------------------------------------------


def test_copies_of_a_virtual_topic_cross_to_the_queue_that_they_are_read_from() -> None:
    network = Network(60, [("A", "B")]).start()
    network.sites["B"].read("queue://Consumer.x.VirtualTopic.Y")
    network.run(500)
    network.sites["A"].send("topic://VirtualTopic.Y", "m")
    network.run(500)
    assert network.seen == {"m": ["B"]}


def test_a_reader_of_a_pattern_is_demand_before_a_queue_of_it_is_known_where_it_reads() -> None:
    network = Network(61, [("A", "B"), ("B", "C")], options="networkTTL=3").start()
    network.sites["C"].read("queue://W.>")
    network.run(500)
    (bridge,) = network.sites["A"].bridges()
    assert [demand.name for demand in bridge.demand.demands] == ["W.>"]
    network.sites["A"].send("queue://W.a", "m")
    network.run(500)
    assert network.seen == {"m": ["C"]}
    assert [demand.name for demand in bridge.demand.demands] == ["W.>"]  # and once only
    network.sites["C"].leave("queue://W.>")
    network.run(500)
    assert not bridge.demand.demands


def test_a_bridge_that_ends_lets_no_other_share_with_what_is_gone() -> None:
    wires = [(one, other) for one in "ABCD" for other in "ABCD" if one != other]
    network = Network(62, wires, options="networkTTL=4&suppressDuplicateQueueSubscriptions=true").start()
    for number in range(6):
        network.sites["D"].read(f"queue://Q{number}")
    network.run(1000)
    network.sites["D"].crash(torn=False)
    network.run(500)
    network.heal()
    network.run(1500)
    for number in range(6):
        network.sites["A"].send(f"queue://Q{number}", f"m{number}")
    network.run(500)
    assert sorted(network.seen) == [f"m{number}" for number in range(6)]


def test_demand_that_is_wanted_again_before_all_was_answered_keeps_its_subscription() -> None:
    network = Network(63, [("A", "B")]).start()
    network.sites["B"].read(Q)
    network.run(500)
    a = network.sites["A"]
    (bridge,) = a.bridges()
    (demand,) = bridge.demand.demands
    a.send(Q, "m0")
    assert bridge.link.under_way
    a.turn(lambda: bridge.obey([Unsubscribe(demand), Subscribe(demand)]))
    network.run(500)  # the checks of the bridge run after each event
    a.send(Q, "m1")
    network.run(500)
    assert network.seen == {"m0": ["B"], "m1": ["B"]}


def test_another_demand_takes_over_a_durable_subscription_that_was_not_answered_for() -> None:
    network = Network(64, [("A", "B")]).start()
    network.sites["B"].read(T, durable="d")
    network.run(500)
    a = network.sites["A"]
    (bridge,) = a.bridges()
    (demand,) = bridge.demand.demands
    a.send(T, "m0")
    assert bridge.link.under_way
    (known,) = demand.remote
    where = Place("T", topic=True)
    again = Reader(
        where, (where,), known, client_id="B", subscription_name="d"
    )  # as another bridge that replaced the demand and ended would have it
    a.turn(lambda: bridge.obey([*bridge.demand._drop(demand, forget=False), *bridge.demand.consumer_added(again)]))
    network.run(500)
    a.send(T, "m1")
    network.run(500)
    assert set(network.seen) == {"m0", "m1"}
    assert "m0" not in network.unmarked


@pytest.mark.parametrize(("ttl", "served"), [(1, 2), (2, 4)])
def test_a_subscription_of_a_bridge_is_told_only_where_it_would_count(ttl: int, served: int) -> None:
    wires = [(one, other) for one in "ABC" for other in "ABC" if one != other]
    network = Network(65, wires, options=f"networkTTL={ttl}").start()
    network.run(500)
    ignored = [bridge.demand.ignored for site in network.sites.values() for bridge in site.bridges()]
    network.sites["A"].read(Q)
    network.run(500)
    demands = [
        demand for site in network.sites.values() for bridge in site.bridges() for demand in bridge.demand.demands
    ]
    assert len(demands) == served
    assert ignored == [bridge.demand.ignored for site in network.sites.values() for bridge in site.bridges()]
    network.sites["C"].send(Q, "m")
    network.run(500)
    assert network.seen == {"m": ["A"]}
    network.sites["A"].leave(Q)
    network.run(500)
    assert not any(bridge.demand.demands for site in network.sites.values() for bridge in site.bridges())


def subscriptions(network: Network, name: str) -> list[str]:
    broker = network.sites[name].broker
    assert broker is not None
    return sorted(
        queue for queue, one in broker.table.queues.items() if "inbound" in "".join(one.definition.subscription or "")
    )


def test_a_temporary_queue_is_made_when_its_reader_is_told_of_first() -> None:
    network = Network(70, [("A", "B"), ("B", "A")]).start()
    talk = Talk(network)
    talk.answer_at("A")
    talk.ask_at("B", topic=False)
    network.run(1000)
    talk.start()  # the bridge is there already: what is told comes in the order in which it happens
    network.run(500)
    for _ in range(2):
        talk.question()
        network.run(500)
        network.cut("A", "B")
        network.cuts.clear()
        network.run(1000)  # and now readers are told of before temporary destinations: those are another topic
    assert [request.refused for request in talk.requests.values()] == [0, 0]
    assert all(request.answered for request in talk.requests.values())


@pytest.mark.parametrize("duplex", [False, True])
def test_a_temporary_queue_is_reached_another_way_while_the_first_is_cut(duplex: bool) -> None:
    wires = [("A", "B"), ("B", "C"), ("A", "C")]
    network = Network(
        71, wires if duplex else [*wires, *((b, a) for a, b in wires)], duplex=duplex, options="networkTTL=3"
    ).start()
    talk = Talk(network)
    talk.answer_at("C")
    talk.ask_at("A", topic=False)
    talk.start()
    network.run(1500)
    for cut in (("A", "C"), ("A", "B"), ("B", "C")):
        network.cut(*cut)
        network.run(1000)
        talk.question()
        network.run(1000)
        network.cuts.clear()
        network.run(1000)
    assert [one.identity for one in talk.requests.values() if not one.answered] == []
    talk.finish()
    network.run(1000)
    assert talk.left_behind() == []


def test_what_is_on_its_way_from_a_queue_that_is_deleted_needs_no_settlement() -> None:
    network = Network(72, [("A", "B")]).start()
    a, b = network.sites["A"], network.sites["B"]
    b.read(Q)
    network.run(500)
    network.slow("A", "B")
    a.send(Q, "m")
    network.run(1)
    (bridge,) = a.bridges()
    assert len(bridge.link.under_way) == 1
    broker = a.broker
    assert broker is not None
    a.turn(lambda: broker.queues.delete(broker.table.queues["Q"], "somebody deletes it"))
    network.run(1000)  # the invariants are looked at, and the answer comes
    assert bridge.link.state is State.OPEN
    assert not bridge.link.under_way


def test_a_durable_subscription_that_another_bridge_serves_hands_over_what_it_holds() -> None:
    network = Network(73, [("A", "B"), ("A", "B")]).start()
    a = network.sites["A"]
    network.sites["B"].read(T, durable="d")
    network.run(500)
    assert subscriptions(network, "A") == ["NC_B_inbound_A.NC-DS_A_T"]
    a.switch(0, start=False)
    network.run(100)
    for number in range(10):  # the second serves; the first one's subscription gets them, too
        a.send(T, f"m{number}")
    network.run(500)
    a.switch(1, start=False)
    network.run(100)
    a.send(T, "last")
    for number in (1, 0):
        a.switch(number, start=True)
        network.run(1500)
    assert subscriptions(network, "A") == ["NC-2_B_inbound_A.NC-DS_A_T"], "one subscription fills for ever"
    assert network.seen == {**{f"m{number}": ["B"] for number in range(10)}, "last": ["B"]}


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_a_durable_subscription_that_is_unsubscribed_while_answers_are_awaited_goes(lost: bool, late: bool) -> None:
    network = Network(76, [("A", "B")]).start()
    a = network.sites["A"]
    network.sites["B"].read(T, durable="d")
    network.run(500)
    (bridge,) = a.bridges()
    (demand,) = bridge.demand.demands
    a.send(T, "m")
    assert bridge.link.under_way
    later = [ForgetDurable(demand.durable_name)] if late else []
    a.turn(lambda: bridge.obey([*bridge.demand._drop(demand, forget=not late), *later]))
    assert subscriptions(network, "A"), "what is on its way is answered for first"
    if lost:
        a.switch(0, start=False)
    network.run(500)
    assert subscriptions(network, "A") == []


def test_a_connector_that_is_stopped_and_started_marks_what_may_have_arrived() -> None:
    network = Network(75, [("A", "B")], audit=0).start()  # or it would be dropped
    a, b = network.sites["A"], network.sites["B"]
    b.read(Q)
    network.run(500)
    network.slow("A", "B")
    delay = network.cables[-1][2].delay // MILLISECOND
    a.send(Q, "m")
    network.run(delay + delay // 2)  # it has arrived, the answer is on its way
    assert list(network.seen) == ["m"]
    a.switch(0, start=False)
    a.switch(0, start=True)
    network.run(2000)
    assert network.seen == {"m": ["B", "B"]}
    assert not network.unmarked


def waiting_at_a_bridge(*, crash: bool = False) -> Network:
    """Return a network where a message waits at D's bridge to C, and its reader at B is served over A since."""
    wires = [("D", "C"), ("C", "B"), ("D", "A"), ("A", "B")]
    network = Network(77, wires, options="networkTTL=3&conduitSubscriptions=false").start()
    d = network.sites["D"]
    d.switch(1, start=False)
    network.sites["B"].read(T, durable="d")
    network.run(500)
    network.cut("D", "C", silent=True)
    d.send(T, "m")
    network.run(100)
    d.switch(0, start=False)  # the operator stops the bridge: the message waits in its subscription
    d.switch(1, start=True)
    network.run(31_000)  # it may be on its way still
    if crash:
        d.crash(torn=True)
        d.boot()
        network.run(1000)
    d.send(T, "later")
    network.run(1000)
    assert network.seen == {"later": ["B"]}
    network.heal()
    d.switch(0, start=True)
    network.run(500)
    return network


@pytest.mark.parametrize("crash", [False, True])
def test_what_waits_at_a_bridge_crosses_when_another_way_serves_its_reader_since(crash: bool) -> None:
    network = waiting_at_a_bridge(crash=crash)
    network.run(5000)
    assert network.seen == {"later": ["B"], "m": ["B"]}, "what came since has crossed the other way"
    network.explained()
    broker = network.sites["D"].broker
    assert broker is not None
    assert not broker.table.queues["NC_C_inbound_D.d"].roster.consumers, "it reads no longer than it must"


def test_what_waits_at_a_bridge_stays_where_its_peer_may_not_read_it() -> None:
    network = waiting_at_a_bridge()
    bridge = next(one for one in network.sites["D"].bridges() if one.names.there == "C")
    bridge.broker.access.protect(Directory([]), [])
    bridge.subject = Subject("stranger")
    network.run(5000)
    assert network.seen == {"later": ["B"]}
    assert any("stays" in said for said in bridge.told)


def test_what_was_handed_over_once_goes_over_again_although_its_copy_is_younger_than_who_gets_it() -> None:
    network = Network(79, [("A", "B"), ("A", "B"), ("A", "B")]).start()
    a = network.sites["A"]
    first, second, third = range(3)
    for number in (second, third):
        a.switch(number, start=False)
    network.sites["B"].read(T, durable="d")
    network.run(500)
    a.switch(first, start=False)
    a.send(T, "m")  # it waits for the first
    for number in (third, second):  # their subscriptions are made, one after the other
        a.switch(number, start=True)
        network.run(500)
        a.switch(third, start=False)
    a.switch(first, start=True)
    network.run(500)
    network.deafen("A", "B")
    network.run(1000)  # the second has it now, and cannot bring it
    for number in (first, second):
        a.switch(number, start=False)
    assert sorted(subscriptions(network, "A")) == [f"NC-{n}_B_inbound_A.NC-DS_A_T" for n in (2, 3)]
    a.switch(third, start=True)
    network.run(500)
    assert not network.seen
    a.switch(second, start=True)
    network.run(3000)
    assert network.seen == {"m": ["B"]}


def test_what_is_handed_over_behind_its_own_repetition_is_marked() -> None:
    network = Network(76, [("A", "B"), ("B", "C"), ("B", "C")], options="networkTTL=2").start()
    a, b = network.sites["A"], network.sites["B"]
    b.switch(1, start=False)
    network.sites["C"].read(T, durable="d")
    network.run(500)
    b.switch(0, start=False)
    network.slow("A", "B")
    delay = network.cables[0][2].delay // MILLISECOND
    a.send(T, "m")
    network.run(delay + delay // 2)  # it waits at B, the answer is on its way
    network.cut("A", "B")
    b.switch(1, start=True)  # the other connector serves now
    network.run(500)
    assert not network.seen
    network.heal()  # marked: it may have arrived
    network.run(2000)
    assert network.seen == {"m": ["C"]}
    b.switch(0, start=True)  # what it holds goes over, behind what crossed
    network.run(2000)
    assert network.seen == {"m": ["C", "C"]}
    assert not network.unmarked


@pytest.mark.parametrize("duplex", [False, True])
def test_a_bridge_that_is_stopped_lets_arrive_what_is_on_its_way(duplex: bool) -> None:
    """What was given back at once came again over the link beside, or after the next start: twice."""
    network = Network(61, [("A", "B")], duplex=duplex).start()
    a = network.sites["A"]
    network.sites["B"].read(Q, prefetch=1000)
    network.run(500)
    for number in range(50):
        a.send(Q, f"m{number}")
    connector = a.connectors[0]
    (bridge,) = connector.bridges.values()
    assert bridge.link.under_way
    a.switch(0, start=False)
    assert (bridge.link.state, connector.started) == (State.DRAINING, False)
    a.send(Q, "later")
    network.run(500)
    assert [list(network.seen), network.unmarked] == [[f"m{number}" for number in range(50)], []]
    assert bridge.link.state is State.CLOSED
    assert not connector.bridges, "it would be listed for ever"
    assert a.neighbourhood is not None
    assert bridge not in a.neighbourhood.bridges
    a.switch(0, start=True)
    network.run(500)
    assert list(network.seen) == [*(f"m{number}" for number in range(50)), "later"]
    assert all(len(places) == 1 for places in network.seen.values())


def draining_behind_a_cut(seed: int) -> tuple[Network, Bridge]:
    """Return a network, and A's bridge to B, which was stopped while a message was on its way that cannot arrive."""
    network = Network(seed, [("A", "B")]).start()
    a = network.sites["A"]
    network.sites["B"].read(Q, prefetch=1000)
    network.run(500)
    network.cut("A", "B", silent=True)
    a.send(Q, "m")
    (bridge,) = a.connectors[0].bridges.values()
    a.switch(0, start=False)
    assert bridge.link.state is State.DRAINING
    return network, bridge


def test_a_bridge_that_is_started_while_it_still_drains_begins_anew() -> None:
    network, bridge = draining_behind_a_cut(62)
    a = network.sites["A"]
    network.heal()
    a.switch(0, start=True)
    assert bridge.link.state is State.CLOSED
    network.run(2000)
    (other,) = a.connectors[0].bridges.values()
    assert (other is not bridge, other.link.state) == (True, State.OPEN)
    assert list(network.seen) == ["m"]


def test_a_reader_that_comes_while_a_bridge_drains_is_served_another_way() -> None:
    network = Network(64, [("A", "B"), ("A", "C"), ("C", "B")], options="networkTTL=2").start()
    a, b = network.sites["A"], network.sites["B"]
    b.read(Q, prefetch=1000)
    network.run(500)
    network.slow("A", "B")
    for number in range(20):
        a.send(Q, f"m{number}")
    a.switch(0, start=False)
    (bridge,) = a.connectors[0].bridges.values()
    assert bridge.link.state is State.DRAINING
    b.read("queue://R")
    a.send("queue://R", "for the one who came")
    network.run(3000)
    assert len(network.seen) == 21
    for site in network.sites.values():
        for one in site.bridges():
            one.check()


def test_a_bridge_that_cannot_drain_ends_when_the_patience_is_over() -> None:
    network, bridge = draining_behind_a_cut(63)
    a = network.sites["A"]
    network.run(31_000)
    assert (bridge.link.state, len(a.connectors[0].bridges)) == (State.CLOSED, 0)
    assert a.broker is not None
    assert a.broker.table.queues["Q"].count == 1, "it is given back"


def store(site: Site, body: bytes, head: bytes) -> None:
    """Send a message of STOMP whose ``body`` is on disk."""
    assert site.broker is not None
    overflow = site.broker.journal.overflow
    blob = site.broker.ids.next_number()
    overflow.create(blob)
    overflow.write(blob, body)
    overflow.seal(blob)
    message = Message(STOMP_LANGUAGE, "Q", head)
    message.body_at = len(message.raw)
    message.durable = True
    rare = message.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = blob, len(body), True
    site.broker.send(message, site.broker.target(parse("queue://Q")))
    overflow.release(blob)


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("cut", [False, True])
def test_a_large_body_crosses_part_by_part_and_whole(duplex: bool, cut: bool) -> None:
    network = Network(5, [("A", "B")], duplex=duplex).start()
    a = network.sites["A"]
    text = "grüße " * 200_000
    a.turn(lambda: store(a, text.encode(), b"colour:red\n\n"))
    a.send(Q, "small")
    network.run(100)
    bridge = network.dialled()[0]
    events: list[tuple[bool, int]] = []
    genuine = bridge.link.flow.streaming

    def streaming(busy: bool) -> None:
        events.append((busy, bridge.link.counts.forwarded))
        if cut and len(events) == 1:
            network.world.later(MILLISECOND, lambda: network.cut("A", "B"))
            network.world.later(200 * MILLISECOND, network.heal)
        genuine(busy)

    if not is_compiled():
        bridge.link.flow.streaming = streaming  # type: ignore[method-assign]
    network.sites["B"].read(Q)
    network.run(5000)
    assert sorted(network.seen, key=len) == ["small", text]
    assert a.disk.blobs() == []
    if not is_compiled():
        assert events[:2] == [(True, 0), (False, 1)], "nothing else went while it streamed"
        assert bridge.link.counts.requeued == (2 if cut else 0)
    assert bridge.link.state is State.OPEN


@pytest.mark.parametrize("harm", ["flip", "shorten", "lose"])
def test_a_large_body_that_is_lost_on_disk_stays_behind_as_a_dead_letter(harm: str) -> None:
    network = Network(1, [("A", "B")]).start()
    a = network.sites["A"]

    a.turn(lambda: store(a, bytes(2000), b"content-length:2000\ncolour:red\n\n"))
    a.send(Q, "small")
    network.run(100)
    (blob,) = a.disk.blobs()
    if harm == "flip":
        a.disk.medium.damage(f"{blob}.blob", 1999)
    elif harm == "shorten":
        a.disk.medium.shorten(f"{blob}.blob", 2000)
    else:
        a.disk.medium.lose(f"{blob}.blob")
    network.sites["B"].read(Q)
    network.run(1000)
    assert list(network.seen) == ["small"]
    assert all(bridge.link.state is State.OPEN for bridge in network.dialled())
    assert a.broker is not None
    letters = a.broker.table.queues["ActiveMQ.DLQ"]
    (found,) = letters.stock.walk().step(10)
    assert found.message.fact("entrepotBodyLost") == "2000"
    assert found.message.fact("colour") == "red"
    assert "is damaged" in str(found.message.fact("dlqDeliveryFailureCause"))
    assert a.disk.blobs() == []


@pytest.mark.parametrize(
    ("octets", "packed"), [(63, False), (64, True), (1000, True), (COMPRESS_UPTO, True), (COMPRESS_UPTO + 1, False)]
)
def test_bodies_that_gain_by_it_cross_compressed_and_none_that_takes_long(octets: int, packed: bool) -> None:
    network = Network(5, [("A", "B")], options="useCompression=true").start()
    far = network.sites["B"]
    far.read(Q)
    far.readers[Q].wake = lambda: None  # type: ignore[method-assign]
    network.run(500)
    near = network.sites["A"]
    command = commands.ActiveMQBytesMessage(content=b"b" * octets, destination=commands.ActiveMQQueue("Q"))
    producer = commands.ProducerId("ID:p", 1, 1)
    command.message_id = commands.MessageId(producer_id=producer, producer_sequence_id=1)

    def send() -> None:
        assert near.broker is not None
        near.broker.send(message_of(command, "Q"), near.broker.target(parse(Q)))

    near.turn(send)
    network.run(500)
    (message,) = [held.message for one in far.readers[Q].consumers for held in one.in_flight.values()]
    assert message.common().body == b"b" * octets
    assert OPENWIRE_LANGUAGE.opened(message).compressed == packed
    assert (len(message.raw) < octets) == (octets > 500 and packed)
