"""The cluster and the pair of a configuration of Artemis: as channels, groups and a part (artemis.md 1, 2).

What Artemis itself would leave out with a line in its log (a name that leads nowhere, a name given twice) is an issue
here. The core bridges of the same configuration are in `bridges.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar

from entrepot.analysis.model import (
    AUTO,
    FOREVER,
    Address,
    Channel,
    Clustering,
    Deciding,
    Group,
    Issue,
    Listener,
    Part,
    Spot,
)
from entrepot.base.errors import InvalidURI
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.base.values import boolean_or, words
from entrepot.config.findings import Severity
from entrepot.config.model import BrokerConfig, Connector
from entrepot.config.peering import ClusterEntry, GroupEntry, Peering, Position, Reference

PORT: Final = 61616
ON_DEMAND: Final = "ON_DEMAND"
OFF: Final = "OFF"
STRICT: Final = "STRICT"
OFF_WITH_REDISTRIBUTION: Final = "OFF_WITH_REDISTRIBUTION"
BALANCING: Final = (OFF, STRICT, ON_DEMAND, OFF_WITH_REDISTRIBUTION)


class _Named(Protocol):
    """What every entry with a name has."""

    @property
    def name(self) -> str: ...

    @property
    def at(self) -> Position: ...


E = TypeVar("E", bound=_Named)


class Cluster:
    """All of one configuration. `issues` grows while the rest is asked for, so ask for it last."""

    def __init__(self, config: BrokerConfig, file: str) -> None:
        self.file: Final = file
        self.peering: Final[Peering] = config.peering
        self.issues: list[Issue] = [
            Issue(flaw.severity, self.spot(flaw.at), flaw.what, flaw.remedy) for flaw in self.peering.flaws
        ]
        self.connectors: Final = self._connectors()

    def spot(self, at: Position) -> Spot:
        """Return where something is said."""
        return Spot(self.file, at.line, at.path)

    def wrong(self, at: Position, what: str, remedy: str, severity: Severity = Severity.ERROR) -> None:
        """Add an issue."""
        self.issues.append(Issue(severity, self.spot(at), what, remedy))

    def once(self, entries: Iterable[E], kind: str) -> Iterator[E]:
        """Yield the entries; one whose name is taken is an issue, as Artemis ignores it."""
        seen: dict[str, E] = {}
        for entry in entries:
            first = seen.setdefault(entry.name, entry)
            if first is entry:
                yield entry
            else:
                what = f"there is a {kind} {entry.name!r} already, in line {first.at.line}: Artemis ignores this one"
                self.wrong(entry.at, what, "give each a name of its own")

    # -- places --------------------------------------------------------------------------------------------------------

    def _connectors(self) -> dict[str, Address]:
        """Return the places that names stand for; other nodes and this one itself."""
        found: dict[str, Address] = {}
        for entry in self.once(self.peering.places, "connector"):
            place = _address(entry.uri)
            if place is None:
                what = f"the connector {entry.name!r} is no place by tcp://"
                self.wrong(entry.at, what, "write tcp://HOST:PORT", Severity.WARNING)
            else:
                found[entry.name] = place
        return found

    def listeners(self, opened: tuple[Connector, ...], groups: tuple[str, ...]) -> Iterator[Listener]:
        """Yield every acceptor: those ``opened`` by this build and those of other protocols.

        ``groups``: those that they are announced in.
        """
        known = {connector.name: connector for connector in opened}
        for entry in self.peering.listeners:
            try:
                place = parse(entry.uri)
            except InvalidURI:
                continue
            if not isinstance(place, Endpoint) or place.scheme != "tcp":
                continue
            spoken = words(place.options.get("protocols", "").upper())
            made = known.get(entry.name)
            yield Listener(
                name=entry.name,
                host=place.host,
                port=place.port,
                protocol=("+".join(spoken).lower() or AUTO) if made is None else made.protocol,
                secure=boolean_or(place.options.get("sslEnabled", ""), False),
                core=not spoken or "CORE" in spoken or "HORNETQ" in spoken,
                groups=groups,
                spot=self.spot(entry.at),
            )

    def refer(self, reference: Reference, otherwise: str) -> Address | None:
        """Return the place of a connector; where there is none of that name, it is an issue what follows."""
        place = self.connectors.get(reference.name)
        if place is None:
            self.wrong(
                reference.at,
                f"there is no connector {reference.name!r}: {otherwise}",
                f"known: {', '.join(self.connectors)}" if self.connectors else "add it to <connectors>",
            )
        return place

    # -- the cluster ---------------------------------------------------------------------------------------------------

    def clustering(self) -> Clustering | None:
        """Return what the file says about its cluster; None where it has no cluster connection."""
        entries = self.peering.clusters
        if not entries:
            return None
        announced = [(one, self.connectors.get(one.connector)) for one in entries]
        return Clustering(
            user=self.peering.cluster_user,
            password=self.peering.cluster_password,
            masked=self.peering.masked,
            announced=tuple((one.name, own, self.spot(one.at)) for one, own in announced if own is not None),
            broadcasts=tuple(self._broadcasts()),
            discoveries=self.discoveries(),
            redistributes=self.peering.redistributes,
            checked_too_late=tuple(self.spot(one.at) for one in entries if one.ttl_ms <= one.check_ms),
            grouping=self._grouping(),
            spot=self.spot(entries[0].at),
        )

    def _grouping(self) -> Deciding | None:
        entry = self.peering.grouping
        if entry is None:
            return None
        return Deciding(kind=entry.kind, forgets_ms=entry.forgets_ms, spot=self.spot(entry.at))

    def discoveries(self) -> tuple[Group, ...]:
        """Return the discovery groups."""
        return tuple(group for _, group in self._groups("discovery", self.peering.discoveries))

    def _broadcasts(self) -> Iterator[Group]:
        for entry, group in self._groups("broadcast", self.peering.broadcasts):
            for reference in entry.connectors:
                self.refer(reference, f"the broadcast group {entry.name!r} is not deployed")
            if entry.connectors:
                yield group
            else:
                self.wrong(entry.at, f"the broadcast group {entry.name!r} announces nothing", "name a connector-ref")

    def _groups(self, kind: str, entries: tuple[GroupEntry, ...]) -> Iterator[tuple[GroupEntry, Group]]:
        for entry in self.once(entries, f"{kind}-group"):
            if not entry.jgroups and not (entry.address and entry.port):
                what = f"the {kind} group {entry.name!r} has no group-address and group-port"
                self.wrong(entry.at, what, "write both, or a jgroups-channel")
                continue
            place = f"jgroups:{entry.jgroups}" if entry.jgroups else f"udp://{entry.address}:{entry.port}"
            yield entry, Group(name=entry.name, place=place, period_ms=entry.period_ms, spot=self.spot(entry.at))

    def channels(self, clustering: Clustering | None) -> tuple[Channel, ...]:
        """Return the cluster connections."""
        if clustering is None:
            return ()
        return tuple(
            self._channel(entry, clustering) for entry in self.once(self.peering.clusters, "cluster-connection")
        )

    def _channel(self, entry: ClusterEntry, clustering: Clustering) -> Channel:
        name = entry.name
        if not entry.connector:
            self.wrong(entry.at, f"the cluster connection {name!r} announces no connector", "name a connector-ref")
        else:
            self.refer(Reference(entry.connector, entry.at), f"the cluster connection {name!r} is not deployed")
        places = list(self._static(entry))
        groups = list(self._heard(entry, clustering))
        return Channel(
            name=name,
            spot=self.spot(entry.at),
            uri=", ".join(place.text for place in places),
            scheme="discovery" if groups else "static",
            targets=tuple((place,) for place in places),
            groups=tuple(groups),
            conduit=False,
            message_ttl=FOREVER,
            consumer_ttl=entry.max_hops,
            destination_filter=entry.address,
            cluster=True,
            direct=entry.direct,
            balancing=self._balancing(entry),
            deduplicates=entry.deduplicates,
        )

    def _balancing(self, entry: ClusterEntry) -> str:
        balancing = entry.balancing.upper() or ON_DEMAND
        if balancing in BALANCING:
            return balancing
        self.wrong(entry.at, f"message-load-balancing is {balancing!r}", f"one of {', '.join(BALANCING)}")
        return ON_DEMAND

    def _static(self, entry: ClusterEntry) -> Iterator[Address]:
        for reference in entry.connectors or ():
            place = self.refer(reference, f"{entry.name!r} does not dial it")
            if place is not None:
                yield place
        found = parse(entry.uri) if entry.uri else None
        if isinstance(found, Composite) and found.scheme == "static":
            for one in found.endpoints():
                yield Address(host=one.host, port=one.port if one.port > 0 else PORT)

    def _heard(self, entry: ClusterEntry, clustering: Clustering) -> Iterator[str]:
        known = {group.name: group.place for group in clustering.discoveries}
        for wanted in entry.groups:
            if wanted.name in known:
                yield known[wanted.name]
            else:
                what = f"there is no discovery group {wanted.name!r}: {entry.name!r} is not deployed"
                self.wrong(entry.at, what, f"known: {', '.join(known)}" if known else "add it to <discovery-groups>")
        if entry.groups and entry.connectors is not None:
            what = f"{entry.name!r} has static connectors and a discovery group: Artemis takes one of them"
            self.wrong(entry.at, what, "take one out")

    # -- the pair ------------------------------------------------------------------------------------------------------

    def part(self) -> Part | None:
        """Return how it stands in for another broker; None for one that stands alone."""
        part = self.peering.part
        if part is None:
            return None
        return Part(
            backup=part.backup,
            replicates=part.replicates,
            group=part.group,
            peers=part.peers,
            quorum=part.quorum,
            spot=self.spot(part.at),
        )


def _address(text: str) -> Address | None:
    try:
        place = parse(text)
    except InvalidURI:
        return None
    if not isinstance(place, Endpoint) or place.scheme != "tcp":
        return None
    secure = boolean_or(place.options.get("sslEnabled", ""), False)
    return Address(host=place.host, port=place.port if place.port > 0 else PORT, secure=secure)
