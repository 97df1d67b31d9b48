"""From the journal to a running broker: queues, leases, duplicate ids, scheduled messages, and what waits where. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.addressing.amending import restore
from entrepot.core.addressing.definition import decode, is_older
from entrepot.core.addressing.standing import decode_divert, types_in
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.events import trace as facts
from entrepot.core.leases.lease import Lease
from entrepot.core.leases.lease_records import (
    ClaimRecord,
    LeaseRecord,
    LostRecord,
    decode_claim,
    decode_lease,
    decode_lost,
)
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.stock import trim
from entrepot.core.queue.values import LastValues
from entrepot.core.records import (
    FIRST_QUEUE,
    KIND_ADDRESS,
    KIND_BRANCH,
    KIND_CLAIM,
    KIND_COPIES,
    KIND_COUNT,
    KIND_DECISION,
    KIND_DIVERT,
    KIND_DUPLICATE,
    KIND_LEASE,
    KIND_LOST,
    KIND_NODE,
    KIND_NOTE,
    KIND_NUMBERS,
    KIND_PUBLICATION,
    KIND_QUEUE,
    KIND_SEQUENCE,
    KIND_SINK,
    KIND_STAGE,
    KIND_STAGE_RUNS,
    KIND_UUID,
    OF_PROTOCOLS,
    PREPARED_QUEUE,
    SCHEDULED_QUEUE,
    STAGED_QUEUE,
)
from entrepot.journal.log import RecoveryReport, RecoverySink
from entrepot.model.ids import NodeIdentity, fresh_node_id, fresh_uuid


class Rebuilder(RecoverySink):
    """Takes what the journal finds and rebuilds the broker from it."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: BrokerCore = broker
        self.ready: bool = False
        self.node_id: str = ""
        self.uuid: bytes = b""
        self.queue_documents: list[tuple[int, bytes]] = []
        self.lease_documents: list[LeaseRecord] = []
        self.claim_documents: list[ClaimRecord] = []
        self.lost_documents: list[LostRecord] = []
        self.copies: dict[bytes, bytes] = {}
        self.leased: dict[int, dict[int, bool]] = {}  # queue identity -> numbers that a lease holds
        self.staged: list[int] = []  # numbers of staged messages
        self.older: list[Queue] = []  # whose documents have an older layout
        self.orphans: list[tuple[int, int]] = []  # (number, queue) of queues that no longer exist

    def document(self, kind: int, key: bytes, value: bytes) -> None:
        """Take one current document. Kinds of later versions are refused by the journal's format, not here."""
        broker = self.broker
        if kind == KIND_NODE:
            self.node_id = value.decode()
        elif kind == KIND_UUID:
            self.uuid = value
        elif kind == KIND_QUEUE:
            self.queue_documents.append((int.from_bytes(key, "big"), value))
        elif kind == KIND_NUMBERS:
            broker.ids.reserved = int.from_bytes(value, "big")
            broker.ids.number = broker.ids.reserved
        elif kind == KIND_NOTE:
            broker.notes.recovered(key, value)
        elif kind == KIND_DUPLICATE:
            broker.sending.duplicates.recovered(key)
        elif kind == KIND_COPIES:
            self.copies[key] = value
        elif kind in (KIND_ADDRESS, KIND_DIVERT):
            self._standing(kind, key, value)
        elif kind == KIND_SEQUENCE:
            broker.sequences.recovered(key, value)
        elif kind == KIND_BRANCH:
            broker.branches.recovered(key, value)
        elif kind in (KIND_STAGE, KIND_STAGE_RUNS, KIND_DECISION, KIND_PUBLICATION, KIND_SINK, KIND_COUNT):
            broker.stages.recovered(kind, key, value)
        elif kind == KIND_LEASE:
            self.lease_documents.append(decode_lease(value))
        elif kind == KIND_CLAIM:
            self.claim_documents.append(decode_claim(value))
        elif kind == KIND_LOST:
            self.lost_documents.append(decode_lost(value))
        elif kind in OF_PROTOCOLS:
            broker.documents.setdefault(kind, {})[key] = value

    def message(
        self,
        queue_id: i64,
        number: i64,
        priority: i64,
        expiration: i64,
        deliveries: i64,
        size: i64,
        deliver_at: i64,
    ) -> None:
        """Take one message that lives in one queue."""
        if not self.ready:
            self.documents_end()
        if queue_id == SCHEDULED_QUEUE:
            self.broker.scheduled.recovered(number, deliver_at)
            return
        if queue_id == PREPARED_QUEUE:
            return  # its branch names it
        if queue_id == STAGED_QUEUE:
            self.staged.append(int(number))
            return
        leased = self.leased.get(queue_id)
        queue = self.broker.table.by_identity.get(queue_id)
        if queue is None:
            self.orphans.append((int(number), int(queue_id)))
        elif leased is not None and number in leased:
            queue.note(facts.RECOVERED, number, 0, 0)
            if deliveries > 0:
                queue.stock.note_attempts(int(number), deliveries)
        else:
            queue.recovered(number, priority, expiration, deliveries, size)

    def documents_end(self) -> None:
        """All documents came. A queue is made by settings that a note may say, and a lease is one of a queue."""
        if self.ready:
            return
        self.ready = True
        restore(self.broker.policies, self.broker.notes)
        for identity, value in self.queue_documents:
            self._queue(identity, value)
        self.queue_documents.clear()
        self.broker.copies.recovered(self.copies)
        for record in self.lease_documents:
            self._lease(record)
        for claim in sorted(self.claim_documents, key=lambda claim: claim.start):
            self._claim(claim)
        for lost in self.lost_documents:
            self._lost(lost)
        for lease in self.broker.leases.held.values():
            numbers = self.leased.setdefault(int(lease.queue.identity), {})
            for each in lease.numbers.values():
                numbers[each] = True
            lease.queue.lease(len(lease.numbers))
        for identity, hidden in self.broker.branches.rebuild().items():
            self.leased.setdefault(identity, {}).update(hidden)

    def _queue(self, identity: int, value: bytes) -> None:
        record = decode(value)
        broker = self.broker
        policy = broker.policies.of(record.definition.address, record.definition.routing)
        queue = Queue(broker, identity, record.definition, policy, selector_or_none(record.definition.selector))
        if record.paused:
            queue.gate.pause()
        queue.began = record.began
        broker.queues.add(queue)
        if is_older(value):
            self.older.append(queue)
        broker.queues.next_queue = max(broker.queues.next_queue, identity + 1, FIRST_QUEUE)

    def _standing(self, kind: int, key: bytes, value: bytes) -> None:
        queues = self.broker.queues
        queues.standing.recovered(kind, key, value)
        name = key.decode()
        if kind == KIND_DIVERT:
            queues.table.add_divert(decode_divert(name, value))
        else:
            queues.table.address(name).created_by_operator = True
            queues.table.declared[name] = types_in(value)

    def _lease(self, record: LeaseRecord) -> None:
        lease = self._of(record.queue, record.group)
        if lease is not None:
            lease.fresh = record.fresh
            lease.epoch = record.epoch
            lease.after = record.after
            lease.since = record.since
            lease.base = record.base
            lease.tail = max(lease.tail, record.base)
            lease.selector = selector_or_none(record.selector)
            lease.until = record.until

    def _claim(self, record: ClaimRecord) -> None:
        lease = self._of(record.queue, record.group)
        if lease is not None:
            lease.recovered(record)

    def _lost(self, record: LostRecord) -> None:
        lease = self._of(record.queue, record.group)
        if lease is not None:
            lease.lost.recovered(record, lease.base)

    def _of(self, identity: int, group: str) -> Lease | None:
        queue = self.broker.table.by_identity.get(identity)
        if queue is None:
            return None
        held = self.broker.leases.held
        lease = held.get((queue.name, group))
        if lease is None:
            lease = Lease(queue, group)
            held[(queue.name, group)] = lease
        return lease


