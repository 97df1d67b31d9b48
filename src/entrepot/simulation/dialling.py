"""Brokers that dial one another over AMQP, from seeds, under faults: ``--dialling``.

One or two brokers dial a third one. Each sends a queue there, fills one from there, and is the store of an address for
that third one where it is taken for a router (`waypoints.py`). Programs send at both ends, small messages and such that
are streamed. Cables are cut, loud or silent, deaf or slow; brokers crash with torn disks, stop, are slow; links are
detached; connections are stopped and started; a peer does not answer links for a while, or takes no large messages.

What must hold when all has healed: what was confirmed to a producer was settled by a reader at the end of its way, with
the body that it had; what the peer does not take is a dead letter, or parked, and stops nobody; nothing waits, and
nothing is on its way; and a message comes twice only where a connection or a link was lost, and is marked then unless
the broker that sent it again had lost its memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from librt.strings import BytesWriter

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.cluster.broker_connections.connection import BrokerConnection
from entrepot.cluster.broker_connections.options import AmqpConnectionEntry, AmqpConnectionOptions, Element, Way
from entrepot.cluster.carrying.parking import PARKED
from entrepot.cluster.dialled import Dialled
from entrepot.cluster.link import State, described
from entrepot.config.model import BrokerConfig, BrokerSettings, PolicyEntry
from entrepot.core.addressing.address_settings import Full
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.journal.log import Waiter
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.amqp.convert import message_of
from entrepot.protocols.amqp.large import LargeArrival, find_body
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.performatives import Header
from entrepot.protocols.amqp.primitives import BINARY_32
from entrepot.protocols.amqp.refusals import DETACH_FORCED, AmqpRefused
from entrepot.protocols.amqp.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    put_descriptor,
    write_header,
    write_table,
)
from entrepot.protocols.amqp.server import AmqpServerSession
from entrepot.protocols.session import Session, Shell
from entrepot.simulation.cables import End
from entrepot.simulation.networks import Network
from entrepot.simulation.postings import IDENTITY
from entrepot.simulation.sites import Blueprint, Site
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.trial import Trial
from entrepot.simulation.waypoints import OUT, STORED, FilteredEnd
from entrepot.simulation.world import Lots

HUB: Final = "hub"
DEAD: Final = "dead"
LARGE_FROM: Final = 2_000
LARGE_MAX: Final = 30_000
FULL: Final = 60_000  # octets of an address of the hub, where it has a limit
HEALING_S_MAX: Final = 150
EVENTS_MAX: Final = 3_000_000
MUTE_S_MAX: Final = 40
HEADER_OCTETS: Final = 64  # what one that goes again may have more than it had
SENT, FETCHED, STORE = "sent", "fetched", "store"


class Post:
    """One message. ``way``: which it is to go, from one broker to another; ``octets``: all of it."""

    def __init__(self, way: str, sender: str, octets: int, body: int) -> None:
        self.way = way
        self.sender = sender
        self.octets = octets
        self.body = body
        self.accepted = False
        self.crashes = 0  # of who sends it over, when it was sent
        self.firm: dict[int, bool] = {}  # number under which it was settled, on disk -> whether it was marked


class Accepted(Waiter):
    """Notes that a message is on disk."""

    def __init__(self, one: Post) -> None:
        self.one = one

    def stored(self, token: bytes) -> None:
        """Its producer is told."""
        self.one.accepted = True

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It is told that it is not."""


