"""DNS-SD as ActiveMQ's agent speaks it: records as JmDNS was seen to write them, said and heard on a real network."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from entrepot.base.uri import Endpoint, parse
from entrepot.cluster.networks.discovery import parse_beacon
from entrepot.io.announcing import ZeroconfBrowser, announced_uri, foreign_type, service_type
from pairs import free_port

MDNS: Final = ("224.0.0.251", 5353)
PTR: Final = 12
ANSWER: Final = 0x8400
TTL_S: Final = 3600


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main

    asyncio.run(bounded())


def labels(*names: str) -> bytes:
    return b"".join(bytes([len(name)]) + name.encode() for name in names) + b"\0"


def pointer(kind: bytes, alias: bytes, time_to_live: int) -> bytes:
    head = struct.pack("!6H", 0, ANSWER, 0, 1, 0, 0)
    return head + kind + struct.pack("!HHIH", PTR, 1, time_to_live, len(alias)) + alias


class Agent:
    """What a broker of ActiveMQ says."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
        self.socket.bind(("", 0))

    def say(self, kind: list[str], name: list[str], time_to_live: int = TTL_S) -> None:
        self.socket.sendto(pointer(labels(*kind), labels(*name), time_to_live), MDNS)


def multicast_works() -> bool:
    pytest.importorskip("zeroconf", reason="the package zeroconf is not installed")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(MDNS[0]) + b"\0\0\0\0")
            one.sendto(b"x", (MDNS[0], 9))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("legal", [False, True])
def test_brokers_of_activemq_are_heard_and_forgotten(legal: bool) -> None:
    if not multicast_works():
        pytest.skip("this machine has no network with multicast")
    group = f"G{free_port()}"
    uri = "tcp://10.0.0.1:61616"
    beacon = parse(f"zeroconf://{group}")
    assert isinstance(beacon, Endpoint)
    low = f"_{group.lower()}"
    # the name of the service already has the type in it, as the agent gives it to JmDNS
    kind = [low, "_activemq-5" if legal else "activemq-5", "_tcp", "local"]
    inner = [low, "_activemq-5", "_tcp", "local"] if legal else [low, "ActiveMQ-5"]
    heard: list[tuple[str, bool]] = []

    async def main() -> None:
        agent = Agent()
        browser = ZeroconfBrowser(parse_beacon(beacon)[0], lambda uri, lives: heard.append((uri, lives)))
        try:
            while (uri, True) not in heard:
                agent.say(kind, [uri, *inner, *kind])
                await asyncio.sleep(0.1)
            while (uri, False) not in heard:
                agent.say(kind, [uri, *inner, *kind], time_to_live=0)
                await asyncio.sleep(0.1)
            assert {one for one, _ in heard} == {uri}
        finally:
            await browser.close()
            agent.socket.close()

    run(main())


def test_the_question_for_brokers_that_came_before_us_is_asked() -> None:
    if not multicast_works():
        pytest.skip("this machine has no network with multicast")
    group = f"q{free_port()}"
    beacon = parse(f"zeroconf://{group}")
    assert isinstance(beacon, Endpoint)

    async def main() -> None:
        asked = asyncio.Event()
        wanted = labels(f"_{group}", "activemq-5", "_tcp", "local")

        class Ear(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                if wanted in data and data[2] & 0x80 == 0:
                    asked.set()

        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("", MDNS[1]))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(MDNS[0]) + b"\0\0\0\0")
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Ear, sock=sock)
        browser = ZeroconfBrowser(parse_beacon(beacon)[0], lambda uri, lives: None)
        try:
            await asked.wait()
        finally:
            await browser.close()
            transport.close()

    run(main())


def test_what_the_names_say() -> None:
    assert service_type("Europe") == "_europe._activemq-5._tcp.local."
    assert foreign_type("Europe") == "_europe.activemq-5._tcp.local."
    ours = service_type("g")
    assert announced_uri(f"tcp://10.0.0.1:61616.{ours}", ours) == "tcp://10.0.0.1:61616"
    assert announced_uri(f"tcp://10.0.0.1:61616.{ours}{ours}", ours) == "tcp://10.0.0.1:61616"
    theirs = foreign_type("g")
    assert announced_uri(f"tcp://a.b:1._g.ActiveMQ-5.{theirs}", theirs) == "tcp://a.b:1"
