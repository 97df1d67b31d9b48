"""What was promised to whom, and whether it was kept. Knows nothing of how the broker works, except in `Invariants`.

The promises, exactly:

- *No loss.* A persistent message whose RECEIPT (or whose transaction's COMMIT receipt) came is, for every queue that
  it was sent to and every durable subscription that was confirmed before it was sent: acknowledged by somebody, or in
  the dead letters with that queue as its origin, or still there at the end. Excused are queues that drop when full,
  and what was in a queue when an operator purged it. A copy that was written to an ``auto`` consumer counts as
  acknowledged. In a world without any stop of the broker this holds for messages that are not persistent too.
- *All or nothing.* Of a transaction whose end is unknown, all sends are seen or none, and its acknowledgements hold
  exactly when its sends do. Nothing of an aborted or refused one is ever seen; nor is a send that was refused for want
  of room (ADDRESS FULL).
- *Done is done.* After the receipt of an acknowledgement a copy is never delivered again, whatever crashes. After an
  ``auto`` delivery it is not delivered again before the broker stops.
- *The mark.* A copy that a client has received before, in the same *era*, is delivered with ``redelivered``. An era
  ends with a crash, or with a stop in order on a disk that takes nothing: what was delivered before may come unmarked
  then. What comes over a connection that the broker had ended by then is judged by when it was written.
- *Once.* All deliveries of one simulated message from one queue have one message id: a message that was sent twice
  with one duplicate id is one message. Only one that was never confirmed before a crash may come back under another id.
- *Order.* What one subscription receives without the mark rises per producer, queue, priority and group. (A message of
  a group waits for the owner of its group, and another may get it later, when that owner has gone.)
- *Staged commits.* Of a part nothing is seen before its batch is asked to be published, and of one that lost nothing
  ever. A batch is decided once, what was decided can be published, and what is published is owed once, like the sends
  of a transaction.
- *Blocked is blocked.* While an operator blocks an address, nothing is confirmed that a connection sends to it behind
  the first answer that it gets meanwhile, no commit either, and no branch is promised; behind that all goes on.
- *Leases.* A position, once read, gives the same message every time until it is settled or released; what a confirmed
  lease holds is delivered to nobody else.
- *Expiry.* No consumer receives a message later than `TRANSIT_MS` after its time was over.
- *Bodies* arrive whole. One that the disk has damaged (``rotten``) arrives whole or not at all: what is delivered of
  its message is a dead letter, a look or a leased position without a body, which says how long it was.
- *Records* that rot under a lease: what is shown of one says so, has nothing of its own, and keeps its position. Once a
  READ has shown it so, or a message without its large body, and its receipt came, SETTLE leaves a dead letter of it,
  whatever stops in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.core.addressing.address_settings import FULL_DROP, FULL_FAIL
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.bereaved import BODY_LOST, DEAD_CAUSE
from entrepot.core.queue.stock import octets_held
from entrepot.simulation.blocking import Blocks
from entrepot.simulation.world import World

DEAD_LETTERS: Final = "ActiveMQ.DLQ"
OVERDUE: Final = 1_500_000_000  # ns: brokers look at the wall clock once a second
TRANSIT_MS: Final = 3_000  # how long a message may be on its way to a client: several stalls of 0.7 s

SENT: Final = "sent"
CONFIRMED: Final = "confirmed"
REFUSED: Final = "refused"  # nothing of it may be seen
UNKNOWN: Final = "unknown"


class Transaction:
    """One transaction of one client. ``state``: sent (open), confirmed, refused (aborted), unknown."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = SENT
        self.era = 0  # in which its end was asked for
        self.asked_at = 0  # and when
        self.records: list[Record] = []
        self.acks: list[tuple[Copy, int]] = []  # and how often the copy had been delivered when it was acknowledged


