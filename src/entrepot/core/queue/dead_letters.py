"""What becomes of messages that leave their queue unacknowledged: dead letters, and what expired. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import (
    Refused,
)
from entrepot.base.reasons import EXPIRED, Reason
from entrepot.core.addressing.binding import ROUTE_TO, STORE_PREFIX
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policies, Policy
from entrepot.core.addressing.queues import Queues
from entrepot.core.addressing.routing import RoutingTable, Target, default_routing
from entrepot.core.events import announcing
from entrepot.core.ports import Host
from entrepot.core.queue.bereaved import DEAD_CAUSE, take_body_off
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.queue import Queue
from entrepot.core.sending.handing import hand_out
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.message import Message
from entrepot.model.origins import ACTUAL_EXPIRY, ORIGINAL_ADDRESS, ORIGINAL_ID, ORIGINAL_NUMBER, note_origin

DEAD_LETTERS: Final = "ActiveMQ.DLQ"  # for what no policy has a place for
DEAD_COUNT: Final = "deliveryCount"
ORIGINAL_EXPIRATION: Final = "originalExpiration"
ORIGINAL_MODE: Final = "originalDeliveryMode"


class Home:
    """Where a message was: what holds for it there, and ``queue``, in which it was.

    ``way``: the queue in which it waited for another node, where it was in none of its own address yet.
    """

    def __init__(self, address: str, routing: i64, policy: Policy, queue: str) -> None:
        self.address: str = address
        self.routing: i64 = routing
        self.policy: Policy = policy
        self.queue: str = queue
        self.way: str = ""


class DeadLetters:
    """Sends dead and expired messages to the addresses that policies name."""

    def __init__(self, host: Host, queues: Queues) -> None:
        self.host: Host = host
        self.queues: Queues = queues
        self.table: RoutingTable = queues.table
        self.policies: Policies = queues.policies

    def bury(self, queue: QueueHead, message: Message, reason: Reason, deliveries: i64) -> None:
        """Send a copy of ``message`` to the dead-letter address of ``queue``; the caller then finishes the original."""
        home = self._home(queue, message)
        policy = home.policy
        name = policy.dead_letters_of(home.address, home.routing)
        wanted = message.durable or policy.dead_letter_non_persistent or reason.code != EXPIRED
        rare = message.rare
        flaw = "" if rare is None or rare.large_id == 0 else self.host.journal.overflow.flaw(message)
        if not name or not wanted or (not flaw and name in (queue.name, home.address)):
            identity = self.host.ids.identity_of(message)
            announcing.dropped(self.host.hub, queue.place(), message, identity, reason)
            return
        letter = self.host.ids.renumbered(message)
        letter.address = name
        if flaw:
            take_body_off(letter)
            if reason.text != flaw:
                reason = Reason(reason.code, f"{reason.text}; {flaw}")
        letter.annotate(DEAD_CAUSE, reason.text)
        letter.annotate(DEAD_COUNT, str(deliveries))
        if reason.code == EXPIRED:
            letter.annotate(ACTUAL_EXPIRY, str(self.host.wall))
        if not letter.durable:  # what was worth keeping is worth keeping over a restart (classic.md 4.6)
            letter.durable = True
            letter.annotate(ORIGINAL_MODE, "NON_PERSISTENT")
        if name == queue.name:  # it lost its body here, among the dead letters, and has its origin already
            hand_out(self.host, letter, [self.place(name)])
        else:
            if policy.dead_letter_resources:
                self._need_own(name, home.address, policy.dead_letter_prefix, policy.dead_letter_suffix)
            self._send_on(letter, message, home, name, policy.dead_letter_expiry_ms)
        identity = self.host.ids.identity_of(message)
        announcing.dead(self.host.hub, queue.place(), message, identity, reason, name, deliveries)

    def expire(self, queue: QueueHead, message: Message) -> None:
        """Send a copy of ``message`` to the expiry address, or treat it as a dead letter, or drop it (policy)."""
        announcing.expired(self.host.hub, queue.place(), message, self.host.ids.identity_of(message))
        home = self._home(queue, message)
        policy = home.policy
        name = policy.expiry_address
        if name and name not in (queue.name, home.address):
            letter = self.host.ids.renumbered(message)
            letter.address = name
            letter.annotate(ACTUAL_EXPIRY, str(self.host.wall))
            if policy.expiry_resources:
                self._need_own(name, message.address or home.address, policy.expiry_prefix, policy.given.expiry_suffix)
            self._send_on(letter, message, home, name)
        elif policy.dead_letter_expired:
            self.bury(queue, message, Reason(EXPIRED, f"expired at {message.expiration}"), 0)

    def _home(self, queue: QueueHead, message: Message) -> Home:
        """Return where ``message`` is at home: at its own address while it is on its way to another node.

        So it is in Artemis, too: a store-and-forward queue has an address that nobody set anything for.
        """
        if not message.address or not queue.address.startswith(STORE_PREFIX):
            return Home(queue.address, queue.routing, queue.policy, queue.name)
        routing = default_routing(self.table, message.address)
        home = Home(message.address, routing, self.policies.of(message.address, routing), "")
        home.way = queue.name
        return home

    def _send_on(self, letter: Message, message: Message, home: Home, name: str, lives_ms: i64 = 0) -> None:
        if home.way:
            letter.unmark(ROUTE_TO + home.way)
        mark_origin(letter, message, home, self.host.ids.identity_of(message))
        if message.expiration:
            letter.annotate(ORIGINAL_EXPIRATION, str(message.expiration))
            letter.expiration = 0
        if lives_ms > 0:
            letter.expiration = self.host.wall + lives_ms
        self._hand_on(letter, name, home.policy)

    def _hand_on(self, letter: Message, name: str, policy: Policy) -> None:
        """Give ``letter`` to the queues of the address ``name``; to one of that name where there is none."""
        letter.language.route(letter, UNTYPED)  # as Artemis has it: any queue of the address takes letters
        if policy.dead_letter_routed:
            target = Target(name, UNTYPED)
            self.table.resolve(target)
            if not target.choice.is_empty():
                queues = target.choice.choose(letter)
                for key, ids in (target.choice.routes or {}).items():  # to queues of other nodes
                    letter.mark(key, ids)
                hand_out(self.host, letter, queues)
                return
        hand_out(self.host, letter, [self.place(name)])

    def place(self, name: str) -> Queue:
        """Return the queue for dead or expired letters, made whatever the policy of its address says."""
        address = self.table.addresses.get(name)
        if name in self.table.queues or (address is not None and address.has(ANYCAST)):
            return self.queues.need(Destination(name, ANYCAST))
        return self.queues.create(QueueDefinition(name=name, address=name))

    def _need_own(self, address: str, source: str, prefix: str, suffix: str) -> None:
        """Make the queue of ``address`` for letters from ``source`` (artemis.md 4.2), if there is none."""
        name = prefix + source + suffix
        if name in self.table.queues or source == address:
            return
        quoted = source.replace("'", "''")
        selector = f"{ORIGINAL_ADDRESS} = '{quoted}'"
        self.queues.create(
            QueueDefinition(name=name, address=address, routing=MULTICAST, selector=selector, auto_created=True)
        )

    def bury_unrouted(self, message: Message, routing: int) -> None:
        """No queue took the numbered ``message``: send a copy to the dead-letter address (send-to-dla-on-no-route)."""
        policy = self.policies.of(message.address, routing)
        name = policy.dead_letters_of(message.address, routing)
        if not name or name == message.address:
            return
        letter = self.host.ids.renumbered(message)
        letter.address = name
        letter.expiration = 0
        note_origin(letter, message.address, "", routing)
        letter.annotate(ORIGINAL_ID, self.host.ids.identity_of(message))
        letter.mark(ORIGINAL_NUMBER, int(message.number))
        self._hand_on(letter, name, policy)

    def bury_unsendable(self, message: Message, text: str, refusal: Refused) -> None:
        """A message that was promised to ``text`` cannot be sent there any more: make it a dead letter."""
        announcing.unrouted(self.host.hub, message, text, refusal)
        message.number = self.host.ids.next_number()
        self.bury_product(message, refusal)

    def bury_product(self, product: Message, refusal: Refused) -> None:
        """Make the numbered message ``product``, which cannot be sent because of ``refusal``, a dead letter."""
        name = self.policies.of(product.address).dead_letter_address or DEAD_LETTERS
        product.annotate(DEAD_CAUSE, str(refusal))
        if product.expiration:  # a dead letter does not expire, or nobody would ever see it
            product.annotate(ORIGINAL_EXPIRATION, str(product.expiration))
            product.expiration = 0
        product.address = name
        product.durable = True
        hand_out(self.host, product, [self.place(name)])


def mark_origin(copy: Message, message: Message, home: Home, identity: str) -> None:
    """Write on ``copy`` where it was: what Artemis calls the original address, queue, id and routing type."""
    note_origin(copy, message.address or home.address, home.queue, home.routing)
    copy.annotate(ORIGINAL_ID, identity)
    copy.mark(ORIGINAL_NUMBER, int(message.number))
