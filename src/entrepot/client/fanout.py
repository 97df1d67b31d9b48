"""``fanout:(...)``: a lifeline for each broker, and what joins them (`protocols/openwire/conversation/fan.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Entropy
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.client.lifeline import Lifeline, LifelineEvents
from entrepot.client.options import Target
from entrepot.io.turns import Turn
from entrepot.protocols.failover import FailoverCore
from entrepot.protocols.openwire.conversation.fan import Fan


class Fanout:
    """The brokers of one fanout connection, each with its lifeline."""

    def __init__(
        self, target: Target, fan: Fan, turn: Turn, entropy: Entropy, ended: Callable[[EntrepotError], None]
    ) -> None:
        """``ended``: no broker can be reached any more."""
        self.fan: Final = fan
        self.ended: Final = ended
        self._target: Final = target
        self._turn: Final = turn
        self._entropy: Final = entropy
        self._members: dict[tuple[str, int], _Member] = {}
        for place in target.places:
            self._add(place)

    @property
    def place(self) -> Endpoint | None:
        """The primary, or any that is there."""
        first = self._first
        return None if first is None else first.lifeline.core.place

    def program(self) -> str:
        """Return which program that one says it is; "" without one."""
        first = self._first
        return "" if first is None else first.lifeline.core.program()

    @property
    def _first(self) -> _Member | None:
        return next((member for member in self._members.values() if member.dialler.is_there()), None)

    def start(self) -> None:
        """Dial all."""
        for member in self._members.values():
            member.lifeline.core.start()

    def found(self, place: Endpoint) -> None:
        """Discovery found one."""
        if (place.host, place.port) not in self._members:
            self._add(place).lifeline.core.start()

    def vanished(self, place: Endpoint) -> None:
        """Discovery lost one; the connection to it breaks by itself if it is true."""

    def settled(self) -> None:
        """Nothing waits for a quiet moment: members never move."""

    def lost(self, why: str) -> None:
        """The last member is gone; each lifeline knows that already."""

    def control(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        """Brokers may not move us: we are with all of them."""

    def located(self, here: str, zones: dict[str, str]) -> None:
        """Zones do not matter: we are with all of them."""

    async def close(self, grace: float) -> None:
        """Leave all."""
        await asyncio.gather(*(member.lifeline.close(grace) for member in self._members.values()))

    def _add(self, place: Endpoint) -> _Member:
        failover = FailoverCore([place], self._target.failover, self._entropy)
        member = self._members[(place.host, place.port)] = _Member(self, failover, self._turn)
        return member


class _Member(LifelineEvents):
    """One broker, and the lifeline that keeps it."""

    def __init__(self, fanout: Fanout, failover: FailoverCore, turn: Turn) -> None:
        self._fanout: Final = fanout
        self.dialler: Final = fanout.fan.member(self._lost)
        self.lifeline: Final = Lifeline(failover, self.dialler, turn, self)

    def _lost(self, why: str) -> None:
        self.lifeline.core.lost(why)

    def ended(self, error: EntrepotError) -> None:
        if self._fanout.fan.is_empty():
            self._fanout.ended(error)
