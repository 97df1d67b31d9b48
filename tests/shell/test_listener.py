"""Listeners: places, limits, detection, PROXY headers, unix sockets, and ports that are taken."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
from pathlib import Path

import pytest

from entrepot.base.errors import AddressInUse, InvalidOption, InvalidURI, OperatorError
from entrepot.io.runtime import SystemClock
from entrepot.io.tcp import Listener, Listening, dial, parse_place
from entrepot.io.turns import Turn
from entrepot.protocols.session import AMQP, STOMP
from shell.harness import Echo, listening, no_options, rest_of, some_of, until

CONNECT = b"CONNECT\naccept-version:1.2\n\n\0"


def test_a_port_that_is_taken_is_said_and_nothing_stays_open(run) -> None:
    async def main() -> None:
        async with listening() as place:
            turn = place.listener.turn
            same = Listening(f"stomp://127.0.0.1:{place.listener.port}", no_options, [STOMP])
            second = Listener(same, turn, {STOMP: Echo})
            with pytest.raises(AddressInUse, match=r"port 0 takes any free one"):
                await second.open()

    run(main)


def test_a_host_that_is_not_ours_is_said(run) -> None:
    async def main() -> None:
        turn = Turn(asyncio.get_running_loop(), SystemClock())
        for host in ("192.0.2.1", "no-such-host.invalid"):
            listener = Listener(Listening(f"stomp://{host}:0", no_options, [STOMP]), turn, {STOMP: Echo})
            with pytest.raises(OperatorError, match=host):
                await listener.open()

    run(main)


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("ftp://h:1", InvalidURI),
        ("stomp+mqtt://h:1", InvalidURI),
        ("failover:(stomp://h:1)", InvalidURI),
        ("stomp+unix:///", InvalidURI),
        ("stomp+unix://host/path", InvalidURI),
        ("amqp://127.0.0.1:0", InvalidOption),
        ("auto://127.0.0.1:0?protocols=amqp", InvalidOption),
        ("stomp+ssl://127.0.0.1:0", InvalidOption),
        ("stomp://127.0.0.1:0?nonsense=1", InvalidOption),
    ],
)
def test_what_nobody_can_listen_on_is_refused_before_anything_is_opened(uri: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Listening(uri, no_options, [STOMP])


def test_threading_variants_are_the_same_and_ports_have_defaults() -> None:
    listening = Listening("stomp+nio://127.0.0.1", no_options, [STOMP])
    assert (listening.protocol, listening.port) == (STOMP, 61613)
    assert Listening("tcp://127.0.0.1", no_options, [STOMP]).port == 61616
    assert parse_place("stomp+unix:///a/b").path == "/a/b"


@pytest.mark.parametrize("step", [1, 5, 100])
def test_a_port_that_detects_serves_a_client_however_slowly_it_speaks(run, step: int) -> None:
    async def main() -> None:
        async with listening("auto://127.0.0.1:0") as place:
            reader, writer = await place.dial()
            for at in range(0, len(CONNECT), step):
                writer.write(CONNECT[at : at + step])
                await writer.drain()
                await asyncio.sleep(0)
            assert await some_of(reader, len(CONNECT)) == CONNECT
            writer.close()

    run(main)


def test_a_silent_connection_is_closed_with_a_word_in_the_log(run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening("auto://127.0.0.1:0?protocolDetectionTimeOut=30") as place:
            reader, writer = await place.dial()
            assert await rest_of(reader) == b""
            writer.close()

    with caplog.at_level(logging.WARNING):
        run(main)
    assert "did not say what it speaks" in caplog.text


def test_an_unknown_and_an_unspoken_protocol_are_refused_while_others_work(run) -> None:
    async def main() -> None:
        async with listening("auto://127.0.0.1:0") as place:
            good_reader, good = await place.dial()
            good.write(CONNECT)
            assert await some_of(good_reader, len(CONNECT)) == CONNECT
            for start, answer in [(b"\xff\xfe\xfd", b""), (b"AMQP\0\1\0\0", b"AMQP\0\1\0\0")]:
                reader, writer = await place.dial()
                writer.write(start)
                assert await rest_of(reader) == answer
                writer.close()
            good.write(b"still here")
            assert await some_of(good_reader, 10) == b"still here"
            good.close()

    run(main)


def test_a_connection_too_many_is_told_counted_and_closed(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?maximumConnections=1") as place:
            reader, writer = await place.dial()
            writer.write(b"first")
            assert await some_of(reader, 5) == b"first"
            second_reader, second = await place.dial()
            second.write(CONNECT)
            answer = await rest_of(second_reader)
            assert answer.startswith(b"ERROR\n")
            assert b"admits 1 connections" in answer
            assert place.listener.exceeded == 1
            second.close()
            writer.close()
            await until(lambda: not place.listener.connections)
            reader, writer = await place.dial()
            writer.write(b"third")
            assert await some_of(reader, 5) == b"third"
            writer.close()

    run(main)


def test_a_unix_socket_serves_and_its_file_comes_and_goes(run, tmp_path: Path) -> None:
    path = tmp_path / "e.sock"

    async def main() -> None:
        async with listening(f"stomp+unix://{path}") as place:
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert place.listener.uri == f"stomp+unix://{path}"
            reader, writer = await place.dial()
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            assert place.sessions[0].peer == "local"
            same = Listening(f"stomp+unix://{path}", no_options, [STOMP])
            second = Listener(same, place.listener.turn, {STOMP: Echo})
            with pytest.raises(AddressInUse):
                await second.open()
            writer.close()
        assert not path.exists()

    run(main)


def test_a_stale_unix_socket_is_replaced_and_a_file_is_not(run, tmp_path: Path) -> None:
    path = tmp_path / "e.sock"

    async def main() -> None:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        async with listening(f"stomp+unix://{path}") as place:
            reader, writer = await place.dial()
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            writer.close()
        path.write_text("precious")
        with pytest.raises(AddressInUse, match="is no socket"):
            async with listening(f"stomp+unix://{path}"):
                pass
        assert path.read_text() == "precious"

    run(main)


def test_a_proxy_header_names_the_peer_and_is_required(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?proxyProtocolEnabled=true") as place:
            reader, writer = await place.dial()
            writer.write(b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 61613\r\nhello")
            assert await some_of(reader, 5) == b"hello"
            assert place.sessions[0].peer == "203.0.113.7:4711"
            other, other_writer = await place.dial()
            other_writer.write(CONNECT)
            assert await rest_of(other) in (b"", b"<reset>")
            assert len(place.sessions) == 1
            writer.close()
            other_writer.close()

    run(main)


def test_a_closed_listener_takes_nobody_and_its_connections_go_on(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?shutdownTimeout=50") as place:
            reader, writer = await place.dial()
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            place.listener.close()
            with pytest.raises(ConnectionRefusedError):
                await place.dial()
            writer.write(b"again")
            assert await some_of(reader, 5) == b"again"
            await place.listener.drain("closing time")
            assert await rest_of(reader) == b"closing time"
            writer.close()

    run(main)


def test_draining_ends_although_a_peer_neither_reads_nor_closes(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?shutdownTimeout=30&socketBufferSize=16384") as place:
            _, writer = await place.dial()
            writer.write(b"flood 8000000")
            await until(lambda: place.sessions and place.sessions[0].changes)
            await place.listener.drain("closing time")
            assert not place.listener.connections
            writer.transport.abort()

    run(main)


def test_dialling_reaches_a_listener_and_tells_when_it_is_lost(run) -> None:
    async def main() -> None:
        async with listening() as place:
            made: list[Echo] = []

            def make(shell, peer):
                made.append(Echo(shell, peer))
                return made[-1]

            lost: list[object] = []
            turn = place.listener.turn
            uri = f"stomp://127.0.0.1:{place.listener.port}?tcpNoDelay=false"
            connection = await dial(uri, turn, make, no_options, lost.append)
            sock = connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
            made[0].say(b"bye")
            await until(lambda: lost == [connection])
            assert made[0].got == b"farewell"
            with pytest.raises(ConnectionRefusedError):
                await dial("stomp://127.0.0.1:1", turn, make, no_options, lost.append)

    run(main)


def test_socket_options_reach_the_connections(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?transport.keepAlive=true&tcpNoDelay=false&trafficClass=8") as place:
            _, writer = await place.dial()
            await until(lambda: place.listener.connections)
            sock = next(iter(place.listener.connections)).transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
            assert sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 8
            writer.close()

    run(main)


def test_protocols_of_other_builds_are_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = Listening("auto://127.0.0.1:0?auto.protocols=stomp,amqp", no_options, [STOMP])
    assert found.protocols == [STOMP]
    assert AMQP in caplog.text