def recover(broker: BrokerCore) -> RecoveryReport:
    """Rebuild ``broker`` from its journal; give a new one its identity. Call `BrokerCore.tick` first.

    Raises CorruptJournal, StoreUnusable: nothing is changed then.
    """
    rebuilder = Rebuilder(broker)
    journal = broker.journal
    report = journal.recover(rebuilder)
    rebuilder.documents_end()
    broker.branches.forget_lost()
    ids = broker.ids
    ids.number = max(ids.number, report.number_highest, report.blob_highest)
    ids.reserved = max(ids.reserved, ids.number)
    ids.run = ids.reserved  # rises with every start: names made from it differ from those of every earlier run
    for queue in broker.table.queues.values():
        queue.used = True
        stock = queue.stock
        if isinstance(stock, LastValues):
            stock.rebuild()
        if stock.ring >= 0:
            trim(stock)
    broker.stages.rebuild(rebuilder.staged)
    for number, identity in rebuilder.orphans:
        journal.settle(number, identity)
    _identify(broker, rebuilder.node_id, rebuilder.uuid)
    if journal.refusal() is None:  # else at the next start
        for queue in rebuilder.older:
            broker.queues.keep(queue)
    ids.reserve()
    journal.flush()
    journal.port.drain()  # nothing is numbered before the disk has the block that it is from
    return report


def _identify(broker: BrokerCore, node_id: str, uuid: bytes) -> None:
    """Give ``broker`` the identity that its journal has, and the journal what it has not: it is new, or older."""
    if not node_id:
        node_id = fresh_node_id(broker.options.name, broker.entropy)
        broker.journal.put(KIND_NODE, b"", node_id.encode())
    if not uuid:
        uuid = fresh_uuid(broker.entropy)
        broker.journal.put(KIND_UUID, b"", uuid)
    broker.ids.set_node(NodeIdentity(node_id, uuid))
