"""Copies put together by numpy are those that one looks up fact by fact."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from entrepot.core.events import trace as facts
from entrepot.pipeline.jobs import pieces

KINDS = [*pieces.LIFE, facts.ATTACHED, facts.UNROUTED]
fact = st.tuples(
    st.sampled_from(KINDS), st.sampled_from([0, 1, facts.CONTINUED, 0x41]), st.integers(0, 3), st.integers(1, 3),
    st.integers(1, 2), st.integers(-1, 2), st.sampled_from([0, 77]),
)  # fmt: skip


def columns_of(rows: list[tuple[int, ...]]) -> dict[str, Any]:
    """Return columns as `traces.Segment.columns` has them, for (kind, flags, detail, number, place, peer, prefix)."""
    made = {"node": 5, "run": 9}
    names = ("kind", "flags", "detail", "number", "place", "peer", "prefix")
    kinds = (np.int16, np.int16, np.int32, np.int64, np.int32, np.int32, np.int64)
    columns = {name: np.full(len(rows), value, np.int64) for name, value in made.items()}
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        columns[name] = np.array([row[at] for row in rows], kind)
    count = np.arange(len(rows), dtype=np.int64)
    return columns | {"position": (3 << 32) + count, "time": 1000 + count // 2, "sequence": columns["number"] * 10}


def looked_up(rows: list[tuple[int, ...]], place: int, number: int) -> dict[str, Any]:
    """Return what a piece says of one copy, fact by fact."""
    found: dict[str, Any] = dict.fromkeys(pieces.PIECE.names)
    found |= {"node": 5, "place": place, "number": number, "run": 9, **dict.fromkeys(pieces.SUMS, 0)}
    reader_at = cause_at = 0
    for at, (kind, flags, detail, of, where, peer, prefix) in enumerate(rows):
        if (where, of) != (place, number) or kind not in pieces.LIFE:
            continue
        position, time = (3 << 32) + at, 1000 + at // 2
        settled = kind == facts.DELIVERED and bool(flags & facts.SETTLED)
        found["position"], found["code"] = position, facts.ACKNOWLEDGED << 16 if settled else (kind << 16) + detail
        if prefix:
            found["prefix"], found["sequence"] = prefix, number * 10
        if kind in (facts.ACCEPTED, facts.RECOVERED):
            found["began_at"] = time if found["began_at"] is None else found["began_at"]
        else:
            found["last_at"] = time
        if kind == facts.ACCEPTED:
            found["origin_run"] = 9
            for name, value in (("flags", flags), ("origin", peer), ("size", detail)):
                found[name] = max(value, value if found[name] is None else found[name])
            found["accepted"] += not flags & facts.CONTINUED
        if kind == facts.DELIVERED:
            found["delivered"] += 1
            found["delivered_at"], found["delivered_position"] = time, position
        found["acknowledged"] += settled or kind == facts.ACKNOWLEDGED
        found["returned"] += kind == facts.RETURNED
        found["refused"] += kind == facts.REFUSED
        if kind == facts.DELIVERED or (kind == facts.ACKNOWLEDGED and peer):
            found["reader"], found["reader_run"], reader_at = peer, 9, position
        if kind == facts.DEAD:
            found["cause"], cause_at = peer, position
    found["reader_back"] = found["position"] - reader_at if reader_at else None
    found["cause_back"] = found["position"] - cause_at if cause_at else None
    found["whole"] = int(found["flags"] is not None and found["code"] >> 16 in pieces.ENDS)
    return found


@given(st.lists(fact, max_size=40))
def test_pieces_say_what_their_facts_say(rows: list[tuple[int, ...]]) -> None:
    found = pieces.of_part(columns_of(rows)).to_pylist()
    keys = sorted({(row[4], row[3]) for row in rows if row[0] in pieces.LIFE})
    assert found == [looked_up(rows, place, number) for place, number in keys]
