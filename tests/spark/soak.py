"""The kill harness: driver, Python workers and brokers die at random moments; what came out is what was sent, once.

    python tests/spark/soak.py --rounds 100 --seed 7 --mode pair

Transactional producers send every id to ``in`` and ``archive``; a query carries ``in`` to ``out``, another lands
``archive`` in Parquet; an ordinary consumer competes for ``in``. What a producer or the competitor was not told, it
does not know: such ids may be there or not, but never twice. `MODES` says which brokers are behind the queries and who
runs these: a program as a user would write it (`soak_driver.py`), or `entrepot pipeline land` (`soak_programs.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "interop"))

from entrepot.protocols.stomp.frames import Frame
from promises import never
from shell.daemon import Wire
from spark.soak_foreign import BesideArtemis, BesideClassic, DrawnClassic
from spark.soak_places import Alone, Nodes, Pair, Place
from spark.soak_programs import Landing, Program, Queries, command_of, descendants

MODES: Final = ("alone", "pair", "nodes", "classic", "drawn", "artemis", "land", "land-artemis")
EARLY: Final = ("", "source", "hop")
CLUSTER_KINDS: Final = ("executor", "broker", "worker", "executor", "driver", "both", "executor", "all")
EACH_ROUND: Final = 1_000  # messages of a producer: where Spark hardly comes to run, the end would be hours away
START: Final = 600.0  # s: a driver of Spark on a machine that does much else
DRAIN: Final = 900.0  # s for the queries to come to their end when nobody is killed any more
DRAIN_EARLY: Final = 180.0  # s, of those that find what is gone each time that they are tried


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
                    wire = self.soak.place.wire(self.lots)
                    try:
                        while not self.ended.is_set() and self.soak.place.serves(wire):
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
        if self.count > self.soak.reached * EACH_ROUND:
            self.ended.wait(0.2)
            return
        self._open = [f"{self.prefix}{self.count + index}" for index in range(self.lots.randrange(1, 20))]
        self.count += len(self._open)
        wire.say("BEGIN", {"transaction": "t"})
        for text in self._open:
            for queue in ("in", "archive"):
                headers = {**self.soak.place.destination(queue), "transaction": "t", "persistent": "true"}
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
        mode: str = "alone",
        early: str = "",
        master: str = "local[2,4]",
        kinds: Sequence[str] = (),
        workers: Sequence[int] = (),
        say: Any = lambda text: None,
    ) -> None:
        """``mode``: one of `MODES`. ``workers``: processes of a cluster, whose children are executors.

        ``early``: what acknowledges before the result is safe: the ``source``, or the ``hop`` from brokers of others.
        """
        home.mkdir(parents=True, exist_ok=True)
        self.rounds = rounds
        self.early = early
        self.lots = random.Random(seed)
        self.say = say
        self.workers = workers
        self.killed_executors = 0
        self.place = place_of(mode, home, early)
        self.kinds = kinds or self.place.kinds
        made = Landing if mode.startswith("land") else Queries
        self.program: Program = made(home, self.place, master, on_receipt=early == "source")
        self.kills: dict[str, int] = {}
        self.reached = 1  # the round that it is in
        self.state = ""

    def run(self) -> None:
        """Produce, kill, and let it come to its end. Raises AssertionError when it does not, or not rightly."""
        producers = [Producer(self, name) for name in ("a", "b")]
        competitor = Competitor(self)
        clients: list[Client] = [*producers, *([competitor] if self.place.competes else [])]
        try:
            self.place.start()
            self.program.start()
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
            self.program.kill()
            self.place.stop()

    def round(self, number: int) -> None:
        self.until(self.program.runs, START, "the driver did not start")
        time.sleep(self.lots.uniform(0.2, 1.2))
        kind = self.kinds[number % len(self.kinds)]
        self.kills[kind] = self.kills.get(kind, 0) + 1
        self.reached = number + 1
        self.say(f"round {number + 1} of {self.rounds}: {kind}")
        parts = {"both": "worker-broker", "all": "driver-broker"}.get(kind, kind).split("-")
        parts = kind.split("-") if kind in self.place.faults else parts
        if "worker" in parts:
            self.kill_worker()
        if "executor" in parts:
            self.kill_executor()
        if "driver" in parts:
            self.program.kill()
        for fault in self.place.faults:
            if fault in parts or fault == kind:
                self.place.fault(fault, self.lots)
        if "driver" in parts:
            self.program.start()

    def kill_worker(self) -> None:
        """Kill one of Spark's Python processes."""
        self._kill_one(lambda command: "pyspark" in command and "java" not in command)

    def kill_executor(self) -> None:
        """Kill the JVM of an executor; where the driver is the only one, one of Spark's Python processes."""
        if self._kill_one(lambda command: "CoarseGrainedExecutorBackend" in command):
            self.killed_executors += 1
        else:
            self.kill_worker()

    def _kill_one(self, wanted: Callable[[str], bool]) -> bool:
        """Kill one of the processes below the driver and the workers whose command is ``wanted``, if there is one."""
        below = [pid for root in (self.program.pid, *self.workers) for pid in descendants(root)]
        pids = sorted(pid for pid in below if wanted(command_of(pid)))
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.lots.choice(pids), signal.SIGKILL)
        return bool(pids)

    # -- the end ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Wait until both queries have settled all there is."""
        self.until(
            self.settled, DRAIN_EARLY if self.early else DRAIN, "the queries did not come to their end", every=1.0
        )
        self.program.finish()

    def settled(self) -> bool:
        state: list[str] = []
        settled = self.place.settled(state)
        self.state = " ".join(state)
        return settled

    def check(self, producers: list[Producer], competitor: Competitor) -> None:
        """Compare what came out with what was sent."""
        sent = {text for producer in producers for text in producer.sent}
        perhaps = {text for producer in producers for text in producer.doubtful}
        carried = self.program.carried()
        archived = self.program.archived()
        consumed = [*carried, *competitor.taken]
        self.say(
            f"{len(sent)} sent, {len(perhaps)} perhaps; {len(carried)} carried, {len(competitor.taken)} taken by the "
            f"competitor, {len(competitor.doubtful)} perhaps; {len(archived)} archived; kills {self.kills}"
        )
        assert len(sent) > 5 * self.rounds, "too little was sent to mean anything"
        with never():
            assert not twice(consumed), f"twice: {twice(consumed)[:5]} of {len(twice(consumed))}"
            assert not twice(archived), f"twice in the archive: {twice(archived)[:5]} of {len(twice(archived))}"
        missing = sent - set(consumed) - competitor.doubtful
        lost = sent - set(archived)
        left = self.place.left() if missing or lost else []
        with never():
            assert not missing, f"{len(missing)} missing: {sorted(missing)[:5]}; {len(left)} are where they came from"
            assert not lost, f"missing in the archive: {sorted(lost)[:5]} of {len(lost)}"
            assert set(consumed) | set(archived) <= sent | perhaps, "something came out that nobody sent"

    def until(self, holds: Any, seconds: float, why: str, every: float = 0.1) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"{why}; {self.state}\n{self.program.told()}"
            assert self.program.goes_on(), f"the driver ended\n{self.program.told()}"
            time.sleep(every)


