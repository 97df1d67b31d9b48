"""What an operator may say about the addresses of a pattern: every setting, declared once.

A declaration holds the unit, the permitted range, the name in either family, and the default here, in Classic and in
Artemis. Parsing, the readers of both families' files, their findings and the documentation read it. The core reads the
merged values as the typed attributes of a `Policy` (`core/addressing/policy.py`).

Where the families' defaults differ, ours are explained in `docs/decisions/0005-defaults-of-two-families.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from entrepot.base.environment import MIB, MILLISECOND
from entrepot.base.settings import UNLIMITED, Dialect, Setting, Unit, refuse_unknown, setting
from entrepot.core.addressing.queue_settings import COUNT_MAX, TIME_MAX
from entrepot.core.addressing.upkeep_settings import UpkeepSettings

FULL_PAGE: Final = 0  # wait on disk
FULL_BLOCK: Final = 1  # stop reading from producers
FULL_FAIL: Final = 2  # refuse the message
FULL_DROP: Final = 3  # discard the message

SLOW_NOTIFY: Final = 0
SLOW_KILL: Final = 1

RECALL_NONE: Final = 0  # what a topic remembers for retroactive consumers: core/sending/recollection.py
RECALL_LAST: Final = 1
RECALL_COUNT: Final = 2
RECALL_OCTETS: Final = 3
RECALL_TIME: Final = 4
RECALL_RETAINED: Final = 5

MS_MAX: Final = TIME_MAX // MILLISECOND
FACTOR_MAX: Final = 1e6


class Full(IntEnum):
    """What happens to a message for a queue that is full. The numbers are what compiled code compares."""

    PAGE = FULL_PAGE
    BLOCK = FULL_BLOCK
    FAIL = FULL_FAIL
    DROP = FULL_DROP


class Slow(IntEnum):
    """What happens to a slow consumer."""

    NOTIFY = SLOW_NOTIFY
    KILL = SLOW_KILL


class SlowUnit(IntEnum):
    """In how many seconds the messages of a slow consumer's threshold are counted."""

    MESSAGES_PER_SECOND = 1
    MESSAGES_PER_MINUTE = 60
    MESSAGES_PER_HOUR = 3_600
    MESSAGES_PER_DAY = 86_400


class Recall(IntEnum):
    """What a topic keeps for retroactive consumers."""

    NONE = RECALL_NONE
    LAST = RECALL_LAST
    COUNT = RECALL_COUNT
    OCTETS = RECALL_OCTETS
    TIME = RECALL_TIME
    RETAINED = RECALL_RETAINED


