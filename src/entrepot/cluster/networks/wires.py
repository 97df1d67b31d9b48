"""The connection of a bridge, whoever opened it: commands out, numbered, and messages passed on as they came. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64, mypyc_attr

from entrepot.base.errors import EntrepotError
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.commands import Command, Destination, ShutdownInfo
from entrepot.protocols.openwire.convert import LAYOUT
from entrepot.protocols.openwire.relaying import Crossing
from entrepot.protocols.openwire.server import OpenWireSession
from entrepot.protocols.openwire.streaming import begin
from entrepot.protocols.outflow import Outflow

# Two brokers that take whole chunks work in turns: each waits while the other one takes what its window holds. Portions
# let both work at once (measured: 80 k against 137 k messages of 100 octets a second).
MESSAGES_PORTION: Final = 16 * 1024  # of messages, some 80 small ones
ANSWERS_PORTION: Final = 2 * 1024  # of answers, 14 octets each


@mypyc_attr(allow_interpreted_subclasses=True)
class Wire:
    """The connection of a bridge, whoever opened it. ``program``: which one the peer says it is."""

    program: str = ""

    def post(self, command: Command) -> None:
        """Send; no answer is wanted."""
        raise NotImplementedError

    def ask(self, command: Command) -> int:
        """Send, and return the number that the answer will carry."""
        raise NotImplementedError

    def cross(
        self, crossing: Crossing, message: Message, where: Destination, answered: bool, counter: i64, wall: i64
    ) -> i64:
        """Pass ``message`` on as it came; return the number of its answer, 0 for none, -1 if it must be made anew."""
        return -1

    def stream(self, message: commands.Message, body: Outflow, *, answered: bool) -> int:
        """Send ``message`` with ``body`` for its content, part by part; return the number of its answer, 0 for none."""
        raise NotImplementedError

    def end(self, why: str) -> None:
        """Close."""
        raise NotImplementedError


class ClientWire(Wire):
    """A connection that we opened."""

    def __init__(self, client: OpenWireClient) -> None:
        self.client = client
        self.program = client.program

    def post(self, command: Command) -> None:
        """Send."""
        if not self.client.closing:
            self.client.post(command)

    def ask(self, command: Command) -> int:
        """Send, and return the number of the answer."""
        return self.client.ask(command)

    def cross(
        self, crossing: Crossing, message: Message, where: Destination, answered: bool, counter: i64, wall: i64
    ) -> i64:
        """Pass ``message`` on as it came."""
        client = self.client
        if client.layout != LAYOUT:
            return -1
        number = client.number()
        if not crossing.write(client.outflows.out, message, where, number, answered, counter, wall, client.frame_max):
            return -1
        client.written()
        return i64(number) if answered else 0

    def stream(self, message: commands.Message, body: Outflow, *, answered: bool) -> int:
        """Send part by part."""
        return self.client.stream(message, body, answered=answered)

    def end(self, why: str) -> None:
        """Take leave."""
        if not self.client.closing:
            if self.client.live:
                self.client.post(ShutdownInfo())
            self.client.closing = True
            self.client.note()


class SessionWire(Wire):
    """A connection that the other broker opened."""

    def __init__(self, session: OpenWireSession) -> None:
        self.session = session
        self.program = session.decoder.wire_format.peer
        self._commands: i32 = 0

    def post(self, command: Command) -> None:
        """Send."""
        self._commands += 1
        command.command_id = self._commands
        command.response_required = False
        self.session.replies.write(command)

    def ask(self, command: Command) -> int:
        """Send, and return the number of the answer."""
        self._commands += 1
        command.command_id = self._commands
        command.response_required = True
        session = self.session
        session.replies.write(command)
        outlet = session.outlet
        if len(outlet.out) > outlet.high:
            outlet.choke()
        return self._commands

    def cross(
        self, crossing: Crossing, message: Message, where: Destination, answered: bool, counter: i64, wall: i64
    ) -> i64:
        """Pass ``message`` on as it came."""
        session = self.session
        if session.encoder.layout != LAYOUT or session.confirmations.ended:
            return -1
        self._commands += 1
        outlet = session.outlet
        out = outlet.out
        number = self._commands
        if not crossing.write(
            out, message, where, number, answered, counter, wall, session.dispatching.frame_octets_max
        ):
            return -1
        outlet.note()
        if len(out) > outlet.high:
            outlet.choke()
        return i64(number) if answered else 0

    def stream(self, message: commands.Message, body: Outflow, *, answered: bool) -> int:
        """Send part by part."""
        self._commands += 1
        message.command_id = self._commands
        message.response_required = answered
        dispatching = self.session.dispatching
        try:
            head = begin(self.session.encoder, message, message, body, dispatching.frame_octets_max)
        except EntrepotError:
            body.finish(False)
            raise
        outlet = self.session.outlet
        outlet.out.write(head)
        outlet.pour(body)
        return self._commands if answered else 0

    def end(self, why: str) -> None:
        """Take leave."""
        if not self.session.closing:
            self.session.replies.write(ShutdownInfo())
            self.session.outlet.break_off()
            self.session.leave()
            self.session.note()
            self.session.release()
