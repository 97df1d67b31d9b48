"""A voter at a port: answers brokers that know the secret, a thread for each, and is in nobody's way.

Bounds: a peer that has not shown that it knows the secret has five seconds and a kilobyte; of those there are at most
`STRANGERS_MAX`, then the oldest goes. Those that have shown it are `PEERS_MAX` at most. One question is 64 KiB at most,
and is answered before the next is read.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.errors import AddressInUse, EntrepotError, InvalidOption, MalformedFrame, OperatorError
from entrepot.base.places import host_and_port
from entrepot.ha.votes import dump_answer, load_request
from entrepot.io.vote_wire import FRAME_MAX, HELLO_MAX, Seal, Wire, is_direct, read_hello, refusal, server_hello
from entrepot.io.votes import VoteFile, VoteStore

if TYPE_CHECKING:
    import ssl

PATIENCE: Final = 5.0  # s until a peer has shown that it knows the secret; and for it to take an answer
IDLE: Final = 3600.0  # s without a question: a broker asks far more often; keep-alive finds who is gone earlier
STRANGERS_MAX: Final = 16
PEERS_MAX: Final = 64
ENDED_MAX: Final = 1024

log: Final = logging.getLogger("entrepot.votes")


class Ends:
    """Which processes have ended for sure: the kernel of their machine closed a connection that they never close.

    A broker that hangs up on purpose resets the connection instead, and one through a proxy does not count.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._ended: dict[str, bool] = {}
        self._lock = threading.Lock()

    def opened(self, instance: str) -> None:
        """A connection of ``instance`` is there: so it lives."""
        with self._lock:
            self._open[instance] = self._open.get(instance, 0) + 1
            self._ended.pop(instance, None)

    def closed(self, instance: str, *, ended: bool) -> None:
        """One is gone; ``ended``: its kernel said so, in order."""
        with self._lock:
            left = self._open.pop(instance, 1) - 1
            if left:
                self._open[instance] = left
            elif ended:
                self._ended[instance] = True
                while len(self._ended) > ENDED_MAX:
                    del self._ended[next(iter(self._ended))]

    def has(self, instance: str) -> bool:
        """Say whether ``instance`` has ended for sure."""
        with self._lock:
            return instance in self._ended


