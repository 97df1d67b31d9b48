"""Brokers that replicate a store, from one seed: two or three, disks that tear, wires that are cut in any shape.

What is checked: nobody confirms once a younger epoch has read the store; what was confirmed is in *every* copy that the
lock's record and its own standing both call eligible, whatever its machine does next; a new primary finds all of it and
nothing that was confirmed to be settled; large bodies too; and when it is calm one serves, confirms, has every other
in sync, and all of them have the same files, octet by octet. Copies are compared while all this goes on
(`ha/comparison.py`): nothing is found then that is not there, and a bit that is turned over in the calm is mended. One
that is turned over in the primary's store is found when replicas connect anew, and never copied over what they have.
In half of the runs the store is one broker's, and others give it back: to who is in sync, and not for ever. In some,
strangers connect (`simulation/strangers.py`): who does not fit is refused, with the reason, and nothing comes of it.

Clients that know two places follow, and who succeeds whom is judged (`simulation/heirs.py`).

``planted`` names a bug of `replica_bugs.py` or `heir_bugs.py` that a run is to be made with, to see that it would be
found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration
from entrepot.ha.candidate import State
from entrepot.ha.comparison import DAMAGED, DIFFERS
from entrepot.ha.failback import Returns
from entrepot.ha.lease import BACKUP, EITHER, PRIMARY, LeaseOptions, Record
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.standing import RECEIVED, SYNCED, Standing
from entrepot.simulation.copies import Copy, Primary, Scene
from entrepot.simulation.heir_bugs import PLANTED as PLANTED_IN_HEIRS
from entrepot.simulation.heirs import Succession
from entrepot.simulation.kept import Kept
from entrepot.simulation.replica_bugs import PLANTED as PLANTED_IN_COPIES
from entrepot.simulation.replica_bugs import RETURNS
from entrepot.simulation.strangers import Strangers
from entrepot.simulation.world import World

__all__ = ["PLANTED", "Replicas"]

PLANTED: Final = (*PLANTED_IN_COPIES, *PLANTED_IN_HEIRS)

CALM: Final = 25 * SECOND
"""Faults end this long before the run does: time for leases to end and copies to be made."""

ROT_AFTER: Final = 8 * SECOND
"""Of the calm: copies are in sync by then, and there is time to mend one."""

LOOKS: Final = 0.3  # of the faults: all eligible copies are read as after a crash, first

STRANGE: Final = 0.4  # of the runs: others connect, too

DAMAGE_AFTER: Final = 14 * SECOND
"""Of the calm: all are in sync by then."""


class Damaged:
    """An octet of the store of the primary ``of`` that is ``wrong``, and ``right`` in all replicas."""

    def __init__(self, of: str, name: str, at: int, right: int, wrong: int) -> None:
        self.of: Final = of
        self.name: Final = name
        self.at: Final = at
        self.right: Final = right
        self.wrong: Final = wrong

    def stands_in(self, files: Mapping[str, bytearray]) -> bool:
        """Say whether somebody with ``files`` has the damage."""
        return files.get(self.name, b"")[self.at : self.at + 1] == bytes([self.wrong])

    def mended(self, name: str, content: bytearray) -> bytearray:
        """Return what a replica has of the file ``name`` where ``content`` is what the primary has."""
        if name != self.name or self.at >= len(content) or content[self.at] != self.wrong:
            return content
        return content[: self.at] + bytes([self.right]) + content[self.at + 1 :]


class Comparing:
    """Compares copies now and then, and turns a bit of one over, once, or one of the primary's."""

    def __init__(self, scene: Scene) -> None:
        self.scene: Final = scene
        self.world: Final = scene.world
        self.lots: Final = self.world.lots("comparing")
        self.rotten = False
        self.damaged: Damaged | None = None
        self.damage_lots: Final = self.world.lots("damage")
        self.world.later(self.lots.between(SECOND, 8 * SECOND), self._again)

    def _again(self) -> None:
        self.verify()
        self.world.later(self.lots.between(SECOND, 8 * SECOND), self._again)

    def _primary(self) -> Primary | None:
        serving = [each.primary for each in self.scene.copies if each.primary is not None and each.primary.open]
        return serving[0] if len(serving) == 1 else None

    def verify(self) -> None:
        """See what the last comparisons came to, and begin others."""
        self.look()
        primary = self._primary()
        if primary is not None and not primary.copy.paused:
            limit = self.lots.one_of((0, 0, 50_000))
            self.world.count("comparisons", primary.replication.verifying.begin(primary.copy.now(), limit))

    def look(self) -> None:
        """See that nothing was found that is not there."""
        primary = self._primary()
        for verdict in () if primary is None else primary.replication.verifying.verdicts.values():
            self.world.count(f"compared: {verdict.state}")
            made_up = not self.rotten if verdict.state == DIFFERS else self.damaged is None
            if verdict.state in (DIFFERS, DAMAGED) and made_up:
                self.world.violation(f"{verdict.name} is said to be {verdict.state}: {verdict.found}; nothing is")

    def rot(self) -> None:
        """Turn a bit over in a file of a replica that is in sync, where the primary has it, too."""
        primary = self._primary()
        if primary is None or self.lots.chance(0.3):
            return
        names = [each.name for each in primary.replication.pieces.in_sync]
        copies = [each for each in self.scene.copies if each.name in names]
        if not copies:
            return
        medium = self.lots.one_of(copies).disk.medium
        files = [name for name in medium.durable if medium.view.get(name) and medium.durable[name]]
        name = self.lots.one_of(sorted(files))
        at = self.lots.below(min(len(medium.view[name]), len(medium.durable[name])))
        for octets in (medium.view[name], medium.durable[name]):
            octets[at] ^= 1
        self.rotten = True
        self.world.count("bits turned over")

    def damage(self) -> None:
        """Turn a bit over in the primary's store, where all others have it right, and have them connect anew."""
        primary, lots = self._primary(), self.damage_lots
        if primary is None or self.rotten:  # who connects anew is mended, whether a comparison sees it or not
            return
        others = [each for each in self.scene.copies if each is not primary.copy]
        if len(primary.replication.pieces.in_sync) < len(others):
            return
        medium = primary.copy.disk.medium
        name = lots.one_of(
            sorted(name for name, content in medium.durable.items() if content and medium.view.get(name))
        )
        at = lots.below(min(len(medium.view[name]), len(medium.durable[name])))
        right = medium.view[name][at]
        theirs = [each.disk.medium.view.get(name, b"") for each in others]
        if medium.durable[name][at] != right or any(each[at : at + 1] != bytes([right]) for each in theirs):
            return
        medium.view[name][at] = medium.durable[name][at] = right ^ 1
        self.damaged = Damaged(primary.copy.name, name, at, right, right ^ 1)
        self.scene.damaged = True
        self.world.count("bits of a primary turned over")
        for wire in list(self.scene.network.wires):
            wire.reset()

    def spared(self, primary: Primary) -> list[str]:
        """Return who is not made the same, because it may have what is damaged at the primary."""
        verdicts = primary.replication.verifying.verdicts.values()
        return [each.name for each in verdicts if each.state == DAMAGED]


