"""What a client of OpenWire is told about its commands: at once, or when the disk has them. [C]"""

from __future__ import annotations

from entrepot.base.errors import EntrepotError
from entrepot.protocols.openwire.codec import Encoder
from entrepot.protocols.openwire.commands import Command, ConnectionError, ConnectionId, ExceptionResponse, Response
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.refusals import throwable_of
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.protocols.serving.outlet import Outlet
from entrepot.protocols.serving.patience import Held


class Reply(Confirmation):
    """A response that waits for the disk."""

    def __init__(self, replies: Replies, response: Response) -> None:
        super().__init__(replies.confirmations)
        self.replies: Replies = replies
        self.response: Response = response

    def give(self) -> None:
        """Write it."""
        self.replies.write(self.response)

    def refuse(self, error: EntrepotError) -> None:
        """Say that it is not stored."""
        correlation = self.response.correlation_id
        self.replies.write(ExceptionResponse(correlation_id=correlation, exception=throwable_of(error)))


class HeldReply(Held):
    """What a producer is told when there is space: ``reply``, once the disk has it, or ``command``."""

    def __init__(self, replies: Replies, command: Command, reply: Reply | None) -> None:
        self.replies: Replies = replies
        self.command: Command = command
        self.reply: Reply | None = reply

    def release(self) -> None:
        """There is space, or patience is over."""
        if self.reply is not None:
            self.replies.confirmations.ask(self.reply)
        else:
            self.replies.write(self.command)


class Replies:
    """The commands that one connection writes. ``connection_id``: the id of that, once it was let in."""

    def __init__(self, outlet: Outlet, encoder: Encoder, confirmations: Confirmations) -> None:
        self.outlet: Outlet = outlet
        self.encoder: Encoder = encoder
        self.confirmations: Confirmations = confirmations
        self.connection_id: ConnectionId | None = None

    def write(self, command: Structure) -> None:
        """Write one command, while anybody is there to read it."""
        if not self.confirmations.ended:
            outlet = self.outlet
            self.encoder.encode_into(outlet.out, command)
            if not outlet.noted:
                outlet.note()

    def answer(self, command: Command, on_disk: bool) -> None:
        """Answer ``command`` if it asked for that: at once, or when all of it is on disk."""
        if command.response_required:
            response = Response(correlation_id=command.command_id)
            if on_disk:
                self.confirmations.ask(Reply(self, response))
            else:
                self.write(response)

    def refuse(self, command: Command, error: EntrepotError) -> None:
        """Tell the client that ``command`` had no effect."""
        if command.response_required:
            self.write(ExceptionResponse(correlation_id=command.command_id, exception=throwable_of(error)))
        else:
            self.fail(error)

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong with the connection."""
        self.write(ConnectionError(exception=throwable_of(error), connection_id=self.connection_id))
