"""Facts are written in runs and read back one by one: the same, in the order in which they happened to a message."""

from __future__ import annotations

import json
import struct
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="traces are read with pyarrow: pip install entrepot[spark]")

from entrepot.base.errors import InvalidOption
from entrepot.core.events import trace as facts
from entrepot.core.events.trace import BLOCK_HEAD_OCTETS, RECORD_OCTETS, Run, Trace
from entrepot.pipeline.traces import Segment, fingerprint
from kit import Rig

from .test_trace import Kept

WALL = 1_700_000_000_000
Block = tuple[bytes, bytes, bytes, int]
Step = tuple[str, int, int, int, list[int]]
STAGES = {facts.ACCEPTED, facts.DELIVERED, facts.ACKNOWLEDGED}


def segment_of(home: Path, blocks: list[Block], *, layout: int = 2, serial: int = 1) -> Segment:
    """Return what is read of a segment of these blocks, made as the format says."""
    said = {"layout": layout, "node": "n", "name": "n", "run": 1, "version": "0", "created": 1}
    text = json.dumps({**said, "serial": serial, "lost": 0, "dropped": 0}).encode()
    head = (b"ENTRACE1" + struct.pack("<II", len(text), crc32(text)) + text).ljust(4096, b"\0")
    path = home / f"n.{serial:08d}.trace"
    path.write_bytes(head + b"".join(part for block in blocks for part in block[:3]))
    return Segment(path)


