"""This broker beside a real Artemis under the same clients of Artemis, alternating: figures, ratios, verdicts.

    python bench/core.py [--pairs 5] [--quick] [--row core-1-1] [--entrepot-command '...']

Both speak CORE with the unmodified ``artemis-jms-client`` 2.42; Artemis is the broker of that version, embedded, with
its defaults and the heap of its own start script. Needs Maven; without it, or without javac, it says so and ends well.
README.md has what a row means. Results go to ``build/bench-core.json``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from artemis_broker import Artemis, artemis
from brokers import BenchError, Broker, Entrepot, Ports, Running
from openwire_rows import counted

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
sys.path[:0] = [str(ROOT / "tests" / "interop")]

import core_clients  # noqa: E402 - the line above must come first
import maven  # noqa: E402
from java_clients import compiled  # noqa: E402

CLIENT_MEMORY: Final = ("-Xms128M", "-Xmx1G")
SETTLE_S: Final = 1.0
WARM_S: Final = 20.0  # of a fresh JVM; after 4 s its compiler still takes most of two processors (decision 0025)
MEASURE_S: Final = 5.0
LOAD_MARGIN_S: Final = 120.0
IDLE: Final = 500  # connections
LARGE: Final = 1 << 30


class Ours(Entrepot):
    """This project's broker, listening for CORE where the others listen for OpenWire."""

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        command = super().command(home, ports, fast_fill=fast_fill, bridge_to=bridge_to)
        return [word.replace("openwire://", "core://") for word in command]


@dataclass(frozen=True)
class Row:
    """What is asked of a row: a least ratio to Artemis, or a ceiling of our own figure."""

    key: str
    title: str
    unit: str
    ratio: float = 0.0
    ceiling: float = 0.0


@dataclass(frozen=True)
class Flow:
    """A flood: ``pairs`` producers and as many consumers of one queue."""

    row: Row
    mode: str
    options: str = ""
    pairs: int = 1
    length: int = 1024


FLOWS: Final = (
    Flow(Row("core-1-1", "1 to 1, 1 KiB text, non-persistent", "msg/s", ratio=1.3), "non-persistent"),
    Flow(
        Row("core-persistent", "1 to 1, 1 KiB text, persistent, not waited for", "msg/s", ratio=2),
        "persistent",
        "?blockOnDurableSend=false",
    ),
    Flow(Row("core-persistent-sync", "1 to 1, 1 KiB text, persistent, each confirmed", "msg/s", ratio=1), "persistent"),
    Flow(
        Row("core-8-8", "8 to 8, 100 B text, non-persistent", "msg/s", ratio=2),
        "non-persistent",
        pairs=8,
        length=100,
    ),
)
IDLE_ROW: Final = Row("core-idle", "idle connection with a session and a consumer (PSS)", "KB", ceiling=25)
LARGE_ROW: Final = Row(
    "core-large", "growth of the broker by a large message, sent and received (RSS)", "MB", ceiling=20
)
ROWS: Final = (*(flow.row for flow in FLOWS), IDLE_ROW, LARGE_ROW)


class Clients:
    """The Java programs."""

    def __init__(self) -> None:
        """Compile them. Raises maven.Unavailable."""
        jars = maven.jars(core_clients.SAME.library)
        sources = {each.name: each.read_text() for each in sorted((HERE / "java" / "core").glob("*.java"))}
        self._path = f"{compiled(sources, f'{jars}/*')}:{jars}/*"

    def command(self, name: str, *arguments: str) -> list[str]:
        return ["java", *CLIENT_MEMORY, "-cp", self._path, name, *arguments]


@contextmanager
def stepping(command: list[str]) -> Iterator[Any]:
    """Run a program that says a line at each step; yields what waits for a line, and lets it go on."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reading, writing = process.stdout, process.stdin

    def step(expected: str) -> None:
        line = reading.readline().strip()
        if line != expected:
            process.kill()
            raise BenchError(f"the client said {line!r}: {process.communicate()[1][-2000:]}")

    def go_on() -> None:
        writing.write("\n")
        writing.flush()

    step.go_on = go_on  # type: ignore[attr-defined]
    try:
        yield step
    finally:
        process.kill()
        process.communicate()


def flood(
    flow: Flow, clients: Clients, broker: Running, number: int, warm_s: float, measure_s: float
) -> dict[str, Any]:
    """One round in a fresh JVM, which warms itself before it measures."""
    command = clients.command(
        "Flow", broker.openwire + flow.options, flow.mode, f"bench.{flow.row.key}.{number}", f"{warm_s}",
        f"{measure_s}", f"{flow.pairs}", f"{flow.length}",
    )  # fmt: skip
    return counted(broker, command, at_most_s=warm_s + measure_s + LOAD_MARGIN_S)


def idle(clients: Clients, broker: Running, count: int) -> dict[str, Any]:
    """Return what a silent connection costs, in KB."""
    time.sleep(SETTLE_S)
    before = broker.weigh().pss
    with stepping(clients.command("Held", broker.openwire, "idle", f"{count}")) as step:
        step("connected")
        time.sleep(SETTLE_S)
        after = broker.weigh().pss
        step.go_on()
    return {"figure": (after - before) / count / 1000, "before": before, "after": after}


def large(clients: Clients, broker: Running, size: int) -> dict[str, Any]:
    """Return by how much the broker's memory grew at most, in MB."""
    with stepping(clients.command("Held", broker.openwire, "large", f"{size}")) as step:
        step("ready")
        before = broker.weigh().rss
        started = time.monotonic()
        step.go_on()
        step("sent")
        sent_s = time.monotonic() - started
        step.go_on()
        step("received")
        received_s = time.monotonic() - started - sent_s
        step.go_on()
    return {"figure": (broker.weigh().peak - before) / 1e6, "sent_s": sent_s, "received_s": received_s}


