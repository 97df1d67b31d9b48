"""What an archive takes: messages of a queue to Parquet, put together, and the most memory of every process.

    python bench/archive.py [--messages 2000000] [--octets 200] [--memory 1g]

One broker, filled before, and `entrepot pipeline archive --compact` as a user would call it. Prints what it took, and
the peaks of the driver (its Java and the command, added up), of the largest Python worker and of the broker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

from family import JAVA, PYTHON, WORKER, peak_mb, processor_seconds  # noqa: E402 - tests/ must be on the path first

from entrepot.base.compiled import build_name  # noqa: E402
from shell.daemon import Daemon, Wire  # noqa: E402

DRIVER_MB: Final = 1_500
WORKER_MB: Final = 200
LOOK_S: Final = 0.25
TURN: Final = 500  # messages between two receipts


def fill(port: int, count: int, octets: int) -> None:
    """Send ``count`` persistent messages; all are on disk when this returns."""
    wire = Wire(port)
    frame = f"SEND\ndestination:/queue/orders\npersistent:true\ncontent-length:{octets}\n\n".encode()
    frame += b"x" * octets + b"\0"
    for start in range(0, count, TURN):
        sent = min(TURN, count - start)
        wire.socket.sendall(frame * (sent - 1))
        wire.send("/queue/orders", b"x" * octets, persistent="true")
    wire.leave()


class Watched:
    """A command, and the peaks of it and of all that it started."""

    def __init__(self, command: list[str], home: Path) -> None:
        self.peaks = dict.fromkeys((JAVA, WORKER, PYTHON), 0)
        self.seconds = 0.0
        self.processor = 0.0
        began = time.monotonic()
        with (home / "told").open("wb") as told, (home / "log").open("wb") as log:
            running = subprocess.Popen(command, stdout=told, stderr=log)
            while running.poll() is None:
                self._look(running.pid)
                time.sleep(LOOK_S)
        self.seconds = time.monotonic() - began
        if running.returncode:
            raise SystemExit((home / "log").read_text())
        self.report = json.loads((home / "told").read_text())

    def _look(self, pid: int) -> None:
        self.processor = max(self.processor, processor_seconds(pid))
        for kind, peak in peak_mb(pid).items():
            self.peaks[kind] = max(self.peaks[kind], peak)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--octets", type=int, default=200)
    parser.add_argument("--memory", default="", help="heap of the driver; default: that of the command")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as place:
        home = Path(place)
        daemon = Daemon(home).start()
        try:
            fill(daemon.port, given.messages, given.octets)
            words = ["pipeline", "archive", "--to", str(home / "archive"), "--queue", "orders", "--compact"]
            words += ["--url", f"stomp://127.0.0.1:{daemon.port}", "--output", "json"]
            words += ["--memory", given.memory] if given.memory else []
            done = Watched([sys.executable, "-m", "entrepot", *words], home)
            broker = daemon.memory_peak() // 1_000_000
        finally:
            daemon.stop()
    driver = done.peaks[JAVA] + done.peaks[PYTHON]
    print(f"{build_name()}, {given.messages:,} messages of {given.octets} octets, load {os.getloadavg()[0]:.1f}")
    print(f"  {done.seconds:,.0f} s, {done.processor:,.0f} s of processor time; the broker {broker:,} MB")
    print(f"  driver {driver:,} MB (Java {done.peaks[JAVA]:,}, command {done.peaks[PYTHON]:,}); goal {DRIVER_MB:,}")
    print(f"  largest Python worker {done.peaks[WORKER]:,} MB; goal {WORKER_MB:,}")
    print(json.dumps(done.report))
    return 0 if driver < DRIVER_MB and done.peaks[WORKER] < WORKER_MB else 1


if __name__ == "__main__":
    sys.exit(main())
