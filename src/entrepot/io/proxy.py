"""The PROXY protocol: a load balancer says in front of the stream who the peer really is (versions 1 and 2).

The header is read from the socket octet-exact, so that whatever follows, TLS or not, is untouched.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Final

from entrepot.base.errors import MalformedFrame

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
"""Begins version 2: ``signature(12) | version and command(1) | family(1) | length(2) | addresses | TLVs``."""
LINE_MAX: Final = 107  # version 1, longest line with its end
TAIL_MAX: Final = 4096  # version 2 has 16 bits; addresses take at most 216, the rest are TLVs that we skip

TCP4: Final = 0x11
TCP6: Final = 0x21


async def read_header(sock: socket.socket) -> str:
    """Consume the header and return the peer as ``host:port``; "" when the balancer speaks for itself (a health check).

    Raises MalformedFrame, and OSError from the socket.
    """
    loop = asyncio.get_running_loop()
    start = await _exactly(loop, sock, 6)
    if start == b"PROXY ":
        line = bytearray(start)
        while not line.endswith(b"\r\n"):
            if len(line) >= LINE_MAX:
                raise MalformedFrame("the PROXY line is too long")
            line += await _exactly(loop, sock, 1)
        return line_peer(bytes(line))
    if start != SIGNATURE[:6]:
        raise MalformedFrame(f"a PROXY header is required here, and the connection began with {start!r}")
    head = start + await _exactly(loop, sock, 10)
    length = int.from_bytes(head[14:16], "big")
    if head[:12] != SIGNATURE or length > TAIL_MAX:
        raise MalformedFrame(f"no PROXY header: {head!r}")
    return block_peer(head, await _exactly(loop, sock, length))


def line_peer(line: bytes) -> str:
    """Return the peer of a version 1 line. Raises MalformedFrame."""
    words = line.decode("ascii", "replace").rstrip("\r\n").split(" ")
    if len(words) >= 2 and words[1] == "UNKNOWN":
        return ""
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise MalformedFrame(f"no PROXY line: {line!r}")
    try:
        host = ipaddress.ip_address(words[2])
        port = int(words[4])
    except ValueError as error:
        raise MalformedFrame(f"no PROXY line: {error}") from None
    return _named(host, port)


def block_peer(head: bytes, tail: bytes) -> str:
    """Return the peer of a version 2 header. Raises MalformedFrame."""
    if head[12] >> 4 != 2:
        raise MalformedFrame(f"PROXY version {head[12] >> 4} is not known")
    if head[12] & 0x0F == 0:  # LOCAL: the balancer itself
        return ""
    width = 4 if head[13] == TCP4 else 16 if head[13] == TCP6 else 0
    if width == 0:
        return ""
    if len(tail) < 2 * width + 4:
        raise MalformedFrame("the PROXY header is cut short")
    return _named(ipaddress.ip_address(tail[:width]), int.from_bytes(tail[2 * width : 2 * width + 2], "big"))


def _named(host: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


async def _exactly(loop: asyncio.AbstractEventLoop, sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = await loop.sock_recv(sock, count - len(data))
        if not part:
            raise MalformedFrame("the connection ended inside the PROXY header")
        data += part
    return data
