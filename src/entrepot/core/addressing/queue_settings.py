"""What an operator may say about the queues of an address: what each of them does unless it says otherwise itself.

Part of the settings of an address (`core/addressing/address_settings.py`); the core reads them, and what a queue says
of itself, as its `Traits` (`core/addressing/traits.py`).
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MINUTE
from entrepot.base.settings import UNLIMITED, Options, Unit, setting

COUNT_MAX: Final = 2**31 - 1  # Java's int
TIME_MAX: Final = 6000 * 24 * 60 * MINUTE  # ns: 16 years; ten times as much still fits 64 bits


class QueueSettings(Options, frozen=True):
    """The settings of the queues of an address. -1 is off or unlimited, unless the line says otherwise."""

    auto_delete: bool = setting(
        False,
        classic="gcInactiveDestinations",
        artemis="auto-delete-queues",
        artemis_default=True,
        about="whether an unused empty queue goes",
    )
    auto_delete_delay: int = setting(
        MINUTE,
        unit=Unit.DURATION,
        high=TIME_MAX,
        classic="inactiveTimeoutBeforeGC",
        artemis="auto-delete-queues-delay",
        artemis_default=0,
        about="after how long",
    )
    auto_delete_messages: int = setting(
        0,
        high=COUNT_MAX,
        unlimited=True,
        artemis="auto-delete-queues-message-count",
        about="messages that it may still hold then; -1 any",
    )
    auto_delete_created: bool = setting(
        False, artemis="auto-delete-created-queues", about="whether one that somebody made on purpose goes too"
    )
    auto_delete_unused: bool = setting(
        False, artemis="auto-delete-queues-skip-usage-check", about="whether one goes that nobody has used yet"
    )
    exclusive: bool = setting(
        False,
        classic="allConsumersExclusiveByDefault",
        artemis="default-exclusive-queue",
        about="one consumer at a time",
    )
    group_buckets: int = setting(
        UNLIMITED,
        high=COUNT_MAX,
        unlimited=True,
        artemis="default-group-buckets",
        about="hash buckets of message groups; -1 none",
    )
    group_rebalance: bool = setting(
        False, artemis="default-group-rebalance", about="a new consumer resets group owners"
    )
    group_rebalance_pause: bool = setting(
        False,
        artemis="default-group-rebalance-pause-dispatch",
        about="whether it waits until nothing of the former owners is in flight",
    )
    group_first_key: str = setting(
        "JMSXGroupFirstForConsumer",
        artemis="default-group-first-key",
        artemis_default="",
        about="property on the first of a group",
    )
    last_value: bool = setting(
        False, artemis="default-last-value-queue", about="whether a queue keeps the last message of each key alone"
    )
    last_value_key: str = setting(
        "", artemis="default-last-value-key", about="property that is the key; empty: `_AMQ_LVQ_NAME`"
    )
    ring_size: int = setting(
        UNLIMITED,
        high=COUNT_MAX,
        unlimited=True,
        artemis="default-ring-size",
        about="messages that a queue keeps, the newest; -1 all",
    )
    non_destructive: bool = setting(
        False, artemis="default-non-destructive", about="whether reading removes nothing, and every consumer sees all"
    )
    purge_on_no_consumers: bool = setting(
        False, artemis="default-purge-on-no-consumers", about="whether nothing is kept while nobody reads"
    )
    consumers_before_dispatch: int = setting(
        0,
        high=COUNT_MAX,
        classic="consumersBeforeDispatchStarts",
        artemis="default-consumers-before-dispatch",
        about="consumers to wait for",
    )
    delay_before_dispatch: int = setting(
        UNLIMITED,  # for ever, as in Artemis; Classic's 0 is a second
        unit=Unit.DURATION,
        high=TIME_MAX,
        unlimited=True,
        classic="timeBeforeDispatchStarts",
        artemis="default-delay-before-dispatch",
        classic_default=0,
        about="wait after the first consumer; 0 is a second",
    )
    max_consumers: int = setting(
        UNLIMITED,
        high=COUNT_MAX,
        unlimited=True,
        artemis="default-max-consumers",
        about="consumers that a queue admits",
    )
