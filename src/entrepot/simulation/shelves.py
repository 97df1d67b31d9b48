"""What a simulated node has on disk of the copies that it hosts: notes that a power cut meets in the middle of them."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.cluster.clusters.shelf import Shelf
from entrepot.ha.lease import BACKUP
from entrepot.ha.standing import Standing, read_standing


class PowerCut(BaseException):
    """The machine stops in the middle of what is written."""


class Drawer:
    """The directory of one copy: its files that are replaced as wholes. ``named``: a power cut does not take it."""

    def __init__(self) -> None:
        self.note: bytes | None = None
        self.standing: bytes | None = None
        self.named = False


class SimulatedShelf(Shelf):
    """``steps``: of what is asked for as many are done, and then the power fails; -1: it does not."""

    def __init__(self, token: Callable[[int], bytes]) -> None:
        self.drawers: dict[str, Drawer] = {}
        self.steps = -1
        self._token = token

    def _step(self) -> None:
        if self.steps == 0:
            self.steps = -1
            raise PowerCut
        self.steps -= self.steps > 0

    def crash(self) -> list[str]:
        """The machine stops; return of which stores the directory has gone."""
        gone = [store for store, drawer in self.drawers.items() if not drawer.named]
        for store in gone:
            del self.drawers[store]
        return gone

    def stores(self) -> list[str]:
        """Return of which stores there is a directory."""
        return sorted(self.drawers)

    def make(self, store: str) -> None:
        """Make it, and then its name durable."""
        self._step()
        drawer = self.drawers.setdefault(store, Drawer())
        self._step()
        self.name(drawer)

    def name(self, drawer: Drawer) -> None:
        """Have the name of a directory on disk."""
        drawer.named = True

    def note(self, store: str) -> bytes | None:
        """Return the note."""
        return self.drawers[store].note

    def write(self, store: str, note: str) -> None:
        """Replace the note."""
        self._step()
        self.drawers[store].note = note.encode()

    def whose(self, store: str) -> str | None:
        """Return what the standing says."""
        octets = self.drawers[store].standing
        return None if octets is None else read_standing(octets, part=BACKUP, boot="").store

    def devote(self, store: str) -> None:
        """Write a standing."""
        self._step()
        self.drawers[store].standing = Standing(self._token(8).hex(), store=store).encode()
