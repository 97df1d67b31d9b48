"""A configuration that is read again while its broker runs, when one of its files was changed (artemis.md 8.2).

Files are looked at and read beside the loop, in a thread: the disk that they are on may be slow. What is wrong is said
once for each change, with file and line, and what held goes on to hold.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import EntrepotError
from entrepot.config.findings import Severity

if TYPE_CHECKING:
    from entrepot.config.findings import Findings
    from entrepot.config.model import BrokerConfig
    from entrepot.config.reading import Reading

Signs = dict[Path, tuple[int, int, int]]
"""What tells that a file is another one: time of its change (ns), length, number on its disk."""

ABSENT: Final = (0, 0, 0)
FAILED: Final = "the configuration was changed and cannot be used, what held goes on to hold"

log: Final = logging.getLogger("entrepot.config")


def signs(files: Iterable[Path]) -> Signs:
    """Look at ``files``; one that is not there has no sign."""
    found: Signs = {}
    for file in files:
        try:
            facts = file.stat()
        except (OSError, ValueError):
            continue
        found[file] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
    return found


def signed(files: Iterable[Path]) -> Signs:
    """Look at ``files`` that were read just now; those that are not there are among them."""
    return dict.fromkeys(files, ABSENT) | signs(files)


class Origin:
    """Where a configuration comes from. ``read`` makes it again; ``first``: what it was when it was read just now."""

    def __init__(self, read: Callable[[], Reading], first: Reading) -> None:
        self.read: Final = read
        self.files: Final = signed(first.files)
        self.said: Final = {finding.describe(): None for finding in first.findings.sorted()}


class Reloader:
    """Looks at the files of ``origin`` every ``period`` seconds; ``apply`` lets a configuration hold."""

    def __init__(self, origin: Origin, period: float, apply: Callable[[BrokerConfig], Awaitable[list[str]]]) -> None:
        """``apply`` returns what takes a restart, in words, and raises EntrepotError where it changed nothing."""
        self._files: tuple[Path, ...] = tuple(origin.files)  # those that are not there, too
        self._period: Final = period
        self._read: Final = origin.read
        self._apply: Final = apply
        self._signs: Signs = {file: sign for file, sign in origin.files.items() if sign != ABSENT}
        self._known: dict[str, None] = origin.said  # notes and warnings that were said
        self._task: asyncio.Task[None] | None = None
        self._asked: asyncio.Event | None = None

    def start(self) -> None:
        """Look from now on, unless ``period`` is 0: then only when `ask` says so."""
        self._asked = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    def ask(self) -> None:
        """Read everything again soon, changed or not."""
        if self._asked is not None:
            self._asked.set()

    async def look(self) -> bool:
        """Look once; return whether there was a change, and it holds now."""
        seen = await asyncio.to_thread(signs, self._files)
        if seen == self._signs:
            return False
        self._signs = seen
        return await self.reload()

    async def reload(self) -> bool:
        """Read everything again, changed or not; return whether it holds now."""
        try:
            reading = await asyncio.to_thread(self._read)
        except EntrepotError as error:
            log.error("%s: %s", FAILED, error)
            return False
        self._watch(reading.files)
        config = reading.config
        if config is None:
            for finding in reading.findings.errors:
                log.error("%s: %s", FAILED, finding.describe())
            return False
        try:
            restart = await self._apply(config)
        except EntrepotError as error:
            log.error("%s: %s", FAILED, error)
            return False
        self._tell(reading.findings)
        for what in restart:
            log.warning("changed in the configuration, and takes a restart: %s", what)
        log.info("the configuration was read again")
        return True

    async def _run(self) -> None:
        assert self._asked is not None
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), self._period or None)
            try:
                if self._asked.is_set():
                    self._asked.clear()
                    self._signs = await asyncio.to_thread(signs, self._files)
                    await self.reload()
                else:
                    await self.look()
            except Exception:  # a bug of ours: the next change may be read all the same
                log.exception(FAILED)

    def _watch(self, files: tuple[Path, ...]) -> None:
        """Look at ``files`` from now on; one that is new in this list was read just now."""
        self._signs = {file: sign for file, sign in self._signs.items() if file in files} | signs(
            file for file in files if file not in self._files
        )
        self._files = files

    def _tell(self, findings: Findings) -> None:
        """Say the notes and warnings that are new."""
        said = {finding.describe(): finding.severity for finding in findings.sorted()}
        for text, severity in said.items():
            if text not in self._known:
                log.log(logging.INFO if severity is Severity.NOTE else logging.WARNING, "%s", text)
        self._known = dict.fromkeys(said)
