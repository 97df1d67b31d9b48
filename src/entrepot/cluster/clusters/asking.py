"""A session at another broker that asks its management, one question after the other (artemis.md 5.2.11, 7.2).

Questions are messages to the management address, answers come to a temporary queue. What is asked before the queue is
there waits. The answer to a question is told with whether it succeeded: a value of JSON, or the text of the refusal.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from entrepot.base.environment import Entropy
from entrepot.base.errors import PeerError
from entrepot.protocols.artemis.bodies import text_body, text_of
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.headers import Headers, assembled, body_of, properties_in
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
from entrepot.protocols.artemis.places import CORE_ANYCAST
from entrepot.protocols.artemis.schema import VERSION_MAX

MANAGEMENT: Final = "activemq.management"
SESSIONS: Final = 1
CHANNEL: Final = 20  # beside those of a carrier and of notifications on the same connection
SENDER: Final = 1
UNLIMITED: Final = -1
LARGE_OCTETS: Final = 100 * 1024

Answer = Callable[[bool, object], None]


class _Question:
    def __init__(self, properties: dict[str, object], body: str, answer: Answer) -> None:
        self.properties: Final = properties
        self.body: Final = body
        self.answer: Final = answer


class Asking:
    """One session over ``client``. ``refused``: why it asks nothing, told once."""

    def __init__(
        self,
        client: CoreClient,
        user: str,
        password: str,
        entropy: Entropy,
        refused: Callable[[str], None],
        client_id: str = "",
    ) -> None:
        self._client: Final = client
        self._refused: Final = refused
        digits = entropy.token(16).hex()
        self._unique: Final = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        self._queue: Final = f"{MANAGEMENT}.{self._unique}"
        self._waiting: deque[_Question] = deque()
        self._asked: _Question | None = None
        self._ready = False
        client.send(
            CreateSession(
                name=self._unique,
                session_channel=CHANNEL,
                version=VERSION_MAX,
                user=user or None,
                password=password or None,
                min_large=LARGE_OCTETS,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=UNLIMITED,
                pre_ack=True,
                client_id=client_id or None,
                channel=SESSIONS,
            )
        )

    def attribute(self, resource: str, name: str, answer: Answer) -> None:
        """Ask for the attribute ``name`` of ``resource``."""
        said: dict[str, object] = {"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}
        self._add(_Question(said, "[]", answer))

    def operation(self, resource: str, name: str, arguments: Sequence[object], answer: Answer) -> None:
        """Ask ``resource`` to do ``name``."""
        said: dict[str, object] = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": name}
        self._add(_Question(said, json.dumps(list(arguments), separators=(",", ":")), answer))

    def _add(self, question: _Question) -> None:
        self._waiting.append(question)
        self._go_on()

    def _go_on(self) -> None:
        if not self._ready or self._asked is not None or not self._waiting:
            return
        question = self._asked = self._waiting.popleft()
        headers = Headers()
        headers.address = MANAGEMENT
        properties = {"JMSReplyTo": f"queue://{self._queue}", **question.properties}
        octets = assembled(text_body(question.body), headers, properties)
        self._say(Send(message=octets, sender=SENDER, correlation=1))

    def told(self, packet: Packet) -> None:
        """Take what the other broker says on this session."""
        if isinstance(packet, ExceptionReply) and packet.channel in (SESSIONS, CHANNEL):
            self._refused(packet.text or f"error {packet.code}")
        elif isinstance(packet, CreateSessionReply) and packet.channel == SESSIONS and not self._ready:
            self._say(
                CreateQueue(
                    address=self._queue,
                    queue=self._queue,
                    temporary=True,
                    require_response=True,
                    routing=CORE_ANYCAST,
                    max_consumers=UNLIMITED,
                )
            )
            self._say(CreateConsumer(consumer=0, queue=self._queue, require_response=True, priority=0))
        elif packet.channel != CHANNEL:
            return
        elif isinstance(packet, QueueQueryReply):
            self._say(FlowToken(consumer=0, credits=UNLIMITED))
            self._say(Start())
            self._say(CreateProducer(sender=SENDER, address=MANAGEMENT))
            self._ready = True
            self._go_on()
        elif isinstance(packet, Receive):
            self._heard(packet.message)

    def _heard(self, message: bytes) -> None:
        question, self._asked = self._asked, None
        if question is None:
            return
        succeeded = properties_in(message).get("_AMQ_OperationSucceeded") is True
        value: object = None
        try:
            found = json.loads(text_of(body_of(message)) or "[]")
            value = found[0] if isinstance(found, list) and found else None
        except (ValueError, PeerError, RecursionError):
            succeeded, value = False, "its answer cannot be read"
        question.answer(succeeded, value)
        self._go_on()

    def _say(self, packet: Packet) -> None:
        packet.channel = CHANNEL
        self._client.send(packet)
