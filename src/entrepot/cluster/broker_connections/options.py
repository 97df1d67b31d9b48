"""How a connection of ``<broker-connections>`` behaves (artemis.md 2.8). Only data."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from entrepot.base.environment import KIB, MILLISECOND, SECOND, Duration
from entrepot.base.patterns import MIXED, matches
from entrepot.base.settings import Options, Unit, setting
from entrepot.base.uri import Endpoint
from entrepot.cluster.backoff import Reconnection
from entrepot.cluster.carrying.demand import is_own
from entrepot.cluster.federation.options import AddressPolicy, QueuePolicy

FOREVER: Final = -1
FASTEST: Final = 10 * MILLISECOND  # between two attempts, whatever the file says


class Way(Enum):
    """Which way messages go."""

    SENDER = "sender"
    RECEIVER = "receiver"
    PEER = "peer"


class Element(Struct, frozen=True, kw_only=True):
    """One element of a connection: it means a ``queue`` by its name, or queues by a pattern of their addresses."""

    way: Way
    pattern: str = ""
    queue: str = ""

    def means(self, address: str, queue: str) -> bool:
        """Return whether it means ``queue`` of ``address``. What is about one broker alone is never meant."""
        if is_own(address):
            return False
        if self.queue:
            return queue == self.queue
        return bool(matches(self.pattern, address, MIXED))


class MirrorOptions(Options, frozen=True):
    """One ``<mirror>``, as its file writes it."""

    acknowledgements: bool = setting(
        True, artemis="message-acknowledgements", about="whether the other side is told what leaves the queues here"
    )
    creation: bool = setting(True, artemis="queue-creation", about="whether it is told of addresses and queues made")
    removal: bool = setting(True, artemis="queue-removal", about="whether it is told of addresses and queues deleted")
    address_filter: str = setting(
        "", artemis="address-filter", about="beginnings of addresses with commas between, ! before one excludes"
    )
    durable: bool = setting(
        True, artemis="durable", about="whether what was not told yet outlives this broker; false: it is lost with it"
    )
    sync: bool = setting(
        False, artemis="sync", about="whether answers about what is mirrored wait until the other side has it"
    )


class FetchOptions(Options, frozen=True):
    """The properties of one policy, or of a whole ``<federation>``."""

    credit: int = setting(
        1_000, high=1e6, artemis="amqpCredits", about="messages on their way of one queue; 0: they are pulled"
    )
    credit_low: int = setting(300, high=1e6, artemis="amqpLowCredits", about="at so many they are raised again")
    pull: int = setting(
        100,
        low=1,
        high=1e6,
        artemis="amqpPullConsumerCredits",
        about="of pulled ones: so many are asked for each time when the queue here is empty",
    )
    large_octets: int = setting(
        100 * KIB,
        low=0,
        unlimited=True,
        artemis="minLargeMessageSize",
        about="octets of a body from which it is streamed to disk; -1: none is",
    )
    all_messages: bool = setting(
        False, artemis="ignoreQueueConsumerFilters", about="whether more comes than the selectors here let through"
    )
    one_priority: bool = setting(
        True, artemis="ignoreQueueConsumerPriorities", about="whether consumers here count as if of priority 0"
    )


class FetchPolicy(Struct, frozen=True, kw_only=True):
    """One policy: queues that are read at the other side while they are read here, or addresses while they are bound.

    ``addresses``: with ``max_hops`` 0 messages may have come any way, as Artemis has it over AMQP.
    """

    queues: QueuePolicy | None = None
    addresses: AddressPolicy | None = None
    options: FetchOptions

    @property
    def name(self) -> str:
        """What the other side, and operators, call it."""
        policy = self.queues or self.addresses
        return "" if policy is None else policy.name


class FederationEntry(Struct, frozen=True, kw_only=True):
    """The ``<federation>`` of one connection. ``remote``: what the other side is to fetch from here."""

    name: str
    policies: tuple[FetchPolicy, ...] = ()
    remote: tuple[FetchPolicy, ...] = ()


class AmqpConnectionOptions(Options, frozen=True):
    """One ``<amqp-connection>``, as its file writes it."""

    name: str = setting("", artemis="name", about="unique in its broker; operators stop and start it by this name")
    user: str = setting("", artemis="user", about="as whom; without one nothing is said of a user")
    password: str = setting("", artemis="password", secret=True, about="the proof")
    retry_interval: Duration = setting(
        5 * SECOND, unit=Unit.DURATION, artemis="retry-interval", about="wait before each attempt to come back"
    )
    attempts: int = setting(
        FOREVER, unlimited=True, artemis="reconnect-attempts", about="attempts to come back, one after the other"
    )
    auto_start: bool = setting(True, artemis="auto-start", about="whether it is dialled when the broker starts")

    def reconnection(self) -> Reconnection:
        """Return what a link makes of it: a lost connection is a failure, and attempts follow it."""
        attempts = 0 if self.attempts < 0 else self.attempts + 1
        pause = max(self.retry_interval, FASTEST)
        return Reconnection(
            initial_delay=pause,
            max_delay=pause,
            exponential=False,
            attempts_max=attempts,
            attempts_first=attempts,
            min_connect_time=0,
        )


class AmqpConnectionEntry(Struct, frozen=True, kw_only=True):
    """One connection of a configuration. ``places``: tried one after the other; ``mirror``: what it mirrors.

    ``wire``: what the URI says of AMQP, as `read_option` of ``protocols/amqp/uri.py`` knows it.
    ``federation``: what is fetched over it, in either direction.
    """

    options: AmqpConnectionOptions
    places: tuple[Endpoint, ...]
    wire: tuple[tuple[str, str], ...] = ()
    elements: tuple[Element, ...] = ()
    mirror: MirrorOptions | None = None
    federation: FederationEntry | None = None

    @property
    def name(self) -> str:
        """What operators call it."""
        return self.options.name
