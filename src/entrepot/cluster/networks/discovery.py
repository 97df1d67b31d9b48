"""Which brokers there are: lists of places, and what is heard in a multicast group (classic.md 1.4).

`parse_connector` turns the URI of a network connector into what is to be linked: each `Target` is one bridge, which has
one place or, for ``masterslave:``, several of which one is alive. `hearing` keeps who announces itself at a beacon.
Nothing here dials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, structs

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.settings import Dialect, refuse_unknown
from entrepot.base.uri import NO_PORT, Composite, Endpoint, parse, split_options
from entrepot.cluster.networks.options import NetworkConnectorOptions, ReconnectOptions
from entrepot.protocols.announcement import (
    MULTICAST_HOST,
    MULTICAST_PORT,
    Hearing,
    MulticastOptions,
)
from entrepot.protocols.peers import FailoverOptions

STATIC: Final = ("static", "simple")
TRANSPORTS: Final = ("tcp", "nio", "ssl", "auto", "openwire", "unix", "vm", "http", "https")
BEACONS: Final = ("multicast", "zeroconf", "rendezvous")
FANOUT_OPTIONS: Final = ("minAckCount", "fanOutQueues", "reconnectDelayExponent", "group")
ROUND_BY_ROUND: Final = (("maxReconnectAttempts", "0"), ("randomize", "false"))  # of failover: as a bridge does it
ZEROCONF_WITHOUT_EFFECT: Final = ("weight", "priority", "localhost", "localAddress", "type", "typeSuffix")


class MulticastReconnectOptions(ReconnectOptions, frozen=True):
    """How a broker found in a group is dialled again: Classic's defaults differ from those of a list."""

    initial_delay: Duration = 5_000 * MILLISECOND
    exponential: bool = False


class Target(Struct, frozen=True):
    """One bridge to be. ``places``: dialled one after the other; ``key`` tells it from others of its connector."""

    places: tuple[Endpoint, ...]

    @property
    def key(self) -> str:
        """What names it."""
        return ",".join(
            place.format().partition("?")[0] if place.port == NO_PORT else f"{place.host}:{place.port}"
            for place in self.places
        )


class Beacon(Struct, frozen=True):
    """Where brokers announce themselves: a multicast group, or DNS-SD when ``zeroconf``; then there is no host."""

    host: str
    port: int
    options: MulticastOptions
    discovered: dict[str, str]
    zeroconf: bool = False


class Discovery(Struct, frozen=True):
    """What the URI of a network connector says."""

    targets: tuple[Target, ...]
    beacons: tuple[Beacon, ...]
    reconnect: ReconnectOptions
    notes: tuple[str, ...] = ()  # sentences on what it says and nothing here obeys


def parse_connector(text: str) -> Discovery:
    """Return what the URI of a network connector names. Raises InvalidURI.

    ``discovery:`` and ``fanout:`` are transports of clients; here they mean what is in them, since a network connector
    bridges to every broker that it finds anyway.
    """
    said = parse(text)
    return structs.replace(_discovery(said), notes=tuple(_unheeded(said)))


def _unheeded(found: Endpoint | Composite) -> Iterator[str]:
    """Yield a sentence for each thing that is known, and has no effect on a bridge."""
    if found.scheme == "rendezvous":
        yield "rendezvous: is the name that zeroconf: had once; ActiveMQ does not know it any more"
    reason = ""
    names: Iterable[str] = ()
    if found.scheme in ("zeroconf", "rendezvous"):
        reason, names = "brokers are announced and found by their group alone", ZEROCONF_WITHOUT_EFFECT
    elif found.scheme in ("fanout", "discovery"):
        reason, names = "it is for clients; a bridge goes to every broker that is found", FANOUT_OPTIONS
    elif found.scheme == "failover":
        reason, names = "the network connector dials again, by its own options", FailoverOptions.names(Dialect.URI)
    for name, value in found.options.items():
        if name in names and (name, value) not in ROUND_BY_ROUND:
            yield f"the option {name}={value} of {found.scheme}: has no effect here: {reason}"
    if isinstance(found, Composite):
        for member in found.members:
            yield from _unheeded(member)


