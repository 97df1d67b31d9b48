"""What becomes of each message that may be drawn from one simulated broker to another: for `drawn.py`.

A message has a due for each place that must get it: one of a queue, and one at each broker that draws a topic. What
comes to a broker by drawing is heard of on its way into a queue there, and once more when the disk has it; what the
broker that it came from settles for who draws must be on that disk by then.

A broker that has a message gives it to nobody else while the connection lives over which it came: only when that has
ended, the other broker cannot know what arrived, and may give it to somebody else. That is what drawing promises and no
more, so such a message may be at two places, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.cluster.carrying.draw_options import ActiveMQOptions, ArtemisOptions
from entrepot.cluster.carrying.drawing import DrawConnector, DrawnBridge, topic_queue
from entrepot.cluster.dialled import Dialled
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import MESSAGE_CONSUMED, MESSAGE_DELIVERED, Fact, Listener, MessageFact, MessageHandled
from entrepot.core.leases.wanting import LeaseDemand
from entrepot.core.observing import observe
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import durable_queue_name
from entrepot.journal.log import Waiter
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.session import Session, Shell
from entrepot.simulation.cables import End
from entrepot.simulation.networks import Network
from entrepot.simulation.postings import IDENTITY
from entrepot.simulation.sites import Blueprint, Site
from entrepot.simulation.subscribers import Reader

FAR: Final = "far"
TOPIC: Final = "T"


class Letter:
    """One message. ``life``: which run of the far broker it was sent to; ``dues``: who must get it."""

    def __init__(self, identity: str, address: str, durable: bool, life: int) -> None:
        self.identity: Final = identity
        self.address: Final = address
        self.durable: Final = durable
        self.life: Final = life
        self.confirmed = False
        self.deleted = False  # with its queue


class Due:
    """What one place gets of a letter. ``taken``: who drew it, and over which connection; ``kept``: whose disk has it.

    ``firm``: what was settled by readers, and that on disk, as ``site number``.
    """

    def __init__(self, letter: Letter, place: str) -> None:
        self.letter: Final = letter
        self.place: Final = place
        self.taken: list[tuple[str, End]] = []
        self.kept: dict[str, None] = {}
        self.firm: dict[str, None] = {}
        self.came = False
        self.parted = False  # a connection ended with it: it may be at two places

    def in_doubt(self) -> bool:
        """Return whether all connections are over that it came over: the far broker may have it still."""
        return all(is_over(line) for _, line in self.taken)

    def __str__(self) -> str:
        return f"{self.letter.identity}{f' of {self.place}' if self.place else ''}"


class Kept(Waiter):
    """Notes that a broker which drew a message has it on disk."""

    def __init__(self, due: Due, site: DrawnSite) -> None:
        self.due = due
        self.site = site

    def stored(self, token: bytes) -> None:
        """It must not be lost any more, and must not come again."""
        self.due.kept[self.site.name] = None

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It is not there yet: a disk that was full writes it when there is room."""
        self.site.coming.append(self.due)


class Firm(Waiter):
    """Notes that a message is settled, on disk."""

    def __init__(self, due: Due, where: str) -> None:
        self.due = due
        self.where = where

    def stored(self, token: bytes) -> None:
        """No crash takes it back."""
        self.due.firm[self.where] = None

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It may come again."""


class Confirmed(Waiter):
    """Notes that a producer was told."""

    def __init__(self, letter: Letter) -> None:
        self.letter = letter

    def stored(self, token: bytes) -> None:
        """It counts on it."""
        self.letter.confirmed = True

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It was refused."""


class Ear(Listener):
    """Hears what comes into queues at a site, and what is settled there."""

    def __init__(self, site: DrawnSite) -> None:
        super().__init__(0, MESSAGE_DELIVERED | MESSAGE_CONSUMED)
        self.site: Final = site

    def heard(self, fact: Fact) -> None:
        """Tell the ledger."""
        if not isinstance(fact, MessageFact) or fact.message is None:
            return
        rare = fact.message.rare
        if fact.kind == MESSAGE_DELIVERED and rare is not None and rare.bridged:
            self.site.drawn.drew(self.site, fact.message, bytes(rare.duplicate_id), topic=_is_topic(fact))
        elif isinstance(fact, MessageHandled) and self._is_of_a_draw(fact):
            self.site.drawn.acknowledged(fact.message, fact.place.name)

    def _is_of_a_draw(self, fact: MessageHandled) -> bool:
        settled = self.site.name == FAR and fact.kind == MESSAGE_CONSUMED
        return settled and int(fact.consumer) not in self.site.keys_of_readers()


def _is_topic(fact: MessageFact) -> bool:
    return fact.place.routing == MULTICAST


