"""How messages of an Artemis are drawn to this broker; the query of ``artemis:(...)`` (docs/spark-on-activemq.md)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from entrepot.base.environment import KIB, MIB, SECOND, Duration
from entrepot.base.errors import InvalidURI
from entrepot.base.settings import Dialect, Options, Unit, setting
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.cluster.backoff import Reconnection
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.cluster.carrying.terms import FASTEST

SCHEME: Final = "artemis"
TRANSPORTS: Final = ("tcp", "ssl")


class DrawOptions(Options, frozen=True):
    """One connection to an Artemis."""

    name: str = setting("", uri="name", about="what the connector is called; the first is `artemis`")
    user: str = setting("", uri="user", about="as whom")
    password: str = setting("", uri="password", secret=True, about="the proof")
    client_id: str = setting("", uri="clientID", about="name of the connection there")
    only: tuple[str, ...] = setting(
        (),
        uri="only",
        about="queues and topics that are drawn, with `*` for a word; () for all that are read here",
    )
    back: tuple[str, ...] = setting((), uri="back", about="queues here whose messages go there; they are not drawn")
    ha: bool = setting(True, uri="ha", about="whether the backup that the other broker tells of is dialled, too")
    window: int = setting(
        MIB, unit=Unit.OCTETS, low=KIB, high=1 << 30, uri="window", about="octets on their way from one queue"
    )
    retry: Duration = setting(
        SECOND,
        unit=Unit.DURATION,
        uri="retryInterval",
        about="wait before a lost connection, or a queue that is not there, is asked for again",
    )
    retry_max: Duration = setting(
        30 * SECOND, unit=Unit.DURATION, uri="maxRetryInterval", about="longest wait between two attempts to connect"
    )
    silence: Duration = setting(
        30 * SECOND, unit=Unit.DURATION, uri="checkPeriod", about="silence after which the other broker is given up"
    )
    ttl: Duration = setting(
        60 * SECOND, unit=Unit.DURATION, uri="connectionTTL", about="silence after which the other broker gives us up"
    )

    def reconnection(self) -> Reconnection:
        """Return what a link makes of it: it is dialled for ever."""
        return Reconnection(
            initial_delay=self.retry, max_delay=max(self.retry, self.retry_max), exponential=True, min_connect_time=0
        )

    def interval(self, parts: int) -> Duration:
        """Return the time between two looks, so that silence is found in ``parts`` of them."""
        return max(min(self.silence, self.ttl) // parts, FASTEST)


class DrawEntry(Struct, frozen=True, kw_only=True):
    """One connector. ``places``: one of them serves at a time."""

    options: DrawOptions
    places: tuple[Endpoint, ...]

    def bridges(self) -> list[CoreBridgeEntry]:
        """Return the core bridges of the way back. Each message keeps its address, which is the queue's name."""
        options = self.options
        return [
            CoreBridgeEntry(
                options=CoreBridgeOptions(
                    name=f"{options.name}-{queue}",
                    queue=queue,
                    ha=options.ha,
                    user=options.user,
                    password=options.password,
                    client_id=options.client_id,
                    retry_interval=options.retry,
                    retry_multiplier=2.0,
                    retry_interval_max=max(options.retry, options.retry_max),
                    check_period=options.silence,
                    ttl=options.ttl,
                ),
                places=self.places,
            )
            for queue in options.back
        ]


def is_draw(text: str) -> bool:
    """Return whether a line of a command names an Artemis."""
    return text.lstrip().lower().startswith(f"{SCHEME}:")


def draw_of(text: str, number: int) -> DrawEntry:
    """Return what ``artemis:(tcp://a:61616,ssl://b:61617)?user=me`` says. Raises InvalidURI, InvalidOption.

    ``number``: which of the connectors it is, from 1 on.
    """
    found = parse(text)
    if not isinstance(found, Composite):
        raise InvalidURI("artemis: names no broker", remedy="write artemis:(tcp://host:61616)")
    options = DrawOptions.read(found.options, Dialect.URI)
    places: list[Endpoint] = []
    for member in found.members:
        if not isinstance(member, Endpoint) or member.scheme not in TRANSPORTS:
            raise InvalidURI("an Artemis is reached by TCP or TLS", remedy="use tcp://host:61616 or ssl://host:61617")
        if member.user or member.password:
            raise InvalidURI(
                "the user does not stand in the place of an Artemis",
                remedy="write artemis:(tcp://host:61616)?user=NAME&password=SECRET",
            )
        places.append(member)
    name = options.name or (SCHEME if number == 1 else f"{SCHEME}-{number}")
    return DrawEntry(options=options.replaced(name=name), places=tuple(places))
