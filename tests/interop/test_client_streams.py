"""Bodies that the Python client sends and receives in pieces, over CORE: with our broker, and with a real Artemis."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from classic import HOST, free_port
from ours import Entrepot, listens

import entrepot
from entrepot import Acknowledge, blocking
from entrepot.base.errors import Inexpressible, Refused, Unreachable
from guides import blocks
from promises import never

PATIENCE_S: Final = 20.0
SIZES: Final = (0, 1, 90_000, 102_400, 102_401, 1_000_003)
SLOW: Final = 3_000_000  # more than two windows: a reader has not got all of it when it stops


@pytest.fixture(scope="module", params=["ours", "artemis"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp(request.param)
    if request.param == "artemis" and unavailable():
        pytest.skip(f"Artemis: {unavailable()}")
    broker: Artemis | Entrepot
    if request.param == "artemis":
        broker = Artemis(home)
        url = broker.url.replace("tcp://", "core://")
    else:
        broker, url = speaking_core(home)
    await_core(broker, url)
    yield url
    broker.kill()


def speaking_core(home: Path) -> tuple[Entrepot, str]:
    """Return a broker of ours that speaks CORE at a second port, and where that is."""
    url = f"core://{HOST}:{free_port()}"
    return Entrepot(home, arguments=("--listen", url)), url


def await_core(broker: Artemis | Entrepot, url: str) -> None:
    """Start it, and wait for both of its ports."""
    broker.start().await_ready()
    listens(HOST, int(url.rpartition(":")[2]))


def body(size: int) -> bytes:
    """Return octets in which no two pieces are alike."""
    return b"".join(number.to_bytes(4, "big") for number in range(size // 4 + 1))[:size]


async def halting(data: bytes) -> AsyncIterator[bytes]:
    yield data[:150_000]
    yield data[150_000:]


@pytest.mark.parametrize("window", [0, 150_000, 1_048_576])
def test_bodies_of_all_sizes_arrive_whole_and_in_order(url: str, window: int) -> None:
    async def play() -> None:
        async with (
            entrepot.connect(f"{url}?consumerWindowSize={window}") as connection,
            connection.session() as session,
        ):
            async with session.producer("streams.sizes") as producer:
                for size in SIZES:
                    assert await producer.send_stream(io.BytesIO(body(size)), properties={"size": size}) == size
                await producer.send("a text é")
                await producer.send_stream(halting(body(300_000)))
                await producer.send_stream([body(250_000), b"", b"end"], persistent=False, priority=7)
            async with session.consumer("streams.sizes", in_pieces=True) as consumer:
                found = []
                for _ in range(len(SIZES) + 3):
                    target = io.BytesIO()
                    assert await consumer.receive_into(target, PATIENCE_S) is not None
                    found.append(target.getvalue())
                assert await consumer.receive_into(io.BytesIO(), 0.3) is None
        with never():
            assert sorted(found) == sorted(
                [*map(body, SIZES), "a text é".encode(), body(300_000), body(250_000) + b"end"]
            )

    asyncio.run(play())


def test_the_blocking_client_has_it_too_and_others_read_it_whole(url: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(body(500_000))
    with blocking.connect(url) as connection, connection.session() as session:
        with session.producer("streams.files") as producer:
            for _ in range(2):
                with (tmp_path / "in").open("rb") as source:
                    assert producer.send_stream(source, properties={"n": 1}) == 500_000
        with session.consumer("streams.files") as consumer:
            whole = consumer.receive(PATIENCE_S)
            assert whole is not None
            assert whole.body == body(500_000)
        with session.consumer("streams.files", in_pieces=True) as consumer, (tmp_path / "out").open("wb") as target:
            message = consumer.receive_into(target, PATIENCE_S)
            assert message is not None
            assert message.properties == {"n": 1}
    assert (tmp_path / "out").read_bytes() == body(500_000)


def test_the_guide_and_the_command_line(url: str, tmp_path: Path) -> None:
    (block,) = [one for one in blocks("docs/client.md", "python") if one.elsewhere.endswith("test_client_streams.py")]
    (tmp_path / "film.mkv").write_bytes(body(400_000))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    said = run("-c", block.text.replace("core://localhost:61616", url))
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "copy.mkv").read_bytes() == body(400_000)

    sent = run("-m", "entrepot", "send", "/queue/cli", "--file", "film.mkv", "--connect", url, "-H", "n=1")
    assert (sent.returncode, sent.stderr) == (0, "sent 400,000 octets to /queue/cli\n")
    receive = ("-m", "entrepot", "receive", "/queue/cli", "--file", "again.mkv", "--connect", url, "--timeout", "3s")
    (tmp_path / "again.mkv.part").write_text("of another one, which receives a message to the same file")
    got = run(*receive, "--selector", "n = '1'")
    assert (got.returncode, got.stderr) == (0, "400,000 octets are in again.mkv\n")
    assert (tmp_path / "again.mkv").read_bytes() == body(400_000)
    (tmp_path / "again.mkv").unlink()
    assert (tmp_path / "again.mkv.part").read_text().startswith("of another one")
    (tmp_path / "again.mkv.part").unlink()
    assert run(*receive).returncode != 0, "it was acknowledged"
    assert not list(tmp_path.glob("again*"))
    assert run("-m", "entrepot", "send", "/queue/cli", "--file", "film.mkv").returncode != 0


class Failing(io.BytesIO):
    """Takes, or gives, a part, and then nothing more."""

    def write(self, data: Any) -> int:
        if self.tell() > 100_000:
            raise OSError("no room")
        return super().write(data)

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > 400_000:
            raise OSError("cannot be read")
        return super().read(size)


def test_a_source_that_fails_sends_nothing_and_a_target_that_fails_takes_nothing(url: str) -> None:
    async def play() -> None:
        async with entrepot.connect(url) as connection, connection.session() as session:
            async with session.producer("streams.failing") as producer:
                with pytest.raises(OSError, match="cannot be read"):
                    await producer.send_stream(Failing(body(SLOW)))
                await producer.send_stream(io.BytesIO(body(SLOW)))
                await producer.send("behind")
            async with session.consumer("streams.failing", in_pieces=True) as consumer:
                with pytest.raises(OSError, match="no room"):
                    await consumer.receive_into(Failing(), PATIENCE_S)
                after = io.BytesIO()
                await consumer.receive_into(after, PATIENCE_S)
                assert after.getvalue() == b"behind", "the rest of what failed is passed over"
            async with session.consumer("streams.failing", in_pieces=True) as consumer:
                target = io.BytesIO()
                with never():
                    again = await consumer.receive_into(target, PATIENCE_S)
                    assert again is not None
                    assert target.getvalue() == body(SLOW)
                assert await consumer.receive_into(io.BytesIO(), 0.3) is None

    asyncio.run(play())


def test_what_cannot_be_is_refused_by_name(url: str) -> None:
    async def play() -> None:
        async with entrepot.connect(url) as connection:
            async with (
                connection.session(Acknowledge.TRANSACTED) as session,
                session.producer("streams.no") as producer,
            ):
                with pytest.raises(Inexpressible, match="transaction"):
                    await producer.send_stream([b"x"])
            async with connection.session() as session:
                async with session.consumer("streams.no", in_pieces=True) as consumer:
                    with pytest.raises(Refused, match="in pieces"):
                        await consumer.receive(0)
                async with session.consumer("streams.no") as consumer:
                    with pytest.raises(Refused, match="whole"):
                        await consumer.receive_into(io.BytesIO(), 0)

    asyncio.run(play())


def test_openwire_has_no_pieces_to_send_and_hands_out_whole_what_is_written(tmp_path: Path) -> None:
    broker = Entrepot(tmp_path)

    async def play() -> None:
        broker.start().await_ready()
        async with (
            entrepot.connect(broker.url) as connection,
            connection.session() as session,
            session.producer("q") as producer,
            session.consumer("q", in_pieces=True) as consumer,
        ):
            with pytest.raises(Inexpressible, match="pieces"):
                await producer.send_stream([b"x"])
            await producer.send(body(300_000))
            target = io.BytesIO()
            assert await consumer.receive_into(target, PATIENCE_S) is not None
            assert target.getvalue() == body(300_000)

    try:
        asyncio.run(play())
    finally:
        broker.kill()


class Dying(io.BytesIO):
    """Kills a broker when some octets were written, or read."""

    def __init__(self, broker: Entrepot, data: bytes = b"") -> None:
        super().__init__(data)
        self.broker = broker

    def write(self, data: Any) -> int:
        self.broker.kill()
        return super().write(data)

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > 400_000:
            self.broker.kill()
        return super().read(size)


def test_a_broker_that_dies_leaves_no_half_message_and_loses_none(tmp_path: Path) -> None:
    broker, url = speaking_core(tmp_path)

    async def play() -> None:
        await_core(broker, url)
        async with (
            entrepot.connect(url) as connection,
            connection.session() as session,
            session.producer("q") as producer,
        ):
            with pytest.raises(Unreachable):
                await producer.send_stream(Dying(broker, body(SLOW)))
        await_core(broker, url)
        async with entrepot.connect(url) as connection, connection.session() as session:
            async with session.producer("q") as producer:
                await producer.send_stream(io.BytesIO(body(SLOW)))
            async with session.consumer("q", in_pieces=True) as consumer:
                with pytest.raises(Unreachable):
                    await consumer.receive_into(Dying(broker), PATIENCE_S)
        await_core(broker, url)
        async with (
            entrepot.connect(url) as connection,
            connection.session() as session,
            session.consumer("q", in_pieces=True) as consumer,
        ):
            target = io.BytesIO()
            with never():
                assert await consumer.receive_into(target, PATIENCE_S) is not None
                assert target.getvalue() == body(SLOW)
            assert await consumer.receive_into(io.BytesIO(), 0.5) is None

    try:
        asyncio.run(play())
        broker.stop()
    finally:
        broker.kill()
    assert not list((tmp_path / "data" / "blobs").iterdir()), "no file of a body is left"
