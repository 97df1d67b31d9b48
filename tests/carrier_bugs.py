"""Bugs of core bridges, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from entrepot.cluster.carrying.bridge import CoreBridge
from entrepot.core.sending.duplicates import Duplicates
from entrepot.journal.reading import Reading
from entrepot.protocols.artemis.linking.carrier import Carrier
from entrepot.protocols.artemis.linking.crossing import Crossing
from entrepot.protocols.artemis.replies import Replies


def _settles_before_the_answer(genuine: Any) -> Any:
    def carry(self: Carrier, *rest: Any) -> int:
        genuine(self, *rest)
        return 0

    return carry


def _takes_a_reattachment_for_an_answer(genuine: Any) -> Any:
    def resumed(self: CoreBridge) -> None:
        self.link.confirmed_up_to(1 << 60, self.now())
        genuine(self)

    return resumed


def _loses_credits(genuine: Any) -> Any:
    return lambda self, packet: None


def _forgets_ids_of_bridges(genuine: Any) -> Any:
    def remember(self: Duplicates, address: str, *rest: Any) -> None:
        if not address.startswith("BRIDGE."):
            genuine(self, address, *rest)

    return remember


def _answers_before_the_disk(genuine: Any) -> Any:
    def done(self: Replies, wanted: bool, stored: bool, correlation: int = 0) -> Any:
        return genuine(self, wanted, False, correlation)

    return done


def _ids_of_a_run(genuine: Any) -> Any:
    def duplicate_id(self: Crossing, message: Any) -> bytes:
        return bytes(genuine(self, message)) + int(self.broker.ids.run).to_bytes(8, "big")

    return duplicate_id


def _ids_of_a_connection(genuine: Any) -> Any:
    def opened(self: CoreBridge) -> None:
        self.crossing.mark += b"+"
        genuine(self)

    return opened


def _does_not_look(genuine: Any) -> Any:
    return lambda self, number: True


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a message is settled before the answer": lambda: patched(Carrier, "carry", _settles_before_the_answer),
    "the duplicate id is forgotten at reconnect": lambda: patched(CoreBridge, "opened", _ids_of_a_connection),
    "the duplicate id is forgotten at a restart": lambda: patched(Crossing, "duplicate_id", _ids_of_a_run),
    "a reattachment is taken for an answer": lambda: patched(
        CoreBridge, "resumed", _takes_a_reattachment_for_an_answer
    ),
    "credits are lost": lambda: patched(Carrier, "_granted", _loses_credits),
    "the ids of bridges are not remembered": lambda: patched(Duplicates, "remember", _forgets_ids_of_bridges),
    "what leaves does not wait for our own disk": lambda: patched(Reading, "on_disk", _does_not_look),
    "the answer does not wait for the disk": lambda: patched(Replies, "done", _answers_before_the_disk),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
