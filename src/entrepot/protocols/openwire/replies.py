"""What a client of OpenWire is told about its commands: at once, or when the disk has them. [C]"""

from __future__ import annotations

from mypy_extensions import i32

from entrepot.base.errors import EntrepotError, StoreLost
from entrepot.protocols.openwire.codec import Encoder
from entrepot.protocols.openwire.commands import Command, ConnectionError, ConnectionId, ExceptionResponse, Response
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.refusals import XA_NOTA, BranchRefused, throwable_of
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
        self.replies.refuse_number(self.response.correlation_id, error)


class Denial(Confirmation):
    """A refusal that is true once the disk has what led to it: the command ``number`` found no such branch."""

    def __init__(self, replies: Replies, number: i32, error: BranchRefused) -> None:
        super().__init__(replies.confirmations)
        self.replies: Replies = replies
        self.number: i32 = number
        self.error: BranchRefused = error

    def give(self) -> None:
        """Write it."""
        self.replies.refuse_number(self.number, self.error)

    def refuse(self, error: EntrepotError) -> None:
        """Say why nobody knows."""
        self.replies.refuse_number(self.number, error)


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
            if on_disk or self.confirmations.owes():
                self.confirmations.ask(Reply(self, response))
            else:
                self.write(response)

    def refuse(self, command: Command, error: EntrepotError) -> None:
        """Tell the client that ``command`` had no effect."""
        if command.response_required:
            if isinstance(error, BranchRefused) and error.xa_code == XA_NOTA:
                self.confirmations.ask(Denial(self, command.command_id, error))
                return
            self.refuse_number(command.command_id, error)
        else:
            self.fail(error)

    def refuse_number(self, number: i32, error: EntrepotError) -> None:
        """Tell the client that the command ``number`` had no effect.

        Not where this broker is not the master any more: the command may yet take effect at the one that is. The broker
        stops, and a client with failover asks there; an answer would be the end of the command for it, as an error.
        """
        if not isinstance(error, StoreLost):
            self.write(ExceptionResponse(correlation_id=number, exception=throwable_of(error)))

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong with the connection; nothing where the broker stops because another one is master."""
        if isinstance(error, StoreLost):
            return
        self.write(ConnectionError(exception=throwable_of(error), connection_id=self.connection_id))
