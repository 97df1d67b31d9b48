"""Links over which a peer that this broker dialled sends to an address here. [C]

A message is accepted when it is on disk here. What this broker cannot take now, because it is full or its disk fails,
is released, and the link is given up: what comes behind would only follow it.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, InvalidDestination, PeerError
from entrepot.core.addressing.routing import Target as Place
from entrepot.model.address import MULTICAST, Destination
from entrepot.protocols.amqp.calling.port import LinkOwner
from entrepot.protocols.amqp.calling.sending import GONE
from entrepot.protocols.amqp.incoming import Incoming
from entrepot.protocols.amqp.large import LargeArrival
from entrepot.protocols.amqp.performatives import Attach, Detach, Rejected, Released, Transfer
from entrepot.protocols.amqp.refusals import error_of
from entrepot.protocols.amqp.session import AmqpSession
from entrepot.protocols.serving.confirmations import Confirmation


class _Closing(Confirmation):
    """A link ends, behind the answers to what came over it."""

    def __init__(self, link: Taking, why: str) -> None:
        super().__init__(link.session.confirmations)
        self.link: Taking = link
        self.why: str = why

    def give(self) -> None:
        """Close it."""
        self.link.close_now(self.why)

    def refuse(self, error: EntrepotError) -> None:
        """The same: what was not stored was said to be so."""
        self.link.close_now(self.why)


class Taking(Incoming):
    """One of them. ``received``: messages that were taken."""

    def __init__(self, session: AmqpSession, name: str, handle: i64, where: Destination) -> None:
        """Raises Refused where messages can go nowhere."""
        super().__init__(session, name, handle, False, 0, where)
        self.owner: LinkOwner = LinkOwner()
        self.why: str = GONE
        self.received: i64 = 0
        self.closing: bool = False  # nothing more is taken; answers are still to be given
        self.over: bool = False
        self.renews: bool = False  # it ends to be asked for anew, with other settings
        self.stays: bool = False  # it ends with its connection alone: the other side is not told that nobody wants it

    def asked(self, said: Attach) -> None:
        """Say in ``said``, which asks the peer for its end, what else is wanted."""

    def objection(self, said: Attach) -> str:
        """Return why what the peer says of its end will not do; "": it will."""
        return ""

    def place(self, where: Destination) -> Place:
        """Return where messages for ``where`` go: this broker asks nobody whether it may. Raises Refused."""
        try:
            return self.broker.target([where])
        except InvalidDestination:
            if where.routing != MULTICAST:
                raise
            return Place(where.name, MULTICAST)  # nothing is bound there: it is taken and dropped

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """A message comes, or a part of one. Raises Refused."""
        if self.closing:
            self.session.passed(transfer)
            return
        super().transfer(transfer, payload)

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """Send a message to its address here."""
        self.received += 1
        super().take(delivery, settled, octets, large)

    def _refuse(self, error: EntrepotError, delivery: i64, settled: bool, transaction: bytes | None) -> None:
        self.received -= 1
        if isinstance(error, PeerError):  # it is no message, and will be none when it comes again
            self.session.dispose(delivery, Rejected(error=error_of(error)))
            return
        self.session.dispose(delivery, Released())
        self.close(f"a message cannot be taken here: {error.message}")

    def close(self, why: str) -> None:
        """Take nothing more, and end the link when all that was taken is answered."""
        if not self.closing:
            self.closing = True
            self.withheld = True
            self.session.confirmations.ask(_Closing(self, why))

    def renew(self, why: str) -> None:
        """End as `close` does, to be asked for anew at once."""
        self.renews = True
        self.close(why)

    def parting(self, why: str) -> EntrepotError | None:
        """Return the reason with which a link that ends since ``why`` ends at the other side; None for none."""
        return None

    def close_now(self, why: str) -> None:
        """Close it; the peer answers."""
        session = self.session
        if self.over:
            return
        if session.links.pop(int(self.handle), None) is not None:
            session.quiet[int(self.handle)] = None
            session.answer()
            if not self.stays:
                reason = self.parting(why)
                error = None if reason is None else error_of(reason)
                session.say(Detach(handle=self.handle, closed=True, error=error))
        self.end(0)
        self._is_over(why)

    def detach_for(self, error: EntrepotError) -> None:
        """A message broke a rule."""
        super().detach_for(error)
        self._is_over(error.message)

    def detach(self, detach: Detach) -> None:
        """The peer detaches it, or refuses it."""
        session = self.session
        session.answer()
        session.say(Detach(handle=self.handle, closed=True))
        self.end(0)
        self._is_over(self.why)

    def _is_over(self, why: str) -> None:
        if not self.over:
            self.over = True
            self.closing = True
            self.owner.ended(why)
