"""The choice among bindings (artemis.md 1.12): groups, turns, and what is at another node."""

from __future__ import annotations

import pytest

from entrepot.core.addressing.binding import (
    OFF,
    OFF_WITH_REDISTRIBUTION,
    ON_DEMAND,
    ROUTE_TO,
    STRICT,
    LocalBinding,
    RemoteBinding,
)
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import divert
from entrepot.core.addressing.routing import Target
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination, parse
from entrepot.model.predicate import compile_selector
from entrepot.model.told import remote_as
from kit import Rig


def make(rig: Rig, name: str, address: str, routing: int = ANYCAST, selector: str = "") -> Queue:
    return rig.broker.queues.create(QueueDefinition(name=name, address=address, routing=routing, selector=selector))


NODE = "d31bf3ec-e6a6-11f1-bbc2-a385427ca49b"


def elsewhere(rig: Rig, way: Queue, address: str, name: str, mode: int = ON_DEMAND, far: int = 77) -> RemoteBinding:
    """Bind a queue of another node; what it gets waits in ``way``."""
    table = rig.broker.table
    remote = RemoteBinding(
        address,
        name,
        way,
        1,
        identity=remote_as(name + NODE, ANYCAST, far),
        far=far,
        node=NODE,
        queue_name=name,
        mode=mode,
    )
    table.add_remote(remote)
    return remote


def routes(queue: Queue) -> list[list[int]]:
    """Return to which queues of the next node each message in ``queue`` goes."""
    found: list[list[int]] = []
    for reference in queue.backlog.references():
        ids = reference.message.marked(ROUTE_TO + queue.name)
        assert isinstance(ids, bytes)
        found.append([int.from_bytes(ids[at : at + 8], "big") for at in range(0, len(ids), 8)])
    return found


def test_those_who_send_one_message_each_share_the_turns_of_a_group():
    rig = Rig()
    first, second = make(rig, "q1", "A"), make(rig, "q2", "A")
    for number in range(4):
        rig.send("queue://A", str(number))  # with a target of its own, as each session has
    assert (first.count, second.count) == (2, 2)


def test_a_binding_whose_filter_refuses_is_passed_over_and_when_all_refuse_no_turn_is_over():
    rig = Rig()
    red, blue = make(rig, "red", "A", selector="c = 'red'"), make(rig, "blue", "A", selector="c = 'blue'")
    for colour in ("red", "red", "green", "blue", "blue"):
        rig.send("queue://A", colour, properties={"c": colour})
    assert (red.count, blue.count) == (2, 2)
    assert rig.broker.table.addresses["A"].anycasts.turn == 0  # behind blue


def test_the_routing_name_of_anycast_is_the_address_that_of_multicast_the_queue():
    rig = Rig()
    bindings = [LocalBinding(make(rig, f"{routing}", "A", routing)) for routing in (ANYCAST, MULTICAST)]
    assert [(each.routing_name, each.distance, each.connected) for each in bindings] == [
        ("A", 0, True),
        (str(MULTICAST), 0, True),
    ]


def test_consumers_are_counted_and_asked_where_they_are():
    rig = Rig()
    binding = LocalBinding(make(rig, "Q", "Q"))
    red, blue = (rig.message("m", "Q", properties={"c": colour}) for colour in ("red", "blue"))
    assert (binding.consumers(), binding.is_wanted(red)) == (0, False)
    reader = rig.reader("Q", selector="c = 'red'")
    assert (binding.consumers(), binding.is_wanted(red), binding.is_wanted(blue)) == (1, True, False)
    reader.close()
    assert binding.consumers() == 0


@pytest.mark.parametrize(
    ("mode", "here", "there", "took"),
    [
        (STRICT, False, False, (2, 2)),
        (STRICT, True, False, (2, 2)),
        (ON_DEMAND, True, True, (2, 2)),
        (ON_DEMAND, False, True, (0, 4)),
        (ON_DEMAND, True, False, (4, 0)),
        (ON_DEMAND, False, False, (4, 0)),
        (OFF, False, True, (4, 0)),
        (OFF_WITH_REDISTRIBUTION, False, True, (4, 0)),
    ],
)
def test_what_is_sent_to_a_queue_on_two_nodes(mode: int, here: bool, there: bool, took: tuple[int, int]) -> None:
    """The table of artemis.md 1.12; nobody takes anything, so that what was chosen can be counted."""
    rig = Rig()
    own, way = make(rig, "A", "A"), make(rig, "way", "way", MULTICAST)
    remote = elsewhere(rig, way, "A", "A", mode)
    if here:
        rig.reader("A", prefetch=0)
    if there:
        remote.add_consumer(None)
    rig.send_all("queue://A", range(4))
    assert (own.count, way.count) == took
    assert routes(way) == [[77]] * took[1]


