"""What goes over a wire between a broker and a voter: frames that only who knows the secret can make.

Both sides say hello in clear: the version, the name of the register, a fresh number each. From the two hellos and the
shared secret follows a key of this connection; every frame after them has a counter and a keyed checksum (BLAKE2b) over
it, one key for each direction. So nothing can be forged, replayed, reordered or sent back, and who does not know the
secret learns nothing but what he sees in passing: names and hosts of brokers. TLS around it hides that, too.

::

    frame: length (4 octets, of what follows) | checksum (16 octets) | JSON
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from _blake2 import blake2b
from typing import Any, Final

from entrepot.base.errors import MalformedFrame

VERSION: Final = 1
LENGTH: Final = struct.Struct(">I")
CHECK: Final = 16
HELLO_MAX: Final = 1024
FRAME_MAX: Final = 64 * 1024
ERROR_MAX: Final = 300


class Wire:
    """One connection: whole frames, each before a deadline. Calls block."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket: Final = connection
        self._buffer = b""

    def send(self, octets: bytes, deadline: float) -> None:
        """Send a frame. Raises OSError."""
        self.socket.settimeout(_left(deadline))
        self.socket.sendall(LENGTH.pack(len(octets)) + octets)

    def receive(self, most: int, deadline: float) -> bytes | None:
        """Return the next frame; None at the end of what the peer says. Raises OSError, MalformedFrame.

        That it ends within a frame is an error as well, and not an end: only a whole one says that it was meant.
        """
        head = self._exactly(LENGTH.size, deadline, may_end=True)
        if head is None:
            return None
        (length,) = LENGTH.unpack(head)
        if not 0 < length <= most:
            raise MalformedFrame(f"a frame of {length} octets, at most {most} are taken")
        return self._exactly(length, deadline)

    def _exactly(self, count: int, deadline: float, *, may_end: bool = False) -> bytes | None:
        while len(self._buffer) < count:
            self.socket.settimeout(_left(deadline))
            chunk = self.socket.recv(65536)
            if not chunk:
                if may_end and not self._buffer:
                    return None
                raise ConnectionResetError("it ended within a frame")
            self._buffer += chunk
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def close(self, *, abruptly: bool = False) -> None:
        """Close it. ``abruptly``: so that the other side sees a reset, and not the end of a process."""
        try:
            if abruptly:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.close()
        except OSError:
            return


class Seal:
    """Makes and checks the frames of one connection. ``ours``: this side's direction."""

    def __init__(self, secret: bytes, client_hello: bytes, server_hello: bytes, *, client: bool) -> None:
        seed = blake2b(secret, digest_size=32).digest()
        hellos = LENGTH.pack(len(client_hello)) + client_hello + server_hello
        keys = [blake2b(hellos, key=seed, person=which, digest_size=32).digest() for which in (b"asks", b"answers")]
        self._out, self._in = keys if client else reversed(keys)
        self._sent = 0
        self._received = 0

    def seal(self, body: bytes) -> bytes:
        """Return ``body`` with its checksum."""
        self._sent += 1
        return _check(self._out, self._sent, body) + body

    def open(self, frame: bytes) -> bytes | None:
        """Return what is in ``frame``; None where its checksum is wrong."""
        self._received += 1
        check, body = frame[:CHECK], frame[CHECK:]
        return body if check == _check(self._in, self._received, body) else None


def _check(key: bytes, number: int, body: bytes) -> bytes:
    return blake2b(number.to_bytes(8, "big") + body, key=key, digest_size=CHECK).digest()


def client_hello(name: str, instance: str, connection: socket.socket) -> bytes:
    """Return what a broker says first. It tells which addresses it sees, so that the voter knows of a proxy."""
    return json.dumps(
        {
            "entrepot": VERSION,
            "register": name,
            "nonce": os.urandom(16).hex(),
            "instance": instance,
            "here": list(connection.getsockname()[:2]),
            "there": list(connection.getpeername()[:2]),
        }
    ).encode()


def server_hello() -> bytes:
    """Return what a voter says first."""
    return json.dumps({"entrepot": VERSION, "nonce": os.urandom(16).hex()}).encode()


def read_hello(octets: bytes) -> dict[str, Any]:
    """Return what a hello says. Raises MalformedFrame."""
    try:
        facts = json.loads(octets)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or "entrepot" not in facts:
        raise MalformedFrame("this is not the port of a voter of entrepot, or not a broker that calls")
    if "error" in facts:
        raise MalformedFrame(str(facts["error"])[:ERROR_MAX])
    if facts["entrepot"] != VERSION:
        raise MalformedFrame(f"it speaks version {facts['entrepot']!r} of the votes' protocol, here it is {VERSION}")
    return facts


def refusal(why: str) -> bytes:
    """Return the frame with which a voter says why it hangs up."""
    return json.dumps({"entrepot": VERSION, "error": why[:ERROR_MAX]}).encode()


def why_refused(frame: bytes) -> str:
    """Return what a `refusal` says, "" for another frame."""
    try:
        facts = json.loads(frame)
    except (ValueError, RecursionError):
        return ""
    return str(facts.get("error", ""))[:ERROR_MAX] if isinstance(facts, dict) else ""


def is_direct(hello: dict[str, Any], connection: socket.socket) -> bool:
    """Say whether both sides see the same addresses: then there is no proxy between them, and an end is an end."""
    try:
        here, there = connection.getsockname()[:2], connection.getpeername()[:2]
    except OSError:
        return False
    return hello.get("here") == list(there) and hello.get("there") == list(here)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    return left
