"""One channel of a CORE connection: what is written there, and what both sides count to replay it. [C]

With a confirmation window both sides number the packets of a channel from 0 and keep what they wrote until the other
side says that it came (artemis.md 5.2.6). `done` counts a command of the peer: only when its answer is due, which is
when the disk has what it asked for. A session whose connection is lost goes on counting and keeping: ``outlet`` is None
then, and `attach` writes to the next connection what the peer has not seen.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import LimitExceeded
from entrepot.protocols.artemis.codec import Encoder
from entrepot.protocols.artemis.packets import Packet, PacketsConfirmed
from entrepot.protocols.serving.outlet import Outlet

ID_SPAN: Final = 1 << 32  # ids are Java's int, and wrap


class Channel:
    """``window``: the octets after which what came is confirmed; -1: neither side counts."""

    def __init__(self, number: i64, window: i64, outlet: Outlet, encoder: Encoder, kept_max: i64) -> None:
        self.number: i64 = number
        self.window: i64 = window
        self.counts: bool = window > 0
        self.outlet: Outlet | None = outlet
        self.encoder: Encoder = encoder
        self.kept_max: i64 = kept_max
        self.commands: i64 = 0  # of the peer that are done
        self.pending: i64 = 0  # octets of these that were not confirmed yet
        self.written: i64 = 0  # packets that the peer counts
        self.kept: deque[bytes] | None = None  # the last of these, which it has not confirmed
        self.kept_octets: i64 = 0

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, packet: Packet) -> i64:
        """Write one packet that the peer counts; return how long its frame is."""
        packet.channel = self.number
        outlet = self.outlet
        if self.counts or outlet is None:
            frame = self.encoder.encode(packet)
            self.keep(frame)
            return len(frame)
        before: i64 = len(outlet.out)
        self.encoder.encode_into(outlet.out, packet)
        if not outlet.noted:
            outlet.note()
        return len(outlet.out) - before

    def deliver(self, message: bytes, number: i64, consumer: i64, count: i64) -> i64:
        """Write a RECEIVE of ``message``, in the octets of CORE; return how long its frame is."""
        encoder = self.encoder
        outlet = self.outlet
        if self.counts or outlet is None:
            writer = BytesWriter()
            size = encoder.receive_into(
                writer, self.number, message, number=number, consumer=consumer, delivery_count=count
            )
            self.keep(writer.getvalue())
            return size
        size = encoder.receive_into(
            outlet.out, self.number, message, number=number, consumer=consumer, delivery_count=count
        )
        if not outlet.noted:
            outlet.note()
        return size

    def keep(self, frame: bytes) -> None:
        """Write a whole frame that the peer counts, and keep it until it is confirmed."""
        kept = self.kept
        if kept is None:
            kept = self.kept = deque()
        kept.append(frame)
        self.kept_octets += len(frame)
        self.written += 1
        outlet = self.outlet
        if outlet is not None:
            outlet.out.write(frame)
            if not outlet.noted:
                outlet.note()

    def is_overfull(self) -> bool:
        """Return whether more is kept than the peer may leave unconfirmed."""
        return self.kept_octets > self.kept_max

    # -- what the peer did ---------------------------------------------------------------------------------------------

    def done(self, octets: i64) -> None:
        """One command of the peer, a frame of ``octets``, is done: confirm, if the window is full."""
        if not self.counts:
            return
        self.commands += 1
        self.pending += octets
        if self.pending >= self.window:
            self.confirm()

    def confirm(self) -> None:
        """Tell the peer how far its commands are done, if it does not know."""
        if self.pending == 0:
            return
        self.pending = 0
        outlet = self.outlet
        if outlet is not None:
            self.encoder.encode_into(outlet.out, PacketsConfirmed(command=self.last_command(), channel=self.number))
            outlet.note()

    def last_command(self) -> int:
        """Return the id of the last command that is done, -1 for none; as Java's int."""
        last = (int(self.commands) - 1) % ID_SPAN
        return last - ID_SPAN if last >= ID_SPAN // 2 else last

    # -- what the peer has ---------------------------------------------------------------------------------------------

    def confirmed(self, last: i64) -> None:
        """The peer has everything up to the id ``last``. Raises LimitExceeded for what was never written."""
        kept = self.kept
        if kept is None:
            if self.counts and last >= 0 and self.written == 0:
                raise LimitExceeded(f"packet {last} is confirmed, and none was written")
            return
        first: i64 = self.written - len(kept)
        behind: i64 = (int(last) - int(first) + 1) % ID_SPAN
        if behind > ID_SPAN // 2:
            return  # it was confirmed before
        if behind > len(kept):
            raise LimitExceeded(f"packet {last} is confirmed, and the last written was {int(self.written) - 1}")
        while behind > 0:
            self.kept_octets -= len(kept.popleft())
            behind -= 1

    def attach(self, outlet: Outlet, encoder: Encoder) -> None:
        """Go on over another connection: write again what the peer has not confirmed."""
        self.outlet = outlet
        self.encoder = encoder
        kept = self.kept
        if kept is not None:
            for frame in kept:
                outlet.out.write(frame)
            outlet.note()

    def detach(self) -> None:
        """The connection is lost; what is written from now on is kept for the next."""
        self.outlet = None
