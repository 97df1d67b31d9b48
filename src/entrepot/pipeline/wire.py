"""A blocking STOMP connection for drivers and executors: ask, and wait for the answer.

Nothing is retried here: a refusal is raised as the broker gave it, a lost connection as Unreachable; callers repeat
only verbs that may be repeated. A wire belongs to one thread.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Final

from entrepot.base.errors import EntrepotError, InvalidOption, PeerError, ShuttingDown, Unreachable
from entrepot.base.machines import is_one_machine
from entrepot.base.uri import NO_PORT, Endpoint
from entrepot.io.options import read as read_transport
from entrepot.io.tls import client_context
from entrepot.pipeline.options import Options
from entrepot.protocols.stomp.client import reason, refused
from entrepot.protocols.stomp.frames import V1_2, Frame, FrameParser, Limits, encode_frame

DEFAULT_PORT: Final = 61613
READ_OCTETS: Final = 1 << 20  # a range comes in megabytes; fewer calls than with 64 KiB, 15 % of a reader's time
FRAME_LIMITS: Final = Limits(body=1 << 31)


class Wire:
    """One connection. ``broker`` is the identity of who answered."""

    def __init__(self, place: Endpoint, options: Options) -> None:
        """Connect and introduce ourselves. Raises Unreachable, Refused, InvalidOption."""
        self.place = place
        self.shown = place.masked().partition("?")[0]
        self.broker = ""
        self._patience = options.seconds("requestTimeout")
        self._parser = FrameParser(limits=FRAME_LIMITS)
        self._last = 0
        self._answers: dict[str, Frame] = {}
        self._socket = self._opened(options)
        try:
            self._introduce(options)
        except BaseException:
            self.close()
            raise

    def ask(self, command: str, headers: Mapping[str, str], body: bytes = b"", wait: float = 0.0) -> dict[str, str]:
        """Say something and return the headers of its RECEIPT; ``wait``: s that the broker may take on purpose.

        Raises Refused (or what is below it) when the broker refuses, Unreachable when the connection is lost.
        """
        return self.answer(self.say(command, headers, body), wait)

    def say(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> str:
        """Say something; return the receipt that `answer` waits for. Raises Unreachable."""
        receipt = self.fresh_receipt()
        self.write(encode_frame(command, {**headers, "receipt": receipt}, body))
        return receipt

    def fresh_receipt(self) -> str:
        """Return a receipt id for a frame that is written by hand."""
        self._last += 1
        return f"r{self._last}"

    def answer(self, receipt: str, wait: float = 0.0, taken: Callable[[Frame], None] | None = None) -> dict[str, str]:
        """Return the headers of the RECEIPT; MESSAGE frames before it go to ``taken``."""
        while receipt not in self._answers:
            frame = self._hear(wait)
            if frame.command == "MESSAGE":
                if taken is not None:
                    taken(frame)
            else:
                self._note(frame)
        return self._taken(receipt)

    def messages(self, receipt: str) -> FrameSource:
        """Return the MESSAGE frames that come before the RECEIPT, one by one."""
        return FrameSource(self, receipt)

    def next_message(self, receipt: str) -> Frame | None:
        """Return the next MESSAGE, None when the RECEIPT has come instead."""
        while receipt not in self._answers:
            frame = self._hear(0.0)
            if frame.command == "MESSAGE":
                return frame
            self._note(frame)
        self._taken(receipt)
        return None

    def answered(self, receipt: str) -> bool:
        """Return whether the RECEIPT is here, without waiting. Raises as `answer`."""
        while receipt not in self._answers:
            frame = self._parser.take()
            if frame is None:
                if not self._waiting():
                    return False
                self._feed(0.0)
            else:
                self._note(frame)
        return True

    def write(self, octets: bytes) -> None:
        """Send octets. Blocks while the broker does not read: that is its back-pressure. Raises Unreachable."""
        try:
            self._socket.sendall(octets)
        except OSError as error:
            self._heard_before_the_end()
            raise self._lost(error) from error

    def check(self) -> None:
        """Raise what the broker has objected to meanwhile; does not wait."""
        while self._waiting():
            self._feed(0.0)
            while (frame := self._parser.take()) is not None:
                self._note(frame)

    @property
    def is_beside(self) -> bool:
        """Whether the broker is on this machine, as far as addresses tell."""
        try:
            return is_one_machine(self._socket.getsockname(), self._socket.getpeername())
        except OSError:
            return False

    def close(self) -> None:
        """Drop the connection; what was confirmed stays."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor, for select."""
        return self._socket.fileno()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _opened(self, options: Options) -> socket.socket:
        place = self.place
        transport = read_transport(place, lambda name, text: True)
        try:
            if "unix" in place.scheme.split("+"):
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.settimeout(options.seconds("connectTimeout"))
                sock.connect(place.path)
            else:
                port = DEFAULT_PORT if place.port == NO_PORT else place.port
                sock = socket.create_connection((place.host, port), options.seconds("connectTimeout"))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if transport.secure:
                sock = client_context(transport.tls).wrap_socket(sock, server_hostname=place.host)
        except ssl.SSLError as error:
            raise Unreachable(
                f"no TLS with {self.shown}: {error.reason or error}",
                remedy="name whom to trust with tls.trustStorePath, and who you are with tls.keyStorePath",
            ) from error
        except OSError as error:
            raise Unreachable(
                f"no broker answers at {self.shown}: {error.strerror or error}", remedy="start it, or correct the url"
            ) from error
        sock.settimeout(self._patience)
        return sock

    def _introduce(self, options: Options) -> None:
        login = options.login or self.place.user
        passcode = options.passcode or self.place.password
        headers = {"accept-version": V1_2, "host": self.place.host or "localhost", "heart-beat": "0,0"}
        if login:
            headers["login"] = login
        if passcode:
            headers["passcode"] = passcode
        self.write(encode_frame("CONNECT", headers))
        frame = self._hear(0.0)
        if frame.command != "CONNECTED":
            raise self._refused(frame)
        self._parser.version = frame.headers.get("version", "1.0")
        server = frame.headers.get("server", "a broker that does not say its name")
        broker, _, connection = frame.headers.get("session", "").rpartition("-")  # <broker>-<number of the connection>
        if self._parser.version != V1_2 or not server.startswith("entrepot/") or not broker or not connection.isdigit():
            raise InvalidOption(
                f"{server} at {self.shown} cannot lend ranges or stage batches: it is too old, or no entrepot",
                remedy="upgrade that broker first; the format entrepot needs an entrepot broker",
            )
        self.broker = broker

    def _waiting(self) -> bool:
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        return bool(select.select([self._socket], [], [], 0)[0])

    def _hear(self, wait: float) -> Frame:
        while (frame := self._parser.take()) is None:
            self._feed(wait)
        return frame

    def _feed(self, wait: float) -> None:
        try:
            if wait:
                self._socket.settimeout(self._patience + wait)
            data = self._socket.recv(READ_OCTETS)
        except TimeoutError as error:
            self.close()
            raise Unreachable(
                f"{self.shown} did not answer within {self._patience + wait:g} s", remedy="see its log; requestTimeout"
            ) from error
        except OSError as error:
            raise self._lost(error) from error
        finally:
            if wait and self._socket.fileno() >= 0:
                self._socket.settimeout(self._patience)
        if not data:
            raise self._lost(None)
        try:
            self._parser.feed(data)
        except PeerError:
            self.close()
            raise

    def _note(self, frame: Frame) -> None:
        if frame.command == "ERROR":
            receipt = frame.headers.get("receipt-id", "")
            if receipt:
                self._answers[receipt] = frame
            else:
                raise self._refused(frame)
        elif frame.command == "RECEIPT":
            self._answers[frame.headers.get("receipt-id", "")] = frame

    def _taken(self, receipt: str) -> dict[str, str]:
        frame = self._answers.pop(receipt)
        if frame.command == "ERROR":
            raise self._refused(frame)
        return frame.headers

    def _refused(self, frame: Frame) -> EntrepotError:
        """Return what a broker refused. One that stops in order says so: that is a connection that is lost."""
        error = refusal(frame, self.shown)
        if isinstance(error, ShuttingDown):
            self.close()
            return Unreachable(error.message, remedy="start it again")
        return error

    def _heard_before_the_end(self) -> None:
        """A broker that refuses says why and closes: that reason is better than `broken pipe`."""
        with contextlib.suppress(Unreachable, OSError, ValueError):
            self._socket.settimeout(0.5)
            while True:
                self._note(self._hear(0.0))

    def _lost(self, error: OSError | None) -> Unreachable:
        self.close()
        why = "it closed the connection" if error is None else error.strerror or str(error)
        return Unreachable(f"the connection to {self.shown} was lost: {why}", remedy="see the log of that broker")


class FrameSource:
    """Iterates over the messages that answer one request."""

    def __init__(self, wire: Wire, receipt: str) -> None:
        self._wire = wire
        self._receipt = receipt

    def __iter__(self) -> FrameSource:
        return self

    def __next__(self) -> Frame:
        frame = self._wire.next_message(self._receipt)
        if frame is None:
            raise StopIteration
        return frame


def refusal(frame: Frame, shown: str) -> EntrepotError:
    """Return what a broker refused, as the error that its code names."""
    who = f"the broker at {shown}"
    if "unknown command" in (text := reason(frame.headers, frame.body)):
        what = f"{who} does not know a command that is needed: {text}"
        return InvalidOption(what, remedy="upgrade that broker first")
    return refused(who, frame.headers, frame.body)