class Record:
    """One message as its producer knows it. ``queues``: where copies must be, ``topics``: whose subscribers get one."""

    def __init__(self, identity: str, producer: str, sequence: int) -> None:
        self.identity = identity
        self.producer = producer
        self.sequence = sequence
        self.destination = ""
        self.headers: dict[str, str] = {}
        self.queues: list[str] = []
        self.topics: list[str] = []
        self.size = 0
        self.persistent = False
        self.priority = 4
        self.expires = 0
        self.color = ""
        self.later = False  # scheduled: out of order
        self.delay_ms = 0  # it was asked to come so much later
        self.repeats = False
        self.duplicate_id = ""
        self.state = SENT
        self.sent_at = 0
        self.connection = ""  # over which it went out first
        self.confirmed_era = -1
        self.rotten = False

    def body(self) -> bytes:
        """Return the octets that every delivery must carry."""
        return body_of(self.identity, self.size)


def body_of(identity: str, size: int) -> bytes:
    """Return a body that says whose it is, from beginning to end."""
    word = (identity + "|").encode()
    return (word * (size // len(word) + 1))[: max(size, len(word))]


class Copy:
    """One message in one queue, as its consumers see it."""

    def __init__(self, queue: str, record: Record) -> None:
        self.queue = queue
        self.record = record
        self.deliveries = 0
        self.era = -1  # of the last delivery
        self.tries = 0  # over CORE, that were rolled back
        self.tries_era = -1  # when that was last
        self.message_id = ""
        self.id_era = -1  # in which that id was seen last
        self.auto_run = -1  # the run of the broker in which it went to an ``auto`` consumer
        self.asked = False  # an acknowledgement was sent
        self.gone = False  # and confirmed
        self.gone_at = 0
        self.excused = False
        self.letter = False  # found in the dead letters
        self.bereft = False  # its reader by lease was told that it is lost: a dead letter is owed
        self.lease = ""


class Subscriber:
    """A durable subscription, confirmed at the time ``since``. ``color``: what its selector wants, "" for all."""

    def __init__(self, topic: str, color: str, since: int) -> None:
        self.topic = topic
        self.color = color
        self.since = since


class Ledger:
    """All promises of one world. Clients write into it what they asked for and what they got."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.records: dict[str, Record] = {}
        self.copies: dict[tuple[str, str], Copy] = {}
        self.transactions: list[Transaction] = []
        self.subscribers: dict[str, Subscriber] = {}
        self.given_back: dict[str, int] = {}  # queue -> when a lease gave back what it held
        self.rotten: dict[str, str] = {}  # message id of what stands for a record that rotted -> whose it is
        self.run = 0
        self.era = 0
        self.stops = 0
        self.blocks: Blocks | None = None

    def _broken(self, copy: Copy, what: str) -> None:
        self.world.violation(f"{copy.record.identity} in {copy.queue}: {what}")

    def copy(self, queue: str, identity: str) -> Copy:
        """Return the copy of ``identity`` in ``queue``."""
        copy = self.copies.get((queue, identity))
        if copy is None:
            copy = Copy(queue, self.records[identity])
            self.copies[(queue, identity)] = copy
        return copy

    # -- producers ----------------------------------------------------------------------------------------------------

    def sent(self, record: Record) -> None:
        """``record`` goes out now."""
        record.sent_at = self.world.time
        self.records[record.identity] = record

    def confirmed(self, record: Record) -> None:
        """Its receipt came: what it was sent to owes it from now on."""
        if self.blocks is not None and not record.later:
            self.blocks.took(record.identity, record.queues, record.sent_at, record.connection)
        self._owed(record)

    def _owed(self, record: Record) -> None:
        record.state = CONFIRMED
        record.confirmed_era = self.era
        for name, subscriber in self.subscribers.items():
            there = subscriber.topic in record.topics and subscriber.since < record.sent_at
            if there and subscriber.color in ("", record.color):
                record.queues.append(name)

    def ending(self, transaction: Transaction) -> None:
        """Its end is asked for now."""
        transaction.era = self.era
        transaction.asked_at = self.world.time

    def ended(self, transaction: Transaction, state: str) -> None:
        """The fate of ``transaction`` is known, or never will be."""
        transaction.state = state
        self.transactions.append(transaction)
        for record in transaction.records:
            if state == CONFIRMED:
                if self.blocks is not None:
                    self.blocks.took(transaction.name, record.queues, transaction.asked_at, record.connection)
                self._owed(record)
            else:
                record.state = state
        if state == CONFIRMED:
            for copy, _ in transaction.acks:
                copy.asked = True
                self.settled(copy)

    # -- consumers ----------------------------------------------------------------------------------------------------

    def delivered(
        self, queue: str, headers: dict[str, str], body: bytes, *, auto: bool, late: bool = False
    ) -> Copy | None:
        """A client received a message from ``queue``; return its copy, None when it is nobody's.

        ``late``: the broker had ended the connection or the subscription before this came, so others may have had it
        since; what it says of itself was true when it was written.
        """
        copy = self.seen(queue, headers, body)
        if copy is None:
            return None
        if BODY_LOST in headers and queue != DEAD_LETTERS:
            self._broken(copy, "delivered to a consumer without its body")
        if late:
            copy.asked = copy.asked or auto
            return copy
        marked = headers.get("redelivered") == "true"
        self._in_time(copy)
        if copy.gone:
            self._broken(copy, "delivered again after its acknowledgement was confirmed")
        if copy.auto_run == self.run:
            self._broken(copy, "delivered again after an automatic acknowledgement in this run")
        if copy.lease:
            self._broken(copy, f"delivered to a consumer while {copy.lease} holds it by lease")
        if not copy.record.repeats:
            if copy.era == self.era and not marked:
                self._broken(copy, "delivered twice, and the second time not marked as redelivered")
            copy.era = self.era
            if auto:
                copy.auto_run = self.run
        copy.deliveries += 1
        if auto:
            copy.asked = True
        self.world.count("deliveries")
        if marked:
            self.world.count("redeliveries")
        return copy

    def taken(self, queue: str, headers: dict[str, str], body: bytes, *, marked: bool) -> Copy | None:
        """A client of CORE was handed a message from ``queue``; return its copy, None when it is nobody's.

        What it gives back without having tried it comes unmarked to the next, as in Artemis: the mark is a promise
        about tries there, not about deliveries.
        """
        copy = self.seen(queue, headers, body)
        if copy is None:
            return None
        self._in_time(copy)
        if copy.gone:
            self._broken(copy, "delivered again after its acknowledgement was confirmed")
        if copy.tries > 0 and not marked and copy.tries_era == self.era and not copy.record.repeats:
            self._broken(copy, f"tried {copy.tries} times, and not marked as redelivered")
        copy.deliveries += 1
        self.world.count("deliveries over CORE")
        return copy

    def tried(self, copies: Iterable[Copy]) -> None:
        """What acknowledged ``copies`` was rolled back: they come again, as tried."""
        for copy in copies:
            copy.tries += 1
            copy.tries_era = self.era

    def _in_time(self, copy: Copy) -> None:
        """Check that the time of a message that is delivered was not over when it went out."""
        record = copy.record
        clock_was_set = self.world.set_back or self.world.clock_peak_ms > 0
        if record.expires == 0 or record.later or copy.queue.startswith(DEAD_LETTERS) or clock_was_set:
            return
        late = self.world.wall() - record.expires
        if late > TRANSIT_MS:
            self._broken(copy, f"delivered {late} ms after its time was over")

    def rots(self, message_id: str, record: Record) -> None:
        """The record of a message that a lease holds is damaged: it is shown as ``message_id``, without anything."""
        record.rotten = True
        self.rotten[message_id] = record.identity

    def is_stand_in(self, headers: dict[str, str]) -> bool:
        """Say whether it was shown in the place of a message whose record rotted."""
        return "sim-id" not in headers and headers.get("message-id", "") in self.rotten

    def seen(self, queue: str, headers: dict[str, str], body: bytes) -> Copy | None:
        """A client was shown a message: delivered, browsed or leased. Check what holds for all three."""
        stands_in = self.is_stand_in(headers)
        identity = self.rotten[headers["message-id"]] if stands_in else headers.get("sim-id", "")
        record = self.records.get(identity)
        if record is None:
            self.world.violation(f"{queue} gave a message that nobody sent: {headers}")
            return None
        origin = headers.get("_AMQ_ORIG_QUEUE", "")
        if queue == DEAD_LETTERS:
            for original in self._originals(record, origin):
                original.letter = True
                if original.gone and not record.rotten:  # of a range it is a dead letter once that is settled
                    self._broken(original, "dead-lettered after its acknowledgement was confirmed")
            queue = f"{DEAD_LETTERS} from {origin}"
        copy = self.copy(queue, identity)
        if stands_in:
            return self._stood_for(copy, headers, body)
        if record.rotten and not body and headers.get(BODY_LOST) == str(record.size):
            self.world.count("bereaved")
        elif body != record.body():
            self._broken(copy, f"its body is wrong: {len(body)} octets, sent {record.size}")
        ahead = self.world.time - record.sent_at + self.world.clock_ms * MILLISECOND
        if (record.delay_ms - 1) * MILLISECOND > ahead and not self.world.set_back:
            self._broken(copy, f"scheduled, and here before its delay of {record.delay_ms} ms was over")
        if record.state == REFUSED:
            self._broken(copy, "it was refused, or its transaction was, and is here all the same")
        message_id = headers.get("message-id", copy.message_id)  # CORE names no message but by its number
        known = copy.id_era == self.era or 0 <= record.confirmed_era <= copy.id_era
        if known and copy.message_id not in ("", message_id) and not record.repeats:
            self._broken(copy, f"here twice, as {copy.message_id} and as {message_id}")
        copy.message_id = message_id
        copy.id_era = self.era
        return copy

    def _stood_for(self, copy: Copy, headers: dict[str, str], body: bytes) -> Copy:
        if body or "the journal is damaged at" not in headers.get(DEAD_CAUSE, ""):
            self._broken(copy, f"its record rotted, and it is shown as {headers} with {len(body)} octets")
        self.world.count("stood for")
        return copy

    def _originals(self, record: Record, origin: str) -> list[Copy]:
        """Return the copies that a dead letter from ``origin`` accounts for; "": it never got into any queue."""
        return [self.copy(queue, record.identity) for queue in ([origin] if origin else record.queues)]

    def lost_in_transit(self, queue: str, identity: str) -> None:
        """It was written to an ``auto`` consumer whose connection ended before it came."""
        copy = self.copy(queue, identity)
        copy.asked = True
        if not copy.record.repeats:
            copy.auto_run = self.run

    def settled(self, copy: Copy) -> None:
        """The receipt of its acknowledgement came."""
        if not copy.record.repeats:
            copy.gone = True
            copy.gone_at = self.world.time

    def in_order(self, last: dict[tuple[str, str, int, str], int], copy: Copy, marked: bool) -> None:
        """Check a delivery against what the same subscription received before (``last``)."""
        record = copy.record
        if marked or record.later or copy.queue.startswith(DEAD_LETTERS):
            return
        key = (record.producer, copy.queue, record.priority, record.headers.get("JMSXGroupID", ""))
        before = last.get(key, -1)
        if record.sequence <= before:
            self._broken(copy, f"out of order: behind number {before} of {record.producer}, without the mark")
        last[key] = record.sequence

    def purged(self, queue: str) -> None:
        """An operator empties ``queue``: what has been sent to it so far may be gone."""
        for record in self.records.values():
            if queue in record.queues:
                self.copy(queue, record.identity).excused = True

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Check what can be known only when all queues have been emptied."""
        for transaction in consumers_first([one for one in reversed(self.transactions) if one.state == UNKNOWN]):
            self._finish_unknown(transaction)
        for record in self.records.values():
            if record.state == CONFIRMED and self._is_owed(record):
                for queue in record.queues:
                    copy = self.copy(queue, record.identity)
                    if not (copy.asked or copy.letter or copy.excused):
                        self._broken(copy, "confirmed, and lost")
        for copy in self.copies.values():
            if copy.bereft and copy.gone and not (copy.letter or copy.excused):
                self._broken(copy, "its reader was told that it is lost, settled it, and no dead letter says so")

    def _is_owed(self, record: Record) -> bool:
        return record.persistent or (self.stops == 0 and not record.expires)

    def _finish_unknown(self, transaction: Transaction) -> None:
        """All or nothing. What was seen only before a crash proves nothing: consumers see what is not synced yet."""
        visible: list[Copy] = []
        missing: list[Copy] = []
        for record in transaction.records:
            for queue in record.queues if record.persistent else ():
                copy = self.copy(queue, record.identity)
                crashed = self.era > transaction.era
                if copy.gone or (copy.era > transaction.era if crashed else copy.deliveries > 0):
                    visible.append(copy)
                elif not (copy.excused or copy.letter or copy.asked):
                    missing.append(copy)
        if visible and missing:
            self._broken(missing[0], f"{transaction.name} was half done: {visible[0].record.identity} is there")
        for copy, deliveries in transaction.acks:
            if visible and copy.deliveries > deliveries and not copy.record.repeats:
                self._broken(copy, f"delivered again although {transaction.name}, which acknowledged it, was done")
            if visible or not missing:
                copy.asked = True


class Invariants:
    """What must hold inside of the broker between any two events. ``every``: how many events pass between two looks."""

    def __init__(self, world: World, every: int, slack: int) -> None:
        """``slack``: octets by which a queue that fails or drops may pass its limit: one transaction, one chunk."""
        self.world = world
        self.every = every
        self.slack = slack
        self._overdue: tuple[BrokerCore, int] | None = None  # since when a scheduled message should have gone out

    def look(self, broker: BrokerCore | None) -> None:
        """Check now and then. Raises AssertionError from the broker's own checks."""
        if broker is not None and self.world.events % self.every == 0:
            self.check(broker)

    def _look_at_dates(self, broker: BrokerCore) -> None:
        """What was scheduled goes out when its date or the end of its delay has come, however the clock was set."""
        late = broker.scheduled.dates.is_late(int(broker.wall), int(broker.now)) and broker.journal.refusal() is None
        before = self._overdue
        if not late:
            self._overdue = None
        elif before is None or before[0] is not broker:
            self._overdue = (broker, self.world.time)
        elif self.world.time - before[1] > OVERDUE:
            self.world.violation(f"a scheduled message is overdue since {before[1]}")

    def check(self, broker: BrokerCore) -> None:
        """Check everything."""
        broker.check()
        self._look_at_dates(broker)
        for lease in broker.leases.held.values():
            lease.check()
        for queue in broker.table.queues.values():
            owners: dict[str, int] = {}
            for consumer in queue.roster.consumers:
                window = consumer.window
                if window.used > window.messages:
                    self.world.violation(f"{window.used} unsettled on {queue.name}, {window.messages} agreed")
                for reference in consumer.in_flight.values():
                    rare = reference.message.rare
                    if rare is not None and rare.group.startswith("one-"):
                        holder = owners.setdefault(rare.group, int(consumer.key))
                        if holder != consumer.key:
                            self.world.violation(f"{rare.group} is at two consumers of {queue.name} at once")
            bounded = queue.policy.full in (FULL_FAIL, FULL_DROP)
            returned = queue.returns.requeued > 0 or broker.leases.on(queue)
            held = octets_held(queue.backlog, queue.policy)
            if bounded and not returned and held > queue.policy.max_octets + self.slack:
                self.world.violation(f"{queue.name} holds {held} of {queue.policy.max_octets} octets")


def consumers_first(transactions: list[Transaction]) -> list[Transaction]:
    """Return them in an order in which each comes behind those that may have consumed what it sent.

    They end in any order: when a broker dies, one connection after the other finds out.
    """
    ordered: list[Transaction] = []
    left = list(transactions)
    while left:
        consumed = [{copy.record.identity for copy, _ in one.acks} for one in left]
        ready = [
            one
            for at, one in enumerate(left)
            if not any(
                record.identity in consumed[other]
                for record in one.records
                for other in range(len(left))
                if other != at
            )
        ]
        if not ready:  # each consumed of another: no order tells more than this one
            return ordered + left
        ordered += ready
        left = [one for one in left if one not in ready]
    return ordered
