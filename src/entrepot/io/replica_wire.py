"""What both ends of a connection of replication share: who may speak, over what, and frames in and out.

Before anything else both sides prove that they know the secret, each with a nonce of the other, so neither a stranger
nor a recording of yesterday gets a message.
"""

from __future__ import annotations

import asyncio
from _blake2 import blake2b  # as in `core/sending/copies.py`
from typing import TYPE_CHECKING, Final, cast

from entrepot.base.environment import KIB
from entrepot.base.errors import EntrepotError, InvalidOption, ProtocolViolation
from entrepot.base.places import host_and_port
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import Frame, Frames

if TYPE_CHECKING:
    import ssl

NONCE: Final = 16
STRANGER_FRAME_MAX: Final = 1 * KIB  # of somebody who has not proved anything
PROVE_WITHIN: Final = 5.0  # s

LOCAL: Final = ("127.", "localhost", "::1", "[::1]")


def proof(secret: str, *, asked: bytes, asks: bytes, who: bytes) -> bytes:
    """Return what only one who knows ``secret`` can say to the nonce ``asked``; ``asks``: his own nonce."""
    key = blake2b(secret.encode(), digest_size=32).digest()
    return blake2b(asked + asks + who, key=key, digest_size=32).digest()


def place_of(text: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidOption."""
    return host_and_port(text, "10.0.0.1:61620")


def check_places(options: ReplicationOptions) -> None:
    """Raise InvalidOption for places that are none, strangers that could connect, and files of TLS that are no use."""
    for text in (options.listen, *options.peers):
        host, _ = place_of(text)
        if not options.secret and not host.startswith(LOCAL):
            raise InvalidOption(
                f"whoever reaches {text} could read or replace the store: replication has no secret",
                remedy="give all brokers the same --replication-secret FILE",
            )
    contexts(options)


def contexts(options: ReplicationOptions) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """Return what a primary and what a replica speaks, None without TLS. Raises InvalidOption."""
    if not options.certificate:
        return None
    from entrepot.io.tls import TlsOptions, client_context, server_context  # noqa: PLC0415 - half a megabyte

    told = TlsOptions(
        certificate=options.certificate,
        key=options.key,
        trust=options.trust,
        need_client=True,
        verify_host=options.verify_host,
    )
    return server_context(told), client_context(told)


class Wire(asyncio.Protocol):
    """One connection, either side: frames in, octets out at the end of the turn."""

    def __init__(self) -> None:
        self.frames: Final = Frames()
        self.frames.most = STRANGER_FRAME_MAX
        self.transport: asyncio.Transport | None = None
        self.over = False
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands: octets wait here without a limit of its own."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self.transport.set_write_buffer_limits(high=1 << 30)
        self.begin()

    def data_received(self, data: bytes) -> None:
        """Octets came."""
        if self.over:
            return
        try:
            self.take(self.frames.feed(data))
        except EntrepotError as error:
            self.refuse(error)
        except (ValueError, TypeError, KeyError) as error:
            self.refuse(ProtocolViolation(f"a greeting of replication is not as it should be: {error!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        if not self.over:
            self.over = True
            self.gone("the connection was cut" if exc is None else str(exc))

    def send(self, octets: bytes) -> None:
        """Have it written at the end of this turn."""
        if not self._out:
            self._loop.call_soon(self._write)
        self._out.append(octets)

    def _write(self) -> None:
        out, self._out = self._out, []
        if self.transport is not None and out and not self.transport.is_closing():
            self.transport.write(b"".join(out))

    def hang_up(self, *, at_once: bool = False) -> None:
        """End it; write first what is to be written, unless it ends ``at_once``: a peer that reads nothing keeps it."""
        self.over = True
        self._write()
        if self.transport is not None:
            self.transport.close()
            if at_once and self.transport.get_write_buffer_size():
                self.transport.abort()

    def begin(self) -> None:
        """The connection stands."""

    def take(self, frames: list[Frame]) -> None:
        """Something came."""
        raise NotImplementedError

    def gone(self, why: str) -> None:
        """The other side is gone."""

    def refuse(self, error: EntrepotError) -> None:
        """The other side did what may not be, or is not who should be here."""
        raise NotImplementedError
