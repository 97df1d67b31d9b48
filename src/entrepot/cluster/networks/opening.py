"""What a dialled connection says, passed on to its bridge while that still counts on it. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.base.uri import Endpoint
from entrepot.cluster.link import State
from entrepot.cluster.networks.bridge import Bridge
from entrepot.cluster.networks.wires import ANSWERS_PORTION, MESSAGES_PORTION, ClientWire
from entrepot.cluster.supervision import INTERVALS_SILENT
from entrepot.protocols.openwire.client import SHUTS_DOWN, ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import BrokerInfo, Command, MessageDispatch, Response
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.session import Session, Shell

REFUSED_WITHIN: Final = 2 * SECOND  # of the opening of a duplex bridge: milliseconds, and the way there and back


class Opening(ClientPort):
    """Hears one dialled connection for its bridge. ``attempt``: the link's number for it."""

    def __init__(self, bridge: Bridge, attempt: int) -> None:
        self.bridge = bridge
        self.attempt = attempt
        self.wire: ClientWire | None = None

    def agreed(self, client: OpenWireClient) -> None:
        """Both sides speak the same format."""
        bridge = self.bridge
        self.wire = ClientWire(client)
        client.portion = MESSAGES_PORTION if bridge.duplex else ANSWERS_PORTION
        bridge.perform(bridge.link.connected(self.attempt, self._now()))

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        """An advisory."""
        self._take(dispatch)

    def responded(self, client: OpenWireClient, response: Response) -> None:
        """An answer."""
        bridge = self.bridge
        if bridge.link.attempt == self.attempt and bridge.wire is self.wire:
            bridge.responded(response, self._now())

    def told(self, client: OpenWireClient, command: Command) -> None:
        """All else; the first is who the other broker is."""
        bridge = self.bridge
        if isinstance(command, BrokerInfo):
            if bridge.wire is None and self._current() and bridge.link.state is State.OPENING:
                assert self.wire is not None
                bridge.meet(self.wire, command, self._now())
            return
        self._take(command)

    def settled(self, client: OpenWireClient) -> None:
        """A chunk was read."""
        if self._current():
            self.bridge.link.supervision.heard(self._now())

    def writable(self, client: OpenWireClient, ready: bool) -> None:
        """Back-pressure."""
        if self._current():
            self.bridge.link.flow.writable(ready)

    def lost(self, client: OpenWireClient, why: str) -> None:
        """The connection ended.

        An ActiveMQ that does not let the user of a duplex bridge in says nothing but that it shuts the bridge down.
        """
        bridge = self.bridge
        now = self._now()
        young = bridge.link.state is State.OPEN and now - bridge.link.since < REFUSED_WITHIN
        if why == SHUTS_DOWN and bridge.duplex and young and self._current():
            user = bridge.options.remote_user or bridge.options.user or "who gives no userName"
            why = f"the broker ends it at once: it does not let in {user} (its log says why), or it stops"
        bridge.perform(bridge.link.failed(self.attempt, why, now))

    def _take(self, command: Command) -> None:
        if self._current() and self.bridge.wire is self.wire:
            self.bridge.take(command, self._now())

    def _current(self) -> bool:
        return self.bridge.link.attempt == self.attempt

    def _now(self) -> Instant:
        return int(self.bridge.broker.now)


def greet(bridge: Bridge, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
    """Return the session of the connection ``attempt`` that ``bridge`` has open to ``place``. Raises InvalidOption."""
    offer = offered(place, bridge.link.options.interval)
    return OpenWireClient(shell, offer, Opening(bridge, attempt), now)


def offered(place: Endpoint, interval: Duration) -> WireFormatOptions:
    """Return what a bridge offers at ``place``: who has nothing to say is heard in each interval of supervision.

    Each end writes something in a third of the inactivity agreed on, and a peer that was not heard for three intervals
    is given up: by the accepting end too, which finds a connection that is deaf on its side while this end sees a peer
    that lives and takes nothing. What the URI says goes before that. Raises InvalidOption.
    """
    return WireFormatOptions.of(place, max(1, INTERVALS_SILENT * interval // MILLISECOND))
