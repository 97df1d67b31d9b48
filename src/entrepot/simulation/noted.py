"""Who waits for a simulated pair's store, and whom its clients are told of: what `io/waiting.py` is around the cores.

Notes are on the disk of the store, which hangs; who writes them dies, stands still, and has a clock that drifts. What
clients are told is held against when notes really came to be there, not against what the core made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.ha.lease import PRIMARY
from entrepot.ha.successors import FRESH, LOOK_EVERY, Connectors, Note, Roll, Saying, Telling
from entrepot.simulation.pair_bugs import ROLLS, SAYINGS, TELLINGS
from entrepot.simulation.shared import Disk
from entrepot.simulation.world import World

KEEPS: Final = 8 * SECOND
"""How long a note that does not change is kept here: a run takes a minute, as long as it is kept in earnest."""

DRIFT: Final = 50  # of a time, 1 part: more than clocks drift


class Member(Protocol):
    """Whose process it is."""

    name: str
    life: int
    ports: bool
    part: str

    @property
    def waits(self) -> bool:
        """Say whether it waits for the store."""

    def now(self) -> Instant:
        """Return the time on its clock."""

    def later(self, delay: Duration, action: Callable[[], None]) -> None:
        """Do ``action`` after ``delay``, if it lives then."""

    def heir(self, name: str) -> str:
        """Have the lock name the process ``name``, "" for none; return whom it names by now."""

    def tells(self, heir: str) -> None:
        """Clients are told of the process ``heir``, "" for none."""


class Noted:
    """The directory of notes, and when each was written. True times."""

    def __init__(self, world: World, disk: Disk, planted: str) -> None:
        self.world: Final = world
        self.disk: Final = disk
        self.planted: Final = planted
        self.lots: Final = world.lots("notes")
        self.notes: Final[dict[str, Note]] = {}
        self.written: Final[dict[str, Instant]] = {}  # name of a note -> when it was written last

    def write(self, name: str, note: Note) -> None:
        """A note is there."""
        self.notes[name] = note
        self.written[name] = self.world.time

    def remove(self, name: str) -> None:
        """It is not there any more."""
        self.notes.pop(name, None)


class _Look(NamedTuple):
    asked: Instant
    read: Instant


class Noting:
    """What one process of a member does about notes: says that it waits; serves, and looks who waits."""

    def __init__(self, noted: Noted, member: Member) -> None:
        planted = noted.planted
        self.noted: Final = noted
        self.member: Final = member
        self.name: Final = f"{member.name}{member.life}"  # as the lock names the process
        self._saying: Final = SAYINGS.get(planted, Saying)()
        self._roll: Final = ROLLS.get(planted, Roll)(KEEPS)
        self._telling: Final = TELLINGS.get(planted, Telling)()
        self._free: Instant = 0  # what is asked for before is done by then
        self._looks: list[_Look] = []
        self._serves: Instant = -1  # since when
        self._told: Connectors = {}  # what clients know
        self._note: Note | None = None  # what the last look found
        self._first = ""  # the note that they know it from
        member.later(noted.lots.between(0, SECOND), self._say)

    # -- it waits ------------------------------------------------------------------------------------------------------

    def _say(self) -> None:
        """Say that it waits, as the thread of `io/standby.py` does each time that it has looked at the lock."""
        if not self.member.waits:
            return
        if self._saying.due(self.member.now()):
            owns = self.member.part == PRIMARY
            note = Note(self.member.name, self._saying.count, {"pair": f"tcp://{self.name}:61616"}, owns)
            self._on_disk(lambda: self.noted.write(self.name, note))
            asked, at = self.noted.world.time, self.member.now()
            self.member.later(self.noted.disk.hangs(self.member.name), lambda: self._look_on(asked, at))
        self.member.later(self.noted.lots.between(100 * MILLISECOND, SECOND), self._say)

    def _look_on(self, asked: Instant, at: Instant) -> None:
        """See who else waits, to know it from the beginning when it serves."""
        if self.member.waits:
            self._see(asked, at)

    def _see(self, asked: Instant, at: Instant) -> Note | None:
        self._looks.append(_Look(asked, self.noted.world.time))
        return self._roll.look({name: each for name, each in self.noted.notes.items() if name != self.name}, at)

    def over(self) -> None:
        """It waits no longer: it has won."""
        self._on_disk(lambda: self.noted.remove(self.name))

    def _on_disk(self, work: Callable[[], None]) -> None:
        """Do ``work`` once the disk answers, one after the other, whether this process lives by then or not."""
        hung = self.noted.disk.hangs(self.member.name)
        time = self.noted.world.time
        self._free = max(self._free, time + hung) + self.noted.lots.between(1, MILLISECOND)
        self.noted.world.later(self._free - time, work)

    # -- it serves -----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Look who waits, again and again."""
        if not self.member.ports:
            return
        asked, at = self.noted.world.time, self.member.now()
        self.member.later(self.noted.disk.hangs(self.member.name), lambda: self._read(asked, at))

    def _read(self, asked: Instant, at: Instant) -> None:
        noted = self.noted
        if self._serves < 0:
            self._serves = noted.world.time
        note = self._see(asked, at)
        self._telling.found(self._roll.first, note)
        for name in self._roll.forgotten:
            noted.remove(name)
        self._check(next((name for name, each in noted.notes.items() if each is note), ""))
        self._note = note
        self.named(self.member.heir(self._roll.first))
        self.member.later(LOOK_EVERY, self.serve)

    def named(self, heir: str) -> None:
        """The lock names ``heir``: clients are told, if that is news."""
        noted, note = self.noted, self._note
        if self._serves < 0 or not self.member.ports:
            return
        if self._telling.news(heir):
            noted.world.count("clients told who waits" if note is not None else "clients told that nobody waits")
            if self._telling.known == self._told:
                noted.world.violation(f"{self.member.name} tells its clients again of {self._told}")
            self._told = self._telling.known
            self.member.tells(self._telling.heir)
        if heir == self._roll.first and self._told != ({} if note is None else note.connectors):
            noted.world.violation(f"clients of {self.member.name} know {self._told}, and {note} waits")

    def _check(self, name: str) -> None:
        """See that who waits has said so since a look that is not too old, and that nobody else was there before."""
        world, before = self.noted.world, self._first
        self._first = name
        if name and self._silent(name, FRESH + FRESH // DRIFT):
            world.violation(f"{self.member.name} tells its clients of {name}, which is silent")
        if (
            before
            and before != name
            and before in self.noted.notes
            and not (name and self.noted.notes[name].owns)
            and not self._silent(before, FRESH - FRESH // DRIFT)
        ):
            world.violation(f"{self.member.name} tells its clients of {name or 'nobody'}, and {before} waits")

    def _silent(self, name: str, length: Duration) -> bool:
        """Say whether what was written last was seen ``length`` ago, or stood there at the first look.

        A look that hung, or whose process stood still, ends behind others that were asked for later.
        """
        written = self.noted.written.get(name, 0)
        first = min((each for each in self._looks if each.read >= written), key=lambda each: each.read)
        return first is min(self._looks, key=lambda each: each.read) or self._looks[-1].asked - first.asked >= length

    def judge(self, waiting: list[str]) -> None:
        """It is calm: clients know of one of ``waiting``, and notes of others are gone."""
        world = self.noted.world
        if self._serves < 0 or world.time - self._serves < KEEPS + KEEPS // 2:
            return  # it serves for too short a time to know
        if self._telling.who not in (waiting or [""]):
            world.violation(f"it is calm, clients are told of {self._telling.who!r}, and {waiting} wait")
        for name in self.noted.notes:
            if world.time - self.noted.written[name] > KEEPS + KEEPS // 2:
                world.violation(f"{self.member.name} keeps the note of {name}, which is silent")
