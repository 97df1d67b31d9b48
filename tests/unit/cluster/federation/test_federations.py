"""All federations of a broker: what a new file changes, what others bring, and when nothing is dialled."""

from __future__ import annotations

import pytest

from entrepot.base.errors import ShuttingDown
from entrepot.base.uri import Endpoint
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.federations import Federations
from entrepot.cluster.federation.options import DownstreamEntry, FederationEntries, UpstreamEntry, UpstreamOptions
from entrepot.cluster.federation.peer import FederationPeer
from entrepot.cluster.link import LinkCore, LinkOptions, State
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.packets import Packet, Ping
from entrepot.protocols.session import Shell
from kit import Rig


def upstream(name: str, host: str = "far") -> UpstreamEntry:
    return UpstreamEntry(federation="F", options=UpstreamOptions(name=name), places=(Endpoint("tcp", host, 1),))


def downstream(name: str) -> DownstreamEntry:
    place = Endpoint("tcp", "far", 1)
    return DownstreamEntry(
        federation="F", options=UpstreamOptions(name=name), places=(place,), back=place, connector="self"
    )


def test_what_is_the_same_goes_on_and_the_rest_is_made_anew() -> None:
    federations = Federations(
        FederationEntries(upstreams=(upstream("a"), upstream("b")), downstreams=(downstream("d"),))
    )
    a, b = federations.upstreams
    new = federations.follow(FederationEntries(upstreams=(upstream("a"), upstream("b", "other"), upstream("c"))), 0)
    assert federations.upstreams[0] is a
    assert b not in federations.upstreams
    assert [one.name for one in new] == ["F/b", "F/c"]
    assert federations.downstreams == []
    assert [one.name for one in federations.heard()] == ["F/a", "F/b", "F/c"]


def test_what_another_broker_brings_is_dialled_only_while_bridges_may_be() -> None:
    federations = Federations(None)
    brought = FederationConnector(upstream("a"))
    federations.deployed.append(brought)
    with pytest.raises(ShuttingDown):
        federations.deploy(brought)
    begun: list[FederationConnector] = []
    federations.begin = begun.append
    federations.deploy(brought)
    assert begun == federations.sources() == federations.fetchers() == [brought]


class Heard(FederationPeer):
    """Notes what it hears."""

    def __init__(self, rig: Rig) -> None:
        place = Endpoint("tcp", "far", 1)
        link = LinkCore("F/a", rig.broker, LinkOptions(), [place])
        super().__init__(rig.broker, upstream("a"), link, lambda end, effects: None, lambda who, what: None)
        self.notes: list[tuple[object, ...]] = []

    def greeted(self, client: CoreClient, attempt: int) -> None:
        self.notes.append(("greeted", attempt))
        self.client = client

    def take(self, client: CoreClient, packet: Packet) -> None:
        self.notes.append(("take", packet))


def test_what_is_heard_of_a_connection_says_which_it_is() -> None:
    rig = Rig()
    peer = Heard(rig)
    peer.begin(rig.now)
    client = peer.greet(Shell(), 1, Endpoint("tcp", "far", 1), rig.now)
    assert isinstance(client, CoreClient)
    ears, ping = client.port, Ping(ttl=1)
    ears.told(client, ping)
    assert peer.notes == [], "it is not the connection that is of use"
    ears.greeted(client)
    ears.told(client, ping)
    ears.lost(client, "cut")
    assert peer.notes == [("greeted", 1), ("take", ping)]
    assert (peer.link.state, peer.link.why) == (State.WAITING, "cut")
