"""A session that hears what queues and consumers another node has (artemis.md 1.15, 5.2.11).

It makes a temporary queue for notifications at the peer, reads it, and asks for all that there is by a message to its
management. No answer is needed: what was asked for comes as notifications.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Entropy
from entrepot.cluster.clusters.members import Credentials
from entrepot.cluster.clusters.options import ClusterOptions
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.headers import Headers, assembled, properties_in
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
from entrepot.protocols.artemis.places import CORE_MULTICAST
from entrepot.protocols.artemis.schema import VERSION_MAX

NOTIFICATIONS: Final = "activemq.notifications"
MANAGEMENT: Final = "activemq.management"
SESSIONS: Final = 1
CHANNEL: Final = 10
UNLIMITED: Final = -1
TYPES: Final = (
    "SESSION_CREATED",
    "BINDING_ADDED",
    "BINDING_REMOVED",
    "BINDING_UPDATED",
    "CONSUMER_CREATED",
    "CONSUMER_CLOSED",
    "PROPOSAL",
    "PROPOSAL_RESPONSE",
    "UNPROPOSAL",
)
IGNORED: Final = ("$.artemis.internal.sf.", MANAGEMENT)
"""Addresses whose queues are nobody else's, by their beginnings."""


def address_rule(text: str) -> str:
    """Return the selector for the addresses of which ``text`` speaks (artemis.md 1.9)."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    taken = [_like(word) for word in words if not word.startswith("!")]
    left = [_like(word[1:], "NOT ") for word in words if word.startswith("!") and len(word) > 1]
    left += [_like(word, "NOT ") for word in IGNORED]
    rule = f"({' AND '.join(left)})"
    return f"(({' OR '.join(taken)}) AND {rule})" if taken else rule


def _like(beginning: str, no: str = "") -> str:
    written = beginning.replace("'", "''")
    return f"(_AMQ_Address {no}LIKE '{written}%')"


def filter_of(options: ClusterOptions) -> str:
    """Return what the queue for notifications lets in."""
    types = ", ".join(f"'{one}'" for one in TYPES)
    return (
        f"(_AMQ_Binding_Type <> 2 OR _AMQ_Binding_Type IS NULL) AND _AMQ_NotifType IN ({types}) "
        f"AND _AMQ_Distance < {options.max_hops} AND ({address_rule(options.address)}) "
        f"AND (_AMQ_NotifType = 'SESSION_CREATED' OR (_AMQ_Address NOT LIKE '{NOTIFICATIONS}%'))"
    )


class Listening:
    """One session over ``client``. ``heard`` takes the properties of each notification."""

    def __init__(
        self,
        client: CoreClient,
        options: ClusterOptions,
        credentials: Credentials,
        entropy: Entropy,
        heard: Callable[[dict[str, object]], None],
    ) -> None:
        self.refusal = ""
        self._client: Final = client
        self._options: Final = options
        self._heard: Final = heard
        digits = entropy.token(16).hex()
        unique = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        self._queue: Final = f"notif.{unique}.entrepot"
        client.send(
            CreateSession(
                name=unique,
                session_channel=CHANNEL,
                version=VERSION_MAX,
                user=credentials.user,
                password=credentials.password,
                min_large=options.large_octets,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=UNLIMITED,
                pre_ack=True,
                client_id=options.client_id or None,
                channel=SESSIONS,
            )
        )

    def told(self, packet: Packet) -> None:
        """Take what the peer says; `refusal` says why it does not tell anything."""
        if isinstance(packet, ExceptionReply) and packet.channel in (SESSIONS, CHANNEL):
            self.refusal = packet.text or f"error {packet.code}"
        elif isinstance(packet, CreateSessionReply):
            self._say(
                CreateQueue(
                    address=NOTIFICATIONS,
                    queue=self._queue,
                    filter=filter_of(self._options),
                    temporary=True,
                    require_response=True,
                    routing=CORE_MULTICAST,
                    max_consumers=UNLIMITED,
                )
            )
            self._say(CreateConsumer(consumer=0, queue=self._queue, require_response=True, priority=0))
        elif isinstance(packet, QueueQueryReply):
            self._ask()
        elif isinstance(packet, Receive) and packet.channel == CHANNEL:
            self._heard(properties_in(packet.message))

    def _ask(self) -> None:
        """The queue is read: let messages come, and ask for all that there is."""
        self._say(FlowToken(consumer=0, credits=UNLIMITED))
        self._say(Start())
        self._say(CreateProducer(sender=1, address=MANAGEMENT))
        headers = Headers()
        headers.address = MANAGEMENT
        asked = json.dumps([self._queue, self._options.address], separators=(",", ":"))
        properties: dict[str, object] = {
            "_AMQ_ResourceName": "broker",
            "_AMQ_OperationName": "sendQueueInfoToQueue",
        }
        octets = assembled(text_body(asked), headers, properties)
        self._say(Send(message=octets, sender=1, correlation=1))

    def _say(self, packet: Packet) -> None:
        packet.channel = CHANNEL
        self._client.send(packet)
