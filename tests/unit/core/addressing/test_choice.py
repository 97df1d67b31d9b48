"""The choice among bindings (artemis.md 1.12): groups, turns, and what is at another node."""

from __future__ import annotations

from entrepot.core.addressing.binding import Binding, LocalBinding
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.routing import Target
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, parse
from entrepot.model.message import Message
from kit import Rig


class Elsewhere(Binding):
    """A queue of another node, with no filter; what it gets waits in a queue of this one."""

    def __init__(self, queue: Queue, address: str, routing: int, name: str) -> None:
        super().__init__(address, routing, name, queue, 1)

    def passes(self, message: Message) -> bool:
        return True

    def is_wanted(self, message: Message) -> bool:
        return True

    def consumers(self) -> int:
        return 1


def make(rig: Rig, name: str, address: str, routing: int = ANYCAST, selector: str = "") -> Queue:
    return rig.broker.queues.create(QueueDefinition(name=name, address=address, routing=routing, selector=selector))


def bind(rig: Rig, binding: Binding) -> None:
    rig.broker.table.address(binding.address).bind(binding)
    rig.broker.table.version += 1


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


def test_a_queue_of_another_node_gets_no_anycast_message_while_the_mode_is_off():
    rig = Rig()
    here, way = make(rig, "A", "A"), make(rig, "way", "way", MULTICAST)
    bind(rig, Elsewhere(way, "A", ANYCAST, "A"))
    rig.send_all("queue://A", range(4))
    assert (here.count, way.count) == (4, 0)


def test_a_subscription_at_another_node_gets_copies_and_one_on_both_nodes_a_share():
    rig = Rig()
    here, way = make(rig, "s", "T", MULTICAST), make(rig, "way", "way", MULTICAST)
    bind(rig, Elsewhere(way, "T", MULTICAST, "s"))
    rig.send_all("topic://T", range(4))
    assert (here.count, way.count) == (2, 2)
    bind(rig, Elsewhere(way, "T", MULTICAST, "other"))
    rig.send_all("topic://T", range(4))
    assert (here.count, way.count) == (4, 6)  # all of the other group, once, and with them half of this one


def test_what_leads_to_another_node_is_not_the_one_queue_of_the_fast_way():
    rig = Rig()
    way = make(rig, "way", "way", MULTICAST)
    bind(rig, Elsewhere(way, "T", MULTICAST, "other"))
    target = Target("T", MULTICAST)
    rig.broker.table.resolve(target)
    assert target.only is None
    assert target.choice.candidates() == [way]
    make(rig, "own", "U", MULTICAST)
    assert rig.broker.target(parse("topic://U")).only is rig.broker.table.queues["own"]


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
