"""What a prepared branch has, and how each of its messages is said to the node that gets it (artemis.md 1.20).

First what it sends, then what it has taken. Of that a node of ours is told by number from which queue it is
(`ACK_ROUTE`), so the queue must be there; so must be the subscriptions here to what it sends, which would have had it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import Refused
from entrepot.base.patterns import MIXED, matches
from entrepot.base.primitive import BYTE, LONG, Primitive
from entrepot.core.addressing.binding import ACK_ROUTE, BRANCH, ROUTE_TO, Binding
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import asks_for_schedule
from entrepot.core.transactions.branches import Branch, Hold
from entrepot.core.transactions.handed import write_handed
from entrepot.core.transactions.transaction import OCTETS_MAX
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, UNTYPED, Destination
from entrepot.model.message import Message
from entrepot.protocols.artemis.convert import DELIVER_AT, ROUTING, readdressed
from entrepot.protocols.artemis.headers import NO_BODY, headers_at, read_headers
from entrepot.protocols.artemis.places import octet_of
from entrepot.protocols.artemis.presenting import headers_of, octets_of
from entrepot.protocols.artemis.properties import entry, key_octets, with_entries, without

ID_OCTETS: Final = 8  # of the number of a queue
_SAID_ANEW: Final = {key_octets(DELIVER_AT): None, key_octets(ROUTING): None}


class Parcel:
    """One message as the other node is told it. ``large``: its body comes from disk, and ``octets`` has none."""

    def __init__(self, message: Message, octets: bytes, *, large: bool) -> None:
        self.message: Final = message
        self.octets: Final = octets
        self.large: Final = large


class Contents:
    """Those of one branch. ``there``: identity of a queue here -> its number at the other node, filled by the asker."""

    def __init__(self, broker: BrokerCore, branch: Branch) -> None:
        self.broker: Final = broker
        self.branch: Final = branch
        self.there: Final[dict[int, int]] = {}
        self._holds: Final[list[Hold]] = [hold for hold in branch.holds if self._is_here(hold.queue)]
        self._sends: Final[list[tuple[int, Destination]]] = [
            (at, one) for at, (_, text) in enumerate(branch.record.sends) for one in names.parse(text)
        ]
        self._octets = 0

    def __len__(self) -> int:
        return len(self._sends) + len(self._holds)

    def _is_here(self, queue: Queue) -> bool:
        return self.broker.table.by_identity.get(int(queue.identity)) is queue

    def why_not(self, *, ours: bool) -> str:
        """Return why it cannot be at another node, "" where it can.

        An Artemis adds what a branch has taken with the branch, and drops it with its rollback: seen with 2.42, between
        two of them as well. What would be lost so stays.
        """
        if not ours and self._holds:
            return "it has taken messages, and an Artemis loses them if it is rolled back"
        for _, one in self._sends:
            queue = self.broker.table.queues.get(one.queue or one.name)
            if queue is not None and queue.definition.temporary:
                return f"it sends to {queue.name}, which is temporary"
        for hold in self._holds:
            if hold.queue.definition.temporary:
                return f"it has taken something from {hold.queue.name}, which is temporary"
        return ""

    def queues(self) -> list[Queue]:
        """Return those that the other node must have."""
        found = {int(hold.queue.identity): hold.queue for hold in self._holds}
        for one in dict.fromkeys(one for _, one in self._sends):
            for binding in self._leads_to(one):
                queue = binding.queue
                if binding.distance == 0 and queue.durable and not queue.definition.temporary:
                    found[int(queue.identity)] = queue
        return list(found.values())

    def _leads_to(self, where: Destination) -> list[Binding]:
        target = Target(where.name, where.routing, where.queue)
        self.broker.table.resolve(target)
        return target.choice.every + [binding for share in target.choice.shares for binding in share.bindings]

    def parcel(self, at: int, token: bytes, *, ours: bool) -> Parcel:
        """Return message ``at``. ``ours``: for no Artemis. Raises EntrepotError.

        To ours it is said where what it sends goes, as its sender said that: it is looked for with the commit. An
        Artemis looks at once, and while this node is in the cluster it may choose this node: it is told the queue.
        """
        branches, branch = self.broker.branches, self.branch
        if at < len(self._sends):
            send, where = self._sends[at]
            message = branches.message(branch, send)
            if asks_for_schedule(message) and message.need_rare().deliver_at == 0:
                raise Refused("it sends something for a later time, in the words of another language")
            address = f"{where.name}::{where.queue}" if where.queue else where.name
            route = b"" if ours else self._only(where)
            return self._said(message, address, where.routing, route, b"", self._of_ours(token, 0) if ours else b"")
        hold = self._holds[at - len(self._sends)]
        message, deliveries = branches.held(hold)
        queue = hold.queue
        address = message.address if matches(queue.address, message.address, MIXED) else queue.address
        route = self.there[int(queue.identity)].to_bytes(ID_OCTETS, "big", signed=True)
        return self._said(message, address, queue.routing, route, route, self._of_ours(token, deliveries))

    def _of_ours(self, token: bytes, deliveries: int) -> bytes:
        return write_handed(token, deliveries, len(self), self.branch.user or "")

    def _only(self, where: Destination) -> bytes:
        """Return the number there of the one queue that a message to the queue ``where`` goes to; empty for others."""
        found = [one.queue for one in self._leads_to(where) if one.distance == 0]
        if where.routing != ANYCAST or len(found) != 1 or self.broker.table.diverts.get(where.name):
            return b""
        number = self.there.get(int(found[0].identity))
        return b"" if number is None else number.to_bytes(ID_OCTETS, "big", signed=True)

    def _said(self, message: Message, address: str, routing: int, route: bytes, taken: bytes, of_ours: bytes) -> Parcel:
        self._octets += int(message.size)
        if self._octets > OCTETS_MAX:
            raise Refused(f"what it sends and has taken is more than {OCTETS_MAX} octets")
        ids = self.broker.ids
        kind: i64 = octet_of(routing)
        rare = message.rare
        large = rare is not None and rare.large_id != 0
        octets = NO_BODY + headers_of(message, kind, ids) if large else octets_of(message, kind, ids)
        at = headers_at(octets)
        if read_headers(octets, at).address != address:
            octets = readdressed(octets, at, address)
        properties_at = read_headers(octets, at).properties_at
        octets = without(octets, properties_at, _SAID_ANEW)
        entries: list[bytes] = []
        if routing != UNTYPED:
            entries.append(entry(ROUTING, Primitive(BYTE, int(kind))))
        if rare is not None and rare.deliver_at > 0:
            entries.append(entry(DELIVER_AT, Primitive(LONG, int(rare.deliver_at))))
        if route:
            entries.append(entry(ROUTE_TO, route))
        if taken:
            entries.append(entry(ACK_ROUTE, taken))
        if of_ours:
            entries.append(entry(BRANCH, of_ours))
        if entries:
            octets = with_entries(octets, properties_at, b"".join(entries), len(entries))
        return Parcel(message, octets, large=large)
