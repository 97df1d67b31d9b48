"""``fanout:(...)``: a lifeline for each broker, and the wire that joins them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Entropy
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.client.lifeline import Lifeline, LifelineEvents
from entrepot.client.options import FanoutOptions, Target
from entrepot.io.connection import Turn
from entrepot.protocols.failover import FailoverCore
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import Command, ConnectionControl, MessageDispatch, Response
from entrepot.protocols.openwire.conversation import ConversationCore
from entrepot.protocols.openwire.fanout import FanoutWire


class Fanout:
    """The brokers of one fanout connection. It is under way when as many are there as must answer, or all."""

    def __init__(
        self,
        target: Target,
        options: FanoutOptions,
        core: ConversationCore,
        turn: Turn,
        entropy: Entropy,
        ended: Callable[[EntrepotError], None],
    ) -> None:
        self.core: Final = core
        self.wire: Final = FanoutWire(core, options.min_ack_count, queues_too=options.fan_out_queues)
        self.ended: Final = ended
        self._target = target
        self._options = options
        self._turn = turn
        self._entropy = entropy
        self._begun = False
        self._members: dict[tuple[str, int], _Member] = {}
        for place in target.places:
            self._members[(place.host, place.port)] = _Member(self, place)

    @property
    def place(self) -> Endpoint | None:
        """The primary, or any that is there."""
        first = self._first
        return None if first is None else first.lifeline.place

    @property
    def program(self) -> str:
        """Which program that one says it is; "" without one."""
        first = self._first
        return "" if first is None else first.lifeline.program

    @property
    def _first(self) -> _Member | None:
        return next((member for member in self._members.values() if member.client in self.wire.members), None)

    def start(self) -> None:
        """Dial all."""
        for member in self._members.values():
            member.lifeline.start()

    def found(self, place: Endpoint) -> None:
        """Discovery found one."""
        if (place.host, place.port) not in self._members:
            member = self._members[(place.host, place.port)] = _Member(self, place)
            member.lifeline.start()

    def vanished(self, place: Endpoint) -> None:
        """Discovery lost one; the connection to it breaks by itself if it is true."""

    def settled(self) -> None:
        """Nothing waits for a quiet moment: members never move."""

    def lost(self, why: str) -> None:
        """The last member is gone; each lifeline knows that already."""

    def control(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        """Brokers may not move us: we are with all of them."""

    async def close(self, grace: float) -> None:
        """Leave all."""
        await asyncio.gather(*(member.lifeline.close(grace) for member in self._members.values()))

    def joined(self, client: OpenWireClient) -> None:
        """A member agreed on its format."""
        if self.core.wire is not None:
            self.wire.join(client, known=True)
            return
        self.wire.join(client, known=False)
        needed = 1 if self._begun else min(self._options.min_ack_count, max(1, len(self._target.places)))
        if len(self.wire.members) >= needed:
            self._begun = True
            self.core.use(self.wire)


class _Member(ClientPort, LifelineEvents):
    """One broker, for its lifeline a conversation, for its transport a port."""

    def __init__(self, fanout: Fanout, place: Endpoint) -> None:
        self.client: OpenWireClient | None = None
        self._fanout = fanout
        failover = FailoverCore([place], fanout._target.failover, fanout._entropy)
        self.lifeline: Final = Lifeline(failover, self, self, fanout._turn, self)

    @property
    def busy(self) -> bool:
        return False

    def use(self, wire: OpenWireClient) -> None:
        self.client = wire
        self._fanout.joined(wire)

    def leave_wire(self, client: OpenWireClient, why: str) -> None:
        self._fanout.wire.lost(client, why)

    def ended(self, error: EntrepotError) -> None:
        if not self._fanout.wire.members:
            self._fanout.ended(error)

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        self._fanout.wire.dispatched(client, dispatch)

    def responded(self, client: OpenWireClient, response: Response) -> None:
        self._fanout.wire.responded(client, response)

    def told(self, client: OpenWireClient, command: Command) -> None:
        if not isinstance(command, ConnectionControl):
            self._fanout.wire.told(client, command)

    def settled(self, client: OpenWireClient) -> None:
        self._fanout.wire.settled(client)

    def writable(self, client: OpenWireClient, ready: bool) -> None:
        self._fanout.wire.writable(client, ready)

    def lost(self, client: OpenWireClient, why: str) -> None:
        self._fanout.wire.lost(client, why)
        self.lifeline.lost(why)
