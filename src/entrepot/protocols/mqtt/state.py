"""Sessions of MQTT: what a client and this broker owe each other, connected or not. [C]

Invariants. A packet identifier is in at most one of ``flights`` and ``releasing``. Of a session that outlives its
connection the journal has, before anything is said that relies on it: the session and its subscriptions (before
SUBACK), each identifier of QoS 2 received (with its message, before PUBREC) and its end (before PUBCOMP), each PUBLISH
of QoS 2 on its way out with its identifier (before it is sent), and that PUBREC came (before PUBREL). A PUBLISH of
QoS 1 waits in its queue until PUBACK; its identifier is kept while the broker runs, and is another one after a restart,
which no receiver of QoS 1 can tell.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.queue.consumer import Consumer
from entrepot.protocols.mqtt.packets import Will
from entrepot.protocols.mqtt.records import SessionRecord, WillRecord
from entrepot.protocols.mqtt.schema import KEEPS_FOR_EVER, PACKET_IDS, V5

SENT: Final = 1  # what the journal says of an identifier on its way out
RELEASED: Final = 2


class Filed:
    """One subscription of a session, by its options (5: 3.8.3.1) and its identifier (0: none)."""

    def __init__(self, options: i64, identifier: i64) -> None:
        self.options: i64 = options
        self.identifier: i64 = identifier


class Flight:
    """One PUBLISH of QoS 1 or 2 that the client has not acknowledged.

    ``queue`` is the identity of its queue; ``consumer`` None: it is in the queue again, or its queue is gone. ``kept``:
    the journal has its identifier. ``written``: the client may have seen it.
    """

    def __init__(self, packet_id: i64, number: i64, queue: i64, qos: i64) -> None:
        self.packet_id: i64 = packet_id
        self.number: i64 = number
        self.queue: i64 = queue
        self.qos: i64 = qos
        self.consumer: Consumer | None = None
        self.kept: bool = False
        self.written: bool = False


class MqttState:
    """One session. ``expiry`` in seconds after its connection; 0: it ends with that."""

    def __init__(self, client_id: str, user: str, version: i64) -> None:
        self.client_id: str = client_id
        self.user: str = user
        self.version: i64 = version
        self.expiry: i64 = 0
        self.ended: i64 = 0  # ms since 1970; 0: it is connected
        self.subscriptions: dict[str, Filed] = {}
        self.flights: dict[int, Flight] = {}
        self.returned: dict[tuple[int, int], Flight] = {}  # by queue and number: in the queue again
        self.releasing: dict[int, bool] = {}  # PUBREL is due or sent; the value: the journal has it
        self.received: dict[int, bool] = {}  # of QoS 2, not released; the same
        self.will: WillRecord | None = None
        self.last_id: i64 = 0
        self.connected: bool = False
        self.virtual: bool = False  # its topics are Classic's virtual ones, whatever connector it comes back to

    @property
    def persistent(self) -> bool:
        """Return whether it outlives its connection."""
        return self.expiry > 0

    def record(self) -> SessionRecord:
        """Return what the journal keeps."""
        filters = tuple((text, int(one.options), int(one.identifier)) for text, one in self.subscriptions.items())
        return SessionRecord(
            self.user, int(self.version), int(self.expiry), int(self.ended), filters, self.will, self.virtual
        )

    def take_id(self) -> i64:
        """Return a packet identifier that is free; 0 when there is none."""
        if len(self.flights) + len(self.releasing) >= PACKET_IDS:
            self._forget_strays()
            if len(self.flights) + len(self.releasing) >= PACKET_IDS:
                return 0
        last = self.last_id
        while True:
            last += 1
            if last > PACKET_IDS:
                last = 1
            if int(last) not in self.flights and int(last) not in self.releasing:
                self.last_id = last
                return last

    def _forget_strays(self) -> None:
        """Free the identifiers of messages that went back to a queue and did not come again: they are gone from it."""
        for key, flight in list(self.returned.items()):
            del self.returned[key]
            self.flights.pop(int(flight.packet_id), None)

    def land(self) -> None:
        """The connection is gone: what was on its way is in its queue again, and keeps its identifier."""
        for flight in self.flights.values():
            flight.consumer = None
            self.returned[(int(flight.queue), int(flight.number))] = flight

    def keeps_for_ever(self) -> bool:
        """Return whether it never ends by itself."""
        return self.expiry >= KEEPS_FOR_EVER


def state_of(client_id: str, record: SessionRecord) -> MqttState:
    """Return the session that the journal has."""
    state = MqttState(client_id, record.user, record.version)
    state.expiry = record.expiry
    state.ended = record.ended
    state.will = record.will
    state.virtual = record.virtual
    for text, options, identifier in record.filters:
        state.subscriptions[text] = Filed(options, identifier)
    return state


def delay_of(will: Will) -> int:
    """Return the Will Delay Interval, s."""
    found = will.properties.get(0x18)
    return found if isinstance(found, int) else 0


def version_name(version: int) -> str:
    """Return what people call a version."""
    return {3: "3.1", 4: "3.1.1", V5: "5"}.get(version, "?")
