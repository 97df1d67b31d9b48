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


def joined(known: list[Endpoint], here: Endpoint, packet: ClusterTopology) -> list[Endpoint]:
    """Return ``known`` and where else the member that serves ``here`` is reached, as ``packet`` says.

    None is added of another member: it has another store.
    """
    places = {(place.host, place.port) for place in known}
    members = backup_of(packet)
    if packet.exit or all((one.host, one.port) != (here.host, here.port) for one in members):
        return known
    fresh = [one for one in members if (one.host, one.port) not in places]
    return [
        *known,
        *(Endpoint(here.scheme, host=one.host, port=one.port, options=here.options) for one in fresh),
    ]
