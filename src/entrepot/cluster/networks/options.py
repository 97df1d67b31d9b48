"""How a Classic network connector behaves, and which messages may go back through one (classic.md 1.2, 1.13).

Only data: who runs a bridge reads it here. Where the releases of Classic differ, the default is that of the newest,
but for `decreaseNetworkConsumerPriority`, which is what its documentation says.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

from entrepot.base.environment import SECOND, Duration
from entrepot.base.settings import Options, Unit, setting
from entrepot.cluster.backoff import Reconnection

FOREVER: Final = -1
ADVISORY_PREFETCH_MIN: Final = 100  # a cable of 100 ms brings 500 advisories a second then; each is some 300 octets


class Compared(Enum):
    """Whose messages are compared with what came before, so that a repetition is dropped."""

    ALL = "true"
    NONE = "false"
    OURS = "entrepot"


class ReconnectOptions(Options, frozen=True):
    """How a lost peer is dialled again; the query of ``static:(...)`` and ``masterslave:(...)`` (classic.md 1.4)."""

    initial_delay: Duration = setting(
        SECOND, unit=Unit.DURATION, uri="initialReconnectDelay", about="wait after the first failure"
    )
    max_delay: Duration = setting(
        30 * SECOND, unit=Unit.DURATION, uri="maxReconnectDelay", about="longest wait between two attempts"
    )
    exponential: bool = setting(True, uri="useExponentialBackOff", about="wait longer after each failure")
    multiplier: float = setting(2.0, low=1.0, uri="backOffMultiplier", about="the wait grows by this factor")
    attempts_max: int = setting(0, uri="maxReconnectAttempts", about="failures after which it is given up; 0: never")
    min_connect_time: Duration = setting(
        5 * SECOND,
        unit=Unit.DURATION,
        uri="minConnectTime",
        about="a connection that lives shorter than this counts as a failed attempt",
    )

    def for_link(self) -> Reconnection:
        """Return what a link makes of it."""
        return Reconnection(
            initial_delay=self.initial_delay,
            max_delay=self.max_delay,
            exponential=self.exponential,
            multiplier=self.multiplier,
            attempts_max=self.attempts_max,
            min_connect_time=self.min_connect_time,
        )


class NetworkConnectorOptions(Options, frozen=True):
    """One network connector. Its lists of destinations are kept beside it."""

    name: str = setting("NC", classic="name", about="unique in its broker; part of client ids and durable names")
    uri: str = setting("", classic="uri", about="discovery URI of the brokers to bridge to")
    auto_start: bool = setting(True, classic="autoStart", about="whether it starts with the broker")
    duplex: bool = setting(False, classic="duplex", about="whether the far side bridges back over the same connection")
    dynamic_only: bool = setting(
        False,
        classic="dynamicOnly",
        about="whether durable subscriptions from before make no demand until they are used",
    )
    conduit_subscriptions: bool = setting(
        True,
        classic="conduitSubscriptions",
        about="whether all remote consumers of a destination share one subscription",
    )
    conduit_network_queue_subscriptions: bool = setting(
        False,
        classic="conduitNetworkQueueSubscriptions",
        about="whether queue consumers that are bridges themselves share it too",
    )
    use_virtual_destination_subscriptions: bool = setting(
        False,
        classic="useVirtualDestSubs",
        about="whether demand on what a virtual destination fills is demand on that destination",
    )
    sync_durable_subscriptions: bool = setting(
        False, classic="syncDurableSubs", about="whether durable subscriptions are compared when the bridge starts"
    )
    dispatch_async: bool = setting(True, classic="dispatchAsync", about="dispatchAsync of the bridge's subscriptions")
    decrease_priority: bool = setting(
        False,
        classic="decreaseNetworkConsumerPriority",
        about="whether a bridge's subscription ranks behind local consumers, further with every hop",
    )
    priority_base: int = setting(
        -5, classic="consumerPriorityBase", low=-127, high=127, about="priority to decrease from"
    )
    bridge_temporary: bool = setting(
        True, classic="bridgeTempDestinations", about="whether temporary destinations cross, for replies"
    )
    prefetch: int = setting(
        1000, classic="prefetchSize", low=1, high=2**31 - 1, about="messages on their way per subscription"
    )
    advisory_prefetch: int = setting(
        0,
        classic="advisoryPrefetchSize",
        high=2**31 - 1,
        about="the same for advisories; 0: as prefetchSize, and at least 100",
    )
    advisory_ack_percentage: int = setting(
        75, classic="advisoryAckPercentage", high=100, about="share of the prefetch after which advisories are settled"
    )
    network_ttl: int = setting(
        1, classic="networkTTL", unlimited=True, about="sets both messageTTL and consumerTTL, where they are not given"
    )
    consumer_ttl: int = setting(
        1, classic="consumerTTL", unlimited=True, about="hops that demand travels; 0: there is none"
    )
    message_ttl: int = setting(
        1, classic="messageTTL", unlimited=True, about="brokers that a message may cross; 0: nothing is forwarded"
    )
    user: str = setting("", classic="userName", about="user on both sides")
    password: str = setting("", classic="password", secret=True, about="password on both sides")
    remote_user: str = setting("", classic="remoteUserName", about="user on the far side, if another")
    remote_password: str = setting("", classic="remotePassword", secret=True, about="password on the far side")
    destination_filter: str = setting(
        "", classic="destinationFilter", about="consumer advisories to listen to; derived from the lists if not given"
    )
    client_id_token: str = setting("_", classic="clientIdToken", about="separator in the client ids of the bridge")
    suppress_duplicate_queues: bool = setting(
        False,
        classic="suppressDuplicateQueueSubscriptions",
        about="whether demand for a queue that came another way already is ignored",
    )
    suppress_duplicate_topics: bool = setting(
        True, classic="suppressDuplicateTopicSubscriptions", about="the same for topics"
    )
    always_sync_send: bool = setting(
        True, classic="alwaysSyncSend", about="whether each message is answered for before it is settled here"
    )
    static: bool = setting(
        False, classic="staticBridge", about="whether only statically included destinations are bridged, unasked"
    )
    compress: bool = setting(
        False, classic="useCompression", about="whether bodies of 64 octets to 256 KiB cross compressed"
    )
    advise_failed_forward: bool = setting(
        False, classic="advisoryForFailedForward", about="whether a forward that fails is announced"
    )
    names_in_ids: bool = setting(
        True, classic="useBrokerNameAsIdSees", about="whether the ids of the bridge begin with the brokers' names"
    )
    gc_destination_views: bool = setting(
        True, classic="gcDestinationViews", about="whether figures of idle destinations are forgotten"
    )
    gc_sweep_time: Duration = setting(
        60 * SECOND, unit=Unit.DURATION, classic="gcSweepTime", about="after how long they are"
    )
    check_duplicates_on_duplex: Compared = setting(
        Compared.OURS,
        classic="checkDuplicateMessagesOnDuplex",
        about="whose repetitions are dropped on the reverse side: of any broker (true), none (false), or of ours",
    )
    supervision: Duration = setting(
        10 * SECOND,
        unit=Unit.DURATION,
        low=1,
        classic="supervisionInterval",
        about="time between two canaries; what is dead is found within three of it (an attribute of ours)",
    )
    local_uri: str = setting("", classic="localUri", about="how the bridge reaches its own broker")

    @property
    def advisory_window(self) -> int:
        """Return how many advisories are on their way at once.

        Who sets ``prefetchSize="1"`` wants messages shared evenly. Over a cable of 100 ms Classic then hears of five
        consumers a second, and messages wait for minutes for readers that are there (a decision of ours).
        """
        return self.advisory_prefetch or max(self.prefetch, ADVISORY_PREFETCH_MIN)


def spread(options: NetworkConnectorOptions, given: Collection[str]) -> NetworkConnectorOptions:
    """Return ``options`` with networkTTL written into the TTLs that are not among ``given``, the names that were said.

    Its setter writes both; they may be set one by one behind it (classic.md 1.2).
    """
    return options.replaced(
        network_ttl=1,  # it is spent: a messageTTL of 1 that was said must not be taken for the default later
        consumer_ttl=options.consumer_ttl if "consumerTTL" in given else options.network_ttl,
        message_ttl=options.message_ttl if "messageTTL" in given else options.network_ttl,
    )


class BridgeFilterOptions(Options, frozen=True):
    """What may go back where it came from: ``conditionalNetworkBridgeFilterFactory`` of a policy entry."""

    replay_when_no_consumers: bool = setting(
        False,
        classic="replayWhenNoConsumers",
        about="whether a queue message may return to a broker in its path when nobody here wants it",
    )
    replay_delay: Duration = setting(
        0, unit=Unit.DURATION, classic="replayDelay", about="how long it must have been here before"
    )
    rate_limit: int = setting(0, classic="rateLimit", about="returns per rateDuration and subscription; 0: no limit")
    rate_duration: Duration = setting(
        SECOND, unit=Unit.DURATION, classic="rateDuration", about="the window of that limit"
    )
    selector_aware: bool = setting(
        False, classic="selectorAware", about="whether a local consumer counts only if its selector matches"
    )
