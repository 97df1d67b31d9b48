"""The directory of one copy of a replicated store: its standing, what is kept aside of it, and who has it.

::

    DIR/replica.json      the standing (`ha/standing.py`), replaced as a whole
    DIR/oldreplica.N/     files of a history that lost, as they were; N counts up
        differs           a line of JSON for each: from which octet on it differs, and how many octets there are
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from entrepot.base.errors import InvalidOption, StorageError
from entrepot.ha.options import FILE_LOCKER, SharedStoreOptions
from entrepot.ha.replica import LOOK_BYTES, Store
from entrepot.ha.standing import Standing, read_standing
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE, DirectoryLock, unusable

STANDING: Final = "replica.json"
DIFFERS: Final = "differs"
NAMED_MAX: Final = 8  # files that are told by name
ASIDE: Final = re.compile(r"oldreplica\.(\d+)")
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")

log: Final = logging.getLogger("entrepot.ha")


class CopyDirectory(Store):
    """One data directory that is a copy, locked for this process until `release`."""

    def __init__(self, directory: Path, name: str, options: SharedStoreOptions) -> None:
        """Lock it, and have on disk what an earlier process left. Raises StoreLocked, StoreUnusable."""
        self.directory: Final = directory
        self._lock: Final = DirectoryLock(directory, name)
        self._kept = 2 if options.replication is None else options.replication.kept
        self._name: Final = name
        self._aside: Path | None = None  # where what is kept now belongs
        self.aside = self.differed = ""  # what was kept last: where, and what differs
        self.kept_aside: Callable[[int, str], None] = lambda epoch, what: None
        self._one_at_a_time: Final = threading.Lock()
        try:
            boot = BOOT.read_text().strip()
        except OSError:
            boot = ""
        try:
            octets = (directory / STANDING).read_bytes()
        except FileNotFoundError:
            octets = b""
        except OSError as error:
            raise unusable(directory, error) from error
        if octets:
            self.standing = read_standing(octets, part=options.part, boot=boot)
        else:
            self.standing = Standing(os.urandom(8).hex(), part=options.part, boot=boot)
        numbers = self._numbers()
        if numbers:
            self._look(self.directory / f"oldreplica.{numbers[-1]}")
        try:
            self.settle()
            self.persist(self.standing)
        except OSError as error:
            raise unusable(directory, error) from error

    def settle(self) -> None:
        """Sync every file: a process that was killed may have left in memory what it wrote. Raises OSError."""
        for folder in (self.directory / "journal", self.directory / "blobs"):
            if folder.is_dir():
                for path in folder.iterdir():
                    if path.is_file():
                        _sync(path)
                _sync(folder)

    def persist(self, standing: Standing) -> None:
        """Have ``standing`` on disk. Raises StorageError.

        Who keeps the lease says it on a thread of his own, and who follows on that of his disk.
        """
        with self._one_at_a_time:
            self._write(standing)

    def _write(self, standing: Standing) -> None:
        draft = self.directory / f"{STANDING}.new"
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
            try:
                os.write(descriptor, standing.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(draft, self.directory / STANDING)
            _sync(self.directory)
        except OSError as error:
            raise StorageError(
                f"{STANDING} cannot be written in {self.directory}: {error.strerror}", remedy="check the disk"
            ) from error

    # -- what is kept aside --------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """What is kept from now on belongs together."""
        self._aside = None

    def keep(self, name: str, first: int) -> None:
        """Keep a file as it is now, on disk before returning. Takes as long as that takes. Raises StorageError.

        ``first``: the octet from which on it is not what the primary has.
        """
        if self._kept == 0:
            return
        import shutil  # noqa: PLC0415 - half a MB for what is rare

        source = self.directory / ("blobs" if name.endswith(".blob") else "journal") / name
        try:
            if self._aside is None:
                self._aside = self._begin_aside()
            target = self._aside / name
            if source.is_file() and not target.exists():
                draft = self._aside / f"{name}.part"  # a copy that was cut short is none
                shutil.copyfile(source, draft)
                draft.chmod(OWNER_FILE)
                _sync(draft)
                draft.replace(target)
                _note(self._aside, name, first, _filled(target) - first)
                _sync(self._aside)
        except OSError as error:
            raise StorageError(f"{name} cannot be kept aside: {error.strerror}", remedy="make room") from error

    def _begin_aside(self) -> Path:
        numbers = self._numbers()
        if self._kept > 0:
            import shutil  # noqa: PLC0415 - as above

            for number in numbers[: max(0, len(numbers) + 1 - self._kept)]:
                old = self.directory / f"oldreplica.{number}"
                shutil.rmtree(old, ignore_errors=True)
                log.warning("%s is deleted: %d old copies are kept, and another one begins", old, self._kept)
        made = self.directory / f"oldreplica.{1 + max(numbers, default=0)}"
        made.mkdir(mode=OWNER_DIRECTORY)
        _sync(self.directory)
        log.warning("what this copy has and the primary does not is kept in %s", made)
        return made

    def alike(self, primary: str, epoch: int) -> None:
        """Say what was kept, if anything was: nothing of it is in the copy that there is now."""
        if self._aside is None:
            return
        self._look(self._aside)
        self._aside = None
        log.warning(
            "%s had what %s has not, or has otherwise: %s; it is kept in %s and was not merged: "
            "`entrepot data print` shows it",
            self._name, primary, self.differed, self.aside,
        )  # fmt: skip
        self.kept_aside(epoch, f"{self.differed}; kept in {self.aside}")

    def _numbers(self) -> list[int]:
        return sorted(int(found[1]) for each in self.directory.iterdir() if (found := ASIDE.fullmatch(each.name)))

    def _look(self, kept: Path) -> None:
        self.aside = str(kept)
        self.differed = told(kept)

    def release(self) -> None:
        """Let others have the directory."""
        self._lock.release()


def lock_directory(locker: str) -> Path | None:
    """Return the directory of a lock that is a file, None for one in a service. Raises InvalidOption."""
    scheme, colon, rest = locker.partition(":")
    if scheme != FILE_LOCKER:
        return None
    if not colon or not rest:
        raise InvalidOption(
            "brokers that replicate have no directory in common, so the lock needs a place of its own",
            remedy="name it: --locker file:/mnt/shared/lock, postgresql://..., zookeeper://... or witness",
        )
    return Path("/" + rest.lstrip("/") if rest.startswith("/") else rest)


def told(kept: Path) -> str:
    """Return what differs in a directory of old files; "" where nobody noted it."""
    found: list[dict[str, Any]] = []
    try:
        for line in (kept / DIFFERS).read_text().splitlines():
            with suppress(ValueError):  # cut short by a crash
                found.append(json.loads(line))
    except OSError:
        return ""
    each = [f"{one['file']} from octet {one['from']} on, {one['octets']} octets" for one in found[:NAMED_MAX]]
    return "; ".join([*each, *([f"{len(found) - NAMED_MAX} files more"] if len(found) > NAMED_MAX else [])])


def _filled(path: Path) -> int:
    """Return the length of a file without the zeros at its end: room that was kept for what is to come."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            at = max(0, end - LOOK_BYTES)
            file.seek(at)
            octets = file.read(end - at).rstrip(b"\0")
            if octets:
                return at + len(octets)
            end = at
    return 0


def _note(kept: Path, name: str, first: int, octets: int) -> None:
    line = json.dumps({"file": name, "from": first, "octets": max(0, octets)}) + "\n"
    descriptor = os.open(kept / DIFFERS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, OWNER_FILE)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
