"""A streaming query in a simulated world: the decisions of the real driver, and a Spark of one process around them.

The checkpoint outlives every crash, as Spark's does: the end of a batch is in it before the batch runs; that a batch is
committed, once its rows are where they belong. A query that fails or dies goes on from there. What must hold: a batch
that is run again has the rows that it had, no message is in two committed batches, and no broker is asked to forget
what is in none.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from entrepot.base.environment import Duration
from entrepot.base.errors import EntrepotError, LeaseError
from entrepot.driver.effects import Answer, Course, ask, connect, patiently
from entrepot.driver.holding import Holding, Query
from entrepot.driver.offsets import EARLIEST, Offsets
from entrepot.driver.search import Reach
from entrepot.driver.shard import Piece, Subject
from entrepot.protocols.stomp.client import Message
from entrepot.protocols.stomp.ranges import FORM, decode, headers_of
from entrepot.simulation.checkers import Copy
from entrepot.simulation.clients import Stage
from entrepot.simulation.drivers import PLACE, Connection, Mortal
from entrepot.simulation.placed import FORM as LOCATED
from entrepot.simulation.placed import found_at

CORES: Final = 2
PATIENCE: Final = 2.0  # s that the broker is looked for


class Checkpoint:
    """What Spark keeps of a query, and what became of its batches."""

    def __init__(self) -> None:
        self.ends: list[dict[str, Any]] = []  # of every batch that was planned
        self.committed = 0  # batches
        self.rows: dict[int, dict[int, str]] = {}  # batch -> position -> message id: as it was read first
        self.landed: dict[str, int] = {}  # message id -> position, of committed batches

    def end_of(self, batch: int, holding: Holding) -> Offsets:
        """Return where batch number ``batch`` ends; -1: where the query begins."""
        return holding.initial() if batch < 0 else holding.parse(self.ends[batch])


class Batches(Mortal):
    """Runs one micro-batch after another; dies, and is started again by somebody."""

    def __init__(self, stage: Stage, name: str, queue: str, most: int, pause: Duration) -> None:
        super().__init__(stage, name, pause)
        lots = self.lots
        selector = lots.one_of(("", "", "color = 'red'"))
        self.query = Query(
            Subject(f"/queue/{queue}", name, selector, until=self._bound()),
            Reach(((PLACE,),), discovers=False, tls={}, patience=PATIENCE),
            EARLIEST,
            lots.one_of((0, 20, 400)),
            least=lots.one_of((0, 0, 5)),
            delay_ms=lots.one_of((50, 500)),
            octets=lots.one_of((0, 0, 60, 400)),
        )
        self.queue = queue
        self.most = most
        self.partitions = lots.between(1, 3)
        self.dies = lots.one_of((0.0, 0.02, 0.1))  # at each step
        self.checkpoint = Checkpoint()
        self.broker = ""
        self.held: dict[int, Copy] = {}  # read, and not settled as far as is known
        self.sizes: dict[int, int] = {}  # octets of the body at each position
        self.looks = stage.world.lots(f"{name}/places").chance(0.4)  # into the files of the broker itself
        self.ending = False
        self.holding: Holding

    def _bound(self) -> int:
        """Return a time behind which nothing is claimed, for some; 0: for the others."""
        return self.world.wall() + self.lots.between(1, 2_000) if self.lots.chance(0.15) else 0

    # -- runs of the query --------------------------------------------------------------------------------------------

    def started(self) -> None:
        """Begin: all that a query knows is the checkpoint."""
        self.program.saw = self._saw
        self.program.answered = self._answered
        self.holding = Holding(self.query, self.program.clock)
        self._next()

    def failed(self, error: EntrepotError) -> None:
        """The query fails as Spark's would: with a checkpoint that the broker contradicts, never."""
        if isinstance(error, LeaseError):
            self.world.violation(f"{self.name} cannot go on from its checkpoint: {error}")
        super().failed(error)

    def _next(self) -> None:
        self.soon(self._step)

    # -- batches ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        checkpoint = self.checkpoint
        if len(checkpoint.ends) > checkpoint.committed:  # it was planned, and nobody knows how far it came
            self._plan()
        else:
            start = checkpoint.end_of(checkpoint.committed - 1, self.holding)
            everything = not self.query.octets and self.lots.chance(0.1)
            budget = None if everything else self.lots.between(1, self.most)
            course = self.holding.latest(start, budget)
            self.program.run(course, lambda end: self._ended(start, end), self.failed)

    def _ended(self, start: Offsets, end: Offsets) -> None:
        if end.shards != start.shards:
            self.checkpoint.ends.append(end.as_json())
            self._next()
        elif self.ending and self._all_settled():
            self._stop()
        else:
            self._next()

    def _stop(self) -> None:
        """Be done, after a last run that waits for nothing: a claim that this one left waiting may have taken some."""
        if self.query.wait_ms:
            self.query = replace(self.query, wait_ms=0)
            self._again()
        else:
            self.finish()

    def _all_settled(self) -> bool:
        ledgers = [shard.ledger for shard in self.holding.shards.all.values()]
        return all(ledger.base == ledger.tail for ledger in ledgers)

    def _plan(self) -> None:
        """Cut the batch behind the last committed one into tasks, and run them."""
        batch = self.checkpoint.committed
        start = self.checkpoint.end_of(batch - 1, self.holding)
        end = self.checkpoint.end_of(batch, self.holding)
        self.program.run(self._batch(start, end), lambda rows: self._has_run(batch, start, end, rows), self.failed)

    def _batch(self, start: Offsets, end: Offsets) -> Course[dict[int, str]]:
        """Return the message ids of a batch by position."""
        rows: dict[int, str] = {}
        pieces = yield from self.holding.plan(start, end, self.partitions, CORES)
        for piece in pieces:
            rows.update((yield from self._task(piece)))
        return rows

    def _task(self, piece: Piece) -> Course[dict[int, str]]:
        """Return what one task reads, tried again while the broker is away."""
        return (yield from patiently(lambda: self._read(piece), PATIENCE, self.program.clock))

    def _read(self, piece: Piece) -> Course[dict[int, str]]:
        line = yield from connect(PLACE)
        assert isinstance(line, Connection)
        fields = {"epoch": str(piece.epoch), "start": str(piece.low), "end": str(piece.high)}
        form = {"form": FORM} if self.lots.chance(0.7) else {}
        rows: dict[int, str] = {}
        at = piece.low
        try:
            if self.looks:
                yield from ask(line, "READ", {**self.query.subject.headers(), **fields, "form": LOCATED})
                at = self._look(at, line.messages, rows)
                line.messages.clear()
            if at < piece.high:
                yield from ask(line, "READ", {**self.query.subject.headers(), **fields, "start": str(at), **form})
        finally:
            line.close()
        for message in line.messages:
            self._look_through(message, rows)
        if list(rows) != list(range(piece.low, piece.high)):
            self.world.violation(f"{self.name} asked for {piece.low}..{piece.high} and read {list(rows)}")
        return rows

    def _look(self, at: int, told: list[Message], rows: dict[int, str]) -> int:
        """Read what is found on the disk of the broker; return the position behind it."""
        for message in told:
            for position, headers, body in found_at(self.stage.machine.disk, message):
                self._row(position, headers, body, rows)
                at = position + 1
                self.world.count("rows read where they are")
        return at

    def _look_through(self, message: Message, rows: dict[int, str]) -> None:
        if message.headers.get("form") != FORM:
            self._row(int(message.headers["position"]), message.headers, message.body, rows)
            return
        found = decode(message.body)
        for at, position in enumerate(found.positions):
            fixed = {"message-id": found.ids[at], "timestamp": str(found.timestamps[at])}
            headers = {**headers_of(found.headers[at]), **fixed}
            self._row(position, headers, found.bodies[at], rows)

    def _row(self, position: int, headers: dict[str, str], body: bytes, rows: dict[int, str]) -> None:
        copy = self.ledger.seen(self.queue, headers, body)
        rows[position] = headers.get("message-id", "")
        self.sizes[position] = len(body)
        until = self.query.subject.until
        if until and int(headers["timestamp"]) > until:
            self.world.violation(f"{self.name} read what was sent at {headers['timestamp']}, behind {until}")
        if copy is None:
            return
        if copy.gone:
            self.world.violation(f"{self.name} read {copy.record.identity}, which was settled before")
        if copy.lease not in ("", self.name):
            self.world.violation(f"{copy.record.identity} is leased to {copy.lease} and to {self.name}")
        if not copy.record.repeats:
            copy.lease = self.name
        copy.era = self.ledger.era  # its reader has seen it: who gets it later is told so
        self.held[position] = copy

    def _has_run(self, batch: int, start: Offsets, end: Offsets, rows: dict[int, str]) -> None:
        """The rows of a batch are where they belong: commit it, unless the driver dies first."""
        checkpoint = self.checkpoint
        low = start.shards.get(self.broker, end.first.get(self.broker, 0))
        if sorted(rows) != list(range(low, end.shards[self.broker])):
            self.world.violation(f"batch {batch} of {self.name} has the positions {sorted(rows)}: {start} to {end}")
        before_last = sum(self.sizes.pop(position) for position in sorted(rows)[:-1])
        if 0 < self.query.octets <= before_last:
            self.world.violation(f"batch {batch} of {self.name} has more than {self.query.octets} octets")
        if checkpoint.rows.setdefault(batch, rows) != rows:
            self.world.violation(f"batch {batch} of {self.name} had other rows when it was run again")
        self.soon(lambda: self._commit(batch, rows))

    def _commit(self, batch: int, rows: dict[int, str]) -> None:
        for position, message_id in rows.items():
            if self.checkpoint.landed.setdefault(message_id, position) != position:
                self.world.violation(f"{message_id} is in two batches of {self.name}")
        self.checkpoint.committed = batch + 1
        self.world.count("batches committed")
        self._next()

    # -- what is promised ---------------------------------------------------------------------------------------------

    def _committed(self) -> int:
        """Return the position behind the last committed batch; 0 before the first."""
        done = self.checkpoint.committed
        return int(self.checkpoint.ends[done - 1]["shards"].get(self.broker, 0)) if done else 0

    def _saw(self, command: str, headers: dict[str, str]) -> None:
        if command == "SETTLE":
            for position, copy in self.held.items():
                copy.asked = copy.asked or position < int(headers["end"])

    def _answered(self, answer: Answer) -> None:
        if "base" not in answer:
            return
        self.broker = answer.get("node", self.broker)
        base = int(answer["base"])
        if base > self._committed():
            self.world.violation(f"{self.name} settled up to {base}; committed is {self._committed()}")
        for position in [position for position in self.held if position < base]:
            copy = self.held.pop(position)
            copy.lease = ""
            copy.asked = True
            self.ledger.settled(copy)

    # -- the end ------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Take all that is there, settle it, and stop."""
        self.ending = True
        self.dies = 0.0
