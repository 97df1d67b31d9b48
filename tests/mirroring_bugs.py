"""Bugs of mirrors, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import mirror_bugs
from bridge_bugs import patched
from entrepot.cluster.broker_connections.telling import Mirror, Telling
from entrepot.core.mirrors.answers import Answers
from entrepot.core.mirrors.removing import Removing
from entrepot.core.sending.handing import hand_out
from entrepot.protocols.amqp.mirroring import Mirrored
from entrepot.protocols.amqp.performatives import Accepted
from entrepot.protocols.serving.confirmations import Confirmations


def _accepts_at_once(genuine: Any) -> Any:
    def confirm(self: Mirrored, delivery: int) -> None:
        if not self.ended:
            self.session.dispose(delivery, Accepted())

    return confirm


def _does_it_again(genuine: Any) -> Any:
    return lambda self, kind, said, body, doer, mark: genuine(self, kind, said, body, doer, b"")


def _passes_nothing_on(genuine: Any) -> Any:
    return lambda self, address, queue, origin, number, passed: None


def _tells_all(genuine: Any) -> Any:
    return lambda self, mirror: not mirror.queue.deleted


def _admits_all(genuine: Any) -> Any:
    return lambda self, message, queue: True


def _sends_back(genuine: Any) -> Any:
    """Name a broker of which nothing comes, for the time of the call."""

    def sent(self: Telling, message: Any, queues: Any) -> Any:
        bringing, self.bringing = self.bringing, ""
        known = [mirror.remote for mirror in self.mirrors]
        for mirror in self.mirrors:
            mirror.remote = ""
        try:
            return genuine(self, message, queues)
        finally:
            self.bringing = bringing
            for mirror, remote in zip(self.mirrors, known, strict=True):
                mirror.remote = remote

    return sent


def _takes_from_another_queue(genuine: Any) -> Any:
    def remove(self: Removing, queue: Any, acknowledged: Any) -> None:
        others = {"t1": "t2", "t2": "t1", "q": "p", "p": "q"}
        genuine(self, self.broker.table.queues.get(others.get(queue.name, ""), queue), acknowledged)

    return remove


def _deletions_overtake(genuine: Any) -> Any:
    """Have an event of a deletion go before all that waits."""

    def tell(self: Telling, mirror: Mirror, octets: bytes) -> None:
        if b"deleteQueue" not in octets or not mirror.queue.backlog.count:
            genuine(self, mirror, octets)
            return
        waiting = list(mirror.queue.backlog.references())
        genuine(self, mirror, octets)
        for reference in waiting:
            message = self.broker.ids.renumbered(reference.message)
            mirror.queue.stock.remove(reference)
            mirror.queue.stock.finish(reference)
            hand_out(self.broker, message, [mirror.queue])

    return tell


def _is_reached(genuine: Any) -> Any:
    return lambda self, mark: True


def _looks_at_the_last(genuine: Any) -> Any:
    """Take the last event that was sent for the lowest one that was not accepted."""

    def find(self: Answers) -> None:
        genuine(self)
        if self.queues and self.queues[0].roster.consumers:
            flying = [max(one.in_flight) for one in self.queues[0].roster.consumers if one.in_flight]
            self.low = max([self.low, *flying]) if flying else self.low

    return find


def _owes_nothing(genuine: Any) -> Any:
    return lambda self: False


def _blames_everybody(genuine: Any) -> Any:
    return lambda self, owner: self.host.ids.number


def _never_looks(genuine: Any) -> Any:
    def left(self: Answers) -> None:
        self.stale = True

    return left


def _comes_back_behind(genuine: Any) -> Any:
    """What was on its way when a connection fell goes behind what came later."""

    def put_back(self: Any, reference: Any) -> None:
        if not self.head.name.startswith("$ACTIVEMQ_ARTEMIS_MIRROR_") or not self.backlog.count:
            genuine(self, reference)
            return
        message = self.host.ids.renumbered(reference.message)
        self.finish(reference)
        hand_out(self.host, message, [self.host.table.queues[self.head.name]])

    return put_back


def _stock() -> Any:
    from entrepot.core.queue.stock import Stock

    return Stock


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    **{name: (lambda bug=name: mirror_bugs.planted(bug)) for name in mirror_bugs.BUGS},  # type: ignore[misc]
    "an event that comes again is done again": lambda: patched(Mirrored, "_carry_out", _does_it_again),
    "what is missing here is told to nobody": lambda: patched(Telling, "missed", _passes_nothing_on),
    "an event is accepted before it is on disk": lambda: patched(Mirrored, "confirm", _accepts_at_once),
    "what came is sent back": lambda: patched(Telling, "sent", _sends_back),
    "another queue loses what was acknowledged": lambda: patched(Removing, "remove", _takes_from_another_queue),
    "a deletion overtakes messages": lambda: patched(Telling, "tell", _deletions_overtake),
    "what was on its way goes behind what came later": lambda: patched(_stock(), "put_back", _comes_back_behind),
    "an answer waits for nobody": lambda: patched(Answers, "is_reached", _is_reached),
    "an answer waits for what was sent, not accepted": lambda: patched(Answers, "_find", _looks_at_the_last),
    "what is not on disk is answered at once": lambda: patched(Confirmations, "owes", _owes_nothing),
    "who does nothing that is mirrored waits, too": lambda: patched(Answers, "position", _blames_everybody),
    "nobody looks what was accepted": lambda: patched(Answers, "left", _never_looks),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
