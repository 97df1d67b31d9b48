"""How addresses behave: one policy from Classic's ``policyEntry`` and Artemis' ``address-setting``, by wildcard.

Settings merge from the least to the most specific pattern that matches, attribute by attribute (artemis.md 4.2); a
Classic entry does not inherit, which its reader expresses by setting every attribute (classic.md 4.16). What each
setting means, its range and its defaults are declared in `core/addressing/address_settings.py`. [C]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from mypy_extensions import i64

from entrepot.base.environment import SECOND, UNLIMITED
from entrepot.base.errors import LimitExceeded
from entrepot.base.patterns import MIXED, PatternTrie
from entrepot.core.addressing.address_settings import FULL_PAGE, OURS, AddressSettings, read_settings
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.traits import Traits
from entrepot.core.events.facts import (
    MESSAGE_CONSUMED,
    MESSAGE_DELIVERED,
    MESSAGE_DISCARDED,
    MESSAGE_DISPATCHED,
    MESSAGE_UNREAD,
    QUEUE_FULL,
)
from entrepot.model.address import ANYCAST, UNTYPED

DELAY_MOST: Final = float(1 << 60)  # ns: 36 years
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|.*-[0-9]+-[0-9]+-[0-9]+:[0-9]+:[0-9]+", re.DOTALL)
EVERYTHING: Final = "#"  # as a pattern, in the words of Artemis
NAMES_KEPT: Final = 10_000  # names come from clients: a cache of them must not grow for ever
TUNED_MOST: Final = 10_000  # addresses: each is a dictionary in memory


class Policy:
    """What holds for one address after merging: the settings as attributes that compiled code reads directly.

    Times in ns unless the name says ms; -1 = unlimited or off, but for ``max_octets``. It never changes: addresses
    that the same patterns cover share one.
    """

    def __init__(self, given: AddressSettings = OURS) -> None:
        self.max_octets: i64 = UNLIMITED if given.max_octets < 0 else given.max_octets
        self.max_messages: i64 = UNLIMITED if given.max_messages < 0 else given.max_messages
        self.page_full: i64 = int(given.page_full)
        limited = max(given.page_messages, given.page_octets) >= 0 and self.page_full != FULL_PAGE
        self.page_messages: i64 = given.page_messages if limited and given.page_messages >= 0 else UNLIMITED
        self.page_octets: i64 = given.page_octets if limited and given.page_octets >= 0 else UNLIMITED
        self.counts: bool = given.max_messages >= 0 or limited  # a queue is full by the number of its messages, too
        self.full: i64 = int(given.full)
        self.block_ms_max: i64 = given.block_ms_max
        self.prioritized: bool = given.prioritized
        self.max_deliveries: i64 = given.max_deliveries
        self.redelivery_delay: i64 = given.redelivery_delay
        self.redelivery_delay_first: i64 = given.redelivery_delay_first
        self.redelivery_jitter: float = float(given.redelivery_jitter)
        self.redelivery_multiplier: float = float(given.redelivery_multiplier)
        self.redelivery_delay_max: i64 = given.redelivery_delay_max
        self.nack_redelivers: bool = given.nack_redelivers
        self.mark_delivered: bool = given.mark_delivered
        self.dead_letter_address: str = given.dead_letter_address
        self.dead_letter_individual: bool = given.dead_letter_individual
        self.dead_letter_resources: bool = given.dead_letter_resources
        self.dead_letter_routed: bool = given.dead_letter_routed
        self.unrouted_dead: bool = given.unrouted_dead
        self.dead_letter_prefix: str = given.dead_letter_prefix
        self.dead_letter_topic_prefix: str = given.dead_letter_topic_prefix
        self.dead_letter_suffix: str = given.dead_letter_suffix
        self.dead_letter_topic_suffix: str = given.dead_letter_topic_suffix
        self.dead_letter_expiry_ms: i64 = given.dead_letter_expiry_ms
        self.dead_letter_non_persistent: bool = given.dead_letter_non_persistent
        self.dead_letter_expired: bool = given.dead_letter_expired
        self.expiry_address: str = given.expiry_address
        self.expiry_resources: bool = given.expiry_resources
        self.expiry_prefix: str = given.expiry_prefix
        self.no_expiry: bool = given.no_expiry
        self.ingress_timestamp: bool = given.ingress_timestamp
        self.expiry_ms: i64 = given.expiry_ms
        self.expiry_ms_min: i64 = given.expiry_ms_min
        self.expiry_ms_max: i64 = given.expiry_ms_max
        self.redistribution_delay: i64 = given.redistribution_delay
        self.auto_create: bool = given.auto_create
        self.strict_order: bool = given.strict_order
        self.queue_prefetch: i64 = given.queue_prefetch
        self.topic_prefetch: i64 = given.topic_prefetch
        self.durable_prefetch: i64 = given.durable_prefetch
        self.id_cache: i64 = given.id_cache
        self.pending_limit: i64 = given.pending_limit
        self.pending_rate: float = float(given.pending_rate)
        self.slow_after: i64 = given.slow_after
        self.slow: i64 = int(given.slow)
        self.slow_rate: float = -1.0 if given.slow_threshold < 0 else given.slow_threshold / int(given.slow_unit)
        self.slow_check: i64 = given.slow_check_s * SECOND
        self.retroactive: i64 = given.retroactive
        self.recall: i64 = int(given.recall)
        self.recall_size: i64 = given.recall_size
        self.always_retroactive: bool = given.always_retroactive
        self.advises_slow: bool = given.advises_slow
        self.advises_full: bool = given.advises_full
        self.advises_unread: bool = given.advises_unread
        self.advises_fast: bool = given.advises_fast
        self.advises_delivered: bool = given.advises_delivered
        self.advises_dispatched: bool = given.advises_dispatched
        self.advises_consumed: bool = given.advises_consumed
        self.advises_discarded: bool = given.advises_discarded
        self.advises_bodies: bool = given.advises_bodies
        self.given: AddressSettings = given
        self.of_created: Traits = Traits(given, given.auto_delete_created)  # of queues of which nothing was said
        self.of_auto_created: Traits = Traits(given, given.auto_delete)

    def traits_of(self, definition: QueueDefinition, had: Traits | None = None) -> Traits:
        """Return what a queue does that is defined so, at an address of this policy.

        ``had``: what a queue did that exists. What it keeps of each key, and whether reading removes, stay so.
        """
        if definition.says_nothing():
            shared = self.of_auto_created if definition.auto_created else self.of_created
            if had is None or shared.keeps_as(had):
                return shared
        given = self.given
        traits = Traits(given, given.auto_delete if definition.auto_created else given.auto_delete_created)
        traits.define(definition)
        if had is not None:
            traits.last_value_key = had.last_value_key
            traits.non_destructive = had.non_destructive
        return traits

    def asked(self) -> i64:
        """Return the facts about single messages that this asks for (`facts.ON_REQUEST`)."""
        asked: i64 = QUEUE_FULL if self.advises_full or self.advises_fast else 0
        asked |= MESSAGE_UNREAD if self.advises_unread else 0
        asked |= MESSAGE_DELIVERED if self.advises_delivered else 0
        asked |= MESSAGE_DISPATCHED if self.advises_dispatched else 0
        asked |= MESSAGE_CONSUMED if self.advises_consumed else 0
        return asked | (MESSAGE_DISCARDED if self.advises_discarded else 0)

    def stamps(self) -> bool:
        """Return whether messages get something on their way in: another expiration, the time of arrival."""
        bounds = self.expiry_ms >= 0 or self.expiry_ms_min >= 0 or self.expiry_ms_max >= 0
        return bounds or self.no_expiry or self.ingress_timestamp

    def default_prefetch(self, topic: bool, durable: bool) -> i64:
        """Return the prefetch of a consumer that wishes none; ``durable``: of a durable subscription to a topic."""
        if not topic:
            return self.queue_prefetch
        return self.durable_prefetch if durable else self.topic_prefetch

    def dead_letters_of(self, address: str, routing: i64) -> str:
        """Return the name of the dead-letter queue for what was in a queue of ``address``; "" for none."""
        name = self.dead_letter_address
        if not (self.dead_letter_individual and name):
            return name
        prefix = self.dead_letter_prefix if routing == ANYCAST else self.dead_letter_topic_prefix
        suffix = self.dead_letter_suffix if routing == ANYCAST else self.dead_letter_topic_suffix
        return address if address.startswith(prefix) else prefix + address + suffix

    def letter_queues_of(self, address: str, routing: i64) -> list[str]:
        """Return the names of the queues where letters from ``address`` are looked for, dead ones and expired ones."""
        names = [self.dead_letters_of(address, routing), self.expiry_address]
        if self.dead_letter_resources:
            names.append(self.dead_letter_prefix + address + self.dead_letter_suffix)
        if self.expiry_resources:
            names.append(self.expiry_prefix + address + self.given.expiry_suffix)
        return names

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


class Entry:
    """The settings of one pattern, by attribute. ``routing``: what it is for, queues or topics; UNTYPED for both."""

    def __init__(self, pattern: str, number: int, settings: dict[str, Any], routing: int) -> None:
        self.pattern: str = pattern
        self.number: int = number
        self.settings: dict[str, Any] = settings
        self.routing: int = routing


class Policies:
    """The policies of a broker: settings by pattern, merged on demand, cached by name until a pattern changes.

    Artemis' settings hold for an address whatever is done with it; an entry of Classic holds for queues or for topics,
    and ``typed`` says that there is such an entry.

    ``amended``: what an operator of the running broker said of a pattern; it stands in the place of all that was added
    for the pattern (`core/addressing/amending.py`). ``tuned``: what he said of one address,
    over all patterns, until the broker stops (`tune`). ``base``: what holds below all.
    """

    def __init__(self) -> None:
        self.entries: PatternTrie[Entry] = PatternTrie(MIXED)
        self.added: int = 0
        self.typed: bool = False
        self.literal: dict[str, list[Entry]] = {}  # for one name, wildcards in it and all (literal-match-markers)
        self.namespace: str = (
            ""  # before names that are UUIDs (uuid-namespace); "": they have the settings of their own
        )
        self.base: dict[str, Any] = {}
        self.amended: dict[str, Entry] = {}
        self.tuned: dict[str, Entry] = {}  # by routing and name
        self.tunings: int = 0  # so many there were
        self.merged: dict[str, Policy] = {}
        self.made: dict[tuple[int, ...], Policy] = {}  # by the entries that say something

    def add(self, pattern: str, settings: Mapping[str, object], routing: int = UNTYPED) -> None:
        """Add ``settings`` (any name -> text) for addresses that match ``pattern``. Raises InvalidOption."""
        self.put(pattern, read_settings(settings), routing)

    def put(self, pattern: str, values: Mapping[str, Any], routing: int = UNTYPED, *, literal: bool = False) -> None:
        """Add ``values`` (attribute -> value) for addresses that match ``pattern``, or are called so (``literal``).

        Raises InvalidOption.
        """
        AddressSettings(**values)  # refuses what is out of range
        entry = Entry(pattern, self.added, dict(values), routing)
        if literal:
            self.literal.setdefault(pattern, []).append(entry)
        else:
            self.entries.insert(pattern, entry)
        self.added += 1
        self.typed = self.typed or routing != UNTYPED
        self.forget()

    def amend(self, pattern: str, values: Mapping[str, Any] | None) -> None:
        """Let ``values`` hold for ``pattern`` in the place of what was added for it; None: that holds again.

        Raises InvalidOption, InvalidDestination: nothing is changed then.
        """
        entry: Entry | None = None
        if values is not None:
            AddressSettings(**values)
            base: dict[str, Any] = self.base if pattern == EVERYTHING else {}
            entry = Entry(pattern, self.added, {**base, **values}, UNTYPED)
            self.entries.insert(pattern, entry)
            self.added += 1
        before = self.amended.pop(pattern, None)
        if before is not None:
            self.entries.remove(pattern, before)
        if entry is not None:
            self.amended[pattern] = entry
        self.forget()

    def unamend(self) -> None:
        """Be as before the first `amend`: a broker begins anew with what its journal has."""
        for pattern, entry in self.amended.items():
            self.entries.remove(pattern, entry)
        self.amended = {}
        self.forget()

    def tune(self, name: str, routing: int, values: Mapping[str, Any]) -> None:
        """Let ``values`` (attribute -> value) hold for the one address ``name``, over all that is said otherwise.

        What was tuned before and is not among them stays. Raises InvalidOption, LimitExceeded: nothing is changed then.
        """
        key = f"{routing}:{name}"
        before = self.tuned.get(key)
        if before is None and len(self.tuned) >= TUNED_MOST:
            raise LimitExceeded(f"{TUNED_MOST} addresses have settings of their own", remedy="write them in the file")
        settings = {**({} if before is None else before.settings), **values}
        AddressSettings(**settings)
        self.tunings += 1
        self.tuned[key] = Entry(name, -self.tunings, settings, routing)  # patterns have the numbers from 0
        self.typed = True
        self.forget()

    def forget(self) -> None:
        """Merge anew what is asked for from now on."""
        self.merged.clear()
        self.made.clear()

    def take_over(self, other: Policies) -> None:
        """Be what ``other`` is: a configuration was read again. Queues keep theirs until they get another."""
        self.entries = other.entries
        self.added = other.added
        self.typed = other.typed or len(self.tuned) > 0
        self.literal = other.literal
        self.namespace = other.namespace
        self.base = other.base
        self.amended = other.amended
        self.forget()

    def of(self, name: str, routing: int = UNTYPED) -> Policy:
        """Return the policy of the address ``name`` as what ``routing`` says; UNTYPED is taken for a queue."""
        if routing == UNTYPED:
            routing = ANYCAST
        key = f"{routing}:{name}" if self.typed else name
        policy = self.merged.get(key)
        if policy is None:
            policy = self._merge(name, routing)
            if len(self.merged) > NAMES_KEPT:
                self.merged.clear()
            self.merged[key] = policy
        return policy

    def _merge(self, name: str, routing: int) -> Policy:
        own = self.tuned.get(f"{routing}:{name}")
        if self.namespace and UUID.fullmatch(name):
            name = f"{self.namespace}.{name}"
        amended = self.amended
        ranked = [
            one
            for one in self.entries.lookup_ranked(name)
            if amended.get(one.pattern, one) is one or one.routing != UNTYPED
        ]
        found = [*ranked, *self.literal.get(name, ())]
        entries = [one for one in found if one.routing in (UNTYPED, routing)]
        if own is not None:
            entries.append(own)
        key = tuple([one.number for one in entries])
        policy = self.made.get(key)
        if policy is None:
            values: dict[str, Any] = {}
            for entry in entries:
                values.update(entry.settings)
            policy = Policy(AddressSettings(**values))
            self.made[key] = policy
        return policy
