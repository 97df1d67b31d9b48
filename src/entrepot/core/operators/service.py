"""A service of the broker that works in turns of its own, so that a long request holds nobody up."""

from __future__ import annotations

from typing import Final

from entrepot.core.addressing.routing import Service
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm


class _Ring(Alarm):
    def __init__(self, due: int, service: TurnedService) -> None:
        super().__init__(due)
        self.service = service

    def ring(self, now: int) -> None:
        self.service.rang()


class TurnedService(Service):
    """Subclasses note what is asked for in `take`, call `ask_turn`, and do a bounded step of it in `turn`."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker
        self._ringing = False

    def ask_turn(self) -> None:
        """Let `turn` be called once, after the others that wait for theirs."""
        if not self._ringing:
            self._ringing = True
            self.broker.timetable.add(_Ring(int(self.broker.now), self))

    @property
    def has_turn(self) -> bool:
        """Whether `turn` will be called."""
        return self._ringing

    def rang(self) -> None:
        """The turn has come."""
        self._ringing = False
        self.turn()

    def turn(self) -> None:
        """Do a bounded step, and call `ask_turn` if there is more to do."""
        raise NotImplementedError
