"""A pair that shares nothing: ours beside a replicated pair of real Artemis brokers, and beside one of ours alone.

    python bench/replication.py [--rounds 3] [--quick] [--row persistent] ...

All speak STOMP to the same generators, so that no client limits either. Artemis is the broker of Maven Central, 2.42,
with ``<replication>`` and the heap of its own start script; ours has its lock in a file. Kinds take turns, round by
round, and a ratio is the median of those within rounds. Results go to ``build/bench-replication.json``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from artemis_broker import MEMORY, artemis
from brokers import HOST, answers_stomp, free_port
from clusters import DELAY_MS, NODE
from rows import Load
from takeover import fill

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from pairs import BrokerProcess, Connection, Producer, until  # noqa: E402 - the line above must come first
from voters import WitnessProcess  # noqa: E402

PATIENCE: Final = 120.0  # s: a Java process on a machine that is busy
GIB: Final = 1 << 30
STORED: Final = 100_000
CONNECTORS: Final = """<connector name="self">tcp://{host}:{core}</connector>
      <connector name="other">tcp://{host}:{other}</connector>"""
CLUSTER: Final = """<cluster-connections><cluster-connection name="pair"><connector-ref>self</connector-ref>
      <retry-interval>100</retry-interval>
      <static-connectors><connector-ref>other</connector-ref></static-connectors>
    </cluster-connection></cluster-connections>"""
POLICY: Final = (
    """<ha-policy><replication><{part}><cluster-name>pair</cluster-name></{part}></replication></ha-policy>"""
)
SYNCED: Final = (
    "SEND\ndestination:/queue/activemq.management\nreply-to:answers\n"
    "_AMQ_ResourceName:broker\n_AMQ_Attribute:replicaSync\n\n\0"
)


