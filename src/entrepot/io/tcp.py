"""Listening and dialling: TCP, TLS and unix sockets, with or without a PROXY header.

A listener speaks one protocol (``stomp://``) or finds out (``auto://``, and for now ``tcp://``). The words of a scheme
are joined by ``+``: a protocol, and the layers ``ssl``, ``unix`` and ``nio`` (which means nothing here). Everything
that can be wrong with its URI is found before a socket is opened.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import stat
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

from msgspec.structs import replace

from entrepot.base.environment import SECOND
from entrepot.base.errors import AddressInUse, InvalidOption, InvalidURI, MalformedFrame, OperatorError
from entrepot.base.uri import NO_PORT, Endpoint, parse
from entrepot.io.connection import Connection
from entrepot.io.local import enter
from entrepot.io.options import TransportOptions, read
from entrepot.io.proxy import read_header
from entrepot.io.tls import client_context, server_context
from entrepot.io.turns import Turn
from entrepot.protocols.detection import DetectingSession
from entrepot.protocols.session import AMQP, CORE, HTTP, MQTT, OPENWIRE, STOMP, WS, Session, Shell

HTTPS: Final = "https"
WSS: Final = "wss"
MEANT: Final = {HTTPS: HTTP, WSS: WS}  # words of a scheme that say TLS too
DEFAULT_PORTS: Final[Mapping[str, int]] = {
    STOMP: 61613, MQTT: 1883, AMQP: 5672, HTTP: 80, HTTPS: 443, WS: 61614, "auto": 61616,
}  # fmt: skip
VM: Final = "vm"
AUTO: Final = "auto"
LAYERS: Final = ("nio", "ssl", "unix", "tcp")
REFUSED_MAX: Final = 64  # connections over the limit that are told so at once; the others are just closed
REFUSAL_TIMEOUT: Final = 2 * SECOND  # for one that does not say what it speaks, and so cannot be told

Greeter = Callable[[Shell, str], Session]
"""Makes the session of one protocol for a connection of the peer that is named."""
Greeters = Mapping[str, Greeter]

log: Final = logging.getLogger("entrepot.listener")


class Listening:
    """The checked meaning of one listener's URI; nothing is open yet. Raises InvalidURI, InvalidOption."""

    def __init__(
        self, text: str, spoken: Callable[[str, str], bool], known: list[str], *, shared: bool = False
    ) -> None:
        """``spoken``: see `options.read`. ``known``: the protocols of this build.

        ``shared``: other processes of this user listen at the same port, and the kernel deals connections out.
        """
        self.text: str = text
        self.shared: bool = shared
        self.endpoint: Endpoint = parse_place(text)
        words = self.endpoint.scheme.split("+")
        names = [MEANT.get(word, word) for word in words if word not in LAYERS]
        self.protocol: str = names[0] if names else AUTO
        self.unix: bool = "unix" in words
        if len(names) > 1 or self.protocol not in (AUTO, STOMP, OPENWIRE, AMQP, MQTT, HTTP, CORE, WS):
            raise InvalidURI(
                f"nothing listens on the scheme {self.endpoint.scheme!r}",
                remedy="use " + ", ".join(f"{name}://" for name in [*known, AUTO]) + ", with +ssl or +unix",
            )
        self.options: TransportOptions = read(self.endpoint, spoken)
        self.context: ssl.SSLContext | None = server_context(self.options.tls) if self.options.secure else None
        allowed = self.options.protocols or known
        self.protocols: list[str] = [name for name in allowed if name in known]
        if self.protocol != AUTO:
            self.protocols = [self.protocol]
        if not self.protocols or self.protocols[0] not in known:
            raise InvalidOption(
                f"this build does not speak {self.options.protocols or self.protocol!r}",
                remedy="it speaks " + ", ".join(known),
            )
        for name in allowed:
            if name not in known:
                log.warning("%s: this build does not speak %s", self.endpoint.masked(), name)

    @property
    def port(self) -> int:
        """Return the port to bind."""
        port = self.endpoint.port
        name = HTTPS if self.protocol == HTTP and self.options.secure else self.protocol
        return DEFAULT_PORTS.get(name, DEFAULT_PORTS[AUTO]) if port == NO_PORT else port