class Bench:
    """One run: the samples of both brokers."""

    def __init__(self, clients: Clients, recipes: list[Broker], scratch: Path, pairs: int, quick: bool) -> None:
        self.samples: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self._clients = clients
        self._recipes = recipes
        self._scratch = scratch
        self._pairs = pairs
        self._warm_s, self._measure_s = (1.0, 1.0) if quick else (WARM_S, MEASURE_S)
        self._idle, self._large = (100, 1 << 26) if quick else (IDLE, LARGE)

    def run(self, keys: tuple[str, ...]) -> None:
        """Measure the rows named, all of them without a name."""
        with ExitStack() as stack:
            up = {each.name: stack.enter_context(self._running(each, "flows")) for each in self._recipes}
            for flow in FLOWS:
                if not keys or flow.row.key in keys:
                    self._flow(flow, up)
        for row in (IDLE_ROW, LARGE_ROW):
            if not keys or row.key in keys:
                for each in self._recipes:
                    with self._running(each, row.key) as broker:
                        self._keep(row, each, self._held(row, broker))

    def _running(self, recipe: Broker, what: str) -> Any:
        return recipe.running(self._scratch / f"{what}-{recipe.name}", ports=Ports.free(openwire=True))

    def _held(self, row: Row, broker: Running) -> dict[str, Any]:
        if row is IDLE_ROW:
            return idle(self._clients, broker, self._idle)
        return large(self._clients, broker, self._large)

    def _flow(self, flow: Flow, up: dict[str, Running]) -> None:
        for each in self._recipes:
            flood(flow, self._clients, up[each.name], -1, self._warm_s, 1.0)  # Artemis is compiled while it runs
        for number in range(self._pairs):
            for each in self._recipes if number % 2 == 0 else self._recipes[::-1]:
                said = flood(flow, self._clients, up[each.name], number, self._warm_s, self._measure_s)
                self._keep(flow.row, each, said | {"figure": said["messages_per_second"]})

    def _keep(self, row: Row, recipe: Broker, sample: dict[str, Any]) -> None:
        self.samples.setdefault(row.key, {}).setdefault(recipe.name, []).append(sample)
        cpu = sample.get("broker_cpu_us_per_message")
        click.echo(f"{row.key}: {recipe.title} {sample['figure']:,.1f} {row.unit}" + (f", {cpu} us CPU" if cpu else ""))


def verdicts(samples: dict[str, dict[str, list[dict[str, Any]]]]) -> Iterator[str]:
    """Yield a line for each row: medians, the median ratio within pairs, and whether that is enough."""
    for row in ROWS:
        found = samples.get(row.key, {})
        own, theirs = found.get(Ours.name, []), found.get(Artemis.name, [])
        if not own:
            continue
        line = f"{row.title}: {median(each['figure'] for each in own):,.1f} {row.unit}"
        if theirs:
            ratio = median(a["figure"] / b["figure"] for a, b in zip(own, theirs, strict=False))
            line += f"; Artemis {median(each['figure'] for each in theirs):,.1f}; ratio {ratio:.2f}"
            if "broker_cpu_us_per_message" in own[0]:
                key = "broker_cpu_us_per_message"
                line += f"; CPU {median(a[key] / b[key] for a, b in zip(own, theirs, strict=False)):.2f}"
            if row.ratio:
                line += f" ({'reached' if ratio >= row.ratio else 'MISSED'}: at least {row.ratio})"
        if row.ceiling:
            reached = median(each["figure"] for each in own) <= row.ceiling
            line += f" ({'reached' if reached else 'MISSED'}: at most {row.ceiling} {row.unit})"
        yield line


@click.command()
@click.option("--pairs", default=5, show_default=True)
@click.option("--quick", is_flag=True, help="One short pair: shows that it runs, proves nothing.")
@click.option("--row", "keys", multiple=True, type=click.Choice([row.key for row in ROWS]))
@click.option("--entrepot-command", help="The broker, if not that of this interpreter.")
def main(pairs: int, quick: bool, keys: tuple[str, ...], entrepot_command: str | None) -> None:
    """Measure CORE beside a real Artemis."""
    why = artemis.unavailable()
    if why:
        click.echo(f"left out: clients of Artemis, and Artemis beside: {why}")
        return
    if not core_clients.speaks_core():
        click.echo("left out: this build of entrepot has no CORE server")
        return
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as scratch:
        bench = Bench(Clients(), [Ours(entrepot_command), Artemis()], Path(scratch), 1 if quick else pairs, quick)
        bench.run(keys)
    for line in verdicts(bench.samples):
        click.echo(line)
    results = ROOT / "build" / "bench-core.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(bench.samples, indent=1))


if __name__ == "__main__":
    try:
        main()
    except BenchError as problem:
        sys.exit(f"error: {problem}")
