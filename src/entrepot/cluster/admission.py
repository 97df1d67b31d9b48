"""What may cross a bridge: the path that a message took, lists of destinations, and what may go back (classic.md 1.11).

Every rule is a `Rule`; a bridge joins them with *and* (`All`). A rule says why it refuses (`refusal`): "why does
this message not move" is what operators ask. Nothing here changes anything, except the window of a rate limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND
from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.options import BridgeFilterOptions, NetworkConnectorOptions
from entrepot.core.queue import Queue
from entrepot.core.timed import Alarm
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message
from entrepot.protocols.openwire.commands import BrokerId, ConsumerInfo, Destination
from entrepot.protocols.openwire.convert import BLOB, OPENWIRE_LANGUAGE
from entrepot.protocols.openwire.ids import is_queue, is_temporary

UNLIMITED: Final = -1
ADVISORY: Final = "ActiveMQ.Advisory."
CONSUMER_ADVISORY: Final = ADVISORY + "Consumer."
VIRTUAL_ADVISORY: Final = ADVISORY + "VirtualDestination.Consumer."
TEMPORARY_ADVISORIES: Final = (ADVISORY + "TempQueue", ADVISORY + "TempTopic")

Path = tuple[str, ...]
"""Identities of the brokers that a message or a subscription came through, the first one first."""


def path_of(ids: Sequence[object] | None) -> Path:
    """Return a path as it is on the wire."""
    return () if not ids else tuple(one.value or "" for one in ids if isinstance(one, BrokerId))


def message_path(message: Message) -> Path:
    """Return the brokers that ``message`` came through; only OpenWire carries that."""
    if message.language is not OPENWIRE_LANGUAGE or _came_from_a_client(message.raw):
        return ()
    return path_of(OPENWIRE_LANGUAGE.opened(message).broker_path)


def _came_from_a_client(raw: bytes) -> bool:
    """Return True for a message that surely has no path, without opening it: the usual case, asked once a message.

    Its end, octets from behind (loose, `convert.LAYOUT`), when path, user and cluster are not there::

        30 path: 0 · 29 arrival i64 · 21 user: 0 · 20 bridged · 19 droppable · 18 cluster: 0 · 17 in i64 · 9 out i64 · 1

    Text never ends in a zero octet, so something in place of one of these zeros is seen; an empty user (1 0 0) or an
    empty cluster (1 0 0) would shift the rest by two, and are told by their first octet.
    """
    if len(raw) < 64 or raw[0] == BLOB:
        return False
    if raw[-18] or raw[-19] or raw[-20] or raw[-21] or raw[-30]:
        return False
    return not (raw[-23] == 1 and raw[-22] == 0)


# -- lists of destinations ---------------------------------------------------------------------------------------------


class Included(Struct, frozen=True):
    """One entry of a list of a network connector. ``force_durable``: a plain topic consumer counts as a durable one."""

    pattern: str
    topic: bool
    force_durable: bool = False

    def covers(self, where: Destination) -> bool:
        """Return whether this entry means ``where``, which is one destination and may be a wildcard itself."""
        return self.topic != is_queue(where) and matches(self.pattern, where.physical_name or "", MIXED)


class Lists(Struct, frozen=True):
    """The three lists of a network connector."""

    excluded: tuple[Included, ...] = ()
    dynamic: tuple[Included, ...] = ()
    static: tuple[Included, ...] = ()

    def permits(self, where: Destination, *, temporary: bool) -> bool:
        """Return whether demand for ``where`` may cross; the order of the tests is Classic's (1.2)."""
        if is_temporary(where):
            return temporary
        if any(one.covers(where) for one in self.excluded):
            return False
        if any(one.covers(where) for one in self.static):
            return True
        if self.dynamic:
            return any(one.covers(where) for one in self.dynamic)
        return True

    def forces_durable(self, where: Destination) -> bool:
        """Return whether a plain consumer of the topic ``where`` shall be a durable one (forceDurable)."""
        if is_queue(where) or is_temporary(where) or (where.physical_name or "").startswith(ADVISORY):
            return False
        return any(one.force_durable and one.covers(where) for one in (*self.dynamic, *self.static))


def destination_filter(options: NetworkConnectorOptions, lists: Lists) -> str:
    """Return the advisory topics to listen to, a comma list (classic.md 1.6)."""
    if options.destination_filter:
        given = options.destination_filter
        topics = [given if given.startswith(ADVISORY) else CONSUMER_ADVISORY + given]
    elif lists.dynamic:
        topics = []
        for one in lists.dynamic:
            name = f"{'Topic' if one.topic else 'Queue'}.{one.pattern}"
            topics.append(CONSUMER_ADVISORY + name)
            if options.use_virtual_destination_subscriptions:
                topics.append(VIRTUAL_ADVISORY + name)
    else:
        topics = [CONSUMER_ADVISORY + ">"]
        if options.use_virtual_destination_subscriptions:
            topics.append(VIRTUAL_ADVISORY + ">")
    if options.bridge_temporary:
        topics += TEMPORARY_ADVISORIES
    return ",".join(dict.fromkeys(topics))


def is_interpreted(name: str) -> bool:
    """Return whether bridges act on advisories of the topic ``name``, and forwarding them too would say it twice."""
    return name.startswith((CONSUMER_ADVISORY, VIRTUAL_ADVISORY)) or name in TEMPORARY_ADVISORIES


