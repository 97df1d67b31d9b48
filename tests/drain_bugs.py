"""Bugs of drains, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
`HISTORIC` were in the product until this simulation found them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from carrier_bugs import BUGS as CARRIED
from entrepot.cluster.clusters import dated
from entrepot.cluster.clusters.contents import Contents
from entrepot.cluster.clusters.drain_ways import Ways
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.gift import Gift
from entrepot.cluster.clusters.remembered import Remembered
from entrepot.core.transactions.branches import Branches


def _nothing(genuine: Any) -> Any:
    return lambda *given, **named: None


def _is_done_before_the_disk(genuine: Any) -> Any:
    return lambda self: self._finish()


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


HISTORIC: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a drain is done before the disk knows it": lambda: patched(Drain, "_store", _is_done_before_the_disk),
    "ids that come while ids are told are not told": lambda: patched(Remembered, "more", _tells_once),
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
BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {**HISTORIC, **OTHERS}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