def test_a_queue_that_is_on_another_node_alone_gets_all_unless_the_mode_keeps_queues_apart() -> None:
    rig = Rig(auto_create="false")
    way = make(rig, "way", "way", MULTICAST)
    remote = elsewhere(rig, way, "A", "A")
    target = rig.broker.target(parse("queue://A"))
    for mode, expected in ((ON_DEMAND, 1), (STRICT, 2)):
        remote.mode = mode
        rig.broker.table.resolve(target)
        rig.broker.send(rig.message("m", "A"), target)
        assert way.count == expected
    remote.mode = OFF
    rig.broker.table.resolve(target)
    assert target.choice.is_empty()


def test_two_nodes_with_consumers_take_turns_with_this_one_whatever_their_number() -> None:
    rig = Rig()
    own = make(rig, "A", "A")
    ways = [make(rig, f"way{number}", f"way{number}", MULTICAST) for number in (1, 2)]
    for number, way in enumerate(ways):
        remote = elsewhere(rig, way, "A", "A")
        for _ in range(1 + 9 * number):
            remote.add_consumer(None)
    rig.reader("A", prefetch=0)
    rig.send_all("queue://A", range(9))
    assert [own.count, *(way.count for way in ways)] == [3, 3, 3]


def test_filters_of_remote_queues_and_consumers_are_respected() -> None:
    rig = Rig()
    own, way = make(rig, "A", "A"), make(rig, "way", "way", MULTICAST)
    remote = elsewhere(rig, way, "A", "A")
    remote.add_consumer(compile_selector("c = 'red'"))
    remote.add_consumer(compile_selector("c = 'red'"))
    for colour in ("red", "blue"):
        rig.send("queue://A", colour, properties={"c": colour})
    assert (own.count, way.count) == (1, 1)
    remote.remove_consumer("c = 'red'")
    rig.send("queue://A", "red", properties={"c": "red"})
    assert (own.count, way.count) == (1, 2)
    remote.remove_consumer("c = 'red'")
    remote.remove_consumer("c = 'red'")
    rig.send("queue://A", "red", properties={"c": "red"})
    assert (own.count, way.count, remote.consumers()) == (2, 2, 0)
    remote.add_consumer(compile_selector("c = 'red'"))
    remote.add_consumer(None)
    rig.send("queue://A", "blue", properties={"c": "blue"})
    assert way.count == 3, "one consumer takes anything: Artemis would ask the filter alone"
    remote.filter = compile_selector("c = 'green'")
    rig.send("queue://A", "blue", properties={"c": "blue"})
    assert (own.count, way.count) == (3, 3)
    remote.reset()
    assert (remote.consumers(), remote.filters()) == (0, {})


def test_a_node_that_is_not_connected_is_the_last_choice_and_a_sole_one_still_the_only() -> None:
    rig = Rig(auto_create="false")
    own, way = make(rig, "A", "A"), make(rig, "way", "way", MULTICAST)
    for address in ("A", "B"):
        remote = elsewhere(rig, way, address, address)
        remote.add_consumer(None)
        remote.connected = False
        rig.send(f"queue://{address}")
    assert (own.count, way.count) == (1, 1)


def test_a_subscription_at_another_node_gets_copies_and_one_on_both_nodes_a_share() -> None:
    rig = Rig()
    here, way = make(rig, "s", "T", MULTICAST), make(rig, "way", "way", MULTICAST)
    elsewhere(rig, way, "T", "s", STRICT)
    rig.send_all("topic://T", range(4))
    assert (here.count, way.count) == (2, 2)
    elsewhere(rig, way, "T", "other", STRICT, far=78)
    rig.send_all("topic://T", range(4))
    assert (here.count, way.count) == (4, 6)  # all of the other group, once, and with them half of this one
    assert sorted(routes(way)[2:]) == [[77, 78], [77, 78], [78], [78]], "once over the wire, whatever subscriptions"


