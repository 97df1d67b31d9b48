"""Clients of a replicated store that dial only whom they know, and takeovers in the calm one after the other.

A client of CORE with ``ha=true`` knows the broker that it is connected to and whom that one named, and dials no other.
So the lock names whom clients know, and who else waits lets him go first (`ha/lease.py`, `Precedence`). What must hold:

- at any moment: clients are told of nobody whom the record of the lock does not name, and of another one only when he
  whom they know is not in sync any more, or the store is the other one's; who claims the store and is not
  the heir of a record in which that one is eligible has waited for `PRECEDENCE`; epochs of claims rise.
- in the calm: the lock names a replica that is in sync, as soon as there is one, the broker before all whose store it
  is; clients know him. Whatever ends the primary, the heir succeeds where he can; if he is dead, stands still, is cut
  off or is not in sync, another does, and no later than `PRECEDENCE` after it could have at all, or at once where the
  record does not call him eligible. A client that follows what it was told is at the new primary then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.ha.follower import Stage
from entrepot.ha.lease import PRECEDENCE, PRIMARY, Record, Rules, patience
from entrepot.simulation.copies import Copy, Primary, Scene
from entrepot.simulation.shared import copied

CLIENTS: Final = 2
DIALS_EVERY: Final = 100 * MILLISECOND

SLACK: Final = 500 * MILLISECOND
"""What a claim takes in the calm: a look each 100 ms, three answers of the lock, a directory that is read."""

SETTLED: Final = 2 * SECOND
"""For so long nothing changes before the next takeover: a store that is to be given back is so by then."""

SETTLES_WITHIN: Final = 40 * SECOND
"""A lease, and a store that is read back; copies that are made anew; a process that begins anew in between."""

SUCCEEDS_WITHIN: Final = PRECEDENCE + 2 * SLACK

ENDS_WITHIN: Final = 15 * SECOND
"""A primary that loses its lock may renew it unheard for as long as it believes in it: a lease, and what is late."""

DRIFTS: Final = 50  # of a time, 1 part: more than clocks drift


class Client:
    """A program that knows two places at most. ``cut``: brokers that it does not reach."""

    def __init__(self, succession: Succession, number: int) -> None:
        self.all: Final = succession.all
        self.name: Final = f"client{number}"
        self.known: tuple[str, ...] = ()  # names of brokers
        self.cut: dict[str, bool] = {}
        self._at: tuple[Copy, int] | None = None  # and the life of its process
        self._next = 0
        self.all.world.later(number * MILLISECOND, self._tick)

    @property
    def at(self) -> Copy | None:
        """Return the broker that it is connected to, and that serves it."""
        copy = self._at[0] if self._at is not None else None
        return copy if copy is not None and self._is_there() else None

    def reach(self, copy: Copy) -> None:
        """It reaches a broker again."""
        self.cut.pop(copy.name, None)

    def _tick(self) -> None:
        if self._at is not None and not self._is_there():
            self._at = None
        if self._at is None:
            self._dial()
        elif not self._at[0].paused and self._at[0].name not in self.cut:
            self._hear(self._at[0])
        self.all.world.later(DIALS_EVERY, self._tick)

    def _is_there(self) -> bool:
        assert self._at is not None
        copy, life = self._at
        return copy.life == life and copy.primary is not None and copy.primary.open

    def _hear(self, copy: Copy) -> None:
        assert copy.primary is not None
        self.known = tuple(name for name in (copy.name, copy.primary.telling.who) if name)

    def _dial(self) -> None:
        """Dial the next of those that are known; one who knows nobody yet has the place of who serves."""
        serving = [each for each in self.all.copies if each.primary is not None and each.primary.open]
        self._next += 1
        known = self.known or tuple(each.name for each in serving)
        for copy in serving:
            reached = not copy.paused and copy.name not in self.cut
            if reached and copy.name == known[self._next % len(known)]:
                self._at = (copy, copy.life)
                self._hear(copy)

    def begin_anew(self, serving: str) -> None:
        """Its operator starts it again with the place of who serves, unless it knows that."""
        if serving not in self.known:
            self.all.world.count("clients that nobody could tell")
            self.known = (serving,)
            self._at = None


class Claim(NamedTuple):
    """``late``: how long after it could have been made at all."""

    copy: Copy
    before: Record
    late: int


class Succession:
    """Judges who succeeds whom. ``all``: the brokers."""

    def __init__(self, scene: Scene) -> None:
        self.all: Final = scene
        self.world: Final = scene.world
        self.lots: Final = self.world.lots("succession")
        self.mute: Final = self.lots.below(3) if self.lots.chance(0.2) else -1
        """Number of a broker that clients are told nothing of: it has no cluster connection."""
        self.clients: Final = [Client(self, number) for number in range(CLIENTS)]
        self.claims: list[Claim] = []
        self._since: Instant = 0  # the record is as it is
        self._epoch = 0
        self._unable: dict[str, bool] = {}  # who cannot succeed just now
        self._excused = False  # clients may know nobody who serves
        self.world.later(self.lots.between(SECOND, 4 * SECOND), self._cut_off)

    def tells(self, copy: Copy) -> bool:
        """Say whether clients may be told of a broker."""
        return copy.name != f"broker{self.mute}"

    def named(self, copy: Copy, heir: str) -> None:
        """Clients of ``copy`` are told of the copy ``heir``: by then the lock says so."""
        record = self.all.service.record
        mine = copy.lease.candidate.mine
        if record is not None and (record.instance, record.epoch) == (mine.instance, mine.epoch):
            self.world.count("heirs named" if heir else "heirs gone")
            followers = [] if copy.primary is None else copy.primary.replication.followers
            for each in followers:
                if each.copy == heir and each.stage is not Stage.IN_SYNC:
                    self.world.violation(f"clients of {copy.name} are told of {each.name}, which is not in sync")
            if record.heir != heir:
                self.world.violation(f"clients of {copy.name} are told of {heir or 'nobody'}, not of {record.heir!r}")

    def chosen(self, primary: Primary, before: str) -> None:
        """The lock is asked to name another heir: whom it named stays so while he is in sync, but for an owner."""
        heir = next((each for each in self.all.copies if each.standing.copy == primary.telling.heir), None)
        stays = before in [each.copy for each in primary.replication.pieces.in_sync]
        if stays and (heir is None or heir.part != PRIMARY):
            name = heir.name if heir is not None else "nobody"
            self.world.violation(f"{primary.copy.name} names {name}, and {self._called(before)} is in sync")

    # -- at the lock ---------------------------------------------------------------------------------------------------

    def swapped(self, before: Record | None, record: Record) -> None:
        """``record`` takes the place of ``before`` in the lock."""
        if record.beat == 1 and not record.released:
            self._claimed(before, record)
        self._since = self.world.time

    def _claimed(self, before: Record | None, record: Record) -> None:
        if record.epoch <= self._epoch:
            self.world.violation(f"{record.name} claims epoch {record.epoch}, {self._epoch} was claimed before")
        self._epoch = record.epoch
        copy = next(each for each in self.all.copies if each.name == record.name)
        if before is None:
            return
        free = self._since if before.released else self._since + patience(before.lease)
        late = self.world.time - free
        self.claims.append(Claim(copy, before, late))
        if self._has_precedence(before) and before.heir == copy.standing.copy:
            self.world.count("heirs that succeed")
        elif self._has_precedence(before):
            self.world.count("others that succeed")
            if late < PRECEDENCE - (PRECEDENCE + before.lease) // DRIFTS:
                heir = self._called(before.heir)
                self.world.violation(f"{copy.name} succeeds {late // MILLISECOND} ms after it may, and {heir} is heir")

    def _has_precedence(self, record: Record) -> bool:
        return record.heir in record.eligible and record.reserved in ("", Rules.OTHERS)

    def _called(self, heir: str) -> str:
        return next((each.name for each in self.all.copies if each.standing.copy == heir), "")

    def _cut_off(self) -> None:
        """A client does not reach a broker for a while."""
        if not self.all.trouble:
            return
        client, copy = self.lots.one_of(self.clients), self.lots.one_of(self.all.copies)
        client.cut[copy.name] = True
        self.world.later(self.lots.skewed(100 * MILLISECOND, 4 * SECOND), lambda: client.reach(copy))
        self.world.later(self.lots.between(SECOND, 6 * SECOND), self._cut_off)

    # -- in the calm ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """End the primary, some times over, and judge who succeeds."""
        self.all.producing = True
        for client in self.clients:
            client.cut.clear()
        self._excused = True
        for _ in range(self.lots.between(1, 3)):
            primary = self._settle()
            if primary is None:
                return
            self._end(primary)
            if self.world.violations:
                return
        self._settle()

    def _serving(self) -> Copy | None:
        serving = [each for each in self.all.copies if each.primary is not None and each.primary.open]
        return serving[0] if len(serving) == 1 and not serving[0].paused else None

    def _settle(self) -> Copy | None:
        """Wait until all copies are in sync and nothing changes; return who serves."""
        until = self.world.time + SETTLES_WITHIN
        since, before = self.world.time, ""
        while self.world.time < until and not self.world.violations:
            primary = self._serving()
            state = "" if primary is None else self._state(primary)
            if primary is not None and (self._excused or not self.tells(primary)):
                for client in self.clients:
                    client.begin_anew(primary.name)
            if state != before or not state:
                since, before = self.world.time, state
            elif primary is not None and self.world.time - since >= SETTLED:
                self._excused = False
                self._judge(primary)
                return None if self.world.violations else primary
            self.world.run(self.world.time + DIALS_EVERY)
        if not self.world.violations:
            self.world.violation("it is calm, and not all copies are in sync after a takeover")
        return None

    def _state(self, primary: Copy) -> str:
        """Return what must not change; "" while not all are in sync."""
        record = self.all.service.record
        assert primary.primary is not None
        in_sync = [each.name for each in primary.primary.replication.pieces.in_sync]
        if record is None or record.released or len(in_sync) < len(self.all.copies) - 1:
            return ""
        return f"{primary.name}{primary.life} {record.epoch} {record.heir} {in_sync}"

    def _judge(self, primary: Copy) -> None:
        """The lock names a replica, and clients know it."""
        record = self.all.service.record
        assert record is not None
        assert primary.primary is not None
        others = [each for each in self.all.copies if each is not primary and self.tells(each)]
        heir = self._called(record.heir)
        owners = [each.name for each in others if each.part == PRIMARY]
        if heir not in (owners or [each.name for each in others] or [""]):
            self.world.violation(f"it is calm, and the lock of {primary.name} names {heir or 'nobody'} for its heir")
        for client in self.clients:
            if client.at is not primary:
                self.world.violation(f"it is calm, {client.name} knows {client.known}, and {primary.name} serves")
            elif client.known[1:] != ((heir,) if heir else ()):
                self.world.violation(f"it is calm, {client.name} knows {client.known}, and {heir} is heir")

    def _end(self, primary: Copy) -> None:
        """Let the primary end in some way, and perhaps the heir as well."""
        lots, record = self.lots, copied(self.all.service.record)
        assert record is not None
        heir = next((each for each in self.all.copies if each.standing.copy == record.heir), None)
        self._unable = {primary.name: True}
        self.claims.clear()
        mends: list[Callable[[], None]] = []
        what = lots.fraction()
        if heir is not None and what < 0.5:
            if what < 0.15 and len(self.all.copies) > 2:
                self._drop(primary, heir, mends)
            else:
                self._fail(heir, mends)
            self._unable[heir.name] = True
        if not primary.alive or primary.primary is None:
            return  # it was given back at that moment
        self._finish(primary, mends)
        until = self.world.time + ENDS_WITHIN
        while not self.claims and self.world.time < min(until, self._since + patience(record.lease) + SUCCEEDS_WITHIN):
            self.world.run(self.world.time + DIALS_EVERY)
            if self.world.violations:
                return
        self._see_who_succeeds(heir)
        for mend in mends:
            mend()

    def _drop(self, primary: Copy, heir: Copy, mends: list[Callable[[], None]]) -> None:
        """The heir loses its primary, which is to end in the moment in which the lock says that it does not count."""
        network = self.all.network
        ways = [(primary.name, heir.name), (heir.name, primary.name)]
        network.cut.update(dict.fromkeys(ways, True))
        mends.append(lambda: self._join(ways))
        for wire in list(network.wires):
            if set(wire.ends) == {primary.name, heir.name}:
                wire.reset()
        copy, until = heir.standing.copy, self.world.time + 5 * SECOND
        while self.world.time < until and copy in getattr(self.all.service.record, "eligible", {}):
            self.world.run(self.world.time + MILLISECOND)
        self.world.count("heirs that are dropped")

    def _join(self, ways: list[tuple[str, str]]) -> None:
        for way in ways:
            self.all.network.cut.pop(way, None)

    def _fail(self, heir: Copy, mends: list[Callable[[], None]]) -> None:
        """The heir cannot succeed for longer than all this takes."""
        lots, service = self.lots, self.all.service
        self.world.count("heirs that cannot")
        what = lots.below(3)
        if what == 0:
            heir.kill()  # it may be back in time
        elif what == 1:
            heir.pause(patience(self.all.lease.duration) + PRECEDENCE + 3 * SLACK)
        else:
            service.cut[heir.name] = True
            mends.append(lambda: service.reach(heir.name))

    def _finish(self, primary: Copy, mends: list[Callable[[], None]]) -> None:
        service = self.all.service
        what = self.lots.below(5)
        length = patience(self.all.lease.duration) + PRECEDENCE + 3 * SLACK
        if what == 0:
            primary.kill()
        elif what == 1:
            primary.crash()
        elif what == 2:
            primary.stop()
        elif what == 3:
            primary.pause(length)
        else:
            service.cut[primary.name] = True
            mends.append(lambda: service.reach(primary.name))

    def _see_who_succeeds(self, heir: Copy | None) -> None:
        """Who could succeed did, the heir before all, and nobody waited for longer than he must."""
        claim = next(iter(self.claims), None)
        able = [each for each in self.all.copies if each.name not in self._unable]
        if claim is None:
            if able:
                self.world.violation(f"it was calm, the primary ended, and {able[0].name} does not succeed")
            return
        if heir in able and claim.copy is not heir and claim.before.reserved in ("", Rules.OTHERS):
            self.world.violation(f"{claim.copy.name} succeeds, and clients were sent to {claim.before.heir!r}")
        own = claim.before.heir in ("", claim.copy.standing.copy)
        most = SLACK + (PRECEDENCE if self._has_precedence(claim.before) and not own else 0)
        if claim.copy in able and claim.late > most:
            self.world.violation(
                f"{claim.copy.name} succeeds {claim.late // MILLISECOND} ms after it may: {most // MILLISECOND} at most"
            )
        self._excused = heir not in able
