"""What a seed makes of a network: its shape, who dials whom and how, what is read where. Decided before anything runs.

Every message that a plan sends must reach a willing reader once all links are healed, unless the plan says that it may
stay behind: the TTL is shorter than the way, or a reader moved and nothing lets messages go back. Then it must still be
somewhere, with a reason (`core/explain.py`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.options import BridgeFilterOptions, NetworkConnectorOptions
from entrepot.config.model import (
    BrokerConfig,
    BrokerSettings,
    IncludedDestination,
    NetworkConnector,
    PolicyEntry,
)
from entrepot.model.address import ANYCAST
from entrepot.simulation.sites import Blueprint
from entrepot.simulation.world import Lots

Wire = tuple[str, str]
"""Who dials, and whom."""

INTERVAL: Final = SECOND  # of supervision: what is dead is found within three
RECONNECT: Final = "?initialReconnectDelay=50&useExponentialBackOff=false"
BROKERS_MAX: Final = 10
SHAPES: Final = ("pair", "chain", "ring", "star", "mesh", "random")
BESIDE: Final = "BESIDE"  # the queue that a second connector between a pair carries, and the first does not
STATIC: Final = "STATIC"
MOVING: Final = "MOVING"
VIRTUAL: Final = "VirtualTopic.V"


class Reading(Struct, frozen=True):
    """Somebody reads ``text`` at ``site``. ``late``: only once everything is healed; ``mover``: goes from site to site.

    ``targets``: what is sent for it, "" properties or the colour that its selector asks for.
    """

    site: str
    text: str
    targets: tuple[str, ...]
    colour: str = ""
    durable: str = ""
    prefetch: int = 10
    late: bool = False
    mover: bool = False

    @property
    def key(self) -> str:
        """Tells it from others at its site."""
        return f"{self.text} {self.colour}{self.durable}"


class Plan(Struct, frozen=True):
    """One network. ``producers``: where messages are sent; ``may_stay``: destinations that need not arrive."""

    shape: str
    blueprints: dict[str, Blueprint]
    wires: tuple[Wire, ...]
    one_way: bool
    duplex: bool
    cyclic: bool
    replay: bool
    producers: tuple[str, ...]
    readings: tuple[Reading, ...]
    may_stay: tuple[str, ...]

    @property
    def title(self) -> str:
        """Name it, for findings."""
        words = [self.shape, str(len(self.blueprints))]
        words += [word for word, true in (("one way", self.one_way), ("duplex", self.duplex)) if true]
        words += ["replay"] if self.replay else []
        return " ".join(words)


def draw(lots: Lots) -> Plan:
    """Draw a plan."""
    shape = lots.one_of(SHAPES)
    names, edges = _shape(shape, lots)
    one_way = shape in ("pair", "chain", "star") and lots.chance(0.25)
    duplex = not one_way and lots.chance(0.4)
    wires = [*edges] if one_way or duplex else [*edges, *((far, near) for near, far in edges)]
    replay = lots.chance(0.3)
    colours = not one_way and lots.chance(0.2)
    short = len(names) > 3 and lots.chance(0.1)
    beside = lots.chance(0.25)
    statics = one_way and shape in ("pair", "chain")
    connectors: dict[str, list[NetworkConnector]] = {name: [] for name in names}
    for near, far in wires:
        options = _options(lots, far, ttl=1 if short else len(names), duplex=duplex, conduit=not colours)
        if replay:  # among equals a message that may go back can go to and fro for ever, as in Classic (1.11)
            options = options.replaced(decrease_priority=True)
        lists = (IncludedDestination(pattern=STATIC, topic=False),) if statics else ()
        _connect(connectors[near], options, lists, beside=beside)
    policies = (_replaying(lots),) if replay else ()
    blueprints = {
        name: Blueprint(
            config=BrokerConfig(broker=BrokerSettings(name=name), networks=tuple(made), policies=policies),
            interval=INTERVAL,
        )
        for name, made in connectors.items()
    }
    producers = (names[0],) if one_way else tuple(names)
    targets = names[1:] if one_way else names
    readings = _readings(lots, targets, names[-1], colours=colours, statics=statics, moves=not one_way)
    may_stay = [MOVING] if not replay else []
    return Plan(
        shape=shape,
        blueprints=blueprints,
        wires=tuple(edges),
        one_way=one_way,
        duplex=duplex,
        cyclic=shape in ("ring", "mesh", "random"),
        replay=replay,
        producers=producers,
        readings=tuple(readings),
        may_stay=tuple({t.partition("://")[2]: None for r in readings for t in r.targets} if short else may_stay),
    )


def _shape(shape: str, lots: Lots) -> tuple[list[str], list[Wire]]:
    """Return names and edges; an edge is one way from its first to its second where a plan is one way."""
    if shape == "pair":
        count = 2
    else:
        count = lots.skewed(3, 6 if shape == "mesh" else BROKERS_MAX + 1)
        count = min(count, 5 if shape == "mesh" else BROKERS_MAX)
    names = [chr(ord("A") + number) for number in range(count)]
    chain = list(pairwise(names))
    if shape == "ring":
        return names, [*chain, (names[-1], names[0])]
    if shape == "star":
        return names, [(names[0], name) for name in names[1:]]
    if shape == "mesh":
        return names, [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    if shape == "random":
        edges = {(lots.one_of(names[:at]), names[at]): None for at in range(1, count)}
        for _ in range(lots.between(0, count // 2)):
            at = lots.between(1, count - 1)
            edges[(lots.one_of(names[:at]), names[at])] = None
        return names, list(edges)
    return names, chain


def _options(lots: Lots, far: str, *, ttl: int, duplex: bool, conduit: bool) -> NetworkConnectorOptions:
    return NetworkConnectorOptions(
        name=f"to {far}",
        uri=f"static:(tcp://{far}:1){RECONNECT}",
        duplex=duplex,
        network_ttl=ttl,
        conduit_subscriptions=conduit and lots.chance(0.7),
        dynamic_only=False,
        decrease_priority=lots.chance(0.7),
        suppress_duplicate_queues=lots.chance(0.3),
        prefetch=lots.one_of((1, 5, 1000)),
        always_sync_send=lots.chance(0.7),
    )


def _connect(
    found: list[NetworkConnector],
    options: NetworkConnectorOptions,
    statics: tuple[IncludedDestination, ...],
    *,
    beside: bool,
) -> None:
    """Add one connector, or two that share the work: a queue is carried by the second alone."""
    if not beside:
        found.append(NetworkConnector(options=options, statically_included=statics))
        return
    only = (IncludedDestination(pattern=BESIDE, topic=False),)
    found.append(NetworkConnector(options=options, statically_included=statics, excluded=only))
    second = options.replaced(name=options.name + " beside")
    found.append(NetworkConnector(options=second, dynamically_included=only))


def _replaying(lots: Lots) -> PolicyEntry:
    bridge = BridgeFilterOptions(
        replay_when_no_consumers=True,
        replay_delay=lots.one_of((0, 100 * MILLISECOND)),
        rate_limit=lots.one_of((0, 0, 20)),
        selector_aware=lots.chance(0.3),
    )
    return PolicyEntry(pattern=">", settings={}, routing=ANYCAST, bridge=bridge)


def _readings(lots: Lots, sites: list[str], last: str, *, colours: bool, statics: bool, moves: bool) -> list[Reading]:
    def reading(text: str, *targets: str, **more: object) -> Reading:
        made = {"site": lots.one_of(sites), "prefetch": lots.one_of((1, 10, 100)), **more}
        return Reading(text=text, targets=targets or (text,), **made)  # type: ignore[arg-type]

    found = [reading(f"queue://Q{number}", late=lots.chance(0.4)) for number in (1, 2)]
    found.append(reading(f"queue://{BESIDE}"))
    if lots.chance(0.4):
        found.append(reading("queue://W.>", "queue://W.a", "queue://W.b"))
    if lots.chance(0.5):
        for name in ("d", "e")[: lots.between(1, 2)]:
            found.append(reading("topic://T", durable=name))
    if lots.chance(0.3):
        found.append(reading(f"queue://Consumer.g.{VIRTUAL}", f"topic://{VIRTUAL}"))
    if colours:
        found += [reading("queue://C", colour=colour) for colour in ("red", "blue")]
    if statics:
        found.append(reading(f"queue://{STATIC}", site=last))
    if moves and lots.chance(0.4):
        found.append(reading(f"queue://{MOVING}", mover=True))
    return found
