"""What the producers and the consumers of a session ask of it. [C]"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import Instant
from entrepot.protocols.artemis.conversation.credit import Credit
from entrepot.protocols.artemis.conversation.identity import Identity
from entrepot.protocols.artemis.conversation.requests import Requests
from entrepot.protocols.artemis.packets import Packet
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.conversing.port import Answer, SessionPort


@mypyc_attr(allow_interpreted_subclasses=True)
class Owner(SessionPort):
    """A session, as its parts have it.

    ``era`` counts lost wires. ``dropping``: what comes is delivered again. ``consumed``: the transaction did.
    ``unsaved``: acknowledgements wait for a COMMIT (CLIENT, INDIVIDUAL). ``settles``: its transaction may take
    acknowledgements; False between the branches that it works for.
    """

    def __init__(self, identity: Identity, mode: Acknowledge, channel: i64) -> None:
        super().__init__(mode)
        self.identity: Identity = identity
        self.channel: i64 = channel
        self.requests: Requests = Requests(channel)
        self.transacted: bool = False
        self.era: i64 = 0
        self.dropping: bool = False
        self.consumed: bool = False
        self.unsaved: bool = False
        self.settles: bool = True

    def forget_consumer(self, number: i64) -> None:
        """A consumer is closed, or was not opened."""
        raise NotImplementedError

    def forget_producer(self, sender: i64) -> bool:
        """A producer is closed; False: it was before."""
        raise NotImplementedError

    def confirm(self, era: i64, answer: Answer) -> None:
        """Let ``answer`` come when the acknowledgements so far are stored."""
        raise NotImplementedError

    def ring_at(self, due: Instant) -> None:
        """Look at the consumers then."""
        raise NotImplementedError

    def credit(self, address: str) -> Credit:
        """Return what may be sent to ``address``."""
        raise NotImplementedError

    def next_correlation(self) -> i64:
        """Return the number of a send that is answered."""
        raise NotImplementedError

    def send_in(self, packets: list[Packet], address: str, octets: i64) -> None:
        """Send within the transaction."""
        raise NotImplementedError
