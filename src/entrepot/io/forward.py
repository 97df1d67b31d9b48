"""A way out through an HTTP proxy: CONNECT, then the connection is ours (RFC 9110, 9.3.6)."""

from __future__ import annotations

import asyncio
import base64
import socket
from typing import Final

from entrepot.io.options import TransportOptions

HEAD_OCTETS_MAX: Final = 16 * 1024


async def through_proxy(
    loop: asyncio.AbstractEventLoop, options: TransportOptions, host: str, port: int
) -> socket.socket:
    """Return a socket to ``host``:``port`` that goes through the proxy of ``options``.

    Raises OSError when the proxy is not there or refuses.
    """
    found = await loop.getaddrinfo(options.proxy_host, options.proxy_port, type=socket.SOCK_STREAM)
    family, kind, number, _, address = found[0]
    sock = socket.socket(family, kind, number)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
        await loop.sock_sendall(sock, _request(options, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
        status = await _status(loop, sock)
    except BaseException:
        sock.close()
        raise
    if not 200 <= status < 300:
        sock.close()
        hint = " (proxyUser and proxyPassword are needed)" if status == 407 else ""
        raise ConnectionRefusedError(
            0, f"the proxy {options.proxy_host}:{options.proxy_port} answers {status} for {host}:{port}{hint}"
        )
    return sock


def _request(options: TransportOptions, place: str) -> bytes:
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if options.proxy_user:
        credentials = f"{options.proxy_user}:{options.proxy_password}".encode()
        lines.append("Proxy-Authorization: Basic " + base64.b64encode(credentials).decode())
    return "\r\n".join([*lines, "", ""]).encode()


async def _status(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> int:
    """Read the answer's head, octet by octet behind its first line: what follows belongs to the other side."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = await loop.sock_recv(sock, 1)
        if not piece:
            raise ConnectionResetError(0, "the proxy closed the connection")
        head += piece
        if len(head) > HEAD_OCTETS_MAX:
            raise ConnectionRefusedError(0, "the proxy's answer is no HTTP")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise ConnectionRefusedError(0, "the proxy's answer is no HTTP")
    return int(words[1])
