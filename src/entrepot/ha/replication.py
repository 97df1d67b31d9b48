"""The primary's side of replication: what its replicas have, and what may therefore be confirmed. No I/O.

A replica goes through `Stage`: it is *copying* until nothing is left to send; then it is told everything in order and
confirmations wait for it (*joining*), until all that had been confirmed without it is on its disk; it notes that it is
whole (*promising*); the lock's record is changed (*recording*); and only then it is *in sync*: eligible.

One rule carries everything: **who is, or might be, in the record is waited for** (`required`). So a replica is waited
for before it is written into the record, and until the record without it is known to stand there. A swap whose fate is
not known leaves both in force.

A primary that has fewer than ``copies_min`` copies confirms nothing until it has them; with 1 it goes on alone, and
takes whom it lost out of the record first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.base.environment import MIB, MILLISECOND, SECOND, Instant
from entrepot.base.errors import Refused
from entrepot.ha.catchup import CatchUp, Range
from entrepot.ha.comparison import CUT_OFF, Comparison, Verdict
from entrepot.ha.fitting import refuse_pair, refuse_store
from entrepot.ha.follower import Follower, Host, Link, Stage
from entrepot.ha.mirror import Audience, Mirror
from entrepot.ha.pieces import Pieces
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import (
    ASIDE,
    ASK_BACK,
    CREATE,
    CUT,
    DROP,
    ENDING,
    JOIN,
    JOINED,
    LACKS,
    LAYOUT,
    PIECE,
    PING,
    PONG,
    PUBLISH,
    SAME,
    SEAL,
    SORRY,
    SYNC,
    TRIM,
    WELCOME,
    WRITE,
    Frame,
    encode,
    greeting,
)
from entrepot.ha.stream import RECEIVED as RECEIVED_FRAME
from entrepot.ha.stream import SYNCED as SYNCED_FRAME
from entrepot.ha.verifying import Verifying

BACKLOG: Final = 64 * MIB
"""Octets that a replica which counts may owe an answer to, before it counts no more."""

FOLLOWERS_MAX: Final = 8
"""Replicas at a time, each with up to 64 MiB that wait for it: as many as can be asked for."""


class Replication(Audience):
    """All replicas of one primary, for one tenure. Make it before recovery; call `tick` twenty times a second."""

    def __init__(
        self, mirror: Mirror, host: Host, options: ReplicationOptions, *, copy: str, name: str, store: str
    ) -> None:
        """``copy``: this broker's own. Call `begin` before anything can be confirmed."""
        self.mirror: Final = mirror
        self.host: Final = host
        self.options: Final = options
        self.copy: Final = copy
        self.name: Final = name
        self.store: Final = store
        self.epoch = 0
        self.followers: Final[list[Follower]] = []
        self.confirmed = 0
        self.recorded_now: dict[str, int] = {}
        self.names: Final[dict[str, str]] = {}  # of copies that were here
        self._proposals: list[tuple[int, dict[str, int]]] = []
        self._serial = 0
        self._here = 0  # sync that this disk has
        self.held = False  # nothing is confirmed for want of copies
        self.pieces: Final = Pieces(mirror, host, options, self.followers, self._read)
        self.verifying: Final = Verifying(name, self.pieces, self.advance, self.drop)
        self._now: Instant = 0
        mirror.audience = self

    def begin(self, epoch: int, eligible: Mapping[str, int], now: Instant) -> None:
        """The lease was won with ``epoch``, and ``eligible`` in the record."""
        self.epoch = epoch
        self.recorded_now = dict(eligible)
        self._now = now
        self._propose()

    # -- what the journal does -----------------------------------------------------------------------------------------

    def created(self, name: str, expected: int) -> None:
        """A file begins."""
        if not self.followers:
            return
        octets = encode(Frame(CREATE, name, first=expected))
        for each in self.followers:
            each.catch_up.dropped(name)
            each.send(octets)

    def wrote(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Octets were written."""
        if not self.followers:
            return
        frames: list[bytes] = []
        length = len(head) + len(body)
        for each in self.followers:
            if not each.counts:
                each.catch_up.wrote(name, offset, length)
                continue
            frames = frames or _pieces(name, offset, head + body)
            for octets in frames:
                each.send(octets)

    def trimmed(self, name: str, length: int) -> None:
        """Nothing is behind ``length``."""
        self._tell(Frame(TRIM, name, first=length))
        for each in self.followers:
            each.catch_up.trimmed(name, length)

    def published(self, scratch: str, name: str) -> None:
        """A file has another name."""
        self._tell(Frame(PUBLISH, scratch, name))
        for each in self.followers:
            each.catch_up.renamed(scratch, name)

    def dropped(self, name: str) -> None:
        """A file is gone."""
        self._tell(Frame(DROP, name))
        for each in self.followers:
            each.catch_up.dropped(name)

    def put_aside(self, name: str) -> None:
        """A large body is damaged, here at least."""
        self._tell(Frame(ASIDE, name))
        for each in self.followers:
            each.catch_up.dropped(name)

    def sealed(self, name: str) -> None:
        """A large body is whole. A catch-up ends with a sync of all in any case."""
        if any(each.counts for each in self.followers):
            self._tell(Frame(SEAL, name), counting=True)

    def asked(self, number: int) -> None:
        """A sync was asked for."""
        if any(each.counts for each in self.followers):
            self._tell(Frame(SYNC, first=number), counting=True)
            for each in self.followers:
                if each.counts and each.owes < 0:
                    each.owes = self._now

    def synced(self, number: int) -> None:
        """This disk has it."""
        self._here = max(self._here, number)
        self._release()

    def _tell(self, frame: Frame, *, counting: bool = False) -> None:
        if not self.followers:
            return
        octets = encode(frame)
        for each in self.followers:
            if each.counts or not counting:
                each.send(octets)

    # -- what may be confirmed -----------------------------------------------------------------------------------------

    def required(self) -> list[str]:
        """Return the other copies that are, or might be, in the record, or will be next."""
        found = dict.fromkeys(self.recorded_now)
        for _, eligible in self._proposals:
            found.update(dict.fromkeys(eligible))
        found.update(dict.fromkeys(each.copy for each in self.followers if each.counts))
        found.pop(self.copy, None)
        return list(found)

    def _release(self) -> None:
        required = self.required()
        counting = {each.copy: each for each in self.followers if each.counts}
        upto = self._here
        if 1 + len(required) < self.options.copies_min:
            upto = self.confirmed
        for copy in required:
            follower = counting.get(copy)
            upto = min(upto, self.confirmed if follower is None else follower.reached(self.options.confirm))
        if upto > self.confirmed:
            self.confirmed = upto
            self.mirror.confirm(upto)
        self._say_whether_held(required, counting)

    def _say_whether_held(self, required: list[str], counting: dict[str, Follower]) -> None:
        missing = [copy for copy in required if copy not in counting]
        held = bool(missing) or 1 + len(required) < self.options.copies_min
        if held == self.held:
            return
        self.held = held
        if held:
            lacks = ", ".join(self.names.get(copy, copy) for copy in missing) or "enough copies"
            self.host.say(
                f"{self.name} confirms nothing: it waits for {lacks}; {self.options.copies_min} copies are asked for",
                loud=True,
            )
        else:
            alone = "" if required else ", alone: no other broker has what is confirmed from now on"
            self.host.say(f"{self.name} confirms{alone}", loud=not required)

    # -- who is eligible -----------------------------------------------------------------------------------------------

    def _wanted(self) -> dict[str, int]:
        """Return what the record should say."""
        wanted = {self.copy: self.epoch}
        for each in self.followers:
            if each.stage in (Stage.RECORDING, Stage.IN_SYNC):
                wanted[each.copy] = self.epoch
        latest = self._proposals[-1][1] if self._proposals else self.recorded_now
        if len(wanted) < self.options.copies_min:
            # Nothing is confirmed without them, so they stay as good as this one.
            for copy, epoch in latest.items():
                wanted.setdefault(copy, epoch)
        return wanted

    def _propose(self) -> None:
        latest = self._proposals[-1][1] if self._proposals else self.recorded_now
        wanted = self._wanted()
        if wanted == latest:
            if not self._proposals:
                _welcome(self, self._now)  # who came back never left the record, where enough copies are asked for
            return
        self._serial += 1
        self._proposals.append((self._serial, wanted))
        gone = [self.names.get(copy, copy) for copy in latest if copy not in wanted]
        if gone:
            self.host.say(
                f"{self.name} goes on without {', '.join(gone)}, which may not serve until it is in sync again",
                loud=True,
            )
        self.host.record(self._serial, wanted)

    def recorded(self, serial: int) -> None:
        """The proposal ``serial`` stands in the record, and no earlier one can any more."""
        for number, eligible in self._proposals:
            if number == serial:
                self.recorded_now = eligible
        self._proposals = [each for each in self._proposals if each[0] > serial]
        _welcome(self, self._now)
        self._release()

    # -- replicas ------------------------------------------------------------------------------------------------------

    def greeted(self, link: Link, facts: Mapping[str, Any], now: Instant) -> Follower:
        """A replica says who it is, and what it has. Raises Refused: tell it so, and close."""
        self._now = now
        refuse_store(facts, name=self.name, copy=self.copy, store=self.store, epoch=self.epoch)
        refuse_pair(facts, self.options, self.name)
        copy, name = str(facts["copy"]), str(facts.get("name", ""))
        for each in [each for each in self.followers if each.copy == copy]:
            self.lost(each, "it connected anew", now)
            each.link.close("it connected anew")
        if len(self.followers) >= FOLLOWERS_MAX:
            raise Refused(
                f"{self.name} has {len(self.followers)} replicas, and takes no more",
                remedy="stop one of them first",
            )
        follower = self.make(link, copy, name, now)
        follower.introduced(facts)
        self.names[copy] = name
        self.followers.append(follower)
        follower.send(
            greeting(
                WELCOME,
                {
                    "layout": LAYOUT,
                    "store": self.store,
                    "epoch": self.epoch,
                    "name": self.name,
                    "confirm": self.options.confirm,
                },
            )
        )
        self._compare(follower, {str(each): int(size) for each, size in facts["files"].items()})
        return follower

    def make(self, link: Link, copy: str, name: str, now: Instant) -> Follower:
        """Return a new follower, which has everything to be compared yet."""
        return Follower(link, copy, name, now, CatchUp())

    def _compare(self, follower: Follower, theirs: Mapping[str, int]) -> None:
        """Make the replica's files those that are here, and note what is to come of each."""
        ends = self.mirror.ends
        for name in theirs:
            if name not in ends:
                follower.send(encode(Frame(DROP, name)))
        for name, end in ends.items():
            has = theirs.get(name, -1)
            if has < 0:
                follower.send(encode(Frame(CREATE, name)))
            elif has > end:
                follower.send(encode(Frame(CUT, name, first=end)))
            follower.catch_up.ranges[name] = Range(0, end, min(max(0, has), end))
        left = follower.catch_up.left()
        self.host.say(f"{follower.name} connects to be made a copy of {self.name}: {left} octets", loud=False)

    def take(self, follower: Follower, frames: list[Frame], now: Instant) -> None:
        """A replica says something."""
        self._now = now
        follower.heard = now
        for frame in frames:
            if follower not in self.followers:
                return
            self._take(follower, frame)
        self.advance(follower, now)
        self._release()

    def _take(self, follower: Follower, frame: Frame) -> None:
        kind = frame.kind
        if kind == RECEIVED_FRAME:
            follower.received = max(follower.received, frame.first)
            follower.taken = max(follower.taken, min(frame.second, follower.sent))
        elif kind == SYNCED_FRAME:
            follower.synced = max(follower.synced, frame.first)
            follower.owes = -1 if follower.synced >= self.mirror.syncs else self._now
        elif kind in (SAME, LACKS):
            if not follower.catch_up.probing or frame.first < 0 or not 0 < frame.second <= PIECE:
                self.drop(follower, "it answers what nobody asked")
                return
            follower.catch_up.answered(frame.name, frame.first, frame.second, lacks=kind == LACKS)
        elif kind == JOINED:
            if follower.stage is Stage.PROMISING and frame.first == self.epoch:
                follower.stage = Stage.RECORDING
                self._propose()
        elif kind == ASK_BACK:
            if follower.stage is Stage.IN_SYNC:
                self.host.asked_back(follower)
        elif kind == SORRY:
            why = frame.octets.decode(errors="replace")[:500]
            self.drop(follower, f"it cannot go on: {why}")
        elif kind != PONG:
            self.drop(follower, f"it said what a replica does not say: kind {kind}")

    def advance(self, follower: Follower, now: Instant) -> None:
        """Let a replica go on to its next stage, if it may."""
        if follower not in self.followers:
            return
        if follower.stage is Stage.COPYING:
            self._pump(follower, now)
        if follower.stage is Stage.JOINING and follower.synced >= follower.join:
            follower.stage = Stage.PROMISING
            follower.send(encode(Frame(JOIN, first=self.epoch)))
        if follower.stage is Stage.IN_SYNC and isinstance(follower.catch_up, Comparison):
            self.verifying.go_on(follower, follower.catch_up, now)

    # -- what it lacks -------------------------------------------------------------------------------------------------

    def _pump(self, follower: Follower, now: Instant) -> None:
        """Send what it lacks, as much as is wanted under way; and when that is all, let it hear everything."""
        self.pieces.ask(follower, now)
        if follower.catch_up.flaw:
            self.verifying.spare(follower, now)
        elif follower.catch_up.done():
            follower.stage = Stage.JOINING
            follower.join = self.mirror.syncs
            follower.owes = now
            follower.send(encode(Frame(SYNC, first=follower.join)))

    def _read(self, follower: Follower, why: str) -> None:
        """A piece of what a replica lacks, or is asked about, has been read; ``why`` it cannot be."""
        if why:
            self.drop(follower, why)
            return
        self.advance(follower, self._now)
        self._release()

    def tick(self, now: Instant) -> None:
        """Time goes by: send what is due, give up who owes an answer for too long."""
        self._now = now
        patience = self.options.patience
        for each in list(self.followers):
            if now - each.heard > patience:
                self.drop(each, f"it has said nothing for {patience // SECOND} s")
            elif each.counts and each.owes >= 0 and now - each.owes > patience:
                self.drop(each, f"its disk has owed an answer for {patience // SECOND} s")
            elif each.counts and each.sent - each.taken > BACKLOG:
                self.drop(each, f"it is {(each.sent - each.taken) // MIB} MiB behind, more than may wait in memory")
            else:
                if now - each.pinged > patience // 5:
                    each.pinged = now
                    each.send(encode(Frame(PING)))
                self.advance(each, now)
        self._release()

    def lost(self, follower: Follower, why: str, now: Instant) -> None:
        """The connection to a replica is gone."""
        self._now = now
        if follower in self.followers:
            self.followers.remove(follower)
            if isinstance(follower.catch_up, Comparison) and follower.catch_up.verdict.ended < 0:
                follower.catch_up.verdict.end(CUT_OFF, why, now)
            self.host.say(f"{self.name} has lost the copy of {follower.name}: {why}", loud=follower.counts)
            self._propose()
            self._release()

    def drop(self, follower: Follower, why: str) -> None:
        """Follow up no more what a replica has, and end its connection."""
        self.lost(follower, why, self._now)
        follower.link.close(why)

    def end(self) -> None:
        """The primary stops in good order: nothing follows."""
        self._tell(Frame(ENDING))


def _welcome(replication: Replication, now: Instant) -> None:
    """Whoever noted that it is whole, and stands in the record, may take over."""
    for each in replication.followers:
        if each.stage is Stage.RECORDING and replication.recorded_now.get(each.copy) == replication.epoch:
            each.stage = Stage.IN_SYNC
            replication.verifying.joined(each.name)
            each.since = now
            replication.host.say(f"{each.name} is in sync with {replication.name}: it may take over", loud=False)


def settled(replication: Replication) -> bool:
    """Say whether every replica that counts has all that was synced here."""
    return all(each.synced >= replication.mirror.syncs for each in replication.followers if each.counts)


def facts_of(replication: Replication, now: Instant) -> dict[str, Any]:
    """Return what operators see. Octets, ms."""
    eligible = [copy for copy in replication.recorded_now if copy != replication.copy]
    return {
        "epoch": replication.epoch,
        "confirm": replication.options.confirm,
        "copies_min": replication.options.copies_min,
        "held": replication.held,
        "eligible": [replication.names.get(copy, copy) for copy in eligible],
        "replicas": [_facts_of(each, now) for each in replication.followers],
        "verified": [_verdict_of(each, now) for each in replication.verifying.verdicts.values()],
    }


def _facts_of(each: Follower, now: Instant) -> dict[str, Any]:
    left = 0 if each.counts else each.catch_up.left()
    return {
        "name": each.name,
        "stage": each.stage.value,
        "lag_octets": each.sent - each.taken + left,
        "lag_ms": 0 if each.owes < 0 else max(0, (now - each.owes) // MILLISECOND),
        "sent": each.sent,
        "copied": each.catch_up.sent,
        "compared": each.catch_up.same,
    }


def _verdict_of(verdict: Verdict, now: Instant) -> dict[str, Any]:
    ended = now if verdict.ended < 0 else verdict.ended
    return {
        "name": verdict.name,
        "state": verdict.state,
        "octets": verdict.octets,
        "compared": verdict.compared,
        "found": verdict.found,
        "took_ms": (ended - verdict.begun) // MILLISECOND,
        "ago_ms": (now - ended) // MILLISECOND,
    }


def _pieces(name: str, offset: int, octets: bytes) -> list[bytes]:
    """Return the frames of one write."""
    if len(octets) <= PIECE:
        return [encode(Frame(WRITE, name, first=offset, octets=octets))]
    return [
        encode(Frame(WRITE, name, first=offset + at, octets=octets[at : at + PIECE]))
        for at in range(0, len(octets), PIECE)
    ]
