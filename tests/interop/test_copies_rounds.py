"""A replicated pair under every kind of trouble, and clients of every kind: each confirmed message is there once.

Brokers and voters are in network namespaces, stores on small file systems: real partitions, one-way ones too, and real
full disks. `make part-copies COPY_ROUNDS=100`, on a machine that does nothing else: a lease is as long as a broker may
stand still. Every ten rounds the site is a new one, with a Spark query in each second of them. What clients were told,
and what brokers said of themselves all the time, is held against what must be (`promised.py`, `voters.Watcher`); the
last test shows with a broken build that a loss would be seen.
"""

from __future__ import annotations

import importlib.util
import os
import random
import time
from pathlib import Path
from typing import Final

import core_clients
import java_clients
import maven
import pytest
from copies_site import Site, Troubles, unavailable

import entrepot
from pairs import Producer, drain, until
from promised import CONFIRMED, DOUBTFUL, History
from promises import never

ROUNDS: Final = int(os.environ.get("COPY_ROUNDS", "0"))
SEED: Final = int(os.environ.get("COPY_SEED", "1"))
OF_A_SITE: Final = 10
ROUND_S: Final = 200

WHY: Final = unavailable() or ("" if ROUNDS else "takes many minutes: make part-copies COPY_ROUNDS=100")
pytestmark = pytest.mark.skipif(bool(WHY), reason=f"replicated pairs on machines of their own: {WHY}")


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
        from copies_clients import JavaCore, JavaOpenWire, Python, Stomp

        self.all = [Stomp(site), Python(site)]
        self.missing: list[str] = []
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
            from copies_clients import Spark

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


@pytest.mark.timeout(600 + ROUND_S * min(ROUNDS, OF_A_SITE) + 120)
@pytest.mark.parametrize("turn", range((ROUNDS + OF_A_SITE - 1) // OF_A_SITE))
def test_each_confirmed_message_is_there_once(turn: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lots = random.Random(f"{SEED}.{turn}")
    site = Site(tmp_path, "--copies", lots.choice(("1", "1", "2")))
    troubles = Troubles(site, lots)
    clients: Clients | None = None
    wanted = plan(ROUNDS, SEED, list(troubles.kinds))[turn * OF_A_SITE : (turn + 1) * OF_A_SITE]
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


BROKEN: Final = """\
from entrepot.ha.standing import Standing
def believes_itself(self, record):
    return ""
Standing._against = believes_itself
"""


@pytest.mark.timeout(300)
def test_a_build_that_serves_a_stale_copy_is_found_out(tmp_path: Path) -> None:
    """Broker b thinks that its copy counts, whatever the record says: the checker must see what that loses."""
    build = tmp_path / "broken"
    build.mkdir()
    code = Path(entrepot.__file__).resolve().parents[1]
    (build / "sitecustomize.py").write_text(f"import sys\nsys.path.append({str(code)!r})\n{BROKEN}")
    site = Site(tmp_path, "--copies", "1", parts=False, build=build)
    try:
        ports = [site.ports["stomp"]] * 2
        producer = Producer(ports, "/queue/planted", hosts=site.hosts)
        producer.flow(200)
        primary, stale = site.brokers["a"], site.brokers["b"]
        stale.kill()
        producer.flow(500)  # confirmed by a alone: the other copy counts no more
        producer.stop()
        primary.kill()
        site.start("b")
        until(site.brokers["b"].serves, "the broken build serves what it has", 60.0)
        found = drain(site.ports["stomp"], "/queue/planted", site.machines.host("b"))
        history = History()
        for body in producer.promised:
            history.add(CONFIRMED, body)
        for body in producer.doubtful:
            history.add(DOUBTFUL, body)
        assert any("confirmed, and there [0] times" in line for line in history.wrong(found))
    finally:
        site.close()