class DrawnSite(Site):
    """A broker's machine that draws from the far one, or is that. ``entry``: how it draws, None for the far one.

    ``demands``: of leases that want more, by what they read; they end with the process.
    """

    def __init__(self, network: Drawn, name: str, blueprint: Blueprint) -> None:
        super().__init__(network, name, blueprint)
        self.drawn: Final = network
        self.entry: Final = blueprint.draws[0] if blueprint.draws else None
        self.demands: dict[str, LeaseDemand] = {}
        self.told: list[tuple[Due, bytes, End]] = []  # what came in this turn, as far as it was not refused
        self.coming: list[Due] = []  # of which is to be heard when the disk has it

    # -- its broker ----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the broker, unless it runs: not on a disk that is full."""
        if self.broker is None:
            self.disk.room.make()
        super().boot()

    def _connect(self) -> None:
        self.drawn.found_again(self)
        super()._connect()
        made = self._running()
        observe(made.broker, Ear(self))
        for one in made.draws:
            made.fetch(one, self._perform, self.world.time)

    def crash(self, *, torn: bool) -> None:
        """The process dies, or the machine; who read by lease is gone, too."""
        self.demands.clear()
        self.told.clear()
        self.coming.clear()
        super().crash(torn=torn)

    def turn(self, action: Callable[[], object]) -> None:
        """Do ``action`` as one turn, and hear when the disk has what came in it."""
        super().turn(partial(self._do, action))

    def _do(self, action: Callable[[], object]) -> None:
        action()
        broker = self.broker
        if self.told and broker is not None:
            self._look_what_came(broker)
        if self.coming and broker is not None and broker.journal.refusal() is None:
            coming, self.coming = self.coming, []
            for due in coming:
                broker.journal.confirm(Kept(due, self), b"")

    def _look_what_came(self, broker: BrokerCore) -> None:
        """What is of a topic is told of before it is stored, and may have been refused then: its id is not known."""
        told, self.told = self.told, []
        seen = [one.ids for one in broker.sending.duplicates.addresses.values()]
        for due, mark, line in told:
            if any(mark in ids for ids in seen):
                self.drawn.came(self, due, mark, line)

    def answer(self, shell: Shell, bridge: Dialled, peer: str) -> Session:
        """Make the session of a connection that draws from here."""
        if isinstance(bridge, DrawnBridge) and isinstance(bridge.entry.options, ActiveMQOptions):
            return self.greet(shell, self.listening(), peer)
        return super().answer(shell, bridge, peer)

    # -- what draws ----------------------------------------------------------------------------------------------------

    @property
    def connector(self) -> DrawConnector | None:
        """Return what draws at a broker that runs."""
        return None if self.broker is None or self.made is None or not self.made.draws else self.made.draws[0]

    @property
    def bridge(self) -> DrawnBridge | None:
        """Return its connection, while there is one or is to be one."""
        return None if self.connector is None else self.connector.bridge

    @property
    def line(self) -> End | None:
        """Return our end of the cable that messages come over."""
        bridge = self.bridge
        return None if bridge is None else self.cables.get((bridge, bridge.attempt))

    def switch_draw(self, *, start: bool) -> None:
        """Stop or start it, as ``entrepot bridge`` does."""
        connector = self.connector
        if connector is None or self.stopping:
            return
        if start and not connector.started:
            self.turn(partial(self._running().fetch, connector, self._perform, self.world.time))
        elif not start and connector.started:
            self.turn(partial(connector.leave, self.world.time))

    # -- who reads -----------------------------------------------------------------------------------------------------

    def keys_of_readers(self) -> list[int]:
        """Return the keys of the consumers that programs have here."""
        return [int(consumer.key) for reader in self.readers.values() for consumer in reader.consumers]

    def want(self, key: str, place: Destination) -> None:
        """Somebody reads by lease, and wants more: what comes stays."""
        if key not in self.demands:
            self.turn(partial(self._want, key, place))

    def _want(self, key: str, place: Destination) -> None:
        broker = self.broker
        assert broker is not None
        demand = LeaseDemand(broker.leases.need(place, "spark", True), broker.ids.consumer_key())
        broker.subscribe(demand)
        self.demands[key] = demand

    def want_no_more(self, key: str) -> None:
        """The connection of the lease ends."""
        demand = self.demands.pop(key, None)
        if demand is not None and self.broker is not None:
            self.turn(partial(self.broker.unsubscribe, demand))


