"""Where a program's consumers read, and how queues and addresses come to be for it (artemis.md 5.2.10). [C]"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.protocols.artemis.conversation.identity import Identity
from entrepot.protocols.artemis.conversation.messages import address_and_routing
from entrepot.protocols.artemis.conversation.requests import Requests, is_lost
from entrepot.protocols.artemis.convert import CONNECTION, ROUTING_ANYCAST, ROUTING_MULTICAST
from entrepot.protocols.artemis.packets import (
    BindingQuery,
    BindingQueryReply,
    CreateAddress,
    CreateQueue,
    Packet,
)
from entrepot.protocols.conversing.content import Wish

JMS_WORDS: Final = {
    "JMSPriority": "AMQPriority",
    "JMSTimestamp": "AMQTimestamp",
    "JMSExpiration": "AMQExpiration",
    "JMSMessageID": "AMQUserID",
    "JMSDeliveryMode": "AMQDurable",
    "JMSXGroupID": "AMQGroupID",
    "JMSXGroupSeq": "_AMQ_GROUP_SEQUENCE",
    "JMSXUserID": "_AMQ_VALIDATED_USER",
}
"""Headers of JMS as filters of CORE call them."""
MODES: Final = {"'PERSISTENT'": "'DURABLE'", "'NON_PERSISTENT'": "'NON_DURABLE'"}
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|[A-Za-z_$][A-Za-z0-9_$]*")

Prepared = Callable[[EntrepotError | None], None]


def filter_of(selector: str) -> str:
    """Return a selector of JMS as a filter of CORE."""
    by_mode = "JMSDeliveryMode" in selector

    def word(match: re.Match[str]) -> str:
        text = match[0]
        return MODES.get(text, text) if text.startswith("'") and by_mode else JMS_WORDS.get(text, text)

    return _TOKEN.sub(word, selector)


def subscription_queue(client_id: str, name: str) -> str:
    """Return the queue of a durable subscription (5.2.4, Subscription queue names)."""
    escaped = [part.replace("\\", "\\\\").replace(".", "\\.") for part in (client_id, name) if part]
    return ".".join(escaped)


class Place:
    """What one consumer reads. ``is_own``: its queue is made for it alone, and ends with it."""

    def __init__(self, identity: Identity, wish: Wish) -> None:
        """Raises InvalidDestination."""
        name, self.routing = address_and_routing(wish.destination)
        self.address, _, queue = name.partition("::")
        self.queue: str = queue or self.address
        self.durable: bool = wish.durable is not None
        self.is_own: bool = False
        self.filter: str | None = self._filter(identity, wish)
        if self.routing == ROUTING_MULTICAST and not queue:
            if wish.durable is not None:
                self.queue = subscription_queue(identity.client_id, wish.durable)
            else:
                self.queue = identity.unique()
                self.is_own = True

    def _filter(self, identity: Identity, wish: Wish) -> str | None:
        parts = [] if not wish.selector else [f"({filter_of(wish.selector)})"]
        if wish.no_local:
            name = identity.client_id.replace("'", "''")
            parts.append(f"({CONNECTION} <> '{name}')")
        return " AND ".join(parts) or None

    @property
    def consumer_filter(self) -> str | None:
        """The filter of the consumer: of a subscription's queue it is the queue's."""
        return self.filter if self.routing == ROUTING_ANYCAST else None


class Preparing:
    """Makes sure that an address, and a queue of it, are there: asks, and creates what may be created."""

    def __init__(self, requests: Requests, address: str, routing: i64, prepared: Prepared) -> None:
        """``prepared`` is called once; not at all when the wire is lost, which begins all anew."""
        self.requests: Requests = requests
        self.address: str = address
        self.routing: i64 = routing
        self.prepared: Prepared = prepared
        self.queue: CreateQueue | None = None  # what is to be there besides the address

    def begin(self) -> None:
        """Ask what is there."""
        self.requests.ask(BindingQuery(address=self.address), self._looked)

    def _looked(self, packet: Packet | None, error: EntrepotError | None) -> None:
        if is_lost(error):
            return
        if error is not None or not isinstance(packet, BindingQueryReply):
            self.prepared(error)
            return
        if not packet.exists:
            if not packet.auto_create_addresses and not packet.auto_create_queues:
                self.prepared(InvalidDestination(f"there is no address {self.address!r}, and none is made of itself"))
                return
            create = CreateAddress(
                address=self.address, routing_types=[int(self.routing)], require_response=True, auto_created=True
            )
            self.requests.ask(create, self._ignored)
        queue = self.queue
        if queue is None or (queue.queue in packet.queues and not queue.temporary):
            self.prepared(None)
        elif not packet.auto_create_queues and queue.auto_created:
            self.prepared(InvalidDestination(f"there is no queue {queue.queue!r}, and none is made of itself"))
        else:
            self.requests.ask(queue, self._created)

    def _ignored(self, packet: Packet | None, error: EntrepotError | None) -> None:
        """It may have come to be meanwhile, and what follows says what is wrong."""

    def _created(self, packet: Packet | None, error: EntrepotError | None) -> None:
        if is_lost(error):
            return
        exists = isinstance(error, InvalidDestination)  # somebody else made it meanwhile
        self.prepared(None if exists else error)
