"""Unmodified, transacted Java clients under failover, while brokers are killed (-9) again and again.

`java/Rounds.java` says how every commit was reported; here that is held against what the queues hold in the end. What
was reported as committed is there once; what was rolled back is not there; what is in doubt, because the answer was
lost, is there as a whole or not at all. What was moved in a transaction is there once, whatever became of the answer.

``JAVA_ROUNDS=50`` for more rounds of each kind; ``JAVA_SEED`` for other moments.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import maven
import pytest
from java_clients import NEWER, Program, unavailable
from ours import Entrepot

from promises import never

ROUNDS: Final = int(os.environ.get("JAVA_ROUNDS", "2"))
SEED: Final = int(os.environ.get("JAVA_SEED", "1"))
BATCH: Final = 5
UP_MIN_S, UP_MAX_S = 0.15, 0.6  # between the first commit on a broker, about, and its end
OPTIONS: Final = "?maxReconnectDelay=200&initialReconnectDelay=20"
SOURCE, TARGET = "rounds.in", "rounds.out"
PATIENCE_S: Final = 120 + 3 * ROUNDS

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


@pytest.fixture(scope="module", params=["5.17", NEWER])
def program(request: pytest.FixtureRequest) -> Program:
    """`Rounds` with the client of Debian, and with a newer one."""
    if request.param != NEWER:
        return Program()
    try:
        return Program(maven.jars(f"org.apache.activemq:activemq-client:{NEWER}"))
    except maven.Unavailable as why:
        pytest.skip(str(why))


class Clients:
    """A run of `Rounds` with its output."""

    def __init__(self, program: Program, urls: list[str], log: Path) -> None:
        command = program.command("Rounds", f"failover:({','.join(urls)}){OPTIONS}", SOURCE, TARGET)
        self._log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._bound = threading.Timer(PATIENCE_S, self.process.kill)
        self._bound.start()

    def await_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self._log.read_text()[-3000:]

    def finish(self) -> list[tuple[str, ...]]:
        """End the work, and return the lines of the report."""
        said, _ = self.process.communicate("end\n")
        assert self.process.returncode == 0, self._log.read_text()[-3000:]
        return [tuple(line.split()) for line in said.splitlines()]

    def close(self) -> None:
        self._bound.cancel()
        self.process.kill()
        self.process.communicate()


def verdict(report: list[tuple[str, ...]]) -> str:
    """Hold what was reported against what is there; return the figures."""
    outcome = {int(line[1]): line[0] for line in report if line[0] in ("committed", "undone", "doubtful")}
    held = Counter(line[1] for line in report if line[0] in ("out", "left", "dead"))
    dead = [line[1] for line in report if line[0] == "dead"]
    moves = [line for line in report if line[0] == "moved"]
    wrong: list[str] = []
    stored_in_doubt = 0
    for batch, what in outcome.items():
        counts = [held.pop(f"{batch}:{part}", 0) for part in range(BATCH)]
        if what == "doubtful":
            stored_in_doubt += counts[0]
        allowed = {"committed": ([1] * BATCH,), "undone": ([0] * BATCH,), "doubtful": ([0] * BATCH, [1] * BATCH)}[what]
        if counts not in allowed:
            wrong.append(f"batch {batch} was reported as {what}, and its messages are there {counts} times")
            wrong += [" ".join(line) for line in moves if any(text.split(":")[0] == str(batch) for text in line[2:])]
    with never():
        assert not wrong, "\n".join(wrong[:20])
        assert not held, f"nobody sent {held}"
        assert not dead, f"{len(dead)} messages are in the dead letter queue: {dead[:20]}"
    return (
        f"commits: {_counted(outcome.values())}; {stored_in_doubt} of those in doubt were stored; moves: "
        + _counted(line[1] for line in moves)
    )


def _counted(outcomes: Iterable[str]) -> str:
    counts = Counter(outcomes)
    return f"{counts['committed']} committed, {counts['undone']} rolled back, {counts['doubtful']} in doubt"


@pytest.fixture(params=["one", "pair"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Entrepot]]:
    """One broker that is started again, or two with one store, of which the other takes over."""
    names = ["one"] if request.param == "one" else ["one", "two"]
    share: tuple[str, ...] = ("--ha", "shared-store") if len(names) > 1 else ()
    made = [Entrepot(tmp_path / name, name=name, data=tmp_path / "store", arguments=share) for name in names]
    made[0].start().await_ready()
    for each in made[1:]:
        each.start()
    yield made
    for each in made:
        each.kill()


def test_what_was_committed_is_there_once(
    program: Program, brokers: list[Entrepot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lots = random.Random(SEED)
    clients = Clients(program, [each.url for each in brokers], tmp_path / "clients.log")
    try:
        clients.await_ready()
        for number in range(ROUNDS):
            serving = brokers[number % len(brokers)]
            time.sleep(lots.uniform(UP_MIN_S, UP_MAX_S))
            serving.kill()
            serving.start()
            brokers[(number + 1) % len(brokers)].await_ready()
        time.sleep(UP_MIN_S)
        figures = verdict(clients.finish())
    finally:
        clients.close()
    with capsys.disabled():
        print(f"\n{ROUNDS} kills of {len(brokers)}: {figures}")
