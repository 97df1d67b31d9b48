"""Bugs of connections over AMQP, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from entrepot.cluster.broker_connections import connection, connector
from entrepot.cluster.broker_connections.connection import BrokerConnection, Unanswered
from entrepot.cluster.broker_connections.feed import QueueFeed
from entrepot.protocols.amqp.calling.sending import Sending
from entrepot.protocols.amqp.incoming import Incoming


def _settles_at_once(genuine: Any) -> Any:
    def write(self: Sending, *rest: Any) -> int:
        genuine(self, *rest)
        return 0

    return write


def _accepts_before_the_disk(genuine: Any) -> Any:
    def send(self: Incoming, *rest: Any) -> bool:
        genuine(self, *rest)
        return False

    return send


def _does_nothing(genuine: Any) -> Any:
    return lambda self, *rest: None


def _is_never_poison(genuine: Any) -> Any:
    return lambda self, number, condition: False


def _marks_nothing(genuine: Any) -> Any:
    return lambda self, feed, message, deliveries, doubtful: genuine(self, feed, message, 0, False)


def _doubts_by_itself(genuine: Any) -> Any:
    return lambda name, broker, options, places, doubts: genuine(name, broker, options, places)


def _keeps_links(genuine: Any) -> Any:
    def lost(self: BrokerConnection, why: str) -> None:
        takings = dict(self.takings)
        genuine(self, why)
        self.takings.update(takings)

    return lost


def _counts_credit_once(genuine: Any) -> Any:
    def granted(self: QueueFeed, credit: int) -> None:
        if not self.forwarded:
            genuine(self, credit)

    return granted


def _asks_once(genuine: Any) -> Any:
    return lambda self, key, why: self.refusals.add(key, why, 1 << 62)


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a message is settled before it is accepted": lambda: patched(Sending, "write", _settles_at_once),
    "what comes is accepted before the disk has it": lambda: patched(Incoming, "_send", _accepts_before_the_disk),
    "what a link had on its way stays with it": lambda: patched(BrokerConnection, "unsent", _does_nothing),
    "a link that is not answered is waited for": lambda: patched(Unanswered, "add", _does_nothing),
    "a message that is too large is tried for ever": lambda: patched(QueueFeed, "is_poison", _is_never_poison),
    "a message that is too large is dropped": lambda: patched(connection, "park", lambda genuine: lambda *rest: ""),
    "what may have arrived is not marked": lambda: patched(BrokerConnection, "forward", _marks_nothing),
    "what may have arrived is forgotten with its connection": lambda: patched(connector, "LinkCore", _doubts_by_itself),
    "links outlive their connection": lambda: patched(BrokerConnection, "lost", _keeps_links),
    "credit is taken once": lambda: patched(QueueFeed, "granted", _counts_credit_once),
    "a link that ended is not asked for again": lambda: patched(BrokerConnection, "_put_off", _asks_once),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
