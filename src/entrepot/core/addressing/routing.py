"""From an address to the queues that a message goes to. [C]

`Target` is what a session keeps for a destination it sends to: the answer of the last look-up, good as long as
``version`` is that of the routing table. The table changes when queues come and go, not per message.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Fault
from entrepot.base.patterns import MIXED, PatternTrie, is_pattern, matches
from entrepot.core.addressing.policy import Policy
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate


@mypyc_attr(allow_interpreted_subclasses=True)
class Service:
    """Something of the broker itself that has an address. What is sent there is not queued: the service takes it."""

    def take(self, message: Message, routing: int) -> None:
        """Take a numbered message that was sent to the queue or topic (``routing``) of its address.

        It may be part of a commit: raise nothing, and leave work for a later turn.
        """
        raise Fault("a service that takes nothing")


class Forward:
    """One place that a `Divert` sends to; ``condition`` None lets everything pass."""

    def __init__(self, target: Target, condition: Predicate | None) -> None:
        self.target: Target = target
        self.condition: Predicate | None = condition


class Divert:
    """A standing order on one address; `core/addressing/diversion.py` makes them by the rules of either family.

    ``routing``: the kind of sends that it listens to (UNTYPED: all). ``exclusive``: the address itself gets nothing of
    what matched, and nothing at all unless ``keeps_unmatched``. ``marks``: copies are messages of their own.
    """

    def __init__(self, name: str, address: str, routing: int) -> None:
        self.name: str = name
        self.address: str = address
        self.routing: int = routing
        self.forwards: list[Forward] = []
        self.exclusive: bool = False
        self.keeps_unmatched: bool = False
        self.marks: bool = False

    def fills(self, name: str, routing: int) -> bool:
        """Return whether messages are forwarded to the queue or topic ``name``."""
        for forward in self.forwards:  # noqa: SIM110 - a loop compiles to half the time of a generator
            if forward.target.name == name and forward.target.routing == routing:
                return True
        return False


class Copy:
    """One message that a send makes: its address, where it goes, and whether it has an id of its own."""

    def __init__(self, address: str, fresh: bool) -> None:
        self.address: str = address
        self.fresh: bool = fresh
        self.queues: list[Queue] = []
        self.careful: list[Target] = []  # addresses that it passes whose policy wants to know
        self.unread: list[Target] = []  # of these, where nobody reads


class Plan:
    """Where one message goes: the ``main`` one to queues, each once, and which copies composites and diverts make."""

    def __init__(self) -> None:
        self.main: Copy = Copy("", fresh=False)
        self.copies: list[Copy] = []
        self.passed: dict[str, bool] = {}  # diverts that were followed: a circle of them ends here


class Target:
    """Where sends to one destination go. ``parts`` are the targets of a composite; otherwise ``queues`` or ``turns``.

    ``queues``: each gets the message. ``turns``: anycast queues of which one gets it, in rotation. ``only``: set when
    the answer is exactly one queue and nothing else has to be looked at, the case that must be fast.
    """

    def __init__(self, name: str, routing: int, queue: str = "") -> None:
        self.name: str = name
        self.routing: int = routing
        self.queue_name: str = queue
        self.version: i64 = -1
        self.only: Queue | None = None
        self.only_id: list[int] = []
        self.queues: list[Queue] = []
        self.turns: list[Queue] = []
        self.turn: i64 = 0
        self.selective: list[Queue] = []  # of ``queues`` those that take only what a consumer wants now
        self.diverts: list[Divert] = []
        self.parts: list[Target] = []
        self.policy: Policy | None = None
        self.temporary: bool = False
        self.stamps: bool = False  # the policy gives or bounds expirations
        self.careful: bool = False  # somebody wants to be told of messages, or the policy to remember them
        self.asked: i64 = 0  # facts about single messages that the policy asks for
        self.tells: i64 = 0  # such facts that somebody takes
        self.service: Service | None = None  # takes what is sent here; there are no queues then

    def attach_nothing(self, version: i64) -> None:
        """Be up to date, and lead to no queue."""
        self.only = None
        self.queues = []
        self.turns = []
        self.selective = []
        self.diverts = []
        self.stamps = False
        self.careful = False
        self.version = version

    def chosen(self, message: Message) -> list[Queue]:
        """Return the queues that ``message`` goes to now, filters applied; moves the rotation on."""
        found: list[Queue] = []
        for queue in self.queues:
            if passes(queue, message) and (not self.selective or self._wanted(queue, message)):
                found.append(queue)
        turns = self.turns
        tried: i64 = 0
        while tried < len(turns):
            if self.turn >= len(turns):
                self.turn = 0
            queue = turns[self.turn]
            self.turn += 1
            if passes(queue, message):
                found.append(queue)
                break
            tried += 1
        return found

    def _wanted(self, queue: Queue, message: Message) -> bool:
        """Return whether a consumer of ``queue`` would take ``message``, where its virtual topic asks for that."""
        if queue not in self.selective:
            return True
        for consumer in queue.roster.consumers:  # noqa: SIM110 - a loop compiles to half the time of a generator
            if consumer.wants(message):
                return True
        return False


def passes(queue: Queue, message: Message) -> bool:
    """Return whether the filter of ``queue`` lets ``message`` in."""
    if queue.filter_origin != 0 and queue.filter_origin == message.origin:
        return False
    condition = queue.filter
    return condition is None or condition.matches(message)


class Address:
    """One address: its anycast and its multicast queues. ``pattern`` addresses hold wildcard subscriptions."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.anycast: list[Queue] = []
        self.multicast: list[Queue] = []
        self.pattern: bool = is_pattern(name, MIXED)
        self.created_by_operator: bool = False

    def bind(self, queue: Queue) -> None:
        """Bind ``queue`` under its routing type."""
        (self.multicast if queue.routing == MULTICAST else self.anycast).append(queue)

    def unbind(self, queue: Queue) -> None:
        """Remove ``queue``."""
        queues = self.multicast if queue.routing == MULTICAST else self.anycast
        if queue in queues:
            queues.remove(queue)

    @property
    def is_empty(self) -> bool:
        """Return whether no queue is bound."""
        return not self.anycast and not self.multicast


