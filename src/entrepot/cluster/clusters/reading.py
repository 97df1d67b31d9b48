"""A session at another broker that reads a temporary queue there, and asks its management (artemis.md 1.15, 5.2.11)."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Entropy
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.headers import Headers, assembled
from entrepot.protocols.artemis.packets import (
    CreateConsumer,
    CreateProducer,
    CreateQueue,
    CreateSession,
    CreateSessionReply,
    ExceptionReply,
    FlowToken,
    Packet,
    QueueQueryReply,
    Receive,
    Send,
    Start,
)
from entrepot.protocols.artemis.schema import VERSION_MAX

MANAGEMENT: Final = "activemq.management"
SESSIONS: Final = 1
SENDER: Final = 1
UNLIMITED: Final = -1


class ReadingSession:
    """One session over ``client`` at ``channel``. ``unique``: its name, of which that of the queue is made."""

    def __init__(
        self,
        client: CoreClient,
        channel: int,
        entropy: Entropy,
        *,
        user: str | None,
        password: str | None,
        client_id: str,
        large_octets: int,
    ) -> None:
        self.unique: Final = uuid_text(entropy.token(UUID_OCTETS))
        self._client: Final = client
        self._channel: Final = channel
        self._made = False
        client.send(
            CreateSession(
                name=self.unique,
                session_channel=channel,
                version=VERSION_MAX,
                user=user,
                password=password,
                min_large=large_octets,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=UNLIMITED,
                pre_ack=True,
                client_id=client_id or None,
                channel=SESSIONS,
            )
        )

    def queue(self) -> CreateQueue:
        """Return the queue that is made and read."""
        raise NotImplementedError

    def denied(self, why: str) -> None:
        """The other broker refuses something."""
        raise NotImplementedError

    def ready(self) -> None:
        """The queue is read, and something may be asked."""
        raise NotImplementedError

    def came(self, message: bytes) -> None:
        """A message came to the queue."""
        raise NotImplementedError

    def told(self, packet: Packet) -> None:
        """Take what the other broker says on this session."""
        if isinstance(packet, ExceptionReply) and packet.channel in (SESSIONS, self._channel):
            self.denied(packet.text or f"error {packet.code}")
        elif isinstance(packet, CreateSessionReply) and packet.channel == SESSIONS and not self._made:
            self._made = True
            queue = self.queue()
            self._say(queue)
            self._say(CreateConsumer(consumer=0, queue=queue.queue, require_response=True, priority=0))
        elif packet.channel != self._channel:
            return
        elif isinstance(packet, QueueQueryReply):
            self._say(FlowToken(consumer=0, credits=UNLIMITED))
            self._say(Start())
            self._say(CreateProducer(sender=SENDER, address=MANAGEMENT))
            self.ready()
        elif isinstance(packet, Receive):
            self.came(packet.message)

    def ask(self, properties: dict[str, object], body: str) -> None:
        """Send a request to the management."""
        headers = Headers()
        headers.address = MANAGEMENT
        self._say(Send(message=assembled(text_body(body), headers, properties), sender=SENDER, correlation=1))

    def _say(self, packet: Packet) -> None:
        packet.channel = self._channel
        self._client.send(packet)