class Listener:
    """One open door. ``connections`` are the living ones; ``exceeded`` counts those over maximumConnections."""

    def __init__(self, listening: Listening, turn: Turn, greeters: Greeters) -> None:
        self.listening: Final = listening
        self.options: Final = listening.options
        self.turn: Final = turn
        self.greeters: Final = {name: greeters[name] for name in listening.protocols}
        if WS in self.greeters and HTTP not in self.greeters:
            self.greeters[HTTP] = greeters[WS]  # so it begins
        self.connections: dict[Connection, None] = {}
        self.refusing: dict[Connection, None] = {}
        self.accepted = 0
        self.exceeded = 0
        self.port = 0
        self._connection_options: Final = self.options.connection()
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._proxied: set[asyncio.Task[None]] = set()
        self._unix_file: tuple[int, int] | None = None

    @property
    def place(self) -> Endpoint:
        """Return where it listens, with the port that it really has, without options."""
        port = NO_PORT if self.listening.unix else self.port
        return replace(self.listening.endpoint, port=port, options={})

    @property
    def uri(self) -> str:
        """Return the text of `place`."""
        return self.place.format()

    async def open(self) -> None:
        """Listen. Raises AddressInUse, OperatorError; nothing stays open then."""
        try:
            if self.listening.unix:
                self._sockets = [self._bind_unix(self.listening.endpoint.path)]
            else:
                # opened again, it is where it was
                self._sockets = await bind(self.listening, self.turn.loop, self.listening.port or self.port)
                self.port = self._sockets[0].getsockname()[1]
            for sock in self._sockets:
                await self._serve(sock)
        except BaseException:
            self.close()
            raise
        log.info("listening on %s", self.uri)

    async def renew(self, context: ssl.SSLContext) -> None:
        """Show ``context`` to who comes from now on; who is connected stays. No connection is refused meanwhile.

        A socket of the file system is opened anew only with the broker: closing it would take the file away.
        """
        self.listening.context = context
        if self.options.proxied or self.listening.unix:
            return
        had, self._servers = self._servers, []
        before, self._sockets = self._sockets, [sock.dup() for sock in self._sockets]
        for sock in list(self._sockets):  # the same queue of connections, so none is lost between the two
            sock.setblocking(False)
            await self._serve(sock)
        for server in had:
            server.close()
        for sock in before:
            sock.close()
        if not self._sockets:
            self.close()  # somebody closed it meanwhile

    async def adopt(self, sock: socket.socket) -> None:
        """Serve the other end of ``sock`` as if it had been accepted."""
        await self.turn.loop.connect_accepted_socket(
            cast("Callable[[], asyncio.Protocol]", partial(self._connection, "vm")), sock
        )

    def carry(self, make: Greeter, peer: str) -> Connection | None:
        """Return a connection that somebody else drives than a socket of ours; None when there are enough."""
        if len(self.connections) >= self.options.connections_max:
            self.exceeded += 1
            return None
        self.accepted += 1
        connection = Connection(self.turn, self._connection_options, lambda made: make(made, made.peer), self._lost)
        connection.peer = peer
        self.connections[connection] = None
        return connection

    def close(self) -> None:
        """Take no more connections; those that live go on."""
        loop = self.turn.loop
        for task in self._proxied:
            task.cancel()
        if self.options.proxied:
            for sock in self._sockets:
                if sock.fileno() >= 0:
                    loop.remove_reader(sock)
        for server in self._servers:
            server.close()
        for sock in self._sockets:
            sock.close()
        self._servers.clear()
        self._sockets.clear()
        self._remove_unix_file()

    @property
    def is_open(self) -> bool:
        """Return whether it takes connections."""
        return bool(self._sockets)

    def shut(self, why: str) -> None:
        """Tell every peer ``why``, and close its connection once it has taken that."""
        for connection in list(self.connections):
            connection.shut(why)

    def stop_reading(self) -> None:
        """Take nothing more from the peers; they still get their answers."""
        for connection in self.connections:
            connection.stop_reading()

    async def drain(self, why: str) -> None:
        """Tell every peer ``why``, let it take what is written, and close; reset what is left after shutdownTimeout."""
        for connection in [*self.connections, *self.refusing]:
            connection.shut(why)
        until = self.turn.loop.time() + self.options.shutdown_timeout / SECOND
        while (self.connections or self.refusing) and self.turn.loop.time() < until:
            await asyncio.sleep(0.005)
        left = [*self.connections, *self.refusing]
        for connection in left:
            connection.abort()
        while self.connections or self.refusing:  # a reset takes one turn of the loop
            await asyncio.sleep(0)

    # -- sockets ------------------------------------------------------------------------------------------------------

    def _bind_unix(self, path: str) -> socket.socket:
        _remove_stale(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.bind(path)
            sock.listen(self.options.backlog)
            status = os.stat(path)
            self._unix_file = (status.st_dev, status.st_ino)
        except OSError as error:
            sock.close()
            raise _explained(error, path) from None
        return sock

    def _remove_unix_file(self) -> None:
        """Remove the socket file if it is still ours: another broker may have taken the name since."""
        mine, self._unix_file = self._unix_file, None
        path = self.listening.endpoint.path
        try:
            status = os.stat(path) if mine else None
            if status is not None and (status.st_dev, status.st_ino) == mine:
                os.unlink(path)
        except OSError:
            log.debug("the socket file %s was gone already", path)

    async def _serve(self, sock: socket.socket) -> None:
        loop = self.turn.loop
        if self.options.proxied:
            loop.add_reader(sock, self._accept_proxied, sock)
            return
        timeout = self.options.connect_timeout / SECOND if self.listening.context is not None else None
        factory = cast("Callable[[], asyncio.Protocol]", self._connection)
        context = self.listening.context
        if self.listening.unix:
            server = await loop.create_unix_server(factory, sock=sock, ssl=context, ssl_handshake_timeout=timeout)
        else:
            backlog = self.options.backlog
            server = await loop.create_server(
                factory, sock=sock, backlog=backlog, ssl=context, ssl_handshake_timeout=timeout
            )
        self._servers.append(server)

    # -- PROXY --------------------------------------------------------------------------------------------------------

    def _accept_proxied(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # out of descriptors; the socket stays ready, so looking away is what helps
            log.error("%s: cannot accept, trying again in a second: %s", self.uri, error.strerror)
            self.turn.loop.remove_reader(listening)
            self.turn.loop.call_later(1.0, self._accept_again, listening)
            return
        sock.setblocking(False)
        task = self.turn.loop.create_task(self._introduce(sock))
        self._proxied.add(task)
        task.add_done_callback(self._proxied.discard)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self.turn.loop.add_reader(listening, self._accept_proxied, listening)

    async def _introduce(self, sock: socket.socket) -> None:
        try:
            async with asyncio.timeout(self.options.detection_timeout / SECOND):
                peer = await read_header(sock)
        except (MalformedFrame, OSError, TimeoutError) as error:
            log.warning("a connection without a usable PROXY header is closed: %s", error or "it took too long")
            sock.close()
            return
        except asyncio.CancelledError:
            sock.close()
            raise
        timeout = self.options.connect_timeout / SECOND if self.listening.context is not None else None
        try:
            await self.turn.loop.connect_accepted_socket(
                cast("Callable[[], asyncio.Protocol]", partial(self._connection, peer)),
                sock,
                ssl=self.listening.context,
                ssl_handshake_timeout=timeout,
            )
        except OSError as error:  # ssl.SSLError is one
            log.info("%s: the TLS handshake failed: %s", peer, error)
            sock.close()

    # -- connections --------------------------------------------------------------------------------------------------

    def _connection(self, peer: str = "") -> Connection:
        connection = Connection(self.turn, self._connection_options, self._greet, self._lost)
        connection.peer = peer
        return connection

    def _greet(self, connection: Connection) -> Session:
        """Return the session of a new connection: one of a protocol, one that finds out, or one that refuses."""
        self.accepted += 1
        if not self.options.no_delay:
            _slow_down(connection)
        if len(self.connections) >= self.options.connections_max:
            return self._refuse(connection)
        self.connections[connection] = None
        if self.listening.protocol != AUTO:
            return self.greeters[self.listening.protocol](connection, connection.peer)
        makers = {name: partial(_make, greeter, connection.peer) for name, greeter in self.greeters.items()}
        return DetectingSession(connection, makers, self.turn.now, timeout=self.options.detection_timeout)

    def _refuse(self, connection: Connection) -> Session:
        self.exceeded += 1
        limit = self.options.connections_max
        reason = f"this listener admits {limit} connections at a time and has them; try again later"
        if self.exceeded & (self.exceeded - 1) == 0:  # the 1st, 2nd, 4th, 8th...: a flood must not fill the log
            log.warning("%s: maximumConnections=%d reached, %d refused so far", self.uri, limit, self.exceeded)
        self.refusing[connection] = None
        session = DetectingSession(connection, {}, self.turn.now, timeout=REFUSAL_TIMEOUT, refusal=reason)
        if len(self.refusing) > REFUSED_MAX:
            session.closing = True
        return session

    def _lost(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.refusing.pop(connection, None)


async def bind(
    listening: Listening, loop: asyncio.AbstractEventLoop, port: int, *, listens: bool = True
) -> list[socket.socket]:
    """Return sockets at ``port`` of each address of the host, all at one that is free where it is 0.

    ``listens`` False: none takes connections, but the port is taken. Raises AddressInUse, OperatorError: nothing stays
    open then.
    """
    host = listening.endpoint.host
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OperatorError(
            f"the host {host!r} is not known: {error.strerror}", remedy="use an address of this machine"
        ) from None
    places = dict.fromkeys((family, address) for family, _, _, _, address in found)
    sockets: list[socket.socket] = []
    free = listening.port == 0
    for family, address in places:
        try:
            sock = _bound(listening, family, (address[0], port, *address[2:]), listens=listens)
        except OSError as error:
            if sockets and (free or error.errno == errno.EADDRNOTAVAIL):
                continue  # ``localhost`` has two addresses, and one is enough when the other cannot be had
            for other in sockets:
                other.close()
            raise _explained(error, f"{host}:{port}") from None
        port = sock.getsockname()[1]
        sockets.append(sock)
    return sockets


def _bound(listening: Listening, family: int, address: tuple[object, ...], *, listens: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listening.shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        set_socket_options(sock, listening.options)  # what is accepted inherits them
        sock.bind(address)
        if listens:
            sock.listen(listening.options.backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def _explained(error: OSError, place: str) -> OperatorError:
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(
            f"cannot listen on {place}: another program does",
            remedy="stop that program, or listen elsewhere; port 0 takes any free one",
        )
    return OperatorError(
        f"cannot listen on {place}: {error.strerror}", remedy="use an address and a port that this user may take"
    )


def parse_place(text: str) -> Endpoint:
    """Return the endpoint of a listener or a peer; ``stomp+unix:///path`` names a file. Raises InvalidURI."""
    scheme, mark, rest = text.partition("://")
    if mark and "unix" in scheme.lower().split("+"):
        place = parse(f"unix://{rest}")
        if not isinstance(place, Endpoint) or place.host or len(place.path) < 2:
            raise InvalidURI(f"{scheme}: names no file", remedy=f"write {scheme}:///run/entrepot.sock")
        return replace(place, scheme=scheme.lower())
    place = parse(text)
    if not isinstance(place, Endpoint):
        raise InvalidURI("a list of places cannot be one place", remedy="write one URI for each")
    return place


def set_socket_options(sock: socket.socket, options: TransportOptions) -> None:
    """Set what ``options`` say on ``sock``."""
    if options.send_octets is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_octets)
    if options.receive_octets is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_octets)
    if options.keep_alive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if options.linger_seconds is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, options.linger_seconds))
    if options.traffic_class is not None:
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, options.traffic_class)
        elif sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, options.traffic_class)