def _discovery(found: Endpoint | Composite) -> Discovery:
    while isinstance(found, Composite) and found.scheme in ("discovery", "fanout") and len(found.members) == 1:
        found = found.members[0]
    if isinstance(found, Endpoint):
        if found.scheme in BEACONS:
            beacon, reconnect = parse_beacon(found)
            return Discovery((), (beacon,), reconnect)
        return Discovery((Target((_place(found),)),), (), ReconnectOptions())
    discovered, own = split_options(found.options, "discovered.")
    if found.scheme in ("discovery", "fanout"):
        own = {name: value for name, value in own.items() if name not in FANOUT_OPTIONS}
    for name in own:
        if name in NetworkConnectorOptions.names(Dialect.CLASSIC):
            raise InvalidOption(
                f"{name} is an attribute of the network connector, not an option of {found.scheme}:",
                remedy=f"""write {name}="{own[name]}" beside its uri""",
            )
    reconnect, unknown = ReconnectOptions.take(own, Dialect.URI)
    refuse_unknown(unknown, ReconnectOptions.names(Dialect.URI), NetworkConnectorOptions.names(Dialect.CLASSIC))
    if found.scheme in (*STATIC, "discovery", "fanout"):
        targets = tuple(_target(member, discovered) for member in found.members)
        if not targets:
            raise InvalidURI("static: names no broker", remedy="write static:(tcp://host:61616)")
        return Discovery(targets, (), reconnect)
    if found.scheme == "masterslave":
        places = tuple(_place(each).with_options(discovered) for each in found.endpoints())
        if len(places) < 2:
            raise InvalidURI("masterslave: needs two brokers at least", remedy="use static: for a single one")
        return Discovery((Target(places),), (), reconnect)
    if found.scheme == "failover":
        return Discovery((_target(found, {}),), (), ReconnectOptions())
    raise InvalidURI(
        f"a network connector cannot find brokers by {found.scheme!r}",
        remedy="use static:, masterslave:, multicast: or zeroconf:",
    )


def _target(member: Endpoint | Composite, discovered: dict[str, str]) -> Target:
    """A nested ``failover:`` is one bridge with several places: the bridge notices every change of broker.

    Its own options are known by name and decide nothing: whatever they say, the connector dials again.
    """
    nested: dict[str, str] = {}
    if isinstance(member, Composite):
        if member.scheme not in ("failover", "masterslave", ""):
            raise InvalidURI(f"{member.scheme}: inside of static: means nothing", remedy="list the brokers themselves")
        nested, own = split_options(member.options, "nested.")
        FailoverOptions.read(own, Dialect.URI)
    return Target(tuple(_place(each).with_options({**nested, **discovered}) for each in member.endpoints()))


def _place(place: Endpoint) -> Endpoint:
    if not any(word in TRANSPORTS for word in place.scheme.split("+")):
        raise InvalidURI(f"a bridge cannot be dialled by {place.scheme!r}", remedy="use tcp:// or ssl://")
    if place.user or place.password:
        raise InvalidURI(
            "a bridge does not sign in as the user in a broker's URI, nor does ActiveMQ",
            remedy="give userName and password, or remoteUserName and remotePassword, of the network connector",
        )
    return place


def parse_beacon(found: Endpoint) -> tuple[Beacon, ReconnectOptions]:
    """Return where brokers announce themselves, and how one that is found there is dialled. Raises InvalidURI.

    ``zeroconf:`` and its old name ``rendezvous:`` take the group from the option or in place of a host, like
    ``zeroconf://europe``.
    """
    if found.scheme not in BEACONS:
        raise InvalidURI(f"brokers do not announce themselves by {found.scheme!r}", remedy="use multicast://default")
    discovered, own = split_options(found.options, "discovered.")
    reconnect, rest = MulticastReconnectOptions.take(own, Dialect.URI)
    if found.scheme != "multicast":
        rest = {name: value for name, value in rest.items() if name not in ZEROCONF_WITHOUT_EFFECT}
        options = MulticastOptions.read(rest, Dialect.URI)
        named = found.host or found.path.strip("/.")
        if named and "group" not in rest:
            options = options.replaced(group=named)
        return Beacon("", 0, options, discovered, zeroconf=True), reconnect
    options = MulticastOptions.read(rest, Dialect.URI)
    host = MULTICAST_HOST if found.host in ("", "default") else found.host
    port = MULTICAST_PORT if found.port == NO_PORT else found.port
    return Beacon(host, port, options, discovered), reconnect


def hearing(beacon: Beacon) -> Hearing:
    """Return who will be heard at ``beacon``: brokers that a bridge can be dialled to, with what it says about them."""

    def reached(place: Endpoint) -> Endpoint:
        return _place(place).with_options(beacon.discovered)

    # The library that hears DNS-SD forgets by itself who is gone.
    return Hearing(beacon.options, reached, forgets=not beacon.zeroconf)
