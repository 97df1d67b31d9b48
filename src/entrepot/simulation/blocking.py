"""Addresses that an operator blocks and unblocks, as management does; and what may be confirmed meanwhile.

A block ends when it is taken back, and with the run of its broker, whichever is sooner. Who sends to a blocked address
waits from his next message on: that one is taken, with what came in one piece with it, and nothing more of his until
the block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.core.addressing.binding import Address
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.address_control import AddressControl
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import Arguments
from entrepot.simulation.world import Lots, World


class Operated(Protocol):
    """A machine whose broker an operator reaches."""

    @property
    def broker(self) -> BrokerCore | None:
        """The broker that runs now."""
        ...

    def turn(self, action: Callable[[], object]) -> None:
        """Let one stimulus happen."""
        ...


class Blocks:
    """The blocks of one machine: of which address, since when, and at which broker."""

    def __init__(self, world: World, machine: Operated) -> None:
        self.world: Final = world
        self.machine: Final = machine
        self._since: dict[str, tuple[Instant, BrokerCore, Address]] = {}
        self._told: dict[tuple[str, Instant, str], Instant] = {}  # address, since, connection -> of the first answer

    def block(self, address: str, duration: Duration) -> None:
        """Block ``address``, if it is there, and take it back after ``duration``."""
        broker = self.machine.broker
        if broker is None or address not in broker.table.addresses:
            return
        self._ask(address, "block")
        if self.machine.broker is not broker:
            return  # it crashed in that turn
        self.world.count("blocks")
        if self.since(address) < 0:
            self._since[address] = (self.world.time, broker, broker.table.addresses[address])
        self.world.later(duration, lambda: self.unblock(address))

    def unblock(self, address: str) -> None:
        """Take it back, if that broker still runs."""
        since = self.since(address)
        self._since.pop(address, None)
        if since >= 0:
            self._ask(address, "unblock")

    def since(self, address: str) -> Instant:
        """Return since when ``address`` is blocked; -1: it is not."""
        found = self._since.get(address)
        if found is None:
            return -1
        since, broker, place = found
        same = self.machine.broker is broker and broker.table.addresses.get(address) is place
        return since if same else -1

    def took(self, what: str, addresses: Sequence[str], sent_at: Instant, connection: str) -> None:
        """``what``, a message or the end of a transaction, went out at ``sent_at`` and is confirmed.

        What was written before the first such answer may have come in one piece with what was taken: nothing later is.
        """
        for address in addresses:
            since = self.since(address)
            if 0 <= since < sent_at:
                told = self._told.setdefault((address, since, connection), self.world.time)
                self.world.count("confirmed while blocked")
                if told < sent_at:
                    self.world.violation(f"{what} was sent behind an answer and is confirmed: {address} is blocked")

    def promised(self, what: str, addresses: Sequence[str], sent_at: Instant) -> None:
        """A branch is promised whose first message was sent at ``sent_at``: the promise was asked for much later."""
        for address in addresses:
            if 0 <= self.since(address) < sent_at and not self._waited_out(address, sent_at):
                self.world.violation(f"{what} is promised, and {address} is blocked")

    def _waited_out(self, address: str, since: Instant) -> bool:
        """Return whether a producer has waited as long as the policy lets him, ``block_ms_max``.

        He is read on then: what he sends is refused, but what a branch had been sent before is in it, and is promised.
        """
        broker = self.machine.broker
        queue = None if broker is None else broker.table.queues.get(address)
        limit = 0 if queue is None else int(queue.policy.block_ms_max)
        return limit > 0 and self.world.time - since >= limit * MILLISECOND

    def haunt(self, lots: Lots, addresses: Callable[[], Sequence[str]], span: Duration) -> None:
        """Block some of ``addresses``, as they are then, at instants that ``lots`` draws from the next ``span``."""
        for _ in range(lots.between(1, 4)):
            self.world.later(lots.below(span), lambda: self._strike(lots, addresses()))

    def _strike(self, lots: Lots, addresses: Sequence[str]) -> None:
        if addresses:
            self.block(lots.one_of(addresses), lots.skewed(20, 1_500) * MILLISECOND)

    def _ask(self, address: str, operation: str) -> None:
        self.world.note(f"{operation} {address}")
        self.machine.turn(lambda: self._do(address, operation))

    def _do(self, address: str, operation: str) -> None:
        broker = self.machine.broker
        if broker is not None and address in broker.table.addresses:
            AddressControl(broker, Census(), address).operations()[operation](Arguments(operation, []))
