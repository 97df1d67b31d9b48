"""How addresses behave: one policy from Classic's ``policyEntry`` and Artemis' ``address-setting``, by wildcard.

Settings merge from the least to the most specific pattern that matches, attribute by attribute (artemis.md 4.2); a
Classic entry does not inherit, which its reader expresses by setting every attribute (classic.md 4.16). [C]

Where the families' defaults differ, ours are listed in `docs/decisions/0005-defaults-of-two-families.md`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import InvalidOption
from entrepot.base.patterns import MIXED, PatternTrie
from entrepot.core.consumer import UNLIMITED
from entrepot.model.address import ANYCAST, UNTYPED

FULL_PAGE: Final = 0  # wait on disk
FULL_BLOCK: Final = 1  # stop reading from producers
FULL_FAIL: Final = 2  # refuse the message
FULL_DROP: Final = 3  # discard the message

FULL_NAMES: Final = ("PAGE", "BLOCK", "FAIL", "DROP")

SLOW_NOTIFY: Final = 0
SLOW_KILL: Final = 1
SLOW_NAMES: Final = ("NOTIFY", "KILL")

RECALL_NONE: Final = 0  # what a topic remembers for retroactive consumers: core/recollection.py
RECALL_LAST: Final = 1
RECALL_COUNT: Final = 2
RECALL_OCTETS: Final = 3
RECALL_TIME: Final = 4
RECALL_RETAINED: Final = 5
RECALL_NAMES: Final = ("NONE", "LAST", "COUNT", "OCTETS", "TIME", "RETAINED")

MILLISECOND: Final = 1_000_000
DELAY_MOST: Final = float(1 << 60)  # ns: 36 years
MIB: Final = 1024 * 1024


class Policy:
    """What holds for one address after merging. Times in ns unless the name says ms; -1 = unlimited or off."""

    def __init__(self) -> None:
        self.max_octets: i64 = 64 * MIB  # in memory, per queue: one busy queue cannot starve the broker's default limit
        self.full: i64 = FULL_PAGE
        self.block_ms_max: i64 = 0  # sendFailIfNoSpaceAfterTimeout: 0 waits for ever
        self.prioritized: bool = True
        self.max_deliveries: i64 = 10
        self.redelivery_delay: i64 = 0
        self.redelivery_delay_first: i64 = -1  # Classic's initialRedeliveryDelay; -1: as the others
        self.redelivery_jitter: float = 0.0  # share by which a delay may be shorter or longer
        self.redelivery_multiplier: float = 1.0
        self.redelivery_delay_max: i64 = -1
        self.nack_redelivers: bool = False  # False: NACK dead-letters at once (classic.md 6.3)
        self.mark_delivered: bool = False  # persistJMSRedelivered: a delivery is noted before it is known how it ends
        self.dead_letter_address: str = "ActiveMQ.DLQ"
        self.dead_letter_individual: bool = False  # one dead-letter queue a source, named prefix + source
        self.dead_letter_prefix: str = "ActiveMQ.DLQ.Queue."
        self.dead_letter_topic_prefix: str = "ActiveMQ.DLQ.Topic."
        self.dead_letter_suffix: str = ""
        self.dead_letter_topic_suffix: str = ""
        self.dead_letter_expiry_ms: i64 = 0  # 0: dead letters are kept for ever
        self.dead_letter_non_persistent: bool = False
        self.dead_letter_expired: bool = True
        self.expiry_address: str = ""  # "" : expired messages are treated as dead letters
        self.expiry_ms: i64 = -1  # given to messages that have none
        self.expiry_ms_min: i64 = -1
        self.expiry_ms_max: i64 = -1
        self.auto_create: bool = True
        self.auto_delete: bool = False
        self.auto_delete_delay: i64 = 60_000 * MILLISECOND
        self.exclusive: bool = False
        self.strict_order: bool = False
        self.group_buckets: i64 = -1
        self.group_rebalance: bool = False
        self.group_first_key: str = "JMSXGroupFirstForConsumer"
        self.consumers_before_dispatch: i64 = 0
        self.delay_before_dispatch: i64 = -1  # -1: wait for the consumers for ever (Artemis); 0: a second (Classic)
        self.max_consumers: i64 = -1
        self.queue_prefetch: i64 = 1000
        self.topic_prefetch: i64 = 32_767
        self.durable_prefetch: i64 = 100
        self.browse_prefetch: i64 = 500
        self.id_cache: i64 = 20_000
        self.pending_limit: i64 = -1  # messages that a non-durable topic subscription may keep waiting
        self.pending_rate: float = -1.0  # the same as a multiple of its prefetch, where pending_limit says nothing
        self.slow_after: i64 = -1  # a consumer that holds messages and settles none for this long is slow
        self.slow: i64 = SLOW_NOTIFY
        self.last_value: bool = False
        self.recall: i64 = RECALL_NONE
        self.recall_size: i64 = 100
        self.always_retroactive: bool = False
        self.advises_slow: bool = False
        self.advises_full: bool = False
        self.advises_unread: bool = False
        self.advises_fast: bool = False
        self.advises_delivered: bool = False
        self.advises_dispatched: bool = False
        self.advises_consumed: bool = False
        self.advises_discarded: bool = False
        self.advises_bodies: bool = False

    @property
    def is_careful(self) -> bool:
        """Return whether a send must do more than hand the message out: tell of it, or remember it."""
        return self.recall != RECALL_NONE or self.advises_delivered or self.advises_unread

    def dead_letters_of(self, address: str, routing: i64) -> str:
        """Return the name of the dead-letter queue for what was in a queue of ``address``; "" for none."""
        name = self.dead_letter_address
        if not (self.dead_letter_individual and name):
            return name
        prefix = self.dead_letter_prefix if routing == ANYCAST else self.dead_letter_topic_prefix
        suffix = self.dead_letter_suffix if routing == ANYCAST else self.dead_letter_topic_suffix
        return address if address.startswith(prefix) else prefix + address + suffix

    def delay_after(self, deliveries: int, lot: float = 0.5) -> int:
        """Return ns to wait before the next try after ``deliveries`` failed ones; ``lot`` in [0, 1) decides the jitter.

        Artemis (artemis.md 4.7): delay * multiplier^(n-1), at most ten times the delay unless a maximum is set (0: no
        limit). Classic (classic.md 4.6): an initial delay for the first, then the delay, or, with back-off, each time
        the last one multiplied.
        """
        if deliveries < 1:
            return 0
        first = self.redelivery_delay if self.redelivery_delay_first < 0 else self.redelivery_delay_first
        delay = float(first if deliveries == 1 else self.redelivery_delay)
        if self.redelivery_multiplier > 1.0 and deliveries > 1:
            base = float(first if first > 0 else self.redelivery_delay)
            tries = deliveries - 1 if first > 0 else deliveries - 2
            # beyond 2^64 every limit is reached; a larger power would be an OverflowError
            delay = base * min(self.redelivery_multiplier ** min(tries, 60), 2.0**64)
            most = self.redelivery_delay_max if self.redelivery_delay_max >= 0 else self.redelivery_delay * 10
            if most > 0:
                delay = min(delay, float(most))
        if self.redelivery_jitter > 0.0:
            delay *= 1.0 + self.redelivery_jitter * (2.0 * lot - 1.0)
        return int(min(delay, DELAY_MOST))


class Setting:
    """One attribute of a `Policy` as an operator writes it. ``kind``: what its text is; names in both dialects."""

    __slots__ = ("about", "artemis", "classic", "kind", "name")

    def __init__(self, name: str, kind: str, about: str, artemis: str = "", classic: str = "") -> None:
        self.name = name
        self.kind = kind
        self.about = about
        self.artemis = artemis
        self.classic = classic


SETTINGS: Final = (
    Setting("max_octets", "octets", "memory for one queue before it is full", "max-size-bytes", "memoryLimit"),
    Setting("full", "full", "what a full queue does: PAGE, BLOCK, FAIL or DROP", "address-full-policy"),
    Setting("block_ms_max", "ms", "how long a blocked send may wait", "", "sendFailIfNoSpaceAfterTimeout"),
    Setting("prioritized", "bool", "whether message priority orders a queue", "", "prioritizedMessages"),
    Setting("max_deliveries", "int", "tries before a message is a dead letter", "max-delivery-attempts"),
    Setting("redelivery_delay", "ns-ms", "wait before the second try", "redelivery-delay"),
    Setting("redelivery_delay_first", "ns-ms", "wait before the second try, if not as before the others"),
    Setting("redelivery_jitter", "float", "share by which waits differ", "redelivery-collision-avoidance-factor"),
    Setting("redelivery_multiplier", "float", "growth of that wait", "redelivery-delay-multiplier"),
    Setting("redelivery_delay_max", "ns-ms", "longest wait", "max-redelivery-delay"),
    Setting("nack_redelivers", "bool", "whether NACK asks for another try instead of the dead letters"),
    Setting(
        "mark_delivered",
        "bool",
        "whether a first delivery is noted, so that after a crash of the broker the message comes as redelivered",
        "",
        "persistJMSRedelivered",
    ),
    Setting("dead_letter_address", "text", "where dead letters go; empty drops them", "dead-letter-address"),
    Setting(
        "dead_letter_individual", "bool", "a dead-letter queue for each source", "auto-create-dead-letter-resources"
    ),
    Setting("dead_letter_prefix", "text", "name of it before the source", "dead-letter-queue-prefix", "queuePrefix"),
    Setting("dead_letter_topic_prefix", "text", "the same for subscribers of topics", "", "topicPrefix"),
    Setting("dead_letter_suffix", "text", "name of it behind the source", "dead-letter-queue-suffix", "queueSuffix"),
    Setting("dead_letter_topic_suffix", "text", "the same for subscribers of topics", "", "topicSuffix"),
    Setting("dead_letter_expiry_ms", "ms", "time to live of dead letters; 0 for ever"),
    Setting("dead_letter_non_persistent", "bool", "whether non-persistent ones go", "", "processNonPersistent"),
    Setting("dead_letter_expired", "bool", "whether expired ones go", "", "processExpired"),
    Setting("expiry_address", "text", "where expired messages go instead", "expiry-address"),
    Setting("expiry_ms", "ms", "time to live of messages without one", "expiry-delay"),
    Setting("expiry_ms_min", "ms", "shortest time to live", "min-expiry-delay"),
    Setting("expiry_ms_max", "ms", "longest time to live", "max-expiry-delay"),
    Setting("auto_create", "bool", "whether a send or a consumer makes the queue", "auto-create-queues"),
    Setting(
        "auto_delete", "bool", "whether an unused empty queue goes", "auto-delete-queues", "gcInactiveDestinations"
    ),
    Setting("auto_delete_delay", "ns-ms", "after how long", "auto-delete-queues-delay", "inactiveTimeoutBeforeGC"),
    Setting("exclusive", "bool", "one consumer at a time", "default-exclusive-queue", "allConsumersExclusiveByDefault"),
    Setting("strict_order", "bool", "first consumer gets all until full", "", "strictOrderDispatch"),
    Setting("group_buckets", "int", "hash buckets of message groups; -1 none", "default-group-buckets"),
    Setting("group_rebalance", "bool", "a new consumer resets group owners", "default-group-rebalance"),
    Setting("group_first_key", "text", "property on the first of a group", "default-group-first-key"),
    Setting(
        "consumers_before_dispatch",
        "int",
        "consumers to wait for",
        "default-consumers-before-dispatch",
        "consumersBeforeDispatchStarts",
    ),
    Setting(
        "delay_before_dispatch",
        "ns-ms",
        "wait after the first consumer",
        "default-delay-before-dispatch",
        "timeBeforeDispatchStarts",
    ),
    Setting("max_consumers", "int", "consumers that a queue admits", "default-max-consumers"),
    Setting("queue_prefetch", "int", "prefetch of queue consumers", "queue-prefetch", "queuePrefetch"),
    Setting("topic_prefetch", "int", "prefetch of topic subscribers", "", "topicPrefetch"),
    Setting("durable_prefetch", "int", "prefetch of durable subscribers", "", "durableTopicPrefetch"),
    Setting("browse_prefetch", "int", "prefetch of browsers", "", "queueBrowserPrefetch"),
    Setting("id_cache", "int", "duplicate ids remembered; 0 is off", "id-cache-size"),
    Setting(
        "pending_limit", "int", "messages a slow topic subscriber may leave waiting", "", "constantPendingMessageLimit"
    ),
    Setting("pending_rate", "float", "the same as a multiple of its prefetch"),
    Setting("slow_after", "ns-ms", "a consumer that settles nothing for this long is slow", "", "maxTimeSinceLastAck"),
    Setting("slow", "slow", "what happens to it: NOTIFY or KILL", "slow-consumer-policy"),
    Setting(
        "recall", "recall", "what a topic keeps for retroactive consumers: NONE, LAST, COUNT, OCTETS, TIME, RETAINED"
    ),
    Setting("recall_size", "int", "how much of it: messages, octets or ms"),
    Setting("always_retroactive", "bool", "whether every subscriber gets what was kept", "", "alwaysRetroactive"),
    Setting("advises_slow", "bool", "advisory for a slow consumer", "", "advisoryForSlowConsumers"),
    Setting("advises_full", "bool", "advisory for a send to what is full", "", "advisoryWhenFull"),
    Setting("advises_unread", "bool", "advisory for a passing message without reader", "", "sendAdvisoryIfNoConsumers"),
    Setting("advises_fast", "bool", "advisory for who sends to what is full", "", "advisoryForFastProducers"),
    Setting("advises_delivered", "bool", "advisory for each message that comes in", "", "advisoryForDelivery"),
    Setting("advises_dispatched", "bool", "advisory for each message that goes out", "", "advisoryForDispatched"),
    Setting("advises_consumed", "bool", "advisory for each message that is settled", "", "advisoryForConsumed"),
    Setting("advises_discarded", "bool", "advisory for what is discarded", "", "advisoryForDiscardingMessages"),
    Setting("advises_bodies", "bool", "whether advisories carry bodies", "", "includeBodyForAdvisory"),
)

_BY_NAME: Final = {
    name: setting
    for setting in SETTINGS
    for name in (setting.name, setting.name.replace("_", "-"), setting.artemis, setting.classic)
    if name
}

_UNITS: Final = {"": 1, "k": 1024, "kb": 1024, "m": MIB, "mb": MIB, "g": 1024 * MIB, "gb": 1024 * MIB, "b": 1}


def apply(policy: Policy, name: str, text: str) -> None:
    """Set the attribute that ``name`` (ours, or either dialect's) means from its text. Raises InvalidOption."""
    setting = _BY_NAME.get(name)
    if setting is None:
        from difflib import get_close_matches  # noqa: PLC0415 - nobody needs it who makes no mistake

        near = get_close_matches(name, list(_BY_NAME), n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        known = ", ".join(sorted(setting.name for setting in SETTINGS))
        raise InvalidOption(f"there is no address setting {name!r}", remedy=f"{guess}known: {known}")
    try:
        setattr(policy, setting.name, _value(setting.kind, text.strip()))
    except ValueError as error:
        raise InvalidOption(f"{text!r} is no value for {name!r} ({setting.about}): {error}") from None


def _value(kind: str, text: str) -> object:
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ValueError("use true or false")
        return text.lower() == "true"
    if kind == "text":
        return text
    if kind == "float":
        return float(text)
    if kind in ("full", "slow", "recall"):
        names = {"full": FULL_NAMES, "slow": SLOW_NAMES, "recall": RECALL_NAMES}[kind]
        if text.upper() not in names:
            raise ValueError("use one of " + ", ".join(names))
        return names.index(text.upper())
    if kind == "octets":
        return _octets(text)
    number = int(text)
    return number * MILLISECOND if kind == "ns-ms" and number > 0 else number


def _octets(text: str) -> int:
    digits = text.lower().rstrip("bkmg ")
    unit = text.lower()[len(digits) :].strip()
    if unit not in _UNITS:
        raise ValueError("use a number with k, m or g")
    number = int(digits)
    return UNLIMITED if number < 0 else number * _UNITS[unit]


class Entry:
    """The settings of one pattern. ``routing``: what it holds for, queues or topics; UNTYPED for both."""

    def __init__(self, settings: dict[str, str], routing: int) -> None:
        self.settings: dict[str, str] = settings
        self.routing: int = routing


class Policies:
    """The policies of a broker: settings by pattern, merged on demand, cached by name until a pattern changes.

    Artemis' settings hold for an address whatever is done with it; an entry of Classic holds for queues or for topics,
    and ``typed`` says that there is such an entry.
    """

    def __init__(self) -> None:
        self.entries: PatternTrie[Entry] = PatternTrie(MIXED)
        self.typed: bool = False
        self.merged: dict[str, Policy] = {}

    def add(self, pattern: str, settings: dict[str, str], routing: int = UNTYPED) -> None:
        """Add ``settings`` (name -> text) for names that match ``pattern``; checks every one. Raises InvalidOption."""
        probe = Policy()
        for name, text in settings.items():
            apply(probe, name, text)
        self.entries.insert(pattern, Entry(settings, routing))
        self.typed = self.typed or routing != UNTYPED
        self.merged.clear()

    def of(self, name: str, routing: int = UNTYPED) -> Policy:
        """Return the policy of the address ``name`` as what ``routing`` says; UNTYPED is taken for a queue."""
        if routing == UNTYPED:
            routing = ANYCAST
        key = f"{routing}:{name}" if self.typed else name
        policy = self.merged.get(key)
        if policy is None:
            policy = Policy()
            for entry in self.entries.lookup_ranked(name):
                if entry.routing == UNTYPED or entry.routing == routing:
                    for setting, text in entry.settings.items():
                        apply(policy, setting, text)
            if len(self.merged) > 10_000:  # names come from clients: a cache of them must not grow for ever
                self.merged.clear()
            self.merged[key] = policy
        return policy
