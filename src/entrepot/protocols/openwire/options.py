"""The limits and habits of one OpenWire connector.

Names in a URI are ActiveMQ's: ``wireFormat.maxFrameSize``, ``wireFormat.maxInactivityDuration`` and so on. The defaults
are ActiveMQ's except for tight encoding and cache, which are off so that messages can be passed on as they came.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidOption
from entrepot.base.settings import I64_MAX
from entrepot.base.values import INT_MAX, boolean, whole
from entrepot.protocols.openwire.negotiation import OPTION_NAMES, WireFormatOptions

CLUSTER_FLAGS: Final = {
    "updateClusterClients": "update_clients",
    "rebalanceClusterClients": "rebalance_clients",
    "updateClusterClientsOnRemove": "update_clients_on_remove",
}
CLUSTER_FILTER: Final = "updateClusterFilter"
UNCOUNTED: Final = INT_MAX
COUNTS: Final = {
    "maximumConsumersAllowedPerConnection": "consumers_allowed",
    "maximumProducersAllowedPerConnection": "producers_allowed",
}
PREFIXES: Final = ("wireFormat.openwire.", "auto.openwire.", "wireFormat.")


STRATEGIES: Final = ("DEFAULT", "IPADDRESS", "HOSTNAME", "FQDN")


class Published:
    """Which address of a connector clients are told (``publishedAddressPolicy``, classic.md 2.4).

    ``strategy``: what stands for the host, DEFAULT for the one that the connector listens at. ``hosts`` and ``ports``
    replace what comes of that; ``query`` is appended.
    """

    def __init__(self) -> None:
        self.strategy: str = STRATEGIES[0]
        self.hosts: dict[str, str] = {}
        self.ports: dict[str, str] = {}
        self.query: str = ""


class OpenWireOptions:
    """Octets for sizes, ms for times."""

    def __init__(self) -> None:
        self.wire: WireFormatOptions = WireFormatOptions()
        self.version_min: int = 0
        self.connect_timeout_ms: i64 = 30_000  # for the WireFormatInfo and for the ConnectionInfo behind it
        self.refusal_grace_ms: i64 = 2_000  # between the refusal of a connection and its end (classic.md 4.18)
        self.transactions_max: i64 = 10_000  # open at once on one connection
        self.consumers_max: i64 = 100_000
        self.producers_max: i64 = 100_000
        self.consumers_allowed: i64 = UNCOUNTED  # maximumConsumersAllowedPerConnection, those of advisories apart
        self.producers_allowed: i64 = UNCOUNTED  # maximumProducersAllowedPerConnection, likewise
        self.write_high_octets: i64 = 1 * MIB  # what may wait for a slow reader before its consumers pause
        self.prefetch_extension: bool = True  # usePrefetchExtension
        self.audit_network: int = (
            -1
        )  # auditNetworkProducers: 1 true, 0 false, -1 not said (`cluster/networks/comparison.py`)
        self.link_stealing: bool = False  # allowLinkStealing: who comes with a client id in use takes it over
        self.update_clients: bool = False  # updateClusterClients: failover clients are told of other brokers
        self.rebalance_clients: bool = False  # rebalanceClusterClients: and asked to move
        self.update_clients_on_remove: bool = False  # updateClusterClientsOnRemove: also when one is gone
        self.published: Published = Published()
        self.router: str = ""  # the connection router that says who serves a client
        self.update_filter: str = ""  # updateClusterFilter: expressions that the names of brokers must match


def read_option(options: OpenWireOptions, written: str, text: str) -> bool:
    """Set what ``written`` names from ``text``; False when OpenWire has no such option. Raises InvalidOption."""
    if written == "transport.minmumWireFormatVersion" or written == "minmumWireFormatVersion":  # sic
        options.version_min = _number(written, text)
        return True
    if written in ("allowLinkStealing", "transport.allowLinkStealing"):
        options.link_stealing = _flag(written, text)
        return True
    if written in ("auditNetworkProducers", "transport.auditNetworkProducers"):
        options.audit_network = 1 if _flag(written, text) else 0
        return True
    if written in COUNTS:
        setattr(options, COUNTS[written], _number(written, text))
        return True
    if written in CLUSTER_FLAGS:
        setattr(options, CLUSTER_FLAGS[written], _flag(written, text))
        return True
    if written == "router":
        options.router = text
        return True
    if written == CLUSTER_FILTER:
        options.update_filter = text
        return True
    if _read_published(options.published, written, text):
        return True
    for prefix in PREFIXES:
        name = written[len(prefix) :]
        if written.startswith(prefix) and (name in OPTION_NAMES or name == "includePlatformDetails"):
            _set(options, name, text)
            return True
    return False


def _read_published(published: Published, written: str, text: str) -> bool:
    if written == "publishedHostStrategy":
        if text.upper() not in STRATEGIES:
            raise InvalidOption(f"{text!r} is no publishedHostStrategy", remedy="use " + ", ".join(STRATEGIES))
        published.strategy = text.upper()
    elif written == "publishedHostMapping":
        published.hosts = _pairs(written, text)
    elif written == "publishedPortMapping":
        published.ports = _pairs(written, text)
        for port in [*published.ports, *published.ports.values()]:
            if not 0 < _number(written, port) < 65536:
                raise InvalidOption(f"{port} is no port", remedy="use 1 to 65535")
    elif written == "clusterClientUriQuery":
        published.query = text
    else:
        return False
    return True


def _pairs(written: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise InvalidOption(f"{pair!r} is no pair in {written!r}", remedy="write them like a=b,c=d")
        found[key] = value
    return found


def _set(options: OpenWireOptions, name: str, text: str) -> None:
    said = {name: text}
    for known, field in OPTION_NAMES.items():
        if known != name:
            value = getattr(options.wire, field)
            said[known] = str(value).lower() if isinstance(value, bool) else str(value)
    options.wire = WireFormatOptions.parse(said)


def _flag(written: str, text: str) -> bool:
    try:
        return boolean(text)
    except ValueError as error:
        raise InvalidOption(f"{text!r} is no value for the option {written!r}", remedy=str(error)) from None


def _number(written: str, text: str) -> int:
    try:
        return whole(text, high=I64_MAX)
    except ValueError as error:
        raise InvalidOption(f"{text!r} is no value for the option {written!r}", remedy=str(error)) from None
