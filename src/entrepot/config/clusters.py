"""What a running broker needs of the clusters that its file describes: options with connectors in place of names.

What cannot be deployed is left out and said, as Artemis does (AMQ222217, AMQ222130, AMQ222132, AMQ222133): the broker
runs without it. `entrepot check` says the same before the start, and what it means in a network.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec import Struct

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.uri import NO_PORT, Composite, Endpoint, parse
from entrepot.cluster.clusters.groups import BroadcastGroup, DiscoveryGroup
from entrepot.cluster.clusters.members import Credentials
from entrepot.cluster.clusters.options import Balancing, ClusterOptions, GroupingOptions, connector_of, place_of
from entrepot.config.peering import ClusterEntry, GroupEntry, Peering, ScaleDownEntry
from entrepot.protocols.artemis.primitives import Connector

USER: Final = "ACTIVEMQ.CLUSTER.ADMIN.USER"
PASSWORD: Final = "CHANGE ME!!"
PORT: Final = 61616
STAND_IN: Final = "backup"  # what its connector is called: only where it leads matters
GROUPING_KINDS: Final = ("LOCAL", "REMOTE")

E = TypeVar("E", ClusterEntry, GroupEntry)


class Clusters(Struct, frozen=True):
    """All that one file says. ``hears``: names of discovery groups, by cluster connection; ``notes``: for the log."""

    credentials: Credentials
    connections: tuple[ClusterOptions, ...] = ()
    hears: dict[str, tuple[str, ...]] = {}
    broadcasts: tuple[BroadcastGroup, ...] = ()
    discoveries: tuple[DiscoveryGroup, ...] = ()
    notes: tuple[str, ...] = ()
    scale_down: ScaleDownEntry | None = None
    takers: tuple[Endpoint, ...] = ()
    grouping: GroupingOptions | None = None


def clusters_of(peering: Peering) -> Clusters:
    """Return what ``peering`` says."""
    return _Reader(peering).clusters()


def refuse_nobody(peering: Peering) -> None:
    """See that a backup, which is to give away what it takes over, could. Raises InvalidOption."""
    found = clusters_of(peering)
    if not found.connections:
        why = "; ".join(found.notes) or "there is none"
        raise InvalidOption(
            f"this backup gives away what it takes over, and joins no cluster: {why}",
            remedy="mend the <cluster-connection>, or take <scale-down> out: then it serves",
        )


class _Reader:
    def __init__(self, peering: Peering) -> None:
        self.peering: Final = peering
        self.notes: list[str] = []
        self.connectors: dict[str, Connector] = {}
        for entry in peering.places:
            place = self._place(entry.name, entry.uri)
            if place is not None:
                self.connectors.setdefault(entry.name, connector_of(entry.name, place))

    def clusters(self) -> Clusters:
        peering = self.peering
        broadcasts = tuple(self._broadcasts())
        discoveries = tuple(
            DiscoveryGroup(
                name=one.name,
                address=one.address,
                port=int(one.port or 0),
                local_address=one.local_address,
                local_port=one.local_port,
                directory=one.directory,
                channel=one.jgroups,
                refresh=one.period_ms * MILLISECOND,
            )
            for one in self._once(peering.discoveries, "discovery group", "AMQ222131")
            if self._is_known(one, "discovery")
        )
        known = [one.name for one in discoveries]
        connections: list[ClusterOptions] = []
        hears: dict[str, tuple[str, ...]] = {}
        for entry in self._once(peering.clusters, "cluster connection", "AMQ222130"):
            options = self._connection(entry)
            groups = [one.name for one in entry.groups]
            missing = [name for name in groups if name not in known]
            if missing:
                self.notes.append(f"there is no discovery group {missing[0]!r}: {entry.name!r} is not deployed")
            elif options is not None:
                connections.append(options)
                hears[options.name] = tuple(groups)
        if connections and peering.masked:
            self.notes.append("the cluster-password is masked, which is not read: the clusters are not joined")
            connections.clear()
        if connections and not peering.cluster_password:
            self.notes.append("AMQ222007: cluster-user and cluster-password are the defaults, which everybody knows")
        credentials = Credentials(peering.cluster_user or USER, peering.cluster_password or PASSWORD)
        takers, down = self._takers(), peering.scale_down
        grouping = self._grouping(connections)
        made, notes = tuple(connections), tuple(self.notes)
        return Clusters(credentials, made, hears, broadcasts, discoveries, notes, down, takers, grouping)

    def _grouping(self, connections: list[ClusterOptions]) -> GroupingOptions | None:
        """Return what the grouping handler is to do."""
        entry = self.peering.grouping
        if entry is None:
            return None
        if entry.kind not in GROUPING_KINDS:
            self.notes.append(
                f"the grouping-handler {entry.name!r} is of no type: {entry.kind!r} is neither LOCAL nor REMOTE. Each "
                "node keeps groups for itself"
            )
            return None
        if not connections:
            self.notes.append(f"the grouping-handler {entry.name!r} has nobody to agree with: there is no cluster")
            return None
        return GroupingOptions(
            local=entry.kind == "LOCAL",
            address=entry.address,
            timeout=max(entry.timeout_ms, 1) * MILLISECOND,
            forgets=max(entry.forgets_ms, 0) * MILLISECOND,
            reaper=max(entry.reaper_ms, 1) * MILLISECOND,
        )

    def _connection(self, entry: ClusterEntry) -> ClusterOptions | None:
        own = self.connectors.get(entry.connector)
        if own is None:
            self.notes.append(
                f"AMQ222217: there is no connector {entry.connector!r}: the cluster connection {entry.name!r} is not "
                "deployed"
            )
            return None
        seeds: list[Connector] = []
        for reference in entry.connectors or ():
            seed = self.connectors.get(reference.name)
            if seed is None:
                self.notes.append(f"there is no connector {reference.name!r}: {entry.name!r} does not dial it")
            else:
                seeds.append(seed)
        seeds += self._dialled(entry.uri)
        balancing = entry.balancing.upper()
        return ClusterOptions(
            name=entry.name,
            own=own,
            seeds=tuple(seeds),
            direct=entry.direct,
            address=entry.address,
            balancing=Balancing(balancing) if balancing in Balancing.__members__ else Balancing.ON_DEMAND,
            max_hops=entry.max_hops,
            check_ms=entry.check_ms,
            ttl_ms=entry.ttl_ms,
            call_ms=entry.call_ms,
            retry_ms=max(entry.retry_ms, 1),
            retry_multiplier=entry.multiplier,
            retry_ms_max=max(entry.retry_ms_max, 1),
            attempts_first=entry.attempts_first,
            attempts=entry.attempts,
            deduplicates=entry.deduplicates,
            large_octets=entry.large_octets,
            confirmation_window=entry.confirmation_window,
            producer_window=entry.producer_window,
            notification_ms=max(entry.notification_ms, 1),
            notification_attempts=entry.notification_attempts,
            client_id=entry.client_id,
            scale_down_group="" if self.peering.scale_down is None else self.peering.scale_down.group,
        )

    def _takers(self) -> tuple[Endpoint, ...]:
        """Return where the connectors of ``<scale-down>`` lead."""
        entry = self.peering.scale_down
        found = [] if entry is None else [self.connectors.get(one) for one in entry.connectors]
        if None in found:
            self.notes.append("scale-down names a connector that is not there: it is left out")
        places = [place_of(one) for one in found if one is not None]
        return tuple(one for one in places if one is not None)

    def _dialled(self, uri: str) -> list[Connector]:
        found = parse(uri) if uri else None
        if not isinstance(found, Composite) or found.scheme != "static":
            return []
        return [
            connector_of(one.host, one if one.port != NO_PORT else Endpoint("tcp", host=one.host, port=PORT))
            for one in found.endpoints()
        ]

    def _broadcasts(self) -> Iterable[BroadcastGroup]:
        for entry in self._once(self.peering.broadcasts, "broadcast group", "AMQ222132"):
            found = [self.connectors.get(one.name) for one in entry.connectors]
            if not found or None in found:
                missing = [one.name for one in entry.connectors if one.name not in self.connectors]
                self.notes.append(
                    f"AMQ222133: the broadcast group {entry.name!r} is not deployed: there is no connector "
                    f"{missing[0]!r}"
                    if missing
                    else f"the broadcast group {entry.name!r} announces no connector"
                )
            elif self._is_known(entry, "broadcast"):
                yield BroadcastGroup(
                    name=entry.name,
                    address=entry.address,
                    port=int(entry.port or 0),
                    connectors=tuple(one for one in found if one is not None),
                    local_address=entry.local_address,
                    local_port=entry.local_port,
                    directory=entry.directory,
                    channel=entry.jgroups,
                    period=max(entry.period_ms, 1) * MILLISECOND,
                )

    def _is_known(self, entry: GroupEntry, kind: str) -> bool:
        """Return whether it is known where the group meets."""
        if entry.flaw:
            self.notes.append(f"the {kind} group {entry.name!r} is not deployed: {entry.flaw}")
            return False
        if entry.directory or (entry.address and entry.port.isdecimal()):
            return True
        self.notes.append(f"the {kind} group {entry.name!r} has no group-address and group-port: it is not deployed")
        return False

    def _place(self, name: str, uri: str) -> Endpoint | None:
        try:
            parse(uri)
        except InvalidURI as error:
            self.notes.append(f"the connector {name!r}: {error.message}")
        return place_in(uri)

    def _once(self, entries: tuple[E, ...], what: str, code: str) -> Iterable[E]:
        names: dict[str, None] = {}
        for entry in entries:
            if entry.name in names:
                self.notes.append(f"{code}: there are two {what}s {entry.name!r}: the second is not deployed")
                continue
            names[entry.name] = None
            yield entry


def stand_in_at(uri: str) -> Connector | None:
    """Return the connector of a broker that is reached at ``uri``; None where that is no place of TCP."""
    place = place_in(uri)
    return None if place is None else connector_of(STAND_IN, place)


def place_in(uri: str) -> Endpoint | None:
    """Return where the connector ``uri`` leads; None where that is no place of TCP."""
    try:
        place = parse(uri)
    except InvalidURI:
        return None
    if isinstance(place, Composite) or place.scheme != "tcp":
        return None  # vm: nobody else is in this process
    return Endpoint("tcp", host=place.host, port=PORT if place.port == NO_PORT else place.port, options=place.options)
