"""From an address to the queues that a message goes to. [C]

`Target` is what a session keeps for a destination it sends to: the answer of the last look-up, good as long as
``version`` is that of the routing table. The table changes when queues come and go, not per message.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Fault
from entrepot.base.patterns import MIXED, PatternTrie, is_pattern, matches
from entrepot.core.addressing.binding import Address, Binding, Group, LocalBinding, RemoteBinding
from entrepot.core.addressing.choice import Choice, may_leave
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policy
from entrepot.core.owners import connection_of
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED
from entrepot.model.headers import Headers, set_headers
from entrepot.model.message import Message
from entrepot.model.origins import note_origin
from entrepot.model.predicate import Predicate

WILDCARDS: Final = ("*", "#", ">")  # of MIXED


@mypyc_attr(allow_interpreted_subclasses=True)
class Service:
    """Something of the broker itself that has an address. What is sent there is not queued: the service takes it."""

    def take(self, message: Message, routing: int) -> None:
        """Take a numbered message that was sent to the queue or topic (``routing``) of its address.

        It may be part of a commit: raise nothing, and leave work for a later turn.
        """
        raise Fault("a service that takes nothing")


@mypyc_attr(allow_interpreted_subclasses=True)
class Permit:
    """The right by which somebody keeps a `Target`."""

    def renew(self) -> None:
        """Look again, if rights were changed since. Raises AccessDenied."""

    def is_stale(self) -> bool:
        """Return whether rights were changed since."""
        return False


class Forward:
    """One place that a `Divert` sends to; ``condition`` None lets everything pass.

    ``passing``: where a message goes that keeps its routing type, by that type; empty: all go to ``target``.
    """

    def __init__(self, target: Target, condition: Predicate | None) -> None:
        self.target: Target = target
        self.condition: Predicate | None = condition
        self.passing: list[Target] = []

    def target_for(self, routing: int) -> Target:
        """Return where a message goes that was sent with ``routing``."""
        return self.passing[routing] if self.passing else self.target


class Divert:
    """A standing order on one address; `core/addressing/diversion.py` makes them by the rules of either family.

    ``routing``: the kind of sends that it listens to (UNTYPED: all). ``exclusive``: the address itself gets nothing of
    what matched, and nothing at all unless ``keeps_unmatched``. ``marks``: copies are messages of their own;
    ``headers``: properties that are set on these.
    """

    def __init__(self, name: str, address: str, routing: int) -> None:
        self.name: str = name
        self.address: str = address
        self.routing: int = routing
        self.forwards: list[Forward] = []
        self.exclusive: bool = False
        self.keeps_unmatched: bool = False
        self.marks: bool = False
        self.headers: Headers = ()

    def sign(self, copy: Message, address: str, routing: int) -> None:
        """Write on ``copy`` where its original was, which was sent by ``routing``, and what is set on copies."""
        note_origin(copy, address, self.name, routing)
        set_headers(copy, self.headers)

    def fills(self, name: str, routing: int) -> bool:
        """Return whether messages are forwarded to the queue or topic ``name``."""
        for forward in self.forwards:  # noqa: SIM110 - a loop compiles to half the time of a generator
            if forward.target.name == name and forward.target.routing == routing:
                return True
        return False


@mypyc_attr(acyclic=True)  # made for a message, it leads to nothing that leads back to it
class Copy:
    """One message that a send makes: its address, where it goes, and whether it has an id of its own.

    ``message``: that message, of which ``source`` is the original; None: it is made of what was sent. ``routing``: the
    type that it goes by.
    """

    def __init__(self, address: str, routing: int, message: Message | None = None, source: Copy | None = None) -> None:
        self.address: str = address
        self.routing: int = routing
        self.message: Message | None = message
        self.source: Copy | None = source
        self.queues: list[Queue] = []
        self.routes: dict[str, bytes] | None = None  # for queues of other nodes: see `Choice.routes`
        self.led: bool = False  # a divert made a copy of it
        self.careful: list[Target] | None = None  # addresses that it passes whose policy wants to know
        self.unread: list[Target] | None = None  # of these, where nobody reads

    def add_routes(self, routes: dict[str, bytes]) -> None:
        """It goes to these queues of other nodes, too."""
        own = self.routes
        if own is None:
            self.routes = routes.copy()
            return
        for key, ids in routes.items():
            own[key] = ids + own.get(key, b"")

    def attend(self, target: Target, unread: bool) -> None:
        """It passes ``target``, whose policy wants to know; ``unread``: nobody reads there."""
        if self.careful is None:
            self.careful = []
        self.careful.append(target)
        if unread:
            if self.unread is None:
                self.unread = []
            self.unread.append(target)


@mypyc_attr(acyclic=True)
class Plan:
    """Where one message goes: the ``main`` one to queues, each once, and which copies composites and diverts make."""

    def __init__(self, routing: int) -> None:
        self.main: Copy = Copy("", routing)
        self.copies: list[Copy] = []
        self.passed: dict[str, None] | None = None  # diverts that were followed: a circle of them ends here
        self.blocked: list[str] | None = None  # addresses that it passes, and that an operator blocked

    def follows(self, divert: str) -> bool:
        """Follow ``divert``; False: that was done before."""
        if self.passed is None:
            self.passed = {}
        elif divert in self.passed:
            return False
        self.passed[divert] = None
        return True

    def meets_block(self, address: str) -> None:
        """It passes ``address``, which an operator blocked."""
        if self.blocked is None:
            self.blocked = [address]
        elif address not in self.blocked:
            self.blocked.append(address)


NOWHERE: Final = Address("")
"""Counts what is sent to addresses that do not exist; nobody reads that."""


class Target:
    """Where sends to one destination go. ``parts`` are the targets of a composite; otherwise ``choice`` is made.

    ``only``: set when the answer is exactly one queue and nothing else has to be looked at, the case that must be fast.
    """

    def __init__(self, name: str, routing: int, queue: str = "") -> None:
        self.name: str = name
        self.routing: int = routing
        self.queue_name: str = queue
        self.version: i64 = -1
        self.only: Queue | None = None
        self.only_id: list[int] = []
        self.choice: Choice = Choice()
        self.diverts: list[Divert] = []
        self.parts: list[Target] = []
        self.policy: Policy | None = None
        self.temporary: bool = False
        self.blocked: bool = False  # an operator blocked the address: its producers wait
        self.stamps: bool = False  # the policy gives or bounds expirations
        self.careful: bool = False  # somebody wants to be told of messages, or the policy to remember them
        self.asked: i64 = 0  # facts about single messages that the policy asks for
        self.tells: i64 = 0  # such facts that somebody takes
        self.address: Address = NOWHERE  # where what is sent is counted
        self.service: Service | None = None  # takes what is sent here; there are no queues then
        self.permit: Permit | None = None

    def bare(self) -> Target:
        """Return one that leads to the same place, and asks for no right."""
        made = Target(self.name, self.routing, self.queue_name)
        made.temporary = self.temporary
        made.parts = [part.bare() for part in self.parts]
        return made

    def attach_nothing(self, version: i64) -> None:
        """Be up to date, and lead to no queue."""
        self.only = None
        self.choice.clear()
        self.diverts = []
        self.blocked = False
        self.stamps = False
        self.careful = False
        self.version = version


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


@mypyc_attr(allow_interpreted_subclasses=True)
class AddressKeeper:
    """Says of addresses that were made by themselves whether they stay when they are empty."""

    def keeps(self, address: Address, last: QueueDefinition) -> bool:
        """Return whether ``address``, whose last queue was ``last``, stays."""
        return False


class RoutingTable:
    """All addresses of a broker. ``version`` rises with every change, which makes every `Target` look again."""

    def __init__(self) -> None:
        self.addresses: dict[str, Address] = {}
        self.queues: dict[str, Queue] = {}
        self.bindings: dict[str, LocalBinding] = {}  # of these queues, by the queue's name
        self.by_identity: dict[int, Queue] = {}
        self.by_told: dict[int, Queue] = {}  # by what other nodes of a cluster call them
        self.remotes: dict[int, RemoteBinding] = {}  # queues of other nodes of a cluster, by what they are called here
        self.version: i64 = 0
        self.wild: PatternTrie[Address] = PatternTrie(MIXED)
        self.wildcards: bool = True  # False: an address with wildcards in its name is one like any other
        self.keeper: AddressKeeper = AddressKeeper()
        self.diverts: dict[str, list[Divert]] = {}
        self.virtual_topics: list[VirtualTopic] = [VirtualTopic()]
        self.declared: dict[str, int] = {}  # routing types that addresses were made for: 1 multicast, 2 anycast, 3 both
        self.blocked: dict[str, bool] = {}  # addresses that an operator blocked: `FlowControl.block`
        self.guarded: dict[str, bool] = {}  # addresses that a pattern reaches only if its first word is written out
        self.mirror_prefix: str = ""  # "" : no mirrored queues; else what is sent to queue X is published on prefix + X

    def address(self, name: str) -> Address:
        """Return the address ``name``, made if there is none."""
        address = self.addresses.get(name)
        if address is None:
            address = Address(name)
            self.addresses[name] = address
            address.pattern = address.pattern and self.wildcards
            if address.pattern:
                self.wild.insert(name, address)
            self.version += 1
        return address

    def add(self, queue: Queue) -> None:
        """Bind ``queue`` to its address."""
        binding = LocalBinding(queue)
        self.address(queue.address).bind(binding)
        self.bindings[queue.name] = binding
        self.queues[queue.name] = queue
        self.by_identity[int(queue.identity)] = queue
        self.by_told[queue.told()] = queue
        self.version += 1

    def add_remote(self, binding: RemoteBinding) -> None:
        """Let a queue of another node have messages of its address."""
        self.address(binding.address).bind(binding)
        self.remotes[int(binding.identity)] = binding
        self.version += 1

    def remove_remote(self, binding: RemoteBinding) -> None:
        """Let it have none any more; its address goes too, if nothing else is bound there."""
        self.remotes.pop(int(binding.identity), None)
        address = self.addresses.get(binding.address)
        if address is not None:
            address.unbind_remote(binding)
            self.version += 1
            self.abandon(address.name)

    def told(self, identity: i64) -> Queue | None:
        """Return the queue that other nodes call ``identity``; None where there is none, or not any more.

        Who asks management for queues hears their numbers, and may say these.
        """
        called = int(identity)
        queue = self.by_told.get(called)
        return queue if queue is not None else self.by_identity.get(called)

    def beyond(self, address: str, routes: list[bytes], node: str = "") -> dict[bytes, RemoteBinding]:
        """Return the queues at ``address`` that a node calls one of ``routes``; what is not known is left out.

        ``node``: which one; "": the message does not say. Nodes number their queues each for itself, so two may call
        theirs the same. One pass over what is known, however many there are: a peer says them.
        """
        wanted = dict.fromkeys(routes)
        found: dict[bytes, RemoteBinding] = {}
        known = self.addresses.get(address)
        for remote in known.remotes() if known is not None else []:
            if remote.route in wanted and remote.queue.name.endswith(node):
                found.setdefault(remote.route, remote)
        if len(found) < len(wanted):
            for remote in self.remotes.values():
                other = remote.route not in wanted or remote.route in found or not remote.queue.name.endswith(node)
                if not other and matches(remote.address, address, MIXED):
                    found[remote.route] = remote
        return found

    def abandon(self, name: str) -> None:
        """Forget the address ``name`` if nothing is bound there and no operator made it."""
        address = self.addresses.get(name)
        if address is not None and address.is_empty and not address.created_by_operator:
            self.drop(address)

    def drop(self, address: Address) -> None:
        """Forget an address that nothing is bound to."""
        del self.addresses[address.name]
        self.blocked.pop(address.name, None)
        if address.pattern:
            self.wild.remove(address.name, address)
        self.version += 1

    def add_divert(self, divert: Divert) -> None:
        """Follow ``divert`` from now on, in place of one of the same name. `Queues.follow` tells of it, too."""
        self.remove_divert(divert.name)
        self.diverts.setdefault(divert.address, []).append(divert)
        self.version += 1

    def remove_divert(self, name: str) -> Divert | None:
        """Follow the divert ``name`` no longer, and return it; None when there is none."""
        for address, diverts in list(self.diverts.items()):
            for divert in diverts:
                if divert.name == name:
                    diverts.remove(divert)
                    if not diverts:
                        del self.diverts[address]
                    self.version += 1
                    return divert
        return None

    def mirror(self, prefix: str) -> None:
        """Publish what is sent to queue X on topic ``prefix`` + X too; "" ends that (classic.md 4.8)."""
        self.mirror_prefix = prefix
        self.version += 1

    def remove(self, queue: Queue) -> None:
        """Unbind ``queue``; an address that is left empty goes with its last queue unless an operator made it."""
        address = self.addresses.get(queue.address)
        if address is not None:
            address.unbind(queue)
            definition = queue.definition
            passing = definition.temporary or connection_of(definition.owner) != ""  # such an address is its own
            own = passing and queue.name == queue.address
            if (
                address.is_empty
                and not address.created_by_operator
                and (own or not self.keeper.keeps(address, definition))
            ):
                self.drop(address)
        self.queues.pop(queue.name, None)
        self.bindings.pop(queue.name, None)
        self.by_identity.pop(int(queue.identity), None)
        self.by_told.pop(queue.told(), None)
        self.version += 1

    def resolve(self, target: Target) -> None:
        """Bring ``target`` up to date with the table."""
        target.only = None
        target.address = self.addresses.get(target.name) or NOWHERE
        target.diverts = self._diverts_of(target)
        target.blocked = target.name in self.blocked
        target.choice.clear()
        if target.queue_name:
            self._lead_to_queue(target)
        else:
            self._lead_to_address(target)
        if not target.diverts and not target.blocked:
            queue = target.choice.only()
            if queue is not None and queue.pending_limit < 0 and not queue.fates.careful:
                target.only = queue
                target.only_id = [int(queue.identity)]
        target.version = self.version

    def _diverts_of(self, target: Target) -> list[Divert]:
        return [
            divert
            for divert in self.diverts.get(target.name, [])
            if divert.routing == UNTYPED or target.routing == UNTYPED or divert.routing == target.routing
        ]

    def _lead_to_queue(self, target: Target) -> None:
        """Let ``target`` lead to the one queue that it names (FQQN), here or on other nodes."""
        binding = self.bindings.get(target.queue_name)
        if not self.remotes:
            if binding is not None:
                target.choice.every.append(binding)
            return
        found: list[Binding] = [] if binding is None else [binding]
        address = self.addresses.get(target.name)
        group = Group()
        if address is not None:
            for remote in address.remotes():
                if remote.queue_name == target.queue_name and may_leave(remote, target.routing):
                    found.append(remote)
                    group = address.group_of(remote)
        if len(found) == 1:
            target.choice.every.append(found[0])
        elif found:
            target.choice.add(group, found)

    def _lead_to_address(self, target: Target) -> None:
        """Let ``target`` lead to what is bound to its address, by its routing type, and to what shares in that."""
        choice = target.choice
        address = self.addresses.get(target.name)
        anycasts = Group() if address is None or target.routing == MULTICAST else address.anycasts
        if target.routing != ANYCAST:
            self._lead_to_topic(choice, target.name, target.routing, target.temporary)
            if any(virtual.selective for virtual in self.virtual_topics):
                choice.selective = [one for one in choice.every if self._is_selective(target.name, one.queue)]
        if self.mirror_prefix and anycasts.bindings and not target.temporary:
            self._lead_to_topic(choice, self.mirror_prefix + target.name, MULTICAST, temporary=False)
        choice.share(anycasts, choice.every, target.routing)  # no queue twice, or it would get a message twice

    def _lead_to_topic(self, choice: Choice, name: str, routing: int, temporary: bool) -> None:
        """Let ``choice`` lead to what a message to the topic ``name`` goes to, each queue once. A temporary topic is
        its maker's: no wildcard and no virtual topic reaches it, as in Classic, where it is in a region of its own.
        """
        known = dict.fromkeys(choice.every, True)
        address = self.addresses.get(name)
        if address is not None and not address.pattern:
            _join(choice, address, routing, known)
        if temporary:
            return
        guarded = name in self.guarded or name[:1] == "$"  # MQTT 5, 4.7.2
        for wild in self.wild.lookup(name):
            if not guarded or wild.name[:1] not in WILDCARDS:
                _join(choice, wild, routing, known)
        for virtual in self.virtual_topics:
            if _covers(virtual.name, name):
                for queue in self.matching(virtual.queue_pattern(name)):
                    binding = self.bindings[queue.name]
                    if queue.routing == ANYCAST and binding not in known:
                        known[binding] = True
                        choice.every.append(binding)

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


def _join(choice: Choice, address: Address, routing: int, known: dict[Binding, bool]) -> None:
    """Let ``choice`` lead to the multicast groups of ``address``, except to those of one binding that is ``known``."""
    for group in address.multicasts.values():
        if len(group.bindings) > 1:
            choice.share(group, [], routing)
        elif group.bindings[0] not in known and may_leave(group.bindings[0], routing):
            known[group.bindings[0]] = True
            choice.every.append(group.bindings[0])


def _covers(pattern: str, name: str) -> bool:
    return matches(pattern, name, MIXED)


def default_routing(table: RoutingTable, name: str) -> int:
    """Return the routing type of a destination named without one: that of its address, a queue where there is none."""
    address = table.addresses.get(name)
    if address is None or (address.has(ANYCAST) and not address.has(MULTICAST)):
        return ANYCAST
    if address.has(MULTICAST) and not address.has(ANYCAST):
        return MULTICAST
    return UNTYPED
