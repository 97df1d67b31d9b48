"""A program that sends over CORE, messages small and streamed: see `core_programs.py`."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Duration
from entrepot.protocols.artemis.headers import (
    TYPE_BYTES,
    Headers,
    assembled,
)
from entrepot.protocols.artemis.packets import (
    NullReply,
    Packet,
    Send,
    SendContinuation,
    SendLarge,
)
from entrepot.simulation.checkers import UNKNOWN, Record
from entrepot.simulation.clients import COLORS, Stage
from entrepot.simulation.core_programs import Branch, CoreProgram

LARGE_FROM: Final = 1_500  # octets: bodies from here on are streamed, in pieces of
PIECE: Final = 700
ANYCAST: Final = 1


class CoreSender(CoreProgram):
    """Sends ``count`` messages to ``queues``, one in ``interval`` ns."""

    def __init__(self, stage: Stage, name: str, queues: list[str], count: int, interval: Duration) -> None:
        super().__init__(stage, name, transacted=False)
        self.queues: Final = queues
        self.count = count
        self.interval: Final = interval
        self.size_max: Final = self.lots.one_of((60, 300, 2_000, 8_000))
        self.together: Final = self.lots.one_of((0.0, 0.2, 0.5))  # of branches
        self.repeats: Final = self.lots.chance(0.4)  # with duplicate ids: what was not answered goes out again
        self.sequence = 0
        self.again: list[Record] = []

    def ready(self) -> None:
        """Go on where it stopped."""
        self.soon(self._step, 0)

    def _step(self) -> None:
        if self.branch is None and len(self.sends) < 5:
            if self.again:
                self._send(self.again.pop(0), None)
            elif self.sequence < self.count:
                if self.lots.chance(self.together):
                    self._branch()
                else:
                    self._send(self._record(), None)
            elif not self.sends:
                self.leave()
                return
        self.soon(self._step, self.lots.between(self.interval // 2, self.interval * 2))

    def _branch(self) -> None:
        branch = self.begin_branch()
        for _ in range(self.lots.between(1, 4)):
            record = self._record()
            record.duplicate_id = ""
            branch.transaction.records.append(record)
            self._send(record, branch)
        self.end_branch(branch)

    def _record(self) -> Record:
        self.sequence += 1
        record = Record(f"{self.name}-{self.sequence}", self.name, self.sequence)
        record.size = self.lots.skewed(10, self.size_max)
        record.size = len(record.body())
        record.persistent = self.lots.chance(0.9)
        record.color = self.lots.one_of(COLORS)
        if self.repeats and record.persistent:
            record.duplicate_id = record.identity
        return record

    def _send(self, record: Record, branch: Branch | None) -> None:
        if not record.destination:
            queue = self.lots.one_of(self.queues)
            record.destination = queue
            if queue not in self.stage.dropping:
                record.queues.append(queue)
            record.headers = {"sim-id": record.identity}
            record.connection = f"{self.name}/{self.links}"
            self.ledger.sent(record)
        else:
            record.later = True
        self.world.count("sends over CORE")
        self.world.note(f"{self.name} sends {record.identity} to {record.destination} over CORE")
        if branch is None:
            self.correlation += 1
            self.sends[self.correlation] = lambda reply: self._answered(record, reply)
            for packet in frames(record, self.correlation):
                self.say(packet)
        else:
            for packet in frames(record, 0):
                self.ask(packet, None)

    def _answered(self, record: Record, reply: Packet) -> None:
        if isinstance(reply, NullReply):
            self.ledger.confirmed(record)
            return
        record.state = UNKNOWN
        if record.duplicate_id and not self.online:
            self.again.append(record)
            self.again.sort(key=lambda each: each.sequence)

    def heal(self) -> None:
        """Send nothing new."""
        self.count = 0

    @property
    def quiet(self) -> bool:
        """Whether everything is answered."""
        return self.leaving


def frames(record: Record, correlation: int) -> list[Packet]:
    """Return what sends ``record``: one packet, or one and the pieces of its body."""
    headers = Headers()
    headers.address = record.destination
    headers.kind = TYPE_BYTES
    headers.durable = record.persistent
    headers.priority = record.priority
    properties: dict[str, object] = {"sim-id": record.identity, "color": record.color, "_AMQ_ROUTING_TYPE": ANYCAST}
    if record.duplicate_id:
        properties["_AMQ_DUPL_ID"] = record.duplicate_id
    body = record.body()
    wanted = correlation != 0
    if len(body) < LARGE_FROM:
        octets = assembled(body, headers, properties)
        return [Send(message=octets, require_response=wanted, correlation=correlation)]
    octets = assembled(b"", headers, properties)
    packets: list[Packet] = [SendLarge(headers=octets[4:])]
    for at in range(0, len(body), PIECE):
        last = at + PIECE >= len(body)
        packets.append(
            SendContinuation(
                body=body[at : at + PIECE],
                continues=not last,
                body_size=len(body) if last else -1,
                require_response=wanted and last,
                correlation=correlation if last else 0,
            )
        )
    return packets
