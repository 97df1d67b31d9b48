"""Where the brokers of a topology are reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from entrepot.base.uri import Endpoint, parse
from entrepot.protocols.artemis.conversation.core import place_of
from entrepot.protocols.artemis.packets import ClusterTopology
from entrepot.protocols.artemis.primitives import Connector


def backup_of(packet: ClusterTopology) -> list[Endpoint]:
    """Return where the backup of a member, and the member, are reached over TCP."""
    found = [place_of(each) for each in (packet.primary, packet.backup) if each is not None]
    places = [parse(text) for text in found if text]
    return [place for place in places if isinstance(place, Endpoint)]


def beside(packet: ClusterTopology, here: Endpoint, known: Sequence[Endpoint]) -> list[Endpoint]:
    """Return where else the broker at ``here`` is reached, as ``packet`` says, in places that are not ``known``.

    Nothing where it is about another member: what is for this one is not for that.
    """
    members = [] if packet.exit else backup_of(packet)
    if all((one.host, one.port) != (here.host, here.port) for one in members):
        return []
    had = [(place.host, place.port) for place in known]
    return [
        Endpoint(here.scheme, host=one.host, port=one.port, options=here.options)
        for one in members
        if (one.host, one.port) not in had
    ]


def member_at(members: Mapping[str, Connector], here: Endpoint) -> str:
    """Return which of ``members``, by their nodes, is the broker at ``here``; "" where none says that it is."""
    for node, connector in members.items():
        if connector.value("host") == here.host and str(connector.value("port")) == str(here.port):
            return node
    return ""
