"""What a ``broker.xml`` says about its cluster, its pair and its bridges (artemis.md 1, 2, 4.11).

This build does not join clusters of Artemis, and the reader of the file says so; `entrepot check` judges them. So
nothing here makes a finding: what cannot be read is a `Flaw` of the model, for `analysis/` to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from entrepot.base.errors import InvalidConfiguration, InvalidURI
from entrepot.base.settings import I64_MAX
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.base.values import boolean_or, decimal, whole
from entrepot.config.findings import Severity
from entrepot.config.peering import (
    BROADCAST_MS,
    CHECK_MS,
    REFRESH_MS,
    RETRY_MS,
    TTL_MS,
    UNENDING,
    BridgeEntry,
    ClusterEntry,
    Flaw,
    GroupEntry,
    ListenerEntry,
    PartEntry,
    Peering,
    PlaceEntry,
    Position,
    Reference,
)
from entrepot.config.sources import Sources
from entrepot.config.xml import Element

T = TypeVar("T", int, float)

REPLICATED: Final = "replication"
FACTOR_MAX: Final = 1e9
CLUSTER_URI: Final = "cluster-connection-uri"
URI_NAMES: Final = {
    "connector-ref": "connectorName",
    "max-hops": "maxHops",
    "message-load-balancing": "messageLoadBalancingType",
    "check-period": "clientFailureCheckPeriod",
    "connection-ttl": "connectionTTL",
    "use-duplicate-detection": "duplicateDetection",
}
"""Options of ``<cluster-connection>``, and what ``<cluster-connection-uri>`` calls them."""


def peering(core: Element, sources: Sources) -> Peering:
    """Return what ``<core>`` says about other brokers."""
    return _Reader(core, sources).peering()


class _Reader:
    def __init__(self, root: Element, sources: Sources) -> None:
        self.root: Final = root
        self.sources: Final = sources
        self.flaws: list[Flaw] = []

    def peering(self) -> Peering:
        clusters = self.within("cluster-connections", "cluster-connection", CLUSTER_URI)
        password = self.text(self.root, "cluster-password")
        return Peering(
            at=Position(1, "configuration/core/name"),
            listeners=tuple(
                ListenerEntry(
                    name=self.text(one, "name") or f"acceptor-{number}",
                    uri=self.filled(one.text).replace(";", "&"),
                    at=_at(one),
                )
                for number, one in enumerate(self.within("acceptors", "acceptor"), 1)
            ),
            places=tuple(
                PlaceEntry(name=self.text(one, "name"), uri=self.filled(one.text).replace(";", "&"), at=_at(one))
                for one in self.within("connectors", "connector")
            ),
            broadcasts=self._groups("broadcast", "broadcast-period", BROADCAST_MS),
            discoveries=self._groups("discovery", "refresh-timeout", REFRESH_MS),
            clusters=tuple(self._cluster(one) for one in clusters),
            bridges=tuple(self._bridge(one) for one in self.within("bridges", "bridge")),
            part=self._part(),
            cluster_user=self.text(self.root, "cluster-user"),
            cluster_password=password,
            masked=password.startswith("ENC(") or self.flag(self.root, "mask-password", False),
            redistributes=tuple(
                self.text(one, "match") or "#"
                for one in self.within("address-settings", "address-setting")
                if self.number(one, "redistribution-delay", -1) >= 0
            ),
            flaws=tuple(self.flaws),
        )

    # -- values --------------------------------------------------------------------------------------------------------

    def filled(self, text: str) -> str:
        """Return ``text`` with its placeholders filled in, as far as they can be."""
        try:
            return self.sources.fill(text).strip()
        except InvalidConfiguration:  # the reader of the rest says so, where it obeys it
            return text.strip()

    def text(self, element: Element, name: str, default: str = "") -> str:
        """Return a scalar, which stands in a child or an attribute."""
        for child in element.named(name):
            return self.filled(child.text) or default
        given = element.attributes.get(name)
        return default if given is None else self.filled(given.text)

    def flag(self, element: Element, name: str, default: bool) -> bool:
        """Return whether a scalar says true; the default for what is neither true nor false."""
        return boolean_or(self.text(element, name), default)

    def number(self, element: Element, name: str, default: int) -> int:
        """Return a whole number; the default for what is none."""
        return self._counted(element, name, self.text(element, name, str(default)), _whole, default)

    def _counted(self, element: Element, name: str, text: str, kind: Callable[[str], T], default: T) -> T:
        try:
            return kind(text)
        except ValueError:
            self.wrong(element, f"{name} is {text!r}, and not a number", "write a number")
            return default

    def within(self, parent: str, *names: str) -> list[Element]:
        """Return the elements of these names in a list of the file."""
        return [child for one in self.root.named(parent) for child in one.children if child.name in names]

    def wrong(self, element: Element, what: str, remedy: str) -> None:
        """Add a flaw."""
        self.flaws.append(Flaw(Severity.ERROR, _at(element), what, remedy))

    # -- names of others -----------------------------------------------------------------------------------------------

    def _connectors(self, element: Element) -> tuple[Reference, ...] | None:
        lists = element.named("static-connectors")
        if not lists:
            return None
        return tuple(reference for one in lists for reference in self._references(one))

    def _references(self, element: Element) -> tuple[Reference, ...]:
        return tuple(Reference(self.filled(one.text), _at(one)) for one in element.named("connector-ref"))

    def _discoveries(self, element: Element) -> list[Reference]:
        return [
            Reference(self.text(one, "discovery-group-name"), _at(one)) for one in element.named("discovery-group-ref")
        ]

    def _groups(self, kind: str, period: str, default: int) -> tuple[GroupEntry, ...]:
        return tuple(
            GroupEntry(
                name=self.text(one, "name"),
                address=self.text(one, "group-address"),
                port=self.text(one, "group-port"),
                jgroups=self.text(one, "jgroups-channel") or self.text(one, "jgroups-file"),
                period_ms=self.number(one, period, default),
                at=_at(one),
                connectors=self._references(one),
            )
            for one in self.within(f"{kind}-groups", f"{kind}-group")
        )

    # -- cluster connections, bridges, pairs ---------------------------------------------------------------------------

    def _cluster(self, element: Element) -> ClusterEntry:
        found = self._dialled(element)
        query = {} if found is None else dict(found.options)

        def option(name: str, default: str = "") -> str:
            if element.name == CLUSTER_URI:
                return query.get(URI_NAMES[name], default)
            return self.text(element, name, default)

        groups = self._discoveries(element)
        if isinstance(found, Endpoint) and found.scheme == "multicast":
            groups.append(Reference(found.host, _at(element)))
        direct = any(
            self.flag(one, "allow-direct-connections-only", False) for one in element.named("static-connectors")
        )
        return ClusterEntry(
            name=self.text(element, "name"),
            at=_at(element),
            connector=option("connector-ref"),
            address=self.text(element, "address") if element.name != CLUSTER_URI else "",
            uri="" if found is None else found.format(),
            connectors=self._connectors(element),
            groups=tuple(groups),
            direct=direct or boolean_or(query.get("allowDirectConnectionsOnly", ""), False),
            balancing=option("message-load-balancing"),
            max_hops=self._counted(element, "max-hops", option("max-hops", "1"), _whole, 1),
            check_ms=self._counted(element, "check-period", option("check-period", str(CHECK_MS)), _whole, CHECK_MS),
            ttl_ms=self._counted(element, "connection-ttl", option("connection-ttl", str(TTL_MS)), _whole, TTL_MS),
            deduplicates=boolean_or(option("use-duplicate-detection"), True),
        )

    def _dialled(self, element: Element) -> Endpoint | Composite | None:
        """Return what a ``<cluster-connection-uri>`` says."""
        if element.name != CLUSTER_URI:
            return None
        try:
            return parse(self.text(element, "address"))
        except InvalidURI as error:
            self.wrong(element, error.message, error.remedy)
            return None

    def _bridge(self, element: Element) -> BridgeEntry:
        below = next(iter(element.named("filter")), None)
        multiplier = self.text(element, "retry-interval-multiplier", "1")
        return BridgeEntry(
            name=self.text(element, "name"),
            at=_at(element),
            queue=self.text(element, "queue-name"),
            forwards=self.text(element, "forwarding-address"),
            selector="" if below is None else self.text(below, "string"),
            filter_at=_at(element if below is None else below),
            routing=self.text(element, "routing-type", "PASS"),
            connectors=self._connectors(element),
            groups=tuple(self._discoveries(element)),
            ha=self.flag(element, "ha", False),
            concurrency=self.number(element, "concurrency", 1),
            attempts=self.number(element, "reconnect-attempts", UNENDING),
            attempts_first=self.number(element, "initial-connect-attempts", UNENDING),
            retry_ms=self.number(element, "retry-interval", RETRY_MS),
            retry_ms_max=self.number(element, "max-retry-interval", RETRY_MS),
            multiplier=self._counted(element, "retry-interval-multiplier", multiplier, _factor, 1.0),
            check_ms=self.number(element, "check-period", CHECK_MS),
            ttl_ms=self.number(element, "connection-ttl", TTL_MS),
            deduplicates=self.flag(element, "use-duplicate-detection", True),
            user=self.text(element, "user"),
        )

    def _part(self) -> PartEntry | None:
        for policy in self.within("ha-policy", "shared-store", REPLICATED):
            for element in policy.children:
                if element.name in ("primary", "master", "backup", "slave"):
                    return PartEntry(
                        backup=element.name in ("backup", "slave"),
                        replicates=policy.name == REPLICATED,
                        group=self.text(element, "group-name"),
                        at=_at(element),
                    )
        return None


def _whole(text: str) -> int:
    return whole(text, -I64_MAX, I64_MAX)


def _factor(text: str) -> float:
    return decimal(text, -FACTOR_MAX, FACTOR_MAX)


def _at(element: Element) -> Position:
    return Position(element.line, element.path)
