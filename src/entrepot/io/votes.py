"""What a voter remembers, on disk: a file for each register that nothing short of two losses can make forget.

A file has two places of `PLACE` octets, each with a number, a length and a checksum. What is to be remembered is
written to one and synced, then to the other and synced; only then does anybody hear of it. So a write that is torn, or
lost although it was synced, leaves the other place; a place that rots is known by its checksum. The file never grows,
so a full disk does not end a vote. It holds the number of its own inode: a copy, or what came back from a backup, is
not what this voter knew last, and is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import struct
from _blake2 import blake2b  # as `model/told.py`
from contextlib import suppress
from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidOption, StoreLocked, StoreUnusable
from entrepot.ha.voter import Voter
from entrepot.ha.votes import Answer, Request, State, dump_state, load_state
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE

SUFFIX: Final = ".votes"
PLACE: Final = 64 * 1024
HEAD: Final = struct.Struct(">8sQQI16s")
"""Magic, inode, number, length of the JSON, checksum of all of that and the JSON."""
MAGIC: Final = b"entvote1"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
REGISTERS_MAX: Final = 64
"""Of one voter: who has the secret could fill its disk otherwise."""

LOST: Final = "remove the file: then it is a new voter, and is admitted again once all others are there"


class VoteFile:
    """One register's voter and its file. Not for two threads at a time."""

    def __init__(self, path: Path) -> None:
        """Open ``path``, or make it. Raises StoreUnusable, StoreLocked."""
        self.path: Final = path
        try:
            if not path.exists():
                _make(path)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StoreUnusable(
                f"{path} cannot be used: {error.strerror}", remedy="check the directory and its permissions"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise StoreLocked(f"another voter has {path}", remedy="give each a directory of its own") from error
        self._number = 0
        try:
            self.voter: Final = Voter(self._read())
        except BaseException:
            os.close(self._descriptor)
            raise

    def answer(self, request: Request) -> Answer:
        """Return what ``request`` is answered, once it is on disk. Raises OSError: nothing was promised then."""
        weighed = self.voter.weigh(request)
        if weighed.state is not None:
            self._write(weighed.state)
            self.voter.settle(weighed.state)
        return weighed.answer

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _read(self) -> State:
        inode = os.fstat(self._descriptor).st_ino
        found = [self._place(number) for number in (0, 1)]
        whole = [each for each in found if each is not None]
        if not whole:
            raise StoreUnusable(f"{self.path} is damaged: neither of its two places is whole", remedy=LOST)
        number, place, state = max(whole, key=lambda each: each[0])
        if place != inode:
            raise StoreUnusable(
                f"{self.path} is a copy, or was restored: what it promised since is not in it", remedy=LOST
            )
        self._number = number
        return state

    def _place(self, which: int) -> tuple[int, int, State] | None:
        octets = os.pread(self._descriptor, PLACE, which * PLACE)
        if len(octets) < HEAD.size:
            return None
        magic, inode, number, length, checksum = HEAD.unpack_from(octets)
        body = octets[HEAD.size : HEAD.size + length]
        if magic != MAGIC or len(body) != length or checksum != _checksum(inode, number, body):
            return None
        try:
            return number, inode, load_state(body)
        except ValueError:
            return None

    def _write(self, state: State) -> None:
        octets = _encode(os.fstat(self._descriptor).st_ino, self._number + 1, state)
        if len(octets) > PLACE:  # it would reach into the other place, and neither were whole
            raise OSError(errno.EFBIG, f"{len(octets)} octets do not fit into a place of {PLACE}")
        self._number += 1
        for which in (0, 1):
            os.pwrite(self._descriptor, octets, which * PLACE)
            os.fdatasync(self._descriptor)


class VoteStore:
    """All registers of one voter: a directory."""

    def __init__(self, directory: Path) -> None:
        """Open what is there. Raises StoreUnusable, StoreLocked."""
        self.directory: Final = directory
        self._files: dict[str, VoteFile] = {}
        try:
            directory.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
            names = sorted(each.name for each in directory.iterdir() if each.name.endswith(SUFFIX))
        except OSError as error:
            raise StoreUnusable(
                f"{directory} cannot be used: {error.strerror}", remedy="let the user who runs the voter write it"
            ) from error
        for name in names:
            self._files[name.removesuffix(SUFFIX)] = VoteFile(directory / name)

    def file(self, name: str) -> VoteFile:
        """Return the voter of the register ``name``, a new one if need be. Raises InvalidOption, StoreUnusable."""
        file = self._files.get(name)
        if file is None:
            if NAME.fullmatch(name) is None:
                raise InvalidOption(f"{name!r} is no name of a register", remedy="use letters, digits, . _ and -")
            if len(self._files) >= REGISTERS_MAX:
                raise InvalidOption(
                    f"this voter has {REGISTERS_MAX} registers already", remedy="remove the files of those not in use"
                )
            file = self._files[name] = VoteFile(self.directory / f"{name}{SUFFIX}")
        return file

    def states(self) -> dict[str, State]:
        """Return what each register's voter remembers."""
        return {name: file.voter.state for name, file in self._files.items()}

    def close(self) -> None:
        """Let go of all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()


def _make(path: Path) -> None:
    """Make the file of a voter that is new, whole or not at all. Raises OSError."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
    try:
        octets = _encode(os.fstat(descriptor).st_ino, 1, State(os.urandom(16).hex()))
        os.pwrite(descriptor, octets.ljust(PLACE, b"\0") * 2, 0)
        os.fsync(descriptor)
        os.rename(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    finally:
        os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _encode(inode: int, number: int, state: State) -> bytes:
    body = dump_state(state)
    return HEAD.pack(MAGIC, inode, number, len(body), _checksum(inode, number, body)) + body


def _checksum(inode: int, number: int, body: bytes) -> bytes:
    return blake2b(b"%d %d " % (inode, number) + body, digest_size=16).digest()
