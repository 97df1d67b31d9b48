"""Reads traces (docs/formats/trace.md) into Arrow tables, whole columns at a time.

Two forms: `events`, all numbers, which the Spark jobs work on; and `readable`, with every name spelt out, for people
and for Parquet. Strings that repeat are hashed to 64 bits there; `names` says what they stand for.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from glob import escape
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.checksum import crc32
from entrepot.base.errors import InvalidOption, OperatorError
from entrepot.core.events import trace as facts
from entrepot.io import seals
from entrepot.io.traces import HEAD_OCTETS, MAGIC, SUFFIX, stem_of

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise OperatorError("traces are read with pyarrow and numpy", remedy='pip install "entrepot[spark]"') from error

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYOUTS: Final = (1, 2)  # 1 had no spans
PART_FACTS: Final = 1 << 20  # expanded at a time: 70 MB of columns
BLOCK_HEAD: Final = struct.Struct("<IIIIqq")  # mark, records, octets of names, checksum, base us, number of the block
NAME_HEAD: Final = struct.Struct("<hhq")

RECORD: Final = np.dtype(
    [("kind", "u1"), ("flags", "u1"), ("detail", "<u2"), ("offset", "<u4"), ("number", "<i8"), ("place", "<i4"),
     ("peer", "<i4")]
)  # fmt: skip
IDENTITY: Final = np.dtype(
    [("kind", "u1"), ("flags", "u1"), ("detail", "<u2"), ("prefix", "<u4"), ("number", "<i8"), ("sequence", "<i8")]
)

EVENTS: Final = pa.schema(
    [
        pa.field("node", pa.int64(), False),  # hash of the id of the broker
        pa.field("run", pa.int64(), False),
        pa.field("position", pa.int64(), False),  # rising within a node
        pa.field("time", pa.int64(), False),  # us since 1970
        pa.field("kind", pa.int16(), False),
        pa.field("flags", pa.int16(), False),
        pa.field("detail", pa.int32(), False),
        pa.field("number", pa.int64(), False),
        pa.field("place", pa.int32(), False),
        pa.field("peer", pa.int32(), False),
        pa.field("prefix", pa.int64(), False),  # hash of what stands before the sequence in the message id; 0: unknown
        pa.field("sequence", pa.int64(), False),
    ]
)
NAMES: Final = pa.schema(
    [
        pa.field("node", pa.int64(), False),
        pa.field("run", pa.int64(), False),
        pa.field("kind", pa.int16(), False),
        pa.field("number", pa.int64(), False),
        pa.field("text", pa.string(), False),
    ]
)
NAME_NODE: Final = 100  # in `NAMES` only: id TAB name of the broker itself; number: its hash
NAME_FAULT: Final = 101  # what is wrong with a segment
NAME_STOPPED: Final = 102  # the run ended in order
NAME_UNTIL: Final = 103  # number: us since 1970, of the last record
NAME_PART: Final = 104  # of a segment; number: facts, text: its path, first block, end and facts before, with tabs
NAME_UUID: Final = 106  # of the broker: what nodes of a cluster call it TAB what begins its message ids
NAME_SEAL: Final = 105  # of a segment; number: its serial, text: its path and what `seals.Sealed` has, with tabs

NAMED: Final = (facts.ACCEPTED, facts.UNROUTED, facts.DUPLICATE)


def fingerprint(text: str) -> int:
    """Return 64 bits that stand for ``text``; never 0."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True) or 1


