"""A CORE connection over which large bodies leave from disk, at the pace of the socket. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.environment import Instant
from entrepot.base.errors import StorageError
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.codec import Encoder
from entrepot.protocols.artemis.packets import Packet
from entrepot.protocols.outflow import Outflow, Outflows
from entrepot.protocols.session import Shell


class LinkClient(CoreClient):
    """One connection to another broker."""

    def __init__(self, shell: Shell, port: ClientPort, now: Instant, ttl_ms: i64) -> None:
        super().__init__(shell, port, now, ttl_ms)
        self.outflows: Outflows = Outflows(self.writer)

    @property
    def encoder(self) -> Encoder:
        """What writes the pieces of a body."""
        return self._encoder

    def stream(self, head: Packet, body: Outflow) -> None:
        """Send ``head``, and then ``body``, whose pieces are whole frames; what is sent meanwhile waits behind them.

        Raises Inexpressible, and then nothing was sent.
        """
        self.send(head)
        self.outflows.begin(body)
        self.out = self.outflows.out

    def outgoing(self) -> bytes:
        """Return what is to be written: of a body the next piece, if the socket has room."""
        outflows = self.outflows
        if not outflows.is_busy() or self.closing:
            return super().outgoing()
        if self.ready:
            try:
                gone = outflows.flow(self.writer)
                self.out = outflows.out
                if gone is not None:
                    gone.finish(True)
            except StorageError as error:  # in the middle of a message: nothing can be said any more
                self._end(f"a body cannot be read: {error}")
        data = super().outgoing()
        if outflows.is_busy() and self.ready:
            self.note()
        return data

    def writable(self, ready: bool, now: Instant) -> None:
        """Pass on whether the broker reads; go on with a body."""
        if ready and self.outflows.is_busy():
            self.note()
        super().writable(ready, now)

    def _end(self, why: str) -> None:
        super()._end(why)
        self.outflows.end()
        self.out = self.writer
