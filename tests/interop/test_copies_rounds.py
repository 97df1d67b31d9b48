"""A replicated pair under every kind of trouble, and clients of every kind: each confirmed message is there once.

Brokers and voters are in network namespaces, stores on small file systems: real partitions, one-way ones too, and real
full disks. Two rounds here; `make part-copies COPY_ROUNDS=100 COPY_SEED=1` on a machine that does nothing else, for a
lease is as long as a broker may stand still. Every ten rounds the site is a new one, with a Spark query in each second
of them. What clients were told, and what brokers said of themselves all the time, is held against what must be
(`promised.py`, `voters.Watcher`); the last tests plant faults in both, and show that each is seen.
"""

from __future__ import annotations

import importlib.util
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import core_clients
import java_clients
import maven
import pytest
from copies_clients import Client, JavaCore, JavaOpenWire, Python, Spark, Stomp
from copies_site import Site, Troubles, unavailable

import entrepot
from pairs import Connection, drain, until
from promised import History
from promises import never

ROUNDS: Final = int(os.environ.get("COPY_ROUNDS", "0"))
SEED: Final = int(os.environ.get("COPY_SEED", "1"))
OF_A_SITE: Final = 10
ROUND_S: Final = 200

SHORT: Final = ("the primary is cut off",)  # kill -9 has tests of its own, in tests/shell
"""Where nobody asks for more."""

pytestmark = pytest.mark.skipif(
    bool(unavailable()), reason=f"replicated pairs on machines of their own: {unavailable()}"
)
long = pytest.mark.skipif(not ROUNDS, reason="takes a minute: make part-copies COPY_ROUNDS=100")


def plan(rounds: int, seed: int, kinds: list[str]) -> list[str]:
    """Return what happens: each kind before any is drawn again."""
    lots = random.Random(seed)
    found: list[str] = []
    while len(found) < rounds:
        lots.shuffle(kinds)
        found += kinds
    return found[:rounds]


class Clients:
    """All kinds of clients that are here; why others are not is in ``missing``."""

    def __init__(self, site: Site, *, spark: bool) -> None:
        self.all: list[Client] = []
        self.missing: list[str] = []
        try:
            self._begin(site, spark=spark)
        except BaseException:
            self.close()
            raise

    def _begin(self, site: Site, *, spark: bool) -> None:
        self.all += [Stomp(site), Python(site)]
        why = java_clients.unavailable()
        if why:
            self.missing.append(f"OpenWire in Java: {why}")
        else:
            command = java_clients.Program().command("Rounds", site.openwire, "java.source", "java.target")
            self.all.append(JavaOpenWire(command, "ready", site.place / "openwire.log"))
        try:
            command = core_clients.Program(core_clients.SAME).command("Rounds", site.core)
            self.all.append(JavaCore(command, "going", site.place / "core.log"))
        except maven.Unavailable as error:
            self.missing.append(f"CORE in Java: {error}")
        if spark and importlib.util.find_spec("pyspark") is not None:
            self.all.append(Spark(site))

    def go_on(self) -> None:
        """Wait until each has done more."""
        for each in self.all:
            before = each.going()
            until(lambda each=each, before=before: each.going() > before + 2, f"{type(each).__name__} goes on", 120.0)

    def end(self) -> History:
        """End all, and return their history. Raises PromiseBroken where it cannot be."""
        history, found = History(), []
        for each in self.all:
            found += each.end(history)
        wrong = history.wrong(found)
        with never():
            assert not wrong, "\n".join(wrong)
        return history

    def close(self) -> None:
        for each in self.all:
            each.close()


