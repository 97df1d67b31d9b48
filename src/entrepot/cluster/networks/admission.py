"""What may cross a bridge: the path that a message took, and what may go back (classic.md 1.11).

Every rule is a `Rule`; a bridge joins them with *and* (`All`). A rule says why it refuses (`refusal`): "why does
this message not move" is what operators ask, and asking changes nothing. Where a message is about to cross, the rule
is told so by `crossing`, which counts it against a rate and plans another look. What a rule wants to know of a message
it asks the message's `Language`. [C]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.core.queue.consumer import BRIDGE, Objection
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message

UNLIMITED: Final = -1
TURN_AFTER: Final[Duration] = SECOND  # between two turns of a message that runs to and fro
CLOCKS_DIFFER: Final[Duration] = SECOND  # a message that came so far in the future tells that two clocks differ
TURN_TOGETHER: Final[Duration] = 100 * MILLISECOND  # a queue is looked through once for all that may turn within that
ADVISORY: Final = "ActiveMQ.Advisory."
CONSUMER_ADVISORY: Final = ADVISORY + "Consumer."
VIRTUAL_ADVISORY: Final = ADVISORY + "VirtualDestination.Consumer."
TEMPORARY_ADVISORIES: Final = (ADVISORY + "TempQueue", ADVISORY + "TempTopic")

TURNED: Final = "it was here before"
REPLAY_ON: Final = (
    'networkBridgeFilterFactory <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/> in the policy'
)

Path = tuple[str, ...]
"""Identities of the brokers that a message or a subscription came through, the first one first."""


def is_too_far(hops: int, ttl: int) -> bool:
    """Return whether what came over ``hops`` brokers may go no further: ``ttl`` is of messages or of consumers."""
    return UNLIMITED < ttl <= hops


def is_out_of_reach(path: Path, ttl: int, reader: str) -> bool:
    """Return whether a consumer that is announced over ``path`` counts for nothing at the broker ``reader``.

    It is further away than that broker's ``consumerTTL``, ``ttl``, or what is told came round in a circle.
    """
    return is_too_far(len(path), ttl) or reader in path


def hops_to(here: str, path: Path) -> int:
    """Return how many brokers a message had come through when it first came ``here``; a Classic path repeats them."""
    first = dict.fromkeys(path)
    return list(first).index(here) if here in first else len(first)


def is_interpreted(name: str) -> bool:
    """Return whether bridges act on advisories of the topic ``name``, and forwarding them too would say it twice."""
    return name.startswith((CONSUMER_ADVISORY, VIRTUAL_ADVISORY)) or name in TEMPORARY_ADVISORIES


# -- rules -------------------------------------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class Rule:
    """One condition."""

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Return why ``message`` may not cross, "" when it may. ``queue``: where it waits. Nothing changes."""
        raise NotImplementedError

    def crossing(self, message: Message, queue: Queue | None) -> str:
        """Return the same of a message that crosses now if it may: it counts, or its queue will look again."""
        return self.refusal(message, queue)

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Return the same with what an operator can do; None when it may cross."""
        why = self.refusal(message, queue)
        return Objection("bridge-rule", why) if why else None


class All(Rule):
    """Every one of several rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: list[Rule] = list(rules)

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Return what the first rule that refuses says."""
        for rule in self.rules:
            why = rule.refusal(message, queue)
            if why:
                return why
        return ""

    def crossing(self, message: Message, queue: Queue | None) -> str:
        """Tell each rule until one refuses."""
        for rule in self.rules:
            why = rule.crossing(message, queue)
            if why:
                return why
        return ""

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Return that of the first rule that refuses."""
        for rule in self.rules:
            found = rule.objection(message, queue)
            if found is not None:
                return found
        return None


