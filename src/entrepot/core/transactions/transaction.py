"""Local transactions over sends and settlements: all of it at commit, none of it otherwise.

States (`TRANSITIONS`): ACTIVE takes work; COMMITTED and ROLLED_BACK are final; DOOMED is a transaction in which
something failed: it can only roll back (classic.md 4.10, artemis.md 4.9). PREPARED was promised to a coordinator: it
takes no more work, survives a crash, and does what it is told (`core/transactions/branches.py`).

Sends wait in memory until commit, bounded by ``OCTETS_MAX``, and are then written as one atomic batch of the journal.
A settlement takes effect at commit; until then its message stays in flight at its consumer. A consumer that leaves
before does not take the promise with it: its queue keeps the message for the transaction (`Queue.detach`). [C]
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MIB
from entrepot.base.errors import Refused, TransactionError, TransactionRolledBack
from entrepot.core.addressing.routing import Target
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue, queue_of
from entrepot.model.message import Message

OCTETS_MAX: Final = 64 * MIB  # two segments of the journal: a batch is written at one go
KEEP_UNITS: Final = 6  # of `core/effort.py`, for whoever calls `Transaction.send`: to make a message and keep it


class State(Enum):
    """Where a transaction stands."""

    ACTIVE = "active"
    DOOMED = "doomed"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class Signal(Enum):
    """What can happen to one."""

    WORK = "work"
    FAIL = "fail"
    PREPARE = "prepare"
    COMMIT = "commit"
    ROLL_BACK = "roll back"


TRANSITIONS: Final[dict[tuple[State, Signal], State]] = {
    (State.ACTIVE, Signal.WORK): State.ACTIVE,
    (State.ACTIVE, Signal.FAIL): State.DOOMED,
    (State.ACTIVE, Signal.PREPARE): State.PREPARED,
    (State.PREPARED, Signal.COMMIT): State.COMMITTED,
    (State.PREPARED, Signal.ROLL_BACK): State.ROLLED_BACK,
    (State.ACTIVE, Signal.COMMIT): State.COMMITTED,
    (State.ACTIVE, Signal.ROLL_BACK): State.ROLLED_BACK,
    (State.DOOMED, Signal.WORK): State.DOOMED,
    (State.DOOMED, Signal.FAIL): State.DOOMED,
    (State.DOOMED, Signal.ROLL_BACK): State.ROLLED_BACK,
}


class Settlement:
    """Message ``number`` of ``queue``, which ``consumer`` is done with if the transaction commits."""

    def __init__(self, consumer: Consumer, queue: Queue, number: int) -> None:
        self.consumer: Consumer = consumer
        self.queue: Queue = queue
        self.number: int = number


class Taken:
    """A message that a branch of another broker, which gives it to this one, has taken from ``queue``.

    ``deliveries``: how often it was delivered there, before the branch took it.
    """

    def __init__(self, message: Message, queue: Queue, deliveries: i64) -> None:
        self.message: Message = message
        self.queue: Queue = queue
        self.deliveries: i64 = deliveries


class Transaction:
    """One transaction of one connection. `Transactions.commit` and `Transactions.roll_back` end it."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.state: State = State.ACTIVE
        self.why: str = ""
        self.cause: Refused | None = None
        self.sends: list[Message] = []
        self.targets: list[Target] = []  # of each of ``sends``: no pairs, for the collector of cycles would see each
        self.settlements: list[Settlement] = []
        self.takes: list[Taken] = []
        self.token: bytes = b""  # of a branch that another broker gives to this one
        self.owner: str = ""  # and who prepared it there
        self.promised: i64 = 0  # how many messages that has
        self.came: i64 = 0  # and how many came
        self.durable: bool = False  # one of ``sends`` is
        self.sequences: dict[str, int] = {}  # producer -> the last number it used here, for who sends again
        self.octets: int = 0
        self.told: bool = False  # its peer was told that it is doomed: one word for all that comes until it ends

    def signal(self, signal: Signal) -> None:
        """Move on. Raises TransactionError for what may not come now, with what doomed it, or that itself."""
        state = TRANSITIONS.get((self.state, signal))
        if state is None:
            if signal is Signal.COMMIT and isinstance(self.cause, TransactionRolledBack):
                raise self.cause
            why = f": {self.why}" if self.why else ""
            raise TransactionError(
                f"transaction {self.name} is {self.state.value} and cannot {signal.value}{why}",
                remedy="roll it back and begin another",
            )
        self.state = state

    def send(self, message: Message, target: Target) -> None:
        """Add a send. Raises TransactionError when the transaction grows past its limit, which dooms it.

        What comes for one that is doomed is forgotten: that was said once, and the commit will say it again.
        """
        self.signal(Signal.WORK)
        if self.state is not State.ACTIVE:
            return
        self._weigh(message)
        self.durable = self.durable or message.durable
        self.sends.append(message)
        self.targets.append(target)

    def _weigh(self, message: Message) -> None:
        self.octets += int(message.size)
        if self.octets > OCTETS_MAX:
            self.fail(
                TransactionError(f"transaction {self.name} holds more than {OCTETS_MAX} octets", remedy="commit sooner")
            )
            self.sends.clear()
            self.targets.clear()
            self.takes.clear()
            raise TransactionError(self.why)

    def take(self, message: Message, queue: Queue, deliveries: i64) -> None:
        """Add a message that was taken from ``queue`` where this was prepared first. Raises as `send`.

        When this is prepared it is kept for ``queue``, in nobody's hands. Committed or rolled back before that, it was
        never here.
        """
        self.signal(Signal.WORK)
        if self.state is State.ACTIVE:
            self._weigh(message)
            self.takes.append(Taken(message, queue, deliveries))

    def settle(self, consumer: Consumer, number: int) -> None:
        """Add the settlement of message ``number``, in flight at ``consumer``.

        Said twice it counts once; what another open transaction will settle stays with that one.
        """
        self.signal(Signal.WORK)
        queue = queue_of(consumer)
        if queue is not None and number not in consumer.promised:
            consumer.promised[number] = self.name
            self.settlements.append(Settlement(consumer, queue, number))

    def fail(self, error: Refused) -> None:
        """Doom the transaction: an operation in it failed, so its commit must."""
        self.signal(Signal.FAIL)
        if not self.why:
            self.why = error.message
            self.cause = error
