# ruff: noqa: SIM117  nested blocks say in which order things close
"""How brokers find and reach one another: within a process, through HTTP, through a proxy, by announcements."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

import entrepot
from entrepot.base.errors import EntrepotError, InvalidURI
from entrepot.embedded import Broker
from pairs import free_port
from shell.certificates import Certificates

PATIENCE = 20.0
QUICK = "initialReconnectDelay=50&useExponentialBackOff=false"
OPENWIRE = ("openwire://127.0.0.1:0",)


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(bounded())


async def crosses(source: str, target: str, body: str = "hello") -> None:
    """Send at ``source`` until it arrives at ``target``."""
    async with entrepot.connect(target) as far, far.session() as reading, reading.consumer("queue://Q") as consumer:
        async with entrepot.connect(source) as near, near.session() as writing, writing.producer("queue://Q") as out:
            await out.send(body)
            message = await consumer.receive(PATIENCE)
            assert message is not None
            assert message.body == body


def test_brokers_of_one_process_need_no_port() -> None:
    async def main() -> None:
        async with Broker(name="far", listen=OPENWIRE) as far:
            async with Broker(name="near", listen=OPENWIRE, connect=[f"static:(vm://far)?{QUICK}"]) as near:
                await crosses(near.uri("openwire"), far.uri("openwire"))
                async with entrepot.connect("vm://far") as inside, inside.session() as session:
                    async with session.producer("queue://X") as producer:
                        await producer.send("x")
                assert {one.name for one in far.queues.list()} >= {"X"}

    run(main())


def test_a_bridge_waits_for_a_broker_of_its_process_and_finds_it_again() -> None:
    async def main() -> None:
        async with Broker(name="near", listen=OPENWIRE, connect=[f"static:(vm://later)?{QUICK}"], duplex=True) as near:
            await asyncio.sleep(0.2)
            for _ in range(2):
                async with Broker(name="later", listen=OPENWIRE) as later:
                    await crosses(near.uri("openwire"), later.uri("openwire"))
                    await crosses(later.uri("openwire"), near.uri("openwire"))

    run(main())


@contextlib.asynccontextmanager
async def proxy(allowed: int, *, credentials: bytes = b"") -> AsyncIterator[tuple[int, list[bytes]]]:
    """An HTTP proxy that lets CONNECT to one port pass."""
    asked: list[bytes] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        if credentials and credentials not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        elif head.split(b" ")[:2] != [b"CONNECT", b"127.0.0.1:%d" % allowed]:
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        else:
            there, back = await asyncio.open_connection("127.0.0.1", allowed)
            writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            await asyncio.gather(pump(reader, back), pump(there, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], asked
    server.close()


@pytest.mark.parametrize("scheme", ["tcp", "http"])
def test_a_bridge_goes_through_a_proxy(scheme: str) -> None:
    async def main() -> None:
        listen = OPENWIRE if scheme == "tcp" else (*OPENWIRE, "http://127.0.0.1:0")
        async with Broker(name="far", listen=listen) as far:
            port = int(far.uris[-1].rpartition(":")[2])
            async with proxy(port, credentials=b"Basic dXNlcjpzZWNyZXQ=") as (proxy_port, asked):
                there = f"{scheme}://127.0.0.1:{port}?proxyHost=127.0.0.1&proxyPort={proxy_port}"
                there += "&proxyUser=user&proxyPassword=secret"
                async with Broker(name="near", listen=OPENWIRE, connect=[f"static:({there})?{QUICK}"]) as near:
                    await crosses(near.uri("openwire"), far.uri("openwire"))
                assert asked

    run(main())


def test_what_a_proxy_refuses_is_told() -> None:
    async def main() -> None:
        async with proxy(1) as (proxy_port, _):
            there = f"tcp://127.0.0.1:2?proxyHost=127.0.0.1&proxyPort={proxy_port}"
            async with Broker(name="near", listen=OPENWIRE, connect=[f"static:({there})?{QUICK}"]) as near:
                links = near.node.links
                assert links is not None
                while not links.report()[0]["error"]:
                    await asyncio.sleep(0.02)
                assert "answers 403 for 127.0.0.1:2" in str(links.report()[0]["error"])

    run(main())


@pytest.mark.parametrize("listen", ["http://127.0.0.1:0", "auto://127.0.0.1:0"])
def test_openwire_behind_an_http_upgrade(listen: str) -> None:
    async def main() -> None:
        async with Broker(name="far", listen=[listen, *OPENWIRE]) as far:
            port = int(far.uris[0].rpartition(":")[2])
            there = f"static:(http://127.0.0.1:{port}/mq)?{QUICK}"
            async with Broker(name="near", listen=OPENWIRE, connect=[there], duplex=True) as near:
                await crosses(near.uri("openwire"), far.uri("openwire"))
                await crosses(far.uri("openwire"), near.uri("openwire"))
            await crosses(f"http://127.0.0.1:{port}", far.uri("openwire"))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
            writer.close()

    run(main())


@pytest.mark.parametrize("scheme", ["https", "http+ssl"])
def test_http_behind_tls(scheme: str, tmp_path: Path) -> None:
    made = Certificates(tmp_path)

    async def main() -> None:
        listen = f"{scheme}://127.0.0.1:0?keyStorePath={made.server}"
        async with Broker(name="far", listen=[listen, *OPENWIRE]) as far:
            there = far.uri("http")
            assert there.startswith("https://127.0.0.1:")
            await crosses(f"{there}?trustStorePath={made.authority}", far.uri("openwire"))
            with pytest.raises(EntrepotError, match="certificate"):
                await crosses(there, far.uri("openwire"))

    run(main())


def multicast_works() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.255.2.3") + b"\0\0\0\0")
            one.sendto(b"x", ("239.255.2.3", 9))
    except OSError:
        return False
    return True


def test_who_listens_for_http_alone_is_announced_so() -> None:
    if not multicast_works():
        pytest.skip("this machine has no network with multicast")
    port = free_port()
    beacon = f"multicast://239.255.2.3:{port}?group=http&keepAliveInterval=50"

    async def main() -> None:
        async with Broker(name="near", listen=OPENWIRE, connect=[beacon]) as near:
            async with Broker(name="far", listen=["http://127.0.0.1:0"], announce=[beacon]) as far:
                await crosses(near.uri("openwire"), far.uri("http"))

    run(main())


@pytest.mark.parametrize("kind", ["multicast", "zeroconf", "rendezvous"])
def test_brokers_find_each_other_and_forget_who_leaves(kind: str) -> None:
    if not multicast_works():
        pytest.skip("this machine has no network with multicast")
    if kind != "multicast":
        pytest.importorskip("zeroconf", reason="the package zeroconf is not installed")
    port = free_port()
    group = f"g{port}"
    beacon = {
        "multicast": f"multicast://239.255.2.3:{port}?group={group}&keepAliveInterval=50",
        "zeroconf": f"zeroconf://{group}",
        "rendezvous": f"rendezvous:{group}",
    }[kind]

    async def main() -> None:
        async with Broker(name="near", listen=OPENWIRE, connect=[beacon], announce=[beacon]) as near:
            links = near.node.links
            assert links is not None
            async with Broker(name="far", listen=OPENWIRE, connect=[beacon], announce=[beacon]) as far:
                await crosses(near.uri("openwire"), far.uri("openwire"))
                await crosses(far.uri("openwire"), near.uri("openwire"))
            while any(row["peer"] == "far" for row in links.report()):
                await asyncio.sleep(0.05)

    run(main())


def test_what_announces_nothing_is_refused() -> None:
    with pytest.raises(InvalidURI, match="is a list"):
        run(_started("static:(tcp://a)"))
    with pytest.raises(InvalidURI, match="do not announce themselves by 'tcp'"):
        run(_started("tcp://a"))


async def _started(announce: str) -> None:
    async with Broker(listen=OPENWIRE, announce=[announce]):
        pass


@pytest.mark.parametrize("client", [False, True])
def test_a_bridge_speaks_tls_in_both_directions(client: bool, tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    asked = f"&needClientAuth=true&trustStorePath={made.authority}" if client else ""
    shown = f"&keyStorePath={made.client}" if client else ""

    async def main() -> None:
        secure = f"openwire+ssl://127.0.0.1:0?keyStorePath={made.server}{asked}"
        async with Broker(name="far", listen=[*OPENWIRE, secure]) as far:
            port = int(far.uris[1].rpartition(":")[2])
            there = f"static:(ssl://127.0.0.1:{port}?trustStorePath={made.authority}{shown})?{QUICK}"
            async with Broker(name="near", listen=OPENWIRE, connect=[there], duplex=True) as near:
                await crosses(near.uri("openwire"), far.uris[0])
                await crosses(far.uris[0], near.uri("openwire"))

    run(main())


@pytest.mark.parametrize(
    ("host", "trusting", "remedy"),
    [("127.0.0.1", False, "with trustStorePath=FILE"), ("127.0.0.2", True, "by a name that is in its certificate")],
)
def test_a_bridge_trusts_nobody_whom_it_was_not_told_to(host: str, trusting: bool, remedy: str, tmp_path: Path) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        secure = f"openwire+ssl://{host}:0?keyStorePath={made.server}"
        trust = f"?trustStorePath={made.authority}" if trusting else ""
        async with Broker(name="far", listen=[secure]) as far:
            port = int(far.uris[0].rpartition(":")[2])
            async with Broker(listen=OPENWIRE, connect=[f"static:(ssl://{host}:{port}{trust})?{QUICK}"]) as near:
                links = near.node.links
                assert links is not None
                while not (said := str(links.report()[0]["error"])):
                    await asyncio.sleep(0.02)
                assert f"{host}:{port}: its certificate is not trusted: " in said
                assert remedy in said

    run(main())


@pytest.mark.parametrize("duplex", [False, True])
def test_a_body_larger_than_the_memory_of_both_brokers_crosses(duplex: bool, tmp_path: Path) -> None:
    body = bytes(range(256)) * 4 * 20 * 1024  # 20 MiB

    async def main() -> None:
        small = {"memory_limit": 4 * 1024 * 1024, "listen": ("auto://127.0.0.1:0",)}
        async with Broker(name="far", data=tmp_path / "far", **small) as far:
            there = f"static:({far.uri('openwire').replace('openwire', 'tcp')})?{QUICK}"
            async with Broker(name="near", data=tmp_path / "near", connect=[there], duplex=duplex, **small) as near:
                source, target = (far, near) if duplex else (near, far)
                async with entrepot.connect(target.uri("openwire")) as one, one.session() as reading:
                    async with reading.consumer("queue://large") as consumer:
                        async with entrepot.connect(source.uri("openwire")) as other, other.session() as writing:
                            async with writing.producer("queue://large") as producer:
                                await producer.send(body)
                                await producer.send(b"small")
                        for expected in (body, b"small"):
                            message = await consumer.receive(PATIENCE)
                            assert message is not None
                            assert message.body == expected

    run(main())


@contextlib.asynccontextmanager
async def plain_proxy(target: int) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A reverse proxy that knows no upgrade: it does not pass the header on."""
    seen: list[bytes] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, ask: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if ask:
                    seen.append(data.partition(b" ")[0])
                    data = data.replace(b"Upgrade: openwire\r\n", b"").replace(b"Connection: Upgrade\r\n", b"")
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, back, ask=True), pump(there, writer, ask=False))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], seen
    server.close()


