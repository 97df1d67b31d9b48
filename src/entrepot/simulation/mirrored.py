"""Brokers that mirror themselves into one another over AMQP, from seeds, under faults: ``--mirroring``.

One broker mirrors itself into a second one, or two each into the other, or three in a ring; drawn connections have
``sync``. Clients use one broker at a time, sometimes another one later: they send to queues and to a topic with two
subscriptions, small messages and such that are streamed, take what is there, make and delete a queue, and use an
address that is not mirrored. Cables are cut, loud or silent, deaf or slow; brokers crash with torn disks, and stop.

What must hold when all has healed: each broker has the same messages in the same queues, each once, and in the same
order where clients did not move before all was told; what was confirmed is there unless it was taken, and what was
confirmed to be taken is nowhere; nothing is set aside; and every answer was given. What is about the address that is
not mirrored is answered though the other side is away.

In some runs the broker that clients use never comes back. Then the others must have what was confirmed there while all
connections had ``sync``: this is what it promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.cluster.broker_connections.options import AmqpConnectionEntry, AmqpConnectionOptions, MirrorOptions
from entrepot.cluster.carrying.parking import PARKED
from entrepot.cluster.link import State
from entrepot.config.model import BrokerConfig, BrokerSettings, PolicyEntry
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.mirrors.identity import MIRROR
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.amqp.server import AmqpServerSession
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.simulation.dialling import LARGE_FROM, LARGE_MAX, DialledSite, Dialling, composed, post
from entrepot.simulation.postings import IDENTITY
from entrepot.simulation.sites import Blueprint
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.trial import Trial
from entrepot.simulation.world import Lots

WAYS: Final = ((("a", "b"),), (("a", "b"), ("b", "a")), (("a", "b"), ("b", "c"), ("c", "a")))
QUEUES: Final = ("q", "p")
TOPIC: Final = "t"
SUBSCRIPTIONS: Final = ("t1", "t2")
SHORT: Final = "r"  # a queue that comes and goes
ALONE: Final = "plain"  # it is mirrored nowhere
FILTER: Final = f"!{ALONE}"
EVENTS_MAX: Final = 60_000  # twenty times what a run takes: what goes round for ever is found by it
HEALING_S_MAX: Final = 120
BEGIN_S_MAX: Final = 60
ALONE_NS: Final = 5 * SECOND  # in which what is not mirrored is answered
NODES: Final = 1_000_000  # numbers of clients begin here: those of connections are below
FORMS: Final = (QUEUES[0], QUEUES[0], QUEUES[1], TOPIC, SHORT, ALONE)


class Deed:
    """Something that a client did: it sent ``identity``, or took it out of ``queue``. ``waits``: for another broker."""

    def __init__(self, site: str, run: int, identity: str, queue: str, begun: Instant) -> None:
        self.site: Final = site
        self.run: Final = run
        self.identity: Final = identity
        self.queue: Final = queue
        self.begun: Final = begun
        self.durable = True
        self.taken = False
        self.waits = False
        self.refused = False
        self.answered = False
        self.lives: dict[str, int] = {}  # how often each broker had started by then


class Answered(Confirmation):
    """The answer that a client waits for."""

    def __init__(self, client: Client, deeds: list[Deed]) -> None:
        super().__init__(client.confirmations)
        self.deeds: Final = deeds
        self.world: Final = client.site.world

    def give(self) -> None:
        """It is told."""
        for deed in self.deeds:
            deed.answered = True
        self.world.note(f"answered {[deed.identity for deed in self.deeds]}")

    def refuse(self, error: EntrepotError) -> None:
        """It is told that it is not stored."""
        for deed in self.deeds:
            deed.refused = True


class Client:
    """A program at a site, for as long as its broker runs."""

    def __init__(self, site: DialledSite, broker: BrokerCore, number: int) -> None:
        self.site: Final = site
        self.broker: Final = broker
        self.number: Final = number
        self.confirmations: Final = Confirmations(broker.journal, number)
        self.reader: Grabbing | None = None

    def ask(self, deeds: list[Deed], stored: bool) -> None:
        """Have ``deeds`` answered; at once where nothing was ``stored``, and nobody else must have them."""
        answer = Answered(self, deeds)
        if stored or self.confirmations.owes() or self.confirmations.waiting:
            self.confirmations.ask(answer)
        else:
            answer.give()


class Grabbing(Reader):
    """Takes what comes, and keeps it until its client says."""

    def wake(self) -> None:
        """Nothing is settled by itself."""


class Mirrors(Dialling):
    """The network."""

    def consumed(self, site: object, reader: Reader, message: Message, deliveries: int) -> None:
        """Nobody reads but clients, which keep a ledger of their own."""


class MirroredRun(Trial):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        lots = Lots(f"{seed}/mirroring")
        self.lots: Final = lots
        self.ways: Final = lots.one_of(WAYS)
        self.names: Final = sorted({name for way in self.ways for name in way})
        self.in_step: Final = lots.chance(0.6)
        self.steady: Final = len(self.ways) == 1 or lots.chance(0.3)  # clients stay where they are
        self.patient: Final = lots.chance(0.6)  # they move when all was told
        self.lost: Final = lots.chance(0.4)  # the broker that they use does not come back
        self.calm: Final = lots.chance(0.1)
        self.large: Final = lots.chance(0.4)
        blueprints = {name: self._blueprint(name) for name in self.names}
        self.network: Final = Mirrors(seed, blueprints, lines=lines)
        super().__init__(self.network.world)
        self.network.world.events_max = EVENTS_MAX
        for site in self.network.brokers.values():
            options = site.amqp
            options.credit = lots.one_of((2, 10, 1_000))
            options.credit_low = options.credit // 3
            options.frame_octets_max = lots.one_of((2_048, 4_096, 128 * 1024))
            options.large_octets = LARGE_FROM
        self.active = "a"
        self.clients: dict[str, list[Client]] = {}
        self.deeds: list[Deed] = []
        self.orders: list[Deed] = []  # to make a queue, or to delete it
        self.emptied: dict[str, None] = {}  # what went with a queue that was deleted, or may have
        self.sent = 0
        self.born = NODES

    def _blueprint(self, name: str) -> Blueprint:
        lots = self.lots
        entries: list[AmqpConnectionEntry] = []
        for near, far in self.ways:
            if near != name:
                continue
            interval = lots.one_of((20, 100, 1_000)) * MILLISECOND
            entries.append(
                AmqpConnectionEntry(
                    options=AmqpConnectionOptions(name=f"to-{far}", retry_interval=interval),
                    places=(Endpoint("tcp", far, 5672),),
                    mirror=MirrorOptions(address_filter=FILTER, sync=self.in_step),
                )
            )
        queues = [QueueDefinition(name=ALONE, address=ALONE, routing=ANYCAST)]
        if name == "a":
            queues += [QueueDefinition(name=one, address=one, routing=ANYCAST) for one in QUEUES]
            queues += [QueueDefinition(name=one, address=TOPIC, routing=MULTICAST) for one in SUBSCRIPTIONS]
        policies = (PolicyEntry(pattern="#", settings={"max_deliveries": -1}),)
        config = BrokerConfig(
            broker=BrokerSettings(name=name), queues=tuple(queues), amqp_connections=tuple(entries), policies=policies
        )
        return Blueprint(config=config)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        words = ["-".join(self.names), str(len(self.ways)), "sync" if self.in_step else "", "lost" if self.lost else ""]
        return " ".join(word for word in words if word)

    # -- the course ----------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        network, lots = self.network, self.lots
        network.start()
        self._settle_down(BEGIN_S_MAX)
        if not self._is_quiet():
            self._fault("the brokers do not meet")
        for _ in range(lots.between(15, 60)):
            self._step()
            network.run(lots.skewed(1, 600))
            self._look_alone()
        gone = ""
        if self.lost and not self.calm:
            gone = self.active
            self._do(lots.between(1, 4))
            network.run(lots.skewed(1, 60))
            network.sites[gone].crash(torn=lots.chance(0.7))
        self._heal(gone)
        self._settle_down(HEALING_S_MAX, gone)
        self._judge(gone)

    def _heal(self, gone: str) -> None:
        """End all faults; ``gone`` stays away."""
        network = self.network
        network.cuts.clear()
        for site in network.brokers.values():
            if site.name != gone:
                site.boot()
                site.switch_connection(start=True)

    def _settle_down(self, seconds: int, gone: str = "") -> None:
        for _ in range(seconds):
            self.network.run(1_000)
            if self._is_quiet(gone):
                return

    def _is_quiet(self, gone: str = "") -> bool:
        """Return whether everything was told that can be, and is done there."""
        for near, far in self.ways:
            if gone in (near, far):
                continue
            links = self.network.brokers[near].connections()
            told = self._queue(near, f"{MIRROR}to-{far}")
            if not links or links[0].link.state is not State.OPEN or told is None or told.count:
                return False
        return not any(link["looked_for"] for link in self._links())

    def _links(self) -> Iterator[dict[str, object]]:
        """Yield what each broker says of those that mirror themselves into it."""
        for site in self.network.brokers.values():
            for end in site.ends if site.broker is not None else []:
                if isinstance(end.session, AmqpServerSession) and not end.gone:
                    yield from end.session.mirrors()

    def _queue(self, site: str, name: str) -> Queue | None:
        broker = self.network.sites[site].broker
        return None if broker is None else broker.table.queues.get(name)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots, network = self.lots, self.network
        what = lots.below(30)
        near, far = lots.one_of(self.ways)
        if what < 16 or self.calm:
            self._do(lots.between(1, 3))
        elif what < 18:
            network.cut(near, far, silent=lots.chance(0.3))
        elif what < 20:
            one, other = (near, far) if lots.chance(0.5) else (far, near)
            network.deafen(one, other)
        elif what < 21:
            network.slow(near, far)
        elif what < 23:
            network.heal()
        elif what < 24:
            network.brokers[near].switch_connection(start=lots.chance(0.6))
        elif what < 25:
            network.sites[lots.one_of(self.names)].stop()
        elif what < 26 and not self.steady:
            self._move()
        else:
            network.sites[lots.one_of(self.names)].crash(torn=lots.chance(0.5))
            if lots.chance(0.7):
                network.heal()

    def _move(self) -> None:
        """Clients go to another broker; those that are patient wait until it knows all."""
        if self.patient:
            self.network.heal()
            for site in self.network.brokers.values():
                site.switch_connection(start=True)
            self._settle_down(HEALING_S_MAX)
            if not self._is_quiet():
                self._fault("not all is told, though nothing is broken")
        self.active = self.lots.one_of([name for name in self.names if name != self.active])

    def _do(self, times: int) -> None:
        for _ in range(times):
            site = self.network.brokers[self.active]
            if site.broker is None or site.stopping:
                return
            client = self._client(site, site.broker)
            what = self.lots.below(20)
            if what < 11:
                self._send(client, self.lots.one_of(FORMS))
            elif what < 17:
                self._take(client, self.lots.one_of((*QUEUES, *QUEUES, *SUBSCRIPTIONS, SHORT, ALONE)))
            elif what < 19 and (self.steady or self.patient):
                site.turn(partial(self._make, client, delete=SHORT in site.broker.table.queues))

    def _client(self, site: DialledSite, broker: BrokerCore) -> Client:
        """Return one of a few at ``site``: nobody uses what is not mirrored, and something that is."""
        known = [one for one in self.clients.get(site.name, []) if one.broker is broker]
        if len(known) < 4:
            self.born += 1
            known.append(Client(site, broker, self.born))
            self.clients[site.name] = known
        return self.lots.one_of(known[:-1] or known)

    def _loner(self, client: Client) -> Client:
        known = self.clients[client.site.name]
        if len(known) < 4:
            self.born += 1
            known.insert(0, Client(client.site, client.broker, self.born))
        return known[-1]

    def _make(self, client: Client, *, delete: bool) -> None:
        """An operator makes a queue, or deletes it with what is in it."""
        broker = client.broker
        what = f"the {'end' if delete else 'beginning'}"
        order = Deed(client.site.name, client.site.runs, what, SHORT, self.world.time)
        order.waits = self.in_step
        self.orders.append(order)
        if not delete:
            broker.queues.create(QueueDefinition(name=SHORT, address=SHORT, routing=ANYCAST))
        else:
            queue = broker.table.queues.get(SHORT)
            if queue is not None:
                broker.queues.delete(queue, "it is not needed")
            self.emptied.update(dict.fromkeys(deed.identity for deed in self.deeds if deed.queue == SHORT))
        client.ask([order], True)

    def _send(self, client: Client, address: str) -> None:
        if address == ALONE:
            client = self._loner(client)
        if address == SHORT and SHORT not in client.broker.table.queues:
            return
        lots = self.lots
        deeds: list[Deed] = []
        for _ in range(lots.between(1, 6)):
            identity = f"m{self.sent}"
            self.sent += 1
            size = lots.between(LARGE_FROM, LARGE_MAX) if self.large and lots.chance(0.1) else 0
            deed = Deed(client.site.name, client.site.runs, identity, address, self.world.time)
            deed.durable = size > 0 or lots.chance(0.85)
            deed.waits = address != ALONE and self.in_step
            deed.lives = {site.name: site.runs for site in self.network.sites.values()}
            self.deeds.append(deed)
            deeds.append(deed)
            octets = composed(identity, size or lots.skewed(10, LARGE_FROM // 2), deed.durable)
            client.site.turn(partial(self._publish, client, address, octets, deed))

    def _publish(self, client: Client, address: str, octets: bytes, deed: Deed) -> None:
        routing = MULTICAST if address == TOPIC else ANYCAST
        if client.site.broker is not client.broker:
            deed.refused = True
            return
        try:
            post(client.broker, address, octets, routing, client.number)
        except EntrepotError as error:
            deed.refused = True
            client.site.world.note(f"refused: {error.message}")
            return
        client.ask([deed], deed.durable)

    def _take(self, client: Client, queue: str) -> None:
        """Take some of what a queue has, now and a moment later."""
        if queue == ALONE:
            client = self._loner(client)
        if client.reader is not None or queue not in client.broker.table.queues:
            return
        address = TOPIC if queue in SUBSCRIPTIONS else queue
        where = f"topic://{TOPIC}::{queue}" if queue in SUBSCRIPTIONS else f"queue://{address}"
        reader = Grabbing(client.site, where, self.lots.one_of((3, 10, 100)))
        reader.origin = client.number
        client.reader = reader
        site, broker = client.site, client.broker
        keeps, skip = self.lots.chance(0.3), self.lots.skewed(1, 4) - 1
        most = self.lots.between(1, 5)

        def sit() -> None:
            broker.subscribe(reader)
            reader.window.reopen()

        def settle() -> None:
            taken = self._settled(client, reader, queue, skip if keeps else 0, most)
            client.reader = None
            broker.unsubscribe(reader)
            if taken:
                client.ask(taken, True)

        site.turn(sit)
        self.world.later(5 * MILLISECOND, partial(_if_alive, client, settle))

    def _settled(self, client: Client, reader: Grabbing, queue: str, skip: int, most: int) -> list[Deed]:
        taken: list[Deed] = []
        for consumer, message, _ in reader.got[skip : skip + most]:
            held = consumer.queue
            if held is None or not held.settle(consumer, message.number):
                continue
            deed = Deed(client.site.name, client.site.runs, identity_of(message), queue, self.world.time)
            deed.taken = True
            deed.waits = queue != ALONE and self.in_step
            self.deeds.append(deed)
            taken.append(deed)
        return taken

    # -- what must hold ------------------------------------------------------------------------------------------------

    def _look_alone(self) -> None:
        """What is not mirrored waits for nobody."""
        for deed in self.deeds:
            site = self.network.sites[deed.site]
            alive = site.broker is not None and site.runs == deed.run and not deed.refused
            if deed.queue == ALONE and alive and not deed.answered and self.world.time - deed.begun > ALONE_NS:
                self._fault(f"{deed.identity} is not mirrored, and not answered")

    def _judge(self, gone: str) -> None:
        if not self._is_quiet(gone):
            self._fault(f"the mirrors do not come to rest: {self._state(gone)}")
            return
        there = [name for name in self.names if name != gone]
        has = {name: self._contents(name) for name in there}
        self._judge_answers(there, gone)
        broken = gone != "" and len(self.ways) > 2  # what was told on by the one that is gone may be missing behind it
        if not broken:
            self._judge_same(has)
        for deed in self.deeds:
            counts = deed.waits if deed.site == gone else not broken
            if deed.answered and deed.queue != ALONE and counts:
                self._judge_deed(deed, has)
        for name in there:
            aside = self._queue(name, PARKED)
            if aside is not None and aside.count:
                self._fault(f"{name} has set {aside.count} events aside")
        for link in self._links():
            if link["error"]:
                self._fault(f"an event was rejected: {link['error']}")

    def _judge_answers(self, there: list[str], gone: str) -> None:
        """All that a broker which runs was asked for is answered, unless it waits for the one that does not."""
        for deed in (*self.deeds, *self.orders):
            if deed.waits and (deed.site, gone) in self.ways:
                continue
            site = self.network.sites[deed.site]
            if deed.site in there and site.runs == deed.run and not deed.answered and not deed.refused:
                self._fault(f"{deed.identity} of {deed.queue} at {deed.site} was never answered")

    def _judge_same(self, has: dict[str, dict[str, list[str]]]) -> None:
        """All have the same, each message once. What was not confirmed, before a crash, may be anywhere."""
        unsure = {deed.identity: None for deed in self.deeds if not deed.answered or not deed.durable}
        first, *others = has
        in_order = self.steady or self.patient
        ordered = not self.orders or self.orders[-1].answered  # or a crash may have undone it where it was ordered
        for queue in {name: None for each in has.values() for name in each if ordered or name != SHORT}:
            known = [[one for one in has[name].get(queue, []) if one not in unsure] for name in has]
            self._judge_once(queue, has)
            for name, same in zip(others, known[1:], strict=True):
                one, other = (known[0], same) if in_order else (sorted(known[0]), sorted(same))
                if one != other:
                    self._fault(f"of {queue} {first} has {one}, and {name} has {other}")

    def _judge_once(self, queue: str, has: dict[str, dict[str, list[str]]]) -> None:
        """Each has ``queue``, with each message once.

        A broker that starts tells what queues it has, as an Artemis does: one that was deleted may be there again.
        """
        for name, found in has.items():
            listed = found.get(queue, [])
            if len(set(listed)) != len(listed):
                self._fault(f"{name} has a message of {queue} twice: {listed}")
        again = len(self.ways) > 1 and not any(found.get(queue) for found in has.values())
        if not again and not all(queue in found for found in has.values()):
            self._fault(f"not all have the queue {queue}: {[name for name in has if queue in has[name]]}")

    def _judge_deed(self, deed: Deed, has: dict[str, dict[str, list[str]]]) -> None:
        queues = SUBSCRIPTIONS if deed.queue == TOPIC else (deed.queue,)
        for name, found in has.items():
            for queue in queues:
                if deed.taken and deed.identity in found.get(queue, []):
                    self._fault(f"{deed.identity} was taken out of {queue}, and {name} has it")
                lacks = deed.identity not in found.get(queue, [])
                if lacks and not deed.taken and self._is_kept(deed, name) and not self._may_lack(deed, queue):
                    self._fault(f"{deed.identity} of {queue} was confirmed at {deed.site}, and {name} lacks it")

    def _is_kept(self, deed: Deed, name: str) -> bool:
        """Return whether nothing that happened excuses that ``name`` lacks it.

        What is not persistent ends with a broker that has it, and with one that has not told it on.
        """
        if deed.durable:
            return True
        sites = self.network.sites.values()
        others = all(site.runs == deed.lives[site.name] for site in sites if site.name != deed.site)
        return deed.waits and others and (name != deed.site or self.network.sites[name].runs == deed.run)

    def _may_lack(self, deed: Deed, queue: str) -> bool:
        if deed.identity in self.emptied:
            return True
        return any(one.taken and one.identity == deed.identity and one.queue == queue for one in self.deeds)

    def _contents(self, name: str) -> dict[str, list[str]]:
        """Return what the queues of a broker have that are mirrored."""
        broker = self.network.sites[name].broker
        assert broker is not None
        found: dict[str, list[str]] = {}
        for queue in broker.table.queues.values():
            if queue.name in (*QUEUES, *SUBSCRIPTIONS, SHORT):
                found[queue.name] = waiting(queue)
        return found

    def _state(self, gone: str) -> list[str]:
        found: list[str] = []
        for near, far in self.ways:
            if gone not in (near, far):
                told = self._queue(near, f"{MIRROR}to-{far}")
                states = [one.link.state.value for one in self.network.brokers[near].connections()]
                found.append(f"{near} to {far}: {states}, {'no queue' if told is None else told.count} left")
        return [*found, *(f"{link['connector']} looks for {link['looked_for']}" for link in self._links())]

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        deeds = self.deeds
        return {
            "messages sent": self.sent,
            "messages confirmed": sum(one.answered and not one.taken for one in deeds),
            "messages taken": sum(one.answered and one.taken for one in deeds),
            "messages that other brokers had to have": sum(one.answered and one.waits for one in deeds),
            "events": self.network.world.events,
            **self.network.world.counts,
        }


def waiting(queue: Queue) -> list[str]:
    """Return the identities of what ``queue`` has, in its order."""
    queue.backlog.complete()
    walk = queue.stock.walk()
    found: list[str] = []
    while not walk.done:
        found += [identity_of(each.message) for each in walk.step(100)]
    return found


def identity_of(message: Message) -> str:
    """Return what a client called ``message``."""
    return str(message.language.fact(message, IDENTITY))


def _if_alive(client: Client, action: Callable[[], None]) -> None:
    if client.site.broker is client.broker:
        client.site.turn(action)