def test_what_is_sent_to_a_topic_goes_over_whatever_the_mode_and_what_has_no_type_does_not() -> None:
    rig = Rig()
    way = make(rig, "way", "way", MULTICAST)
    elsewhere(rig, way, "T", "s", OFF)
    rig.send("topic://T")
    assert way.count == 1
    untyped = Target("T", UNTYPED)
    rig.broker.table.resolve(untyped)
    assert untyped.choice.is_empty()


def test_a_queue_that_is_named_in_full_is_found_on_its_node() -> None:
    rig = Rig()
    way = make(rig, "way", "way", MULTICAST)
    elsewhere(rig, way, "T", "s")
    elsewhere(rig, way, "T", "r", far=78)
    rig.send("T::r")
    assert routes(way) == [[78]]


def test_copies_of_diverts_go_their_own_ways() -> None:
    rig = Rig(auto_create="false")
    way = make(rig, "way", "way", MULTICAST)
    elsewhere(rig, way, "A", "A")
    elsewhere(rig, way, "B", "B", far=78)
    rig.broker.table.add_divert(divert("d", "A", [Destination("B", ANYCAST)]))
    rig.send("queue://A")
    assert routes(way) == [[77], [78]]


def test_what_comes_over_a_bridge_goes_to_the_queues_that_it_says() -> None:
    rig = Rig()
    queues = [make(rig, name, "A") for name in ("q1", "q2")]
    other, way = make(rig, "B", "B"), make(rig, "way", "way", MULTICAST)
    chained = elsewhere(rig, way, "A", "A")

    def arrive(*ids: int) -> tuple[int, ...]:
        message = rig.message("m", "A")
        message.mark(ROUTE_TO, b"".join(one.to_bytes(8, "big") for one in ids))
        rig.broker.send(message, rig.broker.target(parse("queue://A")))
        rig.turn()
        assert message.marked(ROUTE_TO) is None
        return (*(queue.count for queue in queues), other.count, way.count)

    assert arrive(int(queues[1].identity)) == (0, 1, 0, 0)
    assert arrive(int(queues[1].identity), int(queues[0].identity)) == (1, 2, 0, 0)
    assert arrive(int(chained.identity)) == (1, 2, 0, 1), "a chain: the next node's id stands in its place"
    assert routes(way) == [[77]]
    chained.add_consumer(None)
    assert sum(arrive(999)) == 5, "its queue is gone: it stays, with whatever takes it here"
    assert (way.count, rig.broker.sending.strayed) == (1, 1)
    assert arrive(int(other.identity))[2] == 0, "a number that another queue has now"


def test_routes_survive_a_restart_with_the_message() -> None:
    rig = Rig(auto_create="false")
    way = make(rig, "way", "way", MULTICAST)
    elsewhere(rig, way, "A", "A")
    rig.send("queue://A")
    rig.restart("kill")
    (found,) = rig.drain("way::way")
    assert found.message.marked(f"{ROUTE_TO}way") == (77).to_bytes(8, "big")


def test_what_leads_to_another_node_is_not_the_one_queue_of_the_fast_way() -> None:
    rig = Rig()
    way = make(rig, "way", "way", MULTICAST)
    remote = elsewhere(rig, way, "T", "other")
    target = Target("T", MULTICAST)
    rig.broker.table.resolve(target)
    assert target.only is None
    assert target.choice.candidates() == [way]
    make(rig, "own", "U", MULTICAST)
    assert rig.broker.target(parse("topic://U")).only is rig.broker.table.queues["own"]
    own = make(rig, "Q", "Q")
    rig.broker.table.remove_remote(remote)
    assert "T" not in rig.broker.table.addresses
    assert rig.broker.target(parse("queue://Q")).only is own


def test_an_address_knows_its_queues_here_and_is_empty_when_all_bindings_are_gone():
    rig = Rig()
    one, two = make(rig, "one", "A"), make(rig, "two", "A", MULTICAST)
    address = rig.broker.table.addresses["A"]
    assert (address.anycast, address.multicast) == ([one], [two])
    rig.broker.queues.delete(one, "")
    assert (address.has(ANYCAST), address.has(MULTICAST), address.is_empty) == (False, True, False)
    rig.broker.queues.delete(two, "")
    assert address.is_empty
    assert "A" not in rig.broker.table.addresses