class BrokerPath(Rule):
    """Nothing goes to a broker that it was at, nor through more than ``ttl`` brokers.

    A message that was let back (`Replay`) is as far from its first broker as it was when it came ``here`` first.
    Classic counts the way out and back too: once that is longer than the TTL, such a message can only run to and fro
    between brokers that it has seen, and never reaches a reader at another one (a decision of ours).
    """

    def __init__(self, target: str, ttl: int, here: str = "") -> None:
        self.target = target
        self.ttl = ttl
        self.here = here

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Look at the path."""
        path = message.language.path(message)
        if not path:
            return "" if self.ttl != 0 else "messageTTL is 0"
        if self.target in path:
            return f"it was at {self.target} already"
        hops = hops_to(self.here, path)
        if is_too_far(hops, self.ttl):
            return f"it came through {hops} brokers and messageTTL is {self.ttl}"
        return ""

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Tell what stops a circle from what stops a long way."""
        why = self.refusal(message, queue)
        if not why:
            return None
        if self.target not in message.language.path(message):
            return Objection("ttl", why, "raise messageTTL (or networkTTL) of the network connector")
        return Objection(
            "path",
            f"{why}, and bridges do not send a message back (replay is off)",
            f"read it on this broker, or let it go back: {REPLAY_ON}",
        )


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
        path = message.language.consumer_path(message)
        if path is not None:
            if is_too_far(len(path), self.consumer_ttl):
                return f"its consumer is {len(path)} hops away and consumerTTL is {self.consumer_ttl}"
            if self.target in path:
                return "its consumer is on the other side"
        return ""


REPLAY_WAITS: Final = "replay-waits"
REPLAY_TURNS: Final = "replay-turns"  # shown as `REPLAY_WAITS`
REPLAY_WANTED_HERE: Final = "replay-wanted-here"
REMEDIES: Final = {
    REPLAY_WAITS: "wait, or change rateLimit and replayDelay of the bridge filter",
    REPLAY_TURNS: "read it where it is, or raise messageTTL: it runs between two brokers",
    REPLAY_WANTED_HERE: "the consumer here must take it or leave; with selectorAware=true only one that matches counts",
}


class _Later(Alarm):
    def __init__(self, due: int, rule: Replay, queue: Queue) -> None:
        super().__init__(due)
        self.rule = rule
        self.queue = queue

    def ring(self, now: int) -> None:
        self.rule.look_again(self.queue)


class _Turn:
    """Of one queue: messages up to the number ``passed`` may go, those up to ``last`` at ``due``."""

    def __init__(self) -> None:
        self.passed: int = 0
        self.last: int = 0
        self.due: int = 0


