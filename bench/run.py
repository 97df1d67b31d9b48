"""Measure this broker and ActiveMQ Classic under the same loads, alternating, and print figures, ratios, verdicts.

    python bench/run.py                 five pairs of everything; about twenty minutes with a reference
    python bench/run.py --quick         one short pair: shows that all works, proves nothing
    python bench/run.py --row fan-out   only this row

Real processes on loopback, started and ended here. README.md says what each row means and how to read a ratio.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
from artemis_broker import Artemis
from brokers import ActiveMQ, Before, BenchError, Broker, Entrepot, Ports, Running
from jvm import JavaClients
from jvm import unavailable as java_unavailable
from network_rows import (
    HOP,
    HOP_DEMAND,
    HOP_LATENCY,
    HOP_PERSISTENT,
    NETWORK_ROWS,
    Network,
    added_latency,
    flood,
    network,
    new_demand,
)
from openwire_rows import (
    CLIENT_RECEIVE,
    CLIENT_SEND,
    CODEC_ENCODE,
    CODEC_ROWS,
    FAILOVER,
    FAILOVER_JAVA,
    JAVA_FLOWS,
    JAVA_ROWS,
    KILLS,
    OPENWIRE_ROWS,
    JavaFlow,
    Twins,
    codec,
    python_client,
)
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rows import (
    FLOWS,
    IDLE_MEMORY,
    PER_CONNECTION,
    QUICK,
    RECOVERY,
    RECOVERY_MEMORY,
    START,
    TRIP_P50,
    TRIP_P99,
    WAITING_MEMORY,
    Effort,
    Flow,
    Load,
    Row,
    Sample,
    life,
    middle,
    middle_ratio,
    recovery,
    round_trip,
    show,
)  # fmt: skip
from rows import ROWS as STOMP_ROWS
from stall_rows import STALL_ROWS, STALLS, Stall

HERE = Path(__file__).resolve().parent
OURS, REFERENCE = Entrepot.name, ActiveMQ.name
ROWS = (*STOMP_ROWS, *STALL_ROWS, *OPENWIRE_ROWS, *NETWORK_ROWS)
PLAIN_WIDTH = 150  # of the table when the output is no terminal
LEAST_S = 10.0  # nothing is begun with less time than this left

SAME_RECORDS = tuple(row.key for row in (
    TRIP_P99, IDLE_MEMORY, PER_CONNECTION, RECOVERY_MEMORY, WAITING_MEMORY, CLIENT_RECEIVE, CODEC_ENCODE,
))  # fmt: skip

Samples = dict[str, dict[str, list[Sample]]]  # by row, by broker


class Bench:
    """One run of the bench: owns the schedule, the time budget and the samples."""

    def __init__(
        self, recipes: list[Broker], load: Load, scratch: Path, *, pairs: int, effort: Effort, minutes: float,
        chosen: frozenset[str], recovery_full: bool, java: JavaClients | None, beside: list[Broker],
        progress: Progress,
    ) -> None:  # fmt: skip
        self.samples: Samples = {row.key: {recipe.name: [] for recipe in (*recipes, *beside)} for row in ROWS}
        self.notes: list[str] = []
        self.failures: list[str] = []
        self._recipes = recipes
        self._beside = beside  # measured in the rows of stalls alone
        self._load = load
        self._scratch = scratch
        self._pairs = pairs
        self._effort = effort
        self._deadline = time.monotonic() + minutes * 60
        self._chosen = chosen
        self._recovery_full = recovery_full
        self._java = java
        self._kills = 1 if effort is QUICK else max(KILLS, pairs)
        self._progress = progress
        self._task = progress.add_task("starting", total=self._work())

    def run(self) -> None:
        """Everything that was chosen, as far as the time budget reaches; what fails does not take the rest along."""
        if self._wants(START, IDLE_MEMORY, PER_CONNECTION):
            self._attempt(self._lives)
        if self._wants(*(flow.row for flow in FLOWS), TRIP_P50, TRIP_P99):
            self._attempt(self._steady)
        for stall in STALLS:
            if self._wants(stall.row):
                self._attempt(partial(self._stall, stall))
        if self._wants(*CODEC_ROWS) and self._recipes[0].name == OURS:
            self._attempt(self._codec)
        if self._wants(CLIENT_SEND, CLIENT_RECEIVE) or any(self._wants_java(flow.row) for flow in JAVA_FLOWS):
            self._attempt(self._openwire)
        if self._wants(*NETWORK_ROWS):
            self._attempt(self._network)
        if self._wants(FAILOVER):
            self._attempt(partial(self._failover, FAILOVER, None))
        if self._wants_java(FAILOVER_JAVA):
            self._attempt(partial(self._failover, FAILOVER_JAVA, self._java))
        if self._wants(RECOVERY, RECOVERY_MEMORY, WAITING_MEMORY):
            for recipe in self._recipes:
                self._attempt(partial(self._recovery, recipe))

    def _attempt(self, part: Callable[[], None]) -> None:
        try:
            part()
        except BenchError as problem:
            self.failures.append(str(problem))

    def _wants(self, *rows: Row) -> bool:
        return not self._chosen or any(row.key in self._chosen for row in rows)

    def _wants_java(self, row: Row) -> bool:
        return self._java is not None and self._wants(row)

    def _work(self) -> int:
        flows = sum(self._wants(flow.row) for flow in FLOWS) + self._wants(TRIP_P50, TRIP_P99)
        rows = (
            flows
            + self._wants(START, IDLE_MEMORY, PER_CONNECTION)
            + self._wants(RECOVERY, RECOVERY_MEMORY, WAITING_MEMORY)
        )
        rows += sum(self._wants_java(flow.row) for flow in JAVA_FLOWS) + self._wants(CLIENT_SEND, CLIENT_RECEIVE)
        rows += sum(self._wants(row) for row in (*NETWORK_ROWS, *STALL_ROWS))
        kills = (self._wants(FAILOVER) + self._wants_java(FAILOVER_JAVA)) * self._kills
        return (rows * self._pairs + kills) * len(self._recipes) + self._wants(*CODEC_ROWS) * self._pairs

    def _remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    def _pair(
        self,
        title: str,
        measure: Callable[[Broker, int], Sample],
        pairs: int = 0,
        recipes: list[Broker] | None = None,
    ) -> None:
        """Alternate the brokers, round by round; who goes first alternates too. Stops early when time is out."""
        recipes = recipes or self._recipes
        spent = 0.0
        pairs = pairs or self._pairs
        for number in range(pairs):
            if self._remaining_s() < spent:
                self.notes.append(f"{title}: {number} of {pairs} pairs; --minutes ran out")
                self._progress.advance(self._task, (pairs - number) * len(recipes))
                return
            began = time.monotonic()
            for recipe in recipes if number % 2 == 0 else recipes[::-1]:
                self._say(f"{title}: {recipe.title}, {number + 1} of {pairs}")
                self._keep(recipe, measure(recipe, number))
            spent = time.monotonic() - began

    def _keep(self, recipe: Broker, sample: Sample) -> None:
        for key in sample.figures:
            self.samples[key][recipe.name].append(sample)
        self._progress.advance(self._task)

    def _say(self, what: str) -> None:
        self._progress.update(self._task, description=what)

    def _home(self, what: str, recipe: Broker, number: int = 0) -> Path:
        return self._scratch / f"{what}-{recipe.name}-{number}"

    def _lives(self) -> None:
        self._pair(
            "start, idle",
            lambda recipe, number: life(self._load, recipe, self._home("life", recipe, number), self._effort),
        )

    def _steady(self) -> None:
        with ExitStack() as stack:
            up: dict[str, Running] = {}
            for recipe in self._recipes:
                self._say(f"starting {recipe.title}")
                up[recipe.name] = stack.enter_context(recipe.running(self._home("steady", recipe)))
            for flow in FLOWS:
                if self._wants(flow.row):
                    self._attempt(partial(self._flow, flow, up))
            if self._wants(TRIP_P50, TRIP_P99):
                for recipe in self._recipes:
                    self._say(f"round trip: warming {recipe.title}")
                    FLOWS[0].warm(self._load, up[recipe.name], self._effort.warm_s)
                self._pair(
                    "round trip",
                    lambda recipe, number: round_trip(self._load, up[recipe.name], self._effort, number),
                )

    def _flow(self, flow: Flow, up: dict[str, Running]) -> None:
        for recipe in self._recipes:
            self._say(f"{flow.row.key}: warming {recipe.title}")
            warm_s = self._effort.jvm_warm_s if recipe.name == REFERENCE else self._effort.warm_s
            flow.warm(self._load, up[recipe.name], min(warm_s, max(1.0, self._remaining_s())))
        self._pair(
            flow.row.key,
            lambda recipe, number: flow.measure(self._load, up[recipe.name], self._effort, number),
        )

    def _stall(self, stall: Stall) -> None:
        """Fresh brokers for each kind of flood: what it leaves behind is no load of the next."""
        if self._is_late(stall.row.key):
            return
        every = (*self._recipes, *self._beside)
        recipes = [each for each in every if isinstance(each, Entrepot) or not stall.ours]
        with ExitStack() as stack:
            up: dict[str, Running] = {}
            for recipe in recipes:
                self._say(f"{stall.row.key}: starting {recipe.title}")
                up[recipe.name] = stack.enter_context(recipe.running(self._home(stall.row.key, recipe)))
                warm_s = self._effort.warm_s if isinstance(recipe, Entrepot) else self._effort.jvm_warm_s
                FLOWS[0].warm(self._load, up[recipe.name], warm_s)
            self._pair(
                stall.row.key,
                lambda recipe, number: stall.measure(self._load, up[recipe.name], self._effort, number),
                recipes=recipes,
            )

    def _is_late(self, title: str) -> bool:
        """Whether there is no time to begin this; notes it then."""
        late = self._remaining_s() < LEAST_S
        if late:
            self.notes.append(f"{title}: not measured; --minutes ran out")
        return late

    def _codec(self) -> None:
        for number in range(self._pairs):
            if self._is_late(f"codec, {number + 1} of {self._pairs}"):
                return
            self._say(f"codec: {number + 1} of {self._pairs}")
            sample = codec()
            self._keep(self._recipes[0], sample)
        if not sample.record["compiled"]:
            self.notes.append("the codecs ran as plain Python, not compiled")

    def _openwire(self) -> None:
        if self._is_late("clients over OpenWire"):
            return
        with ExitStack() as stack:
            up: dict[str, Running] = {}
            for recipe in self._recipes:
                self._say(f"starting {recipe.title}")
                ports = Ports.free(openwire=True)
                up[recipe.name] = stack.enter_context(recipe.running(self._home("openwire", recipe), ports=ports))
            for flow in JAVA_FLOWS:
                if self._java is not None and self._wants(flow.row):
                    self._attempt(partial(self._java_flow, flow, self._java, up))
            if self._wants(CLIENT_SEND, CLIENT_RECEIVE):
                self._attempt(partial(self._python_client, up))

    def _java_flow(self, flow: JavaFlow, clients: JavaClients, up: dict[str, Running]) -> None:
        if self._is_late(flow.row.key):
            return
        self._say(f"{flow.row.key}: warming")
        if REFERENCE in up:
            flow.measure(clients, up[REFERENCE], self._effort, -1)  # its broker too is compiled while it runs
        self._pair(
            flow.row.key,
            lambda recipe, number: flow.measure(clients, up[recipe.name], self._effort, number),
        )

    def _python_client(self, up: dict[str, Running]) -> None:
        if self._is_late("Python client"):
            return
        for recipe in self._recipes:
            self._say(f"Python client: warming {recipe.title}")
            warm_s = self._effort.jvm_warm_s / 2 if recipe.name == REFERENCE else self._effort.warm_s
            python_client(up[recipe.name], warm_s, "warm")
        self._pair(
            "Python client",
            lambda recipe, number: python_client(up[recipe.name], self._effort.measure_s / 2, f"{number}"),
        )

    def _network(self) -> None:
        """Two brokers of each kind, bridged, stay up for all of these rows."""
        if self._is_late("a hop over a bridge"):
            return
        with ExitStack() as stack:
            up: dict[str, Network] = {}
            for recipe in self._recipes:
                self._say(f"starting two of {recipe.title}")
                up[recipe.name] = stack.enter_context(network(recipe, self._home("network", recipe)))
            for row in (HOP, HOP_PERSISTENT):
                if self._wants(row):
                    self._attempt(partial(self._hop, row, up))
            if self._wants(HOP_LATENCY):
                self._pair(
                    HOP_LATENCY.key,
                    lambda recipe, number: added_latency(self._load, up[recipe.name], self._effort, number),
                )
            if self._wants(HOP_DEMAND):
                self._pair(HOP_DEMAND.key, lambda recipe, number: new_demand(up[recipe.name], number))

    def _hop(self, row: Row, up: dict[str, Network]) -> None:
        for recipe in self._recipes:
            self._say(f"{row.key}: warming {recipe.title}")
            warm_s = self._effort.jvm_warm_s if recipe.name == REFERENCE else self._effort.warm_s
            flood(self._load, up[recipe.name], row, self._effort, "warm", warm_s)
        self._pair(
            row.key,
            lambda recipe, number: flood(
                self._load, up[recipe.name], row, self._effort, f"{number}", self._effort.warm_s
            ),
        )

    def _failover(self, row: Row, clients: JavaClients | None) -> None:
        if self._is_late(row.key):
            return
        with ExitStack() as stack:
            up: dict[str, Twins] = {}
            for recipe in self._recipes:
                self._say(f"{row.key}: starting two of {recipe.title}")
                homes = self._home(f"{row.key}-one", recipe), self._home(f"{row.key}-two", recipe)
                up[recipe.name] = stack.enter_context(Twins(recipe, homes, row, clients).up())
            self._pair(row.key, lambda recipe, _: up[recipe.name].kill_one(), self._kills)

    def _recovery(self, recipe: Broker) -> None:
        small = recipe.name == REFERENCE and not self._recovery_full
        messages = self._effort.recovery_reference_messages if small else self._effort.recovery_messages
        self._say(f"recovery of {messages:,}: {recipe.title}")
        if self._is_late(f"recovery: {recipe.title}"):
            return
        if messages != 1_000_000:
            self.notes.append(f"recovery: {recipe.title} with {messages:,} messages, not a million: no ratio")
        samples = recovery(
            self._load,
            recipe,
            self._home("recovery", recipe),
            messages=messages,
            starts=self._pairs,
            at_most_s=self._remaining_s(),
        )
        for sample in samples:
            self._keep(recipe, sample)


def figures_table(samples: Samples, names: list[str], titles: dict[str, str]) -> tuple[Table, list[dict[str, Any]]]:
    """The table, and the same as data."""
    table = Table(title="entrepot bench", title_justify="left")
    table.add_column("what", ratio=3)
    for name in names:
        table.add_column(titles[name], justify="right")
        table.add_column("CPU us/msg", justify="right", style="dim")
    for column in ("ratio", "target", "verdict"):
        table.add_column(column, justify="right")
    data = []
    for row in ROWS:
        of = samples[row.key]
        if not any(of.values()):
            continue
        values = {name: middle(of[name], row.key) for name in names}
        comparable = {len(of[name]) and of[name][0].record.get("messages") for name in names if name != Artemis.name}
        other = [name for name in names if name not in (OURS, Artemis.name)]
        both = OURS in names and len(other) == 1 and len(comparable) == 1
        ratio = middle_ratio(of[OURS], of[other[0]], row.key) if both else None
        ours = values.get(OURS)
        full_size = row not in (RECOVERY, RECOVERY_MEMORY, WAITING_MEMORY) or (
            OURS in names and bool(of[OURS]) and of[OURS][0].record["messages"] == 1_000_000
        )
        verdict = row.verdict(ours, ratio) if full_size else None
        cells = [cell for name in names for cell in (show(values[name], row.unit), cpu_cell(of[name]))]
        mark = {True: "[green]pass[/]", False: "[red]MISSED[/]", None: "-"}[verdict]
        table.add_row(row.title, *cells, f"{ratio:.2f}x" if ratio else "-", row.target(), mark)
        data.append({
            "row": row.key, "title": row.title, "unit": row.unit, "median": values, "ratio": ratio,
            "all": {name: [sample.figures[row.key] for sample in of[name]] for name in names},
            "target": row.target(), "pass": verdict,
        })  # fmt: skip
    return table, data


def cpu_cell(samples: list[Sample]) -> str:
    """Median processor time of the broker per message, where the row is a flow."""
    costs = sorted(s.record["broker_cpu_us_per_message"] for s in samples if "broker_cpu_us_per_message" in s.record)
    return f"{costs[len(costs) // 2]:.2f}" if costs else ""


def machine(scratch: Path) -> dict[str, Any]:
    """What a reader needs to judge the figures."""
    where = os.path.realpath(scratch)
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [mount for mount in mounts if where == mount[1] or where.startswith(mount[1].rstrip("/") + "/")]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "file_system": max(inside, key=lambda mount: len(mount[1]))[2] if inside else "unknown",
        "load_average": list(os.getloadavg()),
    }


def end_politely(_signal: int, _frame: object) -> NoReturn:
    """SIGTERM unwinds like Ctrl-C, so that brokers are stopped and directories removed."""
    raise KeyboardInterrupt


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--pairs", type=click.IntRange(1, 100), default=5, help="Rounds per row, each measuring every broker.")
@click.option("--quick", is_flag=True, help="One short pair, fewer connections and messages: a check, not a result.")
@click.option("--minutes", type=click.FloatRange(0.5, 600), default=30.0, help="No round starts after so long.")
@click.option(
    "--row", "rows", multiple=True, type=click.Choice([row.key for row in ROWS]), help="Only this; repeatable."
)
@click.option("--broker", "only", multiple=True, type=click.Choice([OURS, REFERENCE]), help="Only this; repeat.")
@click.option("--full-recovery", is_flag=True, help="Recovery of a million in ActiveMQ too (minutes to fill).")
@click.option("--entrepot-command", help="How to start this broker, without `run`; default: this interpreter's.")
@click.option(
    "--before",
    metavar="COMMAND",
    help="Compare with another build of this broker, not with ActiveMQ; how to start it, without `run`.",
)
@click.option(
    "--scratch",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where stores are put; a real disk.",
)
@click.option(
    "--json", "output", type=click.Path(dir_okay=False, path_type=Path), default=HERE.parent / "build" / "bench.json",
    help="Where the results and every sample are written.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit with 1 when a target is missed.")
def main(
    *, pairs: int, quick: bool, minutes: float, rows: tuple[str, ...], only: tuple[str, ...], full_recovery: bool,
    entrepot_command: str | None, before: str | None, scratch: Path | None, output: Path, strict: bool,
) -> None:  # fmt: skip
    """Measure this broker and ActiveMQ Classic under the same loads and print figures, ratios and verdicts."""
    signal.signal(signal.SIGTERM, end_politely)
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    progress_console = Console(stderr=True)
    effort = QUICK if quick else Effort()
    recipes: list[Broker] = [Entrepot(entrepot_command), Before(before) if before else ActiveMQ()]
    recipes = [recipe for recipe in recipes if not only or recipe.name in only]
    notes, fit = [], []
    for recipe in recipes:
        if reason := recipe.unavailable():
            if recipe.name == OURS:
                fail(f"cannot start {recipe.title}: {reason}")
            notes.append(f"{recipe.title} is not measured: {reason}. Absolute figures only.")
        else:
            fit.append(recipe)
    beside: list[Broker] = []
    if not only and any(not rows or row.key in rows for row in STALL_ROWS):
        reason = Artemis().unavailable()
        if reason:
            notes.append(f"Artemis is not measured beside the floods: {reason}")
        else:
            beside.append(Artemis())
    if not fit:
        fail("no broker to measure: " + " ".join(notes))
    load = Load(HERE / "load.c", output.resolve().parent)
    chosen = frozenset(rows)
    java = None
    if wanted := [row.key for row in JAVA_ROWS if not chosen or row.key in chosen]:
        if reason := java_unavailable():
            notes.append(f"skipped {', '.join(wanted)}: {reason}")
        else:
            java = JavaClients(output.resolve().parent)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        if not chosen or any(row.key in chosen for row in (*STOMP_ROWS, *STALL_ROWS, *NETWORK_ROWS)):
            load.build()
        if java is not None:
            java.build()
        with (
            tempfile.TemporaryDirectory(prefix="entrepot-bench-", dir=scratch) as home,
            Progress(*columns, console=progress_console, transient=True, disable=not sys.stderr.isatty()) as progress,
        ):
            found = machine(Path(home))
            bench = Bench(
                fit, load, Path(home), pairs=1 if quick else pairs, effort=effort, minutes=minutes,
                chosen=chosen, recovery_full=full_recovery, java=java, beside=beside, progress=progress,
            )  # fmt: skip
            bench.run()
    except BenchError as problem:
        fail(str(problem))
    notes += bench.notes
    if found["file_system"] == "tmpfs":
        notes.append("the stores were on tmpfs, where a sync costs nothing: use --scratch with a directory on a disk")
    names = [recipe.name for recipe in (*fit, *beside)]
    table, data = figures_table(bench.samples, names, {recipe.name: recipe.title for recipe in (*fit, *beside)})
    console.print(table)
    console.print(
        f"{found['cores']} cores shared with the load, {found['file_system']}, Python {found['python']}, "
        f"load average {found['load_average'][0]:.1f} before and {os.getloadavg()[0]:.1f} after; "
        f"median of {1 if quick else pairs}.",
        highlight=False,
    )
    described = {recipe.name: recipe.describe() for recipe in fit}
    for recipe in fit:
        console.print(f"{recipe.title}: {', '.join(described[recipe.name].values())}", highlight=False)
    for note in notes:
        console.print(f"note: {note}", highlight=False)
    record = {
        "machine": {**found, "load_average_after": list(os.getloadavg())},
        "brokers": described,
        "effort": {**vars(effort), "pairs": 1 if quick else pairs},
        "rows": data,
        "notes": notes,
        "failures": bench.failures,
        "samples": {
            key: {name: [sample.record for sample in kept] for name, kept in of.items()}
            for key, of in bench.samples.items()
            if key not in SAME_RECORDS
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(record, indent=1) + "\n")
    console.print(f"every sample: {output}", highlight=False)
    if bench.failures:
        fail("\n".join(bench.failures))
    if strict and any(row["pass"] is False for row in data):
        sys.exit(1)


def fail(why: str) -> NoReturn:
    """Say why there are no figures, and leave with 1."""
    click.echo(f"bench: {why}", err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
