"""The journal's files on this disk and on those of replicas: a `JournalPort` between the journal and its disk.

The journal knows nothing of it. Each operation that changes files goes to the disk and, in the same order, to those who
copy it (`Audience`); a sync is answered when this disk has it *and* the replication says that it may be confirmed. That
is the one place where a replica's word is waited for: everything that the broker promises waits for a sync.

A new name (`publish`) is told of when this disk has carried it out: one that did not fit is dropped instead.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.journal.ports import JournalEvents, JournalPort


class Audience:
    """Who is told of every operation, in order, before it is done here."""

    def created(self, name: str, expected: int) -> None:
        """A file begins, in place of one of that name."""

    def wrote(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Octets were written."""

    def trimmed(self, name: str, length: int) -> None:
        """Nothing is behind ``length``, nor will be."""

    def published(self, scratch: str, name: str) -> None:
        """A file has another name."""

    def dropped(self, name: str) -> None:
        """A file is gone."""

    def sealed(self, name: str) -> None:
        """A large body is whole."""

    def put_aside(self, name: str) -> None:
        """A large body is damaged."""

    def asked(self, number: int) -> None:
        """Sync ``number`` was asked for: all that was told of before belongs to it."""

    def synced(self, number: int) -> None:
        """This disk has all that belongs to sync ``number``; the answer is `Mirror.confirm`."""