class Head:
    """Who wrote a segment."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.layout: Final = int(said["layout"])
        self.node: Final = str(said["node"])
        self.name: Final = str(said["name"])
        self.run: Final = int(said["run"])
        self.serial: Final = int(said["serial"])
        self.lost: Final = int(said["lost"])
        self.dropped: Final = int(said["dropped"])
        self.created: Final = int(said["created"])
        self.ids: Final = str(said.get("ids", f"ID:{self.node}:"))  # what begins its message ids; as it was before
        self.uuid: Final = str(said.get("uuid", ""))  # what nodes of a cluster call it


class Part:
    """Whole blocks of a segment, one behind the other, that are expanded together."""

    def __init__(self, first: int, end: int, before: int, facts: int) -> None:
        self.first: Final = first  # block
        self.end: Final = end
        self.before: Final = before  # facts in the blocks before it
        self.facts: Final = facts


class Segment:
    """One file, read. ``fault`` says why its end cannot be read, "" for none (a segment in use just ends).

    A record may stand for many facts: a segment of 16 MiB for many millions. So it is expanded in `parts`.
    """

    def __init__(self, path: Path) -> None:
        """Read and check it. Raises InvalidOption for what is no trace."""
        self.path: Final = path
        data = path.read_bytes()
        self.head: Final = head_of(data, path)
        self.fault = ""
        self._data = data
        self._blocks: list[tuple[int, int, int]] = []  # offset of the records, how many, base
        self.names: dict[int, dict[int, str]] = {}
        self._scan()
        self._facts: Final[list[int]] = self._count()  # of each block

    def _scan(self) -> None:
        data = self._data
        view = memoryview(data)
        at = HEAD_OCTETS
        while at + BLOCK_HEAD.size <= len(data):
            mark, count, named, check, base, _ = BLOCK_HEAD.unpack_from(data, at)
            if mark == 0:
                return
            first = at + BLOCK_HEAD.size
            end = first + count * RECORD.itemsize + named
            if mark != facts.BLOCK_MARK or end > len(data):
                self.fault = f"{self.path.name}: no block at {at}"
                return
            if check and (crc32(view[at + 16 : end]) or 1) != check:
                self.fault = f"{self.path.name}: the block at {at} is damaged"
                return
            if count:
                self._blocks.append((first, count, base))
            if named:
                self._take_names(first + count * RECORD.itemsize, end)
            at = end

    def _count(self) -> list[int]:
        """Return how many facts each block has; the segment ends before the first block whose spans make no sense."""
        records, starts = self._records(0, len(self._blocks))
        if len(records) == 0:
            return []
        spans = np.flatnonzero(records["kind"] == facts.SPAN)
        counts = records["offset"][spans].astype(np.int64)
        last = np.zeros(len(records), bool)  # of its block: a span there is of nothing
        last[starts[1:] - 1] = True
        last[-1] = True
        bad = (counts < 2) | (counts > facts.RUN_MAX) | last[spans]
        bad |= records["kind"][np.minimum(spans + 1, len(records) - 1)] == facts.SPAN
        if bad.any():
            block = int(np.searchsorted(starts, spans[np.argmax(bad)], "right")) - 1
            self.fault = f"{self.path.name}: the block at {self._blocks[block][0] - BLOCK_HEAD.size} is damaged"
            del self._blocks[block:]
            return self._count()
        weights = np.ones(len(records), np.int64)
        weights[spans] = counts - 1
        return [int(count) for count in np.add.reduceat(weights, starts)]

    def _records(self, first: int, end: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the records of these blocks as they are stored, and where each block begins among them."""
        blocks = self._blocks[first:end]
        if not blocks:
            return np.empty(0, RECORD), np.empty(0, np.int64)
        records = np.concatenate([np.frombuffer(self._data, RECORD, count, at) for at, count, _ in blocks])
        counts = np.array([count for _, count, _ in blocks], np.int64)
        return records, np.cumsum(counts) - counts

    def parts(self, size: int = PART_FACTS) -> list[Part]:
        """Return what to expand at a time: about ``size`` facts, a block at least."""
        if self.head.layout == 1:  # an identity may be in the block before the one with its message; there are no spans
            return [self.whole()] if self._blocks else []
        found = []
        first = before = pending = 0
        for block, count in enumerate(self._facts):
            pending += count
            if pending >= size or block + 1 == len(self._facts):
                found.append(Part(first, block + 1, before, pending))
                first, before, pending = block + 1, before + pending, 0
        return found

    def whole(self) -> Part:
        """Return all of it as one part: for small ones."""
        return Part(0, len(self._blocks), 0, sum(self._facts))

    def _take_names(self, at: int, end: int) -> None:
        while at + NAME_HEAD.size <= end:
            kind, length, number = NAME_HEAD.unpack_from(self._data, at)
            if kind == 0:
                return
            at += NAME_HEAD.size
            text = self._data[at : at + length].decode("utf-8", "replace")
            self.names.setdefault(kind, {})[number] = text
            at += length

    def records(self, part: Part) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a record for each fact of ``part``, in order, and the time of each (us since 1970)."""
        records, _ = self._records(part.first, part.end)
        blocks = self._blocks[part.first : part.end]
        bases = np.repeat(
            np.array([base for _, _, base in blocks], np.int64), np.array([count for _, count, _ in blocks], np.int64)
        )
        times = bases + records["offset"]
        spans = np.flatnonzero(records["kind"] == facts.SPAN)
        return (records, times) if len(spans) == 0 else _expanded(records, times, spans)

    def columns(self, part: Part) -> dict[str, NDArray[Any]]:
        """Return the facts of ``part``, a column for each field of `EVENTS`."""
        records, times = self.records(part)
        prefix, sequence = self._identities(records)
        kept = records["kind"] != facts.IDENTITY
        positions = (np.int64(self.head.serial) << 32) + part.before + np.arange(len(records), dtype=np.int64)
        rows = int(np.count_nonzero(kept))
        records = records[kept]
        return {
            "node": np.full(rows, fingerprint(self.head.node), np.int64),
            "run": np.full(rows, self.head.run, np.int64),
            "position": positions[kept],
            "time": times[kept],
            "kind": records["kind"].astype(np.int16),
            "flags": records["flags"].astype(np.int16),
            "detail": records["detail"].astype(np.int32),
            "number": records["number"],
            "place": records["place"],
            "peer": records["peer"],
            "prefix": prefix[kept],
            "sequence": sequence[kept],
        }

    def events(self, part: Part | None = None) -> pa.Table:
        """Return the facts of ``part``, or all, in the form `EVENTS`."""
        columns = self.columns(part or self.whole())
        return pa.table([pa.array(columns[name]) for name in EVENTS.names], schema=EVENTS)

    def _identities(self, records: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return (hash of the prefix, sequence) of each record that brings a message, (0, 0) of the others."""
        prefix = np.zeros(len(records), np.int64)
        sequence = np.zeros(len(records), np.int64)
        which = np.flatnonzero(np.isin(records["kind"], NAMED))
        numbers = records["number"][which]
        prefix[which] = fingerprint(self.head.ids)
        sequence[which] = numbers
        given = records[records["kind"] == facts.IDENTITY].view(IDENTITY)
        if len(given) == 0:
            return prefix, sequence
        given = given[np.argsort(given["number"], kind="stable")]
        at = np.minimum(np.searchsorted(given["number"], numbers), len(given) - 1)
        found = given["number"][at] == numbers
        texts = self.names.get(facts.NAME_PREFIX, {})
        hashes = np.zeros(max(int(given["prefix"].max()), max(texts, default=0)) + 1, np.int64)
        for number, text in texts.items():
            hashes[number] = fingerprint(text)
        prefix[which[found]] = hashes[given["prefix"][at[found]]]
        sequence[which[found]] = given["sequence"][at[found]]
        return prefix, sequence

    def name_rows(self) -> pa.Table:
        """Return the names in the form `NAMES`; prefixes and causes of ids under their hash."""
        node = fingerprint(self.head.node)
        rows: list[tuple[int, int, str]] = [(NAME_NODE, node, f"{self.head.node}\t{self.head.name}")]
        rows.append((facts.NAME_PREFIX, fingerprint(self.head.ids), self.head.ids))
        if self.head.uuid:
            rows.append((NAME_UUID, node, f"{self.head.uuid}\t{self.head.ids}"))
        for kind, found in self.names.items():
            for number, text in found.items():
                rows.append((kind, fingerprint(text) if kind == facts.NAME_PREFIX else number, text))
        if self.fault:
            rows.append((NAME_FAULT, self.head.serial, self.fault))
        if self.head.lost:
            rows.append((NAME_FAULT, self.head.serial, f"{self.head.lost} records were lost before {self.path.name}"))
        if self._blocks:
            records, _ = self._records(0, len(self._blocks))
            last = records[-self._blocks[-1][1] :]
            timed = last["offset"][~np.isin(last["kind"], (facts.IDENTITY, facts.SPAN))]
            rows.append((NAME_UNTIL, self._blocks[-1][2] + int(timed.max(initial=0)), ""))
            if np.any(records["kind"] == facts.STOPPED):
                rows.append((NAME_STOPPED, self.head.run, ""))
        one = seals.look(self.path, self._data)
        rows.append((NAME_SEAL, self.head.serial, f"{one.path}\t{one.before}\t{one.link}\t{one.found}"))
        for part in self.parts():
            rows.append((NAME_PART, part.facts, f"{self.path}\t{part.first}\t{part.end}\t{part.before}"))
        kinds, numbers, texts = zip(*rows, strict=True)
        nodes, runs = [node] * len(rows), [self.head.run] * len(rows)
        return pa.table([nodes, runs, list(kinds), list(numbers), list(texts)], schema=NAMES)

    def readable(self, part: Part | None = None) -> pa.Table:
        """Return the facts of ``part``, or all, with every name spelt out."""
        records, times = self.records(part or self.whole())
        prefix, sequence = self._texts(records)
        kept = records["kind"] != facts.IDENTITY
        times, records = times[kept], records[kept]
        kinds = np.minimum(records["kind"], len(facts.KINDS) - 1)
        queues = {number: text.split("\t")[0] for number, text in self.names.get(facts.NAME_QUEUE, {}).items()}
        addresses = self.names.get(facts.NAME_ADDRESS, {})
        nowhere = np.isin(kinds, (facts.UNROUTED, facts.DUPLICATE))
        came = np.isin(kinds, NAMED)
        dead, removed = kinds == facts.DEAD, kinds == facts.REMOVED
        consumers = {n: _consumer(text) for n, text in self.names.get(facts.NAME_CONSUMER, {}).items()}
        origins = {n: _broker(text) for n, text in self.names.get(facts.NAME_ORIGIN, {}).items()}
        causes = self.names.get(facts.NAME_CAUSE, {})
        reasons = dict(enumerate(facts.REASONS))
        return pa.table(
            {
                "time": pa.array(times, pa.timestamp("us", "UTC")),
                "node": _constant(self.head.node, len(records)),
                "broker": _constant(self.head.name, len(records)),
                "what": pa.DictionaryArray.from_arrays(kinds.astype(np.int32), list(facts.KINDS)),
                "number": pa.array(records["number"]),
                "message_prefix": prefix.filter(pa.array(kept)),
                "message_sequence": sequence.filter(pa.array(kept)),
                "queue": _either(nowhere, records["place"], addresses, queues),
                "consumer": _spelt(records["peer"], consumers, ~(came | dead)),
                "came_from": _spelt(records["peer"], origins, came),
                "why": _either(dead, records["peer"], causes, reasons, np.where(removed, records["detail"], 0)),
                "detail": pa.array(records["detail"].astype(np.int32)),
                "flags": pa.array(records["flags"].astype(np.int16)),
            }
        )

    def _texts(self, records: NDArray[Any]) -> tuple[pa.Array, pa.Array]:
        prefix, sequence = self._identities(records)
        known = {fingerprint(text): text for text in self.names.get(facts.NAME_PREFIX, {}).values()}
        own = self.head.ids
        known[fingerprint(own)] = own
        return _spelt(prefix, known, prefix != 0), pa.array(sequence, mask=(prefix == 0) | (sequence < 0))


