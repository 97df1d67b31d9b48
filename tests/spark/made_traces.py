"""Traces without brokers: millions of records, written as the format says and not by the code that brokers use."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from zlib import crc32

import numpy as np

RECORD = np.dtype(
    [("kind", "u1"), ("flags", "u1"), ("detail", "<u2"), ("offset", "<u4"), ("number", "<i8"), ("place", "<i4"),
     ("peer", "<i4")]
)  # fmt: skip
ACCEPTED, DELIVERED, ACKNOWLEDGED, STARTED, STOPPED = 1, 2, 3, 16, 17
PENDING = 10
SPAN = 18
BASE = 1_700_000_000_000_000
OURS = "ID:a-1:"
BLOCK = 2000
SEGMENT_RECORDS = 690_000


class MadeTrace:
    """One broker's trace. Names first, then `add` columns of records, then `close`; ``layout`` 2 has spans."""

    def __init__(
        self,
        home: Path,
        node: str,
        names: list[tuple[int, int, str]],
        run: int = 1,
        layout: int = 1,
        uuid: str = "",
    ) -> None:
        self.home = home
        self.layout = layout
        self.uuid = uuid
        self.node = node
        self.run = run
        self.serial = 0
        self.names = b"".join(
            struct.pack("<hhq", kind, len(text.encode()), number) + text.encode() for kind, number, text in names
        )
        self.waiting: list[np.ndarray] = []
        self.count = 0
        self.blocks = 0
        self.clock = 0
        self.add(kind=[STARTED], number=[run])

    def add(self, **columns: object) -> None:
        """Add records; they are a microsecond apart."""
        size = max(len(value) for value in columns.values() if isinstance(value, list | np.ndarray))
        made = np.zeros(size, RECORD)
        for name, value in columns.items():
            made[name] = value
        self.waiting.append(made)
        self.count += size
        if self.count >= SEGMENT_RECORDS:
            self._write()

    def close(self, *, in_order: bool = True) -> None:
        if in_order:
            self.add(kind=[STOPPED], number=[self.run])
        self._write()

    def _write(self) -> None:
        if not self.count:
            return
        records = np.concatenate(self.waiting)
        self.waiting, self.count = [], 0
        self.serial += 1
        said = {
            "layout": self.layout,
            "node": self.node,
            "name": self.node,
            "run": self.run,
            "version": "0",
            "created": 0,
            "uuid": self.uuid,
        }
        text = json.dumps({**said, "serial": self.serial, "lost": 0, "dropped": 0}).encode()
        parts = [(b"ENTRACE1" + struct.pack("<II", len(text), crc32(text)) + text).ljust(4096, b"\0")]
        for start in range(0, len(records), BLOCK):
            block = records[start : start + BLOCK].copy()
            begun = self.clock
            block["offset"] = np.where(block["kind"] == 8, block["offset"], np.arange(len(block)))
            self.clock += len(block)
            if self.layout == 2:
                block = spanned(block)
            names = self.names if start == 0 else b""
            names += b"\0" * (-len(names) % 8)
            body = struct.pack("<qq", BASE + begun, self.blocks) + block.tobytes() + names
            parts.append(struct.pack("<IIII", 0x4B4C4254, len(block), len(names), crc32(body)) + body)
            self.blocks += 1
        (self.home / f"{self.node}.{self.serial:08d}.trace").write_bytes(b"".join(parts))


def spanned(block: np.ndarray) -> np.ndarray:
    """Return ``block``, which has no identities, with spans where neighbours differ by 1 in their numbers alone."""
    alike = np.ones(len(block), bool)
    alike[0] = False
    for name in ("kind", "flags", "detail", "place", "peer"):
        alike[1:] &= block[name][1:] == block[name][:-1]
    alike[1:] &= np.diff(block["number"]) == 1
    first = np.flatnonzero(~alike)
    counts = np.diff(np.append(first, len(block)))
    made = np.zeros(2 * len(first), RECORD)
    made["kind"][::2], made["offset"][::2], made["number"][::2] = SPAN, counts, 1
    total = np.where(block["kind"][first] == ACCEPTED, block["detail"][first] * counts, 0)
    made["place"][::2] = total
    made[1::2] = block[first]
    kept = np.ones(len(made), bool)
    kept[::2] = counts > 1
    return made[kept]


