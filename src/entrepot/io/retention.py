"""A directory with what the journal does not need any more, for a time and up to a size: the oldest goes first.

Layout::

    DIR/*.seg           segments as they were written, under the names that they had in the journal
    DIR/*.published     empty: when messages of the segment with this id were moved to a queue, by its last write
    DIR/blobs/*.blob    large bodies

A file is moved here instead of being removed, by the thread of the store and in the order of what that is asked for:
one rename, and no octet is written. So the directory has to be on the file system of the journal. How old a file is,
its last write says: or when messages that were staged in it were published, if that was later.

A full disk takes from here first. What cannot be moved is removed, and the log says so: to keep what nobody waits for
is no reason to stop a broker.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import InvalidOption, StorageError
from entrepot.io.folders import is_blob
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE
from entrepot.io.written import Keeper, WrittenFiles
from entrepot.journal.epoch import boundaries_of
from entrepot.journal.index import segment_range
from entrepot.journal.keeping import NS_A_MS, Kept, in_order, newest_of, published_in
from entrepot.journal.names import segment_files
from entrepot.journal.ports import JournalPort
from entrepot.journal.retained import Archive, Extent

if TYPE_CHECKING:
    from entrepot.config.model import RetentionOptions
    from entrepot.io.disk import Disk
    from entrepot.journal.epoch import Boundary
    from entrepot.journal.log import JournalCore

PUBLISHED: Final = ".published"
LOOK_S: Final = 60.0
"""Where nothing is moved here, what is too old is looked for so often."""

log: Final = logging.getLogger("entrepot.node")


class Reading:
    """What a thread reads."""

    def __init__(self, future: Future[bytes]) -> None:
        self._future: Final = future

    def done(self) -> bool:
        """Return whether it is done."""
        return self._future.done()

    def octets(self) -> bytes:
        """Return what was read. Raises StorageError."""
        return self._future.result()


class Retention(Archive, Keeper):
    """The files of one directory. What changes it belongs to the thread of the store, all else to the loop.

    ``kept``: what is there. ``dirty``: names changed, and no sync has covered that.
    """

    keeps = True

    def __init__(self, options: RetentionOptions, files: WrittenFiles) -> None:
        """Make the directory if need be, and see what is there. Raises InvalidOption."""
        folders = files.folders
        self.directory: Final = Path(options.directory)
        self.options: Final = options
        self.bodies: Final = self.directory / "blobs"
        self.kept: Final = Kept(options.period_ms, options.limit)
        self.dirty = False
        self._files: Final = files
        self._folders: Final = folders
        self._looked = 0.0
        self._said = False
        self._marked: Final[dict[int, None]] = {}  # ids whose marks are not on disk yet
        self._reader: ThreadPoolExecutor | None = None
        self._boundaries: list[Boundary] = []
        try:
            self._make()
            for place in (self.directory, self.bodies):
                with os.scandir(place) as entries:
                    found = sorted(entries, key=lambda entry: not entry.name.endswith(PUBLISHED))
                    for entry in found:
                        identity = entry.name.removesuffix(PUBLISHED)
                        if identity != entry.name and identity.isascii() and identity.isdecimal():
                            self.kept.renew(int(identity), int(identity), entry.stat().st_mtime_ns)
                        elif self.kept.takes(entry.name):
                            self._note(entry.name, entry.stat())
            here, there = self.directory.stat().st_dev, folders.journal.stat().st_dev
            new = not folders.names()
        except OSError as error:
            raise InvalidOption(
                f"what the journal lets go of cannot be kept in {str(self.directory)!r}: {error.strerror}",
                remedy="let journal-retention-directory be one that the broker can write to",
            ) from None
        if new and self.kept.sizes:
            raise InvalidOption(
                f"{str(self.directory)!r} has what another journal let go of, and {str(folders.journal)!r} is empty:"
                " a new journal gives the same names, and would take the places of what is kept",
                remedy="move that directory away, or let journal-retention-directory be another one",
            )
        if here != there:
            raise InvalidOption(
                f"{str(self.directory)!r} is on another file system than the journal: files are moved, not copied",
                remedy="let journal-retention-directory be a place beside the journal",
            )

    def _make(self) -> None:
        self.bodies.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)

    # -- what is kept: the thread of the store -------------------------------------------------------------------------

    def keep(self, name: str, path: Path) -> bool:
        """Take the file ``name``, which the journal does not need any more; False when it is to be removed."""
        if not self.kept.takes(name):
            self.kept.awaits(name, waits=False)
            return False
        try:
            state = path.stat()
            os.rename(path, self.path(name))
        except FileNotFoundError:
            return not path.exists() or self._again(name, path)
        except OSError as error:
            self._tell(name, error)
            return False
        self._note(name, state)
        self.dirty = True
        self.look(force=True)
        return True

    def _again(self, name: str, path: Path) -> bool:
        """Somebody removed the directory: make it again."""
        try:
            self._make()
            state = path.stat()
            os.rename(path, self.path(name))
        except OSError as error:
            self._tell(name, error)
            return False
        self._note(name, state)
        self.dirty = True
        return True

    def _tell(self, name: str, error: OSError) -> None:
        if not self._said:  # once: with each file that follows it would be the same
            self._said = True
            log.error("%s cannot be kept in %s and is removed: %s", name, self.directory, error.strerror)

    def _note(self, name: str, state: os.stat_result) -> None:
        self.kept.add(name, state.st_size, state.st_mtime_ns)

    def renew(self, first: int, last: int, when: int) -> None:
        """Note when messages of segments, by their ids, were moved to a queue, over restarts too."""
        for identity in self.kept.renew(first, last, when):
            with suppress(OSError):  # somebody may have removed the directory: the next start reads it off the journal
                self._mark(identity, when)

    def awaited(self, name: str, *, waits: bool) -> None:
        """Let what the compacted segment ``name`` was made of stay, whatever its age, until it is not awaited."""
        self.kept.awaits(name, waits=waits)

    def _mark(self, identity: int, when: int) -> None:
        """Write down when; on disk with the next sync, as the record that says it."""
        descriptor = os.open(self._published(identity), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
        try:
            os.utime(descriptor, ns=(when, when))
        finally:
            os.close(descriptor)
        self._marked[identity] = None
        self.dirty = True

    def _published(self, identity: int) -> Path:
        return self.directory / f"{identity:09d}{PUBLISHED}"

    def look(self, *, force: bool = False) -> None:
        """Remove what is too old, or too much; now and then, unless there is a reason (``force``)."""
        now = time.monotonic()
        if not force and now - self._looked < LOOK_S:
            return
        self._looked = now
        self._remove(self.kept.spent(time.time_ns()))

    def give_up(self) -> bool:
        """The disk is full: remove the oldest file; False when there is none."""
        name = self.kept.take()
        self._remove([name] if name else [])
        return bool(name)

    def _remove(self, names: list[str]) -> None:
        for name in names:
            self.path(name).unlink(missing_ok=True)
            identity = int(segment_range(name)[0])
            if identity:
                self._published(identity).unlink(missing_ok=True)

    def sync(self) -> None:
        """Make the names durable, if there are new ones."""
        if not self.dirty:
            return
        self.dirty = False
        for identity in self._marked:
            _sync(self._published(identity))
        self._marked.clear()
        for place in (self.directory, self.bodies):
            _sync(place)

    # -- the start -----------------------------------------------------------------------------------------------------

    def before_recovery(self, port: JournalPort) -> None:
        """Note behind what a former master wrote too late to count."""
        self._boundaries = boundaries_of(port, segment_files(port.names())[0])

    def recovered(self, journal: JournalCore) -> None:
        """Forget what recovery removed because it was never confirmed; what it removed else stays."""
        newest = newest_of(journal)
        published = published_in(journal)
        alive = [(int(one.first), int(one.last)) for one in journal.tail.index.segments]

        def forget() -> None:
            self._forget(newest)
            self._renew_all(published, alive)

        self._files.worker.ask(forget)

    def _renew_all(self, published: list[tuple[int, int, str]], alive: list[tuple[int, int]]) -> None:
        """Note what a journal says was published, and forget what was noted of segments that are nowhere any more."""
        for first, last, name in published:
            for path in (self._folders.path(name), self.path(name)):
                with suppress(OSError):
                    self.renew(first, last, path.stat().st_mtime_ns)
                    break
        for identity in self.kept.renewed_ids():
            if not self.kept.has(identity) and (identity, identity) not in alive:
                self.kept.forget_renewal(identity)
                self._published(identity).unlink(missing_ok=True)

    def _forget(self, newest: int) -> None:
        self._remove(self.kept.unconfirmed(newest, self._boundaries))
        self.dirty = True  # or a power cut brings it back, beside new segments of the same numbers

    # -- reading: the loop ---------------------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        """Return where the file ``name`` is kept."""
        return (self.bodies if is_blob(name) else self.directory) / name

    def extents(self) -> list[Extent]:
        """Return the segments in the order of the log."""
        names = self._folders.names()  # first: what is moved meanwhile is there then
        with suppress(FileNotFoundError):  # somebody may have removed it
            names += os.listdir(self.directory)
        found: list[Extent] = []
        for name in in_order(names):
            for path in (self._folders.path(name), self.path(name)):
                try:
                    found.append(Extent(name, path.stat().st_mtime_ns // NS_A_MS))
                    break
                except FileNotFoundError:
                    continue
        return found

    def fetch(self, name: str, offset: int, length: int) -> Reading:
        """Begin to read octets of a file, wherever it is by now."""
        if self._reader is None:
            self._reader = ThreadPoolExecutor(1, "entrepot-replay")
        there = self._files.reader(name)
        return Reading(self._reader.submit(_read, partial(there, offset, length), self.path(name), offset, length))

    def close(self) -> None:
        """Let go of the thread that reads."""
        if self._reader is not None:
            self._reader.shutdown(wait=False, cancel_futures=True)

    def report(self) -> dict[str, object]:
        """Return where it is, its limits, and how much is kept; octets, ms."""
        return {
            "directory": str(self.directory),
            "period_ms": self.options.period_ms,
            "limit_octets": self.options.limit,
            "files": len(self.kept.sizes),
            "octets": self.kept.octets,
            "oldest_ms": self.kept.oldest() // NS_A_MS,
        }


def retain(disk: Disk, options: RetentionOptions | None) -> Retention | None:
    """Keep what ``disk`` lets go of from now on, before it is recovered; None: nothing. Raises InvalidOption."""
    if options is None:
        return None
    kept = Retention(options, disk.files)
    kept.before_recovery(disk)
    disk.files.keeper = kept
    disk.worker.reserve.others = kept.give_up
    return kept


def settle(kept: Retention | None, journal: JournalCore) -> None:
    """``journal`` was read back: what is kept of what that removed is known by what it found whole."""
    if kept is not None:
        kept.recovered(journal)


def _sync(path: Path) -> None:
    """Make a file or directory durable; somebody may have removed it, and the next file that comes makes it anew."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(there: Callable[[], bytes], path: Path, offset: int, length: int) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    try:
        return there()
    except StorageError:
        if not path.exists():  # it was moved between the two looks, if it is there now
            raise
    try:
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
