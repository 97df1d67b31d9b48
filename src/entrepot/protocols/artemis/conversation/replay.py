"""What both sides of a session count, so that it can go on over another wire (artemis.md 5.2.6). [C]

With a confirmation window each side numbers the packets of a session from 0 and keeps what it sent until the other says
that it came. After a loss the client says up to which packet it has heard, is told how far its own are done, and both
send the rest again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.packets import Packet, PacketsConfirmed

ID_SPAN: Final = 1 << 32  # ids are Java's int, and wrap


class Replay:
    """The packets of one session that is open at a server as ``name``. ``window``: octets, as the server was told."""

    def __init__(self, name: str, channel: i64, window: i64) -> None:
        self.name: str = name
        self.channel: i64 = channel
        self.window: i64 = window
        self.sent: i64 = 0
        self.kept: deque[bytes] = deque()  # the last of these, which the server has not confirmed
        self.heard: i64 = 0
        self.pending: i64 = 0  # octets that were heard and not confirmed

    def send(self, wire: CoreClient, packet: Packet) -> None:
        """Send a packet that the server counts. Raises Inexpressible, and then nothing was sent."""
        frame = wire.frame(packet)
        self.kept.append(frame)
        self.sent += 1
        wire.write(frame)

    def came(self, wire: CoreClient, packet: Packet) -> None:
        """A packet came that both sides count: say so when there is a window full of them."""
        self.heard += 1
        self.pending += packet.octets
        if self.pending >= self.window:
            self.pending = 0
            wire.send(PacketsConfirmed(command=self.last_heard(), channel=self.channel))

    def last_heard(self) -> int:
        """Return the id of the last packet that came, -1 for none; as Java's int."""
        last = (int(self.heard) - 1) % ID_SPAN
        return last - ID_SPAN if last >= ID_SPAN // 2 else last

    def confirmed(self, last: i64) -> None:
        """The server did everything up to the id ``last``."""
        kept = self.kept
        behind: i64 = (int(last) - (int(self.sent) - len(kept)) + 1) % ID_SPAN
        if behind <= ID_SPAN // 2:  # otherwise it was confirmed before
            while behind > 0 and kept:
                kept.popleft()
                behind -= 1

    def go_on(self, wire: CoreClient, last: i64) -> None:
        """Send again, over ``wire``, what the server has not done; it did everything up to the id ``last``."""
        self.confirmed(last)
        self.pending = 0
        for frame in self.kept:
            wire.write(frame)
