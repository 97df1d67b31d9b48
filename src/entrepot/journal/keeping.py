"""Which of the files that a journal lets go of are kept, and which of those go again: the oldest first.

It decides. Who has the files moves and removes them, in the order in which it is told to (`io/retention.py`, and
`simulation/retained.py`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from entrepot.journal.epoch import is_late
from entrepot.journal.index import segment_range

if TYPE_CHECKING:
    from entrepot.journal.epoch import Boundary
    from entrepot.journal.log import JournalCore

NS_A_MS: Final = 1_000_000


class Kept:
    """What is kept. ``sizes``: name -> octets; ``octets``: of all of them together.

    ``period_ms``: at the least so long, 0: for ever; ``limit``: octets at the most, 0: without.
    """

    def __init__(self, period_ms: int, limit: int) -> None:
        self.period_ms: Final = period_ms
        self.limit: Final = limit
        self.sizes: Final[dict[str, int]] = {}
        self.octets = 0
        self._written: Final[dict[str, int]] = {}
        self._named: Final[dict[int, str]] = {}  # segments by their ids
        self._renewed: Final[dict[int, int]] = {}  # when messages of a segment were moved to a queue
        self._ages: Final[list[tuple[int, str]]] = []  # a heap; what it says of a file may be over
        self._awaited: Final[dict[int, tuple[int, str]]] = {}  # first id -> last id and name, of compacted segments
        self._first: list[int] = []  # those ids, rising
        self._read_back = False  # the journal, so that it is known what is awaited

    def takes(self, name: str) -> bool:
        """Return whether a file of this name is kept at all: bodies, and segments as they were written."""
        return name.endswith(".blob") or is_written(name)

    def add(self, name: str, octets: int, written: int) -> None:
        """``name`` is here, and was written to last at ``written``, in ns since 1970."""
        identity = int(segment_range(name)[0])
        if identity:
            self._named[identity] = name
            written = max(written, self._renewed.get(identity, 0))
        self.octets += octets - self.sizes.get(name, 0)
        self.sizes[name] = octets
        self._written[name] = written
        heapq.heappush(self._ages, (written, name))

    def forget(self, name: str) -> None:
        """It is here no more."""
        self.octets -= self.sizes.pop(name, 0)
        self._written.pop(name, None)
        identity = int(segment_range(name)[0])
        self._named.pop(identity, None)
        self._renewed.pop(identity, None)

    def renew(self, first: int, last: int, when: int) -> list[int]:
        """Messages of the segments ``first`` to ``last`` were moved to a queue at ``when``, ns since 1970.

        They are what was sent then, so the file is as young as that, whether it is here or comes later. Of what was
        compacted (more than one id) only what is here has been kept. Return the ids of which that is news.
        """
        found: list[int] = []
        for identity in [first] if first == last else _within(self._named, first, last):
            if self._renewed.get(identity, 0) < when:
                self._renewed[identity] = when
                found.append(identity)
                name = self._named.get(identity, "")
                if name and self._written[name] < when:
                    self.add(name, self.sizes[name], when)
        return found

    def renewed_ids(self) -> list[int]:
        """Return the ids of the segments that `renew` was told of, and that have not gone."""
        return list(self._renewed)

    def forget_renewal(self, identity: int) -> None:
        """The segment with this id will not come."""
        self._renewed.pop(identity, None)

    def has(self, identity: int) -> bool:
        """Return whether the segment with this id is here."""
        return identity in self._named

    def spent(self, now: int) -> list[str]:
        """Forget what is too old at ``now``, in ns since 1970, or too much; return the names, for removal.

        What is awaited is not too old. Nothing goes before the journal was read back, which says what is.
        """
        oldest = now - self.period_ms * NS_A_MS if self.period_ms > 0 else 0
        names: list[str] = []
        stay: list[tuple[int, str]] = []
        while self._read_back and self._is_current():
            if 0 < self.limit < self.octets:
                names.append(self.take())
            elif self._ages[0][0] >= oldest:
                break
            elif self._is_awaited(self._ages[0][1]):
                stay.append(heapq.heappop(self._ages))
            else:
                names.append(self.take())
        for one in stay:
            heapq.heappush(self._ages, one)
        return names

    def awaits(self, name: str, *, waits: bool) -> None:
        """A queue may get messages of the compacted segment ``name`` later; or it may not, or is dropped.

        They are written in files that are here, which then are what was sent.
        """
        first, last = (int(one) for one in segment_range(name)[:2])
        if waits:
            self._awaited[first] = (last, name)
        elif self._awaited.get(first, (0, ""))[1] == name:
            del self._awaited[first]
        else:
            return
        self._first = sorted(self._awaited)

    def _is_awaited(self, name: str) -> bool:
        identity = int(segment_range(name)[0])
        at = bisect_right(self._first, identity) - 1
        return at >= 0 and identity <= self._awaited[self._first[at]][0]

    def take(self) -> str:
        """Forget the oldest file and return its name, for removal; "" when there is none."""
        if not self._is_current():
            return ""
        name = heapq.heappop(self._ages)[1]
        self.forget(name)
        return name

    def _is_current(self) -> bool:
        """Have what the heap says first be true; return whether it says anything."""
        ages = self._ages
        while ages and self._written.get(ages[0][1]) != ages[0][0]:
            heapq.heappop(ages)
        return bool(ages)

    def oldest(self) -> int:
        """Return when the oldest file was written to last, ns since 1970; 0 when there is none. Any thread may ask."""
        return min(list(self._written.values()), default=0)

    def unconfirmed(self, newest: int, boundaries: list[Boundary]) -> list[str]:
        """Forget segments in which nothing was ever confirmed, once a journal is read back; return their names.

        ``newest``: the highest id that survived there, 0 for none: what stands behind it was cut, now or by a start
        that was broken off; ``boundaries``: of epochs, behind which a former master wrote too late.
        """
        self._read_back = True
        names = [name for name in self.sizes if _is_cut(name, newest) or is_late(name, boundaries)]
        for name in names:
            self.forget(name)
        return names


def _within(named: dict[int, str], first: int, last: int) -> list[int]:
    """Return the ids from ``first`` to ``last`` that are there, however far apart those are."""
    if last - first < len(named):
        return [identity for identity in range(first, last + 1) if identity in named]
    return [identity for identity in named if first <= identity <= last]


def _is_cut(name: str, newest: int) -> bool:
    return 0 < newest < segment_range(name)[0]


def is_written(name: str) -> bool:
    """Return whether ``name`` is that of a segment as it was written, and not of one that was compacted."""
    first, _, _, as_of = segment_range(name)
    return bool(first > 0 and as_of == 0)


def in_order(names: Sequence[str]) -> list[str]:
    """Return segments as they were written, each once, in the order of the log."""
    return sorted(dict.fromkeys(filter(is_written, names)), key=lambda name: int(segment_range(name)[0]))


def published_in(journal: JournalCore) -> list[tuple[int, int, str]]:
    """Return (first id, last id, file) of messages that were moved to a queue by what that file of a journal holds.

    Where it is known still: of a journal that was just read back, perhaps from files of another broker.
    """
    index = journal.tail.index
    segments = index.segments
    found: list[tuple[int, int, str]] = []
    for move in index.moves.rows:
        at = bisect_left(segments, int(move.since), key=lambda one: int(one.end_sequence))
        if at == len(segments):
            continue
        of = bisect_left(segments, int(move.low), key=lambda one: int(one.last))
        while of < len(segments) and segments[of].first <= move.high:
            if segments[of].as_of <= move.since:
                found.append((int(segments[of].first), int(segments[of].last), segments[at].name))
            of += 1
    return found


def newest_of(journal: JournalCore) -> int:
    """Return the highest id of a segment that a recovery found whole, 0 for none."""
    tail = journal.tail
    return max((int(one.last) for one in tail.index.segments if one is not tail.active), default=0)
