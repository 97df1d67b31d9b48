"""Duplicate ids: a message that carries one is accepted once per address (artemis.md 4.9). [C]

Each address remembers its last ``id_cache`` ids in the order of arrival, the oldest is replaced. Ids of durable
messages are kept in the journal, written in the same batch as their message, so that a producer which asks again after
a crash is answered right.

Ids may be pinned: so many new ones do not replace them. What a connection brought that was lost may come again much
later, when the other side knows so too, and from another connection any number has come by then.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from entrepot.core.addressing.binding import ROUTE_TO, SCALED_DOWN
from entrepot.core.records import KIND_DUPLICATE, KIND_SEQUENCE
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message, Rare

PRODUCERS_KEPT: Final = 10_000
OF_BRIDGES: Final = "BRIDGE."  # begins the name of a cache for ids of bridges
SHED_AT_ONCE: Final = 16  # of those whose time as pinned is over, for each that comes
NEVER_SENT: Final = -(1 << 62)


class _Bridged:
    """The name of the cache for ids of bridges at the address that was asked for last: that will be the next one."""

    def __init__(self) -> None:
        self._address: str = ""
        self._name: str = OF_BRIDGES

    def of(self, address: str) -> str:
        """Return the name of the cache at ``address``."""
        if address != self._address:
            self._address = address
            self._name = OF_BRIDGES + address
        return self._name


_BRIDGED: Final = _Bridged()


def cache_of(address: str, message: Message, rare: Rare) -> str:
    """Return under which name the duplicate id of ``message``, sent to ``address``, is remembered; "": it is not asked.

    Ids of bridges have a cache of their own beside those of senders (artemis.md 1.14). What a node of the cluster sends
    on is asked for that node's id alone: its producer's may be known here from the way out, and dropping what comes
    back would lose it (`is_sent_on`).
    """
    if rare.bridged:
        return _BRIDGED.of(address)
    return "" if is_sent_on(message) else address


def is_sent_on(message: Message) -> bool:
    """Return whether a node of the cluster sends ``message``, and says for which queues it is."""
    return message.marked(ROUTE_TO) is not None or message.marked(SCALED_DOWN) is not None


class SeenIds:
    """The ids that one address remembers; the value says whether the journal has it. ``order``: oldest first.

    The dict has that order too, but to find its first key it passes all places of those that were deleted before: with
    20,000 ids that was a fifth of what a message of a cluster costs the node that gets it.
    """

    def __init__(self, address: str, limit: i64) -> None:
        self.address: str = address
        self.key: bytes = address.encode() + b"\0"  # begins the names of its ids in the journal
        self.limit: i64 = limit
        self.ids: dict[bytes, bool] = {}
        self.order: deque[bytes] = deque()
        self.pinned: dict[bytes, i64] = {}  # until when, in ns
        self.recovered: bool = False  # there are some of an earlier life

    def add(self, identity: bytes, durable: bool) -> None:
        """Remember ``identity``, as the newest if it is new."""
        before: i64 = len(self.ids)
        self.ids[identity] = durable
        if len(self.ids) > before:
            self.order.append(identity)


class Duplicates:
    """All remembered ids of a broker."""

    def __init__(self, journal: JournalCore) -> None:
        self.journal: JournalCore = journal
        self.addresses: dict[str, SeenIds] = {}
        self.pinned_at: i64 = 0  # when some were pinned last: what ended before may go

    def seen(self, address: str, identity: bytes) -> bool:
        """Return whether ``identity`` came to ``address`` before."""
        remembered = self.addresses.get(address)
        if remembered is None or identity not in remembered.ids:
            return False
        self.journal.parts.rely()  # whoever is told so must not be told before that message is on disk
        return True

    def remember(self, address: str, identity: bytes, limit: i64, durable: bool) -> None:
        """Note ``identity``; call inside the journal batch that stores its message. ``limit`` 0 remembers nothing."""
        if limit <= 0:
            return
        remembered = self.addresses.get(address)
        if remembered is None:
            remembered = SeenIds(address, limit)
            self.addresses[address] = remembered
        remembered.limit = limit
        remembered.add(identity, durable)
        if durable:
            self.journal.put(KIND_DUPLICATE, remembered.key + identity, b"")
        shed: i64 = 0
        while len(remembered.ids) - len(remembered.pinned) > remembered.limit:
            oldest = remembered.order[0]
            until = remembered.pinned.get(oldest, 0)
            if until > self.pinned_at or (until > 0 and shed >= SHED_AT_ONCE):
                remembered.order.rotate(-1)
                continue
            if until > 0:
                shed += 1
                del remembered.pinned[oldest]
            self._forget_oldest(remembered)

    def pin(self, address: str, identities: list[bytes], now: i64, until: i64) -> None:
        """Remember ``identities``, as far as they are known, until ``until`` (ns) at least, however many come."""
        self.pinned_at = now
        remembered = self.addresses.get(address)
        if remembered is None:
            return
        for identity in identities:
            if identity in remembered.ids:
                remembered.pinned[identity] = until

    def pin_recovered(self, address: str, now: i64, until: i64) -> None:
        """Pin what an earlier life remembered of ``address``, once: it may have ended with anything on its way."""
        remembered = self.addresses.get(address)
        if remembered is not None and remembered.recovered:
            remembered.recovered = False
            self.pin(address, list(remembered.ids), now, until)

    def recovered(self, key: bytes) -> None:
        """Take back an id from the journal."""
        name, _, identity = key.partition(b"\0")
        address = name.decode()
        remembered = self.addresses.get(address)
        if remembered is None:
            remembered = SeenIds(address, 1 << 40)  # the policy's limit applies from the next message on
            self.addresses[address] = remembered
        remembered.add(identity, True)
        remembered.recovered = True

    def clear(self, address: str) -> int:
        """Forget all ids of ``address``; return how many."""
        remembered = self.addresses.pop(address, None)
        if remembered is None:
            return 0
        for identity, durable in remembered.ids.items():
            if durable:
                self.journal.delete(KIND_DUPLICATE, remembered.key + identity)
        return len(remembered.ids)

    def forget_one(self, address: str) -> bool:
        """Forget the oldest id of ``address``; False when there is none."""
        remembered = self.addresses.get(address)
        if remembered is None or not remembered.ids:
            return False
        self._forget_oldest(remembered)
        return True

    def _forget_oldest(self, remembered: SeenIds) -> None:
        identity = remembered.order.popleft()
        durable = remembered.ids[identity]
        remembered.pinned.pop(identity, None)
        del remembered.ids[identity]
        if durable:
            self.journal.delete(KIND_DUPLICATE, remembered.key + identity)


class Passed:
    """The highest number of one producer's messages that other brokers brought, in whatever order."""

    def __init__(self) -> None:
        self.highest: i64 = NEVER_SENT


