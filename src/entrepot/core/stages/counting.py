"""Who counts the batches of a sink: so that nobody's batch is taken for one that somebody else wrote. [C]

A batch is known by the number that its program counts. Two programs that count under one name would each be given the
decisions of the other, and what they wrote would be dropped without a word; so would a program that lost its count
and begins at 0 again. Therefore a program may say who it is (`Author`), and the sink remembers it (`Count`, in the
journal):

- *counter*: who counts, the same over restarts. Another one is refused, until the sink is forgotten.
- *start*: one start of that program. The newest goes on; one that was replaced and comes back is refused.
- *write*: one write of that start. A second one under the number of a batch that is done is no repeat, and refused.

A sink whose journal says nothing of that takes the first who says. A program that says nothing is held to nothing,
except at a sink that somebody counts. One broker takes the decisions of a sink; all that publish for it remember which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.base.errors import StageError
from entrepot.core.records import KIND_COUNT
from entrepot.core.stages import stage_records as records

if TYPE_CHECKING:
    from entrepot.journal.log import JournalCore

WORD_OCTETS_MAX: Final = 255
STARTS_REMEMBERED: Final = 16  # of those that were replaced: a driver that hangs comes back within a few


class Author:
    """Who asks for something of a sink; all empty for one who does not say. ``decider``: the broker that decides."""

    def __init__(self, counter: str = "", start: str = "", write: str = "", decider: str = "") -> None:
        self.counter: str = counter
        self.start: str = start
        self.write: str = write
        self.decider: str = decider

    def check(self) -> None:
        """Raise StageError for words that cannot be remembered."""
        for word in (self.counter, self.start, self.write, self.decider):
            if len(word.encode()) > WORD_OCTETS_MAX:
                raise StageError(f"{word[:40]!r}... is too long", remedy=f"use at most {WORD_OCTETS_MAX} octets")
        if not self.counter and (self.start or self.write):
            raise StageError("a start or a write belongs to a counter", remedy="send the header counter, too")


NOBODY: Final = Author()


class Count:
    """What is remembered of who counts a sink. ``gone``: starts that were replaced, the oldest first."""

    def __init__(self, counter: str) -> None:
        self.counter: str = counter
        self.start: str = ""
        self.gone: list[str] = []
        self.decider: str = ""
        self.batch: int = -1  # the newest that was decided here, and which write of which start asked first
        self.by: str = ""


class Counts:
    """The counts of all sinks of a broker."""

    def __init__(self, journal: JournalCore) -> None:
        self.journal: JournalCore = journal
        self.held: dict[str, Count] = {}
        self.marks: dict[str, tuple[int, str]] = {}  # while recovering: of the newest decision of each sink

    def check(self, sink: str, author: Author) -> None:
        """Raise StageError for one who may not count here; changes nothing."""
        author.check()
        count = self.held.get(sink)
        if count is None:
            return
        if author.counter != count.counter:
            who = f"by {author.counter!r}" if author.counter else "by one who does not say who it is"
            raise StageError(
                f"the batches of the sink {sink!r} are counted by {count.counter!r}, not {who}: "
                "they would be taken for each other",
                remedy="give every query a sink name of its own; if this one takes the place of the other (its "
                f"checkpoint is new), forget the old count on every broker: entrepot stage drop {sink} --forget",
            )
        if author.start in count.gone:
            raise StageError(
                f"a newer start of what counts the sink {sink!r} has taken over",
                remedy="stop this one; if two run because a checkpoint was copied, give one a new checkpoint and "
                "another sink name",
            )
        if author.decider and count.decider and author.decider != count.decider:
            raise _decided_elsewhere(sink, count.decider)

    def check_decider(self, sink: str, broker: str) -> None:
        """Raise StageError when another broker than this one decides for ``sink``."""
        count = self.held.get(sink)
        if count is not None and count.decider and count.decider != broker:
            raise _decided_elsewhere(sink, count.decider)

    def check_batch(self, sink: str, batch: int, newest: int, author: Author) -> None:
        """Raise StageError for a batch behind which there is a newer decision: a start repeats the last and no other.

        A counter that says nothing of its starts is asked by hand, and may ask again for what is remembered.
        """
        if author.start and batch < newest:
            raise StageError(
                f"batch {newest} of {sink!r} is decided, and batch {batch} lies before it: this program has lost "
                "its count",
                remedy="a checkpoint was copied, restored or emptied: use the newest one, or give the query a new "
                f"checkpoint and forget the old count on every broker: entrepot stage drop {sink} --forget",
            )

    def check_repeat(self, sink: str, batch: int, author: Author) -> None:
        """Raise StageError for a second write under the number of a batch that is done."""
        count = self.held.get(sink)
        if count is None or not author.write or count.batch != batch:
            return
        start, _, write = count.by.partition("\0")
        if start == author.start and write != author.write:
            raise StageError(
                f"batch {batch} of {sink!r} is written already, by another write of the same run",
                remedy="in foreachBatch give every write a sink name of its own",
            )

    def is_news(self, sink: str, author: Author, decider: str) -> bool:
        """Tell whether `note` would change anything."""
        if not author.counter:
            return False
        count = self.held.get(sink)
        if count is None:
            return True
        return (author.start != "" and author.start != count.start) or (decider != "" and decider != count.decider)

    def note(self, sink: str, author: Author, decider: str) -> None:
        """Remember who counts, from now on; `check` let it pass. In an open batch of the journal."""
        if not self.is_news(sink, author, decider):
            return
        count = self.held.get(sink)
        if count is None:
            count = Count(author.counter)
            self.held[sink] = count
        if author.start and author.start != count.start:
            if count.start:
                count.gone.append(count.start)
                if len(count.gone) > STARTS_REMEMBERED:
                    del count.gone[0]
            count.start = author.start
        if decider:
            count.decider = decider
        record = records.CountRecord(sink, count.counter, count.start, count.gone, count.decider)
        self.journal.put(KIND_COUNT, sink.encode(), records.encode(record))

    def mark(self, sink: str, batch: int, author: Author) -> str:
        """Note which write asked first for a decision; return what the journal is to keep of that."""
        count = self.held.get(sink)
        if count is None:
            return ""
        count.batch = batch
        count.by = f"{author.start}\0{author.write}" if author.write else ""
        return count.by

    def forget(self, sink: str) -> None:
        """Let anybody count from now on. In an open batch of the journal."""
        if self.held.pop(sink, None) is not None:
            self.journal.delete(KIND_COUNT, sink.encode())

    # -- recovery -----------------------------------------------------------------------------------------------------

    def recovered(self, record: records.CountRecord) -> None:
        """Take back a document of the journal."""
        count = Count(record.counter)
        count.start = record.start
        count.gone = list(record.gone)
        count.decider = record.decider
        self.held[record.sink] = count

    def recovered_mark(self, sink: str, batch: int, by: str) -> None:
        """Take back whose decision of ``batch`` it was; they come in any order."""
        if sink not in self.marks or self.marks[sink][0] < batch:
            self.marks[sink] = (batch, by)

    def rebuild(self) -> None:
        """All documents are there."""
        for sink, (batch, by) in self.marks.items():
            count = self.held.get(sink)
            if count is not None:
                count.batch = batch
                count.by = by
        self.marks.clear()


def _decided_elsewhere(sink: str, broker: str) -> StageError:
    return StageError(
        f"the batches of the sink {sink!r} are decided by the broker {broker}",
        remedy="name it first in url, as before; if it is gone for good, forget the sink on every broker: "
        f"entrepot stage drop {sink} --forget",
    )


__all__ = ["NOBODY", "Author", "Count", "Counts"]
