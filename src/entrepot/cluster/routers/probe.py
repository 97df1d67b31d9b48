"""One broker to which clients may be sent: a connection that sees that it is there, and how busy it is.

It opens a session as the user of the pool and asks the broker's management, every ``check-period``, how many
connections it has. A broker is *ready* from its first answer on, until an answer is late or the connection is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.options import place_of
from entrepot.cluster.routers.options import PoolOptions
from entrepot.cluster.routers.policies import UNKNOWN
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.packets import ClusterTopology, Packet
from entrepot.protocols.artemis.primitives import Connector
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.session import Shell

CLIENT_ID: Final = "$.artemis.internal.router.client."
"""How the client ids of probes begin: a router serves them itself, or probes would be sent away."""
PATIENCE: Final = 3 * SECOND  # for an answer, at least

Perform = Callable[["Probe", list[Dial | Drop]], None]


class _Look(Alarm):
    """It is time to look again."""

    def __init__(self, due: Instant, probe: Probe) -> None:
        super().__init__(due)
        self.probe: Final = probe

    def ring(self, now: int) -> None:
        self.probe.look()


class Probe:
    """One broker of a pool. ``node``: its id, "" until it said so; ``connector``: how clients are told where it is."""

    def __init__(self, broker: BrokerCore, options: PoolOptions, connector: Connector, node: str = "") -> None:
        """Raises ValueError for a connector that names no place of TCP."""
        place = place_of(connector)
        if place is None:
            raise ValueError(connector.name)
        self.place: Final[Endpoint] = place
        self.connector: Final = connector
        self.node = node
        self.connections = UNKNOWN
        self.ready = False
        self.why = "it has not answered yet"
        self.attempt = 0
        self._broker: Final = broker
        self._options: Final = options
        self._perform: Perform | None = None
        self._asking: Asking | None = None
        self._opened: _Opened | None = None
        self._answered = 0  # when it did last
        self._asks = False
        self._look: _Look | None = None

    @property
    def key(self) -> str:
        """Where it is, for people."""
        return authority(self.place)

    def start(self, perform: Perform) -> None:
        """Dial. ``perform`` carries out what it asks for."""
        self._perform = perform
        self._dial()

    def stop(self) -> None:
        """Hang up, for good."""
        perform, self._perform = self._perform, None
        self.ready = False
        if self._look is not None:
            self._look.cancelled = True
        if perform is not None:
            perform(self, [Drop(self.attempt)])

    def _dial(self) -> None:
        self.attempt += 1
        if self._perform is not None:
            self._perform(self, [Dial(self.attempt, self.place)])

    def open(self, shell: Shell, attempt: int) -> CoreClient:
        """Return the session of the connection that was dialled as ``attempt``."""
        self._opened = _Opened(self, attempt)
        return CoreClient(shell, self._opened, int(self._broker.now))

    def failed(self, attempt: int, why: str) -> None:
        """The connection ``attempt`` did not come about, or is lost."""
        if attempt != self.attempt or self._perform is None:
            return
        self.ready = False
        self.connections = UNKNOWN
        self.why = why
        self._asking = None
        self._opened = None
        self._again()

    def _again(self) -> None:
        if self._look is not None:
            self._look.cancelled = True
        self._look = _Look(int(self._broker.now) + self._options.period, self)
        self._broker.timetable.add(self._look)

    def look(self) -> None:
        """A period is over: dial, or ask again, or find that the last question had no answer."""
        self._look = None
        if self._perform is None:
            return
        asking = self._asking
        if asking is None:
            if self._opened is None:
                self._dial()
            else:
                self._again()
            return
        now = int(self._broker.now)
        if not self._asks:
            self._asks = True
            asking.attribute("broker", "connectionCount", self._heard)
        elif now - self._answered > self._options.period + PATIENCE:
            self.ready = False
            self.why = "it does not answer"
        self._again()

    def greeted(self, client: CoreClient) -> None:
        """The broker is there: open a session."""
        options = self._options
        self.node = self.node or client.node
        unique = f"{CLIENT_ID}{self._broker.entropy.token(8).hex()}"
        self._asking = Asking(client, options.user, options.password, self._broker.entropy, self._refused, unique)
        self._answered = int(self._broker.now)
        self._asks = False
        self.look()

    def told(self, packet: Packet) -> None:
        """What it says."""
        if isinstance(packet, ClusterTopology):
            return
        if self._asking is not None:
            self._asking.told(packet)

    def _heard(self, succeeded: bool, value: object) -> None:
        self._asks = False
        if not succeeded or not isinstance(value, int):
            self.ready = False
            self.why = f"it does not say how many connections it has: {value}"
            return
        self._answered = int(self._broker.now)
        self.connections = value
        self.ready = True
        self.why = ""

    def _refused(self, why: str) -> None:
        self.ready = False
        self.why = f"it refuses the user of the pool: {why}"
        if self._perform is not None:
            self._perform(self, [Drop(self.attempt)])
            self.failed(self.attempt, self.why)


class _Opened(ClientPort):
    """Hears one connection for its probe."""

    def __init__(self, probe: Probe, attempt: int) -> None:
        self.probe: Final = probe
        self.attempt: Final = attempt

    def greeted(self, client: CoreClient) -> None:
        """The version is known."""
        if self.attempt == self.probe.attempt:
            self.probe.greeted(client)

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Anything that it says."""
        if self.attempt == self.probe.attempt:
            self.probe.told(packet)

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection ended."""
        self.probe.failed(self.attempt, why)
