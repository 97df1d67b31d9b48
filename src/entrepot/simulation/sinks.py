"""The clients of a simulated broker that write by staged commit: tasks that are tried again, and their driver."""

from __future__ import annotations

from entrepot.base.environment import Duration
from entrepot.base.errors import StageError
from entrepot.simulation.checkers import CONFIRMED, REFUSED, UNKNOWN, Record, Transaction
from entrepot.simulation.clients import Client, Stage
from entrepot.simulation.world import Lots


class Part:
    """One attempt of one task. ``closed``: the broker said that it has all of it."""

    def __init__(self, key: str, task: int) -> None:
        self.key = key
        self.task = task
        self.records: list[Record] = []
        self.closed = False


def staged_record(stage: Stage, lots: Lots, record: Record, queues: list[str]) -> None:
    """Draw what a task writes into one of ``queues``; nothing of it may be seen until it is asked for."""
    record.size = lots.skewed(10, 2_000)
    record.size = len(record.body())
    record.persistent = True
    record.color = "red"
    record.state = REFUSED
    queue = lots.one_of(queues)
    record.destination = f"/queue/{queue}"
    if queue not in stage.dropping:
        record.queues.append(queue)


class SinkWriter(Client):
    """Stages batches, some tasks more than once, lets the broker decide, publishes, and repeats every step.

    Nothing of a part may be seen before its batch is asked to be published, and of one that lost nothing ever; what is
    published is owed like a transaction, and a decision is the same whenever and whoever asks. Most say who they are;
    of those the checkpoint is lost now and then, or an old one restored: what they do then must be refused.
    """

    def __init__(self, stage: Stage, name: str, queues: list[str], batches: int, tasks: int, pause: Duration) -> None:
        super().__init__(stage, name)
        self.queues = queues
        self.batches = batches
        self.tasks = tasks
        self.pause = pause
        self.batch = 0
        self.attempts = 0
        self.sequence = 0
        self.parts: dict[str, Part] = {}
        self.asked: list[list[str]] = []  # all decisions that were asked for
        self.winners: list[str] = []  # what was decided for certain
        self.published = False  # for certain
        self.doubt = False  # the connection was lost since the broker was asked for its decision
        self.ending = False
        self.finished = False
        self.counter = f"{name}/query" if self.lots.chance(0.75) else ""
        self.starts = 0
        self.deciders: list[int] = []  # starts that were given a decision: the broker knows of them

    def _ask(self, command: str, **headers: str) -> str:
        fields = {"sink": self.name, "batch": str(self.batch), **self._author(self.starts), **headers}
        self.world.note(f"{self.name} {command} {fields}")
        return self.client.request(command, fields)

    def _author(self, start: int) -> dict[str, str]:
        if not self.counter:
            return {}
        return {"counter": self.counter, "start": f"start-{start}", "write": "the only one"}

    def ready(self) -> None:
        """Go on where the last connection ended: an open stage went with it, and a driver asks what was decided."""
        self.starts += 1
        self.doubt = True
        self._next()

    def _next(self) -> None:
        self.act(self._step, self.lots.between(0, self.pause))

    def _step(self) -> None:
        lots = self.lots
        if self.finished:
            self.leave()
        elif self.published:
            self._behind()
        elif self.winners:
            if self.doubt or lots.chance(0.4):
                self._decide()
            else:
                self._publish()
        elif self.ending:
            self.receipts[self._ask("ABANDON")] = self._abandoned
        else:
            self._before()

    def _before(self) -> None:
        """Stage what is missing, and sometimes what is not; then decide."""
        lots = self.lots
        done = {part.task for part in self.parts.values() if part.closed}
        missing = [task for task in range(self.tasks) if task not in done]
        if missing or lots.chance(0.35):
            self._stage(missing[0] if missing else lots.below(self.tasks))
        elif not self.asked and lots.chance(0.1):
            self._abandon_one()
        else:
            self._decide()

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _stage(self, task: int) -> None:
        lots = self.lots
        self.attempts += 1
        part = Part(f"{self.name}-{self.batch}-{task}-{self.attempts}", task)
        self.receipts[self._ask("STAGE", part=part.key)] = lambda code: None
        for _ in range(lots.below(9)):
            self._send(part)
        self.act(lambda: self._close(part), lots.between(0, self.pause))

    def _send(self, part: Part) -> None:
        lots = self.lots
        self.sequence += 1
        record = Record(f"{self.name}-{self.sequence}", part.key, self.sequence)
        staged_record(self.stage, lots, record, self.queues)
        self.ledger.sent(record)
        part.records.append(record)
        headers = {"sim-id": record.identity, "color": record.color, "persistent": "true", "stage": part.key}
        self.client.send(record.destination, record.body(), headers)
        self.world.count("staged sends")

    def _close(self, part: Part) -> None:
        self.receipts[self._ask("STAGED", part=part.key)] = lambda code: self._closed(part, code)

    def _closed(self, part: Part, code: str) -> None:
        if not code:
            count = int(self.answer["count"])
            if count != len(part.records):
                self.world.violation(f"{part.key} was closed with {count} messages; it has {len(part.records)}")
            part.closed = True
            self.parts[part.key] = part
        if self.online:
            self._next()

    def _abandon_one(self) -> None:
        part = self.lots.one_of(list(self.parts.values()))
        del self.parts[part.key]
        self.receipts[self._ask("ABANDON", parts=part.key)] = lambda code: self._next()
        self.world.count("stages abandoned")

    # -- the driver ---------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        chosen: list[str] = []
        for task in range(self.tasks):
            candidates = [part.key for part in self.parts.values() if part.task == task and part.closed]
            chosen.append(self.lots.one_of(candidates))
        self.asked.append(chosen)
        self.receipts[self._ask("DECIDE", parts=",".join(chosen))] = self._decided

    def _decided(self, code: str) -> None:
        if not code:
            parts = [part for part in self.answer["parts"].split(",") if part]
            if parts not in self.asked:
                self.world.violation(f"{self.name}: batch {self.batch} was decided as {parts}, which nobody asked for")
            if self.winners and parts != self.winners:
                self.world.violation(f"{self.name}: batch {self.batch} was decided as {self.winners}, then as {parts}")
            self.winners = parts
            self.doubt = False
            if self.starts not in self.deciders:
                self.deciders.append(self.starts)
            self.world.count("decisions")
        if self.online:
            self._next()

    def _won(self) -> list[Record]:
        return [record for key in self.winners for record in self.parts[key].records]

    def _publish(self) -> None:
        for record in self._won():
            if record.state == REFUSED:
                record.state = UNKNOWN
        self.receipts[self._ask("PUBLISH", parts=",".join(self.winners))] = self._has_published

    def _has_published(self, code: str) -> None:
        if code == StageError.code:
            self.world.violation(f"{self.name}: batch {self.batch} was decided and cannot be published")
        if not code:
            count = int(self.answer["count"])
            won = self._won()
            if count != len(won):
                self.world.violation(f"{self.name}: batch {self.batch} was published with {count} of {len(won)}")
            if not self.published:
                transaction = Transaction(f"{self.name}/{self.batch}")
                transaction.records = won
                self.ledger.ended(transaction, CONFIRMED)
                self.world.count("publications")
            self.published = True
        if self.online:
            self._next()

    def _behind(self) -> None:
        """The batch is done: repeat a step that has no effect any more, or begin the next one."""
        lot = self.lots.fraction()
        if lot < 0.2:
            self._publish()
        elif lot < 0.3:
            self._decide()
        elif lot < 0.5 and self.counter and self.deciders:
            self._lose_count()
        else:
            self._begin()
            self._next()

    def _begin(self) -> None:
        self.batch += 1
        self.parts.clear()
        self.asked.clear()
        self.winners = []
        self.published = False
        self.finished = self.ending or self.batch >= self.batches

    def _lose_count(self) -> None:
        """Ask as one whose count is not that of this sink: whatever is answered but a refusal would lose a batch."""
        lots = self.lots
        command = lots.one_of(("STAGE", "DECIDE", "PUBLISH"))
        what = lots.below(4)
        wrong = {"counter": "somebody else"}  # another query that happens to be where this one is
        if what == 0:  # the checkpoint is new: another query, which begins at 0
            wrong = {"counter": f"{self.counter}-anew", "batch": "0"}
        elif what == 1 and self.batch > 0:  # an old checkpoint: the query is the same
            command = "DECIDE"
            wrong = {"batch": str(lots.below(self.batch))}
        elif what == 2 and len(self.deciders) > 1 and self.deciders[-1] == self.starts:
            command = "DECIDE"  # a driver that hung goes on behind the one that took its place
            wrong = {**self._author(self.deciders[-2]), "batch": str(self.batch + 1)}
        told = {"part": f"{self.name}-wrong"} if command == "STAGE" else {"parts": ",".join(self.winners)}
        self.receipts[self._ask(command, **{**told, **wrong})] = lambda code: self._refused(f"{command} {wrong}", code)

    def _refused(self, what: str, code: str) -> None:
        if not code:
            self.world.violation(f"{self.name}: {what} was taken for a step of the count of {self.counter}")
        elif code == StageError.code:
            self.world.count("lost counts refused")
        if self.online:
            self._next()

    def _abandoned(self, code: str) -> None:
        self.finished = self.finished or not code
        if self.online:
            self._next()

    # -- the end ------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Publish what was decided, abandon what was not, go."""
        self.ending = True
        if self.link is None:
            self.start()

    @property
    def quiet(self) -> bool:
        """Whether nothing is left to do."""
        return self.finished and self.link is None