def read(sink: Kept) -> list[dict[str, Any]]:
    """Return the events of all segments of ``sink``, in order; each segment in parts as small as can be."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        for serial, blocks in enumerate(sink.segments, 1):
            segment = segment_of(Path(home), blocks, serial=serial)
            assert not segment.fault
            parts = segment.parts(1)
            assert sum(part.facts for part in parts) == segment.whole().facts
            together = segment.events().to_pylist()
            assert [row for part in parts for row in segment.events(part).to_pylist()] == together
            rows += together
    assert [row["position"] for row in rows] == sorted({row["position"] for row in rows})
    return rows


def octets_of(sink: Kept) -> int:
    return sum(len(block[1]) for blocks in sink.segments for block in blocks)


class Life:
    """Queues with consumers, which note what they do; `expected` has what must be read back, by message."""

    def __init__(self, sink: Kept) -> None:
        self.trace = Trace(sink)
        self.now = 5_000_000_000
        self.number = 0
        self.waiting: dict[int, list[int]] = {1: [], 2: []}
        self.held: dict[tuple[int, int], list[int]] = {(queue, key): [] for queue in (1, 2) for key in (7, 8, 9)}
        self.arrivals = {queue: self.trace.arrivals(queue) for queue in self.waiting}
        self.given: dict[tuple[int, int], Run] = {key: self.trace.deliveries(*key) for key in self.held}
        self.settled: dict[tuple[int, int], Run] = {key: self.trace.settlements(*key) for key in self.held}
        self.expected: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        self.identities: dict[int, tuple[int, int]] = {}
        self.sizes = 0
        self.trace.tick(self.now, WALL)

    def _expect(self, queue: int, number: int, kind: int, flags: int, peer: int, detail: int) -> None:
        time = WALL * 1000 + (self.now - 5_000_000_000) // 1000
        self.expected.setdefault((queue, number), []).append((kind, flags, peer, detail, time))

    def accept(self, queue: int, count: int, step: int, origin: int) -> None:
        for nth in range(count):
            self.number += step
            flags = facts.DURABLE if origin else 0
            size = 7 if origin < 2 else nth
            if origin:
                sequence = self.number * origin if origin < 3 else facts.NO_SEQUENCE
                prefix = f"ID:{origin}:"
                self.trace.identity(self.number, prefix + (str(sequence) if sequence >= 0 else ""))
                self.identities[self.number] = (fingerprint(prefix), sequence)
            else:
                self.identities[self.number] = (fingerprint("ID:n:"), self.number)
            self.arrivals[queue].note_sized(facts.ACCEPTED | (flags << 8), self.number, queue | (origin << 32), size)
            self.sizes += size
            self._expect(queue, self.number, facts.ACCEPTED, flags, origin, 0)
            self.waiting[queue].append(self.number)

    def deliver(self, queue: int, count: int, keys: list[int], deliveries: int) -> None:
        for nth in range(min(count, len(self.waiting[queue]))):
            number = self.waiting[queue].pop(0)
            key = keys[nth % len(keys)]
            self.given[queue, key].note(facts.DELIVERED | (deliveries << 16), number)
            self._expect(queue, number, facts.DELIVERED, 0, key, deliveries)
            self.held[queue, key].append(number)

    def acknowledge(self, queue: int, count: int, keys: list[int]) -> None:
        for key in keys:
            held = self.held[queue, key]
            for number in held[:count]:
                self.settled[queue, key].note(facts.ACKNOWLEDGED, number)
                self._expect(queue, number, facts.ACKNOWLEDGED, 0, key, 0)
            del held[:count]

    def give_back(self, queue: int, count: int, keys: list[int]) -> None:
        for key in keys:
            held = self.held[queue, key]
            for number in held[:count]:
                self.trace.note(facts.RETURNED, number, queue, 0, 1)
                self._expect(queue, number, facts.RETURNED, 0, 0, 1)
            self.waiting[queue] = held[:count] + self.waiting[queue]
            del held[:count]

    def expire(self, queue: int, count: int) -> None:
        for number in self.waiting[queue][:count]:
            self.trace.note(facts.EXPIRED, number, queue, 0, 0)
            self._expect(queue, number, facts.EXPIRED, 0, 0, 0)
        del self.waiting[queue][:count]

    def tick(self, us: int) -> None:
        self.now += us * 1000
        self.trace.tick(self.now, WALL + (self.now - 5_000_000_000) // 1_000_000)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["accept", "accept", "deliver", "deliver", "acknowledge", "return", "expire", "flush", "tick"]),
        st.integers(1, 2),
        st.integers(1, 30),
        st.integers(0, 3),
        st.lists(st.sampled_from([7, 8, 9]), min_size=1, max_size=4),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS, st.sampled_from([1 << 40, 3000]))
def test_whatever_happens_is_read_back_in_its_order(steps: list[Step], room: int) -> None:
    sink = Kept(room)
    life = Life(sink)
    for what, queue, count, variant, keys in steps:
        if what == "accept":
            life.accept(queue, count, 1 + variant // 2, variant)
        elif what == "deliver":
            life.deliver(queue, count, keys, variant // 3)
        elif what == "acknowledge":
            life.acknowledge(queue, count, keys)
        elif what == "return":
            life.give_back(queue, count, keys)
        elif what == "expire":
            life.expire(queue, count)
        elif what == "tick":
            life.tick(count)
        else:
            life.trace.flush()
    life.trace.flush()
    rows = read(sink)
    found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for row in rows:
        accepted = row["kind"] == facts.ACCEPTED
        detail = 0 if accepted else row["detail"]
        found.setdefault((row["place"], row["number"]), []).append(
            (row["kind"], row["flags"], row["peer"], detail, row["time"])
        )
        assert (row["prefix"], row["sequence"]) == (life.identities[row["number"]] if accepted else (0, 0))
    assert found == life.expected
    assert sum(row["detail"] for row in rows if row["kind"] == facts.ACCEPTED) == life.sizes
    assert sum(block[3] for blocks in sink.segments for block in blocks) == len(rows)


def test_each_reader_gets_the_messages_of_a_run_in_their_order() -> None:
    sink = Kept()
    life = Life(sink)
    life.accept(1, 100, 1, 0)
    life.deliver(1, 60, [7, 8, 9], 0)
    life.deliver(1, 40, [8, 8, 7], 0)
    life.trace.flush()
    rows = [row for row in read(sink) if row["kind"] == facts.DELIVERED]
    for key in (7, 8, 9):
        numbers = [row["number"] for row in rows if row["peer"] == key]
        assert numbers == sorted(numbers)
    assert Counter(row["number"] for row in rows) == Counter(range(1, 101))


@pytest.mark.parametrize("origin", [0, 1, 2])
def test_a_flood_takes_a_few_records(origin: int) -> None:
    """From one producer to four readers in rotation, in turns of 500; sizes that vary (2), and given identities (1)."""
    sink = Kept()
    life = Life(sink)
    for _ in range(10):
        life.accept(1, 500, 1, origin)
        life.deliver(1, 500, [7, 8, 9], 0)
        life.acknowledge(1, 500, [7, 8, 9])
        life.trace.flush()
    assert len(read(sink)) == 3 * 10 * 500
    assert octets_of(sink) <= 10 * 8 * 2 * RECORD_OCTETS


def test_a_long_run_is_written_in_blocks_that_a_reader_can_take_whole() -> None:
    sink = Kept()
    trace = Trace(sink)
    for number in range(1, 300_001):
        trace.note(facts.RECOVERED, number, 1, 0, 0)
    run = trace.arrivals(1)
    for number in range(300_001, 500_001):
        run.note_sized(facts.ACCEPTED, number, 1, 2)
    trace.flush()
    (blocks,) = sink.segments
    assert len(blocks) > 4
    assert max(block[3] for block in blocks[:-1]) <= 2 * facts.RUN_MAX
    rows = read(sink)
    assert [row["number"] for row in rows] == list(range(1, 500_001))


def test_a_turn_that_notes_much_that_is_not_alike_makes_several_blocks(tmp_path: Path) -> None:
    """Each with what its messages are called: a block may be the last of its segment."""
    sink = Kept(room=1 << 20)
    trace = Trace(sink)
    run = trace.arrivals(1)
    for nth in range(1, 40_001):
        number = nth * nth
        trace.identity(number, f"ID:{nth % 7}:{nth * 3 % 1000}")
        run.note_sized(facts.ACCEPTED, number, 1 | (nth << 32), 1)
    trace.flush()
    assert len(sink.segments) > 1
    rows = read(sink)
    assert len(rows) == 40_000
    for nth, row in enumerate(rows, 1):
        known = (fingerprint(f"ID:{nth % 7}:"), nth * 3 % 1000)
        assert (row["number"], row["prefix"], row["sequence"]) == (nth * nth, *known)


def test_fan_out_makes_a_run_for_each_queue() -> None:
    sink = Kept()
    rig = Rig(sink=sink)
    readers = [rig.reader("topic://T") for _ in range(8)]
    before = octets_of(sink)
    rig.send_all("topic://T", range(100))
    for reader in readers:
        reader.ack(100)
    rig.turn()
    rows = [row for row in read(sink) if row["kind"] in STAGES]
    assert Counter(row["kind"] for row in rows) == dict.fromkeys(STAGES, 800)
    assert octets_of(sink) - before <= 8 * 3 * 2 * RECORD_OCTETS * 2


# -- the octets --------------------------------------------------------------------------------------------------------

GOLDEN = (
    "12000000 03000000 01000000 00000000 02000000 00000000",  # a span: 3, numbers 1 apart, sequences 2
    "08000000 01000000 0a000000 00000000 14000000 00000000",  # message 10 is prefix 1, sequence 20
    "12000000 03000000 01000000 00000000 17000000 00000000",  # a span: 3, numbers 1 apart, 23 times 16 octets
    "01410700 00000000 0a000000 00000000 05000000 03000000",  # accepted: 10, durable, priority 4, by queue 5 from 3
    "12000000 02000000 02000000 00000000 00000000 00000000",  # a span: 2, numbers 2 apart
    "02000000 00000000 0a000000 00000000 05000000 15000000",  # delivered: 10 to 21
    "02000000 00000000 0b000000 00000000 05000000 16000000",  # delivered: 11 to 22
    "03000000 00000000 0a000000 00000000 05000000 15000000",  # acknowledged: 10 by 21
    "04000100 fa000000 0b000000 00000000 05000000 00000000",  # returned: 11, once, 250 us later
    "03000000 fa000000 0c000000 00000000 05000000 15000000",  # acknowledged: 12 by 21
)
STORY = [  # kind, number, peer, detail, sequence
    (facts.ACCEPTED, 10, 3, 8, 20), (facts.ACCEPTED, 11, 3, 8, 22), (facts.ACCEPTED, 12, 3, 7, 24),
    (facts.DELIVERED, 10, 21, 0, 0), (facts.DELIVERED, 12, 21, 0, 0), (facts.DELIVERED, 11, 22, 0, 0),
    (facts.ACKNOWLEDGED, 10, 21, 0, 0), (facts.RETURNED, 11, 0, 1, 0), (facts.ACKNOWLEDGED, 12, 21, 0, 0),
]  # fmt: skip


def scene() -> Kept:
    """Three messages that one producer sent, two of another size; two readers take turns; one gives its back."""
    sink = Kept()
    trace = Trace(sink)
    trace.tick(1_000_000, WALL)
    trace.define(facts.NAME_QUEUE, 5, "Q\tQ\t0")
    arrivals, one, two = trace.arrivals(5), trace.deliveries(5, 21), trace.deliveries(5, 22)
    settled = trace.settlements(5, 21)
    for number, size in ((10, 7), (11, 7), (12, 9)):
        trace.identity(number, f"ID:x:{number * 2}")
        arrivals.note_sized(facts.ACCEPTED | (facts.DURABLE | 4 << 4) << 8, number, 5 | (3 << 32), size)
    one.note(facts.DELIVERED, 10)
    two.note(facts.DELIVERED, 11)
    one.note(facts.DELIVERED, 12)
    settled.note(facts.ACKNOWLEDGED, 10)
    trace.tick(1_250_000, WALL)
    trace.note(facts.RETURNED, 11, 5, 0, 1)
    settled.note(facts.ACKNOWLEDGED, 12)
    trace.flush()
    return sink


def story_of(segment: Segment) -> list[tuple[int, ...]]:
    rows = segment.events().to_pylist()
    return [tuple(row[name] for name in ("kind", "number", "peer", "detail", "sequence")) for row in rows]


def test_the_octets_are_those_of_the_format(tmp_path: Path) -> None:
    """A golden block: who changes it makes another layout, and the reader still reads this one."""
    ((block,),) = scene().segments
    assert bytes.fromhex("".join(GOLDEN)) == block[1]
    assert block[0] == struct.pack("<IIIIqq", facts.BLOCK_MARK, 10, len(block[2]), 0, WALL * 1000, 0)
    segment = segment_of(tmp_path, [block])
    assert story_of(segment) == STORY
    times = segment.events()["time"].to_pylist()
    assert times == [WALL * 1000] * 7 + [WALL * 1000 + 250] * 2
    assert segment.names[facts.NAME_PREFIX] == {1: "ID:x:"}


def test_the_first_layout_is_read_as_before(tmp_path: Path) -> None:
    """It had a record for each fact, and what follows an identity is what that is about."""
    records = []
    for kind, number, peer, detail, sequence in STORY:
        if kind == facts.ACCEPTED:
            records.append(struct.pack("<BBHIqq", facts.IDENTITY, 0, 0, 1, number, sequence))
        records.append(struct.pack("<BBHIqii", kind, 0, detail, 0, number, 5, peer))
    names = struct.pack("<hhq", facts.NAME_PREFIX, 5, 1) + b"ID:x:" + bytes(7)
    head = struct.pack("<IIIIqq", facts.BLOCK_MARK, len(records), len(names), 0, WALL * 1000, 0)
    segment = segment_of(tmp_path, [(head, b"".join(records), names, 0)], layout=1)
    assert story_of(segment) == STORY
    assert len(segment.parts(1)) == 1
    with pytest.raises(InvalidOption, match="has layout 3; this version reads 1 and 2"):
        segment_of(tmp_path, [], layout=3, serial=2)


@pytest.mark.parametrize(
    ("at", "octets"),
    [(4, b"\x01"), (4, b"\x01\x00\x02"), (24, b"\x12"), (9 * 24, b"\x12")],
    ids=["of one", "of more than there may be", "of a span", "of nothing"],
)
def test_a_span_that_makes_no_sense_ends_the_segment(tmp_path: Path, at: int, octets: bytes) -> None:
    """Not in a closed segment, which has checksums: but a disk may have anything where a broker was killed."""
    ((block,),) = scene().segments
    records = bytearray(block[1])
    records[at : at + len(octets)] = octets
    segment = segment_of(tmp_path, [block, (block[0], bytes(records), block[2], 9), block])
    assert "is damaged" in segment.fault
    assert story_of(segment) == STORY
    assert segment.fault in segment.name_rows()["text"].to_pylist()


def test_who_is_killed_in_the_middle_of_a_block_leaves_those_before_it(tmp_path: Path) -> None:
    """Records and names are copied first, the head last: without it there is nothing."""
    ((block,),) = scene().segments
    for kept in range(0, len(block[1]), 20):
        records = block[1][:kept].ljust(len(block[1]), b"\0")
        segment = segment_of(tmp_path, [block, (bytes(BLOCK_HEAD_OCTETS), records, block[2], 9)])
        assert story_of(segment) == STORY
        assert not segment.fault
