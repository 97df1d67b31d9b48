"""The verbs of the sink, asked of real brokers: tasks stage or send rows, the driver decides and publishes.

What makes that exactly once is in `entrepot.driver.commit`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from entrepot.base.errors import ProtocolViolation
from entrepot.driver import stages
from entrepot.driver.commit import Commit
from entrepot.driver.stages import Author, Committed, Staged
from entrepot.pipeline.blocking import Blocking
from entrepot.pipeline.options import Options
from entrepot.pipeline.rows import escaped
from entrepot.pipeline.wire import Wire

CHUNK_OCTETS: Final = 256 * 1024  # one write: a few socket buffers
CHECK_OCTETS: Final = 4 << 20  # octets between two looks for an objection


class Outlet:
    """A task's way to one broker: frames in, one confirmation at the end."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.count = 0
        self._last = b""  # held back: the confirmation is asked for with the last message
        self._chunk: list[bytes] = []
        self._octets = 0
        self._unchecked = 0

    def send(self, frames: Iterable[bytes]) -> None:
        """Send frames. Blocks while the broker takes no more. Raises what it objects to, Unreachable."""
        for frame in frames:
            self._append(self._last)
            self._last = frame
            self.count += 1

    def flush(self) -> None:
        """Write all that is left."""
        self._append(self._last)
        self._last = b""
        self._write()

    def confirm(self) -> None:
        """Wait until all that was sent is on disk: the receipt of the last message stands for those before it."""
        self._write()
        if self._last:
            receipt = self.wire.fresh_receipt()
            self.wire.write(self._last.replace(b"SEND\n", b"SEND\nreceipt:%b\n" % receipt.encode(), 1))
            self._last = b""
            self.wire.answer(receipt)

    def _append(self, frame: bytes) -> None:
        self._chunk.append(frame)
        self._octets += len(frame)
        if self._octets >= CHUNK_OCTETS:
            self._write()

    def _write(self) -> None:
        self.wire.write(b"".join(self._chunk))
        self._unchecked += self._octets
        self._chunk.clear()
        self._octets = 0
        if self._unchecked >= CHECK_OCTETS:
            self._unchecked = 0
            self.wire.check()


def stage(wire: Wire, sink: str, batch: int, author: Author) -> tuple[str, str]:
    """Open a stage; return the name of its part, and the header line that puts a message into it."""
    part = stages.part_name(wire.broker, uuid.uuid4().hex)
    wire.ask("STAGE", {"sink": sink, "batch": str(batch), "part": part, **author.headers()})
    return part, f"stage:{escaped(part)}\n"


def staged(outlet: Outlet, sink: str, batch: int, part: str, author: Author) -> Staged:
    """Close a stage when all of it is on disk."""
    outlet.flush()
    answer = outlet.wire.ask("STAGED", {"sink": sink, "batch": str(batch), "part": part})
    if int(answer.get("count", "-1")) != outlet.count:
        raise ProtocolViolation(
            f"{outlet.wire.shown} staged {answer.get('count')} of {outlet.count} messages", remedy="see its log"
        )
    octets, at_once = (int(answer.get(name, "0")) for name in ("octets", "octets-at-once"))
    return Staged(sink, batch, part, outlet.count, octets, at_once, author)


class Coordination:
    """The driver's side of a staged commit, on this thread."""

    def __init__(self, options: Options) -> None:
        self._world = Blocking(options)
        self._commit = Commit(options.reach(), time.monotonic)

    def commit(self, sink: str, batch: int, parts: Sequence[str], author: Author, *, forget: bool = False) -> Committed:
        """Make one decision about (``sink``, ``batch``) come true everywhere, as `Commit.commit` does."""
        return self._world.run(self._commit.commit(sink, batch, parts, author, forget=forget))

    def abort(self, sink: str, batch: int, parts: Sequence[str]) -> None:
        """Drop ``parts`` of a batch that failed."""
        self._world.run(self._commit.abort(sink, batch, parts))
