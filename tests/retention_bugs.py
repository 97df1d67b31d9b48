"""Bugs of what is kept and replayed, planted to see that the simulation finds them. None of them is in the product."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from entrepot.core.operators import replaying
from entrepot.core.operators.replaying import Replay
from entrepot.journal.keeping import Kept
from entrepot.journal.retained import Scan


def _keeps_what_was_cut(genuine: Any) -> Any:
    return lambda self, newest, boundaries: []


def _takes_no_bodies(genuine: Any) -> Any:
    return lambda self, name: not name.endswith(".blob") and genuine(self, name)


def _gives_nothing_up(genuine: Any) -> Any:
    return lambda self: ""


def _forgets_the_youngest(genuine: Any) -> Any:
    def take(self: Kept) -> str:
        name = max(self.sizes, key=lambda one: self._written[one], default="")
        self.forget(name)
        return name

    return take


def _leaves_out_the_growing_segment(genuine: Any) -> Any:
    def extents(broker: Any, archive: Any) -> Any:
        return [one for one in genuine(broker, archive) if one.name != broker.journal.tail.active.name]

    return extents


def _holds_no_body(genuine: Any) -> Any:
    def with_body(self: Replay, copy: Any) -> Any:
        overflow = self.broker.journal.overflow
        if copy.need_rare().large_id in overflow.sizes:
            return iter(())
        return genuine(self, copy)

    return with_body


def _reads_other_addresses(genuine: Any) -> Any:
    return lambda self, data, place, wanted: genuine(self, data, place, b"other") or genuine(self, data, place, wanted)


def _is_as_old_as_it_was_staged(genuine: Any) -> Any:
    return lambda self, first, last, when: []


def _awaits_nothing(genuine: Any) -> Any:
    return lambda self, name, *, waits: None


def _looks_for_no_publications(genuine: Any) -> Any:
    return lambda self, data, body, wanted: iter(())


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "what was never confirmed is kept": lambda: patched(Kept, "unconfirmed", _keeps_what_was_cut),
    "bodies are not kept": lambda: patched(Kept, "takes", _takes_no_bodies),
    "a full disk takes nothing of it": lambda: patched(Kept, "take", _gives_nothing_up),
    "the youngest goes first": lambda: patched(Kept, "take", _forgets_the_youngest),
    "the segment that grows is left out": lambda: patched(replaying, "_extents", _leaves_out_the_growing_segment),
    "a body that is shared is not held": lambda: patched(Replay, "_with_body", _holds_no_body),
    "what is published is as old as when it was staged": lambda: patched(Kept, "renew", _is_as_old_as_it_was_staged),
    "what is staged is not waited for": lambda: patched(Kept, "awaits", _awaits_nothing),
    "what was published is not found": lambda: patched(Scan, "_moved", _looks_for_no_publications),
    "messages of other addresses are sent": lambda: patched(Scan, "_message", _reads_other_addresses),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
