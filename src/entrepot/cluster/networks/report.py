"""What an operator is shown of one end of a bridge. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.cluster.link import State
from entrepot.cluster.networks.canary import Canary
from entrepot.cluster.networks.inbound import Inbound
from entrepot.cluster.networks.neighbourhood import BridgeEnd

DEMANDS_SHOWN: Final = 100


def report(end: BridgeEnd, inbound: Inbound, canary: Canary, now: Instant) -> dict[str, object]:
    """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
    link = end.link
    counts = link.counts
    watch = link.supervision
    due = link.deadline()
    return {
        "connector": end.options.name,
        "peer": end.names.there,
        "peer_id": end.names.there_id,
        "peer_url": end.peer_url,
        "place": "" if link.place is None else link.place.masked(),
        "state": "stalled" if link.supervision.stalled_since and link.state is State.OPEN else link.state.value,
        "since_ms": (now - link.since) // MILLISECOND,
        "initiator": end.initiator,
        "duplex": end.duplex,
        "demand": [demand.name for demand in end.demand.demands][:DEMANDS_SHOWN],
        "demands": len(end.demand.demands),
        "sent": counts.forwarded,
        "confirmed": counts.confirmed,
        "received": inbound.accepted,
        "under_way": len(link.under_way),
        "requeued": counts.requeued,
        "dead": counts.dead,
        "duplicates": inbound.duplicates,
        "connections": counts.connections,
        "failures": counts.failures,
        "error": link.why,
        "error_ms": (now - link.failed_at) // MILLISECOND if link.failed_at else -1,
        "down_ms": (now - link.down_since) // MILLISECOND if link.down_since else -1,
        "next_attempt_ms": max(0, due - now) // MILLISECOND if link.state is State.WAITING else -1,
        "canary": canary.kind,
        "canary_us": watch.round_trip // 1000 if watch.round_trip_at else -1,
        "canary_age_ms": (now - watch.round_trip_at) // MILLISECOND if watch.round_trip_at else -1,
    }
