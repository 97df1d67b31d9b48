"""The kill harness: driver, Python workers and broker die at random moments; what came out is what was sent, once.

    python tests/spark/soak.py --rounds 100 --seed 7

Transactional producers send every id to ``in`` and ``archive``; a query carries ``in`` to ``out``, another lands
``archive`` in Parquet; an ordinary consumer competes for ``in``. What a producer or the competitor was not told, it
does not know: such ids may be there or not, but never twice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from promises import never

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import entrepot
from entrepot.protocols.stomp.frames import Frame
from shell.daemon import Daemon, Wire
from spark.stand import QUICK

DRIVER: Final = Path(__file__).with_name("soak_driver.py")
KINDS: Final = ("worker", "broker", "worker", "both", "broker", "driver", "worker", "broker", "all", "worker")
CLUSTER_KINDS: Final = ("executor", "broker", "worker", "executor", "driver", "both", "executor", "all")
DRAIN: Final = 300.0  # s for the queries to come to their end when nobody is killed any more


class Client(threading.Thread):
    """A program that loses its broker now and then and connects again."""

    def __init__(self, soak: Soak) -> None:
        super().__init__(daemon=True)
        self.soak = soak
        self.lots = random.Random(soak.lots.random())
        self.failure: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                with contextlib.suppress(OSError):
                    wire = Wire(self.soak.daemon.port)
                    try:
                        while not self.ended.is_set():
                            self.step(wire)
                    finally:
                        self.lost()
                        wire.cut()
                self.ended.wait(0.05)
        except BaseException as error:
            self.failure = error

    def step(self, wire: Wire) -> None:
        raise NotImplementedError

    def lost(self) -> None: ...

    def end(self) -> None:
        self.ended.set()
        self.join(30)
        assert self.failure is None, self.failure


class Producer(Client):
    """Sends ids in transactions. ``sent``: the broker said so; ``doubtful``: it was lost before it could."""

    def __init__(self, soak: Soak, name: str) -> None:
        super().__init__(soak)
        self.prefix = name
        self.count = 0
        self.sent: list[str] = []
        self.doubtful: list[str] = []
        self._open: list[str] = []

    def step(self, wire: Wire) -> None:
        self._open = [f"{self.prefix}{self.count + index}" for index in range(self.lots.randrange(1, 20))]
        self.count += len(self._open)
        wire.say("BEGIN", {"transaction": "t"})
        for text in self._open:
            for queue in ("in", "archive"):
                headers = {"destination": f"/queue/{queue}", "transaction": "t", "persistent": "true"}
                wire.say("SEND", headers, text.encode())
        answer = wire.ask("COMMIT", {"transaction": "t"})
        assert answer.command == "RECEIPT", answer
        self.sent += self._open
        self._open = []
        self.ended.wait(self.lots.random() * 0.2)

    def lost(self) -> None:
        self.doubtful += self._open
        self._open = []


class Competitor(Client):
    """An ordinary consumer of ``in``: ``taken`` was confirmed, ``doubtful`` not."""

    def __init__(self, soak: Soak) -> None:
        super().__init__(soak)
        self.taken: list[str] = []
        self.doubtful: set[str] = set()
        self._subscribed: Wire | None = None

    def step(self, wire: Wire) -> None:
        if self._subscribed is not wire:
            headers = {"ack": "client-individual", "activemq.prefetchSize": "3"}
            assert wire.subscribe("/queue/in", **headers).command == "RECEIPT"
            self._subscribed = wire
            wire.socket.settimeout(0.2)
        frame = self._message(wire)
        if frame is None:
            return
        text = frame.body.decode()
        self.doubtful.add(text)
        wire.socket.settimeout(30)
        assert wire.ask("ACK", {"id": frame.headers["ack"]}).command == "RECEIPT"
        wire.socket.settimeout(0.2)
        self.doubtful.discard(text)
        self.taken.append(text)
        self.ended.wait(self.lots.random() * 0.1)

    def _message(self, wire: Wire) -> Frame | None:
        try:
            return wire.message()
        except TimeoutError:
            return None


class Soak:
    """One run. ``check`` says whether everything came out once."""

    def __init__(
        self,
        home: Path,
        rounds: int,
        seed: int,
        *,
        on_receipt: bool = False,
        master: str = "local[2,4]",
        kinds: Sequence[str] = KINDS,
        workers: Sequence[int] = (),
        say: Any = lambda text: None,
    ) -> None:
        """``workers``: processes of a cluster, whose children are executors."""
        self.home = home
        self.rounds = rounds
        self.lots = random.Random(seed)
        self.say = say
        self.kinds = kinds
        self.workers = workers
        self.killed_executors = 0
        home.mkdir(parents=True, exist_ok=True)
        self.daemon = Daemon(home).start()
        self.daemon.arguments += ["--listen", f"stomp://127.0.0.1:{self.daemon.port}"]
        self.driver: subprocess.Popen[bytes] | None = None
        self._configuration = home / "configuration.json"
        settings = {**QUICK, "spark__local__dir": str(home / "scratch"), "spark__network__timeout": "120s"}
        if master.startswith("spark://"):
            settings["spark__executor__memory"] = "768m"  # a worker has 1 GiB
        given = {
            "home": str(home),
            "url": f"stomp://127.0.0.1:{self.daemon.port}",
            "format": "entrepot-on-receipt" if on_receipt else "entrepot",
            "settings": settings,
            "master": master,
        }
        self._configuration.write_text(json.dumps(given))
        self.kills: dict[str, int] = {}
        self.state = ""

    def run(self) -> None:
        """Produce, kill, and let it come to its end. Raises AssertionError when it does not, or not rightly."""
        producers = [Producer(self, name) for name in ("a", "b")]
        competitor = Competitor(self)
        clients: list[Client] = [*producers, competitor]
        try:
            self.start_driver()
            for client in clients:
                client.start()
            for number in range(self.rounds):
                self.round(number)
            for client in clients:
                client.end()
            self.drain()
            self.check(producers, competitor)
        finally:
            for client in clients:
                client.ended.set()
            self.kill_driver()
            if self.daemon.process is not None and self.daemon.process.poll() is None:
                self.daemon.stop()

    def round(self, number: int) -> None:
        self.until_started()
        time.sleep(self.lots.uniform(0.2, 1.2))
        kind = self.kinds[number % len(self.kinds)]
        self.kills[kind] = self.kills.get(kind, 0) + 1
        self.say(f"round {number + 1} of {self.rounds}: {kind}")
        if kind in ("worker", "both"):
            self.kill_worker()
        if kind == "executor":
            self.kill_executor()
        if kind in ("driver", "all"):
            self.kill_driver()
        if kind in ("broker", "both", "all"):
            self.daemon.kill()
            time.sleep(self.lots.uniform(0.0, 0.5))
            self.daemon.start()
        if kind in ("driver", "all"):
            self.start_driver()

    # -- the driver ---------------------------------------------------------------------------------------------------

    def start_driver(self) -> None:
        (self.home / "started").unlink(missing_ok=True)
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment["PYTHONPATH"] = str(Path(entrepot.__file__).resolve().parent.parent)  # it works in another folder
        with (self.home / "driver.log").open("ab") as log:
            command = [sys.executable, str(DRIVER), str(self._configuration)]
            self.driver = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.home
            )

    def until_started(self) -> None:
        self.until(lambda: (self.home / "started").exists(), 180, "the driver did not start")

    def kill_driver(self) -> None:
        """Kill the driver and its JVM; the Python workers find out by themselves."""
        if self.driver is None:
            return
        pids = [pid for pid in descendants(self.driver.pid) if "java" in command_of(pid)]
        for pid in [self.driver.pid, *pids]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.driver.wait(30)
        self.driver = None

    def kill_worker(self) -> None:
        """Kill one of Spark's Python processes."""
        assert self.driver is not None
        self._kill_one(lambda command: "pyspark" in command and "java" not in command)

    def kill_executor(self) -> None:
        """Kill the JVM of an executor; where the driver is the only one, one of Spark's Python processes."""
        if self._kill_one(lambda command: "CoarseGrainedExecutorBackend" in command):
            self.killed_executors += 1
        else:
            self.kill_worker()

    def _kill_one(self, wanted: Callable[[str], bool]) -> bool:
        """Kill one of the processes below the driver and the workers whose command is ``wanted``, if there is one."""
        assert self.driver is not None
        below = [pid for root in (self.driver.pid, *self.workers) for pid in descendants(root)]
        pids = sorted(pid for pid in below if wanted(command_of(pid)))
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.lots.choice(pids), signal.SIGKILL)
        return bool(pids)

    # -- the end ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Wait until both queries have settled all there is."""
        self.until(self.settled, DRAIN, "the queries did not come to their end", every=1.0)
        (self.home / "finish").touch()
        assert self.driver is not None
        assert self.driver.wait(60) == 0, self.told()

    def settled(self) -> bool:
        leases = {row["group"]: row for row in self.ask("lease", "list")}
        queues = {row["name"]: row for row in self.ask("queue", "list")}
        self.state = f"{list(leases.values())} {list(queues.values())}"
        waiting = sum(int(queues[name]["messages"]) for name in ("in", "archive") if name in queues)
        return len(leases) == 2 and not waiting and all(int(row["held"]) == 0 for row in leases.values())

    def ask(self, *words: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "entrepot", *words, "--output", "json"]
        command += ["--url", f"stomp://127.0.0.1:{self.daemon.port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check(self, producers: list[Producer], competitor: Competitor) -> None:
        """Compare what came out with what was sent."""
        sent = {text for producer in producers for text in producer.sent}
        perhaps = {text for producer in producers for text in producer.doubtful}
        carried = [frame.body.decode() for frame in Wire(self.daemon.port).drain("/queue/out")]
        archived = (self.home / "ids").read_text().split("\n")
        consumed = [*carried, *competitor.taken]
        self.say(
            f"{len(sent)} sent, {len(perhaps)} perhaps; {len(carried)} carried, {len(competitor.taken)} taken by the "
            f"competitor, {len(competitor.doubtful)} perhaps; {len(archived)} archived; kills {self.kills}"
        )
        assert len(sent) > 5 * self.rounds, "too little was sent to mean anything"
        with never():
            assert not twice(consumed), f"twice: {twice(consumed)[:5]}"
            assert not twice(archived), f"twice in the archive: {twice(archived)[:5]}"
        missing = sent - set(consumed) - competitor.doubtful
        with never():
            assert not missing, f"{len(missing)} missing: {sorted(missing)[:5]}"
            assert not sent - set(archived), f"missing in the archive: {sorted(sent - set(archived))[:5]}"
            assert set(consumed) | set(archived) <= sent | perhaps, "something came out that nobody sent"

    def until(self, holds: Any, seconds: float, why: str, every: float = 0.1) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"{why}; {self.state}\n{self.told()}"
            assert self.driver is None or self.driver.poll() is None, f"the driver ended\n{self.told()}"
            time.sleep(every)

    def told(self) -> str:
        return (self.home / "driver.log").read_text(errors="replace")[-3_000:]


def twice(found: list[str]) -> list[str]:
    seen: set[str] = set()
    return [text for text in found if text in seen or seen.add(text)]  # type: ignore[func-returns-value]


def descendants(pid: int) -> list[int]:
    """Return all processes below ``pid``."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def workers_peak() -> int:
    """Return the most memory that one of the Python workers of this process' Spark ever had, in octets."""
    found = 0
    for pid in descendants(os.getpid()):
        if "pyspark.worker" in command_of(pid):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                found = max([found, *(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)])
    assert found, "there is no worker"
    return found * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--on-receipt", action="store_true", help="use the source that settles too early: must fail")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="entrepot-soak-") as home:
        soak = Soak(
            Path(home), given.rounds, given.seed, on_receipt=given.on_receipt, say=lambda text: print(text, flush=True)
        )
        soak.run()
    print("everything came out once")


if __name__ == "__main__":
    main()