class Firm(Waiter):
    """Notes that a message is settled, on disk."""

    def __init__(self, one: Post, number: int, marked: bool) -> None:
        self.one = one
        self.number = number
        self.marked = marked

    def stored(self, token: bytes) -> None:
        """No crash takes it back."""
        self.one.firm.setdefault(self.number, self.marked)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It may come again."""


class DialledSite(Site):
    """A broker's machine with connections over AMQP. ``crashes``: how often it lost its memory."""

    def __init__(self, network: Dialling, name: str, blueprint: Blueprint) -> None:
        super().__init__(network, name, blueprint)
        self.dialling = network
        self.amqp = AmqpOptions()
        self.most = 0
        self.mute_until: Instant = 0
        self.crashes = 0

    def _connect(self) -> None:
        super()._connect()
        made = self._running()
        for fetcher in made.fetchers:
            made.fetch(fetcher, self._perform, self.world.time)

    def crash(self, *, torn: bool) -> None:
        """The process dies, or the machine."""
        self.crashes += self.broker is not None
        super().crash(torn=torn)

    def end(self, delay: Duration) -> End:
        """Return this machine's end of a new cable."""
        return FilteredEnd(self, delay, self) if self.name == HUB else super().end(delay)

    def answer(self, shell: Shell, bridge: Dialled, peer: str) -> Session:
        """Make the session of a connection that another site opened."""
        return self._running().greet_amqp(shell, self.amqp, peer)

    def switch_connection(self, *, start: bool) -> None:
        """Stop or start all connections, as ``entrepot bridge`` does."""
        if self.broker is None or self.stopping:
            return
        made = self._running()
        for one in made.calls.connectors:
            if start and not one.started:
                self.turn(partial(made.fetch, one, self._perform, self.world.time))
            elif not start and one.started:
                self.turn(partial(one.leave, self.world.time))

    def connections(self) -> list[BrokerConnection]:
        """Return those of a broker that runs."""
        if self.broker is None or self.made is None:
            return []
        return [one.connection for one in self.made.calls.connectors if one.connection is not None]

    def detach_one(self, lots: Lots) -> None:
        """End one link of somebody who dialled this broker, as a router does that lost what is behind it."""
        sessions = [end.session for end in self.ends if isinstance(end.session, AmqpServerSession) and not end.gone]
        links = [link for one in sessions for each in one.channels.values() for link in each.links.values()]
        if links:
            link = lots.one_of(links)
            self.turn(lambda: link.detach_for(AmqpRefused("what is behind it is gone", DETACH_FORCED)))


class Dialling(Network):
    """The ledger. ``posts``: by identity. ``ceilings``: messages that a queue of a site may ever hold."""

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.posts: dict[str, Post] = {}
        self.ceilings: dict[tuple[str, str], int] = {}
        super().__init__(seed, blueprints, lines=lines)

    def site(self, name: str, blueprint: Blueprint) -> Site:
        """Return a new site."""
        return DialledSite(self, name, blueprint)

    @property
    def brokers(self) -> dict[str, DialledSite]:
        """Return the sites, as what they are."""
        return {name: site for name, site in self.sites.items() if isinstance(site, DialledSite)}

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        identity = str(message.language.fact(message, IDENTITY))
        one = self.posts[identity]
        rare = message.rare
        octets = len(message.raw) + (int(rare.large_length) if rare is not None else 0)
        if octets < one.body:
            self.world.violation(f"{identity} came with {octets} octets, its body had {one.body}")
        if reader.key != one.way:
            self.world.violation(f"{identity} came to {reader.key}, and was on its way to {one.way}")
        marked = bool(message.redelivered) or deliveries > 0
        self.seen.setdefault(identity, []).append(site.name)
        self.world.note(f"consumed {identity} at {site.name} as {message.number} {marked}")
        assert site.broker is not None
        forgotten = self.brokers[one.sender].crashes > one.crashes
        site.broker.journal.confirm(Firm(one, int(message.number), marked or forgotten), b"")

    def links(self) -> list[BrokerConnection]:
        """Return the connections of the brokers that run."""
        return [one for site in self.brokers.values() for one in site.connections()]

    def check(self) -> None:
        """Ask the links of who did something for their invariants."""
        for name in self.touched:
            for one in self.brokers[name].connections():
                one.link.check()
        for (name, queue), most in self.ceilings.items():
            broker = self.brokers[name].broker if name in self.touched else None
            held = None if broker is None else broker.table.queues.get(queue)
            if held is not None and held.count > most:
                self.world.violation(
                    f"{queue} of {name} holds {held.count} messages: {most} are pulled, and at hand, at most"
                )
        super().check()


