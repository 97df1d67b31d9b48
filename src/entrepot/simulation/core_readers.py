"""A program that reads one queue over CORE: see `core_programs.py`."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND
from entrepot.protocols.artemis.bodies import text_of
from entrepot.protocols.artemis.headers import (
    TYPE_TEXT,
    body_of,
    headers_at,
    properties_in,
    read_headers,
)
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    CloseConsumer,
    Commit,
    CreateConsumer,
    ExceptionReply,
    FlowToken,
    IndividualAcknowledge,
    NullReply,
    Packet,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
    Rollback,
    Start,
    Stop,
)
from entrepot.protocols.artemis.refusals import ROLLED_BACK
from entrepot.simulation.checkers import CONFIRMED, REFUSED, UNKNOWN, Copy, Transaction
from entrepot.simulation.clients import Stage
from entrepot.simulation.core_programs import WAIT, Branch, CoreProgram
from entrepot.simulation.octet_cables import OctetCable


class CoreReader(CoreProgram):
    """Reads ``queue``, alone: acknowledges one by one, up to one, in transactions or in branches, and gives back."""

    def __init__(self, stage: Stage, name: str, queue: str) -> None:
        super().__init__(stage, name, transacted=stage.world.lots(f"{name}/kind").chance(0.4))
        lots = self.lots
        self.queue: Final = queue
        self.window = lots.one_of((1, 300, 5_000, 1 << 20))
        self.think: Final = lots.skewed(50 * MICROSECOND, 40 * MILLISECOND)
        self.together: Final = lots.one_of((0.0, 0.2, 0.5))  # of branches
        self.single: Final = lots.chance(0.4)
        self.life: Final = lots.one_of((0, 0, 10))
        self.taken = 0
        self.works = False  # it acknowledged something since it opened its consumer: else it would only open it again
        self.working: OctetCable | None = None  # the connection on which it works its way on
        self.owed = 0  # octets of credit, of one message
        self.consumer = 0
        self.held: dict[int, Copy] = {}  # what came and is not acknowledged, by number, in order
        self.acked: list[Copy] = []  # in the transaction that is open
        self.last: dict[tuple[str, str, int, str], int] = {}
        self.large: ReceiveLarge | None = None
        self.pieces = b""
        self.healing = False
        self.committing: Transaction | None = None

    # -- reading -------------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Open a consumer."""
        self.consumer += 1
        self.ask(CreateConsumer(consumer=self.consumer, queue=self.queue, require_response=True), self._opened)

    def _opened(self, reply: Packet) -> None:
        if isinstance(reply, ExceptionReply):
            self.soon(self.ready, WAIT)
            return
        self.owed = 0
        self.say(FlowToken(consumer=self.consumer, credits=self.window))
        if self.working is not self.line:
            self.working = self.line
            self._later()

    def came(self, packet: Packet) -> None:
        """A message came, or a part of one: give its octets of credit back.

        One with a window of 1 has one message at a time: those of a whole one are given back when it asks for the next.
        """
        assert isinstance(packet, (Receive, ReceiveLarge, ReceiveContinuation))
        if packet.consumer != self.consumer:
            return  # of one that was closed
        size = len(self.encoder.encode(packet))
        if isinstance(packet, Receive) and self.window == 1:
            self.owed += size
        else:
            self.say(FlowToken(consumer=self.consumer, credits=size))
        if isinstance(packet, ReceiveLarge):
            self.large, self.pieces = packet, b""
        elif isinstance(packet, ReceiveContinuation):
            self.pieces += packet.body
            large = self.large
            if not packet.continues and large is not None:
                self.large = None
                octets = (13).to_bytes(4, "big") + large.headers
                self._message(octets, self.pieces, int(large.delivery_count))
        else:
            self._message(packet.message, body_of(packet.message), int(packet.delivery_count))

    def _message(self, octets: bytes, body: bytes, count: int) -> None:
        headers = read_headers(octets, headers_at(octets))
        said = {name: str(value) for name, value in properties_in(octets).items()}
        text = text_of(body) if headers.kind == TYPE_TEXT else None
        whole = body if text is None else text.encode()
        copy = self.ledger.taken(self.queue, said, whole, marked=count > 1)
        if copy is None:
            return
        self.world.note(f"{self.name} took {copy.record.identity} for the {count}. time")
        self.ledger.in_order(self.last, copy, count > 1)
        self.held[int(headers.number)] = copy
        self.taken += 1

    # -- settling ------------------------------------------------------------------------------------------------------

    def _later(self) -> None:
        pause = MILLISECOND if self.healing else self.lots.between(0, self.think)
        self.soon(self._work, pause)

    def _work(self) -> None:
        if self.branch is not None or self.asked is not None:
            self.soon(self._work, WAIT)
            return
        lots = self.lots
        if self.life and self.taken >= self.life and self.works and not self.healing:
            self.taken = 0
            self.works = False
            self.hold()
            self.ask(CloseConsumer(consumer=self.consumer), lambda reply: self.ready())
            self.go_on()
            self._later()
            return
        if self.held:
            if not self.healing and lots.chance(self.together):
                self._branch()
            else:
                self._acknowledge(None)
                if self.transacted and (self.healing or lots.chance(0.4)):
                    self._end()
        elif self.acked:
            self._end()
        if self.owed:
            self.say(FlowToken(consumer=self.consumer, credits=self.owed - 1))
            self.say(FlowToken(consumer=self.consumer, credits=1))
            self.owed = 0
        self._later()

    def _acknowledge(self, branch: Branch | None) -> None:
        numbers = list(self.held)
        at = self.lots.below(min(len(numbers), 10))
        wanted = branch is None and not self.transacted
        if self.single:
            covered = [numbers[at]]
            packet: Packet = IndividualAcknowledge(consumer=self.consumer, message=numbers[at], require_response=wanted)
        else:
            covered = numbers[: at + 1]
            packet = Acknowledge(consumer=self.consumer, message=numbers[at], require_response=wanted)
        copies = [self.held.pop(number) for number in covered]
        self.works = True
        self.world.count("acks over CORE", len(copies))
        if branch is not None:
            branch.transaction.acks += [(copy, copy.deliveries) for copy in copies]
        elif self.transacted:
            self.acked += copies
        else:
            for copy in copies:
                copy.asked = True
        self.ask(packet, (lambda reply: self._settled(copies, reply)) if wanted else None)

    def _settled(self, copies: list[Copy], reply: Packet) -> None:
        if isinstance(reply, NullReply):
            for copy in copies:
                self.ledger.settled(copy)

    def _branch(self) -> None:
        branch = self.begin_branch()
        self._acknowledge(branch)
        self.end_branch(branch)

    def _end(self) -> None:
        """Commit what is acknowledged, or roll it back with all that came."""
        transaction = Transaction(f"{self.name}/{self.links}/{self.taken}")
        transaction.acks = [(copy, copy.deliveries) for copy in self.acked]
        self.acked = []
        if self.healing or self.lots.chance(0.7):
            self.ledger.ending(transaction)
            self.committing = transaction
            self.ask(Commit(), lambda reply: self._committed(transaction, reply))
            return
        self.world.count("rollbacks over CORE")
        self.hold()
        self.ask(Rollback(), lambda reply: self._rolled_back(transaction))
        self.go_on()

    def _committed(self, transaction: Transaction, reply: Packet) -> None:
        self.committing = None
        if isinstance(reply, NullReply):
            self.ledger.ended(transaction, CONFIRMED)
            return
        assert isinstance(reply, ExceptionReply)
        self.ledger.ended(transaction, REFUSED if reply.code == ROLLED_BACK else UNKNOWN)

    def _rolled_back(self, transaction: Transaction) -> None:
        self.ledger.tried(copy for copy, _ in transaction.acks)

    def hold(self) -> None:
        """Stop, and forget what came: it comes again."""
        self.ask(Stop(), lambda reply: self._forget())

    def _forget(self) -> None:
        self.held.clear()
        self.last.clear()
        self.large = None

    def go_on(self) -> None:
        """Let messages come."""
        self.ask(Start(), None)

    def began_again(self) -> None:
        """Have what was forgotten come again: an acknowledgement up to a message would cover it."""
        self.hold()
        self.ask(CloseConsumer(consumer=self.consumer), lambda reply: self.ready())
        self.go_on()

    # -- the end -------------------------------------------------------------------------------------------------------

    def gave_up(self) -> None:
        """All that was not settled goes back; of a commit that was not answered nobody knows."""
        self._forget()
        self.acked = []
        transaction, self.committing = self.committing, None
        if transaction is not None:
            self.ledger.ended(transaction, UNKNOWN)

    def heal(self) -> None:
        """Read the queue out."""
        self.healing = True

    @property
    def quiet(self) -> bool:
        """Whether all is read, and settled."""
        broker = self.stage.machine.broker
        queue = None if broker is None else broker.table.queues.get(self.queue)
        idle = self.branch is None and self.asked is None and not self.held and not self.acked
        return self.online and idle and (queue is None or queue.count == 0)
