"""A WebSocket as a load generator needs it: octets in binary frames, with next to no work for each."""

from __future__ import annotations

import os
import socket
import struct
from base64 import b64encode

BINARY = 0x82  # the final frame of a binary message
MASKED = 0x80
FRAME = 1 << 15  # octets; Artemis takes 64 KiB
UNMASKED = b"\0\0\0\0"  # a mask that leaves all as it is: a client has to have one (RFC 6455, 5.3)


class WebSocket:
    """A socket whose octets go and come in frames. What it has of a socket's methods is what the generators use."""

    def __init__(self, sock: socket.socket, protocol: str) -> None:
        """Shake hands over ``sock``, for a sub-protocol."""
        self._sock = sock
        key = b64encode(os.urandom(16)).decode()
        sock.sendall(
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._heard(1 << 16)
        head, _, rest = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(f"no WebSocket: {head.decode(errors='replace')}")
        self._raw = bytearray(rest)
        self._ready = bytearray()
        self._left = 0  # octets of the frame that has begun

    def sendall(self, octets: bytes | bytearray | memoryview) -> None:
        """Write them, in frames of a length that every broker takes."""
        parts: list[bytes | memoryview] = []
        view = memoryview(octets)
        for at in range(0, len(view), FRAME):
            part = view[at : at + FRAME]
            size = len(part)
            short = struct.pack(">BB", BINARY, MASKED | size) if size < 126 else b""
            parts += [short or struct.pack(">BBH", BINARY, MASKED | 126, size), UNMASKED, part]
        self._sock.sendall(b"".join(parts))

    def recv(self, octets: int) -> bytes:
        """Return what came in frames, at most so many octets, waiting for some; nothing at the end."""
        while not self._ready:
            data = self._sock.recv(1 << 18)
            if not data:
                return b""
            self._raw += data
            self._unpack()
        taken = bytes(self._ready[:octets])
        del self._ready[:octets]
        return taken

    def _unpack(self) -> None:
        """Move what is inside of frames to what is ready."""
        raw, at = self._raw, 0
        while at < len(raw):
            if not self._left:
                size, head = raw[at + 1] if len(raw) - at >= 2 else 0, 2
                if size >= 126:
                    head = 4 if size == 126 else 10
                if len(raw) - at < head:
                    break
                self._left = int.from_bytes(raw[at + 2 : at + head], "big") if head > 2 else size
                at += head
            part = raw[at : at + self._left]
            self._ready += part
            at += len(part)
            self._left -= len(part)
        del raw[:at]

    def _heard(self, octets: int) -> bytes:
        data = self._sock.recv(octets)
        if not data:
            raise RuntimeError("the broker closed the connection while hands were shaken")
        return data

    def fileno(self) -> int:
        """Return what `select` takes."""
        return self._sock.fileno()

    def shutdown(self, how: int) -> None:
        """End one direction, or both."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """Cut it."""
        self._sock.close()
