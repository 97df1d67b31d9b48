"""What a node remembers of the copies that it hosts: decided here, over directories that a `Shelf` makes and reads.

A copy that counts may be the last one of its store. So a node that begins anew goes on with those that it hosted,
whether anybody asks or not; and a directory that was made for one store never becomes a copy of another one. Nothing
here is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol

from entrepot.cluster.clusters.copied import Copy, read_copy


class Shelf(Protocol):
    """Directories of copies, each by the identity of its store. What a call changes is on disk when it returns.

    Each raises OSError, and `whose` EntrepotError for what is damaged there.
    """

    def stores(self) -> list[str]:
        """Return of which stores there is a directory, sorted."""

    def make(self, store: str) -> None:
        """Have a directory for a copy of ``store``."""

    def note(self, store: str) -> bytes | None:
        """Return the note that is there, None where there is none."""

    def write(self, store: str, note: str) -> None:
        """Have ``note`` there, in the place of the one before."""

    def whose(self, store: str) -> str | None:
        """Return of which store the copy there says that it is, None where it says nothing yet."""

    def devote(self, store: str) -> None:
        """Have the copy there say that it is one of ``store``, and of no other ever."""


class Note(NamedTuple):
    """Whose copy a directory is, at which ``node`` that store is, and which ``number`` it has at its host."""

    copy: Copy
    node: str
    number: int

    def text(self) -> str:
        """Return it as it is written."""
        return json.dumps({"copy": self.copy.text(), "node": self.node, "number": self.number}) + "\n"


def read_note(octets: bytes) -> Note | None:
    """Return what a note says, None where it asks for no copy. Raises ValueError, KeyError, TypeError for another."""
    facts = json.loads(octets)
    copy = read_copy(str(facts["copy"]))
    return None if copy is None else Note(copy, str(facts["node"]), int(facts["number"]))


def prepare(shelf: Shelf, own: str, note: Note) -> str:
    """Have a directory for a copy; return why there can be none, "" if it is there. ``own``: the store of this broker.

    Done again over what a death in the middle of it left, it is done. Raises OSError, EntrepotError.
    """
    store = note.copy.store
    if store == own:
        return "it is the store of this broker"
    shelf.make(store)
    shelf.write(store, note.text())
    whose = shelf.whose(store)
    if whose is None:
        shelf.devote(store)
    elif whose != store:
        return f"it is a copy of another store, {whose}"
    return ""


def remember(shelf: Shelf, doubt: Callable[[str, Exception], None]) -> list[Note]:
    """Return what was hosted, in the order of its numbers. ``doubt`` hears of a store whose note makes no sense."""
    found: list[Note] = []
    for store in shelf.stores():
        try:
            octets = shelf.note(store)
            note = None if octets is None else read_note(octets)
        except (OSError, ValueError, KeyError, TypeError) as error:
            doubt(store, error)
            continue
        if note is not None and note.copy.store == store:
            found.append(note)
    return sorted(found, key=lambda one: one.number)