class VirtualTopic:
    """Classic's virtual topic: queues named prefix + topic + postfix get what is published to the topic (4.8)."""

    def __init__(
        self, name: str = "VirtualTopic.>", prefix: str = "Consumer.*.", postfix: str = "", selective: bool = False
    ) -> None:
        """``selective``: a queue gets only what one of the consumers that it has now would take (selectorAware)."""
        self.selective: bool = selective
        self.name: str = name
        self.prefix: str = prefix
        self.postfix: str = postfix

    def queue_pattern(self, topic: str) -> str:
        """Return the pattern of the queues that share in ``topic``."""
        return f"{self.prefix}{topic}{self.postfix}"


class RoutingTable:
    """All addresses of a broker. ``version`` rises with every change, which makes every `Target` look again."""

    def __init__(self) -> None:
        self.addresses: dict[str, Address] = {}
        self.queues: dict[str, Queue] = {}
        self.by_identity: dict[int, Queue] = {}
        self.version: i64 = 0
        self.wild: PatternTrie[Address] = PatternTrie(MIXED)
        self.diverts: dict[str, list[Divert]] = {}
        self.virtual_topics: list[VirtualTopic] = [VirtualTopic()]
        self.mirror_prefix: str = ""  # "" : no mirrored queues; else what is sent to queue X is published on prefix + X

    def address(self, name: str) -> Address:
        """Return the address ``name``, made if there is none."""
        address = self.addresses.get(name)
        if address is None:
            address = Address(name)
            self.addresses[name] = address
            if address.pattern:
                self.wild.insert(name, address)
            self.version += 1
        return address

    def add(self, queue: Queue) -> None:
        """Bind ``queue`` to its address."""
        self.address(queue.address).bind(queue)
        self.queues[queue.name] = queue
        self.by_identity[int(queue.identity)] = queue
        self.version += 1

    def add_divert(self, divert: Divert) -> None:
        """Follow ``divert`` from now on, in place of one of the same name."""
        self.remove_divert(divert.name)
        self.diverts.setdefault(divert.address, []).append(divert)
        self.version += 1

    def remove_divert(self, name: str) -> bool:
        """Follow the divert ``name`` no longer; False when there is none."""
        for address, diverts in list(self.diverts.items()):
            for divert in diverts:
                if divert.name == name:
                    diverts.remove(divert)
                    if not diverts:
                        del self.diverts[address]
                    self.version += 1
                    return True
        return False

    def mirror(self, prefix: str) -> None:
        """Publish what is sent to queue X on topic ``prefix`` + X too; "" ends that (classic.md 4.8)."""
        self.mirror_prefix = prefix
        self.version += 1

    def remove(self, queue: Queue) -> None:
        """Unbind ``queue``; an address that is left empty goes with its last queue unless an operator made it."""
        address = self.addresses.get(queue.address)
        if address is not None:
            address.unbind(queue)
            if address.is_empty and not address.created_by_operator:
                del self.addresses[address.name]
                if address.pattern:
                    self.wild.remove(address.name, address)
        self.queues.pop(queue.name, None)
        self.by_identity.pop(int(queue.identity), None)
        self.version += 1

    def resolve(self, target: Target) -> None:
        """Bring ``target`` up to date with the table."""
        target.only = None
        target.queues = []
        target.turns = []
        target.selective = []
        target.diverts = [
            divert
            for divert in self.diverts.get(target.name, [])
            if divert.routing == UNTYPED or target.routing == UNTYPED or divert.routing == target.routing
        ]
        if target.queue_name:
            queue = self.queues.get(target.queue_name)
            if queue is not None:
                target.queues = [queue]
        else:
            if target.routing != MULTICAST:
                address = self.addresses.get(target.name)
                target.turns = [] if address is None else list(address.anycast)
            if target.routing != ANYCAST:
                target.queues = self._multicast(target.name, target.temporary)
                if any(virtual.selective for virtual in self.virtual_topics):
                    target.selective = [queue for queue in target.queues if self._is_selective(target.name, queue)]
            if self.mirror_prefix and target.turns and not target.temporary:
                for mirror in self._multicast(self.mirror_prefix + target.name):
                    if mirror not in target.queues:
                        target.queues.append(mirror)
        if target.turns and target.queues:  # no queue twice, or it would get a message twice
            target.turns = [queue for queue in target.turns if queue not in target.queues]
        if len(target.turns) == 1:
            target.queues = target.queues + target.turns
            target.turns = []
        if len(target.queues) == 1 and not target.turns and not target.diverts:
            queue = target.queues[0]
            plain = queue.filter is None and queue.filter_origin == 0 and queue.pending_limit < 0
            if plain and not queue.fates.careful and not target.selective:
                target.only = queue
                target.only_id = [int(queue.identity)]
        target.version = self.version

    def _multicast(self, name: str, temporary: bool = False) -> list[Queue]:
        """Return the queues that a message to the topic ``name`` goes to. A temporary one is its maker's: no wildcard
        and no virtual topic reaches it, as in Classic, where it is in a region of its own.
        """
        queues: list[Queue] = []
        address = self.addresses.get(name)
        if address is not None and not address.pattern:
            queues.extend(address.multicast)
        if temporary:
            return queues
        known = {int(queue.identity) for queue in queues}
        for wild in self.wild.lookup(name):
            for queue in wild.multicast:
                if int(queue.identity) not in known:
                    known.add(int(queue.identity))
                    queues.append(queue)
        for virtual in self.virtual_topics:
            if _covers(virtual.name, name):
                pattern = virtual.queue_pattern(name)
                for queue in self.matching(pattern):
                    if queue.routing == ANYCAST and int(queue.identity) not in known:
                        known.add(int(queue.identity))
                        queues.append(queue)
        return queues

    def _is_selective(self, topic: str, queue: Queue) -> bool:
        """Return whether ``queue`` shares in ``topic`` by virtual topics that ask its consumers, and by no other."""
        if queue.routing != ANYCAST:
            return False
        asked = False
        for virtual in self.virtual_topics:
            if _covers(virtual.name, topic) and _covers(virtual.queue_pattern(topic), queue.name):
                if not virtual.selective:
                    return False
                asked = True
        return asked

    def matching(self, pattern: str) -> list[Queue]:
        """Return the queues whose name ``pattern`` matches, oldest first."""
        if not is_pattern(pattern, MIXED):
            queue = self.queues.get(pattern)
            return [] if queue is None else [queue]
        return [queue for queue in self.queues.values() if _covers(pattern, queue.name)]


def _covers(pattern: str, name: str) -> bool:
    return matches(pattern, name, MIXED)


def default_routing(table: RoutingTable, name: str) -> int:
    """Return the routing type of a destination named without one: that of its address, a queue where there is none."""
    address = table.addresses.get(name)
    if address is None or (address.anycast and not address.multicast):
        return ANYCAST
    if address.multicast and not address.anycast:
        return MULTICAST
    return UNTYPED
