"""What is on the disk of a broker, and what keeps it there: the oldest segments, and the queues that pin them.

A segment goes when nothing in it is alive, so one old message keeps a whole file; compaction rewrites what is mostly
dead. A look is bounded: `SEGMENTS` segments, the oldest ones, and `SLOTS` messages of them all together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from entrepot.journal.index import DEAD, SEVERAL, Segment

if TYPE_CHECKING:
    from entrepot.core.broker import BrokerCore

SEGMENTS: Final = 20
SLOTS: Final = 20_000
QUEUES_SHOWN: Final = 5


def storage(broker: BrokerCore) -> dict[str, Any]:
    """Return sizes, limits, and the oldest segments with what is alive in each and whose it is. Sizes in octets."""
    journal = broker.journal
    usage, limits, index = journal.usage(), journal.space.limits, journal.tail.index
    left = SLOTS
    rows: list[dict[str, Any]] = []
    for segment in index.segments[:SEGMENTS]:
        holders, looked = _holders(broker, segment, left)
        left -= looked
        rows.append(
            {
                "name": segment.name,
                "octets": int(segment.end),
                "live_octets": int(segment.live_bytes),
                "messages": int(segment.live),
                "others": int(segment.pins),  # documents, redelivery counts, added queues
                "growing": not segment.sealed,
                "damaged": bool(segment.damaged),
                "queues": holders,
                "whole": looked >= int(segment.count),  # False: more of it was not looked at
            }
        )
    return {
        "segments": int(usage.segments),
        "octets": int(usage.disk),
        "live_octets": int(usage.live),
        "unsynced_octets": int(usage.unsynced),
        "messages": int(usage.messages),
        "documents": int(usage.documents),
        "paged_octets": int(journal.space.paged()),
        "blobs": len(journal.overflow.sizes),
        "blob_octets": sum(int(size) for size in journal.overflow.sizes.values()),
        "limit_octets": _limit(int(limits.store)),
        "capacity_octets": int(limits.capacity),
        "full": str(limits.full),
        "garbage_percent": 100 - (100 * int(usage.live) // int(usage.disk)) if usage.disk else 0,
        "compacting": journal.compacting(),
        "oldest": rows,
    }


def _limit(octets: int) -> int:
    return 0 if octets >= 1 << 62 else octets  # 0: none but the disk


def _holders(broker: BrokerCore, segment: Segment, most: int) -> tuple[list[dict[str, Any]], int]:
    """Return who has most alive in ``segment``, and how many of its messages were looked at."""
    counts: dict[int, list[int]] = {}
    end = min(int(segment.count), most)
    several = broker.journal.tail.index.several
    for slot in range(end):
        if int(segment.states[slot]) == DEAD:
            continue
        queue = int(segment.queue_at(slot))
        holders = several.get(int(segment.number_at(slot)), []) if queue == SEVERAL else [queue]
        for one in holders:
            count = counts.setdefault(one, [0, 0])
            count[0] += 1
            count[1] += int(segment.lengths[slot])
    found = sorted(counts.items(), key=lambda pair: (-pair[1][1], pair[0]))[:QUEUES_SHOWN]
    return [
        {"queue": _name(broker, identity), "messages": messages, "octets": octets}
        for identity, (messages, octets) in found
    ], end


def _name(broker: BrokerCore, identity: int) -> str:
    queue = broker.table.by_identity.get(identity)
    return f"#{identity}" if queue is None else queue.name
