"""What a message costs two nodes of a cluster, in instructions, which other work on the machine does not change.

    python bench/hop_instructions.py [--row hop] [--count 20000] [--keep FOLDER] [--top 40]

Both nodes run under callgrind (Debian: ``apt install valgrind``), which counts from the first measured message to the
last. The rows are those of `clusters.py`: a producer at A with a consumer at B, the same persistent, and waiting
messages that are redistributed. What is said is instructions of all threads of a node, divided by the messages.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from brokers import BenchError, Running
from clusters import DELAY_MS, HERE, LEAD, ROOT, Ours, Plan, cluster, count_until, fill, subscribed, until
from rows import Load

PATIENCE_S: Final = 600.0  # what runs under callgrind takes fifty times as long
WARM: Final = 2_000  # messages before the count begins
TOTAL: Final = re.compile(r"^totals: (\d+)", re.MULTILINE)


class Counted(Ours):
    """A node under callgrind, which counts nothing until it is told to."""

    def __init__(self, out: Path) -> None:
        options = f"--tool=callgrind --instr-atstart=no --callgrind-out-file={out}/%p"
        super().__init__(f"valgrind {options} {sys.executable} -m entrepot")


@dataclass(frozen=True)
class Count:
    """What one node did: instructions of all its threads, and the file that says where."""

    instructions: int
    file: Path


class Bench:
    """One run. ``out``: the folder of what callgrind writes."""

    def __init__(self, out: Path, count: int) -> None:
        self._out: Final = out
        self._count: Final = count
        self._load: Final = Load(HERE / "load.c", ROOT / "build")
        self._load.build()

    def flood(self, *options: str) -> tuple[Count, Count]:
        """Measure messages of 100 octets from A to B."""
        with self._nodes() as (a, b):
            self._run(a, b, "warm", WARM, *options)
            with self._counted(a, b) as counts:
                self._run(a, b, "hop", self._count, *options)
        return counts[0], counts[1]

    def redistribution(self) -> tuple[Count, Count]:
        """Measure waiting messages of 1 KiB that move from A to B."""
        with self._nodes() as (a, b):
            fill(a, "/queue/moved.q", self._count)
            last = subscribed(a, "/queue/moved.q", "ack:client\nactivemq.prefetchSize:1\nconsumer-window-size:1")
            with subscribed(b, "/queue/moved.q") as reader:
                reader.settimeout(PATIENCE_S)
                time.sleep(2.0)
                with self._counted(a, b) as counts:
                    last.sendall(b"DISCONNECT\nreceipt:gone\n\n\0")
                    until(last, b"gone")
                    last.close()
                    count_until(reader, self._count)
                    time.sleep(DELAY_MS / 1000)  # the last are answered
        return counts[0], counts[1]

    @contextmanager
    def _nodes(self) -> Iterator[list[Running]]:
        with (
            tempfile.TemporaryDirectory(prefix="entrepot-bench-") as home,
            cluster(Counted(self._out), Path(home), Plan(2), 2) as nodes,
        ):
            yield nodes

    def _run(self, a: Running, b: Running, name: str, count: int, *options: str) -> None:
        self._load.run(
            a, "--consume-port", str(b.port), "--destination", f"/queue/{name}", "--size", "100", "--count", f"{count}",
            "--lead", LEAD, "--timeout", f"{PATIENCE_S:.0f}", *options, at_most_s=PATIENCE_S,
        )  # fmt: skip

    @contextmanager
    def _counted(self, *nodes: Running) -> Iterator[list[Count]]:
        """Count what ``nodes`` do inside; the list has their counts at the end."""
        counts: list[Count] = []
        for node in nodes:
            control(node, "-i", "on")
        yield counts
        for node in nodes:
            control(node, "-i", "off")
            control(node, "-d")
            file = self._out / f"{node.pid}.1"
            found = TOTAL.search(file.read_text(errors="replace")) if file.is_file() else None
            if found is None:
                raise BenchError(f"callgrind left no count in {file}")
            counts.append(Count(int(found[1]), file))


def control(node: Running, *words: str) -> None:
    """Tell the callgrind of ``node`` something."""
    done = subprocess.run(["callgrind_control", *words, str(node.pid)], capture_output=True, text=True, check=False)
    if done.returncode or "Error" in done.stdout + done.stderr:
        raise BenchError(f"callgrind_control {' '.join(words)}: {done.stdout}{done.stderr}")


def ranking(file: Path, count: int, top: int, *, inclusive: bool) -> Iterator[str]:
    """Yield a line for each of the ``top`` functions: instructions a message, and its name."""
    command = ["callgrind_annotate", f"--inclusive={'yes' if inclusive else 'no'}", "--threshold=100", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^ *([\d,]+) \([^)]*\) +(?:\S*?:)?(.*?)(?: \[.*\])?$", said, re.MULTILINE)
    for cost, name in lines[: top + 1]:
        yield f"{int(cost.replace(',', '')) / count:10,.0f}  {name}"


@click.command()
@click.option("--row", "keys", multiple=True, type=click.Choice(["hop", "hop-persistent", "redistribution"]))
@click.option("--count", default=20_000, show_default=True, help="Messages that are counted.")
@click.option("--top", default=0, show_default=True, help="So many functions, by themselves and with what they call.")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave what callgrind wrote in this folder.")
def main(keys: tuple[str, ...], count: int, top: int, keep: Path | None) -> None:
    """Say how many instructions each node takes for a message."""
    if not shutil.which("callgrind_control"):
        raise BenchError("there is no valgrind on the PATH; Debian: apt install valgrind")
    with tempfile.TemporaryDirectory(prefix="entrepot-callgrind-") as scratch:
        out = (keep or Path(scratch)).absolute()
        out.mkdir(parents=True, exist_ok=True)
        bench = Bench(out, count)
        rows: dict[str, Callable[[], tuple[Count, Count]]] = {
            "hop": bench.flood,
            "hop-persistent": lambda: bench.flood("--persistent"),
            "redistribution": bench.redistribution,
        }
        for key in keys or rows:
            counts = rows[key]()
            a, b = (one.instructions / count for one in counts)
            click.echo(f"{key}: A {a:,.0f}, B {b:,.0f}, both {a + b:,.0f} instructions a message")
            if top:
                for name, one in zip("AB", counts, strict=True):
                    for inclusive in (False, True):
                        click.echo(f"\n{name}, {'with what it calls' if inclusive else 'by itself'}: {one.file}")
                        for line in ranking(one.file, count, top, inclusive=inclusive):
                            click.echo(line)


if __name__ == "__main__":
    try:
        main()
    except BenchError as problem:
        sys.exit(f"error: {problem}")
