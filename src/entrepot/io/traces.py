"""The trace on disk: segments of a fixed size in a directory, written through a mapping, the oldest dropped for space.

A block is copied into the mapped file: no system call on the path of messages, and what was copied outlives the process
whatever kills it. A thread does what may wait: it reserves the next segment ahead (so that a full disk is found here,
and not by a signal in the middle of a copy), cuts and closes full ones, and drops the oldest. Without a next segment
records are counted and not kept; the next segment says how many. docs/formats/trace.md draws the file.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import queue
import re
import struct
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from entrepot.base.checksum import crc32
from entrepot.base.environment import GIB, MIB
from entrepot.base.errors import InvalidOption, StoreUnusable
from entrepot.core.events.trace import BLOCK_HEAD_OCTETS, RECORD_OCTETS, TraceSink
from entrepot.io import seals
from entrepot.model.ids import message_id_prefix

if TYPE_CHECKING:
    from entrepot.core.broker import BrokerCore

MAGIC: Final = b"ENTRACE1"
SUFFIX: Final = ".trace"
LAYOUT: Final = 2  # 1 had no spans
SEGMENT_OCTETS: Final = 16 * MIB  # of which a flood at full speed fills one in some seconds
LIMIT_OCTETS: Final = 4 * GIB
COUNTS: Final = struct.Struct("<II")  # of a block: records, octets of names
CHECK: Final = struct.Struct("<I")
MADV_POPULATE_WRITE: Final = 23  # Linux; not in the module mmap
WARM_OCTETS: Final = 256 * 1024  # 0.1 ms, for which the loop may wait
AGAIN: Final = 0.5  # s between two tries to make a segment on a disk that is full
HEAD_OCTETS: Final = 4096  # a page, so that blocks are aligned and the head has room to grow

log: Final = logging.getLogger("entrepot.trace")


class Segment:
    """One file, reserved and mapped."""

    def __init__(self, path: Path, octets: int) -> None:
        """Make it. Raises OSError where there is no room."""
        self.path: Final = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            os.posix_fallocate(descriptor, 0, octets)
            self.map = mmap.mmap(descriptor, octets)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        self.octets: Final = octets
        self.at = HEAD_OCTETS

    def title(self, facts: dict[str, object]) -> None:
        """Write the head: magic, length, checksum, and who wrote it."""
        text = json.dumps(facts).encode()
        head = MAGIC + len(text).to_bytes(4, "little") + crc32(text).to_bytes(4, "little") + text
        self.map[: len(head)] = head

    def warm(self) -> None:
        """Have its pages made now, some at a time: otherwise each costs the loop a fault (12 ns a record, measured)."""
        try:
            for at in range(0, self.octets, WARM_OCTETS):
                self.map.madvise(MADV_POPULATE_WRITE, at, min(WARM_OCTETS, self.octets - at))
        except (OSError, ValueError):  # Linux before 5.14
            return

    def put(self, head: bytes, body: bytes) -> bool:
        """Write a block, its head last; False when there is no room for it."""
        first = self.at + BLOCK_HEAD_OCTETS
        end = first + len(body)
        if end > self.octets:
            return False
        self.map[first:end] = body
        self.map[self.at : first] = head
        self.at = end
        return True

    def close(self, before: bytes) -> bytes:
        """Give every block its checksum, cut the file to what is in use, and seal it; return its link. Raises OSError.

        ``before``: the link of the segment before it. The seal is last: what a reader finds sealed is whole.
        """
        at = HEAD_OCTETS
        with memoryview(self.map) as view:
            while at < self.at:
                count, named = COUNTS.unpack_from(view, at + 4)
                end = at + BLOCK_HEAD_OCTETS + count * RECORD_OCTETS + named
                with view[at + 16 : end] as body:
                    CHECK.pack_into(self.map, at + 12, crc32(body) or 1)  # 0: it has none yet
                at = end
            os.truncate(self.path, self.at)
            with view[: self.at] as kept:
                link = seals.link_of(before, kept)
        self.map[seals.AT : HEAD_OCTETS] = seals.seal(before, link)
        self.map.close()
        return link


class TraceFiles(TraceSink):
    """The trace of one broker in ``directory``, which others may use too. Call `describe`, then let a `Trace` write."""

    def __init__(self, directory: Path, *, segment: int = SEGMENT_OCTETS, limit: int = LIMIT_OCTETS) -> None:
        """``limit``: octets that all segments of this broker may take. Raises InvalidOption, StoreUnusable."""
        if segment < 4 * HEAD_OCTETS:
            raise InvalidOption(f"a segment of {segment} octets is too small for a trace")
        if limit < 3 * segment:
            raise InvalidOption(
                f"a trace of at most {limit} octets cannot hold three segments of {segment}", remedy="allow it more"
            )
        self.directory: Final = directory
        self.segment: Final = segment
        self.limit: Final = limit
        self.facts: dict[str, object] = {}
        self.written = 0  # facts
        self.lost = 0  # facts that found no segment
        self.dropped = 0  # segments that were dropped for space
        self._stem = ""
        self._serial = 0
        self._open: Segment | None = None
        self._spares: Final[queue.SimpleQueue[Segment | None]] = queue.SimpleQueue()
        self._tasks: Final[queue.SimpleQueue[Segment | None]] = queue.SimpleQueue()
        self._asked = False
        self._closing = False
        self._link = seals.NONE  # of the segment that was sealed last; belongs to the thread
        self._thread: threading.Thread | None = None
        try:
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"no trace can be kept in {directory}: {error.strerror}") from error

    def introduce(self, broker: BrokerCore, wall: int) -> None:
        """Say whose trace this is, from ``wall`` (ms since 1970) on."""
        ids, options = broker.ids, broker.options
        self.describe(ids.node_id, options.name, int(ids.run), options.version, wall, ids.node.uuid_text)

    def describe(self, node: str, name: str, run: int, version: str, created: int, uuid: str = "") -> None:
        """Begin: this is the broker ``node``, called ``name``, in its ``run``; ``created`` in ms since 1970.

        ``uuid``: what nodes of a cluster call it.

        Raises StoreUnusable when not even the first segment can be made.
        """
        self._stem = stem_of(node)
        kept = self._kept()
        self._serial = 1 + max((serial_of(path) for path in kept), default=0)
        self.facts = {"layout": LAYOUT, "node": node, "name": name, "run": run, "version": version, "created": created}
        self.facts["ids"] = message_id_prefix(node)
        self.facts["uuid"] = uuid
        try:
            self._become(self._make())
        except OSError as error:
            raise StoreUnusable(
                f"no trace can be kept in {self.directory}: {error.strerror}", remedy="make room, or leave --trace out"
            ) from error
        self._thread = threading.Thread(target=self._work, args=(kept,), name=f"trace-{self._stem}", daemon=True)
        self._thread.start()
        self._ask()

    # -- the loop's side ----------------------------------------------------------------------------------------------

    def fits(self, octets: int) -> bool:
        """Return whether the open segment has room; a block too large for any segment is lost, and said to be."""
        segment = self._open
        if segment is not None and segment.at + octets <= segment.octets:
            return True
        return octets > self.segment - HEAD_OCTETS

    def turn(self) -> None:
        """Take the next segment, if there is one by now."""
        full, self._open = self._open, None
        if full is not None:
            self._tasks.put(full)
        try:
            spare = self._spares.get_nowait()
        except queue.Empty:
            return
        self._asked = False
        if spare is not None:
            self._become(spare)
        self._ask()

    def write(self, head: bytes, records: bytes, names: bytes, facts: int) -> None:
        """Keep a block, or count what is lost."""
        segment = self._open
        if segment is not None and segment.put(head, records + names if names else records):
            self.written += facts
            return
        if self.lost == 0:
            log.error("the trace loses records: there is no segment to write them to")
        self.lost += facts

    def close(self) -> None:
        """Finish: the last segment is cut, the spare goes."""
        self._closing = True
        if self._open is not None:
            self._tasks.put(self._open)
            self._open = None
        self._tasks.put(None)
        if self._thread is not None:
            self._thread.join()
        while not self._spares.empty():
            spare = self._spares.get()
            if spare is not None:
                spare.map.close()
                spare.path.unlink(missing_ok=True)

    def _become(self, segment: Segment) -> None:
        segment.title({**self.facts, "serial": serial_of(segment.path), "lost": self.lost, "dropped": self.dropped})
        self._open = segment

    def _ask(self) -> None:
        if not self._asked and self._thread is not None:
            self._asked = True
            self._tasks.put(WANTED)

    # -- the thread's side --------------------------------------------------------------------------------------------

    def _work(self, kept: list[Path]) -> None:
        """``kept``: segments of runs before this one."""
        try:
            self._link = seals.adopt(kept)
        except OSError as error:
            log.error("what was traced before cannot be sealed: %s", error)
        failing = False
        while (task := self._tasks.get()) is not None:
            try:
                if task is not WANTED:
                    self._link = task.close(self._link)
                elif not self._closing:
                    self._make_room()
                    spare = self._make()
                    spare.warm()
                    self._spares.put(spare)
                    failing = False
            except OSError as error:
                if not failing:
                    log.error("the trace cannot go on for now: %s", error)
                failing = True
                if task is WANTED:
                    time.sleep(AGAIN)
                    self._spares.put(None)  # it is asked for again with the next block

    def _make(self) -> Segment:
        serial = self._serial
        self._serial += 1
        return Segment(self.directory / f"{self._stem}.{serial:08d}{SUFFIX}", self.segment)

    def _make_room(self) -> None:
        """Drop the oldest until one more segment is within the limit."""
        kept = self._kept()
        used = sum(path.stat().st_size for path in kept)
        while kept and used + self.segment > self.limit:
            oldest = kept.pop(0)
            used -= oldest.stat().st_size
            oldest.unlink()
            self.dropped += 1

    def _kept(self) -> list[Path]:
        return sorted(self.directory.glob(f"{self._stem}.*{SUFFIX}"))


def stem_of(node: str) -> str:
    """Return what the names of the segments of the broker ``node`` begin with, up to a dot."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", node)


def serial_of(path: Path) -> int:
    """Return the number of a segment; 0 for what has none."""
    digits = path.name.removesuffix(SUFFIX).rpartition(".")[2]
    return int(digits) if digits.isdigit() else 0


class _Wanted(Segment):
    """Asks the thread for a spare."""

    def __init__(self) -> None:
        self.at = 0


WANTED: Final = _Wanted()
