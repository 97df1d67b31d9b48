"""A way out through an HTTP proxy: CONNECT, then the connection is ours (RFC 9110, 9.3.6)."""

from __future__ import annotations

import asyncio
import base64
import socket

from entrepot.base.errors import PeerError
from entrepot.io.options import TransportOptions
from entrepot.protocols.http import Answers


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
        status = await _ask(loop, sock, options, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
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


async def _ask(loop: asyncio.AbstractEventLoop, sock: socket.socket, options: TransportOptions, place: str) -> int:
    """Return the status of the answer, read octet by octet: what follows belongs to the other side. Raises OSError."""
    fields = []
    if options.proxy_user:
        credentials = f"{options.proxy_user}:{options.proxy_password}".encode()
        fields = [("Proxy-Authorization", "Basic " + base64.b64encode(credentials).decode())]
    http = Answers(lambda head: 0)
    try:
        await loop.sock_sendall(sock, http.ask("CONNECT", place, place, fields))
        while (answer := http.next() or http.head) is None:
            piece = await loop.sock_recv(sock, 1)
            if not piece:
                raise ConnectionResetError(0, "the proxy closed the connection")
            http.feed(piece)
    except PeerError as error:
        if http.head is None:
            raise ConnectionRefusedError(0, f"the proxy's answer is no HTTP: {error.message}") from error
        answer = http.head  # its body is longer than nothing; nobody reads it
    return answer.status
