"""What a row of a claimed range costs the broker and a worker of the pipeline, without Spark.

    python bench/ranges.py [--messages 100000] [--size 1024] [--text] [--rounds 5] [--instructions] [--top 30]

The range is read by somebody who only counts octets, and as a task of Spark reads it, all columns into batches of
Arrow: one on another machine, to which messages are sent, and one beside the broker, which reads its files. Of the
rounds the cheapest counts: what else the machine does only adds. With ``--instructions`` the broker runs under
callgrind (Debian: ``apt install valgrind``), and what it does in user space for a row is counted, which other work on
the machine does not change.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
from brokers import BenchError, Entrepot, Running, processor_s
from hop_instructions import TOTAL, Counted, control, ranking
from leases import Raw, send_all

from entrepot.driver.shard import Piece
from entrepot.pipeline.arrow import Batches
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.leases import read_range
from entrepot.pipeline.options import STREAM, read
from entrepot.pipeline.schema import COLUMNS

SHARD: Final = {"queue": "/queue/bench", "group": "bench"}
TICKS: Final = os.sysconf("SC_CLK_TCK")
TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<string>": pa.list_(pa.string()),
}
SCHEMA: Final = pa.schema([(column.name, TYPES[column.type]) for column in COLUMNS])


class Bench:
    """A broker that holds a claimed range of ``count`` messages."""

    def __init__(self, up: Running, count: int, size: int, text: bool) -> None:
        self.up = up
        self.count = count
        self.raw = Raw(up.port)
        send_all(self.raw, count, size, **({"amq-msg-type": "text"} if text else {}))
        self.raw.ask("SEND", destination="/queue/other")
        self.epoch = self.raw.ask("ATTACH", **SHARD)["epoch"]
        end = 0
        while end < count:
            end = int(self.raw.ask("CLAIM", **SHARD, epoch=self.epoch, max="100000", wait="1000")["tail"])

    def count_octets(self) -> None:
        """Read the range without looking at it."""
        self.raw.say("READ", **SHARD, epoch=self.epoch, form="batch")
        self.raw.drain()

    def take_apart(self) -> None:
        """Read the range as a task elsewhere does, to which it is sent."""
        self.read(direct=False)

    def read_files(self) -> None:
        """Read the range as a task on the broker's machine does, in the broker's files."""
        self.read(direct=True)

    def read(self, *, direct: bool) -> None:
        """Make batches of Arrow of all of it."""
        given = {"url": f"stomp://127.0.0.1:{self.up.port}", "queue": "bench", "subscription": "bench"}
        options = read(given, STREAM)
        brokers = Brokers(options)
        broker = brokers.everyone()[0].broker
        piece = Piece(broker, "", int(self.epoch), 0, self.count)
        batches = Batches(SCHEMA, broker)
        rows = 0
        octets = options.number("batchOctets")
        for portion in read_range(brokers, options.subject(), piece, octets, batches.names, direct=direct):
            for batch in batches.of(portion):
                rows += batch.num_rows
        if rows != self.count:
            raise BenchError(f"{rows} rows came, not {self.count}")


def spent(pid: int) -> tuple[float, float]:
    """Return s in user space and in the kernel that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def cheapest(title: str, pid: int, count: int, rounds: int, work: Callable[[], None]) -> None:
    """Do ``work`` so often; print us a row of the process, all rounds together for its two kinds of time."""
    found: list[float] = []
    before = spent(pid)
    for _ in range(rounds):
        began = processor_s(pid)
        work()
        found.append((processor_s(pid) - began) * 1e6 / count)
    user, kernel = ((b - a) * 1e6 / count / rounds for a, b in zip(before, spent(pid), strict=True))
    print(
        f"{title:40} {min(found):6.2f} us a row; mean {sum(found) / rounds:.2f} (user {user:.2f}, kernel {kernel:.2f})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--top", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as home:
        out = Path(home)
        broker = Counted(out) if given.instructions else Entrepot()
        with broker.running(out / "node", patience_s=300) as up:
            bench = Bench(up, given.messages, given.size, given.text)
            if given.instructions:
                bench.count_octets()
                control(up, "-i", "on")
                bench.count_octets()
                control(up, "-i", "off")
                control(up, "-d")
                file = out / f"{up.pid}.1"
                found = TOTAL.search(file.read_text(errors="replace"))
                if found is None:
                    raise BenchError(f"callgrind left no count in {file}")
                print(f"broker: {int(found[1]) / given.messages:,.0f} instructions a row")
                for inclusive in (False, True) if given.top else ():
                    print(*ranking(file, given.messages, given.top, inclusive=inclusive), sep="\n")
            else:
                for title, pid, work in (
                    ("broker, to who counts octets", up.pid, bench.count_octets),
                    ("broker, to a task elsewhere", up.pid, bench.take_apart),
                    ("broker, to a task beside it", up.pid, bench.read_files),
                    ("worker elsewhere", os.getpid(), bench.take_apart),
                    ("worker beside the broker", os.getpid(), bench.read_files),
                ):
                    cheapest(title, pid, given.messages, given.rounds, work)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"error: {problem}")
