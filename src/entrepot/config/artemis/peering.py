"""What a ``broker.xml`` says about its cluster, its pair and its bridges (artemis.md 1, 2, 4.11).

`config/clusters.py` makes of it what a running broker needs, and `entrepot check` judges it together with the files of
the others. Nothing here makes a finding: what cannot be read is a `Flaw` of the model, for both to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace

from entrepot.base.errors import InvalidConfiguration, InvalidOption, InvalidURI
from entrepot.base.settings import I64_MAX, Dialect, Unit
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.base.values import boolean_or, decimal, whole
from entrepot.config.artemis.jgroups import Meeting, meeting_of
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
    GroupingEntry,
    ListenerEntry,
    PartEntry,
    Peering,
    PlaceEntry,
    Position,
    Reference,
    ScaleDownEntry,
)
from entrepot.config.sources import Sources
from entrepot.config.vocabulary import LOOSE
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
    "address": "address",
    "call-timeout": "callTimeout",
    "retry-interval": "retryInterval",
    "retry-interval-multiplier": "retryIntervalMultiplier",
    "max-retry-interval": "maxRetryInterval",
    "initial-connect-attempts": "initialConnectAttempts",
    "reconnect-attempts": "reconnectAttempts",
    "min-large-message-size": "minLargeMessageSize",
    "confirmation-window-size": "confirmationWindowSize",
    "producer-window-size": "producerWindowSize",
    "notification-interval": "clusterNotificationInterval",
    "notification-attempts": "clusterNotificationAttempts",
    "client-id": "clientId",
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
        shared, copied = self.within("ha-policy", "shared-store"), self.within("ha-policy", REPLICATED)
        alone = self.within("ha-policy", "primary-only", "live-only")
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
            masked=password.startswith("ENC("),
            redistributes=tuple(
                self.text(one, "match") or "#"
                for one in self.within("address-settings", "address-setting")
                if self.number(one, "redistribution-delay", -1) >= 0
            ),
            scale_down=self._scales_down(alone) or self._drains([*shared, *copied]),
            hosted_scale_down=self._drains(
                [one for each in [*shared, *copied] for one in each.named("colocated")],
            ),
            grouping=self._grouping(),
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
        except (ValueError, InvalidOption):
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
        return tuple(self._group(one, period, default) for one in self.within(f"{kind}-groups", f"{kind}-group"))

    def _group(self, one: Element, period: str, default: int) -> GroupEntry:
        channel, file = self.text(one, "jgroups-channel"), self.text(one, "jgroups-file")
        meeting = Meeting(self.text(one, "group-address"), self.text(one, "group-port"))
        if file:
            meeting = self._meeting(one, file)
        elif channel:
            meeting = Meeting(flaw=f"the channel {channel!r} has no jgroups-file")
        if meeting.flaw:
            self.wrong(one, meeting.flaw, "name a stack with MPING, UDP and PING, or FILE_PING; or give group-address")
        return GroupEntry(
            name=self.text(one, "name"),
            address=meeting.address,
            port=meeting.port,
            jgroups=channel or file,
            period_ms=self.number(one, period, default),
            at=_at(one),
            local_address=self.text(one, "local-bind-address"),
            local_port=self.number(one, "local-bind-port", -1),
            connectors=self._references(one),
            directory=meeting.directory,
            flaw=meeting.flaw,
        )

    def _meeting(self, element: Element, location: str) -> Meeting:
        """Return where the stack in the file ``location`` lets members meet."""
        sources = self.sources
        path = sources.local(location)
        if path is None:
            return Meeting(flaw=f"{location!r} is not fetched: name a file")
        path = Path(sources.file).parent / path
        sources.files[path] = None
        try:
            return meeting_of(path.read_bytes(), location, sources.defines)
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            return Meeting(flaw=f"the stack of JGroups {location!r} cannot be read: {what}")

    # -- cluster connections, bridges, pairs ---------------------------------------------------------------------------

    def _cluster(self, element: Element) -> ClusterEntry:
        found = self._dialled(element)
        query = {} if found is None else dict(found.options)

        def option(name: str, default: str = "") -> str:
            if element.name == CLUSTER_URI:
                return query.get(URI_NAMES[name], default)
            return self.text(element, name, default)

        def count(name: str, default: int) -> int:
            return self._counted(element, name, option(name, str(default)), _octets, default)

        balancing = option("message-load-balancing")
        if not balancing and self.text(element, "forward-when-no-consumers"):
            balancing = "STRICT" if self.flag(element, "forward-when-no-consumers", False) else "ON_DEMAND"
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
            address=option("address"),
            uri="" if found is None else found.format(),
            connectors=self._connectors(element),
            groups=tuple(groups),
            direct=direct or boolean_or(query.get("allowDirectConnectionsOnly", ""), False),
            balancing=balancing,
            max_hops=count("max-hops", 1),
            check_ms=count("check-period", CHECK_MS),
            ttl_ms=count("connection-ttl", TTL_MS),
            deduplicates=boolean_or(option("use-duplicate-detection"), True),
            call_ms=count("call-timeout", 30_000),
            retry_ms=count("retry-interval", 500),
            multiplier=self._counted(
                element, "retry-interval-multiplier", option("retry-interval-multiplier", "1"), _factor, 1.0
            ),
            retry_ms_max=count("max-retry-interval", 2_000),
            attempts_first=count("initial-connect-attempts", UNENDING),
            attempts=count("reconnect-attempts", UNENDING),
            large_octets=count("min-large-message-size", 102_400),
            confirmation_window=count("confirmation-window-size", 10_485_760),
            producer_window=count("producer-window-size", 1_048_576),
            notification_ms=count("notification-interval", 1_000),
            notification_attempts=count("notification-attempts", 2),
            client_id=option("client-id"),
        )

    def _dialled(self, element: Element) -> Endpoint | Composite | None:
        """Return what a ``<cluster-connection-uri>`` says."""
        if element.name != CLUSTER_URI:
            return None
        try:
            return parse(self.text(element, "address").replace(";", "&"))  # Artemis separates options by either
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

    def _drains(self, policies: list[Element]) -> ScaleDownEntry | None:
        """Return what the backup of ``policies`` does with what it takes over."""
        backups = [one for policy in policies for name in ("backup", "slave") for one in policy.named(name)]
        found = self._scales_down(backups)
        return None if found is None else replace(found, of_backup=True)

    def _scales_down(self, policies: list[Element]) -> ScaleDownEntry | None:
        for policy in policies:
            for element in policy.named("scale-down"):
                if self.flag(element, "enabled", True):
                    below = element.named("connectors")
                    return ScaleDownEntry(
                        at=_at(element),
                        group=self.text(element, "group-name"),
                        connectors=tuple(one.name for each in below for one in self._references(each)),
                    )
        return None

    def _grouping(self) -> GroupingEntry | None:
        for element in self.root.named("grouping-handler"):
            return GroupingEntry(
                name=self.text(element, "name"),
                at=_at(element),
                kind=self.text(element, "type").upper(),
                address=self.text(element, "address"),
                timeout_ms=self.number(element, "timeout", 5_000),
                forgets_ms=self.number(element, "group-timeout", -1),
                reaper_ms=self.number(element, "reaper-period", 30_000),
            )
        return None

    def _part(self) -> PartEntry | None:
        for policy in self.within("ha-policy", "shared-store", REPLICATED):
            for element in policy.children:
                if element.name in ("primary", "master", "backup", "slave"):
                    return PartEntry(
                        backup=element.name in ("backup", "slave"),
                        replicates=policy.name == REPLICATED,
                        group=self.text(element, "group-name"),
                        at=_at(element),
                        peers=self.text(element, "coordination-id"),
                        cluster=self.text(element, "cluster-name"),
                        quorum=self.number(element, "quorum-size", -1),
                    )
        return None


def _whole(text: str) -> int:
    return whole(text, -I64_MAX, I64_MAX)


def _octets(text: str) -> int:
    return int(LOOSE[Unit.OCTETS].parse(text, Dialect.ARTEMIS))


def _factor(text: str) -> float:
    return decimal(text, -FACTOR_MAX, FACTOR_MAX)


def _at(element: Element) -> Position:
    return Position(element.line, element.path)
