"""A bracket that is written over many turns: in parts, batches of its own, between the batches of others. [C]

What belongs together is usually one batch. That of a large transaction would hold up whoever has something stored
meanwhile: a batch is confirmed as a whole. So it is written in parts. Each says which bracket it is of (a PART record
at its head), and the last one that this was all (WHOLE). A journal that ends without that has nothing of the bracket:
recovery passes over its parts.

What others say stands between, in batches of their own that are confirmed by themselves. They may not depend on what is
not decided yet. The broker shows nobody a message of the bracket before its end; where somebody relies on it all the
same (`rely`: a message was taken for a repetition; a number of the bracket was settled), all that comes from there on
belongs to the bracket, too, and nobody is confirmed before its end: as if it were one batch.
"""

from __future__ import annotations

from bisect import bisect_right

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Fault
from entrepot.journal.ports import Waiter
from entrepot.journal.record import WHOLE
from entrepot.journal.tail import Tail
from entrepot.journal.waiting import Waiting


class Parts:
    """The bracket in parts that is ``open``, one at a time.

    ``inside``: what is appended now belongs to it. ``relied``: and so does all until its end. ``bodies``: blobs that
    were let go of meanwhile; the files stay until it is decided.
    """

    def __init__(self, tail: Tail, waiting: Waiting) -> None:
        self.tail: Tail = tail
        self.waiting: Waiting = waiting
        self.writes: bool = True  # False: there is no disk, and nothing to do
        self.open: bool = False
        self.inside: bool = False
        self.relied: bool = False
        self.bodies: list[int] = []
        self._identity: i64 = 0
        self._private: dict[int, bool] = {}
        self._low: i64 = 0  # numbers that were stored in the part that is being written
        self._high: i64 = 0
        self._lows: list[int] = []
        self._highs: list[int] = []
        self._waiters: list[Waiter] = []
        self._tokens: list[bytes] = []

    def begin(self, private: dict[int, bool]) -> None:
        """Open a bracket. Documents of the kinds ``private`` belong to it: who uses one calls `rely`.

        Documents of other kinds that are put meanwhile stay whatever becomes of it.
        """
        if self.open:
            raise Fault("a bracket in parts is open already")
        if not self.writes:
            return
        self.open = True
        self._identity = self.tail.sequence + 1
        self._private = private

    def enter(self) -> None:
        """What comes now belongs to the bracket. Within another bracket all of the rest must come: one batch has it."""
        if self.open and not self.relied and self.tail.depth == 0:
            self._go_in()

    def leave(self) -> None:
        """What comes now does not belong to it."""
        if self.inside and not self.relied:
            self._go_out()

    def _go_in(self) -> None:
        self.tail.hand_over()
        self.tail.part = self._identity
        self.tail.boards = self.relied
        self.inside = True
        self._low = 0

    def _go_out(self) -> None:
        self.tail.hand_over()
        self.tail.part = 0
        self.tail.boards = True
        self.inside = False
        if self._low > 0:
            self._lows.append(int(self._low))
            self._highs.append(int(self._high))

    def end(self) -> None:
        """All of it is there: what is in it counts when this is on disk."""
        if not self.open:
            return
        tail = self.tail
        if tail.part_segments or tail.part != 0:
            tail.prepare()
            body = BytesWriter()
            body.append(WHOLE)
            write_i64_be(body, self._identity)
            tail.batch.record(body.getvalue())
            for segment in tail.part_segments.values():
                if segment is not tail.active:  # this one must stay as long as that one
                    tail.active.refs[segment.first] = tail.sequence + 1
            if tail.depth == 0:
                tail.hand_over()
        sequence = tail.sequence if tail.batch.empty() else tail.sequence + 1
        if tail.part_segments:
            tail.whole = sequence
        tail.part = 0
        tail.boards = True
        tail.part_segments = {}
        self.open = False
        self.inside = False
        self.relied = False
        self._lows = []
        self._highs = []
        waiters, self._waiters = self._waiters, []
        tokens, self._tokens = self._tokens, []
        at = 0
        while at < len(waiters):
            self.waiting.ask(waiters[at], tokens[at], sequence)
            at += 1

    def rely(self) -> None:
        """Somebody relies on what the bracket says: what comes now waits for its end."""
        if self.open and not self.relied:
            self.relied = True
            if not self.inside and (self.tail.depth == 0 or self.tail.batch.empty()):
                self._go_in()
            self.inside = True
            self.tail.boards = True

    def stored(self, number: i64) -> None:
        """Message ``number`` was stored inside."""
        if self._low == 0:
            self._low = number
        self._high = number

    def touch(self, number: i64) -> None:
        """Something is said of message ``number``: whoever says it relies on the bracket, if that stored it."""
        if not self.inside and self.has(number):
            self.rely()

    def has(self, number: i64) -> bool:
        """Return whether the bracket that is open stored message ``number``, in a part before the one under way."""
        at = bisect_right(self._lows, int(number)) - 1
        return at >= 0 and number <= self._highs[at]

    def claims(self, kind: int) -> bool:
        """Return whether a document of ``kind`` that is put or deleted now belongs to the bracket."""
        return not self.inside or self.relied or kind in self._private

    def step_out(self) -> bool:
        """What comes now does not belong to the bracket, until `enter`; False where a batch cannot be parted."""
        if self.tail.depth > 0:
            self.rely()
            return False
        self._go_out()
        return True

    def hold(self, waiter: Waiter, token: bytes) -> None:
        """Let ``waiter`` wait for the end of the bracket."""
        self._waiters.append(waiter)
        self._tokens.append(token)

    def fail(self, error: EntrepotError) -> None:
        """Tell who waits for the end that it is not known to be on disk."""
        waiters, self._waiters = self._waiters, []
        tokens, self._tokens = self._tokens, []
        at = 0
        while at < len(waiters):
            waiters[at].store_failed(tokens[at], error)
            at += 1