@pytest.mark.timeout(600 + ROUND_S * min(ROUNDS or len(SHORT), OF_A_SITE) + 120)
@pytest.mark.parametrize("turn", range(max(1, (ROUNDS + OF_A_SITE - 1) // OF_A_SITE)))
def test_each_confirmed_message_is_there_once(turn: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lots = random.Random(f"{SEED}.{turn}")
    site = Site(tmp_path, "--copies", lots.choice(("1", "1", "2")))
    troubles = Troubles(site, lots)
    clients: Clients | None = None
    wanted = plan(ROUNDS, SEED, list(troubles.kinds))[turn * OF_A_SITE : (turn + 1) * OF_A_SITE] or SHORT
    said = [f"site {turn}: {' '.join(site.more[-2:])}"]
    try:
        clients = Clients(site, spark=turn % 2 == 0 and ROUNDS >= OF_A_SITE)
        for kind in wanted:
            began = time.monotonic()
            serves = troubles.round(kind)
            clients.go_on()
            said.append(f"{kind}: {serves} serves, {time.monotonic() - began:.0f} s")
        history = clients.end()
        assert site.watcher is not None
        site.watcher.stop()
        with never():
            assert site.watcher.wrong() == []
        kinds = ", ".join(type(each).__name__ for each in clients.all)
        said.append(f"{kinds}: {history.figures()}; looked at {len(site.watcher.seen)} times")
        said += [*clients.missing, *site.ended]
    except BaseException:
        said.append(site.log_tails())
        raise
    finally:
        if clients is not None:
            clients.close()
        site.close()
        with capsys.disabled():
            print("\n" + "\n".join(said))


STALE: Final = """\
from entrepot.ha.standing import Standing
def believes_itself(self, record):
    return ""
Standing._against = believes_itself
"""
TAKEN_TWICE: Final = """\
from entrepot.ha.candidate import Candidate
claim = Candidate._claim
def once_more(self, *known):
    effects = claim(self, *known)
    self.mine.epoch -= 1
    return effects
Candidate._claim = once_more
"""
SAID_TWICE: Final = """\
from entrepot.io.standby import Standby
facts = Standby.facts
def the_first(self):
    said = facts(self)
    if "master" in said:
        said["master"]["epoch"] = 1
    return said
Standby.facts = the_first
"""


def broken(place: Path, fault: str) -> Path:
    """Return a build with ``fault`` in it."""
    build = place / "broken"
    build.mkdir()
    code = Path(entrepot.__file__).resolve().parents[1]
    (build / "sitecustomize.py").write_text(f"import sys\nsys.path.append({str(code)!r})\n{fault}")
    return build


@contextmanager
def planted(place: Path, fault: str = "") -> Iterator[Site]:
    """A pair of equals, b of a build with ``fault``."""
    site = Site(place, "--copies", "1", parts=False, build=broken(place, fault) if fault else None)
    try:
        yield site
    finally:
        site.close()


def judged(client: Stomp, found: list[str]) -> list[str]:
    history = History()
    client.told(history)
    return history.wrong(found)


@long
@pytest.mark.timeout(300)
def test_a_build_that_serves_a_stale_copy_is_found_out(tmp_path: Path) -> None:
    """Broker b thinks that its copy counts, whatever the record says: the checker must see what that loses."""
    with planted(tmp_path, STALE) as site:
        client = Stomp(site)
        client.producer.flow(200)
        primary, stale = site.brokers["a"], site.brokers["b"]
        stale.kill()
        client.producer.flow(500)  # confirmed by a alone: the other copy counts no more
        client.producer.stop()
        primary.kill()
        site.start("b")
        until(site.brokers["b"].serves, "the broken build serves what it has", 60.0)
        found = drain(site.ports["stomp"], f"/queue/{client.queue}", site.machines.host("b"))
        assert any("confirmed, and there [0] times" in line for line in judged(client, list(found)))


@long
@pytest.mark.timeout(300)
def test_a_build_that_says_an_epoch_a_second_time_is_found_out(tmp_path: Path) -> None:
    with planted(tmp_path, SAID_TWICE) as site:
        watcher = site.watcher
        assert watcher is not None
        until(lambda: watcher.seen, "a is seen to serve")
        site.brokers["a"].kill()
        until(lambda: watcher.seen[-1][3] == "b", "the broken build is seen to serve", 60.0)
        watcher.stop()
        assert "b and a both with epoch 1" in watcher.wrong()


@long
@pytest.mark.timeout(300)
def test_a_build_that_takes_an_epoch_a_second_time_serves_nothing(tmp_path: Path) -> None:
    """Its own journal knows better."""
    with planted(tmp_path, TAKEN_TWICE) as site:
        site.brokers["a"].kill()
        until(lambda: "epoch 1 is over" in site.brokers["b"].text(), "it is refused", 60.0)
        assert site.brokers["b"].process.wait(30) != 0


def take(site: Site, queue: str) -> str:
    """Consume one message of those that wait."""
    one = Connection(site.ports["stomp"], host=site.machines.host(site.well()))
    one.socket.sendall(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:client-individual\n\n\0".encode())
    head, _, body = one.frame().decode().partition("\n\n")
    mark = next(line for line in head.splitlines() if line.startswith("ack:")).removeprefix("ack:")
    one.socket.sendall(f"ACK\nid:{mark}\nreceipt:taken\n\n\0".encode())
    while not one.frame().startswith(b"RECEIPT"):
        pass  # other messages, which go back
    one.close()
    return body


@long
@pytest.mark.timeout(300)
def test_a_message_that_is_taken_out_and_one_that_is_put_in_are_found_out(tmp_path: Path) -> None:
    with planted(tmp_path) as site:
        client = Stomp(site)
        client.producer.flow(100)
        client.producer.stop()
        history = History()
        stolen = take(site, client.queue)
        forged = list(client.producer.promised)[-1]
        one = Connection(site.ports["stomp"], host=site.machines.host(site.well()))
        one.send(f"/queue/{client.queue}", [forged])  # without a duplicate id
        one.receipts(1)
        one.close()
        found = client.end(history)
        assert history.wrong(found) == [
            f"{stolen}: confirmed, and there [0] times",
            f"{forged}: confirmed, and there [2] times",
        ]
