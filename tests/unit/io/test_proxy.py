"""The header of a load balancer, both versions."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import MalformedFrame
from entrepot.io.proxy import SIGNATURE, TCP4, TCP6, block_peer, line_peer, read_header


def block(family: int, source: bytes, port: int, tail: bytes = b"", command: int = 0x21) -> bytes:
    body = source + bytes(len(source)) + struct.pack("!HH", port, 1) + tail
    return SIGNATURE + bytes([command, family]) + len(body).to_bytes(2, "big") + body


def header_from(data: bytes) -> tuple[str, bytes]:
    """Return what is read from a socket that holds ``data``, and what is left in it."""

    async def main() -> tuple[str, bytes]:
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            far.sendall(data)
            far.shutdown(socket.SHUT_WR)
            peer = await read_header(near)
            rest = b""
            while part := await asyncio.get_running_loop().sock_recv(near, 100):
                rest += part
            return peer, rest

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("header", "peer"),
    [
        (b"PROXY TCP4 10.1.2.3 10.0.0.1 5555 61613\r\n", "10.1.2.3:5555"),
        (b"PROXY TCP6 ::1 ::2 5555 61613\r\n", "[::1]:5555"),
        (b"PROXY UNKNOWN\r\n", ""),
        (b"PROXY UNKNOWN ffff:: ::1 1 2\r\n", ""),
        (block(TCP4, bytes([10, 1, 2, 3]), 5555), "10.1.2.3:5555"),
        (block(TCP6, bytes(15) + b"\1", 5555, tail=b"\x04\x00\x01x"), "[::1]:5555"),
        (block(TCP4, bytes([10, 1, 2, 3]), 5555, command=0x20), ""),
        (block(0x31, bytes(108), 0), ""),
    ],
)
def test_the_peer_is_read_and_not_an_octet_more(header: bytes, peer: str) -> None:
    assert header_from(header + b"CONNECT\n") == (peer, b"CONNECT\n")


@pytest.mark.parametrize(
    "data",
    [
        b"CONNECT\n\n\0",
        b"PROXY TCP4 10.1.2.3 10.0.0.1 5555\r\n",
        b"PROXY TCP4 10.1.2.300 10.0.0.1 5555 1\r\n",
        b"PROXY TCP4 " + b"1" * 200,
        b"PROXY",
        SIGNATURE + b"\x11\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\x00\x04" + bytes(4),
        SIGNATURE + b"\x21\x11\xff\xff",
        b"\r\n\r\n\x00\rnope" + bytes(6),
    ],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        header_from(data)


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=64))
def test_hostile_headers_raise_nothing_else(head: bytes, tail: bytes) -> None:
    for attempt in (lambda: block_peer(head, tail), lambda: line_peer(b"PROXY " + tail)):
        with contextlib.suppress(MalformedFrame):
            assert isinstance(attempt(), str)
