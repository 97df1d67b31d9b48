"""Bugs that are planted to show that the simulation finds them. None of them is in the product.

Some are planted through ports, so they work in every build; the others replace a method, which native callers of the
compiled build do not notice: those are planted in the plain build only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from entrepot.core.effort import Rest
from entrepot.core.leases.lease import Lease
from entrepot.core.leases.lease_records import ClaimRecord
from entrepot.core.leases.lost import LostRecords
from entrepot.core.queue import stock as stocks
from entrepot.core.queue import values as last_values
from entrepot.core.queue.backlog import Backlog, Reference
from entrepot.core.queue.bereaved import record_flaw
from entrepot.core.queue.consumer import Consumer, Window
from entrepot.core.queue.dispatch import Groups
from entrepot.core.queue.dispatcher import Dispatcher
from entrepot.core.queue.gate import Gate
from entrepot.core.queue.queue import UNKNOWN_DELIVERED, Queue
from entrepot.core.queue.stock import Stock
from entrepot.core.queue.taking import Pick
from entrepot.core.queue.values import LastValues
from entrepot.core.records import KIND_CLAIM, KIND_COUNT, KIND_DECISION, KIND_PUBLICATION, STAGED_QUEUE
from entrepot.core.scheduling.timed import Dates
from entrepot.core.sending.duplicates import Duplicates
from entrepot.core.sending.flow import FlowControl
from entrepot.core.sending.handing import Owing, Postponement, enter
from entrepot.core.stages.counting import Author, Counts
from entrepot.core.stages.publishing import Publishing
from entrepot.core.stages.stage import Stages
from entrepot.core.stages.staged import Publication, Stage
from entrepot.core.transactions.branches import Branches
from entrepot.core.transactions.carrying import PRIVATE, Work
from entrepot.driver.commit import Commit
from entrepot.driver.effects import Answer, Course
from entrepot.driver.holding import Holding
from entrepot.driver.holding import _Octets as Octets
from entrepot.driver.offsets import Offsets
from entrepot.driver.shard import Shard
from entrepot.journal import reclaiming, window
from entrepot.journal.compaction import Compaction
from entrepot.journal.index import DEAD
from entrepot.journal.locating import Locating
from entrepot.journal.log import JournalCore
from entrepot.journal.moves import Move
from entrepot.journal.moving import carry_out, is_whole
from entrepot.journal.overflow import CHECK, STRETCH, Overflow
from entrepot.journal.parts import Parts as BracketInParts
from entrepot.journal.reading import Records
from entrepot.journal.record import MOVE, RECORD_HEAD, head_valid
from entrepot.model.address import parse
from entrepot.model.message import DEFAULT_PRIORITY, Message
from entrepot.protocols.artemis.delivery import CoreSubscription
from entrepot.protocols.artemis.large import LargeDelivery
from entrepot.protocols.artemis.replies import Replies
from entrepot.protocols.artemis.settling import Settling as CoreSettling
from entrepot.protocols.large_body import LargeBody
from entrepot.protocols.stomp.entries import Entries
from entrepot.protocols.stomp.leasing import Leasing
from entrepot.protocols.stomp.server import StompSession
from entrepot.protocols.stomp.settling import Settling
from entrepot.protocols.stomp.transacting import Transacting
from entrepot.protocols.stomp.writing import Writing
from entrepot.simulation.campaign import run
from entrepot.simulation.machine import FusedDisk, Parts
from entrepot.simulation.network import Link

latest = Holding.latest
lease_fields = Shard._fields
add_record = Entries.add_record
go_to = Records.go_to
locate = Locating.go_to
read_lost = LostRecords.read
asked = Commit._ask
published = Commit._publish


replied = Replies.answer
spent = CoreSubscription.spend
gave_back = CoreSettling._give_back


SEEDS_MAX: Final = 150


class Bug(NamedTuple):
    """``parts`` replaces ports; ``patches`` are (owner, name, replacement)."""

    parts: Parts = Parts()
    patches: tuple[tuple[Any, str, Any], ...] = ()


# -- over CORE ---------------------------------------------------------------------------------------------------------


def says_it_at_once(self: Replies, packet: Any, stored: bool) -> None:
    replied(self, packet, False)


def spends_too_much(self: CoreSubscription, octets: int) -> None:
    spent(self, octets + octets // 4)


def counts_no_tries(self: CoreSettling, subscription: Any, settled: Any, seen: bool) -> None:
    before = dict(settled.consumers)
    settled.consumers.clear()
    for consumer, numbers in before.items():
        for number in numbers if consumer.queue is not None else ():
            consumer.queue.give_back(consumer, number, False)
    gave_back(self, subscription, settled, False)


def nothing_more(self: LargeBody) -> bytes:
    self.done = True
    return b""


# -- through ports -----------------------------------------------------------------------------------------------------


class HastyDisk(FusedDisk):
    """Says that a sync is done when it has only been asked for."""

    def sync(self, token: int) -> None:
        self.answers.soon(lambda: self.answers.events.synced(token))
        super().sync(-1)  # a token that nobody waits for


class Unsettled(JournalCore):
    """Keeps no settlements."""

    def settle(self, number: int, queue_id: int) -> None:
        pass


class Unclaimed(JournalCore):
    """Keeps no claims of leases."""

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        if kind != KIND_CLAIM:
            super().put(kind, key, value)


class Undecided(JournalCore):
    """Keeps no decisions of staged commits."""

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        if kind != KIND_DECISION:
            super().put(kind, key, value)


class Unpublished(JournalCore):
    """Keeps no note of what was published."""

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        if kind != KIND_PUBLICATION:
            super().put(kind, key, value)


class Overstaged(JournalCore):
    """Forgets the end of a stage: its runs come back, and with them what was sent on already."""

    def settle(self, number: int, queue_id: int) -> None:
        if queue_id != STAGED_QUEUE:
            super().settle(number, queue_id)


class Unmoved(JournalCore):
    """Publishes what is staged in memory alone: no record says that it has its queue."""

    def move(self, first: int, count: int, source: int, queue_id: int, fresh: int) -> bool:
        move = Move(first, count, queue_id, fresh, self.tail.sequence + 1)
        if not is_whole(self.tail.index, move, source):
            return False
        carry_out(self.tail.index, move, source)
        return True


COPY = Compaction._copy


def without_moves(self: Compaction, source: Any, data: bytes, place: int, size: int) -> None:
    if data[place + RECORD_HEAD] != MOVE:
        COPY(self, source, data, place, size)


def forgets_all_moves(index: Any) -> None:
    index.moves.keep([])


STAGED_RUNS = Publishing.add


def from_the_end(self: Publishing, publication: Publication, stage: Stage) -> None:
    STAGED_RUNS(self, publication, stage)
    publication.work.reverse()


class Unbracketed(JournalCore):
    """Writes each message for itself, whatever it belongs to."""

    def store(self, message: Message, queues: list[int]) -> None:
        super().store(message, queues)
        self.tail.hand_over()


class Forgetful(JournalCore):
    """Does not store every tenth message."""

    def store(self, message: Message, queues: list[int]) -> None:
        if message.number % 10:
            super().store(message, queues)


# -- by replacing a method ---------------------------------------------------------------------------------------------


def restore_at_the_tail(self: Backlog, reference: Reference) -> None:
    message = reference.message
    level = self.main
    if self.prioritized and message.priority != DEFAULT_PRIORITY:
        level = self._level(message.priority)
    level.append(reference)
    self.loaded += 1
    self.octets += message.size


def half_batch_is_enough(data: bytes, at: int, segment: int, offset: int) -> bool:
    return head_valid(data, at, segment, offset)


def owner_or_nobody(self: Groups, group: str) -> Consumer | None:
    self.evicted += 1
    return None if self.evicted % 5 == 0 else self.owners.get(self.key(group))


def never_seen(self: Duplicates, address: str, identity: bytes) -> bool:
    return False


def always_open(self: Window) -> bool:
    return self.pauses == 0


LEASING_ENDS = Leasing.detach


def still_wants(self: Leasing) -> None:
    self.demands.clear()
    LEASING_ENDS(self)


PICKED = Pick.__init__
LEASE_WRITTEN = Lease._write


def as_if_none_were_held(self: Octets, shard: Shard, *, moved: bool) -> None:
    self._left -= shard.ledger.take_octets()


def as_if_sent_empty(self: LostRecords, journal: Any, low: int, numbers: list[int], octets: int) -> list[Message]:
    found = read_lost(self, journal, low, numbers, octets)
    for message in found:
        if record_flaw(message):
            message.need_rare().annotations.clear()
    return found


def without_a_bound(self: Pick, selector: Any, since: int = 0, until: int = 0, most: int = 0) -> None:
    PICKED(self, selector, since, 0, most)


def forgets_its_bound(self: Lease, journal: Any) -> None:
    until, self.until = self.until, 0
    LEASE_WRITTEN(self, journal)
    self.until = until


RECOVERED = Lease.recovered


def recovered_a_place_too_far(self: Lease, claim: ClaimRecord) -> None:
    RECOVERED(self, msgspec.structs.replace(claim, numbers=claim.numbers[1:] + claim.numbers[:1]))


class Uncounted(JournalCore):
    """Does not keep who counts the batches of a sink."""

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        if kind != KIND_COUNT:
            super().put(kind, key, value)


def anybody_counts(self: Counts, sink: str, author: Author) -> None:
    """Takes the batch of one for the batch of another, as long as the numbers agree."""


SEND_STAGED = Stages.send


def seen_at_once(self: Stages, stage: Stage, message: Message, target: Any) -> int:
    self.broker.send(message.twin(message.address), target)
    return SEND_STAGED(self, stage, message, target)


DECIDE = Stages.decide


def decided_anew(self: Stages, sink: str, batch: int, parts: list[str], author: Author) -> list[str]:
    self.decisions.get(sink, {}).pop(batch, None)
    return DECIDE(self, sink, batch, parts, author)


PUBLISH = Stages.publish


def publish_all(self: Stages, sink: str, batch: int, parts: list[str], author: Author) -> Publication:
    for stage in self.of(sink, batch):
        if stage.closed and stage.part not in parts:
            for first, text in zip(stage.runs[::3], stage.runs[2::3], strict=True):
                message = self.broker.journal.reading.load(first)
                self.broker.send(message.twin(message.address), self.broker.target(parse(stage.targets[text])))
    return PUBLISH(self, sink, batch, parts, author)


WRITE_FIXED = Writing.write_fixed


def without_the_mark(self: Writing, writer: Any, message: Message, deliveries: int) -> None:
    WRITE_FIXED(self, writer, message, 0)


def never_set(self: Dates, wall: int, now: int) -> bool:
    return False


def goes_on(self: Gate) -> None:
    pass


DETACH = Queue.detach


def without_its_promises(self: Queue, consumer: Consumer, last_delivered: int = UNKNOWN_DELIVERED) -> None:
    consumer.promised.clear()
    DETACH(self, consumer, last_delivered)


def any_stretch(self: Overflow, blob_id: int, at: int, size: int, checked: bool) -> bytes:
    octets = self._port.blob_read(blob_id, at + at // STRETCH * CHECK, size)
    return octets + bytes(size - len(octets))


def overtaken(self: Dispatcher) -> None:
    self._work_later()


RESUME = StompSession.resume


def without_the_rest(self: StompSession, now: int) -> None:
    if self.unfinished:
        self.reader.data = b""
        self.reader.at = 0
    RESUME(self, now)


RECEIVE = StompSession.receive


def the_newest_first(self: StompSession, data: bytes, now: int) -> None:
    rest = self.reader.data[self.reader.at :] if self.unfinished else b""
    if rest and data:
        self.reader.data = b""
        self.reader.at = 0
        RECEIVE(self, data, now)
        RECEIVE(self, rest, now)
    else:
        RECEIVE(self, data, now)


PORTION = Work.portion


def in_halves(self: Work, most: int) -> bool:
    """Says with each part of the bracket that this was all."""
    complete = PORTION(self, most)
    parts = self.host.journal.parts
    if parts.open and not parts.inside:
        parts.end()
        parts.begin(PRIVATE)
    return complete


def enters_at_once(self: Postponement, message: Message, queue: Queue) -> None:
    """Lets others see what a commit has stored, and does not mind that they rely on it."""
    enter(self.host, queue, message)


class Nobody(Rest):
    """Goes nowhere."""

    def resume(self) -> None:
        pass


def answered_at_once(self: Transacting, headers: dict[str, str]) -> None:
    transaction = self._ended(headers)
    self.session.broker.transactions.commit(transaction, Nobody())
    self._committed(transaction)


OWING = Owing.resume


def forgets_who_did_not_have_it(self: Owing) -> None:
    for queue in self.queues[self.at :] if self.at > 0 else []:
        if queue.backlog.owed is not None:
            for message in queue.backlog.owed.messages():
                self.host.memory.release(message)
            queue.backlog.owed = None
    OWING(self)


ACCEPT = Queue.accept


def before_what_it_is_owed(self: Queue, message: Message) -> None:
    owed = self.backlog.owed
    self.backlog.owed = None
    ACCEPT(self, message)
    self.backlog.owed = owed


SETTLE = Settling.settle


def answered_before_the_disk(self: Settling, negative: bool) -> None:
    confirm = self.answers.confirm
    self.answers.confirm = lambda on_disk: confirm(False)  # type: ignore[method-assign]
    try:
        SETTLE(self, negative)
    finally:
        del self.answers.confirm


def as_if_finished(self: Link) -> bool:
    return self.server.readable


def settles_what_it_claims(
    self: Holding, start: Offsets, budget: int | None, *, settle: bool = True
) -> Course[Offsets]:
    end = yield from latest(self, start, budget, settle=settle)
    yield from self.settle(end.shards)  # Spark has not even begun the batch
    return end


def never_settles(self: Shard, up_to: int) -> Course[None]:
    yield from ()


def as_it_was_lent(self: Shard, headers: dict[str, str]) -> dict[str, str]:
    moved = self._claimed_on is not self.line
    return {**lease_fields(self, headers), "epoch": str(self.ledger.epoch - moved)}


def publishes_what_it_offered(self: Commit, broker: str, command: str, fields: Mapping[str, str]) -> Course[Answer]:
    answer = yield from asked(self, broker, command, fields)
    return {**answer, "parts": fields["parts"]} if command == "DECIDE" else answer


def under_its_old_number(self: Entries, records: Records, position: int, deliveries: int) -> bool:
    """Identifies a message by its record, which a publication has given another number."""
    known = records.number
    records.number = int.from_bytes(records.data[records.at + 10 : records.at + 18], "big")
    written = add_record(self, records, position, deliveries)
    records.number = known
    return written


def where_the_last_one_was(self: Records, position: int, most: int) -> int:
    """Stays at a record of which the length alone is that of the next."""
    at, stretch = self.at, self.data
    length = go_to(self, position, most)
    if self.data is stretch and self.number % 7 == 0 and at + length <= len(stretch):
        self.at, self.end = at, at + length
    return length


def where_the_last_one_is(self: Locating, position: int) -> bool:
    """Tells the place of the message before, where that is as long."""
    offset, length, segment = self.offset, self.length, self.segment
    found = locate(self, position)
    if found and segment is self.segment and length == self.length:
        self.offset = offset
    return found


def before_the_disk_has_it(self: Locating, position: int) -> bool:
    index = self.tail.index
    segment = index.find(self.numbers[position])
    if segment is None or segment.states[index.slot] == DEAD:
        return False
    self.number, self.segment = self.numbers[position], segment
    self.offset, self.length = int(segment.offsets[index.slot]), int(segment.lengths[index.slot])
    return True


def all_but_one(self: Commit, fields: Mapping[str, str], by_broker: Mapping[str, Sequence[str]]) -> Course[int]:
    return (yield from published(self, fields, {broker: parts[1:] for broker, parts in by_broker.items()}))


def not_told(stock: Stock, reference: Reference) -> None:
    """Removes what is replaced from memory alone: after a crash it is there again."""
    stock.remove(reference)
    stock.memory.release(reference.message)


def the_newest_goes(stock: Stock) -> None:
    """Removes from the wrong end of a ring."""
    while stock.backlog.loaded > 0 and stock.backlog.count > stock.ring:
        stocks.replace(stock, stock.backlog.references()[-1])


def above_newer_ones(values: LastValues, reference: Reference) -> None:
    """Lets a value that comes back wait beside the one that came meanwhile."""
    Stock.put_back(values, reference)


WAIT = FlowControl.wait
UNBLOCK = FlowControl.unblock


def waits_for_room_alone(self: FlowControl, key: int, waiter: Any) -> None:
    self.blocking_addresses = []
    WAIT(self, key, waiter)


def forgets_who_waits(self: FlowControl, address: str) -> None:
    self.waiting = {key: one for key, one in self.waiting.items() if address not in one.addresses}
    UNBLOCK(self, address)


def by_memory_alone(self: Stock) -> bool:
    """Does not count what waits on disk."""
    return bool(self.backlog.octets >= self.head.policy.max_octets or self.memory.used >= self.memory.limit)


BUGS = {
    "what waits on disk fills no queue": Bug(patches=((Stock, "is_full", by_memory_alone),)),
    "who sends to a blocked address waits for room alone": Bug(patches=((FlowControl, "wait", waits_for_room_alone),)),
    "a transaction does not wait for a blocked address": Bug(patches=((FlowControl, "is_blocked", lambda *_: False),)),
    "what is replaced is not settled on disk": Bug(
        patches=((last_values, "replace", not_told), (stocks, "replace", not_told))
    ),
    "what a last-value queue holds is not looked at after a crash": Bug(
        patches=((LastValues, "rebuild", lambda *_: None),)
    ),
    "a value that comes back does not mind a newer one": Bug(patches=((LastValues, "put_back", above_newer_ones),)),
    "a ring loses what is new": Bug(patches=((stocks, "trim", the_newest_goes),)),
    "a driver publishes what it offered, not what was decided": Bug(
        patches=((Commit, "_ask", publishes_what_it_offered),)
    ),
    "a driver forgets one part of what was decided": Bug(patches=((Commit, "_publish", all_but_one),)),
    "a driver settles what it has only claimed": Bug(patches=((Holding, "latest", settles_what_it_claims),)),
    "a driver adds to what it holds already": Bug(patches=((Octets, "spend", as_if_none_were_held),)),
    "a claim does not count octets": Bug(patches=((Pick, "is_full", lambda *_: False),)),
    "a claim takes what came behind its bound": Bug(patches=((Pick, "__init__", without_a_bound),)),
    "a broker forgets the bound of a lease": Bug(patches=((Lease, "_write", forgets_its_bound),)),
    "an entry has the number that its message had": Bug(patches=((Entries, "add_record", under_its_old_number),)),
    "an entry is that of the message before": Bug(patches=((Records, "go_to", where_the_last_one_was),)),
    "a place is that of the message before": Bug(patches=((Locating, "go_to", where_the_last_one_is),)),
    "a place is told before the disk has it": Bug(patches=((Locating, "go_to", before_the_disk_has_it),)),
    "a driver never settles": Bug(patches=((Shard, "settle", never_settles),)),
    "a broker that is back is asked in an epoch that is over": Bug(patches=((Shard, "_fields", as_it_was_lent),)),
    "what has expired is delivered": Bug(patches=((Stock, "is_over", lambda *_: False),)),
    "checksums of bodies are not looked at": Bug(
        patches=((Overflow, "_stretch", any_stretch), (Overflow, "flaw_of", lambda *_: ""))
    ),
    "what has lost its body is delivered again and again": Bug(patches=((Stock, "flaw", lambda *_: ""),)),
    "acknowledge before sync": Bug(Parts(disk=HastyDisk)),
    "settlements are not journaled": Bug(Parts(journal=Unsettled)),
    "claims are not journaled": Bug(Parts(journal=Unclaimed)),
    "a ledger slips at a restart": Bug(patches=((Lease, "recovered", recovered_a_place_too_far),)),
    "a demand outlives its connection": Bug(patches=((Leasing, "detach", still_wants),)),
    "what a reader was shown as lost is forgotten at a restart": Bug(
        patches=((LostRecords, "recovered", lambda *_: None),)
    ),
    "what a reader was shown as lost leaves no dead letter": Bug(patches=((LostRecords, "bury", lambda *_: None),)),
    "a READ shows what is lost as an empty message": Bug(patches=((LostRecords, "read", as_if_sent_empty),)),
    "decisions are not journaled": Bug(Parts(journal=Undecided)),
    "publications are not journaled": Bug(Parts(journal=Unpublished)),
    "what was sent on stays staged": Bug(Parts(journal=Overstaged)),
    "what is published by one record is not on disk": Bug(Parts(journal=Unmoved)),
    "a rewrite drops the record that a publication is": Bug(patches=((Compaction, "_copy", without_moves),)),
    "a rewrite forgets which number a message had": Bug(patches=((reclaiming, "prune", forgets_all_moves),)),
    "a stage is published from its end": Bug(patches=((Publishing, "add", from_the_end),)),
    "what is staged is seen at once": Bug(patches=((Stages, "send", seen_at_once),)),
    "the last decision stands": Bug(patches=((Stages, "decide", decided_anew),)),
    "who counts a sink is not journaled": Bug(Parts(journal=Uncounted)),
    "anybody counts the batches of a sink": Bug(patches=((Counts, "check", anybody_counts),)),
    "losers are published too": Bug(patches=((Stages, "publish", publish_all),)),
    "a transaction is written in pieces": Bug(Parts(journal=Unbracketed)),
    "half of a large commit is on disk": Bug(patches=((Work, "portion", in_halves),)),
    "a large commit is seen before all of it is stored": Bug(
        patches=((Postponement, "put", enters_at_once), (BracketInParts, "touch", lambda *_: None))
    ),
    "a large commit is answered before it is done": Bug(patches=((Transacting, "commit", answered_at_once),)),
    "not every message is stored": Bug(Parts(journal=Forgetful)),
    "requeue at the tail": Bug(patches=((Backlog, "restore", restore_at_the_tail),)),
    "a torn tail is believed": Bug(patches=((window, "batch_valid", half_batch_is_enough),)),
    "a group loses its owner": Bug(patches=((Groups, "owner", owner_or_nobody),)),
    "duplicates are not looked for": Bug(patches=((Duplicates, "seen", never_seen),)),
    "credit is not looked at": Bug(patches=((Window, "is_open", always_open),)),
    "the redelivered mark is forgotten": Bug(patches=((Writing, "write_fixed", without_the_mark),)),
    "a date is made an instant once": Bug(patches=((Dates, "adjust", never_set),)),
    "a broker that stops hands out what comes back": Bug(patches=((Gate, "cease", goes_on),)),
    "a leaving consumer takes back what its transaction settles": Bug(
        patches=((Queue, "detach", without_its_promises),)
    ),
    "what comes overtakes a search that is not over": Bug(patches=((Dispatcher, "_step_later", overtaken),)),
    "a message to many queues is forgotten when the turn is over": Bug(
        patches=((Owing, "resume", forgets_who_did_not_have_it),)
    ),
    "an awaited acknowledgement is answered before it is on disk": Bug(
        patches=((Settling, "settle", answered_before_the_disk),)
    ),
    "a branch that was promised is forgotten by a crash": Bug(patches=((Branches, "recovered", lambda *_: None),)),
    "a branch that is rolled back counts no tries": Bug(patches=((CoreSettling, "_give_back", counts_no_tries),)),
    "a confirmation over CORE does not wait for the disk": Bug(patches=((Replies, "answer", says_it_at_once),)),
    "a consumer of CORE loses credit": Bug(patches=((CoreSubscription, "spend", spends_too_much),)),
    "the file of a large message of CORE is left behind": Bug(patches=((LargeDelivery, "finish", lambda _: None),)),
    "a large message of CORE has no body in STOMP": Bug(patches=((LargeBody, "piece", nothing_more),)),
    "a message overtakes what a queue is owed": Bug(patches=((Queue, "accept", before_what_it_is_owed),)),
    "the rest of a chunk is forgotten": Bug(patches=((StompSession, "resume", without_the_rest),)),
    "a later chunk overtakes the rest of an earlier one": Bug(
        patches=((StompSession, "receive", the_newest_first), (Link, "server_reads", as_if_finished))
    ),
}


FORGETS_WHO_WAITS = Bug(patches=((FlowControl, "unblock", forgets_who_waits),))
"""Who waits for a blocked address is forgotten when it is unblocked: for worlds of other languages than STOMP."""


@contextmanager
def planted(bug: Bug) -> Iterator[Parts]:
    """Plant ``bug``; give the parts to run with."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in bug.patches]
    try:
        for owner, name, replacement in bug.patches:
            setattr(owner, name, replacement)
        yield bug.parts
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


def hunt(name: str, first: int) -> None:
    """Look for one of `BUGS`, from the seed ``first``, then from 1 on; what shows it passes without it."""
    with planted(BUGS[name]) as parts:
        seeds = dict.fromkeys([first, *range(1, SEEDS_MAX + 1)])
        found = next((seed for seed in seeds if run(seed, parts=parts).failed), 0)
    assert found, f"{SEEDS_MAX} seeds did not find: {name}"
    assert not run(found).failed, f"seed {found} fails without the bug too"
