"""What is said over the control link by the side that dialled, and what the other side may do on that account."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AccessDenied
from entrepot.cluster.broker_connections.options import FetchOptions, FetchPolicy
from entrepot.cluster.broker_connections.ordering import Granted
from entrepot.cluster.federation.options import AddressPolicy, Match, QueuePolicy
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.protocols.amqp import performatives as said

from .test_obeying import World, queues

QUEUE_POLICY = FetchPolicy(
    queues=QueuePolicy(name="q", includes=(Match(address="A", queue="Q"),)), options=FetchOptions()
)
ADDRESS_POLICY = FetchPolicy(
    addresses=AddressPolicy(name="a", includes=(Match(address="T.#"),)), options=FetchOptions()
)


def test_the_other_side_may_read_what_a_policy_means_and_nothing_else() -> None:
    granted = Granted("F", "peer", (QUEUE_POLICY, ADDRESS_POLICY))
    granted.admit(Destination("A", ANYCAST, False, "Q"), "q")
    granted.admit(Destination("T.x", MULTICAST), "a")
    for where in (
        Destination("A", ANYCAST, False, "other"),
        Destination("T.x", MULTICAST, False, "a.durable.subscription"),  # an address, and not what others read
        Destination("A", MULTICAST),
        Destination("$sys", ANYCAST, False, "$sys"),
    ):
        with pytest.raises(AccessDenied, match="no policy that was ordered there means"):
            granted.admit(where, "q")


def test_a_policy_that_is_larger_than_a_frame_is_said_so_and_not_cut() -> None:
    many = tuple(Match(address=f"{number:04}.{'x' * 100}") for number in range(30))
    world = World(remote=(queues(includes=many),), start=False)
    world.server_options.frame_octets_max = 1_024
    world.start()
    assert any("and the other side takes frames of" in what for what in world.said), world.said
    world.read(world.far)
    assert world.near.queue("Q").roster.consumers == []


def test_policies_are_said_as_the_other_side_grants_credit() -> None:
    world = World(remote=(queues("one"), queues("two"), queues("three")), start=False)
    world.server_options.credit = 1
    world.server_options.credit_low = 0
    world.start()
    assert [one.name for one in world.obeyed()._federating.policies] == ["one", "two", "three"]


def test_a_peer_that_attaches_what_nobody_ordered_ends_the_connection() -> None:
    world = World(local=(queues(),))
    (cable,) = world.cables.values()
    far = cable.far.session
    far.channels[0].say(said.Attach(name="own", handle=99, role=True, source=said.Source(address="Q")))  # type: ignore[union-attr]
    world.run()
    assert any("attaches a link 'own' that nobody asked for" in what for what in world.said)


def test_where_something_was_ordered_a_link_of_no_federation_is_refused() -> None:
    world = World(remote=(queues(),))
    world.send("a")
    own = world.obeyed()._asking.take_from("own", "Q", [], Destination("Q", ANYCAST), None)
    world.run()
    assert "nothing but what a policy means is read over this connection" in own.why
    assert world.near.queue("Q").roster.consumers == []
    assert world.cables, "the connection goes on"
