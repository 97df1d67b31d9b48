"""Bugs of drains, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
`HISTORIC` and `BESIDE` were in the product until this simulation found them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from bridge_bugs import patched
from carrier_bugs import BUGS as CARRIED
from entrepot.cluster.clusters import dated, drain_stays, drain_ways
from entrepot.cluster.clusters.contents import Contents
from entrepot.cluster.clusters.drain_stays import Stays
from entrepot.cluster.clusters.drain_ways import Ways
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.gift import Gift
from entrepot.cluster.clusters.remembered import Remembered
from entrepot.cluster.clusters.withheld import Withheld
from entrepot.core.addressing.routing import RoutingTable
from entrepot.core.transactions.branches import Branches
from entrepot.protocols.artemis.linking.crossing import Crossing


def _nothing(genuine: Any) -> Any:
    return lambda *given, **named: None


def _is_done_before_the_disk(genuine: Any) -> Any:
    return lambda self: self._finish()


def _counts_at_once(genuine: Any) -> Any:
    def keep(self: Any, name: str) -> None:
        self.receipts[name].moved = self.receipts[name].arrived

    return keep


@contextmanager
def _asks_no_disk() -> Iterator[None]:
    """Neither at the end, nor on the way there."""
    with patched(Drain, "_store", _is_done_before_the_disk), patched(Ways, "_keep", _counts_at_once):
        yield


def _tells_nobody(genuine: Any) -> Any:
    return lambda self: self._store()


def _tells_once(genuine: Any) -> Any:
    return lambda self: False


def _without_its_date(genuine: Any) -> Any:
    def hand_out(broker: Any, copy: Any, queues: Any) -> Any:
        copy.need_rare().deliver_at = 0
        return genuine(broker, copy, queues)

    return hand_out


def _goes_without_its_takes(genuine: Any) -> Any:
    def init(self: Any, broker: Any, branch: Any) -> None:
        genuine(self, broker, branch)
        self._holds.clear()

    return init


def _begins_anew_unasked(genuine: Any) -> Any:
    return lambda self: self._is_ours_again()


def _is_withheld_from_nobody(genuine: Any) -> Any:
    return lambda self, queue: 0


def _begins_at_once(genuine: Any) -> Any:
    def begin(self: Ways, name: str) -> None:
        self._go(name)

    return begin


def _of_readers_too(genuine: Any) -> Any:
    def movable(queue: Any, held: Any) -> int:
        return int(queue.count)

    return movable


def _waits_for_who_asks(genuine: Any) -> Any:
    return lambda lease, now: now - lease.heard < drain_stays.PATIENCE


def _says_nothing(genuine: Any) -> Any:
    return lambda self: []


def _of_any_node(genuine: Any) -> Any:
    return lambda self, address, routes, node="": genuine(self, address, routes)


def _under_another_id(genuine: Any) -> Any:
    def known_id(self: Crossing, message: Any) -> Any:
        key, self.route_key = self.route_key, ""
        try:
            return genuine(self, message)
        finally:
            self.route_key = key

    return known_id


BESIDE: dict[str, Callable[[], AbstractContextManager[None]]] = {  # in worlds where a third node reads meanwhile
    "redistribution takes what a drain may have given": lambda: patched(Withheld, "up_to", _is_withheld_from_nobody),
    "a queue is given away before the disk knows it": lambda: patched(Ways, "_begin", _begins_at_once),
    "what waits for a third node goes to one with a queue of that number": lambda: patched(
        RoutingTable, "beyond", _of_any_node
    ),
    "what waits for a third node goes there under another id": lambda: patched(
        Crossing, "_known_id", _under_another_id
    ),
}
HISTORIC: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a drain is done before the disk knows it": _asks_no_disk,
    "ids that come while ids are told are not told": lambda: patched(Remembered, "more", _tells_once),
}
LEASED: dict[str, Callable[[], AbstractContextManager[None]]] = {  # of ranges that readers hold
    "a drain waits for what a lease holds": lambda: patched(drain_ways, "movable", _of_readers_too),
    "a drain waits for whoever asks for more": lambda: patched(drain_stays, "_is_at_work", _waits_for_who_asks),
    "a drain says nothing of what a lease holds": lambda: patched(Stays, "rows", _says_nothing),
}
OTHERS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "no ids are told": lambda: patched(Drain, "_tell_ids", _tells_nobody),
    "what has a date loses it": lambda: patched(dated, "hand_out", _without_its_date),
    "a branch is given without what it has taken": lambda: patched(Contents, "__init__", _goes_without_its_takes),
    "a branch is given anew without asking": lambda: patched(Gift, "_ask", _begins_anew_unasked),
    "nobody notes that a branch is given": lambda: patched(Branches, "give", _nothing),
    "an aborted drain goes on": lambda: patched(Ways, "stop", _nothing),
    "on the way: a message is settled before the answer": CARRIED["a message is settled before the answer"],
}
BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {**HISTORIC, **OTHERS, **LEASED, **BESIDE}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
