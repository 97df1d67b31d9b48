"""What an assembly, and a shell that dials, need of a connection over which messages come and none go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from entrepot.base.environment import Duration, Instant
from entrepot.cluster.dialled import Perform, Say
from entrepot.core.broker import BrokerCore


class Fetcher(Protocol):
    """The upstream of a federation, or a broker from which messages are drawn; all within a turn."""

    started: bool
    auto_start: bool
    """Whether it is started with the broker."""

    @property
    def name(self) -> str:
        """What operators call it."""

    def start(self, broker: BrokerCore, perform: Perform, say: Say, now: Instant, interval: Duration = 0) -> None:
        """Dial. ``interval``: of supervision, 0: as the options say."""

    def leave(self, now: Instant) -> None:
        """An operator stops it. It may be started again."""

    def drain(self, now: Instant) -> bool:
        """Take no more; return whether everything that was taken is acknowledged."""

    def stop(self, now: Instant) -> None:
        """End it now: what is not acknowledged comes again."""

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know of it."""


def replaced(had: list[Any], wanted: Sequence[Any], make: Callable[[Any], Any], now: Instant) -> list[Any]:
    """Leave what is not ``wanted`` as it is any more, and return what is made in its place."""
    same = {one.name: one for one in had if one.entry in wanted}
    for one in had:
        if one.name not in same:
            one.leave(now)
    new = [make(entry) for entry in wanted if entry.name not in same]
    had[:] = [*same.values(), *new]
    return new
