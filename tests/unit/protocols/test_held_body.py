"""A body that leaves in frames of its own is there until it is gone; one that is lost becomes a dead letter once."""

from __future__ import annotations

import pytest

from entrepot.base.errors import BodyLost
from entrepot.protocols.held_body import HeldBody

from .artemis.wired import Hub
from .test_large_body import OCTETS, TYPE_BYTES, sent


def test_a_body_is_on_disk_until_its_last_reader_lets_go() -> None:
    hub = Hub()
    message = sent(hub, OCTETS, TYPE_BYTES)
    overflow = hub.rig.broker.journal.overflow
    blob = int(message.need_rare().large_id)
    body = HeldBody(hub.rig.broker, message, None)
    body.check()
    body.hold()
    body.ahead = b"read already"
    hub.rig.queue("q").taking.purge()
    hub.turn()
    assert overflow.read(message, 0) == OCTETS[: len(overflow.read(message, 0))]
    assert blob in overflow.sizes
    body.finish()
    assert blob not in overflow.sizes
    assert body.ahead == b""
    body.finish()  # a second time changes nothing


def test_a_body_that_is_known_to_be_damaged_is_not_begun() -> None:
    hub = Hub()
    message = sent(hub, OCTETS, TYPE_BYTES)
    body = HeldBody(hub.rig.broker, message, None)
    body.check()
    hub.rig.broker.journal.overflow.damaged[int(message.need_rare().large_id)] = "the disk says no"
    with pytest.raises(BodyLost, match="the disk says no"):
        body.check()


@pytest.mark.parametrize("settled", [True, False])
def test_who_does_not_acknowledge_had_it_already_so_a_lost_body_is_buried_once(settled: bool) -> None:
    hub = Hub()
    message = sent(hub, OCTETS, TYPE_BYTES)
    queue = hub.rig.queue("q")
    body = HeldBody(hub.rig.broker, message, queue if settled else None)
    body.hold()
    queue.taking.purge()  # settled when it was written
    hub.rig.broker.journal.overflow.damaged[int(message.need_rare().large_id)] = "the disk says no"
    body.lost()
    body.lost()
    hub.rig.wait(1)  # it is buried when nothing else is being done
    body.finish()
    assert queue.returns.dead == (1 if settled else 0)
    assert sum(each.count for each in hub.rig.broker.table.queues.values()) == (1 if settled else 0)
