"""What a subject may do to which destination; who comes in at all is decided by the `Directory` in it.

Rules give rights on destinations to groups. Every rule whose pattern covers a destination counts, and what any of them
gives is given (classic.md 7.3): a broad grant cannot be narrowed. Or, as in Artemis, only the most specific rule counts
(artemis.md 7.1): one that gives less takes away. Without rules everybody who is in may do everything.

Sessions ask once for each producer, consumer or new destination, never for a message, and keep the answer with the
target that they keep anyway; so rights cost nothing on the path of a message.

Decided on purpose, where ActiveMQ Classic does otherwise:
- who subscribes to a wildcard needs rights on all that it covers, from a rule at least as wide; Classic adds up the
  rules of everything below, and lets a reader of ``a.b`` read ``a.>``. Where the most specific rule counts, the rules
  of what is below have to give the right too: Artemis looks for the wildcard as if it were a name;
- who removes a destination needs the right to, also if it exists (Classic 5.17 asks only for those that do not);
- a queue that is reached by another name than its address's (``address::queue``, the queue of a subscription) takes
  the right on both; the temporary destination of another connection, by its plain name, takes the right to manage;
- a temporary destination has a name that begins with ``ID:`` (clients with a connectionIDPrefix of their own need rules
  for what they make), or a client could call temporary what is not;
- the management address takes the right to manage: an ``admin`` of it, or who is given ``manage``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from entrepot.base.errors import AccessDenied
from entrepot.base.patterns import MIXED, PatternTrie, covers, is_pattern, overlaps, specificity
from entrepot.base.provenance import NOWHERE, Spot
from entrepot.core.addressing.routing import Permit, RoutingTable, Service, Target, default_routing
from entrepot.core.events.facts import RIGHT_REFUSED, Hub, SecurityFact
from entrepot.core.queue.queue import Queue
from entrepot.core.security.directory import Certified, Directory, Subject, User
from entrepot.core.security.logins import Knock, Logins
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination

SEND: Final = 1
CONSUME: Final = 2
BROWSE: Final = 4
SUBSCRIBE: Final = 8  # to make and to remove a durable subscription
CREATE: Final = 16
DELETE: Final = 32
MANAGE: Final = 64
VIEW: Final = 128  # to ask what is there, and ...
EDIT: Final = 256  # ... to change it, by management messages: only where each operation takes a right of its own

READ: Final = CONSUME | BROWSE | SUBSCRIBE
WRITE: Final = SEND
ADMIN: Final = CREATE | DELETE | MANAGE
EVERYTHING: Final = READ | WRITE | ADMIN

SINGLE: Final[Mapping[str, int]] = {
    "send": SEND,
    "consume": CONSUME,
    "browse": BROWSE,
    "subscribe": SUBSCRIBE,
    "create": CREATE,
    "delete": DELETE,
    "manage": MANAGE,
}
"""One right each, by its name, in the order in which they are shown."""
RIGHTS: Final[Mapping[str, int]] = {
    **SINGLE,
    "read": READ,
    "write": WRITE,
    "admin": ADMIN,
    "all": EVERYTHING,
}
"""Right, or set of rights, by the name that an operator gives it."""

EVERYBODY: Final = "*"  # as a group: all who were let in
TEMPORARY_NAMES: Final = "ID:"
ADVISORIES: Final = "ActiveMQ.Advisory."
MANAGEMENT: Final = "activemq.management"  # where `core/operators/management.py` answers
NOTIFICATIONS: Final = "activemq.notifications"  # where Artemis tells what happens, if nothing else is said
SINKS: Final = "ActiveMQ.Sink."  # before the name of a sink of staged commits: its place in rules
TOPICS_KEPT: Final = 100_000

VERBS: Final[Mapping[int, str]] = {
    SEND: "write to",
    CONSUME: "read from",
    BROWSE: "read from",
    SUBSCRIBE: "read from",
    CREATE: "create",
    DELETE: "remove",
    MANAGE: "manage",
}
"""What a refusal says; the words are those of ActiveMQ, where it has some."""


class Rule:
    """Rights on what ``pattern`` covers: group -> rights. ``routing`` UNTYPED: queues and topics. ``at``: where it is.

    ``said``: group -> the permissions of Artemis that these rights come from, where they do.
    """

    def __init__(
        self,
        pattern: str,
        routing: int,
        grants: Mapping[str, int],
        said: Mapping[str, Iterable[str]] | None = None,
        at: Spot = NOWHERE,
    ) -> None:
        self.at: Final = at
        self.pattern: Final = pattern
        self.routing: Final = routing
        self.grants: Final = dict(grants)
        self.said: Final = None if said is None else {group: tuple(kinds) for group, kinds in said.items()}

    def given(self, subject: Subject) -> int:
        """Return the rights of ``subject``."""
        found = self.grants.get(EVERYBODY, 0)
        for group, rights in self.grants.items():
            if group in subject.groups:
                found |= rights
        return found


class Weighed:
    """The rules that count for one address. What one of ``giving`` gives is given, if all of ``limits`` give it too.

    ``most``: rights that can be given there at all.
    """

    def __init__(self, giving: list[Rule], limits: list[Rule], most: int = EVERYTHING | VIEW | EDIT) -> None:
        self.most: Final = most
        self.giving: Final = giving
        self.limits: Final = limits

    def given(self, subject: Subject) -> int:
        """Return the rights of ``subject``."""
        found = 0
        for rule in self.giving:
            found |= rule.given(subject)
        for rule in self.limits:
            found &= rule.given(subject)
        return found & self.most


def _narrowly(rules: PatternTrie[Rule], name: str, routing: int) -> Weighed:
    """Return the most specific rule; a wildcard is limited by each that is about some of what it covers."""
    if not is_pattern(name, MIXED):
        ranked = [rule for rule in rules.lookup_ranked(name) if rule.routing in (UNTYPED, routing)]
        return Weighed(ranked[-1:], [])
    limits: list[Rule] = []
    best: Rule | None = None
    for pattern, rule in rules.items():
        if rule.routing not in (UNTYPED, routing):
            continue
        if covers(pattern, name, MIXED):
            if best is None or specificity(pattern, MIXED) >= specificity(best.pattern, MIXED):
                best = rule
        elif overlaps(pattern, name, MIXED):
            limits.append(rule)
    return Weighed([] if best is None else [best], limits, EVERYTHING)


class _Leave(Permit):
    """That ``subject`` may send to ``destinations``, by the rules that there were when it was looked at last."""

    def __init__(self, access: Access, subject: Subject, destinations: list[Destination], shown: str) -> None:
        self.access = access
        self.subject = subject
        self.destinations = destinations
        self.shown = shown
        self.epoch = access.epoch

    def is_stale(self) -> bool:
        return self.epoch != self.access.epoch

    def renew(self) -> None:
        if self.epoch != self.access.epoch:
            self.access.send(self.subject, self.destinations, self.shown)
            self.epoch = self.access.epoch


class Counts:
    """How many sessions were opened, and how often somebody was let in or not, or allowed something, since the start.

    Counted are answers: a session asks once for each destination, where Artemis asks its cache for each message.
    """

    def __init__(self) -> None:
        self.asks = False  # who comes in has to say who he is
        self.admitted = 0
        self.turned_away = 0
        self.allowed = 0
        self.denied = 0
        self.sessions = 0  # that were opened; a connection of a protocol without sessions is one

    def login(self, admitted: bool) -> None:
        """Somebody knocked and was ``admitted``, or not."""
        if self.asks:
            self.admitted += admitted
            self.turned_away += not admitted


class Access:
    """Who may come into one broker, and what he may do.

    `protect` is called before the first connection, if at all, and again when the configuration was read again: then
    ``epoch`` rises, and who sends is looked at once more. Consumers that are there stay, as in Artemis.
    """

    def __init__(
        self,
        table: RoutingTable,
        services: Mapping[str, Service],
        logins: Logins | None = None,
        hub: Hub | None = None,
    ) -> None:
        """``services``: the addresses of the broker itself. ``logins``: where those wait who `knock`, if any do.

        ``hub``: is told of every refusal.
        """
        self.logins: Final = logins
        self._hub: Final = hub
        self._table: Final = table
        self._services: Final = services
        self._directory: Directory | None = None
        self._rules: PatternTrie[Rule] | None = None
        self._temporary: Rule | None = None
        self._narrowest = False
        self._peer: User | None = None  # the nodes of the cluster
        self.epoch = 0
        self.counts: Final = Counts()
        self.amended: dict[str, _Replaced] = {}  # patterns of which an operator of the running broker says something
        self.management = MANAGEMENT  # rights on this address are those to manage, wherever a request is sent
        self._topics: dict[str, None] = {}  # that were made by somebody who may: they exist for the others

    def protect(
        self,
        directory: Directory | None,
        rules: Iterable[Rule] | None = None,
        temporary: Rule | None = None,
        *,
        narrowest: bool = False,
    ) -> None:
        """Let in whom ``directory`` knows, to do what ``rules`` say. None: everybody, everything.

        ``temporary``: rights on temporary destinations; None: everybody may have some. ``narrowest``: of the rules for
        a destination the most specific one counts, and not all together.
        """
        known: PatternTrie[Rule] | None = None if rules is None else PatternTrie(MIXED)
        for rule in rules or ():
            assert known is not None
            known.insert(rule.pattern, rule)
        self._narrowest = narrowest
        if directory is not None and self._directory is not None:
            directory.succeed(self._directory)
        self._directory = directory
        self.counts.asks = directory is not None
        self.epoch += 1
        self._temporary = temporary
        self._rules = known
        self.amended = {}

    @property
    def guarded(self) -> bool:
        """Return whether there are rules."""
        return self._rules is not None

    def trust(self, peer: User) -> None:
        """Let in other nodes of the cluster as ``peer``, to do everything. Nobody else comes in under that name."""
        self._peer = peer

    def knock(self, knock: Knock) -> None:
        """Find out who wants to come in: ``knock`` is answered at once, or later."""
        directory = self._directory
        peer = self._peer
        if directory is None:
            knock.answer(lambda: Subject(knock.name or ""))
        elif peer is not None and knock.name == peer.subject.name:
            knock.answer(lambda: peer.proved(knock.password))
        else:
            assert self.logins is not None
            self.logins.take(knock, directory)

    def provers(self, certificate: str | None) -> Directory | None:
        """Return where users are who can prove their passwords (SCRAM). ``certificate`` as in `Directory.recognise`."""
        directory = self._directory
        if directory is None or directory.certified is None or (certificate is None and directory.passwords):
            return directory
        return None

    # -- what sessions ask; each raises AccessDenied -------------------------------------------------------------------

    def send(self, subject: Subject, destinations: list[Destination], shown: str = "") -> None:
        """``subject`` wants to send to all of ``destinations``. ``shown``: how a refusal calls them."""
        if self._rules is None:
            return
        for one in destinations:
            if one.name in self._services and not one.queue:
                asked = Destination(self.management, ANYCAST) if one.name == MANAGEMENT else one
                self._need(subject, MANAGE, asked, shown)
                continue
            self._need(subject, SEND, one, shown)
            self._need_existence(subject, one)

    def keep(self, target: Target, subject: Subject, destinations: list[Destination], shown: str = "") -> None:
        """`send` was asked, and ``target`` is the answer, which is kept: after a change of rights it is asked again."""
        if self._rules is not None and not subject.peer:
            target.permit = _Leave(self, subject, destinations, shown)

    def consume(self, subject: Subject, destinations: list[Destination], durable: bool, shown: str = "") -> None:
        """``subject`` wants to take messages from all of ``destinations``."""
        if self._rules is None:
            return
        for one in destinations:
            self._need(subject, CONSUME | SUBSCRIBE if durable else CONSUME, one, shown)
            if not is_pattern(one.name, MIXED):
                self._need_existence(subject, one)

    def browse(self, subject: Subject, destination: Destination) -> None:
        """``subject`` wants to look through a queue, or those of a wildcard."""
        if self._rules is not None:
            self._need(subject, BROWSE, destination)
            if not is_pattern(destination.name, MIXED):
                self._need_existence(subject, destination)

    def create(self, subject: Subject, destination: Destination) -> None:
        """``subject`` wants ``destination`` to exist."""
        if self._rules is None:
            return
        if self._is_temporary(destination):
            self._need(subject, CREATE, destination)
        else:
            self._need_existence(subject, destination)

    def change(self, subject: Subject, destination: Destination) -> None:
        """``subject`` wants ``destination``, which exists, to be another than it is: whoever may make it may."""
        if self._rules is not None:
            self._need(subject, CREATE, destination)

    def delete(self, subject: Subject, destination: Destination) -> None:
        """``subject`` wants to remove ``destination`` with all that is in it."""
        if self._rules is not None:
            self._need(subject, DELETE, destination)

    def forget(self, subject: Subject, subscription: Queue | None) -> None:
        """``subject`` wants to remove a durable subscription; None: one that does not exist."""
        if self._rules is not None and subscription is not None:
            self._need(subject, SUBSCRIBE, Destination(subscription.address, MULTICAST))

    def stage(self, subject: Subject, sink: str) -> None:
        """``subject`` wants to do something about the staged commits of ``sink``.

        Rules about `SINKS` and a name say who may use which sink; where nobody wrote one, who may send anything may.
        """
        rules = self._rules
        if rules is None:
            return
        named = any(pattern.startswith(SINKS) for pattern, _ in rules.items())
        place = Destination(SINKS + sink, ANYCAST)
        if named:
            self._refuse(subject, SEND & ~self._given(subject, place.name, ANYCAST), place, "")
        elif not any(rule.given(subject) & SEND for _, rule in rules.items()):
            raise AccessDenied(
                f"User {subject.name} is not authorized to stage for the sink {sink!r}: it may send nowhere",
                remedy=f"give its group the right to send, or to send to {place.qualified()}",
            )

    def answer(self, subject: Subject, destinations: list[Destination]) -> None:
        """``subject`` asks a service of the broker to send its answers there: where he might send, or he may manage."""
        if self._rules is None or self._given(subject, self.management, ANYCAST) & MANAGE:
            return
        self.send(subject, destinations)

    def named(self, user: str) -> Subject:
        """Return the user of a name, as he is known by his password; one of no group where that is nobody."""
        directory, peer = self._directory, self._peer
        if peer is not None and user == peer.subject.name:
            return peer.subject
        known = None if directory is None else directory.users.get(user)
        if known is not None:
            return known.subject
        anonymous = None if directory is None else directory.anonymous
        return anonymous if anonymous is not None and anonymous.name == user else Subject(user)

    def has_right(self, subject: Subject, address: str, right: int) -> bool:
        """Return whether ``subject`` has a right on the address of a queue or an operation; nothing is counted."""
        return self._rules is None or subject.peer or bool(self._given(subject, address, ANYCAST) & right)

    def is_of(self, subject: Subject, user: str | None) -> bool:
        """Return whether what ``user`` prepared is for ``subject`` to finish: his own, or he may manage the broker."""
        if self._rules is None or subject.peer or subject.name == user:
            return True
        return bool(self._given(subject, self.management, ANYCAST) & MANAGE)

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _need(self, subject: Subject, rights: int, destination: Destination, shown: str = "") -> None:
        if self._is_temporary(destination):
            given = EVERYTHING if self._temporary is None else self._temporary.given(subject)
            self._refuse(subject, rights & ~given, destination, shown)
            self.counts.allowed += 1
            return
        for name, routing in self._meant(destination):
            self._refuse(subject, rights & ~self._given(subject, name, routing), destination, shown)
        if self._is_private(destination):
            self._refuse(subject, MANAGE & ~self._given(subject, destination.name, ANYCAST), destination, shown)
        self.counts.allowed += 1

    def _need_existence(self, subject: Subject, destination: Destination) -> None:
        """It is made when it is used first: by somebody who may make it."""
        if self._is_temporary(destination) or self._exists(destination):
            return
        self._need(subject, CREATE, destination)
        other = destination.queue
        if other and other != destination.name and not self._narrowest:  # else names could be taken from others
            self._need(subject, CREATE, Destination(other, ANYCAST))
        if self._routing(destination) == MULTICAST and len(self._topics) < TOPICS_KEPT:
            self._topics[destination.name] = None

    def _refuse(self, subject: Subject, missing: int, destination: Destination, shown: str) -> None:
        if subject.peer:
            return
        for right, verb in VERBS.items():
            if missing & right:
                self.counts.denied += 1
                hub = self._hub
                if hub is not None and hub.kinds & RIGHT_REFUSED:
                    hub.announce(SecurityFact(RIGHT_REFUSED, subject.name, "", destination.name, right))
                raise AccessDenied(
                    f"User {subject.name} is not authorized to {verb}: {shown or destination.qualified()}"
                )

    def _given(self, subject: Subject, name: str, routing: int) -> int:
        """Return the rights on the address ``name``, a wildcard included."""
        return self.weighed(name, routing).given(subject)

    def weighed(self, name: str, routing: int) -> Weighed:
        """Return the rules that count for the address ``name``, a wildcard included; none where there are no rules."""
        rules = self._rules
        if rules is None:
            return Weighed([], [])
        if self._narrowest:
            return _narrowly(rules, name, routing)
        if is_pattern(name, MIXED):
            found = [rule for pattern, rule in rules.items() if covers(pattern, name, MIXED)]
        else:
            found = rules.lookup(name)
        return Weighed([rule for rule in found if rule.routing in (UNTYPED, routing)], [])

    # -- names ---------------------------------------------------------------------------------------------------------

    def _routing(self, destination: Destination) -> int:
        if destination.routing != UNTYPED:
            return destination.routing
        return default_routing(self._table, destination.name)

    def _meant(self, destination: Destination) -> list[tuple[str, int]]:
        """Return the addresses that ``destination`` is about: what it says, and where the queue really belongs."""
        routing = self._routing(destination)
        found = [(destination.name, kind) for kind in ((ANYCAST, MULTICAST) if routing == UNTYPED else (routing,))]
        queue = self._queue(destination)
        if queue is not None and (queue.address, queue.routing) not in found:
            found.append((queue.address, queue.routing))
        return found

    def _queue(self, destination: Destination) -> Queue | None:
        """Return the queue that is there under the name itself."""
        if destination.queue:
            return self._table.queues.get(destination.queue)
        return None if self._routing(destination) == MULTICAST else self._table.queues.get(destination.name)

    def _exists(self, destination: Destination) -> bool:
        if self._queue(destination) is not None:
            return True
        name = destination.name
        address = self._table.addresses.get(name)
        if destination.queue:
            return False
        if self._routing(destination) != MULTICAST:
            return address is not None and address.has(ANYCAST)
        return address is not None or name in self._topics or name.startswith(ADVISORIES)

    def _is_temporary(self, destination: Destination) -> bool:
        """Return whether this is a temporary destination, and not only called one by a client that wants to read it."""
        if not destination.temporary or destination.queue or not destination.name.startswith(TEMPORARY_NAMES):
            return False
        queue = self._table.queues.get(destination.name)
        return queue is None or (queue.temporary and queue.routing == ANYCAST)

    def _is_private(self, destination: Destination) -> bool:
        """Return whether this is a temporary destination of somebody, called by its plain name."""
        queue = self._queue(destination)
        if queue is not None and queue.temporary and queue.routing == ANYCAST:
            return True
        return destination.name.startswith(TEMPORARY_NAMES)


class _Replaced:
    """What the configuration says on a pattern where an operator says something else."""

    def __init__(self, rules: list[Rule], temporary: Rule | None) -> None:
        self.rules: Final = rules
        self.temporary: Final = temporary


def amend(access: Access, pattern: str, rules: list[Rule] | None, temporary: Rule | None = None) -> None:
    """Let ``rules`` hold for ``pattern``, and no others that are about it; None: those of the configuration again.

    ``temporary``: rights on temporary destinations, None: they stay. Without rules at all nothing changes. Who sends is
    looked at once more.
    """
    known = access._rules
    if known is None:
        return
    had = [rule for each, rule in known.items() if each == pattern]
    replaced = access.amended.pop(pattern, None)
    if rules is None and replaced is None:
        return
    if replaced is None:
        replaced = _Replaced(had, access._temporary if temporary is not None else None)
    for rule in had:
        known.remove(pattern, rule)
    for rule in replaced.rules if rules is None else rules:
        known.insert(pattern, rule)
    if rules is not None:
        access.amended[pattern] = replaced
        access._temporary = temporary or access._temporary
    elif replaced.temporary is not None:
        access._temporary = replaced.temporary
    access.epoch += 1


def adds_up(access: Access) -> bool:
    """Return whether all rules count that cover a destination, as in Classic, and not the most specific one alone."""
    return not access._narrowest


def said(access: Access, name: str) -> Mapping[str, tuple[str, ...]] | None:
    """Return group -> the permissions of Artemis on the address ``name``; None where rights come from elsewhere."""
    if access._rules is None or not access._narrowest:
        return None
    rules = [rule for rule in access._rules.lookup_ranked(name) if rule.said is not None]
    return rules[-1].said if rules else None


def grants(access: Access, name: str, routing: int) -> dict[str, int]:
    """Return group -> rights on the address ``name``, for who looks at them."""
    if access._rules is None:
        return {}
    rules = [rule for rule in access._rules.lookup_ranked(name) if rule.routing in (UNTYPED, routing)]
    found: dict[str, int] = {}
    for rule in rules[-1:] if access._narrowest else rules:
        for group, rights in rule.grants.items():
            found[group] = found.get(group, 0) | rights
    return found


class Listed:
    """Who comes in and by which rules, as it stood a moment ago; for who looks at it, and without a password."""

    def __init__(self, access: Access) -> None:
        directory, peer = access._directory, access._peer
        rules = access._rules
        self.asks: Final = directory is not None
        self.narrowest: Final = access._narrowest
        self.users: Final[list[User]] = [] if directory is None else list(directory.users.values())
        self.certified: Final[list[Certified]] = [] if directory is None else list(directory.certified or ())
        self.anonymous: Final = None if directory is None else directory.anonymous
        self.stranger: Final = None if directory is None else directory.stranger
        self.peer: Final = None if peer is None else peer.subject
        self.rules: Final[list[Rule]] = [] if rules is None else [rule for _, rule in rules.items()]
        self.temporary: Final = access._temporary


class Place:
    """What a right on a destination is asked about. ``meant``: addresses, and as what; ``missing``: it is made first.

    ``private``: it is somebody's temporary destination, which takes the right to manage it.
    """

    def __init__(self, access: Access, destination: Destination) -> None:
        self.meant: Final = access._meant(destination)
        self.private: Final = access._is_private(destination)
        self.missing: Final = not access._exists(destination)
        other = destination.queue
        self.made: Final = list(self.meant)
        if other and other != destination.name and not access._narrowest:
            self.made.append((other, ANYCAST))