def _expanded(records: NDArray[Any], times: NDArray[Any], spans: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ``records`` and ``times`` with those behind ``spans`` as often, and as different, as these say."""
    counts = np.ones(len(records), np.int64)
    counts[spans] = 0
    counts[spans + 1] = records["offset"][spans]
    ends = np.cumsum(counts)
    index = np.repeat(np.arange(len(records)), counts)
    made = records[index]
    nth = np.arange(int(ends[-1]), dtype=np.int64) - (ends - counts)[index]
    stride = np.zeros(len(records), np.int64)
    stride[spans + 1] = records["number"][spans]
    made["number"] += stride[index] * nth
    total = np.zeros(len(records), np.int64)  # of identities: how far the sequences are apart
    total[spans + 1] = records.view(IDENTITY)["sequence"][spans]
    identities = made["kind"] == facts.IDENTITY
    made.view(IDENTITY)["sequence"][identities] += (total[index] * nth)[identities]
    sized = np.flatnonzero((made["kind"] == facts.ACCEPTED) & (counts[index] > 1))
    share, rest = np.divmod(total[index[sized]], counts[index[sized]])
    made["detail"][sized] = share + (nth[sized] < rest)
    return made, times[index]


def _consumer(text: str) -> str:
    connection, node, name, client = (*text.split("\t"), "", "", "", "")[:4]
    broker = name or node
    return f"bridge to {broker}" if broker else (f"{connection} ({client})" if client else connection)


def _broker(text: str) -> str:
    node, _, name = text.partition("\t")
    return name or node


def _constant(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [text])


def _spelt(numbers: NDArray[Any], texts: dict[int, str], where: NDArray[Any]) -> pa.Array:
    """Return the text of each number as a dictionary array; null where there is none, or ``where`` is false."""
    keys = np.array(sorted(texts), np.int64)
    if len(keys) == 0:
        return pa.nulls(len(numbers), pa.dictionary(pa.int32(), pa.string()))
    at = np.minimum(np.searchsorted(keys, numbers), len(keys) - 1).astype(np.int32)
    missing = (keys[at] != numbers) | ~where
    return pa.DictionaryArray.from_arrays(pa.array(at, mask=missing), [texts[int(key)] for key in keys])


def _either(
    first: NDArray[Any],
    numbers: NDArray[Any],
    texts: dict[int, str],
    others: dict[int, str],
    other_numbers: NDArray[Any] | None = None,
) -> pa.Array:
    """Return ``texts`` of ``numbers`` where ``first``, else ``others``."""
    if other_numbers is None:
        other_numbers = numbers
    low = min([0, *others])
    shift = max([0, *others]) - low + 1
    joined = {key - low: text for key, text in others.items() if text}
    joined.update({key + shift: text for key, text in texts.items()})
    return _spelt(np.where(first, numbers.astype(np.int64) + shift, other_numbers.astype(np.int64) - low), joined,
                  np.ones(len(numbers), bool))  # fmt: skip


def head_of(data: bytes, path: Path) -> Head:
    """Return who wrote the segment that begins with ``data``. Raises InvalidOption."""
    length = int.from_bytes(data[8:12], "little")
    text = data[16 : 16 + length]
    if data[:8] != MAGIC or len(text) != length or crc32(text) != int.from_bytes(data[12:16], "little"):
        raise InvalidOption(f"{path} is no trace of a broker", remedy="name the directory that --trace was given")
    said = json.loads(text)
    if said["layout"] not in LAYOUTS:
        known = " and ".join(str(layout) for layout in LAYOUTS)
        raise InvalidOption(f"{path} has layout {said['layout']}; this version reads {known}")
    return Head(said)


def segments(places: Sequence[str | Path]) -> list[Path]:
    """Return the segments in ``places``, directories or files, by node and number. Raises InvalidOption for none."""
    found: list[Path] = []
    for place in places:
        path = Path(place)
        found += sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    found = [path for path in found if is_begun(path)]
    if not found:
        raise InvalidOption(
            f"there is no trace in {', '.join(str(place) for place in places)}",
            remedy="start brokers with `entrepot run --trace DIR` and name DIR",
        )
    return found


def is_begun(path: Path) -> bool:
    """Return whether somebody writes to it, or did; a spare has no head yet. Raises InvalidOption when it is gone."""
    try:
        with path.open("rb") as file:
            return file.read(8).strip(b"\0") != b""
    except OSError as error:
        raise InvalidOption(f"{path} cannot be read: {error.strerror}") from error


def read(places: Sequence[str | Path]) -> Iterator[pa.Table]:
    """Yield readable tables of some size, for each segment of ``places`` one at least."""
    for path in segments(places):
        segment = Segment(path)
        for part in segment.parts() or [segment.whole()]:
            yield segment.readable(part)


def numbers_of(table: pa.Table, message: str) -> set[tuple[str, int]]:
    """Return (node, number) of the message with this id in a readable table."""
    prefix, colon, tail = message.rpartition(":")
    whole = pc.equal(table["message_prefix"].cast(pa.string()), message)
    parted = pc.equal(table["message_prefix"].cast(pa.string()), prefix + colon)
    if tail.isdigit() and len(tail) <= facts.SEQUENCE_DIGITS_MAX:
        parted = pc.and_(parted, pc.equal(table["message_sequence"], int(tail)))
    else:
        parted = whole
    found = table.filter(pc.or_(whole, parted)).select(["node", "number"]).to_pylist()
    return {(row["node"], row["number"]) for row in found}


def segments_of(place: Path, node: str) -> list[Path]:
    """Return the segments of the broker ``node`` that are right in the directory ``place``, the oldest first."""
    return [path for path in sorted(place.glob(f"{escape(stem_of(node))}.*{SUFFIX}")) if is_begun(path)]


def story(paths: Sequence[Path], message: str | int) -> list[dict[str, Any]]:
    """Return the rows of `Segment.readable` about one message, by time; ``message``: its id, or a broker's number.

    ``paths``: segments of one broker after another, the oldest first. Raises InvalidOption for what is no trace.
    """
    numbers: set[tuple[str, int]] = set()
    found: list[dict[str, Any]] = []
    for table in read(paths):
        if len(table) == 0:
            continue
        if isinstance(message, int):
            numbers.add((table["node"][0].as_py(), message))
        else:
            numbers |= numbers_of(table, message)
        if numbers:
            found += chosen(table, numbers, None, None).to_pylist()
    found.sort(key=itemgetter("time"))
    return found


def chosen(table: pa.Table, numbers: set[tuple[str, int]] | None, queue: str | None, what: str | None) -> pa.Table:
    """Return the rows of a readable table about these messages, this queue, of this kind."""
    if numbers is not None:
        node = table["node"][0].as_py() if len(table) else ""
        wanted = pa.array([number for of, number in numbers if of == node], pa.int64())
        table = table.filter(pc.is_in(table["number"], wanted))
    if queue is not None:
        table = table.filter(pc.equal(table["queue"].cast(pa.string()), queue))
    if what is not None:
        table = table.filter(pc.equal(table["what"].cast(pa.string()), what))
    return table


def to_parquet(places: Sequence[str | Path], target: Path) -> int:
    """Write all records of ``places`` to one Parquet file; return how many."""
    rows = 0
    writer: Any = None
    try:
        for table in read(places):
            if writer is None:
                writer = pq.ParquetWriter(target, table.schema)
            writer.write_table(table)
            rows += len(table)
    finally:
        if writer is not None:
            writer.close()
    return rows


__all__ = [
    "EVENTS",
    "NAMES",
    "NAME_FAULT",
    "NAME_NODE",
    "NAME_SEAL",
    "NAME_STOPPED",
    "NAME_UNTIL",
    "Head",
    "Segment",
    "fingerprint",
    "read",
    "segments",
    "segments_of",
    "story",
]
