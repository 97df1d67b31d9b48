"""Producers: what they send, in one piece or in several. [C]

A sender that waits for an answer waits for credit, too; one that does not is told that it must (`is_full`).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.protocols.artemis.conversation.messages import address_and_routing, compose
from entrepot.protocols.artemis.conversation.owner import Owner
from entrepot.protocols.artemis.conversation.places import Preparing
from entrepot.protocols.artemis.conversation.streaming import Stream
from entrepot.protocols.artemis.convert import ROUTING_ANYCAST, ROUTING_NONE
from entrepot.protocols.artemis.headers import headers_at
from entrepot.protocols.artemis.packets import (
    CreateProducer,
    CreateQueue,
    Packet,
    RemoveProducer,
    Send,
    SendContinuation,
    SendLarge,
)
from entrepot.protocols.conversing.content import Outgoing
from entrepot.protocols.conversing.port import Answer, ProducerPort, StreamPort

NO_ANSWER: Final = 0  # the correlation of a send that wants none


class ProducerCore(ProducerPort):
    """One producer. ``sender``: its number in the session."""

    def __init__(self, session: Owner, sender: i64, destination: str | None, window: i64) -> None:
        """Raises InvalidDestination."""
        self.session: Owner = session
        self.sender: i64 = sender
        self.destination: str | None = destination
        self.window: i64 = window
        self.address: str = ""
        self.routing: i64 = ROUTING_NONE
        self.confirmed: bool = False
        self.closed: bool = False
        self.opening: Answer | None = None
        if destination is not None:
            self.address, self.routing = address_and_routing(destination)

    # -- its life ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make sure that there is somewhere to send to, and tell the server of it."""
        requests = self.session.requests
        if self.destination is None:
            self._prepared(None)
            return
        preparing = Preparing(requests, self.address.partition("::")[0], self.routing, self._prepared)
        if self.routing == ROUTING_ANYCAST and "::" not in self.address:
            preparing.queue = CreateQueue(
                address=self.address,
                queue=self.address,
                durable=True,
                require_response=True,
                auto_created=True,
                routing=self.routing,
            )
        preparing.begin()

    def _prepared(self, error: EntrepotError | None) -> None:
        opening, self.opening = self.opening, None
        if not self.closed and (error is None or self.confirmed):  # after a loss the next send says what is wrong
            if self.address:
                self.session.credit(self.address).ask()
            self.session.requests.post(CreateProducer(sender=self.sender, address=self.address or None))
            self.confirmed = True
        if opening is not None:
            opening(error)

    def close(self) -> None:
        """Close it."""
        self.closed = True
        if self.session.forget_producer(self.sender) and self.confirmed:
            self.session.requests.post(RemoveProducer(sender=self.sender))

    # -- sending -------------------------------------------------------------------------------------------------------

    def is_full(self) -> bool:
        """Tell whether the next send must wait for credit."""
        session = self.session
        return bool(self.address) and session.requests.is_there() and session.credit(self.address).is_empty()

    def send(self, outgoing: Outgoing, answer: Answer | None) -> bool:
        """Send a message."""
        session = self.session
        address, routing = self.address, self.routing
        if outgoing.destination:
            address, routing = address_and_routing(outgoing.destination)
        if not address:
            raise InvalidDestination("this producer has no destination", remedy="name one in send()")
        if session.transacted:
            answer = None
        elif answer is None and not session.requests.is_there():
            return False
        identity = session.identity
        user_id = identity.user_id()
        repeatable = outgoing.persistent and identity.reconnects and (answer is not None or session.transacted)
        mark = user_id.hex() if repeatable else ""
        octets = compose(outgoing, address, routing, user_id, identity.client_id, mark)
        packets = self._packets(octets, answer is not None)
        if session.transacted:
            session.send_in(packets, address, len(octets))
        elif answer is None:
            for packet in packets:
                session.requests.post(packet)
            session.credit(address).spend(len(octets))
        else:
            self._ask(packets, address, len(octets), answer, bool(mark))
        return True

    def stream(self, outgoing: Outgoing) -> StreamPort:
        """Begin a message in pieces, to where this producer sends."""
        identity = self.session.identity
        octets = compose(outgoing, self.address, self.routing, identity.user_id(), identity.client_id, "")
        return Stream(self.session, self.sender, self.address, octets[headers_at(octets) :])

    def _ask(self, packets: list[Packet], address: str, octets: i64, answer: Answer, again: bool) -> None:
        """Send what is answered, when there is credit."""
        session = self.session
        credit = session.credit(address)

        def heard(packet: Packet | None, error: EntrepotError | None) -> None:
            answer(error)

        def go() -> None:
            session.requests.ask_with(packets, heard, again=again or not session.identity.reconnects)
            credit.spend(octets)

        if session.requests.is_there() and credit.asked > 0 and credit.is_empty():
            credit.waiting.append(go)
        else:
            go()

    def _packets(self, octets: bytes, answered: bool) -> list[Packet]:
        """Return what carries a message: a SEND, or the pieces of a large one."""
        session = self.session
        correlation: i64 = session.next_correlation() if answered else NO_ANSWER
        large_from = session.identity.windows.large_from
        if large_from <= 0 or len(octets) < large_from:
            return [Send(message=octets, require_response=answered, correlation=correlation, sender=self.sender)]
        at = headers_at(octets)
        packets: list[Packet] = [SendLarge(headers=octets[at:])]
        body_octets = at - 4
        start: i64 = 0
        while start < body_octets or start == 0:
            end = min(start + large_from, body_octets)
            last = end >= body_octets
            packets.append(
                SendContinuation(
                    body=octets[4 + start : 4 + end],
                    continues=not last,
                    body_size=body_octets,
                    require_response=answered and last,
                    correlation=correlation if last else NO_ANSWER,
                    sender=self.sender,
                )
            )
            start = end if end > start else start + 1
        return packets
