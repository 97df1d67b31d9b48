"""Federation over AMQP that one side orders, and the other carries out; and addresses, in either direction (4.13)."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.cluster.broker_connections.obeying import POLICIES_MOST, Obeyed
from entrepot.cluster.broker_connections.options import FederationEntry, FetchOptions, FetchPolicy
from entrepot.cluster.broker_connections.orders import written
from entrepot.cluster.broker_connections.outlook import obeyed, outlook
from entrepot.cluster.federation.options import AddressPolicy, Match, QueuePolicy
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.core.queue.queue import Queue
from entrepot.model import address as names
from entrepot.protocols.amqp.calling.federating import ControlSending, Fetching, Pulling
from entrepot.protocols.amqp.convert import AMQP_LANGUAGE, message_of
from entrepot.protocols.amqp.federated import CAME_FROM, HOPS
from entrepot.protocols.amqp.federating import Control
from kit import Rig

from ..carrying.crossed import Taker
from .called import Called, body_in, octets_of


def queues(name: str = "p", *, credit: int = 1_000, **said: Any) -> FetchPolicy:
    made = QueuePolicy(name=name, **{"includes": (Match(address="Q"),), "keeps": True, "priorities": False, **said})
    return FetchPolicy(queues=made, options=FetchOptions(credit=credit, credit_low=credit // 2))


def addresses(name: str = "a", *, credit: int = 1_000, **said: Any) -> FetchPolicy:
    made = AddressPolicy(name=name, **{"includes": (Match(address="T.#"),), "auto_delete": False, **said})
    return FetchPolicy(addresses=made, options=FetchOptions(credit=credit, credit_low=credit // 2))


class World(Called):
    """``near`` dials ``far``. ``local``: policies of near; ``remote``: that it orders at far."""

    def __init__(self, *, local: tuple[FetchPolicy, ...] = (), remote: tuple[FetchPolicy, ...] = (), **said: Any):
        super().__init__(federation=FederationEntry(name="F", policies=local, remote=remote), **said)

    def read(self, rig: Rig, text: str = "Q") -> Taker:
        taker = Taker(rig, text)
        rig.broker.subscribe(taker)
        taker.window.reopen()
        self.pass_ms(10)
        return taker

    def stop(self, taker: Taker) -> None:
        taker.rig.broker.unsubscribe(taker)
        self.pass_ms(10)

    def publish(self, *bodies: str, rig: Rig, to: str = "topic://T.a") -> None:
        broker = rig.broker
        target = broker.target(names.parse(to))
        for body in bodies:
            message = message_of(octets_of(body), broker.wall).message
            message.address = target.name
            broker.send(message, target)
        self.pass_ms(10)

    def by_which(self, rig: Rig, address: str = "T.a") -> list[Queue]:
        """Return the queues of ``rig`` by which another broker reads ``address``."""
        table = rig.broker.table.addresses.get(address)
        return [] if table is None else [one for one in table.multicast if one.name.startswith("federation.")]

    def obeyed(self) -> Obeyed:
        (cable,) = self.cables.values()
        for session in cable.far.session.channels.values():  # type: ignore[union-attr]
            for link in session.links.values():
                if isinstance(link, Control):
                    assert isinstance(link.obeying, Obeyed)
                    return link.obeying
        raise AssertionError("nothing is carried out there")


def bodies(taker: Taker) -> list[str]:
    return [body_in(one.raw) for one in taker.messages]


# -- queues, ordered ---------------------------------------------------------------------------------------------------


def test_a_queue_here_is_read_from_there_while_it_is_read_there() -> None:
    world = World(remote=(queues(),))
    world.send("a", "b")
    assert world.near.queue("Q").roster.consumers == []
    taker = world.read(world.far)
    (reader,) = world.near.queue("Q").roster.consumers
    assert (reader.kind, reader.priority) == (INCOMING_BRIDGE, -1)
    assert bodies(taker) == ["a", "b"]
    world.send("c")
    world.pass_ms(10)
    assert bodies(taker) == ["a", "b", "c"]
    assert int(world.near.queue("Q").count) == 0, "it is settled"
    world.stop(taker)
    assert world.near.queue("Q").roster.consumers == []
    world.send("d")
    world.pass_ms(10)
    assert world.there(world.near) == ["d"]


def test_what_was_not_ordered_is_not_read() -> None:
    """A broker that was dialled may not read what no policy means, whatever it asks for."""
    world = World(remote=(queues(includes=(Match(address="other"),)),), queues=("Q", "other"))
    world.send("a")
    obeyed = world.obeyed()
    obeyed.order("ADD_QUEUE_POLICY", {"policy-name": "mine"})  # it means all, at the other side alone
    world.read(world.far)
    (why,) = obeyed.refusals.whys.values()
    assert "no policy that was ordered there means Q" in why
    assert world.near.queue("Q").roster.consumers == []


def test_a_queue_that_is_made_later_is_told_of() -> None:
    world = World(remote=(queues(),), queues=())
    taker = world.read(world.far)
    obeyed = world.obeyed()
    assert "there is no queue 'Q'" in next(iter(obeyed.refusals.whys.values()))
    world.make("Q")
    world.send("a")
    world.pass_ms(100)
    assert bodies(taker) == ["a"], "long before it would ask again"


def test_after_a_cut_it_is_ordered_again() -> None:
    world = World(remote=(queues(),))
    taker = world.read(world.far)
    for cable in world.cables.values():
        cable.answers = False  # nothing that is said there arrives
    world.send("a")
    world.cut()
    world.send("b")
    world.pass_ms(3_000)
    assert set(bodies(taker)) == {"a", "b"}
    assert bodies(taker)[-1] == "b"
    assert int(world.near.queue("Q").count) == 0


def test_a_policy_ends_with_its_connection_and_policies_are_bounded() -> None:
    world = World(remote=(queues(),))
    obeyed = world.obeyed()
    for number in range(POLICIES_MOST - 1):
        obeyed.order("ADD_QUEUE_POLICY", {"policy-name": f"p{number}", "queue-includes": ["x", "x"]})
    with pytest.raises(Exception, match="100 policies"):
        obeyed.order("ADD_QUEUE_POLICY", {"policy-name": "one more"})
    obeyed.order("ADD_QUEUE_POLICY", {"policy-name": "p1", "queue-includes": ["x", "x"]})  # it is there
    world.reachable = False
    world.cut()
    taker = Taker(world.far, "Q")
    world.far.broker.subscribe(taker)
    world.pass_ms(100)
    assert not obeyed.wishes
    assert not obeyed.takings


def test_what_is_carried_out_is_seen() -> None:
    world = World(remote=(queues(),))
    world.read(world.far)
    world.send("a")
    world.pass_ms(10)
    (cable,) = world.cables.values()
    (row,) = cable.far.session.mirrors()  # type: ignore[union-attr]
    assert (row["kind"], row["connector"], row["received"]) == ("federation", "F", 1)
    fetched = {"address": "Q", "queue": "Q", "policy": "p", "received": 1, "full": False, "why": "", "held_back": 0}
    assert row["fetches"] == [fetched]
    assert any("its policy p is carried out here" in said for said in world.said_there)
    (told,) = obeyed(row, "Q")
    who = world.near.broker.ids.node.uuid_text
    assert told["text"] == f"a policy of the broker {who}, p, fetches Q from it; 1 came"
    assert obeyed(row, "other") == []


def test_what_is_ordered_may_be_pulled() -> None:
    world = World(remote=(queues(credit=0),))
    world.send("own", "more", rig=world.far)
    taker = Taker(world.far, "Q")
    taker.tracked = True
    taker.prefetch = 1
    world.far.broker.subscribe(taker)
    taker.window.reopen()
    world.send("a")
    world.pass_ms(5_000)
    assert bodies(taker) == ["own"]
    (cable,) = world.cables.values()
    (row,) = cable.far.session.mirrors()  # type: ignore[union-attr]
    (told,) = obeyed(row, "Q")
    assert (told["code"], "asks for nothing while 1 messages" in str(told["text"])) == ("full", True)
    (consumer,) = world.far.queue("Q").roster.consumers
    for _ in range(2):
        assert world.far.queue("Q").settle(consumer, next(iter(consumer.in_flight)))
        taker.window.reopen()
        world.pass_ms(1_100)
    assert bodies(taker) == ["own", "more", "a"]


def again(world: World, policy: FetchPolicy) -> None:
    """Have ``policy`` ordered anew over the control link that is there."""
    (control,) = [link for link in world.connection.caller.session.links.values() if isinstance(link, ControlSending)]  # type: ignore[union-attr]
    control.order([written(policy)])
    world.pass_ms(10)


@pytest.mark.parametrize("credit", [3, 0])
def test_a_policy_that_is_ordered_again_has_its_pace_from_then_on(credit: int) -> None:
    world = World(remote=(queues(credit=10),))
    taker = world.read(world.far)
    (before,) = world.obeyed().takings.values()
    assert isinstance(before, Fetching)
    assert before.fetch.pace.credit == 10
    world.send("a")
    again(world, queues(credit=10))
    assert list(world.obeyed().takings.values()) == [before], "the same one is no other"
    again(world, queues(credit=credit))
    (after,) = world.obeyed().takings.values()
    assert isinstance(after, Fetching)
    assert (after.fetch.pace.credit, isinstance(after, Pulling)) == (credit, credit == 0)
    assert len(world.near.queue("Q").roster.consumers) == 1
    world.send("b", "c")
    world.pass_ms(100)
    assert bodies(taker) == ["a", "b", "c"]
    assert int(world.near.queue("Q").count) == 0
    assert not world.obeyed().refusals.whys
    assert not any("the link" in said for said in world.said_there)


def test_what_is_on_its_way_when_a_policy_is_ordered_again_comes_once() -> None:
    world = World(remote=(queues(credit=10),))
    taker = world.read(world.far)
    world.send(*(f"m{number}" for number in range(50)))
    for credit in (2, 5, 0, 7):
        again(world, queues(credit=credit))
        world.send(f"with {credit}")
    world.pass_ms(2_000)
    assert bodies(taker) == [*(f"m{number}" for number in range(50)), *(f"with {one}" for one in (2, 5, 0, 7))]
    assert int(world.near.queue("Q").count) == 0


def test_what_waits_for_an_address_stays_when_its_policy_is_ordered_again() -> None:
    """The other side drops the queue by which an address is read, when nobody wants that any more."""
    world = World(remote=(addresses(credit=10, auto_delete=True),))
    taker = world.read(world.far, "topic://T.a")
    world.publish("a", rig=world.near)
    (queue,) = world.by_which(world.near)
    again(world, addresses(credit=3, auto_delete=True))
    world.publish("b", rig=world.near)
    assert world.by_which(world.near) == [queue]
    assert bodies(taker) == ["a", "b"]
    (link,) = world.obeyed().takings.values()
    assert isinstance(link, Fetching)
    assert link.fetch.pace.credit == 3


def test_a_policy_that_is_ordered_again_keeps_its_place_among_the_others() -> None:
    world = World(remote=(addresses(credit=10), addresses("b", credit=20)))
    taker = world.read(world.far, "topic://T.a")
    again(world, addresses(credit=3))
    assert [policy.name for policy in world.obeyed()._federating.policies] == ["a", "b"]
    (link,) = world.obeyed().takings.values()
    assert isinstance(link, Fetching)
    assert (link.fetch.policy, link.fetch.pace.credit) == ("a", 3)
    world.publish("x", rig=world.near)
    assert bodies(taker) == ["x"]


def test_as_many_policies_as_may_be_can_each_be_ordered_again() -> None:
    world = World(remote=(queues(),))
    obeyed = world.obeyed()
    for number in range(POLICIES_MOST - 1):
        obeyed.order("ADD_QUEUE_POLICY", {"policy-name": f"p{number}", "queue-includes": ["x", "x"]})
    obeyed.order("ADD_QUEUE_POLICY", {"policy-name": "p1", "queue-includes": ["y", "y"]})
    assert len(obeyed._federating.policies) == POLICIES_MOST


def test_why_an_address_is_not_fetched_is_seen_on_either_side() -> None:
    world = World(local=(addresses(),), remote=(addresses("b", includes=(Match(address="B"),)),))
    for rig, name in ((world.far, "T.a"), (world.near, "B")):
        rig.broker.queues.declare(name, 2)
    world.read(world.near, "topic://T.a")
    world.read(world.far, "topic://B")
    (here,) = outlook(world.connector, "T.a", now=int(world.near.now))
    assert here["code"] == "not-drawn"
    assert "fetches T.a by its policy a: " in str(here["text"])
    assert "there is no address 'T.a' of multicast" in str(here["text"])
    (cable,) = world.cables.values()
    (row,) = cable.far.session.mirrors()  # type: ignore[union-attr]
    (there,) = obeyed(row, "B")
    assert there["code"] == "not-drawn"
    assert "there is no address 'B' of multicast" in str(there["text"])


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
def test_an_address_is_read_there_while_a_queue_is_bound_to_it_here(ordered: bool) -> None:
    world = World(**{"remote" if ordered else "local": (addresses(),)})  # type: ignore[arg-type]
    here, there = (world.far, world.near) if ordered else (world.near, world.far)
    world.publish("before", rig=there)
    taker = world.read(here, "topic://T.a")
    (queue,) = world.by_which(there)
    assert queue.name == f"federation.F.policy.a.address.T.a.node.{here.broker.ids.node.uuid_text}"
    assert queue.definition.durable
    world.publish("a", "b", rig=there)
    assert bodies(taker) == ["a", "b"]
    raw = taker.messages[0]
    assert AMQP_LANGUAGE.fact(raw, f"m.{HOPS}") == 1
    assert AMQP_LANGUAGE.fact(raw, f"m.{CAME_FROM}") == there.broker.ids.node.uuid_text
    world.publish("elsewhere", rig=there, to="topic://other")
    world.stop(taker)
    assert world.by_which(there) == [], "nobody wants it: the queue went with its reader"


def test_what_is_sent_while_the_connection_is_cut_waits() -> None:
    world = World(local=(addresses(),))
    taker = world.read(world.near, "topic://T.a")
    world.reachable = False
    world.cut()
    world.publish("a", rig=world.far)
    world.pass_ms(1_000)
    assert bodies(taker) == []
    world.reachable = True
    world.pass_ms(3_000)
    assert bodies(taker) == ["a"]


def test_what_waits_stays_when_the_connection_is_stopped_and_goes_when_it_is_taken_out() -> None:
    world = World(local=(addresses(),))
    world.read(world.near, "topic://T.a")
    world.connector.leave(world.near.now)
    world.pass_ms(100)
    world.publish("a", rig=world.far)
    (queue,) = world.by_which(world.far)
    assert int(queue.count) == 1
    world.start()
    world.pass_ms(100)
    assert int(queue.count) == 0
    world.connector.returns = False
    world.connector.leave(world.near.now)
    world.pass_ms(100)
    assert world.by_which(world.far) == []


def test_what_came_from_there_does_not_go_back() -> None:
    world = World(local=(addresses(),), remote=(addresses(),))
    here, there = world.read(world.near, "topic://T.a"), world.read(world.far, "topic://T.a")
    world.publish("a", rig=world.near)
    world.publish("b", rig=world.far)
    world.pass_ms(500)
    assert sorted(bodies(here)) == ["a", "b"]
    assert sorted(bodies(there)) == ["a", "b"]


def test_hops_are_counted_and_bound_what_is_fetched() -> None:
    world = World(local=(addresses(max_hops=1),), remote=(addresses(max_hops=1),))
    here = world.read(world.near, "topic://T.a")
    (queue,) = world.by_which(world.far)
    assert '"m.x-opt-amq-fed-hops" < 1' in str(queue.definition.selector)
    assert world.by_which(world.near) == [], "that queue takes nothing that was fetched, so nothing is for it"
    world.publish("a", rig=world.far)
    assert bodies(here) == ["a"]
    world.stop(here)
    assert world.by_which(world.far) == []


def test_an_address_that_two_policies_mean_comes_once() -> None:
    world = World(local=(addresses("first"), addresses("second")))
    taker = world.read(world.near, "topic://T.a")
    world.publish("a", rig=world.far)
    assert bodies(taker) == ["a"]
    assert len(world.by_which(world.far)) == 1


def test_an_address_of_anycast_is_not_read_as_one_of_multicast() -> None:
    world = World(local=(addresses(),))
    world.far.broker.queues.declare("T.a", 2)
    taker = world.read(world.near, "topic://T.a")
    assert any("there is no address 'T.a' of multicast" in said for said in world.said)
    assert world.by_which(world.far) == []
    world.stop(taker)


def test_an_address_with_a_queue_of_anycast_is_read_too() -> None:
    world = World(local=(addresses(),))
    world.far.broker.addresses.queues.need(names.parse_one("T.a", names.ANYCAST))
    taker = world.read(world.near, "topic://T.a")
    world.publish("a", rig=world.far)
    assert bodies(taker) == ["a"]


def test_large_messages_are_streamed_with_their_hops() -> None:
    world = World(local=(addresses(),))
    world.server_options.large_octets = 1_000
    taker = world.read(world.near, "topic://T.a")
    world.publish("x" * 200_000, rig=world.far)
    world.pass_ms(100)
    (message,) = taker.messages
    assert AMQP_LANGUAGE.fact(message, f"m.{HOPS}") == 1
