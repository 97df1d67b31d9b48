"""How much one turn may do, and who goes on in the next. [C]

Work is counted in *units*, integers that cost nothing to add: a frame, a message that a queue takes, a delivery, a look
at a message, some octets that are copied. One is a fraction of a microsecond of compiled code. No clock is read, so the
simulated world stops at the same places as the real one, and a run can be replayed.

Whoever works stops between two steps when the turn's allowance is used up, and asks to go on later (`Rest`). Rests go
on in the order in which they stopped, so that those who have much to do take turns. While there are any, a new event
gets a smaller allowance: enough for what a well-behaved client sends at once, and a flood soon waits with the others.
And where events come between the turns of those who wait, these get the smaller one, too: somebody else is being
served, and waits for the end of each of them.

What operators ask for goes on *aside*: in turns before which nothing else happened, and else in one of a few, so that
messages do not wait for it while there is time between them, and nobody waits for ever for an answer.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

TURN_UNITS: Final = 10_000  # a few ms; the 2,700 small messages that one read of 256 KiB holds, each to one consumer
FIRST_SHARE: Final = 4  # what is new gets this part of it while others wait
STRIDE: Final = 2_000  # messages that are looked at, or removed: below a ms
GIVES_WAY: Final = 4  # turns, one after the other, that who goes on aside leaves to others
OCTETS_SHIFT: Final = 12  # to copy 4 KiB is about one unit


@mypyc_attr(allow_interpreted_subclasses=True)
class Rest:
    """Something that stopped because its turn was over. It keeps by itself where it was.

    ``owner``: the number of the connection that it is of; 0: of none.
    """

    def __init__(self, owner: i64 = 0) -> None:
        self.owner: i64 = owner
        self.waiting: bool = False  # among the rests of an `Effort`

    def resume(self) -> None:
        """Go on; ask for `Effort.later` again if that was not all."""
        raise NotImplementedError


class Effort:
    """What this turn has done so far, and what earlier ones left. One for each broker."""

    def __init__(self) -> None:
        self.units: i64 = TURN_UNITS
        self.allowance: i64 = TURN_UNITS
        self.spent: i64 = 0  # whoever does something adds to it
        self.stride: i64 = STRIDE  # what one step of a long verb looks at, though nothing were left of the allowance
        self.rests: list[Rest] = []
        self.asides: list[Rest] = []
        self.given: i64 = 0  # turns that those aside left to others
        self.alone: bool = True  # no event had a turn since those that wait had theirs
        self.turns: i64 = 0  # that began since those that wait had one, theirs too

    def begin(self) -> None:
        """A turn begins."""
        self.spent = 0
        self.turns += 1
        self.allowance = max(self.units // FIRST_SHARE, 1) if self.rests else self.units

    def is_over(self) -> bool:
        """Return whether this turn did enough."""
        return self.spent >= self.allowance

    def later(self, rest: Rest) -> None:
        """Let ``rest`` go on in a later turn, behind those that wait already."""
        if not rest.waiting:
            rest.waiting = True
            self.rests.append(rest)

    def aside(self, rest: Rest) -> None:
        """Let ``rest`` go on when there is time, behind those of its kind that wait already."""
        if not rest.waiting:
            rest.waiting = True
            self.asides.append(rest)

    def waits(self) -> bool:
        """Return whether `go_on` has something to do."""
        return len(self.rests) > 0 or len(self.asides) > 0

    def go_on(self) -> None:
        """Let those that wait go on, the longest waiting first, as far as the allowance of one turn reaches."""
        self.alone = self.turns <= 1
        self.spent = 0
        self.allowance = self.units if self.alone else max(self.units // FIRST_SHARE, 1)
        self.turns = 0
        rests = self.rests
        most = len(rests)
        while most > 0 and self.spent < self.allowance:
            most -= 1
            rest = rests.pop(0)
            rest.waiting = False
            rest.resume()
        if self.asides:
            self._go_on_aside()

    def _go_on_aside(self) -> None:
        if not self.alone and self.given < GIVES_WAY:
            self.given += 1
            return
        self.given = 0
        rest = self.asides.pop(0)
        rest.waiting = False
        rest.resume()
