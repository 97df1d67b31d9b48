"""What one queue does: its own definition where that speaks, the settings of its address where it does not. [C]

The attributes are those of Artemis' QueueConfiguration (artemis.md 4.1, 4.5). What nobody said of a queue is asked of
its address at every start, so a changed setting holds for queues that were made before it. Queues of which nothing was
said share the traits of their policy.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.queue_settings import QueueSettings

AT_ONCE: Final = 1  # ns: a delay of 0 that was said of a queue; that of a policy has Classic's meaning, a second
LAST_VALUE_KEY: Final = "_AMQ_LVQ_NAME"
"""The property whose value a last-value queue goes by, where no key is named."""


class Traits:
    """What one queue does. Times in ns; -1 = unlimited or off.

    They never change once a queue has them: one that is defined anew gets others.
    """

    def __init__(self, given: QueueSettings, auto_delete: bool) -> None:
        """Begin with what ``given`` says of queues."""
        self.exclusive: bool = given.exclusive
        self.max_consumers: i64 = given.max_consumers
        self.purges: bool = given.purge_on_no_consumers
        self.enabled: bool = True
        self.consumers_before_dispatch: i64 = given.consumers_before_dispatch
        self.delay_before_dispatch: i64 = given.delay_before_dispatch
        self.group_buckets: i64 = given.group_buckets
        self.group_rebalance: bool = given.group_rebalance
        self.group_rebalance_pause: bool = given.group_rebalance_pause
        self.group_first_key: str = given.group_first_key
        self.last_value_key: str = given.last_value_key  # "": it keeps all values
        if given.last_value and not given.last_value_key:
            self.last_value_key = LAST_VALUE_KEY
        self.non_destructive: bool = given.non_destructive
        self.ring_size: i64 = given.ring_size
        self.auto_delete: bool = auto_delete
        self.auto_delete_delay: i64 = given.auto_delete_delay
        self.auto_delete_messages: i64 = given.auto_delete_messages
        self.auto_delete_unused: bool = given.auto_delete_unused

    def define(self, definition: QueueDefinition) -> None:
        """Take what ``definition`` says in place of the settings."""
        self.enabled = definition.enabled
        self.exclusive = _flag(definition.exclusive, self.exclusive)
        self.max_consumers = _number(definition.max_consumers, self.max_consumers)
        self.purges = _flag(definition.purge_on_no_consumers, self.purges)
        self.consumers_before_dispatch = _number(definition.consumers_before_dispatch, self.consumers_before_dispatch)
        delay = definition.delay_before_dispatch_ms
        if delay is not None:
            self.delay_before_dispatch = delay * MILLISECOND if delay > 0 else AT_ONCE if delay == 0 else -1
        self.group_buckets = _number(definition.group_buckets, self.group_buckets)
        self.group_rebalance = _flag(definition.group_rebalance, self.group_rebalance)
        self.group_rebalance_pause = _flag(definition.group_rebalance_pause, self.group_rebalance_pause)
        if definition.group_first_key is not None:
            self.group_first_key = definition.group_first_key
        self._set_last_value(definition)
        self.non_destructive = _flag(definition.non_destructive, self.non_destructive)
        self.ring_size = _number(definition.ring_size, self.ring_size)
        self.auto_delete = _flag(definition.auto_delete, self.auto_delete)
        if definition.auto_delete_delay_ms is not None:
            self.auto_delete_delay = max(definition.auto_delete_delay_ms, 0) * MILLISECOND
        self.auto_delete_messages = _number(definition.auto_delete_messages, self.auto_delete_messages)

    def _set_last_value(self, definition: QueueDefinition) -> None:
        """A key that is named makes a last-value queue, whatever else is said (Artemis' QueueFactoryImpl)."""
        if definition.last_value_key:
            self.last_value_key = definition.last_value_key
        elif definition.last_value is False:
            self.last_value_key = ""
        elif definition.last_value and not self.last_value_key:
            self.last_value_key = LAST_VALUE_KEY

    def keeps_as(self, other: Traits) -> bool:
        """Return whether what is chosen when a queue is made is the same in ``other``."""
        return self.last_value_key == other.last_value_key and self.non_destructive == other.non_destructive

    def bars(self) -> bool:
        """Return whether there are times at which messages are not routed to it."""
        return self.purges or not self.enabled


def _flag(said: bool | None, otherwise: bool) -> bool:
    return otherwise if said is None else said


def _number(said: int | None, otherwise: i64) -> i64:
    return otherwise if said is None else said
