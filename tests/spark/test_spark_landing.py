"""`entrepot pipeline land` as a process: it lands, is killed, is stopped, and its brokers are (docs/landing.md)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.compute
import pyarrow.dataset
import pytest
from classic import free_port

import entrepot
from entrepot.pipeline.landing.health import SERVED_MAX
from shell.daemon import Daemon, Wire
from spark.stand import QUICK

COMMAND = [sys.executable, "-m", "entrepot", "pipeline", "land", "land.toml"]
NO_UTF8 = b'{"order": "\xff"}'  # once it ended the flow at each restart
PATIENCE = 120.0  # s: a session of Spark starts twice here
FILE = """
checkpoints = "state"
master = "local[2,4]"
memory = "600m"
metrics = "127.0.0.1:{metrics}"
[restart]
first = 0.2
longest = 2
[source]
url = "stomp://127.0.0.1:{port}"
failoverTimeout = 1000
connectTimeout = 1000
[spark]
{settings}
[[land]]
name = "orders"
path = "data/orders"
parse = "json"
schema = "order int"
every = "1 second"
[land.source]
queue = "orders"
"""


class Land:
    """The process, in a directory with its file."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.metrics = free_port()
        quick = "\n".join(f'"{name.replace("__", ".")}" = "{value}"' for name, value in QUICK.items())
        (home / "land.toml").write_text(FILE.format(port=port, metrics=self.metrics, settings=quick))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                COMMAND, cwd=self.home, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def once(self) -> dict[str, object]:
        """Let it land what is there; return what it says of the flow."""
        command = [*COMMAND, "--once", "--output", "json"]
        done = subprocess.run(command, cwd=self.home, env=self._environment, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr.decode()
        (line,) = done.stdout.splitlines()
        row: dict[str, object] = json.loads(line)
        return row

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(Path(entrepot.__file__).resolve().parent.parent)}

    def end(self, number: signal.Signals) -> int:
        """End it; by SIGKILL with the Java and the Python workers that it has."""
        assert self.process is not None
        if number == signal.SIGKILL:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def asked(self, page: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/{page}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert self.process is not None
            assert self.process.poll() is None, (self.home / "log").read_text()
            assert time.monotonic() < end, (self.home / "log").read_text()
            time.sleep(0.1)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Daemon, int]]:
    port = free_port()
    daemon = Daemon(tmp_path, "--listen", f"stomp://127.0.0.1:{port}").start()
    yield daemon, port
    daemon.stop()


@pytest.fixture
def land(tmp_path: Path, broker: tuple[Daemon, int]) -> Iterator[Land]:
    made = Land(tmp_path, broker[1])
    yield made
    if made.process is not None and made.process.poll() is None:
        made.end(signal.SIGKILL)


def landed(home: Path) -> pyarrow.Table:
    """Return the rows of the files that Spark's log has: others belong to a batch that is not done."""
    log = (home / "data/orders/_spark_metadata").glob("[0-9]*")
    said = {json.loads(line)["path"] for one in log for line in one.read_text().splitlines()[1:]}
    files = [path.removeprefix("file://") for path in sorted(said)]
    return pyarrow.dataset.dataset(files, partitioning="hive").to_table()


def orders(home: Path) -> list[int]:
    return sorted(found for found in landed(home).column("order").to_pylist() if found is not None)


@pytest.mark.timeout(300)
def test_it_lands_through_kills_of_itself_and_of_its_broker(
    land: Land, broker: tuple[Daemon, int], tmp_path: Path
) -> None:
    daemon, port = broker
    sent: list[int] = []

    def produce(count: int, *odd: bytes) -> None:
        wire = Wire(port)
        for number in range(len(sent), len(sent) + count):
            wire.send("/queue/orders", f'{{"order": {number}}}'.encode(), persistent="true")
            sent.append(number)
        for body in odd:
            wire.send("/queue/orders", body, persistent="true")
        wire.leave()

    produce(100, b"no json", NO_UTF8)
    land.start()
    land.until(lambda: land.asked("health/ready")[0] == 200)
    land.until(lambda: 'rows_total{flow="orders"} 102.0' in land.asked("metrics")[1])
    crowd = [socket.create_connection(("127.0.0.1", land.metrics)) for _ in range(SERVED_MAX)]
    land.until(lambda: land.asked("health/live")[0] == 0)  # turned away: nobody takes all threads of the process
    for one in crowd:
        one.close()
    land.until(lambda: land.asked("health/live")[0] == 200)
    produce(100)
    land.end(signal.SIGKILL)
    land.start()
    produce(100)
    land.until(lambda: land.asked("health/ready")[0] == 200)
    daemon.kill()
    land.until(lambda: land.asked("health/ready")[0] == 503)
    assert "no broker" in land.asked("health/ready")[1]
    daemon.start()
    produce(100)
    land.until(lambda: orders(tmp_path) == sent)
    assert land.end(signal.SIGTERM) == 0
    assert orders(tmp_path) == sent
    odd = landed(tmp_path).filter(pyarrow.compute.field("parsed") == "false").column("body").to_pylist()
    assert sorted(odd) == [b"no json", NO_UTF8]
    # once, with the same file: it goes on where that was, and ends
    produce(100)
    row = land.once()
    assert (row["state"], row["rows"], row["why"]) == ("done", 100, "")
    assert orders(tmp_path) == sent
