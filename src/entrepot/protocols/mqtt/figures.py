"""``$SYS``: figures of the broker for who subscribes to them, under the names that Mosquitto has for them.

They are no messages of the broker: nobody else sees them, nothing keeps them, and they cost nothing while nobody reads.
A subscription gets all of its pattern at once, as if they were retained, and every `INTERVAL` those that have changed;
one of a session that goes on gets all of them with the next that have.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import Refused
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.sending.handing import hand_out
from entrepot.model.message import Message
from entrepot.protocols.mqtt.convert import KEPT, LIVE, MQTT_LANGUAGE, RETAINS
from entrepot.protocols.mqtt.house import House, Shown
from entrepot.protocols.mqtt.retained import covers

PREFIX: Final = "$SYS"
INTERVAL: Final = 10 * SECOND  # sys_interval of Mosquitto
READERS_MAX: Final = 1000  # queues that are told: each costs a message a figure
READERS_OF_ONE: Final = 100  # and of one user, or of one client id where nobody says who he is


class _Tick(Alarm):
    """It is time to tell what has changed."""

    def __init__(self, figures: Figures, due: Instant) -> None:
        super().__init__(due)
        self.figures = figures

    def ring(self, now: Instant) -> None:
        self.figures.tell(now)


class Figures(Shown):
    """Those of one broker. ``readers``: queues, and what each of them asks for; ``owners``: whose each of them is.

    ``behind``: those of sessions that went on, which do not know what changed meanwhile.
    """

    def __init__(self, house: House) -> None:
        self.house: Final = house
        self.readers: Final[dict[Queue, str]] = {}
        self.owners: Final[dict[Queue, str]] = {}
        self.behind: Final[dict[Queue, bool]] = {}
        self.began: Instant = house.broker.now
        self.last: dict[str, str] = {}
        self.waits = False
        self.most = 0

    def check(self, owner: str) -> None:
        """Raise Refused if ``owner`` has as many readers as one may have, or all together have."""
        if len(self.readers) >= READERS_OF_ONE:  # below that nobody can have too many
            self._prune()
        own = sum(1 for each in self.owners.values() if each == owner)
        if own >= READERS_OF_ONE or len(self.readers) >= READERS_MAX:
            raise Refused(
                f"{own} subscriptions of {owner!r}, of {len(self.readers)} in all, are told figures under {PREFIX}",
                remedy=f"unsubscribe from some: {READERS_OF_ONE} of one user and {READERS_MAX} in all are told",
            )

    def watch(self, queue: Queue, pattern: str, owner: str) -> None:
        """Tell ``queue`` what is under ``pattern`` from now on. Raises Refused, see `check`."""
        if queue not in self.readers:
            self.check(owner)
        if not self.readers:
            self.last = self.values()
        self.readers[queue] = pattern
        self.owners[queue] = owner
        self.behind[queue] = True
        self._wait(self.house.broker.now)

    def _prune(self) -> None:
        for queue in [each for each in self.readers if each.deleted]:
            del self.readers[queue], self.owners[queue]
            self.behind.pop(queue, None)

    def give(self, queue: Queue, pattern: str) -> None:
        """Give a new subscription all of it."""
        self.behind.pop(queue, None)
        for name, text in self.values().items():
            if covers(pattern, name):
                self._send(queue, name, text, KEPT)

    def tell(self, now: Instant) -> None:
        """Tell all readers what has changed, and those that are behind all there is."""
        self.waits = False
        self._prune()
        values = self.values()
        changed = {name: text for name, text in values.items() if self.last.get(name) != text}
        self.last = values
        for queue, pattern in self.readers.items():
            if queue.roster.is_read():  # nothing waits for a session that is away
                for name, text in (values if self.behind.pop(queue, False) else changed).items():
                    if covers(pattern, name):
                        self._send(queue, name, text, LIVE)
        if self.readers:
            self._wait(now)

    def values(self) -> dict[str, str]:
        """Return all figures, by address."""
        house = self.house
        broker = house.broker
        connected, known = int(house.connected), len(house.states)
        self.most = max(self.most, connected)
        figures = {
            "version": f"entrepot version {broker.options.version}",
            "uptime": f"{(broker.now - self.began) // SECOND} seconds",
            "clients.connected": connected,
            "clients.disconnected": known - connected,
            "clients.total": known,
            "clients.maximum": self.most,
            "publish.messages.received": house.published,
            "publish.messages.sent": house.delivered,
            "publish.messages.dropped": house.dropped,
            "retained messages.count": house.retained.count(),
            "heap.current size": broker.memory.used,
        }
        return {f"{PREFIX}.broker.{name}": str(value) for name, value in figures.items()}

    def _send(self, queue: Queue, name: str, text: str, how: int) -> None:
        broker = self.house.broker
        message = Message(MQTT_LANGUAGE, name, text.encode())
        message.timestamp = broker.wall
        message.number = broker.ids.next_number()
        message.mark(RETAINS, how)
        hand_out(broker, message, [queue])

    def _wait(self, now: Instant) -> None:
        if not self.waits:
            self.waits = True
            self.house.broker.timetable.add(_Tick(self, now + INTERVAL))