class Drawn(Network):
    """The ledger. ``dues``: by letter and place; ``marks``: of what came, by site and the id that it is known by."""

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.letters: Final[dict[str, Letter]] = {}
        self.dues: Final[dict[tuple[str, str], Due]] = {}
        self.marks: Final[dict[tuple[str, bytes], Due]] = {}
        super().__init__(seed, blueprints, lines=lines)

    def site(self, name: str, blueprint: Blueprint) -> Site:
        """Return a new site."""
        return DrawnSite(self, name, blueprint)

    @property
    def brokers(self) -> dict[str, DrawnSite]:
        """Return the sites, as what they are."""
        return {name: site for name, site in self.sites.items() if isinstance(site, DrawnSite)}

    @property
    def nears(self) -> list[DrawnSite]:
        """Return those that draw."""
        return [site for site in self.brokers.values() if site.entry is not None]

    def due(self, message: Message, place: str) -> Due:
        """Return what ``message`` is to ``place``, "" for a message of a queue."""
        return self.due_of(identity_of(message), place)

    def due_of(self, identity: str, place: str) -> Due:
        """Return what a letter is to ``place``; made when it is asked for first."""
        found = self.dues.get((identity, place))
        if found is None:
            found = self.dues[identity, place] = Due(self.letters[identity], place)
        return found

    # -- what is heard -------------------------------------------------------------------------------------------------

    def drew(self, site: DrawnSite, message: Message, mark: bytes, *, topic: bool) -> None:
        """A message was drawn, and goes into a queue of ``site``."""
        due = self.due(message, site.name if topic else "")
        self.world.note(f"{due} comes to {site.name} as {message.number}")
        line = site.line
        assert line is not None, "a message came, and there is no connection"
        site.told.append((due, mark, line))

    def came(self, site: DrawnSite, due: Due, mark: bytes, line: End) -> None:
        """It is stored there."""
        self.world.count("messages drawn")
        if site.name in due.kept:
            self.world.violation(f"{due} comes to {site.name} again, whose disk has it")
        if any(where.startswith(f"{FAR} ") for where in due.firm):
            if not is_over(line):
                self.world.violation(f"{due} comes to {site.name}, and was read at {FAR}")
            self._part(due)  # it was on its way when the other side gave the connection up
        self._look_for_another(due, site.name)
        due.taken.append((site.name, line))
        self.marks[site.name, mark] = due
        site.coming.append(due)

    def _look_for_another(self, due: Due, name: str) -> None:
        """``name`` has it: nobody else does, unless the connection ended over which he got it."""
        for other, line in due.taken:
            if other == name:
                continue
            if not is_over(line):
                self.world.violation(f"{due} is given to {name} while {other} has it")
            self._part(due)

    def _part(self, due: Due) -> None:
        if not due.parted:
            due.parted = True
            self.world.count("messages at two places behind a lost connection")

    def acknowledged(self, message: Message, queue: str) -> None:
        """The far broker has settled a message for who draws."""
        place = next((near.name for near in self.nears if self.keeper(near) == queue), "")
        due = self.due(message, place)
        self.world.count("messages acknowledged")
        if not due.kept:
            self.world.violation(f"{due} is acknowledged, and no disk has it")

    def found_again(self, site: DrawnSite) -> None:
        """``site`` has read its journal: what it knows to have come is on its disk, told of or not."""
        assert site.broker is not None
        for seen in site.broker.sending.duplicates.addresses.values():
            for mark in seen.ids:
                due = self.marks.get((site.name, bytes(mark)))
                if due is not None:
                    due.kept[site.name] = None

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        due = self.due(message, site.name if reader.text.startswith("topic") else "")
        due.came = True
        self.world.note(f"{due} is read at {site.name} as {message.number}")
        self.world.count(
            "messages read at the far broker" if site.name == FAR else "messages read where they are drawn"
        )
        if site.name == FAR:
            self._look_for_another(due, FAR)
        assert site.broker is not None
        site.broker.journal.confirm(Firm(due, f"{site.name} {message.number}"), b"")

    # -- what holds always ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Ask the links for their invariants, and look at what is on its way."""
        for name in self.touched:
            bridge = self.brokers[name].bridge
            if bridge is not None:
                bridge.link.check()
        if FAR in self.touched:
            self._look_on_the_way()
        super().check()

    def _look_on_the_way(self) -> None:
        far = self.brokers[FAR]
        if far.broker is None:
            return
        readers = far.keys_of_readers()
        for queue in far.broker.table.queues.values():
            for consumer in queue.roster.consumers:
                if consumer.in_flight and int(consumer.key) not in readers:
                    self._look_at(queue, [octets_of(one.message) for one in consumer.in_flight.values()])

    def _look_at(self, queue: Queue, sizes: list[int]) -> None:
        """No more is on its way from ``queue`` than somebody who draws has asked for."""
        asked = [near.entry.options for near in self.nears if near.entry is not None]
        messages = max((one.prefetch for one in asked if isinstance(one, ActiveMQOptions)), default=0)
        octets = max((one.window for one in asked if isinstance(one, ArtemisOptions)), default=0)
        if len(sizes) > messages and sum(sizes[:-1]) > octets:
            self.world.violation(f"{len(sizes)} messages with {sum(sizes)} octets are on their way from {queue.name}")

    def keeper(self, near: DrawnSite) -> str:
        """Return the queue of the far broker that keeps for ``near`` what is sent to the topic."""
        assert near.entry is not None
        name = topic_queue(near.name, TOPIC)
        if isinstance(near.entry.options, ActiveMQOptions):
            return durable_queue_name(f"entrepot-{near.name}", name)
        return name


def is_over(line: End) -> bool:
    """Return whether either end of a cable knows that it is cut, or closed."""
    return line.gone or line.other is None or line.other.gone


def octets_of(message: Message) -> int:
    """Return what ``message`` takes of a window until it is acknowledged: a large one next to nothing."""
    return 0 if message.rare is not None and message.rare.large_length else len(message.raw)


def identity_of(message: Message) -> str:
    """Return what a producer called ``message``."""
    return str(message.language.fact(message, IDENTITY))
