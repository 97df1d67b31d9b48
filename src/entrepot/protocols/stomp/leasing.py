"""Reading by lease over STOMP: ATTACH, CLAIM, READ, SETTLE, RELEASE (docs/leases.md). [C]

One `Leasing` belongs to one connection, made by its first such frame. Answers wait until the journal has what they say.
A CLAIM that waits and a READ that is long go on by themselves while other frames of the connection are served; both
end with it. A READ is written page by page, as fast as the peer reads: nobody can make the broker hold a range.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB
from entrepot.base.errors import EntrepotError, Refused, StorageError
from entrepot.base.values import boolean
from entrepot.core.leases.lease import Lease, Poll, recorded, recorded_message
from entrepot.core.leases.wanting import LeaseDemand
from entrepot.core.ports import ClaimWaiter
from entrepot.core.queue.bereaved import without_body
from entrepot.core.queue.consumer import Measurement
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.serving.looking import Looking
from entrepot.protocols.serving.outlet import Outlet, Source
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp import commands
from entrepot.protocols.stomp.answers import Answers
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.entries import LENGTH_DIGITS, Entries, kind_of
from entrepot.protocols.stomp.headers import selector_of, whole_number
from entrepot.protocols.stomp.listing import token_of
from entrepot.protocols.stomp.located import FORM as LOCATED
from entrepot.protocols.stomp.locating import write_places
from entrepot.protocols.stomp.places import Places
from entrepot.protocols.stomp.ranges import FORM
from entrepot.protocols.stomp.writing import Writing

WAIT_MS_MAX: Final = 60_000  # a longer wait would look like a dead connection to whatever stands between
WAITS_MAX: Final = 1_000  # on one connection
DEMANDS_MAX: Final = 1_000  # leases that one connection wants others to hear of
READS_MAX: Final = 1_000  # that wait for their turn on one connection
CLAIM_DEFAULT: Final = 1_000

PAGE_MESSAGES: Final = 512
PAGE_OCTETS: Final = 512 * KIB  # half of what may wait for a slow reader: one page is written while another is sent
PAGE_OCTETS_MOST: Final = 2 * PAGE_OCTETS  # what was compressed is longer in a page than where it was read


class _Claim(ClaimWaiter):
    """Answers a CLAIM that waits."""

    def __init__(self, leasing: Leasing, lease: Lease, counted: bool, receipt: bytes) -> None:
        self.leasing: Leasing | None = leasing
        self.lease: Lease = lease
        self.counted: bool = counted
        self.receipt: bytes = receipt
        self.poll: Poll | None = None

    def claimed(self, end: i64) -> None:
        """Answer."""
        leasing = self.leasing
        if leasing is not None:
            leasing.waiting.remove(self)
            leasing.answer_claim(self.lease, int(end), self.counted, self.receipt)

    def refused(self, error: EntrepotError) -> None:
        """Say why there is nothing."""
        leasing = self.leasing
        if leasing is not None:
            leasing.waiting.remove(self)
            leasing.answers.refuse(error, self.receipt)


class Reading:
    """One READ: how far it is."""

    def __init__(self, lease: Lease, epoch: int, low: int, high: int, receipt: bytes) -> None:
        self.lease: Lease = lease
        self.epoch: int = epoch
        self.low: int = low
        self.at: int = low
        self.high: int = high
        self.receipt: bytes = receipt
        self.identity: str = ""
        self.form: str = ""
        self.flawed: int = -1  # the place of a message whose body was found to have ``flaw``
        self.flaw: str = ""


class Leasing(Source):
    """What one connection does with leases."""

    def __init__(
        self, session: ServerSession, reader: Reader, answers: Answers, writing: Writing, places: Places
    ) -> None:
        self.session: ServerSession = session
        self.outlet: Outlet = session.outlet
        self.reader: Reader = reader
        self.answers: Answers = answers
        self.writing: Writing = writing
        self.places: Places = places
        self.waiting: list[_Claim] = []
        self.reads: list[Reading] = []
        self.demands: list[LeaseDemand] = []
        self.length_digits: i64 = LENGTH_DIGITS
        self.looking: Looking | None = None
        session.outlet.add_source(self)

    def command(self, command: i64, headers: dict[str, str]) -> None:
        """Obey one frame. Raises Refused."""
        broker = self.session.broker
        journal = broker.journal
        lease = self._lease(headers, command == commands.ATTACH)
        epoch = whole_number(headers.get("epoch", "0"), "epoch")
        answer: dict[str, str] = {}
        if command == commands.ATTACH:
            topic = "topic" in headers
            self._begin(lease, headers.get("from", ""))
            until = _bound(headers.get("until", ""))
            if until:
                answer["until"] = str(until)
            lease.attach(journal, None if topic else selector_of(headers.get("selector", "")), until)
            answer["node"] = broker.ids.node_id
            answer["queue"] = lease.queue.name
            answer["token"] = token_of(lease.queue)
        elif command == commands.CLAIM:
            self._claim(lease, epoch, headers)
            return
        elif command == commands.READ:
            self._read(lease, epoch, headers)
            return
        elif command == commands.SETTLE:
            settled = lease.settle(journal, epoch, whole_number(headers.get("end", "0"), "end"))
            answer["settled"] = str(settled)
        else:
            answer["returned"] = str(broker.leases.release(lease, epoch if "epoch" in headers else None))
            self._want(lease, False)
        self.answer(lease, answer, self.reader.receipt())

    def _begin(self, lease: Lease, written: str) -> None:
        """Let a new lease begin where ``from`` says: at the first message, behind the last, or at a time. Raises."""
        if written in ("", "earliest"):
            return
        if written == "latest":
            lease.begin(int(self.session.broker.ids.number), 0)
            return
        since = whole_number(written, "from")
        if since <= 0:
            raise Refused(f"from is {written!r}", remedy="earliest, latest, or a time in milliseconds since 1970")
        lease.begin(0, since)

    def _lease(self, headers: dict[str, str], attach: bool) -> Lease:
        """Find the lease that a frame is about; ATTACH makes it, and the subscription to a topic that it names."""
        session = self.session
        leases = session.broker.leases
        group = headers.get("group", "")
        if not group:
            raise Refused("a lease needs a group: the name of its reader")
        topic = headers.get("topic", "")
        if not topic:
            written = headers.get("queue", headers.get("destination", ""))
            place = self.places.real(names.parse_one(written))
            # A lease is found by the name of its queue, whatever kind of destination that looks like.
            looked_up = place if place.queue else Destination(place.name, ANYCAST, place.temporary)
            self.places.may_consume([looked_up], "")
            return leases.need(place, group, attach)
        if "queue" in headers:
            raise Refused("a lease reads a queue or a topic, not both")
        destination = self.places.real(names.parse_one(topic, MULTICAST))
        if destination.routing != MULTICAST or destination.queue:
            raise Refused(f"{topic!r} is no topic", remedy="use the header queue for a queue or address::queue")
        self.places.check_owner([destination])
        session.broker.access.consume(session.subject, [destination], True)
        name = headers.get("subscription", "")
        client_id = headers.get("client-id", "")
        place = leases.subscribed(destination.name, name, client_id, group)
        session.broker.access.forget(session.subject, session.broker.table.queues.get(place.queue))
        if not attach:
            return leases.need(place, group, False)
        condition = selector_of(headers.get("selector", ""))
        return leases.need(leases.subscribe(destination.name, name, client_id, group, condition), group, True)

    def answer(self, lease: Lease, fields: dict[str, str], receipt: bytes) -> None:
        """Write the RECEIPT, when one is wanted and all that it says is on disk."""
        if receipt:
            fields["epoch"] = str(lease.epoch)
            fields["base"] = str(lease.base)
            fields["tail"] = str(lease.tail)
            self.answers.answer_with(fields, receipt)

    # -- CLAIM --------------------------------------------------------------------------------------------------------

    def _claim(self, lease: Lease, epoch: int, headers: dict[str, str]) -> None:
        session = self.session
        broker = session.broker
        receipt = self.reader.receipt()
        start = whole_number(headers.get("start", str(lease.tail)), "start")
        most = whole_number(headers.get("max", str(CLAIM_DEFAULT)), "max")
        octets = whole_number(headers["octets"], "octets") if "octets" in headers else None
        if octets is not None and octets < 0:
            raise Refused(f"octets is {octets}", remedy="how many the claim may add, 0 or more")
        wait_ms = whole_number(headers.get("wait", "0"), "wait")
        if not 0 <= wait_ms <= WAIT_MS_MAX:
            raise Refused(f"wait is {wait_ms}, which is not within 0 and {WAIT_MS_MAX} ms")
        lease.fence(epoch)
        if "demand" in headers:
            self._want(lease, _flag(headers["demand"], "demand"))
        end = lease.claim(broker.journal, epoch, start, most, octets)
        if end > start or wait_ms == 0 or most <= 0:
            self.answer_claim(lease, end, octets is not None, receipt)
            return
        if len(self.waiting) >= WAITS_MAX:
            raise Refused(f"{WAITS_MAX} claims wait on this connection")
        claim = _Claim(self, lease, octets is not None, receipt)
        self.waiting.append(claim)
        claim.poll = broker.leases.wait(lease, epoch, start, most, wait_ms, claim, octets)

    def _want(self, lease: Lease, wanting: bool) -> None:
        """Let other brokers hear of this reader as of a consumer, until it says otherwise or its connection ends."""
        broker = self.session.broker
        known: LeaseDemand | None = None
        for demand in self.demands:
            if demand.lease is lease:
                known = demand
        if known is not None and (not wanting or known.over or known.selector is not lease.selector):
            self.demands.remove(known)
            broker.unsubscribe(known)
            known = None
        if not wanting or known is not None or lease.ended:
            return
        if len(self.demands) >= DEMANDS_MAX:
            self.demands = [each for each in self.demands if not each.over]  # queues that were deleted take no room
        if len(self.demands) >= DEMANDS_MAX:
            raise Refused(f"{DEMANDS_MAX} leases of this connection are demand", remedy="use another connection")
        demand = LeaseDemand(lease, broker.ids.consumer_key())
        session = self.session
        demand.client_id = session.client_id
        demand.origin = session.number
        demand.connection = session.client_id or session.peer
        demand.peer = session.peer
        demand.user = session.subject.name
        broker.subscribe(demand)
        self.demands.append(demand)

    def answer_claim(self, lease: Lease, end: int, counted: bool, receipt: bytes) -> None:
        """Say how far the ledger reaches now; ``counted``: and how many octets came to it by this claim."""
        fields = {"end": str(end), "more": str(lease.more)}
        if counted:
            fields["octets"] = str(lease.claimed)
        if any(demand.lease is lease for demand in self.demands):
            queue = lease.queue
            topic = queue.routing == MULTICAST
            away = self.session.broker.neighbours.away(queue.address if topic else queue.name, topic)
            if away:
                fields["away"] = away
        self.answer(lease, fields, receipt)

    # -- READ ---------------------------------------------------------------------------------------------------------

    def _read(self, lease: Lease, epoch: int, headers: dict[str, str]) -> None:
        low = whole_number(headers.get("start", str(lease.base)), "start")
        high = whole_number(headers.get("end", str(lease.tail)), "end")
        form = headers.get("form", "")
        if form not in ("", "message", FORM, LOCATED):
            raise Refused(f"form is {form!r}", remedy=f"use {FORM}, {LOCATED} or message")
        lease.may_read(epoch, low, high)
        if len(self.reads) >= READS_MAX:
            raise Refused(f"{READS_MAX} reads wait on this connection", remedy="read fewer and wider ranges")
        reading = Reading(lease, epoch, low, high, self.reader.receipt())
        reading.identity = headers.get("id", headers.get("group", ""))
        reading.form = form
        self.reads.append(reading)
        if len(self.reads) == 1:
            self.pump()

    def relieved(self) -> None:
        """The peer reads again."""
        self.pump()

    def pump(self) -> None:
        """Write what is asked for until the peer has enough; `relieved` goes on when it takes more."""
        outlet = self.outlet
        while self.reads and not outlet.choked and not self.is_looking():
            reading = self.reads[0]
            try:
                if reading.at < reading.high:
                    self._write_page(reading)
                if reading.at >= reading.high:
                    self.reads.pop(0)
                    self.answer(reading.lease, {"count": str(reading.high - reading.low)}, reading.receipt)
            except (Refused, StorageError) as error:
                self.reads.pop(0)
                self.answers.refuse(error, reading.receipt)

    def _write_page(self, reading: Reading) -> None:
        high = min(reading.high, reading.at + PAGE_MESSAGES)
        if reading.form == FORM:
            self._write_batch(reading, high)
            return
        if reading.form == LOCATED:  # one frame ends it
            reading.at = reading.high = write_places(
                self.session, self.writing, reading.lease, reading.epoch, reading.at, reading.high
            )
            return
        broker = self.session.broker
        for message in reading.lease.read(broker.journal, reading.epoch, reading.at, high, PAGE_OCTETS):
            if self.outlet.choked or not self._write_single(reading, message):
                return

    def is_looking(self) -> bool:
        """Return whether a body is read before its message is written. A method, for the compiler."""
        return self.looking is not None

    def _look_at(self, reading: Reading, message: Message, measurement: Measurement) -> None:
        def is_wanted() -> bool:
            return reading in self.reads

        def go_on(flaw: str) -> None:
            self.looking = None
            if flaw:
                reading.flawed = reading.at
                reading.flaw = flaw
            self.pump()

        self.looking = Looking(self.session.broker, message, measurement, is_wanted, go_on)

    def _write_single(self, reading: Reading, message: Message) -> bool:
        """Write one message as a frame of its own; False: its body must be measured first, and nothing was written."""
        rare = message.rare
        if reading.flawed == reading.at:
            message = without_body(message, reading.flaw)
            self._note_lost(reading)
        elif rare is not None and rare.large_id != 0:
            measurement = self.writing.measure(message)
            if measurement is not None:
                self._look_at(reading, message, measurement)
                return False
            if self.session.broker.journal.overflow.flaw(message):
                self._note_lost(reading)
        headers = {
            "subscription": reading.identity,
            "position": str(reading.at),
            "destination": kind_of(reading.lease.queue) + message.address,
        }
        reading.at += 1
        self.writing.write_message(message, headers)
        return True

    def _note_lost(self, reading: Reading) -> None:
        """The large body at this position is not there any more: what settles it will leave a dead letter."""
        journal = self.session.broker.journal
        if journal.pages:
            reading.lease.lost.note_shown(journal, [reading.at])

    def _write_batch(self, reading: Reading, high: int) -> None:
        """Write messages many to a frame; one whose body is on disk for its length is a frame of its own between."""
        broker = self.session.broker
        queue = reading.lease.queue
        most: i64 = high - reading.at
        entries = Entries(
            self.outlet, broker.ids, queue, reading.identity, self.reader.version, most, self.length_digits
        )
        written = False
        try:
            if broker.journal.pages:
                self._write_records(reading, high, entries)
            else:
                self._write_kept(reading, high, entries)
            written = True
        finally:
            if not written:
                entries.drop()
        self._end_frame(entries)
        self.length_digits = entries.digits

    def _write_records(self, reading: Reading, high: int, entries: Entries) -> None:
        lease = reading.lease
        low: i64 = reading.at
        journal = self.session.broker.journal
        records = recorded(lease, journal, reading.epoch, reading.at, high)
        is_counted = len(lease.queue.stock.attempts) > 0
        octets: i64 = 0
        position: i64 = low
        while position < high and octets < PAGE_OCTETS and entries.length < PAGE_OCTETS_MOST:
            octets += records.go_to(position - low, PAGE_OCTETS - octets)
            deliveries: i64 = lease.deliveries(int(position)) if is_counted else 0
            if entries.add_record(records, position, deliveries):
                position += 1
                continue
            reading.at = int(position)
            message = recorded_message(lease, journal, records, reading.at)
            if not self._write_one(reading, message, deliveries, entries):
                return
            position = reading.at
        reading.at = int(position)

    def _write_kept(self, reading: Reading, high: int, entries: Entries) -> None:
        """Write what is in memory alone: there is no disk."""
        lease = reading.lease
        for message in lease.read(self.session.broker.journal, reading.epoch, reading.at, high):
            if not self._write_one(reading, message, lease.deliveries(reading.at), entries):
                return
            if entries.length >= PAGE_OCTETS_MOST:
                return

    def _write_one(self, reading: Reading, message: Message, deliveries: i64, entries: Entries) -> bool:
        """Write the message at ``reading.at`` in the way that it needs; False as of `_write_single`."""
        rare = message.rare
        if rare is not None and rare.large_id != 0:
            self._end_frame(entries)
            return self._write_single(reading, message)
        entries.add(message, reading.at, deliveries)
        reading.at += 1
        return True

    def _end_frame(self, entries: Entries) -> None:
        count = entries.end()
        if count > 0:
            self.writing.note_batch(count)

    # -- the end ------------------------------------------------------------------------------------------------------

    def detach(self) -> None:
        """The connection is gone: nothing waits any more."""
        for claim in self.waiting:
            claim.leasing = None
            poll = claim.poll
            if poll is not None:
                poll.cancel()
        self.waiting.clear()
        self.reads.clear()
        for demand in self.demands:
            self.session.broker.unsubscribe(demand)
        self.demands.clear()


def _bound(written: str) -> int:
    """Return what the header ``until`` says, ms since 1970; 0 where it is not there. Raises Refused."""
    if not written:
        return 0
    until = whole_number(written, "until")
    if until <= 0:
        raise Refused(f"until is {written!r}", remedy="a time in milliseconds since 1970")
    return until


def _flag(text: str, name: str) -> bool:
    try:
        return boolean(text)
    except ValueError:
        raise Refused(f"{name} is {text[:40]!r}", remedy="use true or false") from None
