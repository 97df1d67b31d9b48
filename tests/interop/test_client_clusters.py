"""Unmodified Java clients of several brokers: spread when one joins or stops, nothing lost, nothing twice.

The experiment of classic.md 2.7. A small one by default; ``CLIENT_CLUSTERS=full`` runs it with 30 clients and 3000
messages, with each way of a client to choose, and on ActiveMQ too; its figures are in docs/zones.md.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import classic
import java_clients
import maven
import ours
import pytest
from kinds import Broker

FULL = os.environ.get("CLIENT_CLUSTERS") == "full"
CLIENTS = 30 if FULL else 9
MESSAGES = 3000 if FULL else 450
TAKES_MS = 40 if FULL else 10
PATIENCE_S = 60.0 if FULL else 30.0
FLAGS = ("updateClusterClients", "rebalanceClusterClients", "updateClusterClientsOnRemove")
AGENT = "initialReconnectDelay=100&useExponentialBackOff=false"
WAYS = ["?randomize=false", *(["", "?randomize=false&priorityBackup=true"] if FULL else [])]

pytestmark = pytest.mark.skipif(bool(java_clients.unavailable()), reason=java_clients.unavailable() or "never")


@pytest.fixture(scope="module")
def program() -> java_clients.Program:
    return java_clients.Program()


def make(kind: str, home: Path, name: str, to: list[Broker], *arguments: str) -> Broker:
    """Return a broker that moves clients, with a duplex bridge to each of ``to``."""
    if kind == "entrepot":
        made = ours.Entrepot(home / name, name=name)
        made.query = "?" + "&".join(f"{flag}=true" for flag in FLAGS)
        connect = [word for one in to for word in ("--connect", f"static:({one.url})?{AGENT}")]
        made.arguments = (*connect, *(["--duplex"] if to else []), *arguments)
        return made
    other = classic.Classic(home / name, name=name, connector=" ".join(f'{flag}="true"' for flag in FLAGS))
    networks = "".join(
        f'<networkConnector name="NC{at}" uri="static:({one.url})?{AGENT.replace("&", "&amp;")}" duplex="true"/>'
        for at, one in enumerate(to)
    )
    file = other.home / "activemq.xml"
    if networks:
        spot = "<transportConnectors>"
        file.write_text(file.read_text().replace(spot, f"<networkConnectors>{networks}</networkConnectors>{spot}"))
    return other


class Spread:
    """The Java program, and what it says."""

    def __init__(self, program: java_clients.Program, brokers: list[Broker], url: str, clients: int = CLIENTS) -> None:
        self.names = {one.port: one.name for one in brokers}
        command = program.command("Spread", url, url, "SPREAD.Q", str(clients), str(TAKES_MS))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> list[str]:
        self.say(line)
        return self._line().split()[1:]

    def where(self) -> dict[str, int]:
        pairs = [word.partition("=") for word in self.ask("where")]
        return {self.names[int(port)]: int(count) for port, _, count in pairs}

    def moves(self) -> int:
        return int(self.ask("moves")[0])

    def got(self) -> tuple[int, int, int]:
        """Return how many different messages came, how many more times, and how many were sent."""
        words = self.ask("got")
        return int(words[0]), int(words[2]), int(words[4])

    def await_spread(self, wanted: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        until = time.monotonic() + PATIENCE_S
        while not wanted(found := self.where()) and time.monotonic() < until:
            time.sleep(0.2)
        assert wanted(found), found
        return found

    def await_all(self, count: int) -> tuple[int, int, int]:
        until = time.monotonic() + PATIENCE_S
        while (found := self.got())[0] < count and time.monotonic() < until:
            time.sleep(0.2)
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def started() -> Iterator[list[Broker | Spread]]:
    found: list[Broker | Spread] = []
    yield found
    for one in reversed(found):
        one.kill()


def even(names: str, clients: int) -> Callable[[dict[str, int]], bool]:
    """Return whether every broker has what is within a tenth of even, or a client of it: the producer is one too."""
    share = clients / len(names.split())
    slack = max(1.0, share / 10)
    return lambda found: (
        sorted(found) == sorted(names.split()) and all(abs(count - share) <= slack for count in found.values())
    )


@pytest.mark.parametrize("way", WAYS)
def test_brokers_join_and_stop(
    way: str, program: java_clients.Program, started: list[Broker | Spread], tmp_path: Path
) -> None:
    one = make("entrepot", tmp_path, "b1", [])
    two = make("entrepot", tmp_path, "b2", [one])
    three = make("entrepot", tmp_path, "b3", [one, two])
    started.append(one)
    one.start().await_ready()
    spread = Spread(program, [one, two, three], f"failover:({one.url}){way}")
    started.append(spread)
    spread.say(f"send {MESSAGES}")
    started += [two, three]
    two.start()
    three.start()
    two.await_ready()
    three.await_ready()
    spread.await_spread(even("b1 b2 b3", CLIENTS))
    moved = spread.moves()
    assert spread.await_all(MESSAGES) == (MESSAGES, 0, MESSAGES)
    if "randomize=false" in way:  # else a client draws where it goes by lot, and some are asked again
        assert moved <= CLIENTS * 2 // 3 + 1
    two.kill()
    spread.await_spread(even("b1 b3", CLIENTS))
    spread.say("send 60")
    distinct, _, _ = spread.await_all(MESSAGES + 60)
    assert distinct == MESSAGES + 60


def mesh(home: Path) -> list[ours.Entrepot]:
    """Return three brokers that know one another."""
    found: list[Broker] = []
    for name in ("b1", "b2", "b3"):
        found.append(make("entrepot", home, name, list(found)))
    return [one for one in found if isinstance(one, ours.Entrepot)]


def test_clients_of_a_broker_that_stops_are_with_the_others_and_spread_again(
    program: java_clients.Program, started: list[Broker | Spread], tmp_path: Path
) -> None:
    """With the client of Debian, and with a newer one, each at brokers of its own, both at once: most of it is waiting.

    Each client knows one broker by its URL, the one that stops first.
    """
    programs = [program]
    try:
        programs.append(java_clients.Program(maven.jars(f"org.apache.activemq:activemq-client:{java_clients.NEWER}")))
    except maven.Unavailable as reason:
        print(f"with one client alone: {reason}")
    with ThreadPoolExecutor(len(programs)) as pool:
        runs = [pool.submit(_stop_in_turn, each, started, tmp_path / str(at)) for at, each in enumerate(programs)]
        for run in runs:
            run.result()


def _stop_in_turn(program: java_clients.Program, started: list[Broker | Spread], home: Path) -> None:
    brokers = mesh(home)
    for broker in brokers:
        started.append(broker)
        broker.start().await_ready()
    spread = Spread(program, list(brokers), f"failover:({brokers[0].url})")
    started.append(spread)
    spread.await_spread(even("b1 b2 b3", CLIENTS))
    total = 0
    for victim, others in ((0, "b2 b3"), (1, "b1 b3")):
        spread.say("send 60")
        total += 60
        brokers[victim].stop()
        spread.await_spread(even(others, CLIENTS))
        brokers[victim].start().await_ready()
        spread.await_spread(even("b1 b2 b3", CLIENTS))
    assert spread.await_all(total)[0] == total
    brokers[0].stop()
    brokers[1].stop()
    spread.await_spread(lambda found: found == {"b3": CLIENTS})
    for broker in brokers[:2]:
        broker.start().await_ready()
    spread.await_spread(even("b1 b2 b3", CLIENTS))


def test_clients_find_whoever_comes_back_when_all_stopped(
    program: java_clients.Program, started: list[Broker | Spread], tmp_path: Path
) -> None:
    brokers = mesh(tmp_path)
    for broker in brokers:
        started.append(broker)
        broker.start().await_ready()
    spread = Spread(program, list(brokers), f"failover:({brokers[0].url})?maxReconnectDelay=500")
    started.append(spread)
    spread.await_spread(even("b1 b2 b3", CLIENTS))
    for broker in brokers:
        broker.stop()
    brokers[1].start().await_ready()
    spread.await_spread(lambda found: found == {"b2": CLIENTS})


def test_a_broker_of_activemq_gets_its_share(
    program: java_clients.Program, started: list[Broker | Spread], tmp_path: Path
) -> None:
    """It does not tell how many clients it has; it is taken to be empty when it joins."""
    one = make("entrepot", tmp_path, "b1", [])
    two = make("classic", tmp_path, "b2", [one])
    started.append(one)
    one.start().await_ready()
    spread = Spread(program, [one, two], f"failover:({one.url})?randomize=false")
    started += [spread, two]
    two.start().await_ready()
    spread.await_spread(even("b1 b2", CLIENTS))
    spread.say("send 100")
    assert spread.await_all(100) == (100, 0, 100)


def test_clients_stay_in_their_zone_and_come_home(
    program: java_clients.Program, started: list[Broker | Spread], tmp_path: Path
) -> None:
    """The clients of ``near`` are known by their client ids: nothing of them is changed but their URL."""
    rules = ("--client-zone", "near=client:near-*")
    home = make("entrepot", tmp_path, "home", [], "--zone", "near", *rules)
    away = make("entrepot", tmp_path, "away", [home], "--zone", "far", *rules)
    started += [home, away]
    home.start().await_ready()
    away.start().await_ready()
    url = f"failover:({away.url},{home.url})?randomize=false&jms.clientIDPrefix=near-"
    spread = Spread(program, [home, away], url, 6)
    started.append(spread)
    spread.await_spread(lambda found: found == {"home": 6})
    home.kill()
    spread.await_spread(lambda found: found == {"away": 6})
    home.start().await_ready()
    spread.await_spread(lambda found: found == {"home": 6})
    spread.say("send 60")
    assert spread.await_all(60) == (60, 0, 60)


@pytest.mark.skipif(not FULL, reason="CLIENT_CLUSTERS=full runs the comparison")
@pytest.mark.parametrize("way", WAYS)
def test_activemq_for_comparison(
    way: str, program: java_clients.Program, started: list[Broker | Spread], tmp_path: Path
) -> None:
    one = make("classic", tmp_path, "b1", [])
    two = make("classic", tmp_path, "b2", [one])
    three = make("classic", tmp_path, "b3", [one, two])
    started.append(one)
    one.start().await_ready()
    spread = Spread(program, [one, two, three], f"failover:({one.url}){way}")
    started.append(spread)
    spread.say(f"send {MESSAGES}")
    for each in (two, three):
        started.append(each)
        each.start().await_ready()
    distinct, duplicates, _ = spread.await_all(MESSAGES)
    time.sleep(2)
    print(f"ActiveMQ {way}: {spread.where()}, {spread.moves()} moves, {duplicates} duplicates")
    assert distinct == MESSAGES
