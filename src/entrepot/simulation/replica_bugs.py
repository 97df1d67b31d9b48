"""Bugs of replication, planted to see that the simulation finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.base.environment import Instant, WallTime
from entrepot.ha.catchup import CatchUp
from entrepot.ha.comparison import DIFFERS, Comparison
from entrepot.ha.failback import Returns
from entrepot.ha.follower import Follower, Link, Stage
from entrepot.ha.lease import Record
from entrepot.ha.replica import Replica
from entrepot.ha.replication import Replication
from entrepot.ha.standing import Standing
from entrepot.ha.stream import JOIN, LACKS, LAYOUT, PROBE, SAME, Frame, encode

PLANTED: Final = (
    "confirmed before the replica's sync",  # received is taken for synced
    "in sync one batch early",  # a replica joins before it has what was confirmed without it
    "waited for once it is recorded",  # a replica is in the record before confirmations wait for it
    "alone before the record says so",  # a primary that lost a replica goes on at once
    "forgets what it proposed",  # only the last proposal counts, though an earlier one may be under way
    "compaction outruns catch-up",  # what is still to come of a file that got a name is forgotten
    "written while it was copied",  # what is written to a file that was copied already is forgotten
    "probes are not answered for",  # a replica joins while answers to probes are open
    "all is the same",  # a replica does not look whether it has the same
    "the tail stays",  # a replica keeps what it has behind the end of the primary's file
    "removals are not told",  # a replica keeps files that are gone
    "half a copy is served",  # a replica that wins while it copies serves
    "whole while it copies",  # the standing is not changed before a catch-up begins
    "stale copies are eligible",  # the record is not asked who is eligible
    "a new machine has what it received",  # what was only received counts after a restart of the machine
    "what a process left is not synced",  # a replica's new process takes what it finds for durable
    "what came is received",  # a replica answers for what its disk has not been handed
    "renamed while it is read",  # what was read of a file goes to its old name
    "sizes are the same",  # a replica that reports equal sizes is believed
    "differences are overlooked",  # a comparison takes every answer for the same
    "gone while it is compared",  # what was read of a file is compared though the file is gone
    "counts although it differs",  # a replica that was found to differ stays eligible
    "damage is copied",  # what a replica has otherwise is sent without looking at its checksums
    "gives back before it is in sync",  # the primary gets its store while its copy is made
    "gives back for ever",  # a primary that dies again and again gets its store each time
    "forgets that it gave back",  # how often is not on disk, and the process that gives back ends
    "any store is taken",  # what another broker has is made a copy of this one, and gone
    "any group is taken",  # a replica of another pair is a copy that counts
    "two may own a store",
    "a longer history is taken",  # a primary that is out of date overwrites what came after it
    "a copy made by hand is taken",  # who has the primary's own name is never waited for
    "any layout is taken",
    "who has nothing is refused",
)


class _Hasty(Follower):
    def reached(self, confirm: str) -> int:
        return self.received


class _Late(Follower):
    @property
    def counts(self) -> bool:
        return self.stage is Stage.IN_SYNC


class _OutrunCatchUp(CatchUp):
    def renamed(self, scratch: str, name: str) -> None:
        self.dropped(name)
        self.dropped(scratch)


class _MissingCatchUp(CatchUp):
    def wrote(self, name: str, offset: int, length: int) -> None:
        if name in self.ranges:
            super().wrote(name, offset, length)


class _HurriedCatchUp(CatchUp):
    def done(self) -> bool:
        return not self.redo and not self.ranges and not self.reading


class _DeafCatchUp(CatchUp):
    def renamed(self, scratch: str, name: str) -> None:
        reading = [(each, each.name) for each in self.reading]
        super().renamed(scratch, name)
        for each, was in reading:
            each.name = was


class _TrustingCatchUp(CatchUp):
    def answered(self, name: str, offset: int, length: int, *, lacks: bool) -> None:
        super().answered(name, offset, length, lacks=False)
        if lacks:
            self.again(name, offset, length)


class _Bugged(Replication):
    """Makes followers of another kind."""

    follower: type[Follower] = Follower
    catch_up: type[CatchUp] = CatchUp

    def make(self, link: Link, copy: str, name: str, now: Instant) -> Follower:
        return self.follower(link, copy, name, now, self.catch_up())


class _ConfirmsEarly(_Bugged):
    follower = _Hasty


class _WaitsLate(_Bugged):
    follower = _Late


class _Outrun(_Bugged):
    catch_up = _OutrunCatchUp


class _Missing(_Bugged):
    catch_up = _MissingCatchUp


class _Hurried(_Bugged):
    catch_up = _HurriedCatchUp


class _Deaf(_Bugged):
    catch_up = _DeafCatchUp


class _Trusting(_Bugged):
    catch_up = _TrustingCatchUp


class _JoinsEarly(Replication):
    def advance(self, follower: Follower, now: Instant) -> None:
        super().advance(follower, now)
        if follower.stage is Stage.JOINING:
            follower.stage = Stage.PROMISING
            follower.synced = follower.received = self.mirror.syncs
            follower.send(encode(Frame(JOIN, first=self.epoch)))


class _AloneAtOnce(Replication):
    def required(self) -> list[str]:
        return [each.copy for each in self.followers if each.counts]


class _Forgets(Replication):
    def required(self) -> list[str]:
        self._proposals = self._proposals[-1:]
        found = dict.fromkeys(self._proposals[-1][1] if self._proposals else self.recorded_now)
        found.update(dict.fromkeys(each.copy for each in self.followers if each.counts))
        found.pop(self.copy, None)
        return list(found)


class _KeepsQuiet(Replication):
    def dropped(self, name: str) -> None:
        for each in self.followers:
            each.catch_up.dropped(name)


class _BelievesSizes(Replication):
    def _compare(self, follower: Follower, theirs: Mapping[str, int]) -> None:
        super()._compare(follower, theirs)
        for name, size in theirs.items():
            if size == self.mirror.ends.get(name):
                follower.catch_up.dropped(name)


class _Overlooks(Replication):
    def _take(self, follower: Follower, frame: Frame) -> None:
        if frame.kind == LACKS and isinstance(follower.catch_up, Comparison):
            frame.kind = SAME
        super()._take(follower, frame)


class _ComparesWhatIsGone(Replication):
    def dropped(self, name: str) -> None:
        reading = [
            each for one in self.followers if isinstance(one.catch_up, Comparison) for each in one.catch_up.reading
        ]
        names = [(each, each.name) for each in reading]
        super().dropped(name)
        for each, was in names:
            each.name = was


class _Forgives(Replication):
    def drop(self, follower: Follower, why: str) -> None:
        found = follower.catch_up
        if not isinstance(found, Comparison) or found.verdict.state != DIFFERS:
            super().drop(follower, why)


class _GivesEarly(Replication):
    def tick(self, now: Instant) -> None:
        super().tick(now)
        for each in self.followers:
            each.since = max(each.since, 0)
            if each.stage is Stage.JOINING or each.stage is Stage.PROMISING:
                self.host.asked_back(each)


class _Untiring(Returns):
    def recent(self, wall: WallTime) -> list[WallTime]:
        return []


class _Forgetful(Returns):
    def note(self, wall: WallTime) -> None:
        self.over = True


class _Credulous(Replication):
    """Reads something else in a greeting than it says."""

    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def greeted(self, link: Link, facts: Mapping[str, Any], now: Instant) -> Follower:
        return super().greeted(link, {**facts, **self.seen_as(facts)}, now)


class _TakesAnyStore(_Credulous):
    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"store": self.store}


class _TakesAnyGroup(_Credulous):
    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"group": None}


class _TakesOwners(_Credulous):
    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"owns": False}


class _TakesYounger(_Credulous):
    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"seen": 0}


class _TakesTwins(_Credulous):
    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"copy": f"{facts['copy']} of {facts['name']}"} if facts.get("copy") == self.copy else {}


class _TakesAnyLayout(_Credulous):
    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"layout": LAYOUT}


class _RefusesWhoHasNothing(_Credulous):
    def seen_as(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {} if facts["files"] else {"store": "none"}


class _SaysSame(Replica):
    def _probed(self, frame: Frame) -> None:
        assert frame.kind == PROBE
        self.send(encode(Frame(SAME, frame.name, first=frame.first, second=frame.second)))


class _CountsArrivals(Replica):
    def _mark(self) -> None:
        if self._taken != self._told:
            self._marked(self._asked, self._taken)


class _KeepsTails(Replica):
    def _cut(self, name: str, length: int) -> None:
        """Nothing is cut."""


class _Whole(Standing):
    def follows(self, store: str, epoch: int) -> bool:
        epochs = self.epochs
        same = super().follows(store, epoch)
        self.epochs = epochs
        return same


class _Stale(Standing):
    def _against(self, record: Record | None) -> str:
        why = super()._against(record)
        return "" if record is not None and record.eligible and self.epochs else why


class _Rebooted(Standing):
    def joined(self, epoch: int, confirm: str) -> None:
        super().joined(epoch, "synced")


REPLICATIONS: Final[Mapping[str, type[Replication]]] = {
    "confirmed before the replica's sync": _ConfirmsEarly,
    "in sync one batch early": _JoinsEarly,
    "waited for once it is recorded": _WaitsLate,
    "alone before the record says so": _AloneAtOnce,
    "forgets what it proposed": _Forgets,
    "compaction outruns catch-up": _Outrun,
    "written while it was copied": _Missing,
    "probes are not answered for": _Hurried,
    "renamed while it is read": _Deaf,
    "removals are not told": _KeepsQuiet,
    "sizes are the same": _BelievesSizes,
    "differences are overlooked": _Overlooks,
    "gone while it is compared": _ComparesWhatIsGone,
    "counts although it differs": _Forgives,
    "damage is copied": _Trusting,
    "gives back before it is in sync": _GivesEarly,
    "any store is taken": _TakesAnyStore,
    "any group is taken": _TakesAnyGroup,
    "two may own a store": _TakesOwners,
    "a longer history is taken": _TakesYounger,
    "a copy made by hand is taken": _TakesTwins,
    "any layout is taken": _TakesAnyLayout,
    "who has nothing is refused": _RefusesWhoHasNothing,
}

RETURNS: Final[Mapping[str, type[Returns]]] = {
    "gives back for ever": _Untiring,
    "forgets that it gave back": _Forgetful,
}

REPLICAS: Final[Mapping[str, type[Replica]]] = {
    "all is the same": _SaysSame,
    "the tail stays": _KeepsTails,
    "what came is received": _CountsArrivals,
}

STANDINGS: Final[Mapping[str, type[Standing]]] = {
    "whole while it copies": _Whole,
    "stale copies are eligible": _Stale,
    "a new machine has what it received": _Rebooted,
}