class AddressSettings(UpkeepSettings, frozen=True):
    """The settings of an address. -1 is off or unlimited, unless the line says otherwise."""

    max_octets: int = setting(
        64 * MIB,  # one busy queue cannot starve the default limit of the broker
        unit=Unit.OCTETS,
        unlimited=True,
        classic="memoryLimit",
        artemis="max-size-bytes",
        classic_default=UNLIMITED,
        artemis_default=UNLIMITED,
        about="octets that wait in one queue before it is full; with PAGE: in memory",
    )
    full: Full = setting(
        Full.PAGE,
        artemis="address-full-policy",
        classic_default=Full.BLOCK,
        about="what a full queue does: PAGE, BLOCK, FAIL or DROP",
    )
    max_messages: int = setting(
        UNLIMITED,
        high=COUNT_MAX,
        unlimited=True,
        artemis="max-size-messages",
        about="messages that wait in one queue before it is full; with PAGE: in memory",
    )
    page_messages: int = setting(
        UNLIMITED,
        high=COUNT_MAX,
        unlimited=True,
        artemis="page-limit-messages",
        about="messages that a queue may page to disk, if page_full says what then",
    )
    page_full: Full = setting(
        Full.PAGE, artemis="page-full-policy", about="what a queue does that paged so much: PAGE goes on, FAIL or DROP"
    )
    block_ms_max: int = setting(
        0,
        unit=Unit.MILLISECONDS,
        high=MS_MAX,
        unlimited=True,
        classic="sendFailIfNoSpaceAfterTimeout",
        about="how long a blocked send may wait; 0 for ever",
    )
    prioritized: bool = setting(
        True, classic="prioritizedMessages", classic_default=False, about="whether message priority orders a queue"
    )
    max_deliveries: int = setting(
        10,
        high=COUNT_MAX,
        unlimited=True,
        artemis="max-delivery-attempts",
        classic_default=UNLIMITED,  # Classic's broker counts none: its clients do
        about="tries before a message is a dead letter",
    )
    redelivery_delay: int = setting(
        0, unit=Unit.DURATION, high=TIME_MAX, artemis="redelivery-delay", about="wait before the second try"
    )
    redelivery_delay_first: int = setting(
        UNLIMITED,
        unit=Unit.DURATION,
        high=TIME_MAX,
        unlimited=True,
        about="wait before the second try, if not as before the others",
    )
    redelivery_jitter: float = setting(
        0.0, low=0.0, high=1.0, artemis="redelivery-collision-avoidance-factor", about="share by which waits differ"
    )
    redelivery_multiplier: float = setting(
        1.0, low=0.0, high=FACTOR_MAX, artemis="redelivery-delay-multiplier", about="growth of that wait"
    )
    redelivery_delay_max: int = setting(
        UNLIMITED,
        unit=Unit.DURATION,
        high=TIME_MAX,
        unlimited=True,
        artemis="max-redelivery-delay",
        about="longest wait; -1: ten times the delay, 0: any",
    )
    nack_redelivers: bool = setting(False, about="whether NACK asks for another try instead of the dead letters")
    mark_delivered: bool = setting(
        False,
        classic="persistJMSRedelivered",
        about="whether a first delivery is noted, so that after a crash of the broker the message comes as redelivered",
    )
    dead_letter_address: str = setting(
        "ActiveMQ.DLQ",
        artemis="dead-letter-address",
        artemis_default="",
        about="where dead letters go; empty drops them",
    )
    dead_letter_individual: bool = setting(False, about="a dead-letter queue for each source")
    dead_letter_resources: bool = setting(
        False,
        artemis="auto-create-dead-letter-resources",
        about="a queue of the dead-letter address for each source",
    )
    dead_letter_routed: bool = setting(
        False,
        artemis_default=True,
        about="whether dead and expired messages go to queues of either routing type, filters applied",
    )
    unrouted_dead: bool = setting(
        False, artemis="send-to-dla-on-no-route", about="whether what no queue takes is a dead letter"
    )
    dead_letter_prefix: str = setting(
        "ActiveMQ.DLQ.Queue.",
        classic="queuePrefix",
        artemis="dead-letter-queue-prefix",
        artemis_default="DLQ.",
        about="name of it before the source",
    )
    dead_letter_topic_prefix: str = setting(
        "ActiveMQ.DLQ.Topic.",
        classic="topicPrefix",
        artemis_default="DLQ.",
        about="the same for subscribers of topics",
    )
    dead_letter_suffix: str = setting(
        "", classic="queueSuffix", artemis="dead-letter-queue-suffix", about="name of it behind the source"
    )
    dead_letter_topic_suffix: str = setting("", classic="topicSuffix", about="the same for subscribers of topics")
    dead_letter_expiry_ms: int = setting(
        0, unit=Unit.MILLISECONDS, high=MS_MAX, unlimited=True, about="time to live of dead letters; 0 for ever"
    )
    dead_letter_non_persistent: bool = setting(
        False, classic="processNonPersistent", artemis_default=True, about="whether non-persistent ones go"
    )
    dead_letter_expired: bool = setting(
        True, classic="processExpired", artemis_default=False, about="whether expired ones go"
    )
    expiry_address: str = setting("", artemis="expiry-address", about="where expired messages go instead")
    expiry_resources: bool = setting(
        False, artemis="auto-create-expiry-resources", about="a queue of the expiry address for each source"
    )
    expiry_prefix: str = setting("EXP.", artemis="expiry-queue-prefix", about="name of it before the source")
    expiry_ms: int = setting(
        UNLIMITED,
        unit=Unit.MILLISECONDS,
        high=MS_MAX,
        unlimited=True,
        artemis="expiry-delay",
        about="time to live of messages without one",
    )
    expiry_ms_min: int = setting(
        UNLIMITED,
        unit=Unit.MILLISECONDS,
        high=MS_MAX,
        unlimited=True,
        artemis="min-expiry-delay",
        about="shortest time to live",
    )
    expiry_ms_max: int = setting(
        UNLIMITED,
        unit=Unit.MILLISECONDS,
        high=MS_MAX,
        unlimited=True,
        artemis="max-expiry-delay",
        about="longest time to live",
    )
    redistribution_delay: int = setting(
        UNLIMITED,
        unit=Unit.DURATION,
        high=TIME_MAX,
        unlimited=True,
        artemis="redistribution-delay",
        about="time without a consumer here until messages go to nodes of the cluster that have one; -1: they stay",
    )
    auto_create: bool = setting(
        True, artemis="auto-create-queues", about="whether a send or a consumer makes the queue"
    )
    strict_order: bool = setting(False, classic="strictOrderDispatch", about="first consumer gets all until full")
    queue_prefetch: int = setting(
        1000,
        high=COUNT_MAX,
        classic="queuePrefetch",
        artemis="queue-prefetch",
        about="prefetch of queue consumers",
    )
    topic_prefetch: int = setting(
        32_767, high=COUNT_MAX, classic="topicPrefetch", about="prefetch of topic subscribers"
    )
    durable_prefetch: int = setting(
        100, high=COUNT_MAX, classic="durableTopicPrefetch", about="prefetch of durable subscribers"
    )
    id_cache: int = setting(
        20_000,  # Classic knows no duplicate ids; a producer that sends one asks for this
        high=COUNT_MAX,
        artemis="id-cache-size",
        about="duplicate ids remembered; 0 is off",
    )
    pending_limit: int = setting(
        UNLIMITED,
        high=COUNT_MAX,
        unlimited=True,
        classic="constantPendingMessageLimit",
        about="messages a slow topic subscriber may leave waiting",
    )
    pending_rate: float = setting(
        -1.0, low=0.0, high=FACTOR_MAX, unlimited=True, about="the same as a multiple of its prefetch"
    )
    slow_after: int = setting(
        UNLIMITED,
        unit=Unit.DURATION,
        high=TIME_MAX,
        unlimited=True,
        classic="maxTimeSinceLastAck",
        about="a consumer that settles nothing for this long is slow",
    )
    slow: Slow = setting(Slow.NOTIFY, artemis="slow-consumer-policy", about="what happens to it: NOTIFY or KILL")
    slow_threshold: int = setting(
        UNLIMITED,
        high=COUNT_MAX,
        unlimited=True,
        artemis="slow-consumer-threshold",
        about="a consumer is slow that settles fewer, while more than that come or wait for each",
    )
    slow_unit: SlowUnit = setting(
        SlowUnit.MESSAGES_PER_SECOND,
        artemis="slow-consumer-threshold-measurement-unit",
        about="what that is in: MESSAGES_PER_SECOND, _MINUTE, _HOUR or _DAY",
    )
    slow_check_s: int = setting(
        5, low=1, high=86_400, artemis="slow-consumer-check-period", about="seconds between two looks at that"
    )
    retroactive: int = setting(
        0,
        high=COUNT_MAX,
        artemis="retroactive-message-count",
        about="messages of an address that a new queue begins with",
    )
    recall: Recall = setting(
        Recall.NONE,
        about="what a topic keeps for retroactive consumers: NONE, LAST, COUNT, OCTETS, TIME, RETAINED",
    )
    recall_size: int = setting(100, high=MS_MAX, about="how much of it: messages, octets or ms")
    always_retroactive: bool = setting(
        False, classic="alwaysRetroactive", about="whether every subscriber gets what was kept"
    )
    advises_slow: bool = setting(False, classic="advisoryForSlowConsumers", about="advisory for a slow consumer")
    advises_full: bool = setting(False, classic="advisoryWhenFull", about="advisory for a send to what is full")
    advises_unread: bool = setting(
        False, classic="sendAdvisoryIfNoConsumers", about="advisory for a passing message without reader"
    )
    advises_fast: bool = setting(
        False, classic="advisoryForFastProducers", about="advisory for who sends to what is full"
    )
    advises_delivered: bool = setting(
        False, classic="advisoryForDelivery", about="advisory for each message that comes in"
    )
    advises_dispatched: bool = setting(
        False, classic="advisoryForDispatched", about="advisory for each message that goes out"
    )
    advises_consumed: bool = setting(
        False, classic="advisoryForConsumed", about="advisory for each message that is settled"
    )
    advises_discarded: bool = setting(
        False, classic="advisoryForDiscardingMessages", about="advisory for what is discarded"
    )
    advises_bodies: bool = setting(False, classic="includeBodyForAdvisory", about="whether advisories carry bodies")


OURS: Final = AddressSettings()
"""The settings of an address that nobody configured."""

_SPELT: Final[Mapping[str, tuple[Setting, Dialect]]] = {
    name: (declared, dialect)
    for declared in AddressSettings.settings()
    for name, dialect in (
        (declared.spelling(Dialect.CLASSIC), Dialect.CLASSIC),
        (declared.spelling(Dialect.ARTEMIS), Dialect.ARTEMIS),
        (declared.spelling(Dialect.CLI), Dialect.CLI),
        (declared.name, Dialect.CLI),
    )
    if name
}


def read_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the values that ``given`` means: name (ours, or either family's) -> text, or a value that text would say.

    A number is read as its text: a time in ms, a size in octets. Raises InvalidOption.
    """
    families = (name for name, (_, dialect) in _SPELT.items() if dialect is not Dialect.CLI)
    unknown = (name for name in given if name not in _SPELT)
    refuse_unknown(unknown, AddressSettings.__settings__, families, what="address setting")
    values: dict[str, Any] = {}
    for name, value in given.items():
        declared, dialect = _SPELT[name]
        values[declared.name] = declared.parse(_written(value), dialect)
    return values


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
