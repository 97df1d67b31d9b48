"""How messages are drawn from another broker to this one; the queries of ``artemis:(...)`` and ``activemq:(...)``.

docs/spark-on-activemq.md
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from entrepot.base.environment import KIB, MIB, SECOND, Duration
from entrepot.base.errors import InvalidURI
from entrepot.base.settings import Dialect, Options, Unit, setting
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.cluster.backoff import Reconnection
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.cluster.carrying.terms import FASTEST

TRANSPORTS: Final = ("tcp", "ssl")
FAILOVER: Final = "failover"
PREFETCH_MAX: Final = 100_000


class DrawOptions(Options, frozen=True):
    """One connection to another broker. ``SCHEME``: of its URI; ``WHAT``: that broker, for people.

    ``LANGUAGE``: over which it is reached; ``SIGN``: what it is asked for as a sign of life.
    """

    SCHEME: ClassVar[str] = ""
    WHAT: ClassVar[str] = ""
    LANGUAGE: ClassVar[str] = ""
    SIGN: ClassVar[str] = ""

    name: str = setting("", uri="name", about="what the connector is called; the first is called as its scheme")
    user: str = setting("", uri="user", about="as whom")
    password: str = setting("", uri="password", secret=True, about="the proof")
    client_id: str = setting("", uri="clientID", about="name of the connection there")
    only: tuple[str, ...] = setting(
        (),
        uri="only",
        about="queues and topics that are drawn, with `*` for a word; () for all that are read here",
    )
    back: tuple[str, ...] = setting((), uri="back", about="queues here whose messages go there; they are not drawn")
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

    def reconnection(self) -> Reconnection:
        """Return what a link makes of it: it is dialled for ever."""
        return Reconnection(
            initial_delay=self.retry, max_delay=max(self.retry, self.retry_max), exponential=True, min_connect_time=0
        )

    def interval(self, parts: int) -> Duration:
        """Return the time between two looks, so that silence is found in ``parts`` of them."""
        return max(self.silence // parts, FASTEST)


class ArtemisOptions(DrawOptions, frozen=True):
    """One connection to an Artemis, over CORE."""

    SCHEME: ClassVar[str] = "artemis"
    WHAT: ClassVar[str] = "Artemis"
    LANGUAGE: ClassVar[str] = "CORE"
    SIGN: ClassVar[str] = "query"

    ha: bool = setting(True, uri="ha", about="whether the backup that the other broker tells of is dialled, too")
    window: int = setting(
        MIB, unit=Unit.OCTETS, low=KIB, high=1 << 30, uri="window", about="octets on their way from one queue"
    )
    ttl: Duration = setting(
        60 * SECOND, unit=Unit.DURATION, uri="connectionTTL", about="silence after which the other broker gives us up"
    )

    def interval(self, parts: int) -> Duration:
        """Return the time between two looks, so that silence is found in ``parts`` of them, by either side."""
        return max(min(self.silence, self.ttl) // parts, FASTEST)


class ActiveMQOptions(DrawOptions, frozen=True):
    """One connection to an ActiveMQ, over OpenWire."""

    SCHEME: ClassVar[str] = "activemq"
    WHAT: ClassVar[str] = "ActiveMQ"
    LANGUAGE: ClassVar[str] = "OpenWire"
    SIGN: ClassVar[str] = "flush"

    user: str = setting("", uri="userName", about="as whom")
    prefetch: int = setting(
        1_000, low=1, high=PREFETCH_MAX, uri="prefetchSize", about="messages on their way from one queue"
    )


class DrawEntry(Struct, frozen=True, kw_only=True):
    """One connector. ``places``: one of them serves at a time."""

    options: DrawOptions
    places: tuple[Endpoint, ...]

    def bridges(self) -> list[CoreBridgeEntry]:
        """Return the core bridges of the way back. Each message keeps its address, which is the queue's name."""
        options = self.options
        if not isinstance(options, ArtemisOptions):
            return []
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


KINDS: Final[dict[str, type[DrawOptions]]] = {kind.SCHEME: kind for kind in (ArtemisOptions, ActiveMQOptions)}


def scheme_of(text: str) -> str:
    """Return which kind of broker a line of a command names that messages are drawn from, "" for none."""
    scheme, colon, _ = text.lstrip().lower().partition(":")
    return scheme if colon and scheme in KINDS else ""


def is_draw(text: str) -> bool:
    """Return whether a line of a command names a broker that messages are drawn from."""
    return scheme_of(text) != ""


def draws_of(texts: tuple[str, ...]) -> list[DrawEntry]:
    """Return what those of ``texts`` say that name brokers which messages are drawn from. Raises as `draw_of`."""
    found = [text for text in texts if is_draw(text)]
    return [
        draw_of(text, [scheme_of(one) for one in found[:at]].count(scheme_of(text)) + 1)
        for at, text in enumerate(found)
    ]


def draw_of(text: str, number: int) -> DrawEntry:
    """Return what ``artemis:(tcp://a:61616,ssl://b:61617)?user=me`` says. Raises InvalidURI, InvalidOption.

    ``number``: which of the connectors of its kind it is, from 1 on.
    """
    kind = KINDS[scheme_of(text)]
    found = parse(text)
    scheme, what = kind.SCHEME, kind.WHAT
    if not isinstance(found, Composite):
        raise InvalidURI(f"{scheme}: names no broker", remedy=f"write {scheme}:(tcp://host:61616)")
    given, members = found.options, found.members
    inner = members[0] if len(members) == 1 else None
    if kind is ActiveMQOptions and isinstance(inner, Composite) and inner.scheme == FAILOVER:  # as its clients write it
        given, members = {**inner.options, **given}, inner.members
    options = kind.read(given, Dialect.URI)
    places: list[Endpoint] = []
    for member in members:
        if not isinstance(member, Endpoint) or member.scheme not in TRANSPORTS:
            raise InvalidURI(
                f"an {what} is reached by TCP or TLS",
                remedy=f"use tcp://host:61616 or ssl://host:61617, and options behind {scheme}:(...)",
            )
        if member.user or member.password:
            raise InvalidURI(
                f"the user does not stand in the place of an {what}",
                remedy=f"write {scheme}:(tcp://host:61616)?{_spelt(kind)}=NAME&password=SECRET",
            )
        places.append(member)
    name = options.name or (scheme if number == 1 else f"{scheme}-{number}")
    return DrawEntry(options=options.replaced(name=name), places=tuple(places))


def _spelt(kind: type[DrawOptions]) -> str:
    """Return how ``kind`` writes the user."""
    return next(name for name, declared in kind.names(Dialect.URI).items() if declared.name == "user")
