"""Brokers that draw messages from another one because somebody reads there, from seeds, under faults: ``--drawing``.

One broker or two draw from the far one, over CORE or OpenWire: two queues, one that an operator may delete and make
again, and a topic. Programs send to the far broker in both languages, durable messages and others, small and large, and
an operator sends some again with the message id that they had. Where they are drawn to, consumers and leases with
demand come and go while messages are on their way; some programs read at the far broker, too. Cables are cut, loud or
silent, deaf or slow; brokers crash with torn disks, are killed, stop in order; disks are slow, or answer nothing for a
while; in some runs who draws has little room, and blocks or refuses.

What must hold after every event: what is acknowledged is on the disk of who drew it; what that disk has does not come
again; what somebody has is given to nobody else while the connection lives over which he got it; and no more is on its
way from a queue than was asked for. When all has healed and nobody reads any more, draws end, and each message is at
one place: it was read there, or waits there. When somebody reads again, all that waits comes to him.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec.structs import replace

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.draw_options import ActiveMQOptions, ArtemisOptions, DrawEntry, DrawOptions
from entrepot.cluster.link import State, described
from entrepot.config.model import BrokerConfig, BrokerSettings, PolicyEntry
from entrepot.core.addressing.address_settings import Full
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.drawing import OPEN
from entrepot.protocols.openwire.bodies import pack_properties, text_message
from entrepot.protocols.openwire.commands import ActiveMQQueue, ActiveMQTopic, MessageId, ProducerId
from entrepot.protocols.openwire.convert import message_of
from entrepot.simulation.drawn_ledger import FAR, TOPIC, Confirmed, Drawn, DrawnSite, Due, Letter, identity_of
from entrepot.simulation.postings import IDENTITY, LARGE_MAX, post, short
from entrepot.simulation.sites import Blueprint
from entrepot.simulation.trial import Trial
from entrepot.simulation.world import Lots

QUEUES: Final = ("Q", "P")
SHORT: Final = "D"  # a queue that an operator may delete
SUBSCRIPTION: Final = "kept"
READ: Final = (*QUEUES, SHORT, TOPIC)
EVENTS_MAX: Final = 400_000
HEALING_S_MAX: Final = 120
SILENCE: Final = 3 * SECOND
FEW_IDS: Final = 8
STALL: Final = 4 * SECOND
FOUND_OUT_MS: Final = 10_000  # by when either side knows that a connection is half open


class DrawnRun(Trial):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        lots = Lots(f"{seed}/drawing")
        self.lots: Final = lots
        self.names: Final = ["near", "next"][: 2 if lots.chance(0.3) else 1]
        self.languages: Final = [lots.one_of(("artemis", "activemq")) for _ in self.names]
        self.limited: Final = lots.chance(0.35)
        self.full: Final = lots.one_of((Full.BLOCK, Full.FAIL))
        self.contended: Final = lots.chance(0.5)  # programs read at the far broker, too
        self.deletes: Final = lots.chance(0.3)
        self.large: Final = lots.chance(0.3)
        self.slow: Final = lots.chance(0.5)
        self.forgetful: Final = not self.contended and len(self.names) == 1 and Lots(f"{seed}/ids").chance(0.3)
        blueprints = {name: self._blueprint(name) for name in [FAR, *self.names]}
        for name, language in zip(self.names, self.languages, strict=True):
            blueprints[name] = replace(blueprints[name], draws=(self._entry(language),))
        self.network: Final = Drawn(seed, blueprints, lines=lines)
        super().__init__(self.network.world)
        self.network.world.events_max = EVENTS_MAX
        self.sent = 0

    def _blueprint(self, name: str) -> Blueprint:
        settings: dict[str, object] = {"max_deliveries": -1}
        queues = [QueueDefinition(name=one, address=one, routing=ANYCAST) for one in (*QUEUES, SHORT)]
        if name != FAR:
            queues.append(QueueDefinition(name=SUBSCRIPTION, address=TOPIC, routing=MULTICAST))
            if self.limited:
                settings |= {"max_octets": self.lots.one_of((2_000, 8_000)), "full": self.full}
            if self.forgetful:
                settings["id_cache"] = FEW_IDS
        config = BrokerConfig(
            broker=BrokerSettings(name=name),
            queues=tuple(queues),
            policies=(PolicyEntry(pattern="#", settings=settings),),
        )
        return Blueprint(config=config)

    def _entry(self, language: str) -> DrawEntry:
        lots = self.lots
        retry = lots.one_of((50, 200, 1_000)) * MILLISECOND
        options: DrawOptions
        if language == "artemis":
            window = lots.one_of((1_024, 4_096, 1 << 20))
            options = ArtemisOptions(
                name=language, retry=retry, retry_max=SECOND, silence=SILENCE, ttl=SILENCE, window=window
            )
        else:
            prefetch = lots.one_of((1, 3, 10, 1_000))
            options = ActiveMQOptions(name=language, retry=retry, retry_max=SECOND, silence=SILENCE, prefetch=prefetch)
        return DrawEntry(options=options, places=(Endpoint("tcp", FAR, 61616),))

    @property
    def title(self) -> str:
        """Name it, for findings."""
        words = [*self.languages, self.full.name if self.limited else "", "contended" if self.contended else ""]
        return " ".join(word for word in words if word)

    @property
    def far(self) -> DrawnSite:
        """Return the broker that messages are drawn from."""
        return self.network.brokers[FAR]

    # -- the course ----------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        network, lots = self.network, self.lots
        network.start()
        network.run(200)
        for near in network.nears:  # who reads the topic once has it kept from then on
            self._want(near, TOPIC)
        network.run(500)
        for _ in range(lots.between(20, 70)):
            self._step()
            network.run(lots.skewed(1, 600))
        self._heal()
        self._let_all_leave()
        for site in network.brokers.values():
            for address in READ:
                if site is self.far and (address == TOPIC or not self.contended):
                    continue
                if site is not self.far or lots.chance(0.5):
                    site.read(self._text(address), prefetch=lots.one_of((1, 10, 1_000)))
        self._settle_down(self._is_read_out)
        network.run(1_000)  # what was settled is on disk
        if not self._is_read_out():
            self._fault(f"what waits does not come: {self._kept()}, {self._state()}")
        self._judge({})

    def _heal(self) -> None:
        """End all faults."""
        network = self.network
        network.heal()
        for site in network.brokers.values():
            _quicken(site)
            site.switch_draw(start=True)
        self._make(self.far)

    def _let_all_leave(self) -> None:
        """Nobody reads anywhere: draws end, and what is there is counted."""
        network = self.network
        network.run(FOUND_OUT_MS)
        self._settle_down(self._is_joined)
        if not self._is_joined():
            self._fault(f"who draws does not come to rest: {self._state()}")
        for site in network.brokers.values():
            for key in list(site.readers):
                site.leave(key)
            for key in list(site.demands):
                site.want_no_more(key)
        self._settle_down(self._is_left)
        network.run(1_000)
        if not self._is_left():
            self._fault(f"it is drawn, and nobody reads: {self._state()}")
            return
        self._judge(self._contents())

    def _settle_down(self, done: object) -> None:
        assert callable(done)
        for _ in range(HEALING_S_MAX):
            if done():
                return
            self.network.run(1_000)

    def _is_joined(self) -> bool:
        """Return whether every broker runs, and is joined to the far one."""
        runs = all(site.broker is not None and not site.stopping for site in self.network.brokers.values())
        bridges = [near.bridge for near in self.network.nears]
        return runs and all(one is not None and one.link.state is State.OPEN for one in bridges)

    def _is_left(self) -> bool:
        """Return whether nothing is drawn, nor on its way."""
        return self._is_joined() and all(not near.bridge.drawing for near in self.network.nears if near.bridge)

    def _is_read_out(self) -> bool:
        """Return whether nothing waits anywhere, and draws are at rest."""
        if not self._is_joined() or self._kept():
            return False
        draws = [draw for near in self.network.nears if near.bridge for draw in near.bridge.drawing.values()]
        still = all(draw.state == OPEN and draw.waiting == 0 and draw.fresh == 0 for draw in draws)
        return still and len(draws) == len(READ) * len(self.names)

    def _kept(self) -> dict[str, int]:
        """Return how many messages wait, or are on their way, by queue."""
        return {
            f"{queue.name} of {site.name}": int(queue.count) + int(queue.in_flight)
            for site in self.network.brokers.values()
            if site.broker is not None
            for queue in site.broker.table.queues.values()
            if queue.count or queue.in_flight
        }

    def _contents(self) -> dict[tuple[str, str], list[str]]:
        """Return where each message waits, by identity and place, as `Due.firm` has it."""
        found: dict[tuple[str, str], list[str]] = {}
        for site in self.network.brokers.values():
            assert site.broker is not None
            keepers = {self.network.keeper(near): near.name for near in self.network.nears}
            for queue in site.broker.table.queues.values():
                place = site.name if queue.name == SUBSCRIPTION else keepers.get(queue.name, "")
                queue.backlog.complete()
                walk = queue.stock.walk()
                while not walk.done:
                    for one in walk.step(100):
                        key = (identity_of(one.message), place)
                        found.setdefault(key, []).append(f"{site.name} {one.message.number}")
        return found

    def _state(self) -> list[str]:
        found: list[str] = []
        for near in self.network.nears:
            bridge = near.bridge
            if bridge is None:
                found.append(f"{near.name} has no connection")
                continue
            draws = [f"{key}: {draw.state} {draw.waiting} {draw.why}" for key, draw in bridge.drawing.items()]
            found.append(f"{near.name} {described(bridge.link)} {draws}")
        return found

    # -- what must hold ------------------------------------------------------------------------------------------------

    def _judge(self, waits: dict[tuple[str, str], list[str]]) -> None:
        """Each message was read at one place, or ``waits`` at one."""
        for key in waits:
            self.network.due_of(*key)
        for key, due in self.network.dues.items():
            places = [*due.firm, *waits.get(key, [])]
            if not places and not due.came and self._must_be(due):
                self._fault(f"{due} is lost: {sorted(due.kept) or 'nobody'} had it")
            sites = [place.partition(" ")[0] for place in places]
            if len(sites) > 1 and (len(set(sites)) < len(sites) or not self._is_in_doubt(due)):
                self._fault(f"{due} is doubled: {places}")

    def _is_in_doubt(self, due: Due) -> bool:
        """Return whether connections ended before both sides knew that it was taken."""
        if not due.parted and due.in_doubt():
            self.world.count("messages in doubt, and nobody reads")
        return due.parted or due.in_doubt()

    def _must_be(self, due: Due) -> bool:
        """Return whether somebody counts on it."""
        letter = due.letter
        if due.kept:
            return True
        mortal = not letter.durable and letter.life != self.far.runs
        return letter.confirmed and not letter.deleted and not mortal

    # -- what happens --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots, network = self.lots, self.network
        what = lots.below(40)
        near = lots.one_of(network.nears)
        site = near if lots.chance(0.6) or self.forgetful else self.far  # which, killed, may send again any number
        if what < 13:
            self._send()
        elif what < 19:
            self._come_or_go(near)
        elif what < 21:
            self._contend()
        elif what < 23:
            silent = lots.chance(0.4)
            network.world.count("cuts, silent" if silent else "cuts, loud")
            network.cut(near.name, FAR, silent=silent)
        elif what < 26:
            one, other = (near.name, FAR) if lots.chance(0.7) else (FAR, near.name)
            network.world.count("deaf directions")
            network.deafen(one, other)
        elif what < 27:
            network.slow(near.name, FAR)
        elif what < 30:
            network.heal()
        elif what < 31:
            near.switch_draw(start=lots.chance(0.6))
        elif what < 32:
            site.stop()
        elif what < 35:
            self._disk(site)
        elif what < 36 and self.deletes:
            self._delete()
        else:
            torn = lots.chance(0.6)
            network.world.count("crashes with torn disks" if torn else "processes killed", site.broker is not None)
            site.crash(torn=torn)
            if lots.chance(0.7):
                network.heal()

    def _disk(self, site: DrawnSite) -> None:
        """The disk is slow, answers nothing for a while, is full, or is as it was."""
        if not self.slow or self.lots.chance(0.4):
            _quicken(site)
            return
        if self.lots.chance(0.25):
            self.world.count("disks that are full")
            site.turn(partial(site.disk.room.make, site.disk.used() + self.lots.skewed(1, 4_000)))
            return
        stalls = self.lots.chance(0.4)
        self.world.count("disks that stall" if stalls else "disks that are slow")
        site.disk.sync_delay_max = STALL if stalls else self.lots.one_of((50, 400)) * MILLISECOND
        site.disk.sync_delay_min = site.disk.sync_delay_max // 2

    def _text(self, address: str) -> str:
        return f"topic://{TOPIC}::{SUBSCRIPTION}" if address == TOPIC else f"queue://{address}"

    def _come_or_go(self, near: DrawnSite) -> None:
        """Somebody reads, or reads no more, at once or in a moment."""
        address = self.lots.one_of((QUEUES[0], *READ))
        if near.broker is None or near.stopping:
            return
        text = self._text(address)
        if self.lots.chance(0.5):
            if address in near.demands:
                self.world.count("leases that go")
                near.want_no_more(address)
            else:
                self._want(near, address)
        elif text in near.readers:
            self.world.count("readers that go")
            near.leave(text)
        else:
            self.world.count("readers that come")
            near.read(text, prefetch=self.lots.one_of((1, 10, 1_000)))

    def _want(self, near: DrawnSite, address: str) -> None:
        self.world.count("leases that come")
        topic = address == TOPIC
        place = Destination(TOPIC, MULTICAST, False, SUBSCRIPTION) if topic else Destination(address, ANYCAST)
        near.want(address, place)

    def _contend(self) -> None:
        """A program reads at the far broker, or reads no more."""
        text = self._text(self.lots.one_of((QUEUES[0], *QUEUES, SHORT)))
        if not self.contended or self.far.broker is None or self.far.stopping:
            return
        if text in self.far.readers:
            self.far.leave(text)
        else:
            self.world.count("readers at the far broker")
            self.far.read(text, prefetch=self.lots.one_of((1, 3, 100)))

    def _delete(self) -> None:
        """An operator deletes a queue with what is in it, or makes it again."""
        broker = self.far.broker
        if broker is None or self.far.stopping:
            return
        queue = broker.table.queues.get(SHORT)
        if queue is None:
            self._make(self.far)
            return
        self.world.count("queues deleted")
        for letter in self.network.letters.values():
            letter.deleted = letter.deleted or letter.address == SHORT
        reader = self._text(SHORT)
        if reader in self.far.readers:
            self.far.leave(reader)
        self.far.turn(partial(broker.queues.delete, queue, "it is not needed"))

    def _make(self, site: DrawnSite) -> None:
        broker = site.broker
        if broker is not None and SHORT not in broker.table.queues:
            definition = QueueDefinition(name=SHORT, address=SHORT, routing=ANYCAST)
            site.turn(partial(broker.queues.create, definition))

    # -- messages ------------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        lots = self.lots
        if self.far.broker is None:
            return
        address = lots.one_of((QUEUES[0], *READ))
        for _ in range(lots.between(1, 12)):
            durable = lots.chance(0.8)
            octets = lots.between(1, LARGE_MAX) if self.large and durable and lots.chance(0.15) else 0
            core = octets > 0 or lots.chance(0.5)
            again = 0 if core or lots.chance(0.8) else lots.between(1, 2)  # times that an operator sends it once more
            number = self.sent
            for _ in range(1 + again):
                letter = Letter(f"m{self.sent}", address, durable, self.far.runs)
                self.sent += 1
                self.network.letters[letter.identity] = letter
                self.far.turn(partial(self._publish, letter, core, octets, number))
            self.world.count("messages sent again with their id", again)

    def _publish(self, letter: Letter, core: bool, octets: int, number: int) -> None:
        broker = self.far.broker
        assert broker is not None
        topic = letter.address == TOPIC
        destination = Destination(letter.address, MULTICAST if topic else ANYCAST)
        places = [near.name for near in self.network.nears] if topic else []
        for place in places:
            if self.network.keeper(self.network.brokers[place]) in broker.table.queues:
                self.network.due_of(letter.identity, place)
        if not topic:
            self.network.due_of(letter.identity, "")
        try:
            if octets:
                self.world.count("large messages sent")
                post(broker, destination, letter.identity, octets)
            else:
                target = broker.target([destination])
                made = short(destination, letter.identity, durable=letter.durable) if core else classic(letter, number)
                made.address = target.name
                broker.send(made, target)
        except EntrepotError as error:
            self.world.note(f"refused: {error.message}")
            return
        self.world.count("messages sent durable" if letter.durable else "messages sent not durable")
        if self.lots.chance(0.9):
            broker.journal.confirm(Confirmed(letter), b"")

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        network = self.network
        return {
            "messages confirmed": sum(one.confirmed for one in network.letters.values()),
            "events": network.world.events,
            "brokers that draw": len(self.names),
            **{f"worlds: {one}": 1 for one in self._kinds()},
            **network.world.counts,
        }

    def _kinds(self) -> list[str]:
        kinds = list(dict.fromkeys(self.languages))
        if len(self.names) > 1:
            kinds.append("two that draw")
        if self.forgetful:
            kinds.append("few ids remembered")
        if self.limited:
            kinds.append(f"little room, {self.full.name}")
        return [*kinds, *(["read at the far broker, too"] if self.contended else [])]


def classic(letter: Letter, number: int) -> Message:
    """Return a message as a client of OpenWire sends it; ``number`` makes its message id."""
    command = text_message(letter.identity)
    command.persistent = letter.durable
    producer = ProducerId("ID:somebody", 1, 1)
    command.message_id = MessageId(producer_id=producer, producer_sequence_id=number + 1)
    command.producer_id = producer
    command.marshalled_properties = pack_properties({IDENTITY: letter.identity})
    topic = letter.address == TOPIC
    command.destination = ActiveMQTopic(TOPIC) if topic else ActiveMQQueue(letter.address)
    return message_of(command, letter.address)


def _quicken(site: DrawnSite) -> None:
    """Let the disk of ``site`` be quick, and have room."""
    site.disk.sync_delay_min = 100 * MICROSECOND
    site.disk.sync_delay_max = 2 * MILLISECOND
    site.turn(site.disk.room.make)