class Sequences:
    """The last message of each producer that waits for answers: one that is sent again is known by its number.

    Where there are rights, the name of its user stands behind a producer's and a tab: who takes another's id must not
    make us believe that the other has sent.

    Oldest producer first; beyond `PRODUCERS_KEPT` the oldest is forgotten. What was durable survives a restart.
    """

    def __init__(self, journal: JournalCore) -> None:
        self.journal: JournalCore = journal
        self.last: dict[str, i64] = {}
        self.kept: dict[str, bool] = {}
        self.passed: dict[str, Passed] = {}  # by producer, for `had` alone

    def had(self, producer: str, sequence: i64) -> bool:
        """Return whether the message ``sequence`` of ``producer`` was here, as far as anybody remembers."""
        passed = self.passed.get(producer)
        if self.seen(producer, sequence) or (passed is not None and sequence <= passed.highest):
            return True
        return any(sequence <= last for name, last in self.last.items() if name.partition("\t")[0] == producer)

    def passing(self, producer: str) -> Passed:
        """Return where to note what other brokers bring of ``producer``, who may send us what is before it himself."""
        passed = self.passed.get(producer)
        if passed is None:
            if len(self.passed) >= PRODUCERS_KEPT:
                for oldest in self.passed:
                    del self.passed[oldest]
                    break
            passed = Passed()
            self.passed[producer] = passed
        return passed

    def seen(self, producer: str, sequence: i64) -> bool:
        """Return whether ``producer`` sent the message ``sequence`` before."""
        if sequence > self.last.get(producer, NEVER_SENT):
            return False
        self.journal.parts.rely()  # as of `Duplicates.seen`
        return True

    def note(self, producer: str, sequence: i64, durable: bool) -> None:
        """Note a message; call inside the journal batch that stores it."""
        if producer not in self.last and len(self.last) >= PRODUCERS_KEPT:
            for oldest in self.last:
                self.forget(oldest)
                break
        self.last[producer] = sequence
        if durable:
            self.kept[producer] = True
            self.journal.put(KIND_SEQUENCE, producer.encode(), int(sequence).to_bytes(8, "big", signed=True))

    def forget(self, producer: str) -> None:
        """``producer`` was closed and sends nothing again."""
        self.last.pop(producer, None)
        if self.kept.pop(producer, False):
            self.journal.delete(KIND_SEQUENCE, producer.encode())

    def recovered(self, key: bytes, value: bytes) -> None:
        """Take back what the journal kept of a producer."""
        producer = key.decode()
        self.last[producer] = int.from_bytes(value, "big", signed=True)
        self.kept[producer] = True
