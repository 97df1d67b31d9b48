"""A body that leaves in pieces, as fast as the peer's socket takes them, and what waits behind it. [C]

A frame is one stretch of octets: while a body is on its way out, all else that a session writes waits behind it.
"""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import BodyLost


@mypyc_attr(allow_interpreted_subclasses=True)
class Outflow:
    """A body on its way out: ``length`` octets, those of ``prefix`` before it included, then ``tail``.

    ``marker``: octets that occur nowhere else; they stand for the body while its frame is encoded.
    """

    def __init__(self, length: i64, prefix: bytes, marker: bytes) -> None:
        self.length: i64 = length
        self.prefix: bytes = prefix
        self.marker: bytes = marker
        self.tail: bytes = b""
        self.done: bool = False
        self.after: BytesWriter = BytesWriter()
        self.following: Outflow | None = None

    def piece(self) -> bytes:
        """Return the next octets behind the prefix; ``done`` is set with the last. Raises BodyLost, StorageError.

        Where a protocol cuts a body into frames, a piece is a whole frame, and ``tail`` stays empty.
        """
        raise NotImplementedError

    def lost(self) -> None:
        """The body is damaged behind what was written; the connection ends, because its frame cannot be completed."""

    def finish(self, gone: bool) -> None:
        """Let go of the body; ``gone``: all of it was written. What is written in here goes behind it."""


class Outflows:
    """The bodies that one connection writes, one after the other. ``out``: where whole frames are written now."""

    def __init__(self, writer: BytesWriter) -> None:
        self.out: BytesWriter = writer
        self.current: Outflow | None = None
        self._last: Outflow | None = None

    def is_busy(self) -> bool:
        """Return whether a body is on its way out.

        A method, because who compares ``current`` with None before and after `flow` is taken by the compiler to know.
        """
        return self.current is not None

    def begin(self, body: Outflow) -> None:
        """The head of a frame was written to ``out``: ``body`` and its tail follow, and all else waits behind them."""
        last = self._last
        if self.current is None or last is None:
            self.current = body
        else:
            last.following = body
        self._last = body
        self.out = body.after

    def flow(self, writer: BytesWriter) -> Outflow | None:
        """Put the next piece into ``writer``. Return the body of which that was the last.

        The caller says `Outflow.finish` to it once all that writes knows ``out``: more may be written then. Raises as
        `Outflow.piece`: then the frame can never be completed.
        """
        body = self.current
        if body is None:
            return None
        if not body.done:
            try:
                piece = body.piece()
            except BodyLost:
                body.lost()
                raise
            writer.write(piece)
        if not body.done:
            return None
        writer.write(body.tail)
        writer.write(body.after.getvalue())
        self.current = body.following
        if self.current is None:
            self._last = None
            self.out = writer
        return body

    def end(self) -> None:
        """The connection is gone: let go of all bodies."""
        body = self.current
        self.current = self._last = None
        while body is not None:
            body.finish(False)
            body = body.following
