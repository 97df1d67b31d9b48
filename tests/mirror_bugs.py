"""Bugs of mirrors, planted to see that the drawn walk of their unit test finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from entrepot.cluster.broker_connections.telling import Telling
from entrepot.core.mirrors.removing import Removing
from entrepot.core.sending.duplicates import Duplicates
from entrepot.protocols.amqp.calling.sending import Sending


def _settles_at_once(genuine: Any) -> Any:
    def write(self: Sending, *rest: Any) -> int:
        genuine(self, *rest)
        return 0

    return write


def _knows_nothing(genuine: Any) -> Any:
    return lambda self, address, identity: False


def _does_nothing(genuine: Any) -> Any:
    return lambda self, *rest: None


def _takes_the_next(genuine: Any) -> Any:
    def is_near(self: Removing, queue: Any, acknowledged: Any) -> bool:
        found = queue.stock.walk().step(1)
        if not found:
            return False
        self.take_away(queue, found, acknowledged.doer)
        return True

    return is_near


BUGS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "an event is settled when it is written": (Sending, "write", _settles_at_once),
    "what comes again is new": (Duplicates, "seen", _knows_nothing),
    "nobody is told what left a queue": (Telling, "left", _does_nothing),
    "another message is taken than was acknowledged": (Removing, "_is_near", _takes_the_next),
}


def planted(name: str) -> AbstractContextManager[None]:
    """Plant the bug ``name`` for a while."""
    return patched(*BUGS[name])
