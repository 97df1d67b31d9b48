"""Where a node keeps the copies that it hosts for others, and what it remembers of them.

::

    DIR/hosted/STORE/               a data directory: of the process that is the backup
    DIR/hosted/STORE/hosted.json    whose copy it is, and which number it has here
    DIR/hosted/STORE/replica.json   made with the store's identity, so that it never becomes a copy of another one

What is written there, in which order, and what is made of it is decided in `cluster/clusters/shelf.py`. Nothing here is
deleted but by an operator, with the node stopped.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.cluster.clusters.copied import Copy
from entrepot.cluster.clusters.shelf import Note, Shelf, prepare, read_note, remember
from entrepot.config.rewriting import rewrite, sync_name
from entrepot.ha.lease import BACKUP
from entrepot.ha.standing import Standing, read_standing
from entrepot.io.copying import STANDING
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE

FOLDER: Final = "hosted"
NOTE: Final = "hosted.json"

log: Final = logging.getLogger("entrepot.ha")


def folder_of(own: Path, copy: Copy) -> Path:
    """Return the data directory of a copy at the broker whose own is ``own``."""
    return own / FOLDER / copy.store


class HostedFolders(Shelf):
    """Those below the data directory ``own``."""

    def __init__(self, own: Path) -> None:
        self._folder: Final = own / FOLDER

    def stores(self) -> list[str]:
        """Return of which stores there is a directory; none where nothing was hosted yet."""
        try:
            return sorted(each.name for each in self._folder.iterdir())
        except OSError:
            return []

    def make(self, store: str) -> None:
        """Make it, and have its name on disk."""
        folder = self._folder / store
        folder.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
        for name in (folder, folder.parent):  # else a power cut takes the directory, and what was confirmed, with it
            sync_name(name)

    def note(self, store: str) -> bytes | None:
        """Return `NOTE`."""
        return _read(self._folder / store / NOTE)

    def write(self, store: str, note: str) -> None:
        """Replace `NOTE`."""
        rewrite(self._folder / store / NOTE, note, OWNER_FILE)

    def whose(self, store: str) -> str | None:
        """Return what the standing says. Raises StoreUnusable for a damaged one."""
        octets = _read(self._folder / store / STANDING)
        return None if octets is None else read_standing(octets, part=BACKUP, boot="").store

    def devote(self, store: str) -> None:
        """Write a standing of ``store``."""
        standing = Standing(os.urandom(8).hex(), store=store)
        rewrite(self._folder / store / STANDING, standing.encode().decode(), OWNER_FILE)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def prepared(own: Path, store: str, copy: Copy, node: str, number: int) -> str:
    """Have a directory for a copy; return why there can be none, "" if it is there. ``store``: of this broker."""
    folder = folder_of(own, copy)
    try:
        why = prepare(HostedFolders(own), store, Note(copy, node, number))
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"
    except EntrepotError as error:
        return f"{folder}: {error.message}"
    return f"{folder}: {why}" if why and copy.store != store else why


def noted(folder: Path) -> Note | None:
    """Return whose copy a directory is, at which node, with which number; None where it is no copy that is hosted."""
    try:
        octets = _read(folder / NOTE)
        return None if octets is None else read_note(octets)
    except (OSError, ValueError, KeyError, TypeError) as error:
        _doubt(folder, error)
        return None


def remembered(own: Path) -> list[Note]:
    """Return what was hosted at the broker whose directory is ``own``, in the order of its numbers."""
    return remember(HostedFolders(own), lambda store, error: _doubt(own / FOLDER / store, error))


def _doubt(folder: Path, error: Exception) -> None:
    log.warning("%s does not say whose copy it is: %r", folder / NOTE, error)
