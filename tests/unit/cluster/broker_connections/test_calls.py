"""A file that is read anew: federations that are other ones, or are gone, and what waits for them at the other side."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from entrepot.cluster.broker_connections.calls import Calls
from entrepot.cluster.broker_connections.options import (
    AmqpConnectionEntry,
    AmqpConnectionOptions,
    FederationEntry,
    FetchPolicy,
)
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.model import address as names
from entrepot.protocols.amqp.calling.federating import Fetching
from kit import SECOND

from .called import TO_Q, Called
from .test_obeying import World, addresses, bodies, queues


class Followed(World):
    """``near`` reads its file anew."""

    def follow(self, *entries: AmqpConnectionEntry) -> None:
        calls = Calls(())
        calls.connectors.append(self.connector)
        made = calls.follow(entries, int(self.near.now))
        self.pass_ms(100)
        for one in made:
            self.connector = one
            self.start()
        self.pass_ms(100)

    def with_policies(self, *local: FetchPolicy, remote: tuple[FetchPolicy, ...] = ()) -> AmqpConnectionEntry:
        return replace(self.entry, federation=FederationEntry(name="F", policies=local, remote=remote))


def test_a_policy_that_is_added_or_taken_out_counts_from_then_on() -> None:
    world = Followed(local=(queues(),))
    world.far.broker.addresses.queues.need(names.parse_one("Q", names.ANYCAST))
    reader = world.read(world.near)
    assert [int(one.kind) for one in world.far.queue("Q").roster.consumers] == [INCOMING_BRIDGE]
    world.follow(world.with_policies(remote=(queues(),)))
    assert world.far.queue("Q").roster.consumers == []
    world.stop(reader)
    taker = world.read(world.far)
    world.send("a")
    world.pass_ms(100)
    assert bodies(taker) == ["a"]
    world.follow()
    assert world.near.queue("Q").roster.consumers == []


def test_what_waits_for_an_address_stays_with_another_file_and_goes_with_none() -> None:
    world = Followed(local=(addresses(),))
    taker = world.read(world.near, "topic://T.a")
    world.connector.leave(world.near.now)
    world.pass_ms(100)
    world.publish("a", rig=world.far)
    world.start()
    world.follow(world.with_policies(addresses(), queues()))
    assert bodies(taker) == ["a"], "nothing that waited is lost"
    assert len(world.by_which(world.far)) == 1
    world.follow()
    assert world.by_which(world.far) == []


@pytest.mark.parametrize("remote", [False, True])
def test_a_pace_that_is_another_one_counts_from_then_on(remote: bool) -> None:
    def paced(credit: int) -> tuple[FetchPolicy, ...]:
        return queues(credit=credit), addresses(credit=credit)

    world = Followed(**{"remote" if remote else "local": paced(10)})  # type: ignore[arg-type]
    here, there = (world.far, world.near) if remote else (world.near, world.far)
    there.broker.addresses.queues.need(names.parse_one("Q", names.ANYCAST))
    takers = [world.read(here), world.read(here, "topic://T.a")]
    for at, credit in enumerate((10, 3, 7)):
        if at:
            world.follow(
                world.with_policies(*(() if remote else paced(credit)), remote=paced(credit) if remote else ())
            )
        takings = (world.obeyed() if remote else world.connection).takings
        paces = [link.fetch.pace.credit for link in takings.values() if isinstance(link, Fetching)]
        assert paces == [credit, credit]
        world.send(f"q{credit}", rig=there)
        world.publish(f"t{credit}", rig=there)
        world.pass_ms(100)
    assert [bodies(taker) for taker in takers] == [["q10", "q3", "q7"], ["t10", "t3", "t7"]]


class Repeated(Called):
    """What ``near`` sends arrives, and is not answered; its connections are those of a broker."""

    def __init__(self) -> None:
        super().__init__(TO_Q, start=False)
        self.calls = Calls(())
        self.follow(self.entry)
        for cable in self.cables.values():
            cable.answers = False
        self.send("a")
        self.marks = [bool(message.redelivered) for message in self.messages()]

    def follow(self, *entries: AmqpConnectionEntry) -> None:
        for made in self.calls.follow(entries, int(self.near.now)):
            self.connector = made
            self.start()

    def went_again(self) -> None:
        """See that the message came once more, marked."""
        self.pass_ms(2_000)
        self.marks += [bool(message.redelivered) for message in self.messages()]
        assert self.marks == [False, True]


def test_what_may_have_arrived_is_marked_when_its_connection_was_stopped_and_started() -> None:
    repeated = Repeated()
    repeated.connector.stop(repeated.near.now)
    repeated.start()
    repeated.went_again()


def test_what_may_have_arrived_is_marked_when_it_goes_over_another_connection() -> None:
    repeated = Repeated()
    repeated.connector.stop(repeated.near.now)
    repeated.follow(replace(repeated.entry, options=AmqpConnectionOptions(name="B", retry_interval=SECOND)))
    repeated.went_again()
