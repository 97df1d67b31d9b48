"""`replay`: copies of messages that the journal has let go of, and of those that it has, sent again (artemis.md 6.1).

What is kept is read by a thread (`journal/retained.py` says what is found), a part of it at a time; between two parts
the broker goes on. What came before the replay began is sent again, in its order, settled or not; what an earlier
replay sent is among it. A copy keeps the identity that clients know, and has no duplicate id: it is what was asked for.
No limit of a queue holds, as for what an operator moves.

What moved on the way to its reader is in the journal more than once, and sent again once: not from the copy that was
made to move it, and of several processes that are one broker by that one to which it was sent first.

One replay is under way at a time. A broker that stops in the middle of one has sent what it has sent: begun again, all
of it is sent again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import BodyLost, EntrepotError, InvalidDestination, Refused, StorageError
from entrepot.core.addressing.binding import MOVED
from entrepot.core.addressing.routing import Target, default_routing
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import Arguments
from entrepot.core.records import FIRST_QUEUE
from entrepot.core.sending.flow import DROPPED
from entrepot.core.sending.sending import forget_routes
from entrepot.journal.condition import again
from entrepot.journal.overflow import CHECK, STRETCH, seed_of
from entrepot.journal.retained import Archive, Extent, Scan
from entrepot.model import address as names
from entrepot.model.ids import NUMBERED_OCTETS, UUID_OCTETS
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

AT_ONCE: Final = 200  # messages that are sent before others have their turn: some ms
STAMP: Final = "%Y%m%d%H%M%S"  # how Artemis writes a time, in the zone of the broker
NEVER: Final = 1 << 62
NO_RETENTION: Final = (
    "AMQ229239: There is no retention configured. In order to use the replay method you must specify "
    "journal-retention-directory element on the broker.xml"
)


class Wanted(NamedTuple):
    """What is sent again: of ``address``, to ``target``, of the time from ``start`` to ``end``, ms since 1970."""

    address: str
    target: str
    selector: Predicate | None = None
    start: int = 0
    end: int = NEVER

    @property
    def timed(self) -> bool:
        """Return whether a time was said."""
        return self.start > 0 or self.end < NEVER


class Replay:
    """A `Work`. ``over``: it has ended, well or not: ``failure`` says why.

    ``sent``, ``dropped`` (by a full target), ``lost`` (their bodies are gone): messages.
    """

    pause = MILLISECOND

    def __init__(self, broker: BrokerCore, archive: Archive, wanted: Wanted, siblings: Sequence[bytes] = ()) -> None:
        """``siblings``: UUIDs of the processes of this broker: each sends again what came to it first."""
        self.broker: Final = broker
        self.archive: Final = archive
        self.wanted: Final = wanted
        self.began = int(broker.wall)
        self.sent = 0
        self.dropped = 0
        self.lost = 0
        self.over = False
        self.failure = ""
        self._siblings: Final = dict.fromkeys(siblings)
        self._last: Final = int(broker.ids.number)
        self.scan: Final = Scan(archive, _of_time(_extents(broker, archive), wanted), FIRST_QUEUE)
        self._course: Final = self._run()

    def step(self) -> bool:
        """Send some. Raises EntrepotError: what was sent until then stays sent."""
        try:
            for _ in self._course:
                return False
        except EntrepotError as error:
            self.failure = error.message
            said = f"{error.message}; {self.sent} messages had been sent again"
            raise type(error)(said, remedy=error.remedy) from error
        finally:
            self.over = self.over or bool(self.failure)
        self.over = True
        return True

    def result(self) -> object:
        """Return nothing, as Artemis does."""
        return None

    def report(self) -> dict[str, object]:
        """Return how far it is, for people and for programs; octets, ms since 1970."""
        wanted, passed = self.wanted, self.scan.passed
        return {
            "address": wanted.address,
            "target": wanted.target,
            "began": self.began,
            "over": self.over,
            "failure": self.failure,
            "sent": self.sent,
            "dropped": self.dropped,
            "bodies_lost": self.lost,
            "files": len(self.scan.extents),
            "read_octets": self.scan.octets,
            "passed_over": passed[:20],
            "passed_over_count": len(passed),
        }

    def _run(self) -> Iterator[None]:
        done = 0
        for message in self.scan.messages(self.wanted.address):
            if message is None:
                yield
            elif message.number <= self._last and self._is_meant(message):
                yield from self._again(message)
                done += 1
                if done % AT_ONCE == 0:
                    yield

    def _is_meant(self, message: Message) -> bool:
        wanted = self.wanted
        stamp = int(message.timestamp)
        if self._is_moved(message):
            return False
        if wanted.timed and stamp > 0 and not wanted.start <= stamp <= wanted.end:
            return False
        return wanted.selector is None or wanted.selector.matches(message)

    def _is_moved(self, message: Message) -> bool:
        """Return whether this is not the first record of what was sent; see `core/addressing/binding.py:MOVED`.

        What came over a cluster connection has the id that the node gave it which sent it on.
        """
        rare = message.rare
        if rare is None:
            return False
        known = rare.duplicate_id
        return message.marked(MOVED) == message.address or (
            len(known) == NUMBERED_OCTETS and known[:UUID_OCTETS] in self._siblings
        )

    def _again(self, message: Message) -> Iterator[None]:
        """Send a copy of ``message``. Raises StorageError, and InvalidDestination when the target is gone."""
        broker = self.broker
        refusal = broker.journal.refusal()
        if refusal is not None:
            raise again(refusal)
        copy = broker.ids.renumbered(message)
        copy.stored = copy.redelivered = False
        forget_routes(copy)
        copy.unmark(MOVED)
        overflow = broker.journal.overflow
        rare = copy.need_rare()
        if rare.large_id != 0:
            try:
                yield from self._with_body(copy)
            except BodyLost:
                self.lost += 1
                return
        granted = broker.flow.granted
        broker.flow.granted = True
        try:
            target = target_of(broker, self.wanted.target)
            if self.wanted.target != self.wanted.address:
                copy.address = target.name
                copy.language.route(copy, target.routing)
            if broker.send(copy, target) == DROPPED:
                self.dropped += 1
            else:
                self.sent += 1
        finally:
            broker.flow.granted = granted
            if rare.large_id != 0:
                overflow.release(rare.large_id)

    # -- large bodies --------------------------------------------------------------------------------------------------

    def _with_body(self, copy: Message) -> Iterator[None]:
        """Let ``copy`` have its body, held once: the one that the journal has still, or one of its own.

        Raises BodyLost when it is not kept any more, or is damaged.
        """
        overflow = self.broker.journal.overflow
        rare = copy.need_rare()
        if rare.large_id in overflow.sizes and rare.large_id not in overflow.damaged:
            overflow.hold(rare.large_id)
            return
        blob = int(self.broker.ids.next_number())
        overflow.create(blob)
        try:
            yield from self._copied(copy, blob)
            overflow.seal(blob)
        except Exception:  # not GeneratorExit: what a broker left that ended does nothing when it is collected
            overflow.release(blob)
            raise
        rare.large_id = blob
        rare.large_checked = True

    def _copied(self, copy: Message, blob: int) -> Iterator[None]:
        rare = copy.need_rare()
        source, length, checked = int(rare.large_id), int(rare.large_length), rare.large_checked
        extra = CHECK if checked else 0
        for number, at in enumerate(range(0, length, STRETCH)):
            size = min(STRETCH, length - at)
            fetch = self.archive.fetch(f"{source}.blob", at + number * extra, size + extra)
            while not fetch.done():
                yield
            try:
                octets = fetch.octets()
            except StorageError as error:
                raise BodyLost(error.message) from error
            body, check = octets[:size], octets[size:]
            right = zlib.crc32(body, seed_of(source, number)) if checked else 0
            if len(octets) < size + extra or (checked and right != int.from_bytes(check, "big")):
                raise BodyLost(f"octets {at} to {at + size} of body {source} fail their checksum")
            self.broker.journal.overflow.write(blob, body)
            yield


def replay(broker: BrokerCore, census: Census, given: Arguments, *, address: str = "") -> Replay:
    """Begin to send again, as ([start, end,] [address,] target, filter) says; the address is told where it has one.

    A target of null is the address itself, a filter of null is all; a start or end of null is open.

    Raises Refused where nothing is kept, or another replay is under way; InvalidDestination, InvalidSelector.
    """
    archive = census.archive
    if archive is None:
        raise Refused(NO_RETENTION, remedy="what was settled until then is not kept")
    running = census.replaying
    if running is not None and not running.over:
        far = running.report()
        raise Refused(
            f"a replay of {far['address']!r} is under way: {far['sent']} messages were sent again so far",
            remedy="wait until it is over: `describeReplay` says how far it is",
        )
    shortest = 2 if address else 3
    if len(given) not in (shortest, shortest + 2):
        raise Refused(f"replay has {len(given)} arguments", remedy=f"give {shortest}, or {shortest + 2} with times")
    first = len(given) - shortest
    source = address or given.text(0 + first)
    at = first + shortest - 2
    target = given.text(at, "").strip() or source
    wanted = Wanted(source, target, selector_or_none(given.text(at + 1, "")))
    if first:
        wanted = wanted._replace(start=moment(given.text(0, ""), 0), end=moment(given.text(1, ""), NEVER))
    target_of(broker, target)  # refused now, and not in the middle of it
    siblings = [] if census.together is None else census.together.uuids()
    made = census.replaying = Replay(broker, archive, wanted, siblings)
    return made


def replayed(census: Census) -> list[dict[str, object]]:
    """Return how far the last replay is, as one row; none when there was no replay since the start."""
    return [] if census.replaying is None else [census.replaying.report()]


def retained(census: Census) -> dict[str, object]:
    """Return what is kept of what the journal let go of, for a report about the disk; nothing where it is not."""
    return {} if census.archive is None else {"retention": census.archive.report()}


def target_of(broker: BrokerCore, text: str) -> Target:
    """Return where copies go. Raises InvalidDestination, Refused."""
    said = names.parse_one(text)
    if not said.queue and "://" not in text:
        said = names.Destination(said.name, default_routing(broker.table, said.name))
    target = broker.target([said])
    if target.service is not None:
        raise InvalidDestination(f"{text!r} is an address of the broker itself", remedy="name another target")
    return target


def moment(text: str, default: int) -> int:
    """Return a time as ms since 1970: as Artemis writes it, in the zone of the broker, or as ISO 8601.

    Raises Refused.
    """
    if not text:
        return default
    try:
        if len(text) == len("20261121130000") and text.isdecimal():
            return int(datetime.strptime(text, STAMP).timestamp() * 1000)
        said = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(
            f"{text!r} is no time", remedy="write yyyyMMddHHmmss, or 2026-11-21T13:00:00+00:00, which names its zone"
        ) from None
    return int((said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp() * 1000)


def _extents(broker: BrokerCore, archive: Archive) -> list[Extent]:
    """Return what there is to read at this moment: of the segment that grows, what was handed over."""
    tail = broker.journal.tail
    if tail.depth == 0:
        tail.hand_over()
    active = tail.active
    found = archive.extents()
    grows = Extent(active.name, int(broker.wall), int(active.end))
    return [grows if one.name == active.name else one for one in found]


def _of_time(extents: list[Extent], wanted: Wanted) -> list[Extent]:
    """Leave out files that were written to only before the time that is meant; those behind it may publish of it."""
    kept: list[Extent] = []
    begun = 0
    for one in extents:
        if one.ended >= wanted.start:
            kept.append(one._replace(late=begun > wanted.end))
        begun = one.ended
    return kept
