"""Producer credits: octets that a client may send to an address, withheld while there is no room. [C]

The client asks for what it wants to send; it is granted at once while the address has room. Where the policy blocks,
the request is kept and granted when there is room again; where it fails, the client is told so at once, and gets what
it asked for when there is room (artemis.md 5.2.7). What is kept belongs to the session, and outlives its connection.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import AddressFull
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import BLOCKED, SENT, SpaceWaiter
from entrepot.protocols.artemis.channel import Channel
from entrepot.protocols.artemis.packets import Credits, FailCredits

RETAINED_BLOCK: Final = 2  # who sends without credit is refused at so many times the memory limit
KEPT_MAX: Final = 1_000  # requests of one session that wait for room
ADDRESSES_KEPT: Final = 10_000  # that one session asked credits for: those are remembered


class Crediting(SpaceWaiter):
    """The credits of one session."""

    def __init__(self, broker: BrokerCore, channel: Channel) -> None:
        self.broker: BrokerCore = broker
        self.channel: Channel = channel
        self.key: i64 = -broker.ids.consumer_key()  # connections wait under numbers above 0
        self.asked: dict[str, None] = {}  # addresses whose producers wait for credits by themselves
        self.kept: list[Credits] | None = None

    def ask(self, address: str, octets: i64, target: Target) -> None:
        """The client wants to send ``octets`` to ``address``."""
        if len(self.asked) < ADDRESSES_KEPT:
            self.asked[address] = None
        granted = Credits(credits=octets, address=address)
        try:
            verdict = self._verdict(target)
        except AddressFull:
            self.channel.write(FailCredits(credits=octets, address=address))
            verdict = BLOCKED
        if verdict == BLOCKED and (self.kept is None or len(self.kept) < KEPT_MAX):
            if self.kept is None:
                self.kept = []
            self.kept.append(granted)
            self.broker.flow.wait(self.key, self)
        else:
            self.channel.write(granted)

    def _verdict(self, target: Target) -> int:
        """Return BLOCKED when ``target`` has no room. Raises AddressFull, with `FlowControl.wait` prepared."""
        broker = self.broker
        flow = broker.flow
        if target.service is not None:
            return SENT
        if flow.is_blocked(target):
            return BLOCKED
        if broker.journal.space.limits.full:
            flow.blame(None, True)
            return BLOCKED
        for queue in target.choice.candidates():
            if queue.stock.is_full():
                flow.blame(queue, False)
                if flow.verdict_of(queue) == BLOCKED:
                    return BLOCKED
        return SENT

    def check(self) -> None:
        """Refuse what comes although there is no room, from a client that does not wait. Raises AddressFull."""
        if self.kept is not None:
            memory = self.broker.memory
            if memory.used >= RETAINED_BLOCK * memory.limit:
                raise AddressFull("the broker has no room for this message", remedy="wait for credits")

    def space(self) -> None:
        """There is room again."""
        kept = self.kept
        self.kept = None
        if kept is not None:
            for granted in kept:
                self.channel.write(granted)

    def end(self) -> None:
        """The session ends."""
        self.kept = None
        self.broker.flow.stop_waiting(self.key)
