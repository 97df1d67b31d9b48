"""What operators are told of the room on disk."""

from __future__ import annotations

import pytest

from entrepot.core.operators.disk_room import DiskRoom
from entrepot.journal.limits import NO_LIMIT
from kit import Rig


def test_room_is_the_smaller_of_the_limit_and_the_disk() -> None:
    rig = Rig()
    limits = rig.broker.journal.space.limits
    room = DiskRoom(rig.broker)
    limits.store, limits.capacity, limits.stored, limits.temp_now = 1_000, 4_000, 250, 400
    assert (room.limit(), room.usage(), room.temp_limit()) == (1_000, 0.25, 400)
    assert room.temp_usage() == pytest.approx(int(rig.broker.journal.space.paged()) / 400)
    limits.capacity = 500
    assert (room.limit(), room.usage()) == (500, 0.5)


def test_no_limit_is_told_as_none() -> None:
    rig = Rig()
    limits = rig.broker.journal.space.limits
    limits.store, limits.capacity, limits.temp_now = NO_LIMIT, 0, NO_LIMIT
    room = DiskRoom(rig.broker)
    assert (room.limit(), room.usage(), room.temp_limit(), room.temp_usage()) == (0, 0.0, 0, 0.0)
