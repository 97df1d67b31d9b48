"""What the other end of a duplex bridge sends, given to our broker and answered when it is stored. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import AccessDenied, EntrepotError, InvalidDestination, Refused, StorageError
from entrepot.cluster.networks.admission import ADVISORY
from entrepot.cluster.networks.comparison import Comparison
from entrepot.cluster.networks.neighbourhood import BridgeEnd
from entrepot.cluster.networks.wires import Wire
from entrepot.core.addressing.routing import Target
from entrepot.core.sending.flow import BLOCKED, DUPLICATE, SpaceWaiter
from entrepot.journal.log import Waiter
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import ExceptionResponse, Response
from entrepot.protocols.openwire.convert import message_of
from entrepot.protocols.openwire.ids import components, is_queue, is_temporary
from entrepot.protocols.openwire.refusals import throwable_of
from entrepot.protocols.openwire.sending import is_temporary_target

TARGETS_KEPT: Final = 10_000


class _Stored(Waiter):
    """Answers when a message is on disk. A token is the number of the command."""

    def __init__(self, inbound: Inbound, wire: Wire) -> None:
        self.inbound = inbound
        self.wire = wire

    def stored(self, token: bytes) -> None:
        """Answer."""
        self.inbound.answer(self.wire, int.from_bytes(token, "big"), None)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Say that it is not stored."""
        self.inbound.answer(self.wire, int.from_bytes(token, "big"), error)


class _Space(SpaceWaiter):
    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound

    def space(self) -> None:
        """Answer what waits: the other broker sends more then."""
        self.inbound.space()


class Inbound:
    """What the other end of a duplex connection sends: given to our broker, answered when it is stored.

    A broker that is full answers later; the other end has its prefetch on its way and no more.
    """

    def __init__(self, bridge: BridgeEnd) -> None:
        self.bridge: Final = bridge
        self.accepted = 0
        self.duplicates = 0
        self.comparison: Comparison | None = None  # none: a wire of tests
        self._targets: dict[commands.Destination, Target] = {}
        self._held: list[tuple[Wire, int, bool]] = []
        self._space = _Space(self)

    def take(self, command: commands.Message) -> None:
        """Send ``command`` to our broker."""
        wire = self.bridge.wire
        assert wire is not None
        try:
            blocked = self._send(command)
        except (Refused, StorageError) as error:
            self.bridge.say(f"a message was refused: {error}")
            if command.response_required:
                self.answer(wire, command.command_id, error)
            return
        if blocked:
            self._held.append((wire, command.command_id if command.response_required else 0, command.persistent))
            self.bridge.broker.flow.wait(self.bridge.origin, self._space)
        elif command.response_required:
            self._confirm(wire, command.command_id, command.persistent)

    def _send(self, command: commands.Message) -> bool:
        bridge = self.bridge
        broker = bridge.broker
        where = command.destination
        if where is None or command.message_id is None:
            raise InvalidDestination("a message has no destination or no id")
        target = self._targets.get(where)
        if target is None:
            target = self._target(where)
        if target.service is not None and bridge.subject is not None and command.reply_to is not None:
            places = [address_of(part) for part in components(command.reply_to)]
            broker.access.answer(bridge.subject, places)
        message = message_of(command, target.name)
        message.origin = bridge.origin
        stamps = broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, None)
        if not target.name.startswith(ADVISORY):
            self.accepted += 1
        comparison = self.comparison
        if comparison is None or not command.response_required:
            verdict = broker.send(message, target)
        else:
            verdict = comparison.send(message, command, target, message.durable and not is_temporary_target(target))
        if verdict == DUPLICATE:
            self.duplicates += 1
        return verdict == BLOCKED

    def _target(self, where: commands.Destination) -> Target:
        addresses = [address_of(part) for part in components(where)]
        for one in addresses:
            if one.temporary and one.routing == MULTICAST:
                self.bridge.neighbourhood.acceptor.check_temporary(one.name)
        self._may_send(addresses)
        target = self.bridge.broker.target(addresses)
        if len(self._targets) >= TARGETS_KEPT:
            self._targets.clear()
        self._targets[where] = target
        return target

    def _may_send(self, addresses: list[Destination]) -> None:
        """Raise AccessDenied for what the other broker may not do here; one that we dialled may not manage us."""
        broker = self.bridge.broker
        subject = self.bridge.subject
        if subject is not None:
            broker.access.send(subject, addresses)
        elif broker.access.guarded and any(one.name in broker.addresses.services for one in addresses):
            raise AccessDenied("management requests are not taken over a bridge", remedy="connect to this broker")

    def _confirm(self, wire: Wire, number: int, durable: bool) -> None:
        if durable:
            self.bridge.broker.journal.confirm(_Stored(self, wire), number.to_bytes(8, "big"))
        else:
            self.answer(wire, number, None)

    def answer(self, wire: Wire, number: int, error: EntrepotError | None) -> None:
        """Answer, unless the connection is gone."""
        if wire is not self.bridge.wire:
            return
        if error is None:
            wire.post(Response(correlation_id=number))
        else:
            wire.post(ExceptionResponse(correlation_id=number, exception=throwable_of(error)))

    def space(self) -> None:
        """There is room again."""
        held = self._held
        self._held = []
        for wire, number, durable in held:
            if number:
                self._confirm(wire, number, durable)

    def clear(self) -> None:
        """The connection is gone: nobody waits for an answer."""
        self._held.clear()
        self._targets.clear()
        self.bridge.broker.flow.stop_waiting(self.bridge.origin)


def address_of(where: commands.Destination) -> Destination:
    """Return what ``where`` names here. Raises InvalidDestination."""
    name, _, queue = (where.physical_name or "").partition("::")
    if not name:
        raise InvalidDestination("a destination has no name")
    return Destination(name, ANYCAST if is_queue(where) else MULTICAST, is_temporary(where), queue)
