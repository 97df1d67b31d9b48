"""Programs that speak MQTT to a simulated broker under crashes and cuts: ``--mqtt``.

Publishers send with QoS 1 and 2 and keep what is not confirmed, as a client with a persistent session does; readers
have persistent sessions of QoS 1 and 2. What must hold: what was confirmed after a reader's SUBACK reaches that reader;
what was published and is read with QoS 2 reaches it once; first deliveries of one publisher and QoS are in order; a
session that was acknowledged is there again; and of what was published as retained the last confirmed one is shown.
In some worlds topics are Classic's virtual ones, which no client may notice; in some a program watches `$SYS`, and is
told what is so once all is calm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.protocols.mqtt.codec import Reader
from entrepot.protocols.mqtt.packets import (
    Connect,
    Subscribe,
    Wish,
    acknowledgement,
    publish,
    read_answer,
)
from entrepot.protocols.mqtt.schema import (
    CONNACK,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    V5,
    V311,
)
from entrepot.simulation.machine import Machine
from entrepot.simulation.network import Weather
from entrepot.simulation.octet_cables import OctetCable
from entrepot.simulation.storms import Driven, StormRun
from entrepot.simulation.world import World

FOR_EVER: Final = 0xFFFF_FFFF
SYS: Final = "$SYS/broker/"
TOLD: Final = 25 * SECOND  # two intervals of the figures, and a redial
WINDOW: Final = 8  # messages that a publisher has unconfirmed


class Program:
    """One client id, with what it keeps over its connections."""

    def __init__(self, world: World, machine: Machine, name: str, version: int) -> None:
        self.world = world
        self.machine = machine
        self.name = name
        self.version = version
        self.lots = world.lots(name)
        self.cable: OctetCable | None = None
        self.reader = Reader(1 << 20)
        self.welcome = False  # CONNACK came
        self.known = False  # the broker acknowledged something that it must not forget
        self.dials = 0
        self.clean = False

    def start(self) -> None:
        """Dial; again while nobody answers."""
        if self.cable is not None:
            return
        if self.machine.broker is None:
            self.world.later(self.lots.between(5, 60) * MILLISECOND, self.start)
            return
        self.dials += 1
        self.reader = Reader(1 << 20)
        self.reader.version = self.version
        self.cable = OctetCable(self, Weather(self.world.lots(f"{self.name}/{self.dials}")), self.machine.accept_mqtt)
        connect = Connect(self.name, self.version)
        connect.clean = self.clean
        if self.version == V5 and not self.clean:
            connect.properties[0x11] = FOR_EVER
        self.cable.write(connect.octets())

    def write(self, octets: bytes) -> None:
        """Say something, if there is a connection."""
        if self.cable is not None:
            self.cable.write(octets)

    def receives(self, data: bytes) -> None:
        """Octets came."""
        self.reader.feed(data)
        while self.cable is not None and self.reader.next():
            self._packet(int(self.reader.kind))

    def _packet(self, kind: int) -> None:
        reader = self.reader
        if kind == PUBLISH:
            reader.read_publish()
            payload = reader.data[int(reader.payload_at) : int(reader.end)]
            self.came(reader.topic.decode(), payload.decode(), int(reader.flags >> 1 & 3), int(reader.packet_id))
            return
        answer = read_answer(kind, reader.data, reader.begin, reader.end, self.version)
        if kind == CONNACK:
            if answer.codes[0]:
                self.world.count(f"refused {answer.codes[0]}")
                return
            if self.known and not answer.present:
                self.world.violation(f"{self.name}: its session is gone")
            self.welcome = True
            self.ready()
        else:
            self.answered(kind, int(answer.packet_id), answer.codes)

    def lost(self) -> None:
        """The connection is gone."""
        self.cable = None
        self.welcome = False
        self.world.later(self.lots.between(1, 100) * MILLISECOND, self.start)

    def cut(self) -> None:
        """Lose the connection."""
        if self.cable is not None and not self.cable.gone:
            self.world.count("cut")
            self.cable.cut(self.lots.between(0, 200) * MILLISECOND, self.lots.between(0, 200) * MILLISECOND)

    # -- what kinds of programs do -------------------------------------------------------------------------------------

    def ready(self) -> None:
        """The connection is up."""

    def came(self, topic: str, text: str, qos: int, packet_id: int) -> None:
        """A PUBLISH came."""

    def answered(self, kind: int, packet_id: int, codes: list[int]) -> None:
        """An acknowledgement came."""


class Parcel:
    """One message. ``released``: PUBREC came."""

    def __init__(self, topic: str, text: str, qos: int, retain: bool) -> None:
        self.topic = topic
        self.text = text
        self.qos = qos
        self.retain = retain
        self.released = False
        self.sent_at = -1


class Sender(Program):
    """Publishes numbered messages; what is not confirmed is kept, and sent again in order."""

    def __init__(self, ledger: ParcelRun, name: str, version: int, count: int) -> None:
        super().__init__(ledger.world, ledger.machine, name, version)
        self.ledger = ledger
        self.count = count
        self.sent = 0
        self.last_id = 0
        self.kept: dict[int, Parcel] = {}

    def ready(self) -> None:
        """Send again what is not confirmed, then go on."""
        for packet_id, parcel in list(self.kept.items()):
            if parcel.released:
                self.write(acknowledgement(PUBREL, packet_id, self.version))
            else:
                self._send(packet_id, parcel, dup=True)
        self.step()

    def step(self) -> None:
        """Send something, if the window is open."""
        cable = self.cable
        if not self.welcome or cable is None:
            return
        if self.sent < self.count and len(self.kept) < WINDOW:
            self._new()
        self.world.later(
            self.lots.skewed(MILLISECOND, 60 * MILLISECOND), lambda: self.step() if self.cable is cable else None
        )

    def _new(self) -> None:
        self.sent += 1
        self.last_id = self.last_id % 40 + 1  # small: an identifier that is used again too early shows
        while self.last_id in self.kept:
            self.last_id = self.last_id % 40 + 1
        retain = self.lots.chance(
            0.2
        )  # of each QoS by itself: an older one of QoS 1 may come again behind one of QoS 2
        qos = self.lots.between(1, 2)
        kind = "r" if retain else "t"
        parcel = Parcel(f"{kind}{qos}/{self.name}", f"{self.name}-{self.sent}-{qos}", qos, retain)
        self.kept[self.last_id] = parcel
        parcel.sent_at = self.world.time
        self.ledger.sent[parcel.text] = parcel.sent_at
        self.ledger.topics[parcel.text] = parcel.topic
        self._send(self.last_id, parcel, dup=False)

    def _send(self, packet_id: int, parcel: Parcel, *, dup: bool) -> None:
        self.world.note(f"{self.name} sends {parcel.text} id {packet_id} {dup}")
        self.world.count("published again" if dup else "published")
        octets = parcel.text.encode()
        self.write(publish(self.version, parcel.topic, octets, parcel.qos, packet_id, retain=parcel.retain, dup=dup))

    def answered(self, kind: int, packet_id: int, codes: list[int]) -> None:
        """Note what is confirmed."""
        self.world.note(f"{self.name} answered {kind} {packet_id} {codes}")
        parcel = self.kept.get(packet_id)
        if kind == PUBACK and parcel is not None and parcel.qos == 1:
            del self.kept[packet_id]
            self.ledger.confirmed(parcel, codes[0])
        elif kind == PUBREC and parcel is not None and parcel.qos == 2 and not parcel.released:
            if codes[0] >= 0x80:
                del self.kept[packet_id]
                return
            parcel.released = True
            self.known = True
            self.ledger.confirmed(parcel, codes[0])
            self.write(acknowledgement(PUBREL, packet_id, self.version))
        elif kind == PUBREC:
            self.write(acknowledgement(PUBREL, packet_id, self.version))
        elif kind == PUBCOMP and parcel is not None and parcel.released:
            del self.kept[packet_id]


class Taker(Program):
    """Reads with a session; identifiers of QoS 2 that are not released are kept."""

    def __init__(self, ledger: ParcelRun, name: str, version: int, qos: int) -> None:
        super().__init__(ledger.world, ledger.machine, name, version)
        self.ledger = ledger
        self.qos = qos
        self.subscribed_at = -1
        self.asked = 0  # SUBSCRIBE packets: each one gets what is retained
        self.unreleased: dict[int, None] = {}
        self.got: dict[str, int] = {}  # text -> how often it was processed
        self.last: dict[tuple[str, int], int] = {}

    def ready(self) -> None:
        """Subscribe, once."""
        if self.subscribed_at < 0:
            self.asked += 1
            packet = Subscribe(1)
            packet.wishes = [Wish("+/+", self.qos)]
            self.write(packet.octets(self.version))

    def came(self, topic: str, text: str, qos: int, packet_id: int) -> None:
        """Process it, unless its identifier says that it was; answer a little later."""
        self.world.note(f"{self.name} came {text} q{qos} id {packet_id}")
        if topic != self.ledger.topics.get(text):
            self.world.violation(f"{self.name} got {text} under {topic}")
        if qos == 2 and packet_id in self.unreleased:
            self._later(acknowledgement(PUBREC, packet_id, self.version))
            return
        if qos == 2:
            self.unreleased[packet_id] = None
        count = self.got.get(text, 0) + 1
        self.got[text] = count
        self.world.count(f"taken with QoS {qos}")
        if qos == 2 and count > 1 and (self.asked == 1 or topic[0] == "t"):
            self.world.violation(f"{self.name} got {text} {count} times with QoS 2")
        if count == 1 and 0 <= self.subscribed_at < self.ledger.sent[text]:
            who, number, level = text.rsplit("-", 2)
            key = (f"{topic[0]}{who}", int(level))
            if int(number) <= self.last.get(key, 0):
                self.world.violation(f"{self.name} got {text} behind number {self.last[key]}")
            self.last[key] = int(number)
        if qos:
            self._later(acknowledgement(PUBACK if qos == 1 else PUBREC, packet_id, self.version))

    def _later(self, octets: bytes) -> None:
        cable = self.cable

        def say() -> None:
            if self.cable is cable and cable is not None:
                cable.write(octets)

        self.world.later(self.lots.skewed(1000, 20 * MILLISECOND), say)

    def answered(self, kind: int, packet_id: int, codes: list[int]) -> None:
        """SUBACK, PUBREL."""
        if kind == SUBACK and codes[0] < 0x80:
            self.subscribed_at = self.world.time
            self.known = True
        elif kind == PUBREL:
            self.world.note(f"{self.name} pubrel {packet_id}")
            self.unreleased.pop(packet_id, None)
            self._later(acknowledgement(PUBCOMP, packet_id, self.version))


class Watcher(Program):
    """Reads the figures of the broker. ``shown``: the last of each; ``told_at``: when the last one came."""

    def __init__(self, ledger: ParcelRun, version: int, qos: int, *, clean: bool) -> None:
        super().__init__(ledger.world, ledger.machine, "watcher", version)
        self.qos = qos
        self.clean = clean
        self.subscribed = False
        self.shown: dict[str, str] = {}
        self.told_at = 0

    def ready(self) -> None:
        """Subscribe, unless the session has it."""
        if self.clean or not self.subscribed:
            packet = Subscribe(1)
            packet.wishes = [Wish(f"{SYS}#", self.qos)]
            self.write(packet.octets(self.version))

    def came(self, topic: str, text: str, qos: int, packet_id: int) -> None:
        """Note a figure."""
        if not topic.startswith(SYS):
            self.world.violation(f"{self.name} got {topic}")
        self.shown[topic.removeprefix(SYS)] = text
        self.told_at = self.world.time
        self.world.count("figures")
        if qos:
            self.write(acknowledgement(PUBACK if qos == 1 else PUBREC, packet_id, self.version))

    def answered(self, kind: int, packet_id: int, codes: list[int]) -> None:
        """SUBACK, PUBREL."""
        if kind == SUBACK and codes[0] < 0x80:
            self.subscribed = True
            self.known = not self.clean
        elif kind == PUBREL:
            self.write(acknowledgement(PUBCOMP, packet_id, self.version))


class ParcelRun(StormRun):
    """The run of one seed. Call `run` once, then read ``world``."""

    def __init__(self, seed: int, *, blocks: bool = False, lines: bool = False) -> None:
        super().__init__(seed, "mqtt", blocks=blocks, lines=lines)
        lots = self.lots
        versions = (V311, V5)
        self.senders: Final = [
            Sender(self, f"s{number}", lots.one_of(versions), lots.skewed(5, 80))
            for number in range(lots.between(1, 3))
        ]
        self.takers: Final = [
            Taker(self, f"k{number}", lots.one_of(versions), lots.between(1, 2)) for number in range(lots.between(1, 3))
        ]
        self.due: Final[list[tuple[Parcel, int]]] = []
        self.retained: Final[dict[str, int]] = {}
        self.sent: Final[dict[str, int]] = {}  # text -> when it was published first
        self.topics: Final[dict[str, str]] = {}
        lots = self.world.lots("surroundings")
        self.machine.mqtt.virtual_topics = lots.chance(0.3)
        self.watchers: Final = (
            [Watcher(self, lots.one_of(versions), lots.between(0, 2), clean=lots.chance(0.4))]
            if lots.chance(0.3)
            else []
        )

    def confirmed(self, parcel: Parcel, code: int) -> None:
        """The broker owes it to every reader that had its SUBACK before it was sent."""
        if code >= 0x80:
            return
        self.due.append((parcel, parcel.sent_at))
        if parcel.retain:
            number = int(parcel.text.split("-")[1])
            self.retained[parcel.topic] = max(number, self.retained.get(parcel.topic, 0))

    def programs(self) -> Sequence[Driven]:
        """Return the readers, then those who send."""
        return [*self.takers, *self.senders, *self.watchers]

    def is_quiet(self) -> bool:
        """Return whether all came that is due, and nothing is on its way."""
        if self.machine.broker is None:
            return False
        if any(one.kept or one.sent < one.count for one in self.senders):
            return False
        return not self._missing() and not any(one.unreleased for one in self.takers)

    def _missing(self) -> list[str]:
        return [
            f"{parcel.text} to {taker.name}"
            for taker in self.takers
            for parcel, sent_at in self.due
            if 0 <= taker.subscribed_at < sent_at and parcel.text not in taker.got
        ]

    def judge(self) -> None:
        """Say what never came, what came wrongly, and what a broker that is sound would not have."""
        world = self.world
        missing = self._missing()
        if missing:
            world.violation(f"{len(missing)} of {len(self.due)} never came: {missing[:4]}")
        stuck = [one.name for one in self.senders if one.kept]
        stuck += [one.name for one in self.takers if one.unreleased]
        if stuck:
            world.violation(f"never answered: {stuck}")
        self._judge_figures()
        late = Taker(self, "late", V311, 1)
        late.clean = True
        late.start()
        world.run(world.time + 5 * SECOND)
        for topic, number in self.retained.items():
            kind, _, name = topic.partition("/")
            words = [text.split("-") for text in late.got]
            seen = [int(number) for who, number, qos in words if who == name and qos == kind[1:]]
            if not seen or max(seen) < number:
                world.violation(f"of {topic} number {number} was retained, and {seen} is shown")
        broker = self.machine.broker
        if broker is not None:
            broker.check()

    def _judge_figures(self) -> None:
        """Say where a watcher was not told, of a world that is calm, what is so."""
        world = self.world
        if not self.watchers:
            return
        world.run(world.time + TOLD)
        connected = sum(1 for one in [*self.takers, *self.senders, *self.watchers] if one.welcome)
        for one in self.watchers:
            if (
                one.welcome and one.subscribed and one.told_at < world.time - TOLD // 2
            ):  # the uptime is another each time
                world.violation(f"{one.name} was told nothing since {one.told_at}")
            elif one.subscribed and one.shown.get("clients/connected") != str(connected):
                world.violation(f"{connected} are connected, and {one.name} was told {one.shown}")
