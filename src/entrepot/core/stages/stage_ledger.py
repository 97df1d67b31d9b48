"""Whose the sinks are, and what remembering them costs: the bounds of staged commits. [C]

Stages, decisions and publications are in memory for as long as they are remembered, which may be for ever, and come
back with every start. So each is charged to the memory of the broker, all together may take a share of it and no more,
and what would go beyond is refused before anything is written. What is taken back from a journal is charged and not
refused: nothing that was promised is dropped because a limit was lowered.

A sink is here while anything of it is: a stage, a decision or a publication. So is its owner.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MIB
from entrepot.base.errors import AccessDenied, StageError
from entrepot.core.ports import Memory
from entrepot.core.records import KIND_SINK
from entrepot.journal.log import JournalCore

SINKS_MAX: Final = 10_000
PARTS_MAX: Final = 100_000  # stages of one sink: tasks of all its open batches on one broker
SHARE: Final = 4  # one in so many octets of the broker's memory may be about stages: producers stop at a half
SINK_SHARE: Final = 2  # and of these one in so many about one sink
REMEDY: Final = "abandon what nobody will publish: entrepot stage list, entrepot stage drop SINK --forget"

# What Python's objects cost, rounded up; measured with 1,000 parts: 77 octets each, beside their names.
SINK_OCTETS: Final = 6_500  # most of it for who counts its batches, in the longest words that are let in
STAGE_OCTETS: Final = 1_500
RUN_OCTETS: Final = 120
TARGET_OCTETS: Final = 250
BATCH_OCTETS: Final = 400
PART_OCTETS: Final = 80


class Sink:
    """What is remembered of one sink. ``owner``: who used it first, "" where there are no rights."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.owner: str = ""
        self.stages: i64 = 0
        self.batches: i64 = 0  # decisions and publications
        self.octets: i64 = 0


class Ledger:
    """The account of all sinks of one broker; ``octets`` of it are charged to ``memory``."""

    def __init__(self, memory: Memory, journal: JournalCore) -> None:
        self.memory: Memory = memory
        self.journal: JournalCore = journal
        self.sinks: dict[str, Sink] = {}
        self.octets: i64 = 0
        self.sinks_max: i64 = SINKS_MAX
        self.parts_max: i64 = PARTS_MAX
        self.limit: i64 = 0
        self.measure()

    def measure(self) -> None:
        """The memory of the broker may have another limit: stages may have their share of that."""
        self.limit = max(self.memory.limit // SHARE, MIB)

    # -- whose it is --------------------------------------------------------------------------------------------------

    def admit(self, name: str, subject: str) -> None:
        """Let ``subject`` use the sink, which is his from now on if it was nobody's. Raises AccessDenied, StageError.

        What a sink has staged went through the rights of whoever staged it; nobody else may publish or drop it. Call
        `let_go` when it is known what became of it: a name under which nothing is kept is nobody's.
        """
        sink = self.sinks.get(name)
        if sink is None:
            sink = self._begin(name)
        if not sink.owner:
            sink.owner = subject
            self.journal.put(KIND_SINK, name.encode(), subject.encode())
        elif sink.owner != subject:
            raise AccessDenied(f"the sink {name!r} is another user's", remedy="name yours differently")

    def let_go(self, name: str) -> None:
        """Forget the sink, and whose it is, unless something of it is kept."""
        sink = self.sinks.get(name)
        if sink is None or sink.stages > 0 or sink.batches > 0:
            return
        del self.sinks[name]
        self._charge(-_size(SINK_OCTETS, name))
        if sink.owner:
            self.journal.delete(KIND_SINK, name.encode())

    def recovered(self, name: str, owner: str) -> None:
        """Take back whose a sink is."""
        self._sink(name).owner = owner

    # -- what it costs ------------------------------------------------------------------------------------------------

    def check_room(self, name: str, octets: i64, stages: i64 = 0) -> None:
        """Raise StageError unless so many octets, and stages, may be added to the sink."""
        sink = self.sinks.get(name)
        if sink is None:
            if len(self.sinks) >= self.sinks_max:
                raise StageError(f"{len(self.sinks)} sinks are remembered, and no more may be", remedy=REMEDY)
        elif sink.stages + stages > self.parts_max:
            raise StageError(f"the sink {name!r} has {sink.stages} stages, and no more may be", remedy=REMEDY)
        elif sink.octets + octets > self.limit // SINK_SHARE:
            raise StageError(
                f"what is remembered of the sink {name!r} takes {sink.octets} octets of memory, "
                f"and {self.limit // SINK_SHARE} are the most",
                remedy=REMEDY,
            )
        if self.octets + octets > self.limit:
            raise StageError(
                f"what is remembered of {len(self.sinks)} sinks takes {self.octets} octets of memory, "
                f"and {self.limit} are the most",
                remedy=REMEDY,
            )

    def note(self, name: str, octets: i64, stages: i64 = 0, batches: i64 = 0) -> None:
        """Add what is kept of a sink from now on; negative: what is not kept any more. `let_go` comes afterwards."""
        sink = self._sink(name)
        sink.octets += octets
        sink.stages += stages
        sink.batches += batches
        self._charge(octets)

    def _sink(self, name: str) -> Sink:
        sink = self.sinks.get(name)
        if sink is None:
            sink = Sink(name)
            self.sinks[name] = sink
            self._charge(_size(SINK_OCTETS, name))
        return sink

    def _begin(self, name: str) -> Sink:
        self.check_room(name, _size(SINK_OCTETS, name))
        return self._sink(name)

    def _charge(self, octets: i64) -> None:
        self.octets += octets
        self.memory.used += octets

    def check(self) -> None:
        """Assert that the account adds up, and holds nothing for nobody."""
        octets: i64 = 0
        for sink in self.sinks.values():
            octets += sink.octets + _size(SINK_OCTETS, sink.name)
            assert sink.stages >= 0
            assert sink.batches >= 0
            assert sink.stages > 0 or sink.batches > 0, f"the sink {sink.name!r} is kept for nothing"
        assert octets == self.octets, f"sinks cost {octets} octets, the ledger says {self.octets}"


def _size(octets: i64, name: str) -> i64:
    return octets + len(name)


def stage_octets(sink: str, part: str) -> i64:
    """Return what an empty stage costs."""
    return STAGE_OCTETS + 2 * len(sink) + 2 * len(part)


def batch_octets(sink: str, parts: list[str]) -> i64:
    """Return what it costs to remember which ``parts`` of a batch were decided, or published."""
    octets: i64 = BATCH_OCTETS + len(sink)
    for part in parts:
        octets += PART_OCTETS + len(part)
    return octets
