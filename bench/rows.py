"""What is measured: the rows of the table, their targets, and one measurement of each.

A row never looks at another row's results. A measurement is one figure of one broker, with everything that the load
generator said kept beside it; `run.py` decides order, pairs and time. A load whose messages were not all checked as
right is no measurement: it raises.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from brokers import BenchError, Broker, Running

MEGABYTE: Final = 1_000_000
KILOBYTE: Final = 1_000
BACKLOG: Final = "20000"  # enough to keep any broker busy; small enough that no broker measures its paging
RECEIPT_WINDOW: Final = "500"  # given by the target
FILL_WINDOW: Final = "5000"
ROUND_TRIPS_PER_S: Final = "500"  # given by the target
LONGER_FOR_RATE: Final = 2.0  # 500 a second give few samples for a p99: measure longer than a flood
SETTLE_S: Final = 1.0  # between "ready" and weighing an idle broker
LOAD_MARGIN_S: Final = 90.0  # what a load may take beyond its measured time before it is ended


@dataclass(frozen=True)
class Effort:
    """How much is done per measurement; --quick makes it small."""

    warm_s: float = 1.0
    measure_s: float = 3.0
    jvm_warm_s: float = 6.0
    idle_connections: int = 1000
    recovery_messages: int = 1_000_000
    recovery_reference_messages: int = 100_000


QUICK: Final = Effort(0.5, 1.5, 4.0, 300, 100_000, 20_000)


@dataclass
class Sample:
    """One measurement of one broker: figures by row, and the record for the JSON."""

    figures: dict[str, float]
    record: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is ours over the reference's; every target that is set must hold."""

    key: str
    title: str
    unit: str
    ratio_min: float | None = None
    floor: float | None = None
    ceiling: float | None = None
    floor_alone: float | None = None  # what the ratio means in figures when there is no reference to divide by
    below_reference: bool = False

    def target(self) -> str:
        """The target in words."""
        parts = []
        if self.ratio_min:
            parts.append(f">= {self.ratio_min:g}x")
        if self.floor or self.floor_alone:
            parts.append(f">= {show(self.floor or self.floor_alone, self.unit)}" + ("" if self.floor else " alone"))
        if self.ceiling:
            parts.append(f"<= {show(self.ceiling, self.unit)}")
        if self.below_reference:
            parts.append("below reference")
        return ", ".join(parts) or "-"

    def verdict(self, ours: float | None, ratio: float | None) -> bool | None:
        """Whether the targets hold; None when there is nothing to judge."""
        if ours is None:
            return None
        checks = []
        if self.ratio_min and ratio is not None:
            checks.append(ratio >= self.ratio_min)
        if self.floor_alone and ratio is None:
            checks.append(ours >= self.floor_alone)
        if self.floor:
            checks.append(ours >= self.floor)
        if self.ceiling:
            checks.append(ours <= self.ceiling)
        if self.below_reference and ratio is not None:
            checks.append(ratio < 1)
        return all(checks) if checks else None


