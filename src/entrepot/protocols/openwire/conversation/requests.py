"""What was said to the broker and waits for an answer; what a lost wire makes of it.

A request whose wire is lost is asked again on the next one, answered here because the end of the connection did what it
asked for, or in doubt: the answer is `in_doubt` or `TransactionInDoubt`, never silence (classic.md 2.3). [C]
"""

from __future__ import annotations

from typing import Final, TypeAlias

from mypy_extensions import mypyc_attr

from entrepot.base.errors import EntrepotError, TransactionInDoubt, Unreachable
from entrepot.protocols.conversing.port import Answer, in_doubt
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.commands import (
    BrokerInfo,
    Command,
    MessageAck,
    RemoveInfo,
    Response,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.conversation.records import Reply, Request, Transaction
from entrepot.protocols.openwire.fanout import FanoutWire
from entrepot.protocols.openwire.ids import TransactionStep, text_of

Wire: TypeAlias = OpenWireClient | FanoutWire


class Doubtful:
    """A commit without an answer, and the broker that was asked. ``identity``: "" where it does not say."""

    def __init__(self, request: Request, transaction: Transaction, broker_name: str, identity: str) -> None:
        self.request: Final = request
        self.transaction: Final = transaction
        self.broker_name: Final = broker_name
        self.identity: Final = identity

    def is_of(self, name: str, identity: str) -> bool:
        """Tell whether a broker has the store that was asked: by its name, or as one that takes turns at one store."""
        return self.broker_name == name or (identity == self.identity and bool(identity))


@mypyc_attr(allow_interpreted_subclasses=True)
class Requests:
    """The wire, what was asked on it, and what waits for one. ``failure``: why there will be none any more."""

    def __init__(self, reconnects: bool) -> None:
        self.reconnects: Final = reconnects
        self.wire: Wire | None = None
        self.failure: EntrepotError | None = None
        self.broker_name = ""
        self.broker_identity = ""
        self.pending: dict[int, Request] = {}
        self.parked: list[Request] = []
        self.doubtful: list[Doubtful] = []

    def meet(self, broker: BrokerInfo) -> None:
        """Note which broker is at the other end."""
        self.broker_name = broker.broker_name or ""
        self.broker_identity = "" if broker.broker_id is None else broker.broker_id.value or ""

    def post(self, command: Command) -> bool:
        """Send ``command`` without wanting an answer; False when there is no wire, and it is dropped."""
        wire = self.wire
        if wire is None or not wire.live:
            return False
        wire.post(command)
        return True

    def ask(self, command: Command, answer: Answer, transaction: Transaction | None = None) -> None:
        """As `request`, for who does not read the response."""
        self.request(command, lambda response, error: answer(error), transaction)

    def request(self, command: Command, reply: Reply, transaction: Transaction | None = None) -> None:
        """Send ``command`` and pass on what comes of it; it waits for a wire if there is none.

        Raises Inexpressible, and then ``reply`` is not called.
        """
        if self.failure is not None:
            reply(None, self.failure)
            return
        request = Request(command, reply, transaction)
        if not self.put(request):
            self.parked.append(request)

    def put(self, request: Request) -> bool:
        """Ask now; False when there is no wire. Raises Inexpressible."""
        wire = self.wire
        if wire is None or not wire.live:
            return False
        self.pending[wire.ask(request.command)] = request
        return True

    def answered(self, number: int, response: Response, error: EntrepotError | None) -> None:
        """The broker answered the command of that ``number``."""
        request = self.pending.pop(number, None)
        if request is not None:
            request.reply(None if error is not None else response, error)

    def lost(self) -> None:
        """The wire is gone: decide about all that was asked on it."""
        self.wire = None
        pending, self.pending = self.pending, {}
        parked: list[Request] = []
        for request in pending.values():
            self._orphan(request, parked)
        self.parked = parked + self.parked

    def end(self, error: EntrepotError) -> None:
        """There will be no wire any more: everything that waits gets ``error``."""
        self.failure = error
        waiting = [*self.pending.values(), *self.parked, *[each.request for each in self.doubtful]]
        self.pending, self.parked, self.doubtful = {}, [], []
        for request in waiting:
            request.reply(None, error)

    def resolved(self) -> list[Doubtful]:
        """Return the doubtful commits that this broker can be asked again; report the others.

        The same messages with the same sequences: a store that has them swallows them all and commits nothing.
        """
        doubtful, self.doubtful = self.doubtful, []
        again: list[Doubtful] = []
        for each in doubtful:
            if each.is_of(self.broker_name, self.broker_identity):
                again.append(each)
            else:
                why = f"{each.broker_name!r} was lost while it was to commit, and {self.broker_name!r} cannot know"
                each.request.reply(None, TransactionInDoubt(f"in doubt: {why}"))
        return again

    def _orphan(self, request: Request, parked: list[Request]) -> None:
        """Decide about a request whose answer is lost: ask again, answer ourselves, or find it in doubt."""
        command = request.command
        transaction = request.transaction
        if request.confirms or isinstance(command, MessageAck):
            request.reply(None, in_doubt("the connection was lost before the broker confirmed it"))
        elif not self.reconnects:
            request.reply(None, Unreachable("the connection to the broker was lost before it answered"))
        elif transaction is not None:
            if transaction.consumed:
                request.reply(None, TransactionInDoubt("in doubt: the broker was lost while it was to commit"))
            else:
                self.doubtful.append(Doubtful(request, transaction, self.broker_name, self.broker_identity))
        elif isinstance(command, TransactionInfo) and isinstance(command.transaction_id, XATransactionId):
            self._orphan_branch(request, command, parked)
        elif isinstance(command, (RemoveInfo, TransactionInfo)):
            if isinstance(command, TransactionInfo) and command.type == TransactionStep.RECOVER:
                parked.append(request)
            else:
                request.reply(None, None)  # the end of the connection did it
        else:
            parked.append(request)

    def _orphan_branch(self, request: Request, command: TransactionInfo, parked: list[Request]) -> None:
        """Decide about a step of a branch: what is prepared outlives the connection, what is not ended with it."""
        step = command.type
        if step == TransactionStep.PREPARE or step == TransactionStep.COMMIT_ONE_PHASE:
            text = text_of(command.transaction_id) if command.transaction_id is not None else ""
            error = TransactionInDoubt(
                f"in doubt: the broker was lost while it was to end {text}", remedy="ask which branches are prepared"
            )
            request.reply(None, error)
        elif step == TransactionStep.END:
            request.reply(None, None)
        else:
            parked.append(request)
