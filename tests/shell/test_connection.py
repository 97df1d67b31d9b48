"""The shell drives a session over a real socket: writes, back-pressure, timers, ends and faults."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref

import pytest

from entrepot.io.connection import OUTPUT_OCTETS_MAX, READ_WHOLE, WRITE_MARK_HIGH
from entrepot.io.turns import delay_seconds
from shell.harness import PATIENCE, Place, listening, rest_of, some_of, until

MIB = 1024 * 1024


async def only(place: Place):
    await until(lambda: place.sessions)
    return place.sessions[0]


def connection_of(place: Place):
    return next(iter(place.listener.connections))


def test_octets_go_in_and_come_out(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            session = await only(place)
            assert session.peer == "{}:{}".format(*writer.get_extra_info("sockname")[:2])
            writer.close()
            await until(lambda: session.why)
            assert not place.listener.connections

    run(main)


def test_the_session_closes_and_its_last_words_arrive_although_the_peer_still_talks(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            writer.write(b"bye" + b"z" * (4 * MIB))  # unread input must not turn the close into a reset
            session = await only(place)
            await until(lambda: session.why)
            assert await rest_of(reader) == b"farewell"
            assert session.got.startswith(b"bye")
            assert len(session.got) < 4 * MIB
            assert "session" in session.why
            writer.close()
            await until(lambda: not place.listener.connections)

    run(main)


def test_a_peer_that_never_closes_is_reset_after_the_grace(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            await only(place)
            connection_of(place).options.close_grace = 20_000_000
            writer.write(b"bye")
            assert await rest_of(reader) == b"farewell"
            await until(lambda: not place.listener.connections)
            writer.close()

    run(main)


def test_a_fault_costs_its_own_connection_and_no_other(run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            other_reader, other_writer = await place.dial()
            other_writer.write(b"one")
            assert await some_of(other_reader, 3) == b"one"
            writer.write(b"boom")
            assert await rest_of(reader) in (b"", b"<reset>")
            other_writer.write(b"two")
            assert await some_of(other_reader, 3) == b"two"
            assert sorted(bool(session.why) for session in place.sessions) == [False, True]
            other_writer.close()
            writer.close()

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "planted" in caplog.text
    assert "Traceback" in caplog.text


def test_a_slow_reader_makes_its_session_unwritable_and_writable_again(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?socketBufferSize=16384") as place:
            reader, writer = await place.dial()
            size = 2 * MIB
            writer.write(b"flood %d" % size)
            session = await only(place)
            await until(lambda: session.changes == [False])
            assert connection_of(place).full
            assert await some_of(reader, size) == b"x" * size
            await until(lambda: session.changes == [False, True])
            writer.close()

    run(main)


def test_replies_that_nobody_reads_stop_the_reading_and_memory_stays_bounded(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?socketBufferSize=16384") as place:
            reader, writer = await place.dial()
            total = 4 * OUTPUT_OCTETS_MAX
            writer.write(b"." * total)  # echoed, and not read yet
            session = await only(place)
            await until(lambda: connection_of(place).choked)
            connection = connection_of(place)
            most = connection.transport.get_write_buffer_size()
            # One chunk of input more than the mark: that is the bound that the module promises.
            assert OUTPUT_OCTETS_MAX < most <= OUTPUT_OCTETS_MAX + MIB
            assert len(session.got) < total
            received = 0
            async with asyncio.timeout(PATIENCE * 2):
                while received < total:
                    received += len(await reader.read(MIB))
            assert len(session.got) == total
            assert not connection.choked
            writer.close()

    run(main)


def test_who_does_not_read_is_stopped_earlier_while_all_together_leave_too_much(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?socketBufferSize=16384") as place:
            reader, writer = await place.dial()
            total = 4 * OUTPUT_OCTETS_MAX
            await only(place)
            turn = connection_of(place).turn
            others = turn.unsent = turn.all_may_leave() + 1
            writer.write(b"." * total)
            await until(lambda: connection_of(place).choked)
            connection = connection_of(place)
            assert 2 * WRITE_MARK_HIGH < connection.unsent <= 2 * WRITE_MARK_HIGH + MIB
            assert turn.unsent == others + connection.unsent
            received = 0
            async with asyncio.timeout(PATIENCE * 2):
                while received < total:
                    received += len(await reader.read(MIB))
            await until(lambda: turn.unsent == others)
            writer.close()

    run(main)


def test_a_session_that_is_not_readable_stops_its_peer_and_goes_on_later(run) -> None:
    async def main() -> None:
        async with listening("stomp://127.0.0.1:0?socketBufferSize=16384") as place:
            _, writer = await place.dial()
            writer.write(b"hold")
            session = await only(place)
            await until(lambda: not connection_of(place).reading)
            writer.write(b"." * (8 * MIB))
            await asyncio.sleep(0.05)  # time in which a wrong shell would read on
            assert session.got == b"hold"
            assert writer.transport.get_write_buffer_size() > 0  # the producer feels it
            place.listener.turn.begin()
            session.readable = True
            session.shell.resumed()
            place.listener.turn.end()
            await until(lambda: len(session.got) > 4)
            writer.transport.abort()

    run(main)


def test_a_peer_that_takes_nothing_is_closed_when_the_listener_says_so(run) -> None:
    async def main() -> None:
        uri = "stomp://127.0.0.1:0?transport.soWriteTimeout=50&socketBufferSize=16384"
        async with listening(uri) as place:
            _, writer = await place.dial()
            writer.write(b"flood %d" % (32 * MIB))
            session = await only(place)
            await until(lambda: session.why)
            assert "took nothing" in session.why
            writer.transport.abort()

    run(main)


def test_the_deadline_of_a_session_rings_once_and_not_early(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            began = time.monotonic()
            writer.write(b"wake 30")
            assert await some_of(reader, 4) == b"rung"
            assert time.monotonic() - began >= 0.03
            assert place.sessions[0].rung == 1
            writer.close()

    run(main)


def test_a_deadline_that_moves_later_costs_no_new_timer_and_one_that_moves_earlier_does(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            writer.write(b"wake 60000")
            session = await only(place)
            await until(lambda: connection_of(place).timer)
            first = connection_of(place).timer
            writer.write(b"wake 90000")
            await until(lambda: b"90000" in session.got)
            assert connection_of(place).timer is first
            writer.write(b"wake 5")
            assert await some_of(reader, 4) == b"rung"
            writer.close()

    run(main)


def test_what_is_noted_outside_of_a_turn_is_written_too(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            session = await only(place)
            session.say(b"unasked")
            assert await some_of(reader, 7) == b"unasked"
            writer.close()

    run(main)


def test_the_end_of_the_stream_still_gets_its_answer(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            writer.write(b"last")
            writer.write_eof()
            assert await rest_of(reader) == b"last"
            await until(lambda: place.sessions[0].why)
            writer.close()

    run(main)


def test_a_turn_inside_a_turn_writes_once(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            session = await only(place)
            turn = place.listener.turn

            def inner() -> None:
                session.say(b"a")
                turn.run(lambda: session.say(b"b"))
                assert turn.waiting, "the inner end must not write"
                session.say(b"c")

            turn.run(inner)
            assert await some_of(reader, 3) == b"abc"
            writer.close()

    run(main)


def test_a_flood_lets_others_have_their_turn_where_the_loop_would_not(run) -> None:
    async def main() -> None:
        async with listening() as place:
            _, writer = await place.dial()
            await only(place)
            connection = connection_of(place)
            connection.data_received(b"." * (READ_WHOLE - 1))
            assert connection.reading
            connection.data_received(b"." * READ_WHOLE)
            assert connection.reading != place.listener.turn.greedy
            connection.data_received(b"." * READ_WHOLE)
            await until(lambda: connection.reading)
            assert not connection.resting
            writer.transport.abort()

    run(main)


def test_a_lost_connection_leaves_nothing_for_the_cyclic_collector(run) -> None:
    async def main() -> None:
        async with listening() as place:
            reader, writer = await place.dial()
            writer.write(b"hello")
            await some_of(reader, 5)
            session = place.sessions.pop()
            gone = weakref.ref(session)
            gc.disable()
            try:
                session.say(b"last")
                writer.close()
                await until(lambda: not place.listener.connections)
                session.say(b"too late")  # from the disk, say: nobody hears it
                del session
                await until(lambda: gone() is None)
            finally:
                gc.enable()

    run(main)


def test_a_delay_is_never_early() -> None:
    assert delay_seconds(-5) == 0.001
    assert delay_seconds(1_000_000) == 0.002
    assert WRITE_MARK_HIGH < OUTPUT_OCTETS_MAX
