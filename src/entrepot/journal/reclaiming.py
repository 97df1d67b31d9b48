"""Which files go, and when: segments that hold nothing any more, sources of a rewrite, bodies of dead messages. [C]

A file goes only once the reason for it is on disk: after a crash nothing may be missed that is still alive there.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Fault
from entrepot.journal.compaction import Compaction, choose
from entrepot.journal.index import Segment
from entrepot.journal.moving import is_awaited, prune
from entrepot.journal.overflow import Overflow
from entrepot.journal.tail import Tail

CHOICE_BATCHES: Final = 8
"""After a search for garbage that found none worth it, the next one waits for so many batches."""


class Reclaiming:
    """``drops``: (batch, file) that may go once that batch is on disk; ``_bodies`` the same with numbers of blobs."""

    def __init__(self, tail: Tail, overflow: Overflow) -> None:
        self.tail: Tail = tail
        self.overflow: Overflow = overflow
        self._drops: list[tuple[int, str]] = []
        self._bodies: list[tuple[int, int]] = []
        self._compaction: Compaction | None = None
        self._next_choice: i64 = 0
        self._awaited: list[Segment] = []  # compacted, and something of them was to be published when it was looked at

    # -- what holds nothing any more -----------------------------------------------------------------------------------

    def collect(self) -> None:
        """Let go of segments that hold nothing any more; their files go once the reason for it is on disk."""
        low: i64 = 0
        high: i64 = -1
        if self._compaction is not None:
            low = self._compaction.first
            high = self._compaction.last
        tail = self.tail
        gone = tail.index.reclaim(low, high)
        if not gone:
            return
        prune(tail.index)
        tail.note_gaps()
        for segment in gone:
            self._drops.append((int(tail.sequence + 1), segment.name))

    def release_body(self, sequence: i64) -> None:
        """A message with a large body is gone: let go of that once batch ``sequence``, which says so, is on disk."""
        index = self.tail.index
        self._bodies.append((int(sequence), int(index.blob_freed)))
        index.blob_freed = 0

    def compacting(self) -> bool:
        """Say whether segments are being rewritten."""
        return self._compaction is not None

    def pending(self) -> bool:
        """Say whether a file or body waits for a sync."""
        return bool(self._drops) or bool(self._bodies)

    def drop_covered(self) -> None:
        """Remove the files and bodies whose end is on disk."""
        tail = self.tail
        drops = self._drops
        while drops and drops[0][0] <= tail.synced:
            tail.port.drop(drops.pop(0)[1])
        bodies = self._bodies
        while bodies and bodies[0][0] <= tail.synced:
            self.overflow.release(i64(bodies.pop(0)[1]))

    # -- what may be published later -----------------------------------------------------------------------------------

    def recovered(self) -> None:
        """The journal is read back: see what of it may be published."""
        for segment in self.tail.index.segments:
            if segment.as_of > 0:
                self._await(segment)

    def _await(self, segment: Segment) -> None:
        """If something of the compacted ``segment`` may be published later, say so to who keeps what it was made of."""
        if is_awaited(segment):
            self._awaited.append(segment)
            self.tail.port.awaited(segment.name, True)

    def _look_again(self) -> None:
        """See whether something of one of them still may be: of another one each time."""
        if self._awaited:
            segment = self._awaited.pop(0)
            if is_awaited(segment):
                self._awaited.append(segment)
            else:
                self.tail.port.awaited(segment.name, False)

    def stop(self) -> None:
        """Remove nothing any more: what the disk holds is not known."""
        self._compaction = None
        self._drops = []
        self._bodies = []

    # -- rewriting -----------------------------------------------------------------------------------------------------

    def awaited(self) -> bool:
        """Say whether a rewrite is copied and waits for a sync, or for its name."""
        compaction = self._compaction
        return compaction is not None and compaction.finishing

    def under_way(self, short: bool) -> bool:
        """Say whether there is something to copy, after choosing it; ``short``: the disk is all but full."""
        if self._compaction is not None:
            return not self._compaction.finishing
        tail = self.tail
        self._look_again()  # though nothing was written: what is kept until then has an age
        if tail.sequence < self._next_choice and not short:
            return False
        window = choose(tail.index, tail.options, tail.port, tail.sequence + 1, short)
        if not window:
            self._next_choice = tail.sequence + CHOICE_BATCHES
            return False
        tail.hand_over()  # as_of is a border between batches
        tail.refer_anew()
        self._compaction = Compaction(tail.index, tail.port, tail.options, window, tail.sequence + 1)
        return True

    def copy(self, budget: i64) -> bool:
        """Copy about ``budget`` octets of what is `under_way`; False when all is copied, and a sync is needed next."""
        compaction = self._compaction
        if compaction is None:
            raise Fault("Reclaiming.copy without a rewrite that is under way")
        try:
            if compaction.step(budget):
                return True
        except EntrepotError:
            self._compaction = None
            self.tail.port.drop(compaction.scratch_name)
            raise
        # What the copy left out may have been settled a moment ago: that must be on disk before the sources go.
        self.tail.hand_over()
        compaction.finishing = True
        compaction.needs = self.tail.sequence
        return False

    def publish(self) -> None:
        """Give the copy its name, if it is complete and what it left out is on disk."""
        compaction = self._compaction
        if compaction is None or not compaction.finishing or compaction.published:
            return
        if self.tail.synced >= compaction.needs:
            compaction.published = True
            self.tail.port.publish(compaction.scratch_name, compaction.target.name)

    def expects(self, name: str) -> bool:
        """Say whether ``name`` is what the rewrite is to be called."""
        compaction = self._compaction
        return compaction is not None and compaction.target.name == name

    def switch(self) -> None:
        """The copy has its name: take it for its sources from now on, and remove them."""
        compaction = self._compaction
        if compaction is None:
            raise Fault("Reclaiming.switch without a rewrite")
        self._compaction = None
        sources = compaction.switch()
        self._awaited = [one for one in self._awaited if one not in sources]
        self._await(compaction.target)
        for source in sources:
            if source.name != compaction.target.name:
                self.tail.port.drop(source.name)
        prune(self.tail.index)
        self.tail.refer_anew()

    def spoiled(self, name: str) -> None:
        """The copy did not fit: forget it, its sources are untouched."""
        compaction = self._compaction
        if compaction is not None and compaction.scratch_name == name:
            self._compaction = None
