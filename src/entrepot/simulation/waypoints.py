"""What stands between two brokers that speak AMQP and is neither: frames of links, changed or swallowed on their way.

A `FilteredEnd` is the accepting broker's end of a cable. It takes that broker for a router where it is told that a
broker is the store of an address (`qpid.waypoint`), for a peer that takes no large messages, and for one that is there
and does not answer links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from librt.strings import BytesWriter

from entrepot.base.environment import Duration, Instant
from entrepot.protocols.amqp.codec import Decoder, Encoder
from entrepot.protocols.amqp.performatives import Attach, Composite, Flow, Source, Target
from entrepot.protocols.amqp.session import RECEIVER
from entrepot.simulation.cables import End, Machine

WAYPOINT: Final = "qpid.waypoint"
STORED: Final = ".in"  # what a router has for the store of an address
OUT: Final = ".out"  # what it has from there, for whoever reads
PREAMBLE: Final = b"AMQP"  # of a protocol header, which is no frame
HEAD_OCTETS: Final = 8  # of both
CODES: Final = (0x12, 0x13)  # of attach and flow
FRAME_MAX: Final = 1 << 20

Change = Callable[[Composite], bool]
"""Changes an attach or a flow; False: it is swallowed."""


class Habits(Protocol):
    """How a peer behaves. ``most``: octets of a message that it takes, 0: any.

    ``mute_until``: it answers no link that is asked for before. Links that are there go on: a grant that was made
    arrives, or the connection breaks, and who made it makes it once.
    """

    most: int
    mute_until: Instant


class Filter:
    """One direction: frames in, frames out."""

    def __init__(self, change: Change) -> None:
        self._change: Final = change
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take octets; return those of all frames that are whole by now."""
        rest = self._rest + data
        found: list[bytes] = []
        while len(rest) >= HEAD_OCTETS:
            size = HEAD_OCTETS if rest.startswith(PREAMBLE) else int.from_bytes(rest[:4], "big")
            if len(rest) < size:
                break
            found.append(self._passed(rest[:size]))
            rest = rest[size:]
        self._rest = rest
        return b"".join(found)

    def _passed(self, frame: bytes) -> bytes:
        at = 4 * frame[4]
        if frame.startswith(PREAMBLE) or frame[5] or frame[at : at + 2] != b"\0\x53" or frame[at + 2] not in CODES:
            return frame
        out = BytesWriter()
        for each in Decoder(FRAME_MAX).feed(frame):
            said = each.performative
            if said is not None and self._change(said):
                Encoder().write(out, each.channel, said)
        return bytes(out.getvalue())


class FilteredEnd(End):
    """The end of a broker that behaves as ``habits`` say."""

    def __init__(self, site: Machine, delay: Duration, habits: Habits) -> None:
        super().__init__(site, delay)
        self.habits: Final = habits
        self._inward: Final = Filter(self._hears)
        self._outward: Final = Filter(self._says)
        self._unanswered: Final[set[int]] = set()  # handles of links whose other end was never told of them

    def arrive(self, data: bytes) -> None:
        """Octets have come; none are the end of the stream."""
        passed = self._inward.feed(data)
        if passed or not data:
            super().arrive(passed)

    def _send(self, other: End, data: bytes) -> None:
        passed = self._outward.feed(data)
        if passed or not data:
            super()._send(other, passed)

    def _hears(self, said: Composite) -> bool:
        """What is for a router means one of two places here."""
        if isinstance(said, Attach):
            source, target = said.source, said.target
            if isinstance(source, Source) and WAYPOINT in source.capabilities:
                source.address = f"{source.address}{STORED}"
                source.capabilities = ["queue"]
            if isinstance(target, Target) and WAYPOINT in target.capabilities:
                target.address = f"{target.address}{OUT}"
                target.capabilities = ["queue"]
        return True

    def _says(self, said: Composite) -> bool:
        if isinstance(said, Flow):
            return int(said.handle) not in self._unanswered
        if isinstance(said, Attach):
            if self.site.world.time < self.habits.mute_until:
                self._unanswered.add(int(said.handle))
                return False
            self._unanswered.discard(int(said.handle))
            if said.role == RECEIVER and self.habits.most:
                said.max_message_size = self.habits.most
        return True
