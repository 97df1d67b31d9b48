"""What another broker brought reaches a third when no crash takes it back here; programs get it at once."""

from __future__ import annotations

import pytest

from entrepot.core.queue.consumer import APPLICATION, INCOMING_BRIDGE
from entrepot.model import address as names
from kit import Reader, Rig


def attach(rig: Rig, kind: int) -> Reader:
    reader = Reader(rig, "queue://Q", names.UNTYPED)
    reader.kind = kind
    reader.prefetch = 10
    rig.broker.subscribe(reader)
    reader.window.reopen()
    rig.readers.append(reader)
    rig.turn()
    return reader


def send(rig: Rig, body: str, *, bridged: bool, durable: bool = True) -> None:
    """Send one message, of which the disk has nothing yet."""
    message = rig.message(body, "Q", durable=durable)
    message.need_rare().bridged = bridged
    rig.broker.send(message, rig.broker.target(names.parse("queue://Q")))


def go_on(rig: Rig) -> None:
    """Let turns pass in which the disk does nothing."""
    effort = rig.broker.effort
    for _ in range(3):
        effort.go_on()


@pytest.mark.parametrize(
    ("kind", "bridged", "durable", "waits"),
    [
        (INCOMING_BRIDGE, True, True, True),
        (INCOMING_BRIDGE, False, True, False),  # its producer was told nothing yet
        (INCOMING_BRIDGE, True, False, False),  # nobody was promised that it stays
        (APPLICATION, True, True, False),
    ],
)
def test_it_waits_for_the_disk_where_a_third_broker_would_know_it(
    kind: int, bridged: bool, durable: bool, waits: bool
) -> None:
    rig = Rig()
    reader = attach(rig, kind)
    send(rig, "a", bridged=bridged, durable=durable)
    go_on(rig)
    assert reader.bodies == ([] if waits else ["a"])
    rig.turn()
    go_on(rig)
    assert reader.bodies == ["a"]


def test_what_comes_behind_it_waits_with_it_in_order() -> None:
    rig = Rig()
    reader = attach(rig, INCOMING_BRIDGE)
    send(rig, "a", bridged=True)
    send(rig, "b", bridged=False)
    go_on(rig)
    assert reader.bodies == []
    rig.turn()
    go_on(rig)
    rig.turn()
    assert reader.bodies == ["a", "b"]


def test_one_that_leaves_meanwhile_gives_it_back_as_never_seen() -> None:
    rig = Rig()
    reader = attach(rig, INCOMING_BRIDGE)
    send(rig, "a", bridged=True)
    go_on(rig)
    reader.close()
    other = attach(rig, APPLICATION)
    assert [(one.body, one.deliveries) for one in other.deliveries] == [("a", 0)]