class VoteServer:
    """Call `open`, then `serve` in a thread that has nothing else to do; `close` ends it."""

    def __init__(self, store: VoteStore, place: str, secret: bytes, tls: ssl.SSLContext | None = None) -> None:
        """``place``: HOST:PORT. ``tls``: what every connection speaks, None for none. Raises InvalidOption."""
        self._store: Final = store
        self._secret: Final = secret
        self._tls: Final = tls
        self._host, self._port = place_of(place)
        self._turn = threading.Lock()  # one question at a time: they write to one disk anyway
        self._ends = Ends()
        self._guests = threading.Lock()
        self._strangers: dict[Wire, bool] = {}
        self._peers: dict[Wire, bool] = {}
        self._listener: socket.socket | None = None
        self._quit = False
        if not secret and not _is_loopback(self._host):
            raise InvalidOption(
                f"without a secret anybody who reaches {place} could decide who is master",
                remedy="add --secret-file FILE, the same for all voters and brokers",
            )

    @property
    def port(self) -> int:
        """Return the port that it really has."""
        return self._port if self._listener is None else int(self._listener.getsockname()[1])

    def open(self) -> None:
        """Listen. Raises AddressInUse."""
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            self._listener = socket.create_server((self._host, self._port), family=family, backlog=32)
        except OSError as error:
            raise AddressInUse(
                f"the voter cannot listen on {self._host}:{self._port}: {error.strerror}",
                remedy="choose another place with --listen",
            ) from error

    def serve(self) -> None:
        """Accept until `close`."""
        assert self._listener is not None
        while not self._quit:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if self._quit:
                    return
                log.warning("could not accept: %s", error)  # no descriptors: some are closed sooner or later
                time.sleep(0.1)
                continue
            wire = Wire(connection)
            self._admit(wire)
            try:
                threading.Thread(target=self._run, args=(wire,), name="entrepot-voter", daemon=True).start()
            except RuntimeError as error:  # no threads: as above
                log.warning("could not serve a connection: %s", error)
                self._leave(wire)

    def close(self) -> None:
        """Listen no more, and hang up. What was answered is on disk."""
        self._quit = True
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
            self._listener.close()
        with self._turn:  # nobody writes any more
            self._store.close()

    def _admit(self, wire: Wire) -> None:
        """Make room for ``wire`` among those who have shown nothing yet."""
        with self._guests:
            while len(self._strangers) >= STRANGERS_MAX:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(oldest.socket, socket.SHUT_RDWR)  # below TLS, where its thread waits
            self._strangers[wire] = True

    def _leave(self, wire: Wire) -> None:
        with self._guests:
            self._strangers.pop(wire, None)
            self._peers.pop(wire, None)
        wire.close()

    def _run(self, wire: Wire) -> None:
        peer = "?"
        try:
            peer = str(wire.socket.getpeername()[0])
            if self._tls is not None:
                wire.socket.settimeout(PATIENCE)
                wire, encrypted = self._wrapped(wire, self._tls)
                encrypted.do_handshake()
            _keep_alive(wire.socket)
            self._converse(wire, peer)
        except (OSError, EntrepotError) as error:
            log.info("a connection from %s ended: %s", peer, getattr(error, "message", error))
        except Exception:
            log.exception("a connection from %s met a bug", peer)
        finally:
            self._leave(wire)

    def _wrapped(self, wire: Wire, tls: ssl.SSLContext) -> tuple[Wire, ssl.SSLSocket]:
        """Put TLS around it, which has not shaken hands yet: it is a stranger meanwhile, and may have to go as one."""
        encrypted = tls.wrap_socket(wire.socket, server_side=True, do_handshake_on_connect=False)
        wrapped = Wire(encrypted)
        with self._guests:
            self._strangers.pop(wire, None)
        self._admit(wrapped)
        return wrapped, encrypted

    def _converse(self, wire: Wire, peer: str) -> None:
        deadline = time.monotonic() + PATIENCE
        first = wire.receive(HELLO_MAX, deadline)
        if first is None:
            return
        try:
            hello = read_hello(first)
        except MalformedFrame as error:
            wire.send(refusal(error.message), deadline)
            raise
        mine = server_hello()
        wire.send(mine, deadline)
        seal = Seal(self._secret, first, mine, client=False)
        frame = wire.receive(FRAME_MAX, deadline)
        if frame is None:
            return
        body = seal.open(frame)
        if body is None:
            wire.send(refusal("its secret is another one"), deadline)
            raise MalformedFrame(f"{peer} does not know the secret")
        with self._guests:
            room = len(self._peers) < PEERS_MAX
            if room:
                self._strangers.pop(wire, None)
                self._peers[wire] = True
        if not room:
            wire.send(refusal(f"{PEERS_MAX} brokers are connected already"), deadline)
            raise MalformedFrame("too many connections of brokers")
        try:
            file = self._file(str(hello.get("register", "")))
        except OperatorError as error:
            wire.send(refusal(error.message), deadline)
            raise
        instance = str(hello.get("instance", ""))[:64] if is_direct(hello, wire.socket) else ""
        self._follow(wire, seal, file, instance, body)

    def _follow(self, wire: Wire, seal: Seal, file: VoteFile, instance: str, body: bytes | None) -> None:
        """Answer until the peer says no more."""
        if instance:
            self._ends.opened(instance)
        ended = False
        try:
            while body is not None and not self._quit:
                wire.send(seal.seal(self._answer(file, body)), time.monotonic() + PATIENCE)
                frame = wire.receive(FRAME_MAX, time.monotonic() + IDLE)
                if frame is None:
                    ended = True
                    return
                body = seal.open(frame)
                if body is None:
                    raise MalformedFrame("a frame was changed on its way")
        finally:
            if instance:
                self._ends.closed(instance, ended=ended)

    def _file(self, name: str) -> VoteFile:
        with self._turn:
            return self._store.file(name)

    def _answer(self, file: VoteFile, body: bytes) -> bytes:
        try:
            request = load_request(body)
        except ValueError as error:
            raise MalformedFrame(f"not a question: {error}") from error
        with self._turn:
            if self._quit:
                raise ConnectionAbortedError("the voter stops")
            before = file.voter.state.roster
            answer = file.answer(request)
            after = file.voter.state.roster
        if after != before and after is not None:
            log.info("%s: votes with %s", file.path.stem, ", ".join(after.addresses()))
        return dump_answer(answer._replace(gone=bool(request.about) and self._ends.has(request.about)))

    def facts(self) -> dict[str, Any]:
        """Return what there is to be seen."""
        return {"peers": len(self._peers), "registers": sorted(self._store.states())}


def place_of(text: str) -> tuple[str, int]:
    """Return where a voter listens. Raises InvalidOption."""
    return host_and_port(text, "10.0.0.3:7790")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _keep_alive(connection: socket.socket) -> None:
    """Find out within half a minute that a machine is gone; answers are not waited for by Nagle's rule."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
