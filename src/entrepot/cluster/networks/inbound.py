"""What the other end of a duplex bridge sends, given to our broker and answered when it is stored. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import AccessDenied, EntrepotError, InvalidDestination, Refused, StorageError
from entrepot.cluster.networks.admission import ADVISORY
from entrepot.cluster.networks.comparison import Comparison
from entrepot.cluster.networks.lists import address_of
from entrepot.cluster.networks.neighbourhood import BridgeEnd
from entrepot.cluster.networks.translation import place_of
from entrepot.cluster.networks.wires import Wire
from entrepot.core.addressing.routing import Target
from entrepot.core.sending.flow import BLOCKED, DUPLICATE
from entrepot.model.address import MULTICAST, Destination
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import ExceptionResponse, Response
from entrepot.protocols.openwire.convert import message_of
from entrepot.protocols.openwire.ids import components
from entrepot.protocols.openwire.refusals import throwable_of
from entrepot.protocols.openwire.sending import is_temporary_target
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.protocols.serving.patience import Held, Holding
from entrepot.protocols.serving.targets import keep_target


class _Answer(Confirmation):
    """The answer to the command ``number`` of the other broker."""

    def __init__(self, confirmations: Confirmations, wire: Wire, number: int) -> None:
        super().__init__(confirmations)
        self.wire = wire
        self.number = number

    def give(self) -> None:
        """Answer."""
        self.wire.post(Response(correlation_id=self.number))

    def refuse(self, error: EntrepotError) -> None:
        """Say that it is not stored, or not taken."""
        self.wire.post(ExceptionResponse(correlation_id=self.number, exception=throwable_of(error)))


class _HeldAnswer(Held):
    """An answer that waits for room; ``durable``: and then for the disk."""

    def __init__(self, answer: _Answer, durable: bool) -> None:
        self.answer = answer
        self.durable = durable

    def release(self) -> None:
        """The other broker sends more then."""
        if self.durable:
            self.answer.confirmations.ask(self.answer)
        else:
            self.answer.give()


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
        self._holding: Final = Holding(bridge.broker, bridge.origin)
        self._confirmations = Confirmations(bridge.broker.journal, bridge.origin)

    def take(self, command: commands.Message) -> None:
        """Send ``command`` to our broker."""
        wire = self.bridge.wire
        assert wire is not None
        answer = _Answer(self._confirmations, wire, command.command_id) if command.response_required else None
        try:
            blocked = self._send(command)
        except (Refused, StorageError) as error:
            self.bridge.say(f"a message was refused: {error}")
            if answer is not None:
                answer.refuse(error)
            return
        if answer is None:
            if blocked:
                self._holding.wait()
        elif blocked:
            self._holding.keep(_HeldAnswer(answer, command.persistent))
        elif command.persistent or self._confirmations.owes():
            self._confirmations.ask(answer)
        else:
            answer.give()

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
            places = [address_of(place_of(part)) for part in components(command.reply_to)]
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
        addresses = [address_of(place_of(part)) for part in components(where)]
        for one in addresses:
            if one.temporary and one.routing == MULTICAST:
                self.bridge.neighbourhood.acceptor.check_temporary(one.name)
        self._may_send(addresses)
        target = self.bridge.broker.target(addresses)
        subject = self.bridge.subject
        if subject is not None:
            self.bridge.broker.access.keep(target, subject, addresses)
        keep_target(self._targets, where, target)
        return target

    def _may_send(self, addresses: list[Destination]) -> None:
        """Raise AccessDenied for what the other broker may not do here; one that we dialled may not manage us."""
        broker = self.bridge.broker
        subject = self.bridge.subject
        if subject is not None:
            broker.access.send(subject, addresses)
        elif broker.access.guarded and any(one.name in broker.addresses.services for one in addresses):
            raise AccessDenied("management requests are not taken over a bridge", remedy="connect to this broker")

    def clear(self) -> None:
        """The connection is gone: nobody waits for an answer."""
        self._confirmations.end()
        self._confirmations = Confirmations(self.bridge.broker.journal, self.bridge.origin)
        self._holding.forget()
        self._targets.clear()
