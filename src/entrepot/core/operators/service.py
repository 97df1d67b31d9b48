"""A service of the broker that works in turns of its own, aside from messages: a long request holds nobody up."""

from __future__ import annotations

from typing import Final

from entrepot.core.addressing.routing import Service
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest


class _Turn(Rest):
    def __init__(self, service: TurnedService) -> None:
        super().__init__()
        self.service: TurnedService = service

    def resume(self) -> None:
        self.service.turn()


class TurnedService(Service):
    """Subclasses note what is asked for in `take`, call `ask_turn`, and do a bounded step of it in `turn`."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker
        self._turn: Final = _Turn(self)

    def ask_turn(self) -> None:
        """Let `turn` be called once when messages leave time for it (`Effort.aside`)."""
        self.broker.effort.aside(self._turn)

    @property
    def has_turn(self) -> bool:
        """Whether `turn` will be called."""
        return self._turn.waiting

    def turn(self) -> None:
        """Do a bounded step, and call `ask_turn` if there is more to do."""
        raise NotImplementedError
