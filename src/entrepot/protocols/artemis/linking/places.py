"""Where the brokers of a topology are reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from entrepot.base.uri import Endpoint, parse
from entrepot.protocols.artemis.conversation.core import place_of
from entrepot.protocols.artemis.packets import ClusterTopology
from entrepot.protocols.artemis.primitives import Connector


def reached(*connectors: Connector | None) -> list[Endpoint]:
    """Return where ``connectors`` lead over TCP."""
    found = [place_of(each) for each in connectors if each is not None]
    places = [parse(text) for text in found if text]
    return [place for place in places if isinstance(place, Endpoint)]


def backup_of(packet: ClusterTopology) -> list[Endpoint]:
    """Return where the backup of a member, and the member, are reached over TCP."""
    return reached(packet.primary, packet.backup)


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


def store_at(members: Mapping[str, Sequence[Endpoint]], here: Endpoint | None) -> str:
    """Return the id of the store that serves at ``here``, "" where that is not known. ``members``: places by node.

    Numbers of messages mean something in one store alone. A broker in no cluster tells of itself only; one in a cluster
    tells of all members in any order, with their places.
    """
    if here is not None:
        for node, places in members.items():
            if any((one.host, one.port) == (here.host, here.port) for one in places):
                return node
    return next(iter(members)) if len(members) == 1 else ""


def unknown_store(members: int) -> str:
    """Return what an operator is told where `store_at` knows none of so many ``members``."""
    return (
        f"{members} brokers are in its cluster, and none of them says that it is there: name its place as its own "
        "<connector> does"
    )
