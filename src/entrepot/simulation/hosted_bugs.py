"""Bugs of nodes that host one another's copies, planted to see that the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.cluster.clusters.hosted import Backups
from entrepot.cluster.clusters.shelf import Note, Shelf, prepare
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.packets import BackupRequest
from entrepot.simulation.shelves import Drawer, SimulatedShelf

PLANTED: Final = (
    "notes are forgotten",  # a host that begins anew waits until it is asked
    "hosts nothing while it waits",  # a node whose store is served elsewhere hosts nothing, though it has the last copy
    "tried once",  # a host that could not start what it hosted waits until it is asked
    "a directory may have no name",  # the directory of a copy is not synced
    "a standing is made anew",  # what a copy knows of itself is overwritten each time that its process is started
    "a copy of nothing follows anybody",  # the lock is not asked whose store a primary has
    "one lock for all stores",  # the name of the node is not in the name of the lock
    "all have the same number",  # two backups of a host have the same ports
    "what was refused is refused for ever",  # a store that was given up once gets no backup here
    "yes is said at once",  # whoever asks is told that his backup is here
    "settled before the target has it",  # scale-down, and nobody waits for the target
    "stale copies are eligible",
)


class _Nameless(SimulatedShelf):
    def name(self, drawer: Drawer) -> None:
        """Its name is not synced."""


class _Numberless(Backups):
    def _free(self) -> int:
        return 1


class _Unforgiving(Backups):
    def _refusal(self, directory: str) -> str:
        return "it was refused" if directory in self._refused else super()._refusal(directory)


class _Obliging(Backups):
    def asked(self, onlooker: Onlooker, packet: BackupRequest) -> None:
        onlooker.hosted(True)


def _devoted(shelf: Shelf, own: str, note: Note) -> str:
    why = prepare(shelf, own, note)
    shelf.devote(note.copy.store)
    return why


SHELVES: Final[Mapping[str, type[SimulatedShelf]]] = {"a directory may have no name": _Nameless}

BACKUPS: Final[Mapping[str, type[Backups]]] = {
    "all have the same number": _Numberless,
    "what was refused is refused for ever": _Unforgiving,
    "yes is said at once": _Obliging,
}

PREPARES: Final[Mapping[str, Callable[[Shelf, str, Note], str]]] = {"a standing is made anew": _devoted}