async def dial(
    text: str, turn: Turn, make: Greeter, spoken: Callable[[str, str], bool], lost: Callable[[Connection], None]
) -> Connection:
    """Connect to the place that ``text`` names and drive the session that ``make`` makes for it.

    ``lost`` is called when the connection is gone. An ``http:`` place is asked to switch to OpenWire; one that does
    not, like ActiveMQ's, is polled. Raises InvalidURI, InvalidOption; OSError (TimeoutError too, and ssl.SSLError) when
    there is no way through.
    """
    endpoint = parse_place(text)
    options = read(endpoint, spoken)
    context = client_context(options.tls) if options.secure else None
    way = Way(endpoint, options, context, turn.loop)
    async with asyncio.timeout(options.connect_timeout / SECOND):
        if endpoint.scheme.split("+")[0] in (HTTP, HTTPS):
            return await _dial_http(way, turn, make, lost)
        greet: Callable[[Connection], Session] = lambda made: make(made, made.peer)  # noqa: E731
        connection = Connection(turn, options.connection(), greet, lost)
        await way.open(cast("Callable[[], asyncio.Protocol]", lambda: connection), connection)
    if not options.no_delay:
        _slow_down(connection)
    return connection


class Way:
    """How one place is reached: directly or through a proxy, with TLS or without. `open` may be called again."""

    def __init__(
        self,
        endpoint: Endpoint,
        options: TransportOptions,
        context: ssl.SSLContext | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.endpoint: Final = endpoint
        self.options: Final = options
        self.context: Final = context
        self.loop: Final = loop

    @property
    def port(self) -> int:
        """Return the port to dial."""
        port = self.endpoint.port
        return DEFAULT_PORTS.get(self.endpoint.scheme.split("+")[0], DEFAULT_PORTS[AUTO]) if port == NO_PORT else port

    async def open(self, factory: Callable[[], asyncio.Protocol], connection: Connection | None = None) -> None:
        """Have the loop drive what ``factory`` makes; ``connection`` is told who its peer is. Raises OSError."""
        endpoint, context, loop = self.endpoint, self.context, self.loop
        host = endpoint.host if context is not None else None
        words = endpoint.scheme.split("+")
        if "unix" in words:
            if connection is not None:
                connection.peer = endpoint.path
            await loop.create_unix_connection(factory, endpoint.path)
        elif words[0] == VM:
            if connection is not None:
                connection.peer = endpoint.format()
            await loop.create_unix_connection(factory, sock=enter(endpoint.host or endpoint.path.strip("/")))
        elif self.options.proxy_host:
            from entrepot.io.forward import through_proxy  # noqa: PLC0415 - h11 is loaded where HTTP is spoken

            sock = await through_proxy(loop, self.options, endpoint.host, self.port)
            try:
                await loop.create_connection(factory, sock=sock, ssl=context, server_hostname=host)
            except BaseException:
                sock.close()
                raise
        else:
            await loop.create_connection(factory, endpoint.host, self.port, ssl=context, server_hostname=host)


async def _dial_http(way: Way, turn: Turn, make: Greeter, lost: Callable[[Connection], None]) -> Connection:
    """Ask for OpenWire; poll a place that has it only as ActiveMQ does."""
    from entrepot.io.poller import Poller  # noqa: PLC0415 - h11 is loaded where HTTP is spoken
    from entrepot.protocols.tunnel import TunnelClient  # noqa: PLC0415 - as above

    decided: asyncio.Future[bool] = turn.loop.create_future()

    def decide(switched: bool) -> None:
        if not decided.done():
            decided.set_result(switched)

    def gone(connection: Connection) -> None:
        if not decided.done():
            decided.set_exception(ConnectionResetError(0, "it closed the connection without an answer in HTTP"))
        elif decided.result():
            lost(connection)

    def ask(made: Connection) -> Session:
        return TunnelClient(
            made, lambda shell: make(shell, made.peer), turn.now, host=host, path=endpoint.path, decided=decide
        )

    endpoint = way.endpoint
    host = endpoint.host if endpoint.port == NO_PORT else f"{endpoint.host}:{endpoint.port}"
    connection = Connection(turn, way.options.connection(), ask, gone)
    await way.open(cast("Callable[[], asyncio.Protocol]", lambda: connection), connection)
    try:
        switched = await decided
    except BaseException:
        connection.abort()
        raise
    if switched:
        if not way.options.no_delay:
            _slow_down(connection)
        return connection
    poller = Poller(turn, way.open, way.options, host, endpoint.path)
    return await poller.start(Connection(turn, way.options.connection(), lambda made: make(made, made.peer), lost))


def _make(greeter: Greeter, peer: str, shell: Shell) -> Session:
    return greeter(shell, peer)


def _slow_down(connection: Connection) -> None:
    """Switch Nagle's algorithm on again, which the loops switch off."""
    transport = connection.transport
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)


def _remove_stale(path: str) -> None:
    """Remove the socket that a dead broker left. Raises AddressInUse when somebody answers, or it is no socket."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise AddressInUse(f"{path} exists and is no socket", remedy="remove it, or name another file")
    except FileNotFoundError:
        return
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.setblocking(False)
        probe.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
        return
    except OSError:
        pass  # a full backlog: somebody listens
    finally:
        probe.close()
    raise AddressInUse(f"another program listens on {path}", remedy="stop it, or name another file")
