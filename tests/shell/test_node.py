"""A whole broker on real sockets: start, stop, embedding, restart, and what keeps it from starting."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from entrepot import Broker, EntrepotError
from entrepot.base.errors import AddressInUse, InvalidOption, InvalidURI, StoreLocked, StoreUnusable
from entrepot.node import Node
from entrepot.node_options import NodeOptions
from shell.harness import PATIENCE, rest_of, until

CONNECT = b"CONNECT\naccept-version:1.2\n\n\0"
CONNECTED = b"CONNECTED\n"
LOOPBACK = ["stomp://127.0.0.1:0"]


class Client:
    """As little STOMP as these cases need."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, command: str, body: str = "", **headers: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}:{text}\n" for name, text in headers.items())
        self.writer.write(f"{command}\n{lines}\n{body}\0".encode())

    async def hear(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return (await self.reader.readuntil(b"\0")).lstrip(b"\n")

    async def call(self, command: str, body: str = "", **headers: str) -> None:
        await self.say(command, body, receipt="r", **headers)
        answer = await self.hear()
        assert answer.startswith(b"RECEIPT\n"), answer


async def client(broker: Broker | Node) -> Client:
    place = broker.uri("stomp").removeprefix("stomp://")
    host, _, port = place.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    writer.write(CONNECT)
    made = Client(reader, writer)
    assert (await made.hear()).startswith(CONNECTED)
    return made


def test_a_broker_in_this_process_is_ready_at_once_and_serves(run) -> None:
    async def main() -> None:
        began = time.perf_counter()
        async with Broker() as broker:
            assert time.perf_counter() - began < 0.2
            sender, receiver = await client(broker), await client(broker)
            await receiver.call("SUBSCRIBE", id="1", destination="/queue/a")
            await sender.call("SEND", "hello", destination="/queue/a")
            message = await receiver.hear()
            assert message.startswith(b"MESSAGE\n")
            assert message.endswith(b"\n\nhello\0")
            sender.writer.close()
            receiver.writer.close()

    run(main)


def test_several_brokers_live_in_one_loop_and_know_nothing_of_one_another(run) -> None:
    async def main() -> None:
        async with Broker(name="a") as a, Broker(name="b", listen=["auto://127.0.0.1:0"]) as b:
            assert a.uris != b.uris
            assert b.uri("stomp").startswith("stomp://127.0.0.1:")
            one, other = await client(a), await client(b)
            await other.call("SUBSCRIBE", id="1", destination="/queue/a")
            await one.call("SEND", "x", destination="/queue/a")
            assert a.node.broker.table.queues["a"].count == 1
            assert b.node.broker.table.queues["a"].count == 0
            one.writer.close()
            other.writer.close()

    run(main)


def test_what_was_receipted_is_there_after_a_restart(run, tmp_path: Path) -> None:
    async def main() -> None:
        async with Broker(data=tmp_path / "d") as broker:
            sender = await client(broker)
            for number in range(100):
                await sender.say("SEND", str(number), destination="/queue/a", persistent="true")
            await sender.call("SEND", "100", destination="/queue/a", persistent="true")
            sender.writer.close()
            node_id = broker.node.broker.ids.node_id
        async with Broker(data=tmp_path / "d") as broker:
            assert broker.node.report is not None
            assert broker.node.report.messages == 101
            assert broker.node.report.torn_bytes == 0
            assert broker.node.broker.ids.node_id == node_id
            receiver = await client(broker)
            await receiver.say("SUBSCRIBE", id="1", destination="/queue/a")
            bodies = [(await receiver.hear()).rpartition(b"\n\n")[2] for _ in range(101)]
            assert bodies == [b"%d\0" % number for number in range(101)]
            receiver.writer.close()

    run(main)


def test_a_stop_tells_the_peers_and_frees_the_port_and_the_directory(run, tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(data=tmp_path / "d", listen=["stomp://127.0.0.1:0?shutdownTimeout=50"])
        await broker.__aenter__()
        idle = await client(broker)
        port = broker.uri("stomp")
        await asyncio.gather(broker.node.stop("maintenance at noon"), broker.node.stop())
        await rest_of(idle.reader)
        idle.writer.close()
        assert await broker.node.wait() == "maintenance at noon"
        async with Broker(data=tmp_path / "d", listen=[port]) as again:
            assert again.uris == [port]

    run(main)


def test_a_producer_that_waits_for_space_does_not_hold_up_a_stop(run) -> None:
    async def main() -> None:
        async with Broker(policies={"#": {"full": "BLOCK", "max_octets": 10_000}}) as broker:
            sender = await client(broker)
            for _ in range(200):
                await sender.say("SEND", "x" * 1000, destination="/queue/a")
            await until(lambda: broker.node.broker.flow.waiting)
            assert broker.node.broker.table.queues["a"].count < 200
            stopping = asyncio.create_task(broker.node.stop())
            sender.writer.close()
            await stopping
            assert not broker.node.broker.flow.waiting

    run(main)


def test_a_blocked_producer_goes_on_when_somebody_consumes(run) -> None:
    async def main() -> None:
        async with Broker(policies={"#": {"full": "BLOCK", "max_octets": 10_000}}) as broker:
            sender, receiver = await client(broker), await client(broker)
            for number in range(200):
                await sender.say("SEND", f"{number:01000}", destination="/queue/a")
            await until(lambda: broker.node.broker.flow.waiting)
            await receiver.say("SUBSCRIBE", id="1", destination="/queue/a", ack="auto")
            bodies = [int((await receiver.hear()).rpartition(b"\n\n")[2][:-1]) for _ in range(200)]
            assert bodies == list(range(200))
            sender.writer.close()
            receiver.writer.close()

    run(main)


def test_a_reader_that_stops_reading_holds_a_bounded_amount(run) -> None:
    async def main() -> None:
        async with Broker() as broker:
            slow, fast, sender = await client(broker), await client(broker), await client(broker)
            for one in (slow, fast):
                await one.call("SUBSCRIBE", id="1", destination="/topic/t", activemq_prefetchSize="100000")
            slow.writer.transport.pause_reading()
            total = 32 * 1024 * 1024  # less than a queue may hold in memory
            received = 0
            body = "x" * 65_536
            for _ in range(total // len(body)):
                await sender.say("SEND", body, destination="/topic/t")
                received += len(await fast.hear())  # the other one is not held up
            assert received > total
            held = [
                each.transport.get_write_buffer_size() + each.session.pending()
                for each in broker.node.listeners[0].connections
            ]
            assert max(held) < 8 * 1024 * 1024
            for one in (slow, fast, sender):
                one.writer.transport.abort()

    run(main)


@pytest.mark.parametrize(
    "hostile",
    [b"\0" * 1000, b"SEND\n" + b"x" * 100_000, b"CONNECT\naccept-version:9\n\n\0", b"SEND\ncontent-length:-1\n\n\0"],
)
def test_a_hostile_connection_harms_no_other(run, hostile: bytes) -> None:
    async def main() -> None:
        async with Broker() as broker:
            good = await client(broker)
            await good.call("SUBSCRIBE", id="1", destination="/queue/a")
            host, _, port = broker.uri("stomp").removeprefix("stomp://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(hostile)
            writer.write_eof()
            await rest_of(reader)
            writer.close()
            await good.say("SEND", "fine", destination="/queue/a")
            assert (await good.hear()).endswith(b"fine\0")
            await until(lambda: len(broker.node.listeners[0].connections) == 1)
            good.writer.close()

    run(main)


def test_what_keeps_a_broker_from_starting_is_said_and_leaves_nothing_open(run, tmp_path: Path) -> None:
    async def main() -> None:
        async with Broker(data=tmp_path / "d") as broker:
            with pytest.raises(StoreLocked):
                await Node(NodeOptions(data=tmp_path / "d", listen=LOOPBACK)).start()
            taken = Node(NodeOptions(data=tmp_path / "e", listen=[*LOOPBACK, broker.uris[0]]))
            with pytest.raises(AddressInUse):
                await taken.start()
            assert not taken.uris or all(not listener._servers for listener in taken.listeners)
        async with Broker(data=tmp_path / "e"):  # the failed start left it unlocked
            pass
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnusable):
            await Node(NodeOptions(data=tmp_path / "file", listen=LOOPBACK)).start()

    run(main)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"listen": ["stomp://127.0.0.1:0?wireFormat.maxFrameSize=big"]}, InvalidOption),
        ({"listen": ["stomp:127.0.0.1"]}, InvalidURI),
        ({"policies": {"#": {"max_octetts": 1}}}, InvalidOption),
        ({"policies": {"#": {"full": "SOMETIMES"}}}, InvalidOption),
        ({"memory_limit": 0}, InvalidOption),
    ],
)
def test_wrong_options_are_refused_before_anything_happens(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Broker(**options)  # type: ignore[arg-type]
    assert issubclass(error, EntrepotError)


def test_options_of_the_uri_reach_stomp() -> None:
    node = Node(NodeOptions(listen=["stomp://127.0.0.1:0?wireFormat.maxFrameSize=104857600&maximumConnections=1000"]))
    assert node.dialects[0].stomp.frame_octets_max == 104_857_600
    assert node.listening[0].options.connections_max == 1000


def test_importing_entrepot_loads_next_to_nothing() -> None:
    code = "import sys, entrepot; print('asyncio' in sys.modules, 'entrepot.node' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert out.stdout.split() == ["False", "False"]


def test_the_start_of_a_broker_loads_nothing_of_the_command_line() -> None:
    code = "import sys, entrepot.node; print([name for name in ('click', 'rich', 'uvloop') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert out.stdout.strip() == "[]"


def test_a_stop_still_answers_what_it_took(run, tmp_path: Path) -> None:
    async def main() -> None:
        broker = Broker(data=tmp_path / "d", listen=["stomp://127.0.0.1:0?shutdownTimeout=50"])
        await broker.__aenter__()
        sender = await client(broker)
        await sender.say("SEND", "x", destination="/queue/a", persistent="true", receipt="last")
        await until(lambda: broker.node.broker.sending.sent)
        await broker.node.stop()
        assert b"receipt-id:last" in await rest_of(sender.reader)
        sender.writer.close()

    run(main)
