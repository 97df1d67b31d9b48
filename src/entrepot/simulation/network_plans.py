"""What a seed makes of a network: its shape, who dials whom and how, what is read where. Decided before anything runs.

Every message that a plan sends must reach a willing reader once all links are healed, unless the plan says that it may
stay behind: the TTL is shorter than the way, or a reader moved and nothing lets messages go back. Then it must still be
somewhere, with a reason (`core/operators/explain.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.networks.comparison import OURS
from entrepot.cluster.networks.options import BridgeFilterOptions, Compared, NetworkConnectorOptions
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
UNASKED: Final = ""
NOBODY: Final = "no audit"
MIXED_AUDITS: Final = "mixed audits"
BY_IDS: Final = "audit of ids"
STRANGER: Final = "ActiveMQ 5.17.2"  # what a broker calls itself whose numbers the others do not trust
DOUBLING_MAX: Final = 6
"""Directions without a conduit in a ring of doubled connectors: each doubles the demand for all that is beyond it."""
STATICALLY: Final = (  # a static bridge hears of nobody: all that is read at the end of its chain
    *(IncludedDestination(pattern=name, topic=False) for name in (STATIC, "Q1", "Q2", BESIDE, "W.>")),
    *(IncludedDestination(pattern=name, topic=True, force_durable=True) for name in ("T", VIRTUAL)),
)


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


class Seat(Struct, frozen=True):
    """A program that asks over temporary destinations, or answers. ``topic``: its temporary destination is one."""

    site: str
    asks: bool
    topic: bool = False


class Plan(Struct, frozen=True):
    """One network. ``producers``: where messages are sent; ``may_stay``: destinations that need not arrive.

    ``seats``: programs that ask and answer; ``replies``: whether replies have a way back. ``operated``: an operator
    stops and starts connectors, and readers of durable subscriptions are away for a while.
    """

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
    ttl: int
    seats: tuple[Seat, ...] = ()
    replies: bool = True
    operated: bool = False
    static: bool = False
    twins: bool = False
    selector_aware: bool = False
    audits: str = ""

    @property
    def title(self) -> str:
        """Name it, for findings."""
        words = [self.shape, str(len(self.blueprints))]
        words += [word for word, true in (("one way", self.one_way), ("duplex", self.duplex)) if true]
        more = (self.replay, "replay"), (self.static, "static"), (self.twins, "twins"), (self.operated, "operated")
        words += [word for true, word in more if true]
        words += ["talk"] if self.seats else []
        words += [self.audits] if self.audits else []
        return " ".join(words)


class Extras(Struct, frozen=True):
    """What came to plans later, drawn apart: without it a seed makes the plan that it made before."""

    talk: bool = False
    operated: bool = False
    dynamic_only: bool = False
    twins: bool = False
    static: bool = False
    replay: bool = False
    moves: bool = False
    far_demand: bool = False


def draw_extras(lots: Lots) -> Extras:
    """Draw which of them there are."""
    return Extras(
        talk=lots.chance(0.5),
        operated=lots.chance(0.5),
        dynamic_only=lots.chance(0.3),
        twins=lots.chance(0.2),
        static=lots.chance(0.5),
        replay=lots.chance(0.5),
        moves=lots.chance(0.5),
        far_demand=True,
    )


NO_EXTRAS: Final = Extras()


class Traits(Struct, frozen=True):
    """What a plan is like, before its connectors and readers are drawn. ``wires``: who dials whom."""

    shape: str
    names: list[str]
    edges: list[Wire]
    one_way: bool
    duplex: bool
    replay: bool
    colours: bool
    short: bool  # messages may go one hop only
    beside: bool  # a queue has a connector of its own
    static: bool

    @property
    def wires(self) -> list[Wire]:
        """Return who dials whom."""
        both = not (self.one_way or self.duplex)
        return [*self.edges, *((far, near) for near, far in self.edges)] if both else [*self.edges]

    @property
    def statics(self) -> int:
        """Return how many of `STATICALLY` its connectors include."""
        if self.static:
            return len(STATICALLY)
        return int(self.has_last)

    @property
    def has_last(self) -> bool:
        """Return whether all that is sent ends at the last broker of a line."""
        return self.one_way and self.shape in ("pair", "chain")

    @property
    def ttl(self) -> int:
        """Return over how many hops a message may go."""
        return 1 if self.short else len(self.names)


def _draw_traits(lots: Lots, extras: Extras) -> Traits:
    shape = lots.one_of(SHAPES)
    names, edges = _shape(shape, lots)
    one_way = shape in ("pair", "chain", "star") and lots.chance(0.25)
    duplex = not one_way and lots.chance(0.4)
    replay = lots.chance(0.3) or (shape == "ring" and extras.replay)
    colours = not one_way and lots.chance(0.2)
    short = len(names) > 3 and lots.chance(0.1)
    beside = lots.chance(0.25)
    static = one_way and shape in ("pair", "chain") and extras.static
    return Traits(
        shape=shape,
        names=names,
        edges=edges,
        one_way=one_way,
        duplex=duplex,
        replay=replay,
        colours=colours,
        short=short,
        beside=beside and not static,
        static=static,
    )


def draw(lots: Lots, extras: Extras = NO_EXTRAS) -> Plan:
    """Draw a plan. The order of the lots is what a seed means: it stays as it is."""
    traits = _draw_traits(lots, extras)
    connectors, twins = _connectors(lots, traits, extras)
    policies = (_replaying(lots),) if traits.replay else ()
    names = traits.names
    producers = (names[0],) if traits.one_way else tuple(names)
    targets = names[-1:] if traits.static else names[1:] if traits.one_way else names
    readings = _readings(
        lots, targets, names[-1], colours=traits.colours, statics=traits.has_last, moves=not traits.one_way
    )
    if extras.moves and not traits.one_way and not any(reading.mover for reading in readings):
        readings.append(_mover(lots.one_of(names)))
    return Plan(
        shape=traits.shape,
        blueprints={name: _blueprint(name, made, policies) for name, made in connectors.items()},
        wires=tuple(traits.edges),
        one_way=traits.one_way,
        duplex=traits.duplex,
        cyclic=traits.shape in ("ring", "mesh", "random"),
        replay=traits.replay,
        producers=producers,
        readings=tuple(readings),
        may_stay=_may_stay(traits, readings),
        ttl=traits.ttl,
        seats=_seats(lots, producers, targets) if extras.talk and not traits.static else (),
        replies=not traits.one_way and not traits.short,
        operated=extras.operated,
        static=traits.static,
        twins=twins,
        selector_aware=any(one.bridge is not None and one.bridge.selector_aware for one in policies),
    )


def _connectors(lots: Lots, traits: Traits, extras: Extras) -> tuple[dict[str, list[NetworkConnector]], bool]:
    """Draw the connectors of each broker; return them, and whether each has a twin."""
    found: dict[str, list[NetworkConnector]] = {name: [] for name in traits.names}
    wires, duplex = traits.wires, traits.duplex
    drawn = [_options(lots, far, ttl=traits.ttl, duplex=duplex, conduit=not traits.colours) for _, far in wires]
    doubling = sum(not options.conduit_subscriptions for options in drawn) * (2 if duplex else 1)
    twins = extras.twins and not traits.static and (traits.shape != "ring" or doubling <= DOUBLING_MAX)
    for (near, _), plain in zip(wires, drawn, strict=True):
        options = _adapted(plain, traits, extras)
        _connect(found[near], options, STATICALLY[: traits.statics], beside=traits.beside)
        if twins:
            statics = STATICALLY[: traits.statics]
            _connect(found[near], options.replaced(name=options.name + " too"), statics, beside=False)
    return found, twins


def _adapted(options: NetworkConnectorOptions, traits: Traits, extras: Extras) -> NetworkConnectorOptions:
    """Return what all connectors of a plan have in common."""
    if extras.dynamic_only:
        options = options.replaced(dynamic_only=True)
    if traits.short and extras.far_demand:  # demand goes further than messages may
        options = options.replaced(consumer_ttl=len(traits.names))
    if traits.replay:  # among equals a message that may go back can go to and fro for ever, as in Classic (1.11)
        options = options.replaced(decrease_priority=True)
    if traits.static:
        options = options.replaced(static=True)
    return options


def _blueprint(name: str, made: list[NetworkConnector], policies: tuple[PolicyEntry, ...]) -> Blueprint:
    config = BrokerConfig(broker=BrokerSettings(name=name), networks=tuple(made), policies=policies)
    return Blueprint(config=config, interval=INTERVAL)


def _may_stay(traits: Traits, readings: Sequence[Reading]) -> tuple[str, ...]:
    """Return the destinations whose messages need not arrive."""
    if traits.short:
        return tuple({text.partition("://")[2]: None for reading in readings for text in reading.targets})
    return () if traits.replay else (MOVING,)


def with_audits(plan: Plan, lots: Lots) -> Plan:
    """Return ``plan`` with what its brokers compare: copies, unasked; or nothing; or ids, where they do not know ours.

    Drawn apart from the rest: a seed makes the plan otherwise that it made before.
    """
    mode = lots.one_of((UNASKED, UNASKED, NOBODY, MIXED_AUDITS, BY_IDS, BY_IDS))
    if mode == UNASKED:
        return plan
    made = {}
    for name, blueprint in plan.blueprints.items():
        audit = {NOBODY: 0, BY_IDS: 1}.get(mode, lots.one_of((-1, 0, 1)))
        said = {-1: Compared.OURS, 0: Compared.NONE, 1: Compared.ALL}[audit]
        networks = tuple(
            replace(one, options=one.options.replaced(check_duplicates_on_duplex=said))
            for one in blueprint.config.networks
        )
        config = replace(blueprint.config, networks=networks)
        program = STRANGER if mode == BY_IDS or (mode == MIXED_AUDITS and lots.chance(0.5)) else OURS
        made[name] = replace(blueprint, config=config, audit=audit, program=program)
    return replace(plan, blueprints=made, audits=mode)


def _mover(site: str) -> Reading:
    text = f"queue://{MOVING}"
    return Reading(site=site, text=text, targets=(text,), mover=True)


def _seats(lots: Lots, askers: Sequence[str], answerers: Sequence[str]) -> tuple[Seat, ...]:
    """Return one or two repliers, and one to three requesters."""
    found = [Seat(site=lots.one_of(answerers), asks=False) for _ in range(lots.between(1, 2))]
    found += [Seat(site=lots.one_of(askers), asks=True, topic=lots.chance(0.3)) for _ in range(lots.between(1, 3))]
    return tuple(found)


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