def place_of(mode: str, home: Path, early: str) -> Place:
    """Return the brokers of a mode. Raises ValueError."""
    if early == "hop":
        return {"classic": BesideClassic, "drawn": DrawnClassic, "artemis": BesideArtemis}[mode](home, hop_forgets=True)
    if mode in ("alone", "land"):
        return Alone(home)
    if mode == "pair":
        return Pair(home)
    if mode == "nodes":
        return Nodes(home)
    if mode == "classic":
        return BesideClassic(home)
    if mode == "drawn":
        return DrawnClassic(home)
    if mode in ("artemis", "land-artemis"):
        return BesideArtemis(home)
    raise ValueError(mode)


def twice(found: list[str]) -> list[str]:
    seen: set[str] = set()
    return [text for text in found if text in seen or seen.add(text)]  # type: ignore[func-returns-value]


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
    parser.add_argument("--mode", choices=MODES, default="alone", help="which brokers, and who runs the queries")
    parser.add_argument("--early", choices=EARLY, default="", help="who acknowledges too early: must fail")
    parser.add_argument("--keep", action="store_true", help="leave the stores and logs of a failed run where they are")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.mode}", flush=True)
    home = Path(tempfile.mkdtemp(prefix="entrepot-soak-"))
    say = lambda text: print(text, flush=True)  # noqa: E731
    passed = False
    try:
        Soak(home, given.rounds, given.seed, mode=given.mode, early=given.early, say=say).run()
        passed = True
    finally:
        if given.keep and not passed:
            say(f"its stores and logs are in {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    print("everything came out once")


if __name__ == "__main__":
    main()
