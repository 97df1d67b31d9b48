"""A message that is sent in pieces, while its sender reads them from somewhere: none is kept. [C]

The pieces of a session are those of its one open message, so whoever streams has a session of his own, and what ends
too early is undone by closing that: a server forgets what is incomplete. The pieces that a lost wire carried are gone,
and the message is not sent again. A session that is reattached goes on.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB
from entrepot.base.errors import EntrepotError, Unreachable
from entrepot.protocols.artemis.conversation.credit import Credit
from entrepot.protocols.artemis.conversation.owner import Owner
from entrepot.protocols.artemis.packets import Packet, SendContinuation, SendLarge
from entrepot.protocols.conversing.port import Answer, StreamPort

PIECE_OCTETS: Final = 100 * KIB  # where no message is large by its size


class Stream(StreamPort):
    """The open message of ``session`` to ``address``. ``head``: the message without its body."""

    def __init__(self, session: Owner, sender: i64, address: str, head: bytes) -> None:
        """Raises Unreachable."""
        self.session: Owner = session
        self.sender: i64 = sender
        self.credit: Credit = session.credit(address)
        self.era: i64 = session.era
        self.octets: i64 = 0
        self._post(SendLarge(headers=head), len(head))

    def piece_octets(self) -> int:
        """Return how many octets a piece may have: as those of other large messages."""
        large_from = int(self.session.identity.windows.large_from)
        return large_from if large_from > 0 else PIECE_OCTETS

    def is_full(self) -> bool:
        """Tell whether the next piece must wait, for credit or for the wire on which the session goes on."""
        session = self.session
        if session.requests.away:
            return session.requests.failure is None and session.era == self.era
        return session.requests.wire is not None and self.credit.is_empty()

    def write(self, piece: bytes) -> None:
        """Send a piece that is not the last."""
        self.octets += len(piece)
        self._post(SendContinuation(body=piece, continues=True, body_size=-1, sender=self.sender), len(piece))

    def end(self, piece: bytes, answer: Answer) -> None:
        """Send the last piece, which is answered."""
        self._check()
        self.octets += len(piece)

        def heard(packet: Packet | None, error: EntrepotError | None) -> None:
            answer(error)

        last = SendContinuation(
            body=piece,
            continues=False,
            body_size=self.octets,
            require_response=True,
            correlation=self.session.next_correlation(),
            sender=self.sender,
        )
        self.session.requests.ask(last, heard)
        self.credit.spend(len(piece))

    def _post(self, packet: Packet, octets: i64) -> None:
        self._check()
        self.session.requests.post(packet)
        self.credit.spend(octets)

    def _check(self) -> None:
        session = self.session
        if session.requests.failure is not None:
            raise session.requests.failure
        if session.era != self.era or not session.requests.is_there():
            raise Unreachable("the connection was lost while a message was sent in pieces", remedy="send it again")