class Plan:
    """What is wrong with the messages of `one_hop`: their numbers at A."""

    def __init__(self) -> None:
        self.lost_on_the_way: set[int] = set()
        self.lost_at_b: set[int] = set()
        self.doubled: set[int] = set()
        self.again: set[int] = set()  # accepted at B once more, and consumed behind all others
        self.late: dict[int, int] = {}  # number -> delivered so many later


def one_hop(home: Path, count: int, plan: Plan | None = None, ahead_us: int = 0) -> None:
    """Write the traces of A and B: ``count`` messages are sent to A, forwarded to B, and consumed there in order.

    A writes layout 2, B is of an older version. ``ahead_us``: of A's clock before B's.
    """
    plan = plan or Plan()
    home.mkdir(parents=True, exist_ok=True)
    a = MadeTrace(home, "a-1", [(1, 16, "orders\torders\t0"), (2, 5, "link\tb-1\tB\t")], layout=2)
    b = MadeTrace(
        home, "b-1", [(1, 17, "orders\torders\t0"), (2, 9, "reader\t\t\tme"), (5, 3, "a-1\tA"), (3, 1, "ID:a-1:")]
    )
    a.clock = ahead_us
    step = 10_000
    for first in range(1, count + 1, step):
        numbers = np.arange(first, min(first + step, count + 1))
        for kind, peer, flags in ((ACCEPTED, 1, 0x41), (DELIVERED, 5, 0), (ACKNOWLEDGED, 5, 0)):
            a.add(kind=np.full(len(numbers), kind), number=numbers, place=16, peer=peer, flags=flags)
        _at_b(b, numbers, plan)
    if plan.again:
        _once_more(b, np.array(sorted(plan.again)))
    a.close()
    b.close()


def _once_more(b: MadeTrace, numbers: np.ndarray) -> None:
    for number in numbers:
        there = int(number) + 2 * 10**9
        b.add(kind=[8], offset=[1], number=[there], place=[int(number)], peer=[0])
        b.add(kind=[ACCEPTED], number=[there], place=17, peer=3, flags=0x41)
        for kind in (DELIVERED, ACKNOWLEDGED):
            b.add(kind=[kind], number=[there], place=17, peer=9)


def _at_b(b: MadeTrace, numbers: np.ndarray, plan: Plan) -> None:
    """B's numbers are A's + 10**9: it knows them as A's."""
    here = numbers[~np.isin(numbers, list(plan.lost_on_the_way))]
    named = np.zeros(2 * len(here), RECORD)
    identity = named[::2]
    identity["kind"], identity["offset"], identity["number"] = 8, 1, here + 10**9
    identity["place"], identity["peer"] = here & 0xFFFFFFFF, here >> 32
    accepted = named[1::2]
    accepted["kind"], accepted["number"], accepted["place"], accepted["peer"] = ACCEPTED, here + 10**9, 17, 3
    accepted["flags"] = 0x41
    b.waiting.append(named)
    b.count += len(named)
    delivered = here[~np.isin(here, list(plan.lost_at_b))]
    key = delivered.astype(float)
    for number, later in plan.late.items():
        key[delivered == number] = number + later + 0.5
    order = delivered[np.argsort(key)] + 10**9
    b.add(kind=np.full(len(order), DELIVERED), number=order, place=17, peer=9)
    acknowledged = np.concatenate([order, order[np.isin(order - 10**9, list(plan.doubled))]])
    b.add(kind=np.full(len(acknowledged), ACKNOWLEDGED), number=acknowledged, place=17, peer=9)
