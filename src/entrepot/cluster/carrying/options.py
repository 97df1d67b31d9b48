"""How a core bridge of Artemis behaves (artemis.md 4.11). Only data."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from entrepot.base.environment import KIB, MIB, SECOND, Duration
from entrepot.base.settings import Unit, setting
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.terms import Supervised
from entrepot.model.headers import Headers

CONCURRENCY_MAX: Final = 1_000


class RoutingType(Enum):
    """Which routing type a message has at the other broker."""

    PASS = "PASS"
    STRIP = "STRIP"
    ANYCAST = "ANYCAST"
    MULTICAST = "MULTICAST"


class CoreBridgeOptions(Supervised, frozen=True):
    """One bridge, as its file writes it."""

    name: str = setting("", artemis="name", about="unique in its broker")
    queue: str = setting("", artemis="queue-name", about="whose messages cross")
    forwards: str = setting(
        "",
        artemis="forwarding-address",
        about="the address there; without one each message keeps its own",
    )
    ha: bool = setting(False, artemis="ha", about="whether the backup of the other broker is dialled, too")
    deduplicates: bool = setting(
        True, artemis="use-duplicate-detection", about="whether the other broker can tell a message that comes again"
    )
    confirmation_window: int = setting(
        10 * MIB,
        unit=Unit.OCTETS,
        unlimited=True,
        artemis="confirmation-window-size",
        about="octets after which packets are confirmed; -1: a lost session is never brought back",
    )
    producer_window: int = setting(
        MIB,
        unit=Unit.OCTETS,
        unlimited=True,
        artemis="producer-window-size",
        about="octets that are asked for before they are sent; -1: nothing is asked for",
    )
    large_from: int = setting(
        100 * KIB,
        unit=Unit.OCTETS,
        artemis="min-large-message-size",
        about="octets of one piece of a body that is on disk",
    )
    user: str = setting("", artemis="user", about="as whom; without one, the user of the cluster")
    password: str = setting("", artemis="password", secret=True, about="the proof")
    client_id: str = setting("", artemis="client-id", about="name of the connection at the other broker")
    routing: RoutingType = setting(
        RoutingType.PASS, artemis="routing-type", about="PASS keeps that of a message, STRIP takes it off"
    )
    concurrency: int = setting(
        1, low=1, high=CONCURRENCY_MAX, artemis="concurrency", about="connections side by side; order is lost"
    )
    ack_timeout: Duration = setting(
        60 * SECOND,
        unit=Unit.DURATION,
        artemis="pending-ack-timeout",
        about="longest that a stop waits for what is on its way",
    )


class CoreBridgeEntry(Struct, frozen=True, kw_only=True):
    """One bridge of a configuration. ``places``: of its connectors, in their order. ``selector``: "" for none.

    ``group``: the name of the discovery group where its places are heard, instead; "" for none.
    ``headers``: properties that are set on what crosses.
    ``clustered``: it is the way to another node of a cluster, and says for which of its queues each message is.
    ``route``: that queue, where it is one for all messages, by its id there (8 octets); or as `Crossing` says.
    """

    options: CoreBridgeOptions
    places: tuple[Endpoint, ...]
    selector: str = ""
    group: str = ""
    clustered: bool = False
    route: bytes = b""
    headers: Headers = ()