class Replicas(Kept):
    """The members, the lock, the network and what befalls them."""

    def __init__(self, seed: int, planted: str = "", *, lines: bool = False) -> None:
        super().__init__(World(seed, lines=lines), planted)
        self.world.events_max = 4_000_000
        self.lots = self.world.lots("faults")
        self.lease = LeaseOptions(self.lots.one_of((SECOND, 2 * SECOND)))
        count = self.lots.between(2, 3)
        self.belonging = self.world.lots("belonging")
        self.options, self.owner = self._draw_options()
        self.coincide = self.world.lots("coincidences").chance(0.15)
        self.parts = self.world.lots("parts")
        self.parted = self.parts.chance(0.5)  # the store is the first one's, as with Artemis
        self.failback = self.parts.chance(0.8)
        self.steady = self.parts.between(100 * MILLISECOND, SECOND)
        self.returns_max = self.parts.between(1, 2)
        self.returned: dict[str, int] = {}  # who gave the store back -> how often
        self.succession = Succession(self)
        for number in range(count):
            self.copies.append(Copy(self, f"broker{number}", self._part(number)))
        self.corners = self.world.lots("corners")
        self.comparing = Comparing(self)
        self.strangers = Strangers(self) if self.belonging.chance(STRANGE) else None
        if self.parted and self.parts.chance(0.6):
            self.world.later(self.parts.between(SECOND, 3 * SECOND), self._die_again)
        self.world.later(self.lots.skewed(MILLISECOND, 3 * SECOND), self._befall)
        self.world.later(self.corners.between(2 * SECOND, 6 * SECOND), self._corner)

    def _draw_options(self) -> tuple[ReplicationOptions, ReplicationOptions]:
        """Return how the store is replicated by others, and by the broker whose it is."""
        confirm = RECEIVED if self.lots.chance(0.3) else SYNCED
        copies_min = self.lots.between(1, 2)
        patience = self.lots.between(1, 3) * SECOND
        window = self.lots.skewed(500, 1_000_000)
        bandwidth = self.lots.one_of((0, 0, 100_000))
        group = self.belonging.one_of(("", "orders"))

        def made(*, owns: bool) -> ReplicationOptions:
            return ReplicationOptions(
                confirm=confirm,
                copies_min=copies_min,
                patience=patience,
                window=window,
                bandwidth=bandwidth,
                group=group,
                owns=owns,
            )

        return made(owns=False), made(owns=True)

    def options_of(self, part: str) -> ReplicationOptions:
        """Return how a broker that plays ``part`` replicates its store."""
        return self.owner if part == PRIMARY else self.options

    def run(self, length: Duration = 50 * SECOND) -> list[str]:
        """Let it run, faults first, calm at the end; return what went wrong."""
        world = self.world
        end = world.time + length
        world.later(length - CALM, self._calm)
        world.later(length - CALM + ROT_AFTER, self.comparing.rot)
        world.later(length - CALM + DAMAGE_AFTER, self.comparing.damage)
        world.later(length - 3 * SECOND, self._quiet)
        try:
            world.run(end)
        except Exception as error:
            if not self.planted:
                raise
            world.violation(f"{type(error).__name__}: {error}")
        if not world.violations:
            self.look_at_all()
            self._at_the_end()
        if not world.violations and not self.damaged:
            self.succession.run()
        return world.violations

    def swap(self, version: int, record: Record) -> int:
        """Put ``record`` into the lock if that is at ``version``; return its version then, else -1."""
        before = self.service.record
        made = super().swap(version, record)
        if made >= 0:
            self.succession.swapped(before, record)
        return made

    def tells(self, copy: Copy) -> bool:
        """Say whether clients may be told of a broker."""
        return self.succession.tells(copy)

    def named(self, copy: Copy, heir: str) -> None:
        """Clients of ``copy`` are told that the copy ``heir``, "" for none, takes over."""
        self.succession.named(copy, heir)

    def chosen(self, primary: Primary, before: str) -> None:
        """The lock of ``primary`` is asked to name another heir than ``before``."""
        self.succession.chosen(primary, before)

    def spoiled(self, copy: Copy) -> bool:
        """Say whether it is the primary whose disk was damaged."""
        damaged = self.comparing.damaged
        return damaged is not None and damaged.of == copy.name

    # -- giving the store back -----------------------------------------------------------------------------------------

    def _part(self, number: int) -> str:
        if not self.parted:
            return EITHER
        return PRIMARY if number == 0 else BACKUP

    def returns(self, standing: Standing) -> Returns:
        """Return when a broker gives its store back."""
        made = RETURNS.get(self.planted, Returns)
        allowed = self.parted and self.failback and standing.part == BACKUP
        return made(standing, allowed=allowed, steady=self.steady, most=self.returns_max, remembered=1000 * SECOND)

    def gives_back(self, giver: Copy, to: str) -> None:
        """A broker gives its store back: in sync is who the lock says is eligible, and not again and again."""
        self.world.count("stores given back")
        self.returned[giver.name] = self.returned.get(giver.name, 0) + 1
        record = self.service.record
        if record is not None and record.instance == giver.lease.candidate.mine.instance and to not in record.eligible:
            self.world.violation(f"{giver.name} gives its store back to {to}, which is not in sync")
        if self.returned[giver.name] > self.returns_max:
            self.world.violation(f"{giver.name} gives its store back for the {self.returned[giver.name]}. time")

    def _die_again(self) -> None:
        """The primary dies soon after it serves, each time."""
        first = self.copies[0]
        if not self.trouble:
            return
        if first.primary is not None and first.primary.open and not first.paused:
            first.kill(back=SECOND)
        self.world.later(self.parts.between(500 * MILLISECOND, 2 * SECOND), self._die_again)

    def _look_who_serves(self, serving: Copy) -> None:
        """In the calm the primary has its store, where it is given back."""
        allowed = self.parted and self.failback and serving.part == BACKUP
        if allowed and self.returned.get(serving.name, 0) < self.returns_max:
            self.world.violation(f"it is calm, and {serving.name}, a backup, goes on")
        if self.parted and serving.part == PRIMARY and self.returned:
            self.world.count("primaries that have their store back")

    # -- the end -------------------------------------------------------------------------------------------------------

    def _at_the_end(self) -> None:
        self.comparing.look()
        if self.strangers is not None:
            self.strangers.judge()
        serving = [each for each in self.copies if each.primary is not None and each.primary.open]
        if len(serving) != 1:
            self.world.violation(f"it is calm, and {len(serving)} serve")
            return
        primary = serving[0].primary
        assert primary is not None
        spared = self.comparing.spared(primary)
        if self.confirmed_at < self.world.time - 10 * SECOND and not spared:
            self.world.violation("it is calm, and nothing is confirmed")
        record = self.service.record
        assert record is not None
        if len(record.eligible) != len(self.copies) and not spared:
            stages = [each.stage.value for each in primary.replication.followers]
            self.world.violation(f"it is calm, and {len(record.eligible)} copies are eligible; {stages}")
            return
        self._look_who_serves(serving[0])
        for each in self.copies:
            if each is not serving[0]:
                self._see_the_same(serving[0], each, spared=each.name in spared)

    def _see_the_same(self, primary: Copy, other: Copy, *, spared: bool) -> None:
        """A replica has what its primary has, but for what is damaged there: that it has kept."""
        mine, theirs = primary.disk.medium.view, other.disk.medium.view
        damaged = self.comparing.damaged
        if damaged is not None and damaged.stands_in(mine) and damaged.stands_in(theirs):
            self.world.violation(f"{other.name} had {damaged.name} right, and has the damage of {primary.name} now")
        if spared:
            return
        if sorted(mine) != sorted(theirs):
            self.world.violation(f"{other.name} has other files than {primary.name}")
        for name, content in mine.items():
            expected = content if damaged is None else damaged.mended(name, content)
            if theirs.get(name) != expected:
                self.world.violation(f"{other.name} has another {name} than {primary.name}")

    # -- what befalls them ---------------------------------------------------------------------------------------------

    def _befall(self) -> None:
        if not self.trouble:
            return
        if self.looks.chance(LOOKS):
            self.look_at_all()
        lots = self.lots
        copy = lots.one_of(self.copies)
        what = lots.fraction()
        length = lots.skewed(10 * MILLISECOND, 6 * SECOND)
        if what < 0.12:
            copy.kill()
        elif what < 0.22:
            copy.crash()
        elif what < 0.36:
            copy.pause(length)
        elif what < 0.44:
            copy.stop()
        elif what < 0.62:
            self._cut(copy, length)
        elif what < 0.7:
            self.service.cut[copy.name] = True
            self.world.later(length, lambda: self.service.reach(copy.name))
        elif what < 0.74:
            self.service.down = True
            self.world.later(length, self._service_up)
        elif what < 0.84 and self.network.wires:
            lots.one_of(self.network.wires).reset()
        elif what < 0.92:
            copy.disk.sync_delay_max = 4 * SECOND
            self.world.later(length, lambda: self._fast(copy))
        else:
            copy.disk.room.make(copy.disk.used() + 4000)
            self.world.later(length, copy.disk.room.make)
        self.world.later(lots.skewed(20 * MILLISECOND, 5 * SECOND), self._befall)

    def _corner(self) -> None:
        """Several things at once, which chance alone brings together too rarely."""
        if not self.trouble:
            return
        lots = self.corners
        replicas = [each for each in self.copies if each.following is not None and each.following.wire is not None]
        primaries = [each for each in self.copies if each.primary is not None and each.primary.open]
        if replicas and lots.chance(0.6):
            self._lose_what_is_not_synced(lots.one_of(replicas))
        elif primaries:
            self._claim_beside(lots.one_of(primaries))
        self.world.later(lots.between(2 * SECOND, 8 * SECOND), self._corner)

    def _lose_what_is_not_synced(self, copy: Copy) -> None:
        """A replica's disk is slow, and then its process or its machine ends; the process is back soon."""
        copy.disk.sync_delay_min, copy.disk.sync_delay_max = 2 * SECOND, 4 * SECOND
        crash = self.corners.chance(0.4)

        def end() -> None:
            self._fast(copy)
            if crash:
                copy.crash()
            else:
                copy.kill(back=50 * MILLISECOND)
            self.look_at_all()
            self.world.later(self.corners.between(100 * MILLISECOND, 2 * SECOND), self.look_at_all)

        self.world.later(self.corners.between(100 * MILLISECOND, SECOND), end)

    def _claim_beside(self, primary: Copy) -> None:
        """A primary goes on without its replicas, stands still, and wakes while one that connected anew claims."""
        ways = [(primary.name, each.name) for each in self.copies if each is not primary]
        ways += [(to, of) for of, to in ways]
        for way in ways:
            self.network.cut[way] = True
        self.world.later(self.corners.between(100 * MILLISECOND, 2 * SECOND), lambda: self._stand_still(primary, ways))

    def _stand_still(self, primary: Copy, ways: list[tuple[str, str]]) -> None:
        self._mend(ways)
        if primary.primary is None or not self.trouble:
            return
        length = 3 * self.lease.duration
        primary.pause(length)
        for wire in self.network.wires:
            if primary.name in wire.ends:
                wire.reset()
        self.service.slow = True
        self._watch_claims(primary, self.world.time + length)

    def _watch_claims(self, primary: Copy, until: int) -> None:
        others = [each for each in self.copies if each is not primary and each.alive and each.following is not None]
        claiming = any(each.lease.candidate.state is State.CLAIMING for each in others)
        if claiming or self.world.time > until or not self.trouble or not primary.paused:
            self.service.slow = False
            if claiming:
                self.world.count("claims beside one who wakes")
                primary.starved = primary.now() + self.corners.between(0, 300 * MILLISECOND)
            primary.resume()
            return
        self.world.later(MILLISECOND, lambda: self._watch_claims(primary, until))

    def _cut(self, copy: Copy, length: Duration) -> None:
        """Cut one direction, or both, between two, for a while; sometimes the lock is out of reach as well."""
        other = self.lots.one_of([each for each in self.copies if each is not copy])
        ways = [(copy.name, other.name)]
        if self.lots.chance(0.6):
            ways.append((other.name, copy.name))
        for way in ways:
            self.network.cut[way] = True
        self.world.count("partitions")
        if self.lots.chance(0.2):
            self.service.cut[copy.name] = True
            self.world.later(length, lambda: self.service.reach(copy.name))
        self.world.later(length, lambda: self._mend(ways))

    def _mend(self, ways: list[tuple[str, str]]) -> None:
        for way in ways:
            self.network.cut.pop(way, None)

    def _fast(self, copy: Copy) -> None:
        copy.disk.sync_delay_min = 100 * MICROSECOND
        copy.disk.sync_delay_max = 2 * MILLISECOND

    def _service_up(self) -> None:
        self.service.down = False

    def _calm(self) -> None:
        self.trouble = False
        self.service.flaky = False
        self.service.slow = False
        self.service.cut.clear()
        self.service.down = False
        self.network.cut.clear()
        for each in self.copies:
            each.disk.room.make()
            self._fast(each)

    def _quiet(self) -> None:
        """Nothing is produced any more, so that all files can be compared."""
        self.producing = False
