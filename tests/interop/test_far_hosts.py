# ruff: noqa: SIM117  nested blocks say in which order things close
"""Brokers on two hosts, over a wire with delay, loss, cuts and deafness: real kernels' TCP on both sides (`wires.py`).

A short form by default. ``FAR_HOSTS=full`` runs every kind of bridge in every weather, longer, and prints its figures;
they are in docs/bridges.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import classic
import networks
import ours
import pytest
from test_bad_wires import FOUND_S, Process, is_open, supervised, until, waiting
from test_network import fresh
from wires import NOTHING, Weather, Wire, enter

from entrepot.client.connection import Connection, connect
from entrepot.client.message import Message

FULL: Final = os.environ.get("FAR_HOSTS") == "full"
COUNT: Final = 600 if FULL else 60
CUTS: Final = 2 if FULL else 1
CUT_S: Final = 8.0 if FULL else 1.0
PACE_S: Final = 0.02
PATIENCE_S: Final = 60.0 if FULL else 40.0
FILLING: Final = "x" * 1000
LOSSES: Final = (0.01, 0.05, 0.20) if FULL else (0.05,)
SHAPES: Final = (
    "entrepot-entrepot-duplex", "entrepot-classic-duplex", *(("classic-entrepot-duplex",) if FULL else ()),
)  # fmt: skip
SUPERVISED: Final = 'supervisionInterval="2000"'  # so given up after 6 s: longer than what a fifth of all packets costs
HURRY: Final = "initialReconnectDelay=50&maxReconnectDelay=200"


def ocean(loss: float) -> Weather:
    return Weather(delay_ms=100, jitter_ms=50, loss=loss)


class Host:
    """A thread with a loop of its own, on one side of the wire."""

    def __init__(self, wire: Wire | None) -> None:
        self.loop = asyncio.new_event_loop()
        started: Future[None] = Future()

        def work() -> None:
            try:
                if wire is not None:
                    enter(wire.name)
            except OSError as error:
                started.set_exception(error)
                return
            started.set_result(None)
            self.loop.run_forever()

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()
        started.result()

    def start(self, main: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(main, self.loop)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Hosts:
    """This one, and that at the other end of the wire."""

    def __init__(self, wire: Wire) -> None:
        self.here, self.there = Host(None), Host(wire)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.here.end()
        self.there.end()


class Seen:
    """What one consumer took: how often each number, and when the last one came."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.unmarked = 0  # came again and did not say so
        self.last = 0.0

    def take(self, message: Message) -> None:
        number = int(message.properties["n"])
        self.unmarked += int(number in self.counts and not message.redelivered)
        self.counts[number] += 1
        self.last = time.monotonic()

    @property
    def twice(self) -> int:
        return self.counts.total() - len(self.counts)


async def produce(url: str, where: str, count: int) -> None:
    async with connect(f"failover:({url})?{HURRY}") as connection, connection.session() as session:
        async with session.producer(where) as producer:
            for number in range(count):
                await producer.send(Message(FILLING, properties={"n": number}))
                await asyncio.sleep(PACE_S)


async def consume(url: str, where: str, seen: Seen, enough: Callable[[Seen], bool]) -> None:
    async with connect(f"failover:({url})?{HURRY}") as connection, connection.session() as session:
        async with session.consumer(where) as consumer:
            while not enough(seen):
                message = await consumer.receive(0.2)
                if message is not None:
                    seen.take(message)


def all_of(count: int) -> Callable[[Seen], bool]:
    return lambda seen: len(seen.counts) >= count


