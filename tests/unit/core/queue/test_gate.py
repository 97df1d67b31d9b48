"""What keeps a queue from dispatching: pause, hold and drain do not lift one another."""

from __future__ import annotations

import itertools

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policy
from entrepot.core.addressing.traits import Traits
from entrepot.core.queue.gate import HOLD_DEFAULT, Gate


def traits(consumers: int = 0, delay: int = -1) -> Traits:
    found = Policy().traits_of(QueueDefinition(name="Q", address="Q"))
    found.consumers_before_dispatch = consumers
    found.delay_before_dispatch = delay
    return found


def test_a_gate_is_shut_as_long_as_one_reason_is_left() -> None:
    for order in itertools.permutations(("resume", "drained", "release")):
        gate = Gate(traits(consumers=2), False)
        gate.pause()
        gate.drain()
        for step, name in enumerate(order):
            assert gate.shut
            if name == "release":
                assert gate.release(2, 0)
            else:
                getattr(gate, name)()
            assert gate.shut == (step < 2), (order, name)


def test_a_queue_waits_for_consumers_or_for_the_time_that_is_set() -> None:
    gate = Gate(traits(consumers=2, delay=0), False)
    assert gate.shut
    assert not gate.release(1, 5)
    assert gate.begin_wait(5) == 5 + HOLD_DEFAULT
    assert gate.begin_wait(6) == 0, "it is set already"
    assert not gate.release(1, 4 + HOLD_DEFAULT)
    assert gate.release(1, 5 + HOLD_DEFAULT)
    assert not gate.shut
    gate.hold()
    assert gate.shut, "the last consumer has gone"


def test_a_broker_that_stops_delivers_nothing_whatever_else_ends() -> None:
    gate = Gate(traits(), False)
    assert not gate.shut
    gate.cease()
    gate.pause()
    gate.resume()
    gate.drain()
    gate.drained()
    assert gate.shut