class Theirs(BrokerProcess):
    """One Artemis of a replicated pair, seen as one of ours."""

    def __init__(self, home: Path, name: str, part: str, cores: tuple[int, int]) -> None:
        """``cores``: its own port for CORE, and the other's."""
        self.name, self.host, self.port = name, HOST, free_port()
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / f"{name}.log"
        file = home / "broker.xml"
        core, other = cores
        connectors, policy = CONNECTORS.format(host=HOST, core=core, other=other), POLICY.format(part=part)
        places = {"name": name, "home": home, "host": HOST, "core": core, "stomp": self.port, "delay": DELAY_MS}
        file.write_text(NODE.format(**places, connectors=connectors, cluster=CLUSTER, policy=policy))
        command = ["java", *MEMORY, "-cp", artemis.class_path(), "Artemis", str(file)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def serves(self) -> bool:
        return answers_stomp(self.port)

    def has_replica(self) -> bool:
        """Ask the primary whether its backup is in sync."""
        try:
            one = Connection(self.port, 10.0)
            one.socket.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/answers\nack:auto\n\n\0" + SYNCED.encode())
            said = one.frame()
            one.close()
        except OSError:  # it is busy
            return False
        return b"[true]" in said


class Ours(BrokerProcess):
    """One broker of ours in a replicated pair."""

    ha = "replication"

    def in_sync(self) -> bool:
        return bool(self.facts().get("replication", {}).get("in_sync"))


class Pair:
    """A primary with a backup in sync, or one broker alone: ``primary``, and ``backup`` where there is one."""

    def __init__(self, kind: str, home: Path) -> None:
        """``kind``: ours, theirs or alone."""
        self.kind, self.home = kind, home
        home.mkdir(parents=True, exist_ok=True)
        (home / "lock").mkdir(exist_ok=True)
        self.cores = (free_port(), free_port())
        self.made: list[BrokerProcess] = []
        self.primary = self.begin(0)
        until(self.primary.serves, f"{kind}: the primary serves", PATIENCE)

    def begin(self, number: int) -> BrokerProcess:
        """Start broker 0 or 1."""
        name, folder = f"b{number}", self.home / f"b{number}"
        mine, other = self.cores if number == 0 else self.cores[::-1]
        made: BrokerProcess
        if self.kind == "theirs":
            made = Theirs(folder, name, ("primary", "backup")[number], (mine, other))
        elif self.kind == "ours":
            place = ("--replication", f"{HOST}:{mine}", "--peer", f"{HOST}:{other}")
            more = (*place, "--locker", f"file:{self.home / 'lock'}", "--copies", "1")
            made = Ours(folder, name, self.home, *more)
        else:
            made = BrokerProcess(folder, name, self.home)
        self.made.append(made)
        return made

    def join(self) -> float:
        """Start the backup; return after how many seconds it is in sync."""
        began = time.monotonic()
        self.backup = self.begin(1)
        if isinstance(self.backup, Ours):
            until(self.backup.in_sync, "the backup is in sync", PATIENCE)
        elif isinstance(self.primary, Theirs):
            until(self.primary.has_replica, "Artemis' backup is in sync", PATIENCE)
        return time.monotonic() - began

    def clear(self) -> None:
        """End all."""
        for each in self.made:
            each.clear()


class Seen:
    """A broker as `Load` wants it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.name, self.port, self._broker = broker.name, broker.port, broker

    def log_tail(self) -> str:
        return self._broker.text()[-1000:]


@contextmanager
def pair(kind: str, scratch: Path, *, joined: bool = True) -> Iterator[Pair]:
    """A pair in a directory of its own, gone at the end."""
    home = Path(tempfile.mkdtemp(prefix=kind, dir=scratch))
    made = Pair(kind, home)
    try:
        if joined and kind != "alone":
            made.join()
        yield made
    finally:
        made.clear()
        shutil.rmtree(home, ignore_errors=True)


class Bench:
    """The rows, each a figure of one kind."""

    def __init__(self, scratch: Path, load: Load, quick: bool) -> None:
        self.scratch, self.load = scratch, load
        self.seconds = 2.0 if quick else 8.0
        self.stored = STORED // 10 if quick else STORED
        self.copied = GIB // 16 if quick else GIB

    def persistent(self, kind: str) -> float:
        """Persistent sends a second, 1 KiB, window of 500."""
        with pair(kind, self.scratch) as made:
            return self._flood(made.primary)

    def _flood(self, broker: BrokerProcess) -> float:
        said = self.load.run(
            Seen(broker), "--destination", "/queue/flood", "--size", "1024", "--persistent", "--window", "500",
            "--consumers", "0", "--warm-seconds", "2", "--seconds", f"{self.seconds}", at_most_s=self.seconds + 90,
        )  # type: ignore[arg-type]  # fmt: skip
        return float(said["receipts_per_second"])

    def blocking(self, kind: str) -> float:
        """p50 of single blocking sends, ms."""
        with pair(kind, self.scratch) as made:
            one = Connection(made.primary.port, 10.0)
            took: list[float] = []
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                began = time.perf_counter()
                one.send("/queue/single", [f"m{len(took)}"], 1000)
                one.receipts(1)
                took.append(1000 * (time.perf_counter() - began))
            return statistics.median(took[len(took) // 4 :])

    def takeover(self, kind: str) -> float:
        """ms from kill -9 until a client's send is confirmed by the new primary; 5,000 msg/s, 100,000 stored."""
        return self._ended(kind, lambda broker: broker.kill())

    def stop(self, kind: str) -> float:
        """ms from SIGTERM until then."""
        return self._ended(kind, lambda broker: broker.process.terminate())

    def _ended(self, kind: str, end: Callable[[BrokerProcess], None]) -> float:
        with pair(kind, self.scratch, joined=False) as made:
            fill(made.primary.port, self.stored)
            made.join()
            producer = Producer([made.primary.port, made.backup.port], "/queue/load", rate=5000.0)
            producer.flow(2000)
            time.sleep(2.0)
            ended = time.monotonic()
            end(made.primary)
            until(made.backup.serves, f"{kind}: the backup takes over", PATIENCE)
            producer.flow(1)
            producer.stop()
            late = sorted(at for at in producer.promised.values() if at > ended)
            return 1000 * max(after - before for before, after in zip([ended, *late], late, strict=False))

    def copy(self, kind: str) -> float:
        """Octets a second of the initial copy of 1 GiB, in millions."""
        with pair(kind, self.scratch, joined=False) as made:
            fill(made.primary.port, self.copied // 1100)
            return self.copied / made.join() / 1e6

    def copying(self, kind: str) -> float:
        """Persistent sends a second while that copy is made."""
        with pair(kind, self.scratch, joined=False) as made:
            fill(made.primary.port, self.copied // 1100)
            made.backup = made.begin(1)
            return self._flood(made.primary)

    def idle(self, kind: str) -> float:
        """MB of an idle backup."""
        with pair(kind, self.scratch) as made:
            time.sleep(2.0)
            return made.backup.resident() / 1e6

    def witness(self, kind: str) -> float:
        """MB of an idle witness."""
        one = WitnessProcess(Path(tempfile.mkdtemp(prefix=kind, dir=self.scratch)), "w")
        try:
            time.sleep(2.0)
            return one.resident() / 1e6
        finally:
            one.clear()


ROWS: Final = {
    "persistent": ("ours", "theirs", "alone"),
    "blocking": ("ours", "theirs", "alone"),
    "takeover": ("ours", "theirs"),
    "stop": ("ours",),
    "copy": ("ours", "theirs"),
    "copying": ("ours", "alone"),
    "idle": ("ours", "theirs"),
    "witness": ("ours",),
}


def ratios(kinds: dict[str, list[float]]) -> str:
    """Return ours as a multiple of each other kind, the median of those within rounds."""
    ours = kinds.get("ours", [])
    found = [
        f"{statistics.median(one / other for one, other in zip(ours, figures, strict=False)):.2f} of {kind}"
        for kind, figures in kinds.items()
        if kind != "ours" and ours
    ]
    return f"  ({', '.join(found)})" if found else ""


def disk(scratch: Path, octets: int) -> float:
    """Return how fast ``cp`` and a sync are here, millions of octets a second."""
    one, other = scratch / "one", scratch / "other"
    with one.open("wb") as file:
        for _ in range(octets >> 20):
            file.write(os.urandom(1 << 20))
    began = time.monotonic()
    shutil.copyfile(one, other)
    with other.open("rb") as file:
        os.fsync(file.fileno())
    took = time.monotonic() - began
    one.unlink()
    other.unlink()
    return octets / took / 1e6


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1, 50), default=3, show_default=True)
@click.option("--quick", is_flag=True, help="A check, not a result.")
@click.option("--row", "rows", type=click.Choice(list(ROWS)), multiple=True, help="Only this; repeat.")
@click.option("--only", type=click.Choice(["ours", "theirs", "alone"]), multiple=True, help="Only this kind; repeat.")
def main(*, rounds: int, quick: bool, rows: tuple[str, ...], only: tuple[str, ...]) -> None:
    load = Load(Path(__file__).with_name("load.c"), ROOT / "build")
    load.build()
    why_not = artemis.unavailable()
    if why_not:
        click.echo(f"Artemis is left out: {why_not}")
    figures: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(dir=ROOT / "build", ignore_cleanup_errors=True) as place:
        bench = Bench(Path(place), load, quick)
        for _ in range(rounds):
            for row in rows or tuple(ROWS):
                kinds = [
                    kind for kind in ROWS[row] if not (why_not and kind == "theirs") and (not only or kind in only)
                ]
                for kind in kinds:
                    figure = getattr(bench, row)(kind)
                    figures.setdefault(row, {}).setdefault(kind, []).append(figure)
                    click.echo(f"{row:11} {kind:7} {figure:10.1f}")
                if row == "copy":
                    figures[row].setdefault("cp + fsync", []).append(disk(Path(place), bench.copied))
    click.echo(f"\nmedian of {rounds}; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for row, kinds_of in figures.items():
        about = (getattr(Bench, row).__doc__ or "").strip()
        told = "  ".join(f"{kind} {statistics.median(each):,.1f}" for kind, each in kinds_of.items())
        click.echo(f"{row:11} {told}{ratios(kinds_of)}    {about}")
    (ROOT / "build" / "bench-replication.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
