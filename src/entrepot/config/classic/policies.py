"""``destinationPolicy`` and the plugins that change it, as address settings (classic.md 4.6, 4.11, 4.16).

A Classic entry does not inherit, while settings here merge by pattern. So every entry sets every setting: what it does
not say is Classic's default (`core/addressing/address_settings.py`), and below all entries lies one for every address
(`defaultEntry`, or those defaults). Plugins that are written elsewhere in the file hold for every entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidDestination, InvalidOption
from entrepot.base.patterns import MIXED
from entrepot.base.settings import UNLIMITED, Dialect
from entrepot.base.values import whole
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.config.classic.policy_elements import LETTER_KINDS, LETTER_NAMES, MISSPELT_DELAY, SIMPLE
from entrepot.config.findings import Severity
from entrepot.config.model import BrokerSettings, PolicyEntry, UsageOptions
from entrepot.config.reading import Bean, Reader
from entrepot.core.addressing.address_settings import FACTOR_MAX, MS_MAX, AddressSettings, Full, Recall, Slow
from entrepot.core.addressing.policy import Policies
from entrepot.core.addressing.queue_settings import COUNT_MAX
from entrepot.model import address
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination

EVERYTHING: Final = ">"
RECALLS: Final[Mapping[str, tuple[Recall, str, int]]] = {
    "lastImageSubscriptionRecoveryPolicy": (Recall.LAST, "", 1),
    "fixedCountSubscriptionRecoveryPolicy": (Recall.COUNT, "maximumSize", 100),
    "fixedSizedSubscriptionRecoveryPolicy": (Recall.OCTETS, "maximumSize", 65_536),
    "timedSubscriptionRecoveryPolicy": (Recall.TIME, "recoverDuration", 60_000),
    "retainedMessageSubscriptionRecoveryPolicy": (Recall.RETAINED, "", 1),
}
"""Subscription recovery policies: the setting, and the attribute that says how much, with its default."""

KIND_ROUTING: Final = {"queue": ANYCAST, "topic": MULTICAST}
GROUP_BUCKETS: Final = 1024  # of messageGroupHashBucketFactory

REDELIVERY: Final[Mapping[str, Any]] = {
    "max_deliveries": 7,
    "redelivery_delay_first": SECOND,
    "redelivery_delay": SECOND,
    "redelivery_multiplier": 1.0,
    "redelivery_delay_max": 0,
    "redelivery_jitter": 0.0,
    "nack_redelivers": True,
}
"""What an empty redeliveryPolicy says (classic.md 4.6); the redelivery plugin has a map of its own for these."""


class PolicyReader:
    """Makes the policy entries of one broker."""

    def __init__(self, reader: Reader, broker: BrokerSettings, usage: UsageOptions) -> None:
        self.reader: Final = reader
        self.broker: Final = broker
        self.usage: Final = usage
        self.everywhere: dict[str, Any] = {}  # what plugins say about every address
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
                Policies().put(entry.pattern, entry.settings, entry.routing)
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

    def _settings(self, bean: Bean | None) -> dict[str, Any]:
        """Return every setting, as ``bean`` or Classic's defaults have it."""
        settings = AddressSettings.defaults_in(Dialect.CLASSIC)
        if bean is not None:
            for name, declared in SIMPLE.items():
                settings[declared.name] = bean.get(name, settings[declared.name])
            settings["auto_delete_delay"] = bean.get(MISSPELT_DELAY, settings["auto_delete_delay"])
            limit = bean.get("memoryLimit", 0)
            if limit > 0:
                settings["max_octets"] = limit
            settings["auto_delete"] = bean.get("gcInactiveDestinations", False) and self.broker.purge_period > 0
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

    def _ms(self, bean: Bean, name: str, default: int) -> int:
        """Return a time in ms; one that does not fit is an error, and ``default`` then."""
        value = bean.get(name, default)
        if value > MS_MAX:
            self.reader.error(bean, f"{value} ms is too long", f"use at most {MS_MAX}", name)
            return default
        return int(value)

    def _full(self, bean: Bean | None, settings: dict[str, Any]) -> None:
        """Say what a full queue does: wait, wait for a while, fail, or page (classic.md 4.11)."""
        fail = self.usage.fail_if_full
        after = self.usage.fail_after
        blocks = True
        if bean is not None:
            blocks = bean.get("producerFlowControl", True)
            text = bean.text("sendFailIfNoSpace").strip().lower()
            if text not in ("", "true", "false", "-1"):
                self.reader.error(bean, f"{text!r} is neither true nor false", "use true or false", "sendFailIfNoSpace")
            elif text in ("true", "false"):
                fail = text == "true"
            own = self._ms(bean, "sendFailIfNoSpaceAfterTimeout", -1)
            after = own if own >= 0 else after
        settings["full"] = Full.PAGE if not blocks else Full.FAIL if fail else Full.BLOCK
        settings["block_ms_max"] = after if blocks else 0

    def _groups(self, bean: Bean, settings: dict[str, Any]) -> None:
        kind, _, query = bean.text("messageGroupMapFactoryType").partition("?")
        factory = bean.one("messageGroupMapFactory")
        buckets = -1
        if factory is not None and factory.kind.name == "messageGroupHashBucketFactory":
            buckets = factory.get("bucketCount", GROUP_BUCKETS)
        elif kind == "bucket":
            count = dict(parse_qsl(query)).get("bucketCount", str(GROUP_BUCKETS))
            try:
                buckets = whole(count, 1)
            except ValueError:
                buckets = 0
        elif kind not in ("", "simple", "cached"):
            self.reader.error(
                bean,
                f"there is no message group map {kind!r}",
                "use cached, bucket or simple",
                "messageGroupMapFactoryType",
            )
        if buckets == 0 or buckets < -1 or buckets > COUNT_MAX:
            self.reader.error(factory or bean, "the number of buckets is out of range", "use 1 or more")
            return
        settings["group_buckets"] = buckets

    def _dead_letters(self, strategy: Bean | None, settings: dict[str, Any]) -> None:
        if strategy is None:
            return
        self._take(strategy, LETTER_KINDS, settings)
        settings["dead_letter_expiry_ms"] = max(self._ms(strategy, "expiration", 0), 0)
        match strategy.kind.name:
            case "discarding":
                settings["dead_letter_address"] = ""
            case "sharedDeadLetterStrategy":
                self._shared(strategy, settings)
            case _:
                settings["dead_letter_individual"] = True
                self._take(strategy, LETTER_NAMES, settings)

    def _take(self, bean: Bean, names: tuple[str, ...], settings: dict[str, Any]) -> None:
        """Set what attributes called ``names`` say."""
        known = AddressSettings.names(Dialect.CLASSIC)
        for name in names:
            settings[known[name].name] = bean.get(name, settings[known[name].name])

    def _shared(self, strategy: Bean, settings: dict[str, Any]) -> None:
        nested = strategy.one("deadLetterQueue")
        text = strategy.text("deadLetterQueue") if nested is None else physical_name(nested)
        if not text:
            return
        routing = ANYCAST if nested is None else KIND_ROUTING.get(nested.kind.name, ANYCAST)
        for place in destinations(self.reader, strategy, text, routing)[:1]:
            if place.routing == MULTICAST:
                self.reader.warn(strategy, "dead letters go to a queue of that name, not to a topic")
            settings["dead_letter_address"] = place.name

    def _pending(self, strategy: Bean | None, settings: dict[str, Any]) -> None:
        if strategy is None:
            return
        if strategy.kind.name == "constantPendingMessageLimitStrategy":
            limit = strategy.get("limit", -1)
            settings["pending_limit"] = min(limit, COUNT_MAX) if limit >= 0 else UNLIMITED
            return
        multiplier = strategy.get("multiplier", 0.5)
        if not 0.0 <= multiplier <= FACTOR_MAX:
            self.reader.error(strategy, "the multiplier is out of range", "use 0 to 1000000", "multiplier")
        else:
            settings["pending_rate"] = multiplier

    def _slow(self, strategy: Bean | None, settings: dict[str, Any]) -> None:
        if strategy is None:
            return
        name = "maxTimeSinceLastAck" if "Ack" in strategy.kind.name else "maxSlowDuration"
        after = self._ms(strategy, name, 30_000)
        if after <= 0:
            self.reader.error(strategy, "a consumer would be slow at once", "use 1 or more", name)
            return
        settings["slow_after"] = after * MILLISECOND
        settings["slow"] = Slow.KILL

    def _recall(self, policy: Bean | None, settings: dict[str, Any]) -> None:
        """Say what a topic remembers for retroactive consumers."""
        if policy is None or policy.kind.name not in RECALLS:
            return
        kind, name, default = RECALLS[policy.kind.name]
        size = policy.get(name, default) if name else default
        if not 0 < size <= MS_MAX:
            self.reader.error(policy, f"{size} is out of range", f"use 1 to {MS_MAX}", name)
            return
        settings["recall"] = kind
        settings["recall_size"] = size

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
                    self.everywhere["dead_letter_individual"] = False
            case "timeStampingBrokerPlugin":
                self._times_to_live(plugin)
            case "redeliveryPlugin":
                self._redelivery(plugin)

    def _times_to_live(self, plugin: Bean) -> None:
        for name, setting in (("zeroExpirationOverride", "expiry_ms"), ("ttlCeiling", "expiry_ms_max")):
            value = self._ms(plugin, name, 0)
            if value > 0:
                self.everywhere[setting] = value
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

    def _redelivery_settings(self, bean: Bean | None) -> dict[str, Any]:
        """Return the settings of one redeliveryPolicy; its defaults are the client's (classic.md 4.6)."""
        if bean is None:
            return dict(REDELIVERY)
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
        if max(times, first, later, most) >= COUNT_MAX or min(first, later) < 0:
            self.reader.error(bean, "a number is out of range", f"use 0 to {COUNT_MAX - 1}")
            return {}
        if not 0.0 <= jitter <= 1.0 or not factor <= FACTOR_MAX:
            self.reader.error(
                bean, "a factor is out of range", f"use 0 to 1 for collisions, 1 to {FACTOR_MAX:.0f} else"
            )
            return {}
        return {
            "max_deliveries": times + 1 if times >= 0 else UNLIMITED,
            "redelivery_delay_first": first * MILLISECOND,
            "redelivery_delay": later * MILLISECOND,
            "redelivery_multiplier": factor,
            "redelivery_delay_max": max(most, 0) * MILLISECOND,
            "redelivery_jitter": jitter,
            "nack_redelivers": True,
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
