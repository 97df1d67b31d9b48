"""Turns of a loop: what all peers together may leave unread."""

from __future__ import annotations

import asyncio

from entrepot.base.environment import KIB
from entrepot.core.room import UNREAD_SHARE
from entrepot.io.runtime import SystemClock
from entrepot.io.turns import BrokerTurn
from kit import Rig


def test_what_peers_may_leave_unread_follows_the_limit_of_the_brokers_memory() -> None:
    async def main() -> None:
        broker = Rig().broker
        turn = BrokerTurn(asyncio.get_running_loop(), SystemClock(), broker)
        turn.unsent = 100 * KIB
        assert turn.share(50 * KIB, KIB) == 50 * KIB
        broker.limit_memory(UNREAD_SHARE * 99 * KIB)
        assert turn.share(50 * KIB, KIB) == 2 * KIB, "too much of all together: two bursts"
        broker.limit_memory(UNREAD_SHARE * 100 * KIB)
        assert turn.share(50 * KIB, KIB) == 50 * KIB

    asyncio.run(main())