def until_true(wanted: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not wanted():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def flows(*both: Seen) -> float:
    """Wait until each took something more, or has all, and return how long that took."""
    began = time.monotonic()
    until_true(
        lambda: all(seen.last > began or len(seen.counts) == COUNT for seen in both), "nothing crosses after a cut"
    )
    return time.monotonic() - began


def test_the_wire_does_what_its_weather_says(wire: Wire) -> None:
    """Else nothing below says anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind((wire.here, 0))
        here.settimeout(0.3)
        place = here.getsockname()
        got: list[tuple[float, int]] = []

        async def shout() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
                for number in range(500):
                    there.sendto(f"{time.monotonic()} {number}".encode(), place)

        def hear() -> list[tuple[float, int]]:
            wire.run(shout)
            got.clear()
            with contextlib.suppress(TimeoutError):
                while True:
                    words = here.recv(100).split()
                    got.append((time.monotonic() - float(words[0]), int(words[1])))
            return got

        wire.weather(NOTHING, Weather(delay_ms=50, jitter_ms=20, loss=0.2))
        assert 340 < len(hear()) < 460
        assert min(late for late, _ in got) > 0.029
        assert [number for _, number in got] != sorted(number for _, number in got), "nothing overtook anything"
        wire.deafen(here=True)
        assert hear() == []
        wire.heal()
        assert hear()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_lost_in_bad_weather(wire: Wire, shape: str, loss: float, tmp_path: Path) -> None:
    """Persistent messages in both directions through cuts; a topic that comes back to nobody."""
    near_kind, far_kind, duplex = networks.SHAPES[shape]
    if "classic" in (near_kind, far_kind) and classic.unavailable():
        pytest.skip(classic.unavailable())
    far = networks.plain(far_kind, tmp_path / "far", name="far", wire=wire)
    near = networks.bridging(
        near_kind,
        tmp_path / "near",
        name="near",
        to=[far],
        duplex=duplex,
        attributes=SUPERVISED if near_kind == "entrepot" else "",
    )
    out, back, topic = fresh(), fresh(), fresh("topic")
    there, here, echo = Seen(), Seen(), Seen()
    done = False
    gaps: list[float] = []
    try:
        far.start()
        near.start()
        far.await_ready()
        near.await_ready()
        wire.weather(ocean(loss))
        with Hosts(wire) as hosts:
            began = time.monotonic()
            work = [
                hosts.there.start(consume(far.url, out, there, all_of(COUNT))),
                hosts.here.start(consume(near.url, back, here, all_of(COUNT))),
                hosts.here.start(consume(near.url, topic, echo, lambda _: done)),
                hosts.there.start(consume(far.url, topic, Seen(), lambda _: done)),
                hosts.here.start(produce(near.url, out, COUNT)),
                hosts.there.start(produce(far.url, back, COUNT)),
                hosts.here.start(produce(near.url, topic, COUNT)),
            ]
            for number in range(CUTS):
                wanted = [min(COUNT, len(seen.counts) + COUNT // (2 * CUTS + 1)) for seen in (there, here)]
                until_true(
                    lambda wanted=wanted: len(there.counts) >= wanted[0] and len(here.counts) >= wanted[1],  # type: ignore[misc]
                    f"{len(there.counts)} and {len(here.counts)} of {COUNT} crossed before cut {number}",
                )
                wire.cut()
                time.sleep(CUT_S)
                wire.heal()
                gaps.append(flows(there, here))
            until_true(lambda: work[0].done() and work[1].done(), f"{len(there.counts)}, {len(here.counts)} of {COUNT}")
            took = time.monotonic() - began
            done = True
            for each in work:
                each.result(PATIENCE_S)
        print(
            f"\n{shape}, {loss:.0%} lost, {wire.kind}: {took:.1f} s for {COUNT} each way; after cuts of {CUT_S:g} s it "
            f"flows again in {', '.join(f'{gap:.1f}' for gap in gaps)} s; twice {there.twice} and {here.twice}"
        )
        assert sorted(there.counts) == sorted(here.counts) == list(range(COUNT))
        assert echo.counts == dict.fromkeys(range(COUNT), 1), "a message of a topic came back to where it was sent"
        if near_kind == far_kind == "entrepot":
            assert (there.unmarked, here.unmarked) == (0, 0)
    finally:
        near.kill()
        far.kill()


@pytest.mark.parametrize("far_kind", ["entrepot", "classic"] if FULL else ["entrepot"])
def test_a_wire_that_is_deaf_in_one_direction_is_found(wire: Wire, far_kind: str, tmp_path: Path) -> None:
    """Within three intervals of supervision, whichever direction it is; afterwards messages cross again."""
    if far_kind == "classic" and classic.unavailable():
        pytest.skip(classic.unavailable())
    far = networks.plain(far_kind, tmp_path / "far", name="far", wire=wire)
    port = classic.free_port()
    near = Process(tmp_path / "near", "near", "--listen", f"auto://127.0.0.1:{port}", *supervised(far.url, True))
    where = fresh()
    try:
        far.start().await_ready()
        near.start()
        until(port, is_open)
        wire.weather(Weather(delay_ms=20, jitter_ms=10))
        for here in (True, False):
            deafened = time.time()
            wire.deafen(here=here)
            row = until(port, waiting)
            found = time.time() - deafened - row["down_ms"] / 1000
            wire.heal()
            print(f"\n{far_kind} far, deaf {'here' if here else 'there'}: found after {found:.2f} s: {row['error']}")
            assert found < FOUND_S, row["error"]
            until(port, is_open)
        seen = Seen()
        with Hosts(wire) as hosts:
            taking = hosts.there.start(consume(far.url, where, seen, all_of(10)))
            hosts.here.start(produce(f"tcp://127.0.0.1:{port}", where, 10)).result(PATIENCE_S)
            taking.result(PATIENCE_S)
        assert seen.twice == 0
    finally:
        near.kill()
        far.kill()


# -- zones -------------------------------------------------------------------------------------------------------------

MOVING = "updateClusterClients=true&rebalanceClusterClients=true"
CLIENTS = 4  # in each zone


class Site:
    """Two brokers of a zone and its clients, on one side of the wire."""

    def __init__(self, home: Path, zone: str, address: str, wire: Wire | None) -> None:
        self.zone, self.address, self.wire = zone, address, wire
        self.ports = [classic.free_port(), classic.free_port()]
        self.brokers: list[Process] = []
        self.home = home
        self.clients: list[Connection] = []

    @property
    def places(self) -> list[str]:
        return [f"tcp://{self.address}:{port}" for port in self.ports]

    def bridged(self, *others: str) -> Site:
        """Make the brokers: each has bridges to ``others``, the second one to the first."""
        for at, port in enumerate(self.ports):
            to = [*others, *self.places[:at]]
            agent = "initialReconnectDelay=100&useExponentialBackOff=false"
            connect = [word for uri in to for word in ("--connect", f"static:({uri})?{agent}")]
            connect += ["--duplex"] if to else []
            self.brokers.append(
                Process(
                    self.home / f"{self.zone}{at}",
                    f"{self.zone}{at}",
                    *("--listen", f"auto://{self.address}:{port}?{MOVING}"),
                    *(*connect, "--zone", self.zone),
                    wire=self.wire,
                )
            )
        return self

    async def gather(self, abroad: list[str]) -> None:
        """Let clients come in, all by the first broker."""
        places = ",".join([*(f"{place}?zone={self.zone}" for place in self.places), *(f"{one}" for one in abroad)])
        url = f"failover:({places})?zone={self.zone}&randomize=false&{HURRY}"
        for _ in range(CLIENTS):
            self.clients.append(await connect(url))

    async def leave(self) -> None:
        for client in self.clients:
            await client.close()

    def spread(self) -> dict[str, int]:
        """Return how many clients are at each place."""
        where = Counter(client.broker.partition("?")[0] for client in self.clients if client.connected)
        return {place.rpartition(":")[2]: count for place, count in where.items()}


def shares(site: Site) -> dict[str, int]:
    """Return what an even spread over the brokers of a zone is."""
    return {str(port): CLIENTS // 2 for port in site.ports}


def test_zones_hold_over_a_slow_wire_and_while_it_is_cut(wire: Wire, tmp_path: Path) -> None:
    """Clients are even within their zone, and stay in it; what one zone sends the other has, once there is a way."""
    slow = Weather(delay_ms=100, jitter_ms=50, loss=0.02, rate_kbit=2000)
    west = Site(tmp_path, "west", wire.here, None)
    east = Site(tmp_path, "east", wire.there, wire).bridged(*west.places)
    west.bridged()
    where, seen = fresh(), Seen()
    sites = (west, east)
    try:
        for site in sites:
            for broker in site.brokers:
                broker.start()
        for site in sites:
            for port in site.ports:
                ours.listens(site.address, port)
        wire.weather(slow)
        with Hosts(wire) as hosts:
            coming = [
                hosts.here.start(west.gather(east.places)),
                hosts.there.start(east.gather(west.places)),
            ]
            for each in coming:
                each.result(PATIENCE_S)
            for site in sites:
                until_true(lambda site=site: site.spread() == shares(site), f"{west.spread()} {east.spread()}")  # type: ignore[misc]
            taking = hosts.there.start(consume(east.places[1], where, seen, all_of(COUNT)))
            sending = hosts.here.start(produce(west.places[1], where, COUNT))
            until_true(lambda: len(seen.counts) > COUNT // 4, f"{len(seen.counts)} crossed")
            wire.cut()
            end = time.monotonic() + CUT_S
            while time.monotonic() < end:
                assert [site.spread() for site in sites] == [shares(site) for site in sites]
                time.sleep(0.05)
            wire.heal()
            sending.result(PATIENCE_S)
            taking.result(PATIENCE_S)
            assert seen.unmarked == 0
            assert [site.spread() for site in sites] == [shares(site) for site in sites]
            if FULL:
                goes_abroad_and_comes_home(west, east)
            hosts.here.start(west.leave()).result(PATIENCE_S)
            hosts.there.start(east.leave()).result(PATIENCE_S)
    finally:
        for site in sites:
            for broker in site.brokers:
                broker.kill()


def goes_abroad_and_comes_home(west: Site, east: Site) -> None:
    for broker in west.brokers:
        broker.kill()
    lost = time.monotonic()
    abroad = {str(port) for port in east.ports}
    until_true(lambda: sum(west.spread().values()) == CLIENTS and set(west.spread()) <= abroad, str(west.spread()))
    print(f"\nall of a zone were in the other after {time.monotonic() - lost:.1f} s")
    assert east.spread() == shares(east)
    for broker in west.brokers:
        broker.start()
    back = time.monotonic()
    until_true(lambda: west.spread() == shares(west), f"{west.spread()}")
    print(f"and home, evenly, {time.monotonic() - back:.1f} s after its brokers started")
    assert east.spread() == shares(east)