class DialledRun(Trial):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    bounded = True
    """Whether the hub may take no large messages."""
    frame_octets_min = 512

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        lots = Lots(f"{seed}/dialling")
        self.lots: Final = lots
        self.dialers: Final = ["a", "b"][: lots.between(1, 2)]
        self.calm: Final = lots.chance(0.1)
        self.large: Final = lots.chance(0.5)
        self.limited: Final = lots.chance(0.2)
        self.letters: Final = lots.chance(0.5)
        most = lots.between(1_000, 8_000) if self.large and lots.chance(0.4) else 0
        self.most: Final = most if self.bounded else 0
        self.announced: Final = lots.chance(0.5)
        blueprints = {name: self._blueprint(name) for name in [*self.dialers, HUB]}
        self.network: Final = Dialling(seed, blueprints, lines=lines)
        super().__init__(self.network.world)
        self.network.world.events_max = EVENTS_MAX
        for site in self.network.brokers.values():
            site.most = self.most if self.announced else 0
            options = site.amqp
            options.message_octets_max = self.most or options.message_octets_max
            options.credit = lots.one_of((2, 10, 1_000))
            options.credit_low = options.credit // 3
            options.frame_octets_max = max(lots.one_of((512, 4_096, 128 * 1024)), self.frame_octets_min)
            options.large_octets = -1 if self.most else LARGE_FROM
            options.write_high_octets = lots.one_of((2_000, 1 << 20))
        self.sent = 0

    def _blueprint(self, name: str) -> Blueprint:
        lots = self.lots
        if name == HUB:
            queues = [f"{way}-{one}{end}" for one in self.dialers for way, end in _ends()]
            settings: dict[str, object] = {"max_octets": FULL, "full": lots.one_of((Full.BLOCK, Full.FAIL))}
            policies = (PolicyEntry(pattern="#", settings=settings if self.limited else {}),)
            config = BrokerConfig(broker=BrokerSettings(name=name), queues=_queues(queues), policies=policies)
            return Blueprint(config=config)
        elements = (
            Element(way=Way.SENDER, queue=f"{SENT}-{name}"),
            Element(way=Way.RECEIVER, queue=f"{FETCHED}-{name}"),
            Element(way=Way.PEER, queue=f"{STORE}-{name}"),
        )
        options = AmqpConnectionOptions(name=f"to-{HUB}", retry_interval=lots.one_of((20, 100, 1_000)) * MILLISECOND)
        entry = AmqpConnectionEntry(options=options, places=(Endpoint("tcp", HUB, 5672),), elements=elements)
        letters = {"dead_letter_address": DEAD if self.letters else "", "max_deliveries": -1}
        config = BrokerConfig(
            broker=BrokerSettings(name=name),
            queues=_queues([f"{way}-{name}" for way in (SENT, FETCHED, STORE)]),
            amqp_connections=(entry,),
            policies=(PolicyEntry(pattern="#", settings=letters),),
        )
        return Blueprint(config=config)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        words = [str(len(self.dialers)), "calm" if self.calm else "", f"most {self.most}" if self.most else ""]
        return " ".join(word for word in words if word)

    # -- the course ----------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        network = self.network
        network.start()
        for name in self.dialers:
            for place, queue in self._readers(name):
                self._read(place, queue, self.lots.one_of((1, 10, 1_000)))
        self._begin()
        for _ in range(self.lots.between(15, 50)):
            self._step()
            network.run(self.lots.skewed(1, 600))
        network.heal()
        for site in network.brokers.values():
            site.switch_connection(start=True)
        if not self.calm:
            self._last_links()
        for _ in range(HEALING_S_MAX):
            network.run(1_000)
            if not self._missing() and self._is_quiet() and not self._kept():
                break
        self._judge()

    def _readers(self, name: str) -> list[tuple[str, str]]:
        """Return where what crosses between ``name`` and the hub is read: a site, and a queue of it."""
        return [(name, f"{FETCHED}-{name}"), (HUB, f"{SENT}-{name}"), (HUB, f"{STORE}-{name}{OUT}")]

    def _read(self, place: str, queue: str, prefetch: int) -> None:
        """Let a program read a queue at one broker."""
        self.network.sites[place].read(f"queue://{queue}", prefetch=prefetch)

    def _begin(self) -> None:
        """Let the brokers meet, before anything is sent."""
        self.network.run(500)

    def _last_links(self) -> None:
        """Some links end when all connections are there, and may not be answered at first; and then more is sent."""
        network, lots = self.network, self.lots
        hub = network.brokers[HUB]
        network.run(2_000)
        self._mute(lots.between(1, 3) * SECOND if lots.chance(0.3) else 0)
        for _ in range(lots.between(0, 3)):
            hub.detach_one(lots)
        network.run(10)
        for _ in range(lots.between(0, 6)):
            self._send()

    def _mute(self, duration: Duration) -> None:
        """Let the hub answer no link for a while; those that are there go on."""
        self.network.brokers[HUB].mute_until = self.network.world.time + duration

    def _is_quiet(self) -> bool:
        links = self.network.links()
        return len(links) == len(self.dialers) and all(
            one.link.state is State.OPEN and not one.link.under_way for one in links
        )

    def _kept(self) -> dict[str, int]:
        """Return how many messages wait, by queue; but for those that are parked, and dead letters."""
        return {
            f"{queue.name} of {site.name}": int(queue.count)
            for site in self.network.sites.values()
            if site.broker is not None
            for queue in site.broker.table.queues.values()
            if queue.count and queue.name not in (DEAD, PARKED)
        }

    def _is_too_large(self, one: Post, more: int = 0) -> bool:
        """Return whether the hub does not take ``one``, or may not where it has ``more`` octets.

        What it is sent counts, and not what it sends.
        """
        return bool(self.most) and one.sender != HUB and one.octets + more > self.most

    def _missing(self) -> list[str]:
        posts = self.network.posts
        return [
            name
            for name, one in posts.items()
            if one.accepted and name not in self.network.seen and not self._is_too_large(one, HEADER_OCTETS)
        ]

    def _judge(self) -> None:
        missing = self._missing()
        if missing:
            self._fault(f"{len(missing)} never came: {missing[:5]}")
        if not self._is_quiet():
            self._fault(f"connections do not come to rest: {[described(one.link) for one in self.network.links()]}")
        for name, count in {} if missing else self._kept().items():
            self._fault(f"{name} keeps {count} messages")
        self._judge_aside()
        for identity, one in self.network.posts.items():
            unmarked = [number for number, marked in one.firm.items() if not marked]
            if len(one.firm) > 1 and self.calm and (self.announced or not self.most):
                self._fault(f"{identity} came twice, and nothing was lost")
            if len(unmarked) > 1 and one.way.startswith(f"queue://{SENT}"):
                self._fault(f"{identity} came as {unmarked}, and was not marked")

    def _judge_aside(self) -> None:
        """What is too large for the peer is where an operator finds it, and nothing else is."""
        aside: dict[str, int] = {}
        for site in self.network.sites.values():
            for queue in (DEAD, PARKED):
                found = None if site.broker is None else site.broker.table.queues.get(queue)
                if found is not None and found.count:
                    aside[f"{site.name} {queue}"] = int(found.count)
        expected = [name for name, one in self.network.posts.items() if one.accepted and self._is_too_large(one)]
        wanted = DEAD if self.letters else PARKED
        count = sum(aside.values())
        if count < len(expected) or (count > 0 and not self.most) or any(not key.endswith(wanted) for key in aside):
            self._fault(f"{len(expected)} are too large for the peer, and set aside are {aside}")

    # -- what happens --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots, network = self.lots, self.network
        what = lots.below(28)
        near, far = lots.one_of(self.dialers), HUB
        if what < 12 or self.calm:
            self._send()
        elif what < 15:
            network.cut(near, far, silent=lots.chance(0.3))
        elif what < 17:
            one, other = (near, far) if lots.chance(0.5) else (far, near)
            network.deafen(one, other)
        elif what < 18:
            network.slow(near, far)
        elif what < 20:
            network.heal()
        elif what < 21:
            network.brokers[near].switch_connection(start=lots.chance(0.5))
        elif what < 22:
            network.sites[lots.one_of([*self.dialers, HUB])].stop()
        elif what < 24:
            network.brokers[HUB].detach_one(lots)
        elif what < 25:
            self._mute(lots.between(1, MUTE_S_MAX) * SECOND)
            network.brokers[HUB].detach_one(lots)
        else:
            network.sites[lots.one_of([*self.dialers, HUB])].crash(torn=lots.chance(0.5))
            if lots.chance(0.7):
                network.heal()

    def _send(self) -> None:
        name = self.lots.one_of(self.dialers)
        sender, queue, way = self.lots.one_of(self._ways(name))
        site = self.network.sites[sender]
        if site.broker is None:
            return
        for _ in range(self.lots.between(1, 12)):
            identity = f"m{self.sent}"
            self.sent += 1
            size = self.lots.between(LARGE_FROM, LARGE_MAX) if self.large and self.lots.chance(0.15) else 0
            octets = composed(identity, size or self.lots.skewed(10, LARGE_FROM // 2))
            carrier = name if way.startswith(STORE) else sender
            one = Post(f"queue://{way}", carrier, len(octets), size)
            one.crashes = self.network.brokers[carrier].crashes
            self.network.posts[identity] = one
            site.turn(partial(self._publish, site, queue, octets, one))

    def _ways(self, name: str) -> tuple[tuple[str, str, str], ...]:
        """Return who sends, where to, and in which queue it is to end: of what crosses between ``name`` and the hub."""
        return (
            (name, f"{SENT}-{name}", f"{SENT}-{name}"),
            (HUB, f"{FETCHED}-{name}", f"{FETCHED}-{name}"),
            (HUB, f"{STORE}-{name}{STORED}", f"{STORE}-{name}{OUT}"),
        )

    def _publish(self, site: Site, queue: str, octets: bytes, one: Post) -> None:
        broker = site.broker
        assert broker is not None
        try:
            post(broker, queue, octets, self._routing(queue))
        except EntrepotError as error:  # an address of the hub is full
            site.world.note(f"refused: {error.message}")
            return
        broker.journal.confirm(Accepted(one), b"")

    def _routing(self, address: str) -> int:
        """Return how what is sent to ``address`` is routed."""
        return ANYCAST

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        network = self.network
        links = network.links()
        return {
            "messages sent": self.sent,
            "messages confirmed": sum(one.accepted for one in network.posts.values()),
            "messages consumed": sum(len(places) for places in network.seen.values()),
            "messages too large for the peer": sum(self._is_too_large(one) for one in network.posts.values()),
            "messages that came twice": sum(len(one.firm) > 1 for one in network.posts.values()),
            "connections": sum(one.link.counts.connections for one in links),
            "messages given back": sum(one.link.counts.requeued for one in links),
            "events": network.world.events,
            **network.world.counts,
        }


def _ends() -> list[tuple[str, str]]:
    """Return the queues of the hub for one who dials it: what each begins and ends with."""
    return [(SENT, ""), (FETCHED, ""), (STORE, STORED), (STORE, OUT)]


def _queues(names: list[str]) -> tuple[QueueDefinition, ...]:
    return tuple(QueueDefinition(name=name, address=name, routing=ANYCAST) for name in names)


def composed(identity: str, size: int, durable: bool = True) -> bytes:
    """Return a message of AMQP whose body has ``size`` octets."""
    out = BytesWriter()
    write_header(out, Header(durable=durable))
    write_table(out, APPLICATION_PROPERTIES, {IDENTITY: identity}, False)
    put_descriptor(out, DATA)
    out.append(BINARY_32)
    out.write(size.to_bytes(4, "big") + b"x" * size)
    return bytes(out.getvalue())


def post(broker: BrokerCore, address: str, octets: bytes, routing: int = ANYCAST, origin: int = 0) -> None:
    """Send a message, as a program does: one that is long is streamed to disk. Raises EntrepotError.

    ``origin``: the number of its connection.
    """
    target = broker.target([Destination(address, routing)])
    head = find_body(octets)
    if head is None or head.length < LARGE_FROM:
        message = message_of(octets, broker.wall).message
        message.address = target.name
        message.origin = origin
        broker.send(message, target)
        return
    large = LargeArrival(broker, octets, head)
    try:
        message = large.complete(broker.wall).message
        message.address = target.name
        message.origin = origin
        broker.send(message, target)
    finally:
        large.finish()
