"""What a journal holds, told to who rebuilds a broker from it: documents, then messages, their numbers rising. [C]

A piece of one segment is in memory at a time, of two where messages were moved: those come by their new numbers, in
between. Only of segments whose numbers overlap the messages are collected and sorted first.
"""

from __future__ import annotations

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from entrepot.journal.collected import Collected, highest_live, lowest_live, rising
from entrepot.journal.index import LIVE, SEVERAL, Index, Segment
from entrepot.journal.names import INTERNAL_KIND
from entrepot.journal.ports import JournalPort, RecoverySink
from entrepot.journal.record import FLAG_EXTENDED, RECORD_HEAD, envelope_at
from entrepot.journal.window import WINDOW_BYTES, Window
from entrepot.model.message import OVERHEAD_BYTES


class Telling:
    """Hands what ``index`` has to a `RecoverySink`."""

    def __init__(self, port: JournalPort, index: Index) -> None:
        self.port: JournalPort = port
        self.index: Index = index

    def tell(self, sink: RecoverySink) -> None:
        """Hand over the current documents and the live messages."""
        for document in self.index.documents.values():
            if document.kind != INTERNAL_KIND:
                sink.document(int(document.kind), document.key, document.value)
        if not self.index.moves.rows:
            self._tell_segments(sink)
            return
        between = Between(self, sink)
        self._tell_segments(between)
        between.tell_before(-1)

    def _tell_segments(self, sink: RecoverySink) -> None:
        segments = [segment for segment in self.index.segments if segment.live > 0]
        group: list[Segment] = []
        reach: i64 = 0
        for segment, floor in zip(segments, _floors(segments), strict=True):
            if group and floor > reach:
                self._tell_group(group, sink)
                group = []
            group.append(segment)
            highest = highest_live(segment)
            reach = max(reach, highest)
        if group:
            self._tell_group(group, sink)

    def _tell_group(self, group: list[Segment], sink: RecoverySink) -> None:
        """Hand over segments whose ranges of numbers overlap (nearly always just one), numbers rising."""
        if len(group) == 1:
            self._tell_segment(group[0], sink)
            return
        collected = Collected()
        for segment in group:
            self._tell_segment(segment, collected)
        collected.rows.sort()
        for number, queue, priority, expiration, deliveries, size, deliver_at in collected.rows:
            sink.message(
                i64(queue), i64(number), i64(priority), i64(expiration), i64(deliveries), i64(size), i64(deliver_at)
            )

    def _tell_segment(self, segment: Segment, sink: RecoverySink) -> None:
        """Hand over what lives in ``segment`` under the number of its record."""
        window = Window(self.port, segment.name, segment.end, WINDOW_BYTES if rising(segment) else segment.end)
        moves = self.index.moves
        moved = len(moves.rows) > 0
        slot: i64 = 0
        while slot < segment.count:
            if segment.states[slot] == LIVE and not (moved and moves.move_of(segment.numbers[slot]) is not None):
                self.tell_slot(segment, slot, segment.numbers[slot], window, sink)
            slot += 1

    def tell_slot(self, segment: Segment, slot: i64, number: i64, window: Window, sink: RecoverySink) -> None:
        """Hand over the message in ``slot``, which is message ``number``, for each of its queues."""
        index = self.index
        place = window.place(i64(segment.offsets[slot]), i64(segment.lengths[slot]))
        data = window.data
        body: i64 = place + RECORD_HEAD
        envelope = envelope_at(data, body)
        deliver_at: i64 = 0
        if data[body + 1] & FLAG_EXTENDED:
            deliver_at = read_i64_be(data, envelope - 16)
        raw: i64 = i64(read_i32_be(data, body + 10))
        priority: i64 = data[envelope + 3]
        expiration = read_i64_be(data, envelope + 12)
        queue = segment.queue_at(slot)
        size = raw + OVERHEAD_BYTES
        if queue != SEVERAL:
            deliveries = index.deliveries(number, queue)
            sink.message(queue, number, priority, expiration, deliveries, size, deliver_at)
            return
        for each in index.several[number]:
            queue = each
            deliveries = index.deliveries(number, queue)
            sink.message(queue, number, priority, expiration, deliveries, size, deliver_at)


def _floors(segments: list[Segment]) -> list[int]:
    """Return for each of ``segments`` the lowest number that is live in it or in a later one.

    A segment that was compacted has numbers that messages got later: one behind it may begin lower than one before.
    """
    floors: list[int] = []
    lowest: i64 = -1
    for segment in reversed(segments):
        own = lowest_live(segment)
        if lowest < 0 or own < lowest:
            lowest = own
        floors.append(int(lowest))
    floors.reverse()
    return floors


class Between(RecoverySink):
    """Tells what was moved, by its new numbers, before what comes behind it."""

    def __init__(self, telling: Telling, sink: RecoverySink) -> None:
        self.telling: Telling = telling
        self.sink: RecoverySink = sink
        self._row: int = 0  # of the moves
        self._at: i64 = 0  # in it
        self._segment: Segment | None = None
        self._window: Window | None = None

    def message(
        self,
        queue_id: i64,
        number: i64,
        priority: i64,
        expiration: i64,
        deliveries: i64,
        size: i64,
        deliver_at: i64,
    ) -> None:
        """Pass one message on."""
        self.tell_before(number)
        self.sink.message(queue_id, number, priority, expiration, deliveries, size, deliver_at)

    def tell_before(self, number: i64) -> None:
        """Tell the moved ones that come before ``number``; -1: all that are left."""
        index = self.telling.index
        rows = index.moves.rows
        while self._row < len(rows):
            move = rows[self._row]
            if number >= 0 and move.fresh + self._at >= number:
                return
            if self._at >= move.count:
                self._row += 1
                self._at = 0
                continue
            written = move.first + self._at
            current = move.fresh + self._at
            self._at += 1
            segment = index.find(current)
            slot = index.slot
            if segment is not None and segment.numbers[slot] == written and segment.states[slot] == LIVE:
                self._tell(segment, slot, current)

    def _tell(self, segment: Segment, slot: i64, number: i64) -> None:
        window = self._window
        if window is None or self._segment is not segment:
            window = Window(self.telling.port, segment.name, segment.end, WINDOW_BYTES)
            self._window = window
            self._segment = segment
        self.telling.tell_slot(segment, slot, number, window, self.sink)
