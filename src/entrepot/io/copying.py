"""The directory of one copy of a replicated store: its standing, what is kept aside of it, and who has it.

::

    DIR/replica.json      the standing (`ha/standing.py`), replaced as a whole
    DIR/oldreplica.N/     files of a history that lost, as they were; N counts up
"""

from __future__ import annotations

import logging
import os
import re
import threading
from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidOption, StorageError
from entrepot.ha.options import FILE_LOCKER, SharedStoreOptions
from entrepot.ha.replica import Store
from entrepot.ha.standing import Standing, read_standing
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE, DirectoryLock, unusable

STANDING: Final = "replica.json"
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
        self._aside: Path | None = None
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

    def keep(self, name: str) -> None:
        """Keep a file as it is now, on disk before returning. Takes as long as that takes. Raises StorageError."""
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
                _sync(self._aside)
        except OSError as error:
            raise StorageError(f"{name} cannot be kept aside: {error.strerror}", remedy="make room") from error

    def _begin_aside(self) -> Path:
        numbers = sorted(int(found[1]) for each in self.directory.iterdir() if (found := ASIDE.fullmatch(each.name)))
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

    @property
    def aside(self) -> str:
        """Return where files were kept of late, "" where none were."""
        return "" if self._aside is None else str(self._aside)

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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
