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
from entrepot.cluster.clusters.reading import MANAGEMENT, UNLIMITED, ReadingSession
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.headers import properties_in
from entrepot.protocols.artemis.packets import CreateQueue
from entrepot.protocols.artemis.places import CORE_MULTICAST

NOTIFICATIONS: Final = "activemq.notifications"
CHANNEL: Final = 10
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


class Listening(ReadingSession):
    """One session over ``client``. ``heard`` takes the properties of each notification; ``refusal``: why none comes."""

    def __init__(
        self,
        client: CoreClient,
        options: ClusterOptions,
        credentials: Credentials,
        entropy: Entropy,
        heard: Callable[[dict[str, object]], None],
    ) -> None:
        self.refusal = ""
        self._options: Final = options
        self._heard: Final = heard
        super().__init__(
            client,
            CHANNEL,
            entropy,
            user=credentials.user,
            password=credentials.password,
            client_id=options.client_id,
            large_octets=options.large_octets,
        )
        self._queue: Final = f"notif.{self.unique}.entrepot"

    def queue(self) -> CreateQueue:
        """Return the queue of notifications."""
        return CreateQueue(
            address=NOTIFICATIONS,
            queue=self._queue,
            filter=filter_of(self._options),
            temporary=True,
            require_response=True,
            routing=CORE_MULTICAST,
            max_consumers=UNLIMITED,
        )

    def denied(self, why: str) -> None:
        """The peer tells nothing."""
        self.refusal = why

    def ready(self) -> None:
        """Ask for all that there is."""
        asked = json.dumps([self._queue, self._options.address], separators=(",", ":"))
        self.ask({"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "sendQueueInfoToQueue"}, asked)

    def came(self, message: bytes) -> None:
        """Pass a notification on."""
        self._heard(properties_in(message))
