"""Many queues at once, for who looks at all of them: one page that is searched and sorted here, and sums over all.

A queue is described only where it is shown: to search, sort and add up takes a few numbers of each, a page of 100 among
10,000 a fortieth of describing all. Everything is a `Work` in bounded steps; what a step leaves behind is numbers and
names, so a queue that goes meanwhile is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Final

from entrepot.base.errors import InvalidOption, Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.control import DESCRIBED_A_STEP, DESCRIBED_MOST, fields_of
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.pace import Pace
from entrepot.core.operators.views import oldest_of, queue_view
from entrepot.core.queue.queue import Queue
from entrepot.model.address import MULTICAST, ROUTING_NAMES

LOOKED_A_STEP: Final = 1_000  # queues: 3 ms of plain Python
SEARCHED: Final = 200  # characters of a search
WORDS_MOST: Final = 10
OLD_MS: Final = 60_000  # age of a message that waits without a reader, from which on somebody should look
AILING_MOST: Final = 100  # queues that need a look, in one answer
AILING_LOOKS: Final = 1_000  # of those without a reader, whose oldest message is looked at

Key = tuple[Any, str]


def has_one(text: str, words: list[str]) -> bool:
    """Return whether ``text`` has one of ``words``; most searches have one, and there may be 100,000 names."""
    return words[0] in text or (len(words) > 1 and any(word in text for word in words))


def is_lasting(queue: Queue) -> bool:
    """Say whether a queue is a durable subscription to a topic."""
    return queue.routing == MULTICAST and queue.durable and not queue.temporary


SHOWN: Final[dict[str, Callable[[Queue], bool]]] = {
    "own": lambda queue: not queue.temporary,
    "waiting": lambda queue: not queue.temporary and queue.count > 0,
    "unread": lambda queue: not queue.temporary and queue.backlog.count > 0 and not queue.roster.readers(),
    "lasting": is_lasting,
    "unheard": lambda queue: is_lasting(queue) and not queue.roster.readers(),
    "all": lambda queue: True,
}
"""Which queues a page is of; ``lasting``: durable subscriptions, ``unheard``: those that nobody is connected to."""
SORTED: Final[dict[str, Callable[[Queue], int]]] = {
    "messages": lambda queue: int(queue.count),
    "in_flight": lambda queue: int(queue.in_flight),
    "consumers": lambda queue: int(queue.roster.readers()),
    "accepted": lambda queue: int(queue.accepted),
    "settled": lambda queue: int(queue.settled),
    "dead": lambda queue: int(queue.returns.dead),
}
"""By what it is sorted, beside ``name`` and ``oldest_ms``, by the fields of `QueueView`."""
OLDEST: Final = "oldest_ms"
NAME: Final = "name"


def is_dead_letters(name: str) -> bool:
    """Say whether a queue is called like those of dead letters, of either family."""
    return name in ("DLQ", "ExpiryQueue") or name.startswith(("ActiveMQ.DLQ", "DLQ."))


class Overlook:
    """A `Work` that looks at every queue that there was when it began, up to `LOOKED_A_STEP` in a step."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker
        self.pace: Final = Pace(broker)
        self.left = iter(list(broker.table.queues.values()))

    def look(self, most: int = LOOKED_A_STEP) -> list[Queue]:
        """Return the next ``most`` that are still there, or a part of so many; an empty list is the end."""
        known = self.broker.table.queues
        most = self.pace.of(most)
        while some := list(islice(self.left, most)):
            found = [queue for queue in some if known.get(queue.name) is queue]
            if found:
                return found
        return []


class QueuePage(Overlook):
    """One page of queues. The argument: a JSON object.

    ``search``: a part of the name, whatever its case, or a list of parts, of which it has one; ``names``: a list of up
    to `DESCRIBED_MOST` whole names, which is looked through in place of all queues; ``show``: one of `SHOWN`;
    ``routing``: ANYCAST or MULTICAST; ``sort``: a field, ``down``; ``skip`` and ``most``, at most `DESCRIBED_MOST`. The
    answer: ``rows`` as `describeQueues` has them, and ``count``, how many there are in all.
    """

    def __init__(self, broker: BrokerCore, given: Arguments) -> None:
        """Raises Refused for what there is not."""
        super().__init__(broker)
        options = given.mapping(0)
        if "names" in options:
            self.left = iter(_named(broker, options["names"]))
        self.words: Final = words_of(options.get("search", ""))
        self.routing: Final = _text(options, "routing")
        self.shown: Final = _chosen(SHOWN, _text(options, "show", "own"), "show")
        sort = _text(options, "sort", "messages")
        self.down: Final = options.get("down", sort != NAME) is True
        self.named: Final = sort == NAME
        self.oldest: Final = sort == OLDEST
        self.value: Final = self._value(sort)
        self.skip: Final = number_of(options, "skip", 0, 10**9)
        self.most: Final = number_of(options, "most", DESCRIBED_MOST, DESCRIBED_MOST)
        self.runs: list[list[Key]] = []
        self.count = 0
        self.merged: Iterator[Key] | None = None
        self.skipped = 0
        self.names: list[str] = []
        self.rows: list[dict[str, Any]] = []

    def step(self) -> bool:
        """Look at some, pass some over, or describe some."""
        if self.merged is None:
            self._gather()
            return False
        if self.skipped < self.skip:
            passed = sum(1 for _ in islice(self.merged, min(self.pace.of(LOOKED_A_STEP), self.skip - self.skipped)))
            self.skipped = self.skipped + passed if passed else self.skip
            return False
        some = list(islice(self.merged, min(self.pace.of(DESCRIBED_A_STEP), self.most - len(self.names))))
        self.names += [name for _, name in some]
        self._describe([name for _, name in some])
        return not some or len(self.names) >= self.most

    def result(self) -> object:
        """Return the page."""
        return {"count": self.count, "rows": self.rows}

    def _value(self, sort: str) -> Callable[[Queue], int]:
        if sort == NAME:
            return lambda queue: 0
        if sort == OLDEST:
            return lambda queue: oldest_of(self.broker, queue) if queue.backlog.count else 0
        return _chosen(SORTED, sort, "sort")

    def _gather(self) -> None:
        """Add one run of keys in order; a sort of all would be one long step."""
        some = self.look(DESCRIBED_A_STEP if self.oldest else LOOKED_A_STEP)  # an age may be on disk only
        if not some:
            self.merged = merge(*self.runs, reverse=self.named and self.down)
            return
        sign = -1 if self.down else 1
        keys = [(sign * self.value(queue), queue.name) for queue in some if self._wanted(queue)]
        keys.sort(reverse=self.named and self.down)
        self.count += len(keys)
        self.runs.append(keys)

    def _wanted(self, queue: Queue) -> bool:
        if self.words and not has_one(queue.name.lower(), self.words):
            return False
        if self.routing and ROUTING_NAMES[queue.routing] != self.routing:
            return False
        return bool(self.shown(queue))

    def _describe(self, names: list[str]) -> None:
        known = self.broker.table.queues
        self.rows += [fields_of(queue_view(self.broker, known[name])) for name in names if name in known]


