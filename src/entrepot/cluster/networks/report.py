"""What an operator is shown of one end of a bridge. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Instant
from entrepot.cluster.dialled import link_report
from entrepot.cluster.networks.canary import Canary
from entrepot.cluster.networks.inbound import Inbound
from entrepot.cluster.networks.neighbourhood import BridgeEnd

DEMANDS_SHOWN: Final = 100


def report(end: BridgeEnd, inbound: Inbound, canary: Canary, now: Instant) -> dict[str, object]:
    """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
    return {
        "connector": end.options.name,
        "peer": end.names.there,
        "peer_id": end.names.there_id,
        "peer_url": end.peer_url,
        **link_report(end.link, now),
        "initiator": end.initiator,
        "duplex": end.duplex,
        "demand": [demand.name for demand in end.demand.demands][:DEMANDS_SHOWN],
        "demands": len(end.demand.demands),
        "received": inbound.accepted,
        "duplicates": inbound.duplicates,
        "canary": canary.kind,
    }
