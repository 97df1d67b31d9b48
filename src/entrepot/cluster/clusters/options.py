"""What a ``<cluster-connection>`` of Artemis may say, with the defaults that its code has (artemis.md 1.7, 1.8)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.base.uri import Endpoint
from entrepot.cluster.backoff import Reconnection
from entrepot.cluster.clusters.topology import parameters_of
from entrepot.protocols.artemis.primitives import FACTORY, PARAMETER_TEXT, Connector, Parameter

SECURE: Final = "sslenabled"
PORT_MAX: Final = 65_535
DIALLED: Final[Mapping[str, str]] = {
    "truststorepath": "trustStorePath",
    "truststorepassword": "trustStorePassword",
    "truststoretype": "trustStoreType",
    "keystorepath": "keyStorePath",
    "keystorepassword": "keyStorePassword",
    "keystoretype": "keyStoreType",
    "verifyhost": "verifyHost",
    "trustall": "trustAll",
    "enabledprotocols": "enabledProtocols",
    "enabledciphersuites": "enabledCipherSuites",
}
"""Parameters of a connector that decide how it is dialled, beside its place."""


class Balancing(Enum):
    """``message-load-balancing``."""

    OFF = "OFF"
    STRICT = "STRICT"
    ON_DEMAND = "ON_DEMAND"
    OFF_WITH_REDISTRIBUTION = "OFF_WITH_REDISTRIBUTION"


class ClusterOptions(Struct, frozen=True, kw_only=True):
    """One cluster connection. ``own``: what others dial; ``seeds``: what is dialled; ms for times, -1 for no limit.

    ``address``: prefixes, with ``!`` those that are left out (artemis.md 1.9). ``ways``: where the other processes of
    this very broker are (`config/processes.py`), dialled as seeds are; they are of no concern to its clients.
    """

    name: str
    own: Connector
    seeds: tuple[Connector, ...] = ()
    ways: tuple[Endpoint, ...] = ()
    direct: bool = False
    address: str = ""
    balancing: Balancing = Balancing.ON_DEMAND
    max_hops: int = 1
    check_ms: int = 30_000
    ttl_ms: int = 60_000
    call_ms: int = 30_000
    retry_ms: int = 500
    retry_multiplier: float = 1.0
    retry_ms_max: int = 2_000
    attempts_first: int = -1
    attempts: int = -1
    deduplicates: bool = True
    large_octets: int = 102_400
    confirmation_window: int = 10_485_760
    producer_window: int = 1_048_576
    notification_ms: int = 1_000
    notification_attempts: int = 2
    client_id: str = ""
    scale_down_group: str = ""

    def reconnection(self, attempts: int) -> Reconnection:
        """Return how a lost peer is dialled again, at most ``attempts`` times."""
        return Reconnection(
            initial_delay=self.retry_ms * MILLISECOND,
            max_delay=self.retry_ms_max * MILLISECOND,
            exponential=self.retry_multiplier != 1.0,
            multiplier=self.retry_multiplier,
            attempts_max=max(attempts, 0),
            min_connect_time=0,
        )

    @property
    def notification_interval(self) -> Duration:
        """The time between two announcements of this node."""
        return self.notification_ms * MILLISECOND


class GroupingOptions(Struct, frozen=True, kw_only=True):
    """The ``<grouping-handler>`` (artemis.md 1.21), times in ns. ``local``: this node decides for all.

    ``address``: what its notifications are about, for cluster connections that let only some addresses pass.
    ``timeout``: how long a group waits for a decision, or for the queue of one. ``forgets``: what was not used for so
    long is forgotten, 0 for never; ``reaper``: between two looks for that.
    """

    local: bool
    address: str = ""
    timeout: Duration = 5_000 * MILLISECOND
    forgets: Duration = 0
    reaper: Duration = 30_000 * MILLISECOND


def connector_of(name: str, place: Endpoint) -> Connector:
    """Return the connector ``name`` of a file as it travels: its parameters are text, the port too (5.2.11)."""
    parameters = [Parameter("port", PARAMETER_TEXT, str(place.port)), Parameter("host", PARAMETER_TEXT, place.host)]
    parameters += [Parameter(key, PARAMETER_TEXT, value) for key, value in place.options.items()]
    return Connector(name, FACTORY, parameters)


def place_of(connector: Connector) -> Endpoint | None:
    """Return what is dialled to reach ``connector``; None where it names no place of TCP."""
    given = parameters_of(connector)
    host, port = given.get("host", ""), given.get("port", "")
    if not host or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
        return None
    options = {DIALLED[key]: value for key, value in given.items() if key in DIALLED}
    secure = given.get(SECURE) == "true"
    return Endpoint("ssl" if secure else "tcp", host=host, port=int(port), options=options if secure else {})