class Sums(Overlook):
    """Sums over all queues, and those that want a look: `AILING_MOST`, of those without a reader the fullest."""

    def __init__(self, broker: BrokerCore) -> None:
        super().__init__(broker)
        self.sums: Final = dict.fromkeys(
            ("queues", "temporary", "messages", "consumers", "accepted", "delivered", "settled"), 0
        )
        self.ailing: list[str] = []
        self.unread: list[tuple[int, str]] = []
        self.rows: Final[list[dict[str, Any]]] = []
        self.added = False

    def step(self) -> bool:
        """Add some up, or describe some that ail."""
        if not self.added:
            some = self.look()
            for queue in some:
                self._add(queue)
            if not some:
                self._conclude()
            return False
        most = self.pace.of(DESCRIBED_A_STEP)
        names, self.ailing = self.ailing[:most], self.ailing[most:]
        for name in names:
            self._describe(name)
        return not self.ailing or len(self.rows) >= AILING_MOST

    def result(self) -> object:
        """Return them."""
        return {**self.sums, "ailing": self.rows[:AILING_MOST]}

    def _add(self, queue: Queue) -> None:
        sums = self.sums
        sums["queues"] += 1
        sums["messages"] += int(queue.count)
        sums["consumers"] += queue.roster.readers()
        if queue.temporary:  # answers to who looks go through temporary queues: they are no traffic
            sums["temporary"] += 1
            return
        sums["accepted"] += int(queue.accepted)
        sums["delivered"] += int(queue.dispatcher.delivered)
        sums["settled"] += int(queue.settled)
        waiting = int(queue.backlog.count)
        if is_dead_letters(queue.name):
            if queue.count:
                self.ailing.append(queue.name)
        elif waiting and queue.gate.paused:
            self.ailing.append(queue.name)
        elif waiting and not queue.roster.readers():
            self.unread.append((-waiting, queue.name))

    def _conclude(self) -> None:
        """Look at the fullest of those without a reader; how long one waits is read only there."""
        self.added = True
        del self.ailing[AILING_MOST:]
        self.unread.sort()
        self.ailing += [name for _, name in self.unread[:AILING_LOOKS]]
        self.unread = []

    def _describe(self, name: str) -> None:
        queue = self.broker.table.queues.get(name)
        if queue is None:
            return
        if queue.gate.paused or is_dead_letters(name) or oldest_of(self.broker, queue) >= OLD_MS:
            self.rows.append(fields_of(queue_view(self.broker, queue)))


def _text(options: dict[str, Any], name: str, default: str = "") -> str:
    found = options.get(name, default)
    if not isinstance(found, str):
        raise Refused(f"{name} of a page of queues is no text")
    return found


def _named(broker: BrokerCore, names: object) -> list[Queue]:
    """Return the queues of these names that there are. Raises Refused."""
    if not isinstance(names, list) or len(names) > DESCRIBED_MOST or not all(isinstance(one, str) for one in names):
        raise Refused(f"names of a page of queues is no list of up to {DESCRIBED_MOST}")
    known = broker.table.queues
    return [known[one] for one in dict.fromkeys(names) if one in known]


def words_of(given: object, of: str = "queues") -> list[str]:
    """Return what a page ``of`` something is searched for. Raises Refused."""
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list) or len(found) > WORDS_MOST or not all(isinstance(one, str) for one in found):
        raise Refused(f"search of a page of {of} is neither a text nor a list of up to {WORDS_MOST}")
    return [one[:SEARCHED].lower() for one in found if one]


def number_of(options: dict[str, Any], name: str, default: int, most: int, of: str = "queues") -> int:
    """Return a number of those that say which page is wanted. Raises Refused."""
    found = options.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise Refused(f"{name} of a page of {of} is no number from 0")
    return min(found, most)


def _chosen(table: dict[str, Callable[[Queue], Any]], word: str, name: str) -> Callable[[Queue], Any]:
    found = table.get(word)
    if found is None:
        raise InvalidOption(f"{name} of a page of queues cannot be {word[:40]!r}", remedy="use " + ", ".join(table))
    return found
