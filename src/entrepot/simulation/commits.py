"""A write of many batches in a simulated world: the decisions of the real driver, and tasks that are tried again.

A batch is staged by its tasks and committed by the driver. When the driver dies, the batch is run again from its
beginning, with new attempts of every task; what the first decision chose counts, whoever asked for it. What must hold:
one attempt of every task is published or none, and what the driver was told is published is owed like the sends of a
transaction.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Duration
from entrepot.driver.commit import Commit
from entrepot.driver.effects import Answer, Course, ask
from entrepot.driver.search import Reach
from entrepot.driver.stages import Author, Committed, part_name
from entrepot.simulation.checkers import CONFIRMED, REFUSED, UNKNOWN, Record, Transaction
from entrepot.simulation.clients import Stage
from entrepot.simulation.drivers import PLACE, Connection, Mortal
from entrepot.simulation.sinks import Part, staged_record

PATIENCE: Final = 2.0  # s that the broker is looked for
REACH: Final = Reach(((PLACE,),), discovers=False, tls={}, patience=PATIENCE)


class Commits(Mortal):
    """Writes one batch after another; dies, and is started again by somebody, with the same batch."""

    def __init__(self, stage: Stage, name: str, queues: list[str], batches: int, tasks: int, pause: Duration) -> None:
        super().__init__(stage, name, pause)
        self.queues = queues
        self.batches = batches
        self.tasks = tasks
        self.dies = self.lots.one_of((0.0, 0.05, 0.15))  # at each step
        self.batch = 0
        self.attempts = 0
        self.sequence = 0
        self.parts: dict[str, Part] = {}  # of this batch, of all its runs
        self.won: list[str] | None = None  # what was decided about this batch, as far as anybody was told
        self.ending = False

    def started(self) -> None:
        """Begin: all that a query knows is which batch comes next."""
        self.program.answered = self._answered
        self.soon(self._run)

    # -- batches ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if self.batch >= self.batches or (self.ending and not self.parts):
            self.finish()
            return
        self.program.run(self._course(), self._committed, self.failed)

    def _course(self) -> Course[Committed]:
        """Stage what the tasks of a batch write, then commit it."""
        author = Author(f"{self.name}/query", f"run-{self.runs}", "the only write", query=True)
        driver = Commit(REACH, self.program.clock)
        chosen: list[str] = []
        for task in range(self.tasks):
            part = yield from driver.search.patiently(lambda task=task: self._task(driver, task, author))  # type: ignore[misc]
            chosen.append(part.key)
        for key in chosen:
            for record in self.parts[key].records:
                record.state = UNKNOWN  # from here on it may be seen
        return (yield from driver.commit(self.name, self.batch, chosen, author))

    def _task(self, driver: Commit, task: int, author: Author) -> Course[Part]:
        """Stage what one task writes."""
        line = yield from driver.search.one_of(task)
        assert isinstance(line, Connection)
        self.attempts += 1
        part = Part(part_name(line.broker, f"{self.name}-{self.batch}-{task}-{self.attempts}"), task)
        self.parts[part.key] = part
        fields = {"sink": self.name, "batch": str(self.batch), "part": part.key}
        try:
            yield from ask(line, "STAGE", {**fields, **author.headers()})
            for _ in range(self.lots.below(9)):
                self._send(line, part)
            answer = yield from ask(line, "STAGED", fields)
        finally:
            line.close()
        if int(answer["count"]) != len(part.records):
            self.world.violation(f"{part.key} was closed with {answer['count']} of {len(part.records)} messages")
        return part

    def _send(self, line: Connection, part: Part) -> None:
        if not line.online:
            return
        self.sequence += 1
        record = Record(f"{self.name}-{self.sequence}", part.key, self.sequence)
        staged_record(self.stage, self.lots, record, self.queues)
        self.ledger.sent(record)
        part.records.append(record)
        headers = {"sim-id": record.identity, "color": record.color, "persistent": "true", "stage": part.key}
        line.client.send(record.destination, record.body(), headers)
        self.world.count("staged sends")

    def _answered(self, answer: Answer) -> None:
        """Note what was decided: it is the same, whoever asks and however often."""
        if "parts" not in answer:
            return
        decided = [key for key in answer["parts"].split(",") if key]
        if self.won is not None and decided != self.won:
            self.world.violation(f"{self.name}: batch {self.batch} was decided as {self.won}, then as {decided}")
        self.won = decided

    def _committed(self, committed: Committed) -> None:
        """The driver says that the batch is done: what was decided is owed, the rest may never be seen."""
        won = self.won or []
        unknown = [key for key in won if key not in self.parts]
        if unknown:
            self.world.violation(f"{self.name}: batch {self.batch} has the parts {unknown}, which nobody staged")
            return
        records = [record for key in won for record in self.parts[key].records]
        if sorted(self.parts[key].task for key in won) != list(range(self.tasks)):
            self.world.violation(f"{self.name}: batch {self.batch} was decided as {won}: not one part of each task")
        if committed.count != len(records):
            self.world.violation(f"{self.name}: batch {self.batch}: {committed.count} of {len(records)} are published")
        for part in self.parts.values():
            for record in part.records if part.key not in won else ():
                record.state = REFUSED
        transaction = Transaction(f"{self.name}/{self.batch}")
        transaction.records = records
        self.ledger.ended(transaction, CONFIRMED)
        self.world.count("batches published")
        self.parts.clear()
        self.won = None
        self.batch += 1
        self.soon(self._run)

    # -- the end ------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Finish the batch that was begun, and stop."""
        self.ending = True
        self.dies = 0.0
