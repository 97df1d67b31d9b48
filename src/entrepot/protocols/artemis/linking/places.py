"""Where the brokers of a topology are reached."""

from __future__ import annotations

from entrepot.base.uri import Endpoint, parse
from entrepot.protocols.artemis.conversation.core import place_of
from entrepot.protocols.artemis.packets import ClusterTopology


def backup_of(packet: ClusterTopology) -> list[Endpoint]:
    """Return where the backup of a member, and the member, are reached over TCP."""
    found = [place_of(each) for each in (packet.primary, packet.backup) if each is not None]
    places = [parse(text) for text in found if text]
    return [place for place in places if isinstance(place, Endpoint)]