class Replay(Rule):
    """`BrokerPath`, except that a queue message may go back when nobody here wants it (classic.md 1.13).

    Classic reconsiders a message that delay or rate held back at the next occasion only; this rule asks the queue to
    look again when the time has come. Nothing here depends on a duplicate audit, so there is none to be switched off.

    What came back once and is to go there once more waits for `TURN_AFTER` at least: where the TTL lets it go nowhere
    else, two brokers without a reader would pass it to each other as fast as they can, for ever, as Classic's do (a
    decision of ours). Its first return, and its way to a broker that it has not seen, are as quick as the policy says.
    """

    def __init__(self, path: BrokerPath, options: BridgeFilterOptions) -> None:
        self.path = path
        self.options = options
        self._matched = 0
        self._window_began = 0
        self._looking: dict[str, _Later] = {}  # queue -> when it will look again, once
        self._turning: dict[str, _Turn] = {}  # queue -> what of it may go when, where clocks do not tell

    def refusal(self, message: Message, queue: Queue | None) -> str:
        """Ask the path; where it refuses, ask whether the message may go back."""
        return self._refused(message, queue, asking=True)[1]

    def crossing(self, message: Message, queue: Queue | None) -> str:
        """Count it if it goes back, or look at ``queue`` again when it may."""
        return self._refused(message, queue, asking=False)[1]

    def _refused(self, message: Message, queue: Queue | None, *, asking: bool) -> tuple[str, str]:
        """Return the code of an objection, "" for that of the path, and why; two empty texts: it may cross.

        ``asking``: nothing is counted and nothing planned.
        """
        why = self.path.refusal(message, queue)
        limited = self.options.rate_limit > 0
        if not why:
            return self._limit(queue, asking=asking) if limited and queue is not None else ("", "")
        replayed = self.options.replay_when_no_consumers and queue is not None and queue.routing == ANYCAST
        path = message.language.path(message) if replayed else ()
        if self.path.target not in path:
            return "", why
        assert queue is not None
        if self._is_wanted(message, queue):
            return REPLAY_WANTED_HERE, why + ", and a consumer here wants it"
        arrived = self._arrived(message) * MILLISECOND
        due = arrived + self.options.replay_delay
        code, reason = REPLAY_WAITS, "replayDelay"
        if self.path.here in path and self.options.replay_delay < TURN_AFTER:
            due = arrived + TURN_AFTER
            due += -due % TURN_TOGETHER
            code, reason = REPLAY_TURNS, TURNED
        wall = int(queue.host.wall) * MILLISECOND
        left = due - wall
        if arrived - wall > CLOCKS_DIFFER:  # another broker's clock is ahead of ours, or ours was put back
            left = self._turns(queue, message, due - arrived, asking=asking)
        if left > 0:
            if not asking:
                self._later(queue, int(queue.host.now) + left)
            return code, f"{why}, and it may go back in {left // MILLISECOND} ms ({reason})"
        if asking and self._looks_soon(queue):
            return code, f"{why}, and it may go back within a millisecond ({reason})"
        return self._limit(queue, asking=asking) if limited else ("", "")

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Tell which of the conditions of a return is not fulfilled."""
        code, why = self._refused(message, queue, asking=True)
        if not why:
            return None
        if not code:
            return self.path.objection(message, queue)
        shown = REPLAY_WAITS if code == REPLAY_TURNS else code
        return Objection(shown, why, REMEDIES[code])

    def look_again(self, queue: Queue) -> None:
        """The time for which something was held back is over."""
        self._looking.pop(queue.name, None)
        for consumer in queue.roster.consumers:
            consumer.fresh = True
            consumer.cursor = None
        queue.dispatcher.dispatch()

    def _turns(self, queue: Queue, message: Message, delay: int, *, asking: bool) -> int:
        """Return how long, ns, a message waits of which no clock says since when: ``delay`` to twice that.

        All that is here when the first one asks goes together; what comes behind it waits for the next time.
        """
        now = int(queue.host.now)
        turn = self._turning.get(queue.name) or _Turn()
        passed, last, due = turn.passed, turn.last, turn.due
        if due and now >= due:
            passed, due = last, 0
        number = int(message.number)
        going = number <= passed
        if not going and not due:
            last, due = max(number, int(getattr(queue.host, "number", 0))), now + delay
        if not asking:
            turn.passed, turn.last, turn.due = passed, last, due
            self._turning[queue.name] = turn
        return 0 if going else due - now + (0 if number <= last else delay)

    def _is_wanted(self, message: Message, queue: Queue) -> bool:
        for consumer in queue.roster.consumers:
            if consumer.kind == BRIDGE:
                continue
            selector = consumer.selector if self.options.selector_aware else None
            if selector is None or selector.matches(message):
                return True
        return False

    def _limit(self, queue: Queue, *, asking: bool) -> tuple[str, str]:
        now = int(queue.host.now)
        if now - self._window_began >= self.options.rate_duration:
            if asking:
                return "", ""
            self._window_began = now
            self._matched = 0
        if self._matched < self.options.rate_limit:
            self._matched += 0 if asking else 1
            return "", ""
        if not asking:
            self._later(queue, self._window_began + self.options.rate_duration)
        return REPLAY_WAITS, f"{self.options.rate_limit} crossed already in this window (rateLimit)"

    def _later(self, queue: Queue, due: int) -> None:
        known = self._looking.get(queue.name)
        if known is not None and known.due <= due:
            return
        if known is not None:  # each look finds all that is still to wait: two alarms would become four
            known.cancelled = True
        timetable = getattr(queue.host, "timetable", None)
        if timetable is not None:
            self._looking[queue.name] = _Later(due, self, queue)
            timetable.add(self._looking[queue.name])

    def _looks_soon(self, queue: Queue) -> bool:
        """Return whether a look is due before the wall clock, which counts milliseconds, counts on."""
        look = self._looking.get(queue.name)
        return look is not None and 0 <= look.due - int(queue.host.now) < MILLISECOND

    @staticmethod
    def _arrived(message: Message) -> int:
        """Return when ``message`` came to this broker, ms: when its last broker let it go, or when it was made."""
        return int(message.language.let_go(message)) or int(message.timestamp)
