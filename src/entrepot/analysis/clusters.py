"""What a ``broker.xml`` says about its cluster and its pair: as channels, groups and a part (artemis.md 1, 2).

Only read for `entrepot check`: this build does not join clusters of Artemis, and its reader says so. What Artemis
itself would leave out with a line in its log (a name that leads nowhere, a name given twice) is an issue here. The
core bridges of the same file are read in `bridges.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.analysis.model import (
    AUTO,
    FOREVER,
    Address,
    Channel,
    Clustering,
    Group,
    Issue,
    Listener,
    Part,
    Spot,
)
from entrepot.base.errors import InvalidConfiguration, InvalidURI
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.config.findings import Severity
from entrepot.config.reading import Reading
from entrepot.config.xml import Element

PORT: Final = 61616
ON_DEMAND: Final = "ON_DEMAND"
OFF: Final = "OFF"
STRICT: Final = "STRICT"
OFF_WITH_REDISTRIBUTION: Final = "OFF_WITH_REDISTRIBUTION"
BALANCING: Final = (OFF, STRICT, ON_DEMAND, OFF_WITH_REDISTRIBUTION)
BROADCAST_MS: Final = 2_000
REFRESH_MS: Final = 10_000
CHECK_MS: Final = 30_000
TTL_MS: Final = 60_000
REPLICATED: Final = "replication"

URI_NAMES: Final = {
    "connector-ref": "connectorName",
    "max-hops": "maxHops",
    "message-load-balancing": "messageLoadBalancingType",
    "check-period": "clientFailureCheckPeriod",
    "connection-ttl": "connectionTTL",
    "use-duplicate-detection": "duplicateDetection",
}
"""Options of ``<cluster-connection>``, and what ``<cluster-connection-uri>`` calls them."""


class Cluster:
    """All of one file. `issues` grows while the rest is asked for, so ask for it last."""

    def __init__(self, reading: Reading, file: str) -> None:
        assert reading.core is not None
        self.reading: Final = reading
        self.file: Final = file
        self.root: Final = reading.core
        self.issues: list[Issue] = []
        self._uris: dict[int, Endpoint | Composite | None] = {}  # of elements of ``root``, which keeps them
        self.connectors: Final = self._connectors()

    # -- values --------------------------------------------------------------------------------------------------------

    def spot(self, element: Element) -> Spot:
        """Return where ``element`` is."""
        return Spot(self.file, element.line, element.path)

    def text(self, element: Element, name: str, default: str = "") -> str:
        """Return a scalar, which stands in a child or an attribute, with its placeholders filled in."""
        for child in element.named(name):
            return self.filled(child.text) or default
        given = element.attributes.get(name)
        return default if given is None else self.filled(given.text)

    def number(self, element: Element, name: str, default: int) -> int:
        """Return a whole number; the default for what is none."""
        try:
            return int(self.text(element, name, str(default)))
        except ValueError:
            self.wrong(element, f"{name} is {self.text(element, name)!r}, and not a number", "write a number")
            return default

    def flag(self, element: Element, name: str, default: bool) -> bool:
        """Return whether a scalar says true; the default for what is neither true nor false."""
        said = self.text(element, name).lower()
        return said == "true" if said in ("true", "false") else default

    def filled(self, text: str) -> str:
        """Return ``text`` with its placeholders filled in, those that can be."""
        sources = self.reading.sources
        try:
            return (text if sources is None else sources.fill(text)).strip()
        except InvalidConfiguration:
            return text.strip()

    def within(self, parent: str, *names: str) -> list[Element]:
        """Return the elements of these names in a list of the file."""
        return [child for one in self.root.named(parent) for child in one.children if child.name in names]

    def wrong(self, element: Element, what: str, remedy: str, severity: Severity = Severity.ERROR) -> None:
        """Add an issue."""
        self.issues.append(Issue(severity, self.spot(element), what, remedy))

    def once(self, elements: list[Element], kind: str) -> Iterator[tuple[str, Element]]:
        """Yield each with its name; one whose name is taken is an issue, as Artemis ignores it."""
        seen: dict[str, Element] = {}
        for element in elements:
            name = self.text(element, "name")
            first = seen.setdefault(name, element)
            if first is element:
                yield name, element
            else:
                what = f"there is a {kind} {name!r} already, in line {first.line}: Artemis ignores this one"
                self.wrong(element, what, "give each a name of its own")

    # -- places --------------------------------------------------------------------------------------------------------

    def _connectors(self) -> dict[str, Address]:
        """Return the places that names stand for; other nodes and this one itself."""
        found: dict[str, Address] = {}
        for name, element in self.once(self.within("connectors", "connector"), "connector"):
            place = _address(self.filled(element.text))
            if place is None:
                what = f"the connector {name!r} is no place by tcp://"
                self.wrong(element, what, "write tcp://HOST:PORT", Severity.WARNING)
            else:
                found[name] = place
        return found

    def listeners(self, opened: tuple[Listener, ...]) -> tuple[Listener, ...]:
        """Return every acceptor: those in ``opened``, which this build serves too, and those of other protocols."""
        known = {listener.name: listener for listener in opened}
        found: list[Listener] = []
        for number, element in enumerate(self.within("acceptors", "acceptor"), 1):
            name = self.text(element, "name") or f"acceptor-{number}"
            text = self.filled(element.text).replace(";", "&")
            try:
                place = parse(text)
            except InvalidURI:
                continue
            if not isinstance(place, Endpoint) or place.scheme != "tcp":
                continue
            spoken = [word.strip().upper() for word in place.options.get("protocols", "").split(",") if word.strip()]
            secure = place.options.get("sslEnabled", "").lower() == "true"
            made = known.get(name)
            found.append(
                Listener(
                    name=name,
                    host=place.host,
                    port=place.port,
                    protocol=("+".join(spoken).lower() or AUTO) if made is None else made.protocol,
                    secure=secure,
                    core=not spoken or "CORE" in spoken or "HORNETQ" in spoken,
                    spot=self.spot(element),
                )
            )
        return tuple(found)

    # -- the cluster ---------------------------------------------------------------------------------------------------

    def clustering(self) -> Clustering | None:
        """Return what the file says about its cluster; None where it has no cluster connection."""
        elements = self.within("cluster-connections", "cluster-connection", "cluster-connection-uri")
        if not elements:
            return None
        password = self.text(self.root, "cluster-password")
        late = []
        announced = []
        for element in elements:
            if self._number_of(element, "connection-ttl", TTL_MS) <= self._number_of(element, "check-period", CHECK_MS):
                late.append(self.spot(element))
            own = self.connectors.get(self._option(element, "connector-ref"))
            if own is not None:
                announced.append((self.text(element, "name"), own, self.spot(element)))
        return Clustering(
            user=self.text(self.root, "cluster-user"),
            password=password,
            masked=password.startswith("ENC(") or self.flag(self.root, "mask-password", False),
            announced=tuple(announced),
            broadcasts=tuple(self._groups("broadcast", "broadcast-period", BROADCAST_MS)),
            discoveries=self.discoveries(),
            redistributes=tuple(self._redistributes()),
            checked_too_late=tuple(late),
            spot=self.spot(elements[0]),
        )

    def discoveries(self) -> tuple[Group, ...]:
        """Return the discovery groups."""
        return tuple(self._groups("discovery", "refresh-timeout", REFRESH_MS))

    def _groups(self, kind: str, period: str, default: int) -> Iterator[Group]:
        for name, element in self.once(self.within(f"{kind}-groups", f"{kind}-group"), f"{kind}-group"):
            channel = self.text(element, "jgroups-channel") or self.text(element, "jgroups-file")
            address, port = self.text(element, "group-address"), self.text(element, "group-port")
            if not channel and not (address and port):
                what = f"the {kind} group {name!r} has no group-address and group-port"
                self.wrong(element, what, "write both, or a jgroups-channel")
                continue
            place = f"jgroups:{channel}" if channel else f"udp://{address}:{port}"
            for reference in element.named("connector-ref") if kind == "broadcast" else ():
                self.refer(reference, self.filled(reference.text), f"the broadcast group {name!r} is not deployed")
            if kind == "broadcast" and not element.named("connector-ref"):
                self.wrong(element, f"the broadcast group {name!r} announces nothing", "name a connector-ref")
                continue
            yield Group(
                name=name, place=place, period_ms=self.number(element, period, default), spot=self.spot(element)
            )

    def refer(self, element: Element, name: str, otherwise: str) -> Address | None:
        """Return the place of a connector; where there is none of that name, it is an issue what follows."""
        place = self.connectors.get(name)
        if place is None:
            self.wrong(
                element,
                f"there is no connector {name!r}: {otherwise}",
                f"known: {', '.join(self.connectors)}" if self.connectors else "add it to <connectors>",
            )
        return place

    def _redistributes(self) -> Iterator[str]:
        for element in self.within("address-settings", "address-setting"):
            if self.number(element, "redistribution-delay", -1) >= 0:
                yield self.text(element, "match") or "#"

    def channels(self, clustering: Clustering | None) -> tuple[Channel, ...]:
        """Return the cluster connections."""
        elements = self.within("cluster-connections", "cluster-connection", "cluster-connection-uri")
        if clustering is None:
            return ()
        return tuple(
            self._channel(name, element, clustering) for name, element in self.once(elements, "cluster-connection")
        )

    def _channel(self, name: str, element: Element, clustering: Clustering) -> Channel:
        own = self._option(element, "connector-ref")
        if not own:
            self.wrong(element, f"the cluster connection {name!r} announces no connector", "name a connector-ref")
        else:
            self.refer(element, own, f"the cluster connection {name!r} is not deployed")
        places = list(self._static(element, name))
        groups = list(self._heard(element, name, clustering))
        balancing = self._option(element, "message-load-balancing", ON_DEMAND).upper()
        if balancing not in BALANCING:
            what = f"message-load-balancing is {balancing!r}"
            self.wrong(element, what, f"one of {', '.join(BALANCING)}")
            balancing = ON_DEMAND
        return Channel(
            name=name,
            spot=self.spot(element),
            uri=", ".join(place.text for place in places),
            scheme="discovery" if groups else "static",
            targets=tuple((place,) for place in places),
            groups=tuple(groups),
            conduit=False,
            message_ttl=FOREVER,
            consumer_ttl=self._number_of(element, "max-hops", 1),
            destination_filter=self._option(element, "address") if element.name == "cluster-connection" else "",
            cluster=True,
            direct=any(
                self.flag(one, "allow-direct-connections-only", False) for one in element.named("static-connectors")
            )
            or self._query(element).get("allowDirectConnectionsOnly", "").lower() == "true",
            balancing=balancing,
            deduplicates=self._option(element, "use-duplicate-detection", "true").lower() != "false",
        )

    def _static(self, element: Element, name: str) -> Iterator[Address]:
        for below in element.named("static-connectors"):
            for reference in below.named("connector-ref"):
                place = self.refer(reference, self.filled(reference.text), f"{name!r} does not dial it")
                if place is not None:
                    yield place
        found = self._parsed(element)
        if isinstance(found, Composite) and found.scheme == "static":
            for one in found.endpoints():
                yield Address(host=one.host, port=one.port if one.port > 0 else PORT)

    def _heard(self, element: Element, name: str, clustering: Clustering) -> Iterator[str]:
        names = [self.text(one, "discovery-group-name") for one in element.named("discovery-group-ref")]
        found = self._parsed(element)
        if isinstance(found, Endpoint) and found.scheme == "multicast":
            names.append(found.host)
        known = {group.name: group.place for group in clustering.discoveries}
        for wanted in names:
            if wanted in known:
                yield known[wanted]
            else:
                what = f"there is no discovery group {wanted!r}: {name!r} is not deployed"
                self.wrong(element, what, f"known: {', '.join(known)}" if known else "add it to <discovery-groups>")
        if names and element.named("static-connectors"):
            what = f"{name!r} has static connectors and a discovery group: Artemis takes one of them"
            self.wrong(element, what, "take one out")

    def _parsed(self, element: Element) -> Endpoint | Composite | None:
        """Return what a ``<cluster-connection-uri>`` says; read once, so that what is wrong with it is said once."""
        if element.name != "cluster-connection-uri":
            return None
        if id(element) not in self._uris:
            try:
                self._uris[id(element)] = parse(self.text(element, "address"))
            except InvalidURI as error:
                self._uris[id(element)] = None
                self.wrong(element, error.message, error.remedy)
        return self._uris[id(element)]

    def _query(self, element: Element) -> dict[str, str]:
        found = self._parsed(element)
        return {} if found is None else dict(found.options)

    def _option(self, element: Element, name: str, default: str = "") -> str:
        if element.name == "cluster-connection-uri":
            return self._query(element).get(URI_NAMES[name], default)
        return self.text(element, name, default)

    def _number_of(self, element: Element, name: str, default: int) -> int:
        text = self._option(element, name, str(default))
        if text.removeprefix("-").isdigit():
            return int(text)
        self.wrong(element, f"{name} is {text!r}, and not a number", "write a number")
        return default

    # -- the pair ------------------------------------------------------------------------------------------------------

    def part(self) -> Part | None:
        """Return how it stands in for another broker; None for one that stands alone."""
        for policy in self.within("ha-policy", "shared-store", REPLICATED):
            for element in policy.children:
                if element.name in ("primary", "master", "backup", "slave"):
                    return Part(
                        backup=element.name in ("backup", "slave"),
                        replicates=policy.name == REPLICATED,
                        group=self.text(element, "group-name"),
                        spot=self.spot(element),
                    )
        return None


def _address(text: str) -> Address | None:
    try:
        place = parse(text.replace(";", "&"))
    except InvalidURI:
        return None
    if not isinstance(place, Endpoint) or place.scheme != "tcp":
        return None
    secure = place.options.get("sslEnabled", "").lower() == "true"
    return Address(host=place.host, port=place.port if place.port > 0 else PORT, secure=secure)