def show(value: float | None, unit: str) -> str:
    """A figure as people write it."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 20 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f} {unit}"


class Load:
    """The generator in C: builds it, runs it, refuses its figures when its own checks failed."""

    def __init__(self, source: Path, build: Path) -> None:
        self._source = source
        self._program = build / "load"

    def build(self) -> None:
        """Compile when the program is older than its source. Raises BenchError without a C compiler."""
        program, source = self._program, self._source
        if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
            return
        compiler = os.environ.get("CC", "cc")
        if not shutil.which(compiler):
            raise BenchError(f"the load generator needs a C compiler, and there is no `{compiler}` on the PATH")
        program.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-o", str(program), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise BenchError(f"{' '.join(command)}:\n{done.stderr}")

    def run(self, broker: Running, *options: str, at_most_s: float) -> dict[str, Any]:
        """One load to its end. Raises BenchError when the broker failed it."""
        command = [str(self._program), "--port", str(broker.port), "--timeout", f"{at_most_s:.0f}", *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=at_most_s + 60, check=False)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{broker.name}: the load did not end: {' '.join(command)}") from None
        return self._checked(broker, command, done.stdout, done.stderr)

    def hold_idle(self, broker: Running, connections: int, weigh: Callable[[], float]) -> tuple[float, dict[str, Any]]:
        """Open idle connections with a queue each, call `weigh` while they are open, close them."""
        command = [str(self._program), "--port", str(broker.port), "--idle", str(connections), "--hold", "60"]
        command += ["--destination", "/queue/bench.idle", "--timeout", "120"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stderr is not None
            if process.stderr.readline() == "ready\n":
                time.sleep(SETTLE_S / 2)
                weight = weigh()
            else:
                weight = 0.0
            output, errors = process.communicate("done\n", timeout=120)
        return weight, self._checked(broker, command, output, errors)

    @staticmethod
    def _checked(broker: Running, command: list[str], output: str, errors: str) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads(output)
        except json.JSONDecodeError:
            raise BenchError(f"{' '.join(command)}:\n{errors or output or 'printed nothing'}") from None
        if not said["ok"]:
            faults = "\n".join(f"    {text}" for text in said["faults"]["first"])
            raise BenchError(f"{broker.name} failed the load: {' '.join(command)}\n{faults}\n{broker.log_tail()}")
        return said


@dataclass(frozen=True)
class Flow:
    """A flood: one broker stays up for all of its rounds, and each round has a destination of its own."""

    row: Row
    destination: str
    options: tuple[str, ...]
    figure: str = "deliveries_per_second"
    drains_afterwards: bool = False

    def measure(self, load: Load, broker: Running, effort: Effort, round_number: int) -> Sample:
        """One round, warmed, checked and counted."""
        return self._run(load, broker, effort.warm_s, effort.measure_s, f"{round_number}")

    def warm(self, load: Load, broker: Running, seconds: float) -> None:
        """The same load, not counted, so that a just-in-time compiler has seen it."""
        self._run(load, broker, 0.1, seconds, "warm")

    def _run(self, load: Load, broker: Running, warm_s: float, measure_s: float, label: str) -> Sample:
        place = f"{self.destination}.{self.row.key}.{label}"
        cpu = broker.cpu_s()
        said = load.run(
            broker, "--destination", place, "--warm-seconds", f"{warm_s}", "--seconds", f"{measure_s}", *self.options,
            at_most_s=warm_s + measure_s + LOAD_MARGIN_S,
        )  # fmt: skip
        cpu = broker.cpu_s() - cpu
        if self.drains_afterwards:
            load.run(
                broker, "--destination", place, "--consume-only", "--count", str(said["total_sent"]),
                "--run", str(said["run"]), at_most_s=LOAD_MARGIN_S,
            )  # fmt: skip
        messages = max(said["total_sent"], said["total_delivered"], 1)
        said["broker_cpu_us_per_message"] = round(cpu * 1e6 / messages, 2)
        return Sample({self.row.key: said[self.figure]}, said)


FLOWS: Final = (
    Flow(
        Row("queue-1-1", "1 producer, 1 consumer, 100 B, non-persistent, auto-ack", "msg/s", 10, floor_alone=350_000),
        "/queue/bench",
        ("--size", "100", "--backlog", BACKLOG),
    ),
    Flow(
        Row("queue-4-4", "4/4 on one queue, 1 KiB, client-individual acks", "msg/s", 8),
        "/queue/bench",
        ("--producers", "4", "--consumers", "4", "--size", "1024", "--ack", "client-individual", "--backlog", BACKLOG),
    ),
    Flow(
        Row("persistent", "persistent, 100 B, receipt window 500, one connection", "msg/s", 40, floor=60_000),
        "/queue/bench",
        ("--size", "100", "--persistent", "--window", RECEIPT_WINDOW, "--consumers", "0"),
        figure="receipts_per_second",
        drains_afterwards=True,
    ),
    Flow(
        Row("fan-out", "topic 1 to 8, 100 B, deliveries", "msg/s", 8),
        "/topic/bench",
        ("--size", "100", "--consumers", "8", "--backlog", BACKLOG),
    ),
)

TRIP_P50: Final = Row("trip-p50", "round trip at 500 msg/s, p50", "ms", ceiling=0.15)
TRIP_P99: Final = Row("trip-p99", "round trip at 500 msg/s, p99", "ms", below_reference=True)
START: Final = Row("start", "from exec to accepting connections", "s", ceiling=0.35)
IDLE_MEMORY: Final = Row("idle-memory", "idle memory (RSS)", "MB", ceiling=45)
PER_CONNECTION: Final = Row("per-connection", "memory of an idle connection with its own queue (PSS)", "KB", ceiling=20)
RECOVERY: Final = Row("recovery", "recovery of 1 million durable 100 B messages", "s", ceiling=5)
RECOVERY_MEMORY: Final = Row("recovery-memory", "memory with them recovered (RSS)", "MB", ceiling=300)
WAITING_MEMORY: Final = Row("waiting-memory", "memory of a message that waits on disk (RSS)", "B", ceiling=50)

ROWS: Final = (
    *(flow.row for flow in FLOWS), TRIP_P50, TRIP_P99, START, IDLE_MEMORY, PER_CONNECTION, RECOVERY, RECOVERY_MEMORY,
    WAITING_MEMORY,
)  # fmt: skip


def round_trip(load: Load, broker: Running, effort: Effort, round_number: int) -> Sample:
    """Open-loop round trips at a fixed rate, each timed from the moment at which it was due."""
    seconds = effort.measure_s * LONGER_FOR_RATE
    said = load.run(
        broker, "--destination", f"/queue/bench.trip.{round_number}", "--size", "100", "--rate", ROUND_TRIPS_PER_S,
        "--warm-seconds", f"{effort.warm_s}", "--seconds", f"{seconds}", "--histogram",
        at_most_s=seconds + LOAD_MARGIN_S,
    )  # fmt: skip
    times = said["latency"]
    return Sample({TRIP_P50.key: times["p50_us"] / 1000, TRIP_P99.key: times["p99_us"] / 1000}, said)


def life(load: Load, recipe: Broker, home: Path, effort: Effort) -> Sample:
    """Start on an empty directory, rest, take idle connections, stop."""
    with recipe.running(home) as broker:
        time.sleep(SETTLE_S)
        idle = broker.weigh()
        crowded, said = load.hold_idle(broker, effort.idle_connections, lambda: broker.weigh().pss)
        figures = {
            START.key: broker.ready_after_s,
            IDLE_MEMORY.key: idle.rss / MEGABYTE,
            PER_CONNECTION.key: (crowded - idle.pss) / effort.idle_connections / KILOBYTE,
        }
        record = {
            "idle_rss": idle.rss,
            "idle_pss": idle.pss,
            "crowded_pss": crowded,
            "ready_after_s": broker.ready_after_s,
        }
    return Sample(figures, {**record, "load": said})


def recovery(
    load: Load, recipe: Broker, home: Path, *, messages: int, starts: int, at_most_s: float
) -> Iterator[Sample]:
    """Fill with receipts, stop; start, weigh, stop as often as asked; at last check that all is there once."""
    place = ("--destination", "/queue/bench.recovery", "--size", "100")
    with recipe.running(home) as broker:
        time.sleep(SETTLE_S)
        empty = broker.weigh().rss
    with recipe.running(home, fast_fill=True) as broker:
        filled = load.run(
            broker, *place, "--persistent", "--window", FILL_WINDOW, "--consumers", "0", "--count", str(messages),
            at_most_s=at_most_s,
        )  # fmt: skip
    for number in range(starts):
        with recipe.running(home, patience_s=max(60.0, at_most_s)) as broker:
            weight = broker.weigh()
            figures = {RECOVERY.key: broker.ready_after_s, RECOVERY_MEMORY.key: weight.rss / MEGABYTE}
            figures[WAITING_MEMORY.key] = (weight.rss - empty) / messages
            record: dict[str, Any] = {
                "messages": messages, "ready_after_s": broker.ready_after_s, "rss": weight.rss, "pss": weight.pss,
                "peak_rss_when_ready": weight.peak,
                "store_bytes": sum(file.stat().st_size for file in home.rglob("*") if file.is_file()),
            }  # fmt: skip
            if number == starts - 1:
                record["fill"] = filled
                record["empty"] = load.run(
                    broker, *place, "--consume-only", "--count", str(messages), "--run", str(filled["run"]),
                    "--drain", "60", at_most_s=at_most_s,
                )  # fmt: skip
                record["peak_rss_when_emptied"] = broker.weigh().peak
        yield Sample(figures, record)


def middle(samples: list[Sample], key: str) -> float | None:
    """The median figure of a row."""
    values = [sample.figures[key] for sample in samples if key in sample.figures]
    return median(values) if values else None


def middle_ratio(ours: list[Sample], theirs: list[Sample], key: str) -> float | None:
    """The median of the ratios within each pair, so that load from elsewhere on the machine mostly divides out."""
    pairs = zip(ours, theirs, strict=False)
    ratios = [a.figures[key] / b.figures[key] for a, b in pairs if key in a.figures and b.figures.get(key)]
    return median(ratios) if ratios else None
