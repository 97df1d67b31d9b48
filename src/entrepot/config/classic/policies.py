"""``destinationPolicy`` and the plugins that change it, as address settings (classic.md 4.6, 4.11, 4.16).

A Classic entry does not inherit, while settings here merge by pattern. So every entry sets every setting: what it does
not say is `DEFAULTS`, Classic's own values, and below all entries lies one for every address (`defaultEntry`, or those
defaults). Plugins that are written elsewhere in the file hold for every entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from entrepot.base.errors import InvalidDestination, InvalidOption
from entrepot.base.patterns import MIXED
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.config.findings import Severity
from entrepot.config.model import BrokerSettings, PolicyEntry, UsageOptions
from entrepot.config.reading import Bean, Reader
from entrepot.core.policy import Policies
from entrepot.model import address
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination

EVERYTHING: Final = ">"
NO_LIMIT: Final = str(2**62)  # octets; -1 would be no memory at all to the core
OFF: Final = "-1"

DEFAULTS: Final[Mapping[str, str]] = {
    "max_octets": NO_LIMIT,
    "full": "BLOCK",
    "block_ms_max": "0",
    "prioritized": "false",
    "max_deliveries": OFF,  # Classic's broker counts none: its clients do
    "redelivery_delay": "0",
    "redelivery_delay_first": OFF,
    "redelivery_jitter": "0.0",
    "redelivery_multiplier": "1.0",
    "redelivery_delay_max": OFF,
    "nack_redelivers": "false",
    "mark_delivered": "false",
    "dead_letter_address": "ActiveMQ.DLQ",
    "dead_letter_individual": "false",
    "dead_letter_prefix": "ActiveMQ.DLQ.Queue.",
    "dead_letter_topic_prefix": "ActiveMQ.DLQ.Topic.",
    "dead_letter_suffix": "",
    "dead_letter_topic_suffix": "",
    "dead_letter_expiry_ms": "0",
    "dead_letter_non_persistent": "false",
    "dead_letter_expired": "true",
    "expiry_address": "",
    "expiry_ms": OFF,
    "expiry_ms_min": OFF,
    "expiry_ms_max": OFF,
    "auto_create": "true",
    "auto_delete": "false",
    "auto_delete_delay": "60000",
    "exclusive": "false",
    "strict_order": "false",
    "group_buckets": OFF,
    "group_rebalance": "false",
    "group_first_key": "JMSXGroupFirstForConsumer",
    "consumers_before_dispatch": "0",
    "delay_before_dispatch": "0",
    "max_consumers": OFF,
    "queue_prefetch": "1000",
    "topic_prefetch": "32767",
    "durable_prefetch": "100",
    "browse_prefetch": "500",
    "id_cache": "20000",  # Classic knows no duplicate ids; a producer that sends one asks for this
    "pending_limit": OFF,
    "pending_rate": "-1.0",
    "slow_after": OFF,
    "slow": "NOTIFY",
    "recall": "NONE",
    "recall_size": "100",
    "always_retroactive": "false",
    "advises_slow": "false",
    "advises_full": "false",
    "advises_unread": "false",
    "advises_fast": "false",
    "advises_delivered": "false",
    "advises_dispatched": "false",
    "advises_consumed": "false",
    "advises_discarded": "false",
    "advises_bodies": "false",
}
"""What Classic does with an address that nobody configured."""

SIMPLE: Final[Mapping[str, str]] = {
    "prioritizedMessages": "prioritized",
    "queuePrefetch": "queue_prefetch",
    "topicPrefetch": "topic_prefetch",
    "durableTopicPrefetch": "durable_prefetch",
    "allConsumersExclusiveByDefault": "exclusive",
    "strictOrderDispatch": "strict_order",
    "timeBeforeDispatchStarts": "delay_before_dispatch",
    "consumersBeforeDispatchStarts": "consumers_before_dispatch",
    "inactiveTimoutBeforeGC": "auto_delete_delay",
    "inactiveTimeoutBeforeGC": "auto_delete_delay",
    "persistJMSRedelivered": "mark_delivered",
    "alwaysRetroactive": "always_retroactive",
    "advisoryForSlowConsumers": "advises_slow",
    "advisoryWhenFull": "advises_full",
    "sendAdvisoryIfNoConsumers": "advises_unread",
    "advisoryForFastProducers": "advises_fast",
    "advisoryForDelivery": "advises_delivered",
    "advisoryForDispatched": "advises_dispatched",
    "advisoryForConsumed": "advises_consumed",
    "advisoryForDiscardingMessages": "advises_discarded",
    "includeBodyForAdvisory": "advises_bodies",
}
"""Attributes of an entry whose value is that of a setting."""

REDELIVERY: Final = (
    "max_deliveries",
    "redelivery_delay",
    "redelivery_delay_first",
    "redelivery_jitter",
    "redelivery_multiplier",
    "redelivery_delay_max",
    "nack_redelivers",
)
"""Settings that the redelivery plugin has a map of its own for."""

RECALLS: Final[Mapping[str, tuple[str, str, int]]] = {
    "lastImageSubscriptionRecoveryPolicy": ("LAST", "", 1),
    "fixedCountSubscriptionRecoveryPolicy": ("COUNT", "maximumSize", 100),
    "fixedSizedSubscriptionRecoveryPolicy": ("OCTETS", "maximumSize", 65_536),
    "timedSubscriptionRecoveryPolicy": ("TIME", "recoverDuration", 60_000),
    "retainedMessageSubscriptionRecoveryPolicy": ("RETAINED", "", 1),
}
"""Subscription recovery policies: the setting, and the attribute that says how much, with its default."""

KIND_ROUTING: Final = {"queue": ANYCAST, "topic": MULTICAST}
GROUP_BUCKETS: Final = 1024  # of messageGroupHashBucketFactory
LIMIT_MAX: Final = 2**31 - 1
FACTOR_MAX: Final = 1e6
MS_MAX: Final = 2**40  # 35 years; in nanoseconds it still fits 64 bits

REDELIVERY_DEFAULTS: Final[Mapping[str, str]] = {
    "max_deliveries": "7",
    "redelivery_delay_first": "1000",
    "redelivery_delay": "1000",
    "redelivery_multiplier": "1.0",
    "redelivery_delay_max": "0",
    "redelivery_jitter": "0.0",
    "nack_redelivers": "true",
}
"""A redeliveryPolicy that says nothing (classic.md 4.6)."""


def written(value: object) -> str:
    """Return a value as the text of a setting."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class PolicyReader:
    """Makes the policy entries of one broker."""

    def __init__(self, reader: Reader, broker: BrokerSettings, usage: UsageOptions) -> None:
        self.reader: Final = reader
        self.broker: Final = broker
        self.usage: Final = usage
        self.everywhere: dict[str, str] = {}  # what plugins say about every address
        self.redelivery: list[PolicyEntry] = []

    def entries(self, policy_map: Bean | None, plugins: list[Bean]) -> tuple[PolicyEntry, ...]:
        """Return all entries, the one for every address first."""
        for plugin in plugins:
            self._plugin(plugin)
        found: list[PolicyEntry] = []
        below = self._settings(None)
        if policy_map is not None:
            for bean in policy_map.many("policyEntries", "entries"):
                found += self._entry(bean)
            default = policy_map.one("defaultEntry")
            if default is not None:
                for name in ("queue", "topic", "tempQueue", "tempTopic"):
                    default.get(name)
                below = self._settings(default)
        ground = PolicyEntry(pattern=EVERYTHING, settings=below)
        if not self.redelivery:
            return self._distinct([ground, *found])
        stripped = [
            PolicyEntry(
                pattern=entry.pattern,
                settings={name: text for name, text in entry.settings.items() if name not in REDELIVERY},
                routing=entry.routing,
                bridge=entry.bridge,
            )
            for entry in found
        ]
        return self._distinct([ground, *stripped, *self.redelivery])

    def _distinct(self, entries: list[PolicyEntry]) -> tuple[PolicyEntry, ...]:
        """Return those that the core takes; the others are errors that the reader has not seen yet."""
        for entry in entries:
            try:
                Policies().add(entry.pattern, dict(entry.settings), entry.routing)
            except (InvalidOption, InvalidDestination) as error:
                self.reader.findings.add(
                    Severity.ERROR, self.reader.sources.file, 0, "broker/destinationPolicy", error.message, error.remedy
                )
                return ()
        return tuple(entries)

    # -- one entry ----------------------------------------------------------------------------------------------------

    def _entry(self, bean: Bean) -> list[PolicyEntry]:
        settings = self._settings(bean)
        bridge = self._bridge(bean)
        return [
            PolicyEntry(pattern=place.name, settings=settings, routing=place.routing, bridge=bridge)
            for place in self._places(bean)
        ]

    def _places(self, bean: Bean) -> list[Destination]:
        """Return the destinations that an entry is for; errors have none."""
        given: list[tuple[str, str]] = []
        for name in ("queue", "topic"):
            text = bean.text(name)
            if text:
                given.append((name, text))
        for name in ("tempQueue", "tempTopic"):
            if bean.get(name, "false") not in ("false", ""):
                given.append((name, EVERYTHING))
        nested = bean.one("destination")
        if nested is not None:
            given.append((nested.kind.name, physical_name(nested)))
        if len(given) != 1:
            what = "it says for no destination" if not given else "it says for several destinations"
            self.reader.error(bean, f"{what}", "give exactly one of queue, topic, tempQueue, tempTopic")
            return []
        kind, text = given[0]
        if kind in ("tempQueue", "tempTopic"):
            what = "temporary destinations behave as ordinary ones of their name here: this entry is not used"
            self.reader.warn(bean, what, attribute=kind if kind in bean.element.attributes else "")
            return []
        attribute = kind if kind in bean.element.attributes else ""
        return destinations(self.reader, bean, text, KIND_ROUTING[kind], attribute)

    def _settings(self, bean: Bean | None) -> dict[str, str]:
        """Return every setting, as ``bean`` or Classic's defaults have it."""
        settings = dict(DEFAULTS)
        if bean is not None:
            for name, setting in SIMPLE.items():
                if name in bean.values:
                    settings[setting] = self._number(bean, name)
            limit = bean.get("memoryLimit", 0)
            if limit > 0:
                settings["max_octets"] = str(limit)
            settings["auto_delete"] = written(
                bean.get("gcInactiveDestinations", False) and self.broker.purge_period > 0
            )
            if bean.get("gcInactiveDestinations", False) and not self.broker.purge_period:
                self.reader.warn(
                    bean,
                    "unused destinations stay: nothing says how often to look for them",
                    "set schedulePeriodForDestinationPurge on <broker>",
                    "gcInactiveDestinations",
                )
            self._groups(bean, settings)
            self._dead_letters(bean.one("deadLetterStrategy"), settings)
            self._pending(bean.one("pendingMessageLimitStrategy"), settings)
            self._slow(bean.one("slowConsumerStrategy"), settings)
            self._recall(bean.one("subscriptionRecoveryPolicy"), settings)
        self._full(bean, settings)
        settings.update(self.everywhere)
        return settings

    def _number(self, bean: Bean, name: str) -> str:
        """Return the text of a value; one outside what the core takes is an error, and 0 then."""
        value = bean.get(name)
        if isinstance(value, bool):
            return written(value)
        if not 0 <= value <= LIMIT_MAX:
            self.reader.error(bean, f"{value} is out of range", f"use a number from 0 to {LIMIT_MAX}", name)
            return "0"
        return str(value)

    def _ms(self, bean: Bean, name: str, default: int) -> int:
        """Return a time in ms; one that does not fit is an error, and ``default`` then."""
        value = bean.get(name, default)
        if value > MS_MAX:
            self.reader.error(bean, f"{value} ms is too long", f"use at most {MS_MAX}", name)
            return default
        return int(value)

    def _full(self, bean: Bean | None, settings: dict[str, str]) -> None:
        """Say what a full queue does: wait, wait for a while, fail, or page (classic.md 4.11)."""
        fail = self.usage.fail_if_full
        after = self.usage.fail_after
        blocks = True
        if bean is not None:
            blocks = bean.get("producerFlowControl", True)
            text = bean.text("sendFailIfNoSpace").strip().lower()
            if text not in ("", "true", "false", OFF):
                self.reader.error(bean, f"{text!r} is neither true nor false", "use true or false", "sendFailIfNoSpace")
            elif text in ("true", "false"):
                fail = text == "true"
            own = self._ms(bean, "sendFailIfNoSpaceAfterTimeout", -1)
            after = own if own >= 0 else after
        settings["full"] = "PAGE" if not blocks else "FAIL" if fail else "BLOCK"
        settings["block_ms_max"] = str(after) if blocks else "0"

    def _groups(self, bean: Bean, settings: dict[str, str]) -> None:
        kind, _, query = bean.text("messageGroupMapFactoryType").partition("?")
        factory = bean.one("messageGroupMapFactory")
        buckets = -1
        if factory is not None and factory.kind.name == "messageGroupHashBucketFactory":
            buckets = factory.get("bucketCount", GROUP_BUCKETS)
        elif kind == "bucket":
            count = dict(parse_qsl(query)).get("bucketCount", str(GROUP_BUCKETS))
            buckets = int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 0
        elif kind not in ("", "simple", "cached"):
            self.reader.error(
                bean,
                f"there is no message group map {kind!r}",
                "use cached, bucket or simple",
                "messageGroupMapFactoryType",
            )
        if buckets == 0 or buckets < -1 or buckets > LIMIT_MAX:
            self.reader.error(factory or bean, "the number of buckets is out of range", "use 1 or more")
            return
        settings["group_buckets"] = str(buckets)

    def _dead_letters(self, strategy: Bean | None, settings: dict[str, str]) -> None:
        if strategy is None:
            return
        settings["dead_letter_expired"] = written(strategy.get("processExpired", True))
        settings["dead_letter_non_persistent"] = written(strategy.get("processNonPersistent", False))
        settings["dead_letter_expiry_ms"] = str(max(self._ms(strategy, "expiration", 0), 0))
        match strategy.kind.name:
            case "discarding":
                settings["dead_letter_address"] = ""
            case "sharedDeadLetterStrategy":
                self._shared(strategy, settings)
            case _:
                settings["dead_letter_individual"] = "true"
                for name, setting in (
                    ("queuePrefix", "dead_letter_prefix"),
                    ("topicPrefix", "dead_letter_topic_prefix"),
                    ("queueSuffix", "dead_letter_suffix"),
                    ("topicSuffix", "dead_letter_topic_suffix"),
                ):
                    settings[setting] = strategy.text(name, settings[setting])

    def _shared(self, strategy: Bean, settings: dict[str, str]) -> None:
        nested = strategy.one("deadLetterQueue")
        text = strategy.text("deadLetterQueue") if nested is None else physical_name(nested)
        if not text:
            return
        routing = ANYCAST if nested is None else KIND_ROUTING.get(nested.kind.name, ANYCAST)
        for place in destinations(self.reader, strategy, text, routing)[:1]:
            if place.routing == MULTICAST:
                self.reader.warn(strategy, "dead letters go to a queue of that name, not to a topic")
            settings["dead_letter_address"] = place.name

    def _pending(self, strategy: Bean | None, settings: dict[str, str]) -> None:
        if strategy is None:
            return
        if strategy.kind.name == "constantPendingMessageLimitStrategy":
            limit = strategy.get("limit", -1)
            settings["pending_limit"] = str(min(limit, LIMIT_MAX)) if limit >= 0 else OFF
            return
        multiplier = strategy.get("multiplier", 0.5)
        if not 0.0 <= multiplier <= 1_000_000.0:
            self.reader.error(strategy, "the multiplier is out of range", "use 0 to 1000000", "multiplier")
        else:
            settings["pending_rate"] = str(multiplier)

    def _slow(self, strategy: Bean | None, settings: dict[str, str]) -> None:
        if strategy is None:
            return
        name = "maxTimeSinceLastAck" if "Ack" in strategy.kind.name else "maxSlowDuration"
        after = self._ms(strategy, name, 30_000)
        if after <= 0:
            self.reader.error(strategy, "a consumer would be slow at once", "use 1 or more", name)
            return
        settings["slow_after"] = str(after)
        settings["slow"] = "KILL"

    def _recall(self, policy: Bean | None, settings: dict[str, str]) -> None:
        """Say what a topic remembers for retroactive consumers."""
        if policy is None or policy.kind.name not in RECALLS:
            return
        kind, name, default = RECALLS[policy.kind.name]
        size = policy.get(name, default) if name else default
        if not 0 < size <= MS_MAX:
            self.reader.error(policy, f"{size} is out of range", f"use 1 to {MS_MAX}", name)
            return
        settings["recall"] = kind
        settings["recall_size"] = str(size)

    def _bridge(self, bean: Bean) -> BridgeFilterOptions | None:
        factory = bean.one("networkBridgeFilterFactory")
        if factory is None or factory.kind.name == "defaultNetworkBridgeFilterFactory":
            return None
        try:
            return factory.options(BridgeFilterOptions)
        except InvalidOption as error:
            self.reader.error(factory, error.message, error.remedy)
            return None

    # -- plugins ------------------------------------------------------------------------------------------------------

    def _plugin(self, plugin: Bean) -> None:
        match plugin.kind.name:
            case "discardingDLQBrokerPlugin":
                if plugin.get("dropAll", True):
                    self.everywhere["dead_letter_address"] = ""
                    self.everywhere["dead_letter_individual"] = "false"
            case "timeStampingBrokerPlugin":
                self._times_to_live(plugin)
            case "redeliveryPlugin":
                self._redelivery(plugin)

    def _times_to_live(self, plugin: Bean) -> None:
        for name, setting in (("zeroExpirationOverride", "expiry_ms"), ("ttlCeiling", "expiry_ms_max")):
            value = self._ms(plugin, name, 0)
            if value > 0:
                self.everywhere[setting] = str(value)
        self.reader.warn(plugin, "it bounds times to live; timestamps stay as the client wrote them")

    def _redelivery(self, plugin: Bean) -> None:
        if not self.broker.scheduler:
            self.reader.note(plugin, "Classic wants schedulerSupport for this; here it works without")
        policies = plugin.one("redeliveryPolicyMap")
        default = None if policies is None else policies.one("defaultEntry")
        ground = self._redelivery_settings(default) if default is not None or policies is None else {}
        if default is not None:
            for name in ("queue", "topic"):
                default.get(name)
        self.redelivery.append(PolicyEntry(pattern=EVERYTHING, settings=ground))
        for bean in [] if policies is None else policies.many("redeliveryPolicyEntries"):
            places = self._redelivery_places(bean)
            settings = self._redelivery_settings(bean)
            self.redelivery += [
                PolicyEntry(pattern=place.name, settings=settings, routing=place.routing) for place in places
            ]

    def _redelivery_places(self, bean: Bean) -> list[Destination]:
        nested = bean.one("destination")
        for name in ("queue", "topic"):
            text = bean.text(name)
            if text:
                return destinations(self.reader, bean, text, KIND_ROUTING[name], name)
        if nested is not None:
            return destinations(self.reader, nested, physical_name(nested), KIND_ROUTING.get(nested.kind.name, UNTYPED))
        self.reader.error(bean, "it says for no destination", "give queue or topic")
        return []

    def _redelivery_settings(self, bean: Bean | None) -> dict[str, str]:
        """Return the settings of one redeliveryPolicy; its defaults are the client's (classic.md 4.6)."""
        if bean is None:
            return dict(REDELIVERY_DEFAULTS)
        times = bean.get("maximumRedeliveries", 6)
        first = bean.get("initialRedeliveryDelay", 1000)
        later = bean.get("redeliveryDelay", first)
        most = bean.get("maximumRedeliveryDelay", -1)
        multiplier = bean.get("backOffMultiplier", 5.0)
        percent = bean.get("collisionAvoidancePercent")
        share = bean.get("collisionAvoidanceFactor", 0.15)
        share = share if percent is None else percent / 100
        factor = max(1.0, multiplier) if bean.get("useExponentialBackOff", False) else 1.0
        jitter = share if bean.get("useCollisionAvoidance", False) else 0.0
        if max(times, first, later, most) > LIMIT_MAX or min(first, later) < 0:
            self.reader.error(bean, "a number is out of range", f"use 0 to {LIMIT_MAX}")
            return {}
        if not 0.0 <= jitter <= 1.0 or not factor <= FACTOR_MAX:
            self.reader.error(
                bean, "a factor is out of range", f"use 0 to 1 for collisions, 1 to {FACTOR_MAX:.0f} else"
            )
            return {}
        return {
            "max_deliveries": str(times + 1) if times >= 0 else OFF,
            "redelivery_delay_first": str(first),
            "redelivery_delay": str(later),
            "redelivery_multiplier": str(factor),
            "redelivery_delay_max": str(most) if most > 0 else "0",
            "redelivery_jitter": str(jitter),
            "nack_redelivers": "true",
        }


def physical_name(bean: Bean) -> str:
    """Return the name that a ``<queue>`` or ``<topic>`` gives."""
    other = bean.text("name")
    return bean.text("physicalName") or other


def destinations(reader: Reader, bean: Bean, text: str, routing: int, attribute: str = "") -> list[Destination]:
    """Return what ``text`` names, a comma-separated list too; what cannot be read is an error and names nothing."""
    try:
        found = address.parse(text, routing)
        for place in found:
            MIXED.words(place.name)
    except (InvalidDestination, InvalidOption) as error:
        reader.error(bean, error.message, error.remedy, attribute)
        return []
    return found
