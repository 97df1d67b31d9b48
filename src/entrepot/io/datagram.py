"""Datagrams to a group: the multicast sockets below discovery.

Decides nothing about what is said; see `client/discovery.py`, and the discovery of brokers.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final, cast

from entrepot.base.errors import OperatorError

Heard = Callable[[bytes, str], None]
"""Called with a datagram and the address of its sender."""

DATAGRAM_OCTETS_MAX: Final = 8192  # ActiveMQ's own receive buffer


class Group(asyncio.DatagramProtocol):
    """A multicast group that we hear, and speak to. Open one with `join`."""

    def __init__(self, host: str, port: int, heard: Heard, octets_max: int = DATAGRAM_OCTETS_MAX) -> None:
        self.host: Final = host
        self.port: Final = port
        self._heard = heard
        self._octets_max: Final = octets_max
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | object, int]) -> None:
        """Pass on what was heard."""
        if len(data) <= self._octets_max:
            self._heard(data, str(addr[0]))

    def say(self, data: bytes) -> None:
        """Send ``data`` to the group. What cannot be sent is lost, as any datagram may be."""
        if self._transport is not None:
            self._transport.sendto(data, (self.host, self.port))

    def close(self) -> None:
        """Leave the group: close the socket."""
        if self._transport is not None:
            self._transport.close()


async def join(
    host: str, port: int, heard: Heard, *, time_to_live: int = 1, loopback: bool = True, interface: str = ""
) -> Group:
    """Join a group. ``loopback``: programs of this machine hear each other. ``interface``: its address, "" for any.

    Raises OperatorError.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("", port))
        local = socket.inet_aton(interface) if interface else struct.pack("!I", socket.INADDR_ANY)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(host) + local)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, time_to_live)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(loopback))
        if interface:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
    except OSError as error:
        sock.close()
        raise OperatorError(
            f"cannot join the multicast group {host}:{port}: {error}",
            remedy="does this machine have a network with multicast? name its address with networkInterface",
        ) from None
    _, group = await asyncio.get_running_loop().create_datagram_endpoint(lambda: Group(host, port, heard), sock=sock)
    return group


async def listen(host: str, port: int, heard: Heard, *, interface: str = "", octets_max: int) -> Group:
    """Hear the group ``host``:``port``, and no other group on that port, as Artemis does. Raises OperatorError."""
    sock = _socket(host)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        if sock.family == socket.AF_INET6:
            number = socket.if_nametoindex(interface) if interface else 0
            member = socket.inet_pton(socket.AF_INET6, host) + struct.pack("@I", number)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
        else:
            local = socket.inet_aton(interface) if interface else struct.pack("!I", socket.INADDR_ANY)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(host) + local)
    except OSError as error:
        sock.close()
        raise _failed(host, port, error) from None
    return await _opened(sock, host, port, heard, octets_max)


async def speak(host: str, port: int, *, interface: str = "", local_port: int = 0) -> Group:
    """Return what speaks to a group, from the address ``interface`` and ``local_port``. Raises OperatorError."""
    sock = _socket(host)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if interface or local_port:
            sock.bind((interface, local_port))
        if sock.family == socket.AF_INET and interface:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
    except OSError as error:
        sock.close()
        raise _failed(host, port, error) from None
    return await _opened(sock, host, port, lambda data, sender: None, 0)


def _socket(host: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP)
    sock.setblocking(False)
    return sock


def _failed(host: str, port: int, error: OSError) -> OperatorError:
    return OperatorError(
        f"cannot join the multicast group {host}:{port}: {error}",
        remedy="does this machine have a network with multicast? name its address with local-bind-address",
    )


async def _opened(sock: socket.socket, host: str, port: int, heard: Heard, octets_max: int) -> Group:
    loop = asyncio.get_running_loop()
    _, group = await loop.create_datagram_endpoint(lambda: Group(host, port, heard, octets_max), sock=sock)
    return group