class Mirror(JournalPort):
    """``ends``: the files that are, or are on their way to the disk, with their lengths; ``growing``: bodies that are
    not whole yet.
    """

    def __init__(self, files: JournalPort) -> None:
        self.files: Final = files
        self.locator = files.locator
        self.audience = Audience()
        self.ends: Final[dict[str, int]] = {}
        self.growing: Final[dict[str, bool]] = {}
        self.syncs = 0
        self._closed = False
        self._events = JournalEvents()
        self._tokens: Final[dict[int, int]] = {}
        self._scratch: Final[dict[str, str]] = {}  # name that was asked for -> scratch

    def confirm(self, number: int) -> None:
        """Tell the journal that all up to sync ``number`` may be confirmed."""
        reached = [] if self._closed else [each for each in self._tokens if each <= number]
        for each in reached:
            token = self._tokens.pop(each)
            self._events.synced(token)

    # -- reading -------------------------------------------------------------------------------------------------------

    def attach(self, events: JournalEvents) -> None:
        """Send completions to ``events``, and look what is there. Raises StoreUnusable."""
        self._events = events
        self.files.attach(_Completions(self, events))
        for name in self.files.names():
            self.ends[name] = int(self.files.size(name))
        for blob in self.files.blobs():
            self.ends[f"{blob}.blob"] = int(self.files.blob_size(blob))

    def names(self) -> list[str]:
        """Return as the disk."""
        return self.files.names()

    def size(self, name: str) -> int:
        """Return as the disk."""
        return int(self.files.size(name))

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return as the disk."""
        return self.files.read(name, offset, length)

    def renewed(self, first: int, last: int) -> None:
        """Tell the disk. A copy finds it out when it is read back."""
        self.files.renewed(first, last)

    def awaited(self, name: str, waits: bool) -> None:
        """Tell the disk. A copy finds it out when it is read back."""
        self.files.awaited(name, waits)

    def space(self) -> int:
        """Return as the disk."""
        return int(self.files.space())

    def blobs(self) -> list[int]:
        """Return as the disk."""
        return self.files.blobs()

    def blob_read(self, blob_id: int, offset: int, length: int) -> bytes:
        """Return as the disk."""
        return self.files.blob_read(blob_id, offset, length)

    def blob_size(self, blob_id: int) -> int:
        """Return as the disk."""
        return int(self.files.blob_size(blob_id))

    # -- changing ------------------------------------------------------------------------------------------------------

    def create(self, name: str, expected: int) -> None:
        """Make an empty file."""
        self.ends[name] = 0
        self.files.create(name, expected)
        self.audience.created(name, int(expected))

    def write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Write at ``offset``."""
        self.files.write(name, offset, head, body)
        self.ends[name] = max(self.ends.get(name, 0), int(offset) + len(head) + len(body))
        self.audience.wrote(name, int(offset), head, body)

    def trim(self, name: str, length: int) -> None:
        """Cut the file behind ``length``."""
        self.files.trim(name, length)
        self.ends[name] = int(length)
        self.audience.trimmed(name, int(length))

    def cut(self, name: str, length: int) -> None:
        """Cut, in recovery: before there is an audience."""
        self.files.cut(name, length)
        self.ends[name] = min(self.ends.get(name, 0), int(length))

    def publish(self, scratch: str, name: str) -> None:
        """Give ``scratch`` its name."""
        self._scratch[name] = scratch
        self.files.publish(scratch, name)

    def drop(self, name: str) -> None:
        """Remove a file."""
        self.ends.pop(name, None)
        self.files.drop(name)
        self.audience.dropped(name)

    def blob_create(self, blob_id: int) -> None:
        """Make an empty blob."""
        name = f"{int(blob_id)}.blob"
        self.ends[name] = 0
        self.growing[name] = True
        self.files.blob_create(blob_id)
        self.audience.created(name, 0)

    def blob_write(self, blob_id: int, chunk: bytes) -> None:
        """Append to a blob."""
        name = f"{int(blob_id)}.blob"
        offset = self.ends.get(name, 0)
        self.files.blob_write(blob_id, chunk)
        self.ends[name] = offset + len(chunk)
        self.audience.wrote(name, offset, chunk, b"")

    def blob_seal(self, blob_id: int) -> None:
        """Make the blob durable before what is asked for later."""
        name = f"{int(blob_id)}.blob"
        self.growing.pop(name, None)
        self.files.blob_seal(blob_id)
        self.audience.sealed(name)

    def blob_drop(self, blob_id: int) -> None:
        """Remove a blob."""
        name = f"{int(blob_id)}.blob"
        self.ends.pop(name, None)
        self.growing.pop(name, None)
        self.files.blob_drop(blob_id)
        self.audience.dropped(name)

    def blob_set_aside(self, blob_id: int) -> None:
        """Give a blob a name under which it is none any more."""
        name = f"{int(blob_id)}.blob"
        self.ends.pop(name, None)
        self.growing.pop(name, None)
        self.files.blob_set_aside(blob_id)
        self.audience.put_aside(name)

    def sync(self, token: int) -> None:
        """Make all that was asked for durable, here and where it counts."""
        self.syncs += 1
        self._tokens[self.syncs] = int(token)
        self.files.sync(self.syncs)
        self.audience.asked(self.syncs)

    def drain(self) -> None:
        """Return when this disk has done all. A replica is not waited for: the loop would have to turn."""
        self.files.drain()

    def close(self) -> None:
        """Do what was asked for, then let go of everything: from here on nothing is confirmed."""
        self._closed = True
        self.files.close()

    # -- what the disk says --------------------------------------------------------------------------------------------

    def named(self, name: str) -> None:
        """The disk has given a scratch file its ``name``."""
        scratch = self._scratch.pop(name, "")
        if scratch:
            self.ends[name] = self.ends.pop(scratch, 0)
            self.audience.published(scratch, name)

    def spoiled(self, scratch: str) -> None:
        """The disk had no room for a scratch file, and dropped it."""
        for name in [each for each, of in self._scratch.items() if of == scratch]:
            del self._scratch[name]
        self.ends.pop(scratch, None)
        self.audience.dropped(scratch)


class _Completions(JournalEvents):
    """What the disk says to the mirror; all but syncs go on to the journal as they are."""

    def __init__(self, mirror: Mirror, events: JournalEvents) -> None:
        self.mirror: Final = mirror
        self.events: Final = events

    def synced(self, token: int) -> None:
        self.mirror.audience.synced(int(token))

    def published(self, name: str) -> None:
        self.mirror.named(name)
        self.events.published(name)

    def spoiled(self, name: str) -> None:
        self.mirror.spoiled(name)
        self.events.spoiled(name)

    def tight(self, error: EntrepotError) -> None:
        self.events.tight(error)

    def relieved(self) -> None:
        self.events.relieved()

    def failed(self, error: EntrepotError) -> None:
        self.events.failed(error)