# -- rules -------------------------------------------------------------------------------------------------------------


class Rule:
    """One condition."""

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Return why ``message`` may not cross, "" when it may. ``queue``: where it waits."""
        raise NotImplementedError


class All(Rule):
    """Every one of several rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Return what the first rule that refuses says."""
        for rule in self.rules:
            why = rule.refusal(message, queue)
            if why:
                return why
        return ""


class BrokerPath(Rule):
    """Nothing goes to a broker that it was at, nor through more than ``ttl`` brokers."""

    def __init__(self, target: str, ttl: int) -> None:
        self.target = target
        self.ttl = ttl

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Look at the path."""
        path = message_path(message)
        if self.target in path:
            return f"it was at {self.target} already"
        if UNLIMITED < self.ttl <= len(path):
            return f"it came through {len(path)} brokers and messageTTL is {self.ttl}"
        return ""


class Interpreted(Rule):
    """Advisories that bridges act on do not cross for bridges; one about a consumer obeys the consumer's hops."""

    def __init__(self, target: str, consumer_ttl: int, *, for_network: bool) -> None:
        """``for_network``: the remote subscription is itself one of a bridge."""
        self.target = target
        self.consumer_ttl = consumer_ttl
        self.for_network = for_network

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Look into advisories only."""
        if not message.address.startswith(ADVISORY):
            return ""
        if self.for_network and is_interpreted(message.address):
            return "bridges act on it"
        if message.language is not OPENWIRE_LANGUAGE:
            return ""
        said = OPENWIRE_LANGUAGE.opened(message).data_structure
        if isinstance(said, ConsumerInfo):
            path = path_of(said.broker_path)
            if UNLIMITED < self.consumer_ttl <= len(path):
                return f"its consumer is {len(path)} hops away and consumerTTL is {self.consumer_ttl}"
            if self.target in path:
                return "its consumer is on the other side"
        return ""


class _Later(Alarm):
    def __init__(self, due: int, rule: Replay, queue: Queue) -> None:
        super().__init__(due)
        self.rule = rule
        self.queue = queue

    def ring(self, now: int) -> None:
        self.rule.look_again(self.queue)


class Replay(Rule):
    """`BrokerPath`, except that a queue message may go back when nobody here wants it (classic.md 1.13).

    Classic reconsiders a message that delay or rate held back at the next occasion only; this rule asks the queue to
    look again when the time has come. Nothing here depends on a duplicate audit, so there is none to be switched off.
    """

    def __init__(self, path: BrokerPath, options: BridgeFilterOptions) -> None:
        self.path = path
        self.options = options
        self._matched = 0
        self._window_began = 0
        self._looking: dict[str, int] = {}  # queue -> when it will look again

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Ask the path; where it refuses, ask whether the message may go back."""
        why = self.path.refusal(message, queue)
        limited = self.options.rate_limit > 0
        if not why:
            return self._limit(queue) if limited and queue is not None else ""
        replayed = self.options.replay_when_no_consumers and queue is not None and queue.routing == ANYCAST
        if not replayed or self.path.target not in message_path(message):
            return why
        assert queue is not None
        if self._is_wanted(message, queue):
            return why + ", and a consumer here wants it"
        due = self._arrived(message) * MILLISECOND + self.options.replay_delay
        wall = int(queue.host.wall) * MILLISECOND
        if due > wall:
            self._later(queue, int(queue.host.now) + due - wall)
            return f"{why}, and it may go back in {(due - wall) // MILLISECOND} ms (replayDelay)"
        return self._limit(queue) if limited else ""

    def look_again(self, queue: Queue) -> None:
        """The time for which something was held back is over."""
        self._looking.pop(queue.name, None)
        for consumer in queue.roster.consumers:
            consumer.fresh = True
            consumer.cursor = None
        queue.dispatch()

    def _is_wanted(self, message: Message, queue: Queue) -> bool:
        for consumer in queue.roster.consumers:
            if getattr(consumer, "feed", None) is not None:
                continue
            selector = consumer.selector if self.options.selector_aware else None
            if selector is None or selector.matches(message):
                return True
        return False

    def _limit(self, queue: Queue | None) -> str:
        assert queue is not None
        now = int(queue.host.now)
        if now - self._window_began >= self.options.rate_duration:
            self._window_began = now
            self._matched = 0
        if self._matched < self.options.rate_limit:
            self._matched += 1
            return ""
        self._later(queue, self._window_began + self.options.rate_duration)
        return f"{self.options.rate_limit} crossed already in this window (rateLimit)"

    def _later(self, queue: Queue, due: int) -> None:
        known = self._looking.get(queue.name, 0)
        if known and known <= due:
            return
        self._looking[queue.name] = due
        timetable = getattr(queue.host, "timetable", None)
        if timetable is not None:
            timetable.add(_Later(due, self, queue))

    @staticmethod
    def _arrived(message: Message) -> int:
        """Return when ``message`` came to this broker, ms: when its last broker let it go, or when it was made."""
        if message.language is OPENWIRE_LANGUAGE:
            came = int(OPENWIRE_LANGUAGE.opened(message).broker_out_time)
            if came > 0:
                return came
        return int(message.timestamp)
