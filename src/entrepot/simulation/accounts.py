"""What programs with the real client were promised, and what they saw. Knows nothing of how client and broker work.

- *Answers.* Whatever was asked is answered, once, when all has healed.
- *No loss.* What was confirmed, by its answer or by that of its transaction's commit, is settled by a program, or is in
  a queue at the end.
- *Done is done.* What a program settled and had confirmed, alone or with its transaction, is handed out no more. A
  message that was sent again to another store than the one that did not answer is excused: both may have it.
- *All or nothing.* Of a transaction that was rolled back, by the program or by its end, nothing is ever seen; of one in
  doubt all is seen, and what it took is settled, or nothing.
- *Order.* What one consumer is handed for the first time, by one broker, rises for each sender. In CORE only where it
  is alone: a rollback gives back all that a consumer had, also what it never handed out, and that is not marked.
- *Tries.* What a rollback gave back says so when it is handed out again by a broker that has not fallen since.
- *A move is no loss.* Where brokers only ask programs to move, no transaction is in doubt or rolled back.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError, TransactionInDoubt, TransactionRolledBack
from entrepot.protocols.conversing.port import DeliveryPort
from entrepot.simulation.tongues import name_in
from entrepot.simulation.world import World

SENT: Final = "sent"
CONFIRMED: Final = "confirmed"
DROPPED: Final = "dropped"  # nothing of it may be seen
DOUBTFUL: Final = "doubtful"


class Message:
    """One message as its sender knows it. ``again``: it may be in more than one store. ``work``: its transaction."""

    def __init__(self, sender: str, queue: str, work: Work | None = None) -> None:
        self.sender: Final = sender
        self.queue: Final = queue
        self.work: Final = work
        self.state = SENT
        self.again = False
        self.handed = 0
        self.handed_at: Instant = 0  # first
        self.tries: dict[str, int] = {}  # who counts -> how often a rollback undid it since the last broker fell
        self.settled = False
        self.gone = False


class Work:
    """One transaction: what it sent, and what it took. ``given_up``: the program asked to roll it back."""

    def __init__(self, name: str, target: str) -> None:
        self.name: Final = name
        self.target: Final = target
        self.sends: list[str] = []
        self.taken: list[str] = []
        self.given_up = False
        self.asked_at: Instant = 0  # its commit
        self.ended_at: Instant = 0


class Account:
    """All messages by name, and what became of them. ``calm``: nothing breaks in this world, programs are moved."""

    def __init__(self, world: World, *, calm: bool, stores: int, returns: bool) -> None:
        """``returns``: what one consumer had and did not hand out may come unmarked to another, behind newer ones."""
        self.world: Final = world
        self.calm: Final = calm
        self.stores: Final = stores
        self.returns: Final = returns
        self.readers: dict[str, int] = {}  # queue -> how many programs read it
        self.messages: dict[str, Message] = {}
        self.works: list[Work] = []
        self.doubtful: list[Work] = []
        self.found: dict[str, int] = {}  # in the stores, at the end
        self.crashes: list[Instant] = []  # of any broker
        self._last: dict[tuple[tuple[str, int], str], int] = {}
        self._counts: dict[str, int] = {}

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, sender: str, queue: str) -> str:
        """Return the name of a new message."""
        return self._new(sender, Message(sender, queue))

    def confirmed(self, name: str) -> None:
        """Its sender was told that it is stored."""
        self.messages[name].state = CONFIRMED
        self.world.note(f"confirmed {name}")

    def interrupted(self, sender: str) -> None:
        """What ``sender`` has no answer to may be sent to another store."""
        if self.stores > 1:
            for message in self.messages.values():
                if message.sender == sender and message.state == SENT and message.work is None:
                    message.again = True

    # -- transactions --------------------------------------------------------------------------------------------------

    def begin(self, worker: str, target: str) -> Work:
        """Return a new transaction."""
        work = Work(f"{worker}#{len(self.works)}", target)
        self.works.append(work)
        return work

    def work_sends(self, work: Work) -> str:
        """Return the name of a new message of ``work``."""
        worker = work.name.partition("#")[0]
        name = self._new(worker, Message(worker, work.target, work))
        work.sends.append(name)
        return name

    def ended(self, work: Work, error: EntrepotError | None) -> None:
        """The end of ``work`` was answered."""
        work.ended_at = self.world.time
        if isinstance(error, TransactionInDoubt):
            self.doubtful.append(work)
            self._become(work, DOUBTFUL)
        elif work.given_up or isinstance(error, TransactionRolledBack):
            self._become(work, DROPPED)
        elif error is None:
            self._become(work, CONFIRMED)
            for name in work.taken:
                self.messages[name].settled = self.messages[name].gone = True
        else:
            self.world.violation(f"{work.name} ended with {type(error).__name__}: {error.message}")
        if self.calm and isinstance(error, (TransactionInDoubt, TransactionRolledBack)):
            self.world.violation(f"{work.name}: {error.message}, and nothing had happened but a move")
        self.world.note(f"{work.name} ended {'' if error is None else type(error).__name__}")

    def undone(self, work: Work, counter: str) -> None:
        """The broker rolled ``work`` back when it was asked to: what it took counts as tried.

        ``counter``: the connection whose client counts that alone; "" where the broker does.
        """
        for name in work.taken:
            tries = self.messages[name].tries
            tries[counter] = tries.get(counter, 0) + 1

    def fell(self) -> None:
        """A broker goes down: how often what it has was tried may be forgotten."""
        self.crashes.append(self.world.time)
        for message in self.messages.values():
            message.tries.clear()

    def _become(self, work: Work, state: str) -> None:
        for name in work.sends:
            self.messages[name].state = state
            if state == DROPPED and self.messages[name].handed:
                self.world.violation(f"{name} was handed out, and its transaction was rolled back")

    # -- receiving -----------------------------------------------------------------------------------------------------

    def handed(self, reader: str, era: int, delivery: DeliveryPort, counter: str = "") -> str:
        """``reader`` was handed a message; return its name.

        ``era``: how often it had come to a broker; ``counter``: as `undone` has it.
        """
        name = name_in(delivery.body())
        if name not in self.messages:
            self.world.violation(f"{reader} is handed {name}, which nobody sent")
            return name
        message = self.messages[name]
        message.handed += 1
        message.handed_at = message.handed_at or self.world.time
        self.world.count("deliveries")
        self.world.note(f"{reader} has {name} again={delivery.redeliveries}")
        if message.gone and not message.again:
            self.world.violation(f"{reader} is handed {name}, which was settled")
        if message.state == DROPPED:
            self.world.violation(f"{reader} is handed {name}, whose transaction was rolled back")
        tries = max(message.tries.get(one, 0) for one in ("", counter))
        if delivery.redeliveries < tries and not message.again:
            self.world.violation(f"{reader} is handed {name} as tried {delivery.redeliveries} of {tries} times")
        if delivery.redeliveries:
            self.world.count("redeliveries")
        elif message.work is None and not (self.returns and self.readers.get(message.queue, 0) > 1):
            self._in_order((reader, era), message, name)
        return name

    def untouched(self, queue: str) -> set[str]:
        """Return the messages that must be in the only store: confirmed, and never handed to anybody."""
        if self.stores > 1:
            return set()
        return {
            name
            for name, message in self.messages.items()
            if message.queue == queue and message.state == CONFIRMED and message.handed == 0
        }

    def shown(self, looker: str, delivery: DeliveryPort) -> str:
        """``looker`` was shown a message; return its name."""
        name = name_in(delivery.body())
        self.world.count("messages shown")
        if name not in self.messages:
            self.world.violation(f"{looker} is shown {name}, which nobody sent")
        elif self.messages[name].state == DROPPED:
            self.world.violation(f"{looker} is shown {name}, whose transaction was rolled back")
        return name

    def settled(self, delivery: DeliveryPort) -> None:
        """A program settled a message; whether the broker knows that is open."""
        message = self.messages.get(name_in(delivery.body()))
        if message is not None:
            message.settled = True

    def gone(self, delivery: DeliveryPort) -> None:
        """The broker has stored that."""
        self.world.count("confirmed acknowledgements")
        self.messages[name_in(delivery.body())].gone = True

    def _in_order(self, by: tuple[str, int], message: Message, name: str) -> None:
        key = (by, message.sender)
        number = int(name.rpartition(".")[2])
        if number < self._last.get(key, -1):
            self.world.violation(f"{by[0]} is handed {name} behind {message.sender}.{self._last[key]}")
        self._last[key] = max(number, self._last.get(key, -1))

    # -- the reckoning -------------------------------------------------------------------------------------------------

    def reckon(self) -> None:
        """All is over, and ``found`` says what the stores hold: see that every promise was kept."""
        for work in self.doubtful:
            shown = self._shows(work)
            carried = shown and self._is_seen(work)
            for name in work.taken:
                message = self.messages[name]
                message.settled = message.settled or carried or not shown  # nobody knows, where nothing shows it
                message.gone = message.gone or carried
        for name, message in self.messages.items():
            if message.state == CONFIRMED and not message.settled and name not in self.found:
                self.world.violation(f"{name} was confirmed, and is lost")
            if message.state == DROPPED and name in self.found:
                self.world.violation(f"{name} is stored, and its transaction was rolled back")
            if message.gone and name in self.found and not message.again:
                self.world.violation(f"{name} was settled, and is stored")
            if self.found.get(name, 0) > 1 and not message.again:
                self.world.violation(f"{name} is stored {self.found[name]} times")

    def _shows(self, work: Work) -> bool:
        """Tell whether what ``work``, in doubt, sent shows its fate: what was seen before a crash may be gone since."""
        crashed = any(work.asked_at <= at <= work.ended_at for at in self.crashes)
        early = any(0 < self.messages[name].handed_at <= work.ended_at for name in work.sends)
        return bool(work.sends) and not (crashed and early)

    def _is_seen(self, work: Work) -> bool:
        """Tell whether what ``work`` sent is seen: all of it, or nothing. What it took is settled then, or not."""
        seen = [name for name in work.sends if name in self.found or self.messages[name].handed]
        if 0 < len(seen) < len(work.sends):
            self.world.violation(f"of {work.name}, in doubt, {len(seen)} of {len(work.sends)} are seen")
        return bool(seen)

    def _new(self, sender: str, message: Message) -> str:
        number = self._counts[sender] = self._counts.get(sender, 0) + 1
        name = f"{sender}.{number}"
        self.messages[name] = message
        self.world.count("sends")
        return name
