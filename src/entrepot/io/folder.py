"""A directory that several machines can write to, as the place where they announce themselves: JGroups' FILE_PING.

Each member has a file of its own, `NODE.announcement`, which it writes again with every announcement and removes when
it goes. Who listens reads what was written since it looked last. A slow share delays announcements, and nothing else: a
thread reads and writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from entrepot.base.errors import OperatorError

SUFFIX: Final = ".announcement"
LOOK_S: Final = 0.5
FILES_MAX: Final = 1_000  # others may fill a directory
OCTETS_MAX: Final = 65_535

Heard = Callable[[bytes, str], None]

log: Final = logging.getLogger("entrepot.cluster")


class Folder:
    """One directory. ``heard``: takes announcements, and from which file each is; None for who only speaks."""

    def __init__(self, directory: Path, name: str, heard: Heard | None = None) -> None:
        """``name``: of this member's own file."""
        self._directory: Final = directory
        self._own: Final = directory / f"{name}{SUFFIX}"
        self._heard: Final = heard
        self._seen: dict[str, int] = {}
        self._spoke = False
        self._closed = False
        self._under_way: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._said = ""

    async def open(self) -> Folder:
        """Make the directory if there is none, and begin to listen. Raises OperatorError."""
        try:
            await asyncio.to_thread(self._directory.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise OperatorError(
                f"cannot meet others in the directory {str(self._directory)!r}: {error.strerror}",
                remedy="let the location of FILE_PING be a directory that every member can write to",
            ) from None
        if self._heard is not None:
            self._looking = asyncio.get_running_loop().create_task(self._look(self._heard))
        return self

    def say(self, data: bytes) -> None:
        """Announce this member. While an earlier announcement is being written, this one is left out."""
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.get_running_loop().create_task(self._write(data))

    def close(self) -> None:
        """Stop, and take this member's file away."""
        self._closed = True  # a thread may be writing still, and takes the file away itself then
        for task in (self._under_way, self._looking):
            if task is not None:
                task.cancel()
        self._remove()

    def _remove(self) -> None:
        if self._spoke:
            with contextlib.suppress(OSError):
                self._own.unlink()

    async def _write(self, data: bytes) -> None:
        self._spoke = True
        try:
            await asyncio.to_thread(self._put, data)
        except OSError as error:
            self._tell(f"{self._own}: {error.strerror}")

    def _put(self, data: bytes) -> None:
        if self._closed:
            return
        draft = self._own.with_suffix(".new")
        draft.write_bytes(data)
        draft.replace(self._own)
        if self._closed:
            self._remove()

    async def _look(self, heard: Heard) -> None:
        while True:
            try:
                for name, data in await asyncio.to_thread(self._news):
                    heard(data, name)
            except OSError as error:
                self._tell(f"{self._directory}: {error.strerror}")
            await asyncio.sleep(LOOK_S)

    def _news(self) -> list[tuple[str, bytes]]:
        """Return what was written since the last look."""
        found: list[tuple[str, bytes]] = []
        seen: dict[str, int] = {}
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.name.endswith(SUFFIX) or len(seen) >= FILES_MAX:
                    continue
                with contextlib.suppress(OSError):  # it goes while we look
                    state = entry.stat()
                    seen[entry.name] = state.st_mtime_ns
                    if self._seen.get(entry.name) != state.st_mtime_ns and state.st_size <= OCTETS_MAX:
                        found.append((entry.name, Path(entry.path).read_bytes()))
        self._seen = seen
        return found

    def _tell(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.error("announcements: %s", what)