@pytest.mark.parametrize("query", ["", "&useCompression=true"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_without_an_upgrade_commands_are_posted_and_polled(query: str, loop: str) -> None:
    made = pytest.importorskip(loop, reason=f"{loop} is not installed").new_event_loop

    async def main() -> None:
        async with Broker(name="far", listen=["http://127.0.0.1:0", *OPENWIRE]) as far:
            port = int(far.uris[0].rpartition(":")[2])
            async with plain_proxy(port) as (proxy_port, seen):
                there = f"http://127.0.0.1:{proxy_port}"
                connect = [f"static:({there}?connectionTimeout=5000{query})?{QUICK}"]
                async with Broker(name="near", listen=OPENWIRE, connect=connect, duplex=True) as near:
                    await crosses(near.uri("openwire"), far.uri("openwire"), "x" * 3_000_000)
                    await crosses(far.uri("openwire"), near.uri("openwire"))
                await crosses(f"{there}?connectionTimeout=5000{query}", far.uri("openwire"))
                assert {b"HEAD", b"GET", b"POST"} <= set(seen)
                assert (b"OPTIONS" in seen) == bool(query)
                while far.node.listeners[0].connections:  # the sessions end with their connections
                    await asyncio.sleep(0.02)

    with asyncio.Runner(loop_factory=made) as runner:
        runner.run(asyncio.wait_for(main(), 60))


def test_a_polled_place_that_is_none_is_told() -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while True:
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Broker(name="near", listen=OPENWIRE, connect=[f"static:({there})?{QUICK}"]) as near:
            links = near.node.links
            assert links is not None
            while not links.report()[0]["error"]:
                await asyncio.sleep(0.02)
            assert "404 Not Found" in str(links.report()[0]["error"])
        server.close()

    run(main())
