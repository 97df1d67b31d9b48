"""What the URL of a client says: where the brokers are, how to fail over, and the ``jms.`` knobs of a connection.

The names are those of ActiveMQ (classic.md 2.1, 4.17), so that a URL moves from a Java program to a Python one.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct, structs

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.settings import UNLIMITED, Dialect, Options, Unit, refuse_unknown, setting
from entrepot.base.uri import NO_PORT, Composite, Endpoint, parse, split_options
from entrepot.client.balancing import Balancing, Locator, locator_of
from entrepot.protocols.conversing.modes import Handling, RedeliveryPolicy
from entrepot.protocols.peers import FailoverOptions

FOR_EVER: Final = (1 << 31) - 1  # rounds: more than anybody waits for
PREFETCH_MAX: Final = 32_767  # ActiveMQ's limit for a subscription
JMS: Final = "jms."
NESTED: Final = "nested."
DISCOVERED: Final = "discovered."


class ClientOptions(Options, frozen=True):
    """How a connection and what it opens behave; the ``jms.`` options of a URL."""

    user_name: str = setting("", uri="jms.userName", about="who we are")
    password: str = setting("", uri="jms.password", secret=True, about="the proof")
    client_id: str = setting("", uri="jms.clientID", about="name of the connection; durable subscriptions belong to it")
    use_async_send: bool = setting(False, uri="jms.useAsyncSend", about="do not wait for the broker to store a message")
    always_sync_send: bool = setting(False, uri="jms.alwaysSyncSend", about="wait for every message")
    send_timeout: Duration = setting(
        0, unit=Unit.DURATION, uri="jms.sendTimeout", about="longest that the broker may take to confirm; 0: for ever"
    )
    connect_response_timeout: Duration = setting(
        0,
        unit=Unit.DURATION,
        uri="jms.connectResponseTimeout",
        about="longest that the first connection may take; 0: for ever",
    )
    request_timeout: Duration = setting(
        0, unit=Unit.DURATION, uri="jms.requestTimeout", about="longest that any other answer may take; 0: for ever"
    )
    close_timeout: Duration = setting(
        15 * SECOND, unit=Unit.DURATION, uri="jms.closeTimeout", about="patience with the broker when we leave"
    )
    producer_window_size: int = setting(
        0,
        unit=Unit.OCTETS,
        uri="jms.producerWindowSize",
        about="octets under way when sends are not confirmed; 0: any",
    )
    dispatch_async: bool = setting(True, uri="jms.dispatchAsync", about="the broker delivers by a thread of its own")
    watch_topic_advisories: bool = setting(
        True, uri="jms.watchTopicAdvisories", about="hear of temporary destinations that end"
    )
    use_compression: bool = setting(False, uri="jms.useCompression", about="compress bodies")
    exclusive_consumer: bool = setting(False, uri="jms.exclusiveConsumer", about="consumers of queues are exclusive")
    use_retroactive_consumer: bool = setting(
        False, uri="jms.useRetroactiveConsumer", about="topic consumers ask for recent messages"
    )
    check_for_duplicates: bool = setting(
        True, uri="jms.checkForDuplicates", about="settle silently what was settled just before the connection broke"
    )
    audit_depth: int = setting(
        2048, low=1, uri="jms.auditDepth", about="how many settled messages of each producer checkForDuplicates knows"
    )
    audit_maximum_producer_number: int = setting(
        64, low=1, uri="jms.auditMaximumProducerNumber", about="and of how many producers"
    )
    optimize_acknowledge: bool = setting(
        False, uri="jms.optimizeAcknowledge", about="AUTO: tell the broker late, of 65 % of the prefetch at a time"
    )
    optimize_acknowledge_time_out: Duration = setting(
        300 * MILLISECOND,
        unit=Unit.DURATION,
        uri="jms.optimizeAcknowledgeTimeOut",
        about="but not later than with the first message after this; 0: no such bound",
    )
    optimized_ack_scheduled_ack_interval: Duration = setting(
        0,
        unit=Unit.DURATION,
        uri="jms.optimizedAckScheduledAckInterval",
        about="and in any case so often; 0: not by the clock",
    )
    message_priority_supported: bool = setting(
        False,
        uri="jms.messagePrioritySupported",
        about="hand out what waits in the client by priority; each message is settled by itself then",
    )
    non_blocking_redelivery: bool = setting(
        False, uri="jms.nonBlockingRedelivery", about="what waits to be redelivered lets others pass"
    )
    transacted_individual_ack: bool = setting(
        False, uri="jms.transactedIndividualAck", about="a commit settles each message by itself, not a range"
    )
    consumer_expiry_check_enabled: bool = setting(
        True, uri="jms.consumerExpiryCheckEnabled", about="the client, too, refuses messages whose time is over"
    )
    disable_time_stamps_by_default: bool = setting(
        False, uri="jms.disableTimeStampsByDefault", about="send without a time stamp, and so without an expiration"
    )
    client_id_prefix: str = setting("ID:", uri="jms.clientIDPrefix", about="begins a client id that is made up")
    connection_id_prefix: str = setting("ID:", uri="jms.connectionIDPrefix", about="begins the ids of messages")
    queue_prefetch: int = setting(
        1000, high=PREFETCH_MAX, uri="jms.prefetchPolicy.queuePrefetch", about="messages under way to a queue consumer"
    )
    queue_browser_prefetch: int = setting(
        500, high=PREFETCH_MAX, uri="jms.prefetchPolicy.queueBrowserPrefetch", about="the same for a browser"
    )
    topic_prefetch: int = setting(
        PREFETCH_MAX, high=PREFETCH_MAX, uri="jms.prefetchPolicy.topicPrefetch", about="the same for a topic consumer"
    )
    durable_topic_prefetch: int = setting(
        100, high=PREFETCH_MAX, uri="jms.prefetchPolicy.durableTopicPrefetch", about="the same for a durable one"
    )
    optimize_durable_topic_prefetch: int = setting(
        1000,
        high=PREFETCH_MAX,
        uri="jms.prefetchPolicy.optimizeDurableTopicPrefetch",
        about="the same for a durable one with optimizeAcknowledge",
    )
    maximum_pending_message_limit: int = setting(
        0,
        unlimited=True,
        uri="jms.prefetchPolicy.maximumPendingMessageLimit",
        about="messages that the broker keeps for a slow topic consumer; 0: as the broker likes",
    )
    all_prefetch: int = setting(
        UNLIMITED, unlimited=True, high=PREFETCH_MAX, uri="jms.prefetchPolicy.all", about="one number for all of them"
    )
    initial_redelivery_delay: Duration = setting(
        1 * SECOND,
        unit=Unit.DURATION,
        uri="jms.redeliveryPolicy.initialRedeliveryDelay",
        about="wait before the first redelivery",
    )
    redelivery_delay: Duration = setting(
        1 * SECOND, unit=Unit.DURATION, uri="jms.redeliveryPolicy.redeliveryDelay", about="wait before the later ones"
    )
    back_off_multiplier: float = setting(
        5.0, low=0.0, uri="jms.redeliveryPolicy.backOffMultiplier", about="growth of the wait"
    )
    use_exponential_back_off: bool = setting(
        False, uri="jms.redeliveryPolicy.useExponentialBackOff", about="let the wait grow"
    )
    maximum_redeliveries: int = setting(
        6, unlimited=True, uri="jms.redeliveryPolicy.maximumRedeliveries", about="then a message is given up"
    )
    maximum_redelivery_delay: Duration = setting(
        UNLIMITED,
        unit=Unit.DURATION,
        unlimited=True,
        uri="jms.redeliveryPolicy.maximumRedeliveryDelay",
        about="longest wait",
    )
    use_collision_avoidance: bool = setting(
        False, uri="jms.redeliveryPolicy.useCollisionAvoidance", about="vary the wait by chance"
    )
    collision_avoidance_factor: float = setting(
        0.15, low=0.0, high=1.0, uri="jms.redeliveryPolicy.collisionAvoidanceFactor", about="by how much"
    )
    pre_dispatch_check: bool = setting(
        True, uri="jms.redeliveryPolicy.preDispatchCheck", about="give up on arrival what came too often"
    )

    def handling(self) -> Handling:
        """Return how messages are treated when they are here."""
        return Handling(
            audit_depth=self.audit_depth,
            audit_producers=self.audit_maximum_producer_number,
            lazily=self.optimize_acknowledge,
            lazy_ns=self.optimize_acknowledge_time_out,
            by_priority=self.message_priority_supported,
            individually=self.transacted_individual_ack,
            non_blocking=self.non_blocking_redelivery,
            check_expiry=self.consumer_expiry_check_enabled,
        )

    def redelivery_policy(self) -> RedeliveryPolicy:
        """Return the policy of destinations that have none of their own."""
        ms = SECOND // 1000
        longest = self.maximum_redelivery_delay
        return RedeliveryPolicy(
            initial_delay_ms=self.initial_redelivery_delay // ms,
            delay_ms=self.redelivery_delay // ms,
            back_off_multiplier=self.back_off_multiplier,
            use_exponential_back_off=self.use_exponential_back_off,
            maximum_redeliveries=self.maximum_redeliveries,
            maximum_delay_ms=longest if longest < 0 else longest // ms,
            use_collision_avoidance=self.use_collision_avoidance,
            collision_avoidance_factor=self.collision_avoidance_factor,
            pre_dispatch_check=self.pre_dispatch_check,
        )


ONE_WAY: Final[dict[str, tuple[str, str]]] = {
    "jms.copyMessageOnSend": ("true", "a message is always copied when it is sent"),
    "jms.sendAcksAsync": ("true", "who wants to wait for an acknowledgement awaits it"),
    "jms.optimizedMessageDispatch": ("true", "there is no thread between the connection and its consumers"),
    "jms.alwaysSessionAsync": ("true", "a consumer never makes its session wait for it"),
    "jms.useDedicatedTaskRunner": ("false", "there are no threads to dedicate"),
    "jms.objectMessageSerializationDefered": ("false", "objects of Java pass as octets"),
    "jms.nestedMapAndListEnabled": ("true", "maps and lists may hold maps and lists"),
    "jms.trustAllPackages": ("false", "objects of Java are never opened, so there is nobody to trust"),
    "jms.consumerFailoverRedeliveryWaitPeriod": (
        "0",
        "a transaction that consumed on a lost connection rolls back at once, and its messages come again",
    ),
    "jms.rmIdFromConnectionId": ("false", "branches of distributed transactions are named by their Xid alone"),
}
"""Options of Java that have one meaning here, the text that agrees with it, and why another one is refused."""


def without_one_way(texts: dict[str, str]) -> dict[str, str]:
    """Return ``texts`` without what is so in any case. Raises InvalidOption for what cannot be."""
    left: dict[str, str] = {}
    for name, text in texts.items():
        only = ONE_WAY.get(name)
        if only is None:
            left[name] = text
        elif text.strip().lower() != only[0]:
            raise InvalidOption(f"{name}={text} is not possible: {only[1]}", remedy=f"leave it out, or say {only[0]}")
    return left


class FanoutOptions(Options, frozen=True):
    """How many brokers must confirm what goes to all of them; the query behind ``fanout:(...)`` (classic.md 1.4)."""

    min_ack_count: int = setting(2, low=1, uri="minAckCount", about="answers that complete a request")
    fan_out_queues: bool = setting(False, uri="fanOutQueues", about="send queue messages to all brokers, too")


class CoreOptions(Options, frozen=True):
    """What is CORE's own in a URL ``core://...``, under the names that Artemis gives it."""

    consumer_window_size: int = setting(
        1024 * 1024,
        unit=Unit.OCTETS,
        unlimited=True,
        uri="consumerWindowSize",
        about="octets under way to a consumer; -1: any. Prefetch 0 fetches each message",
    )
    producer_window_size: int = setting(
        64 * 1024,
        unit=Unit.OCTETS,
        unlimited=True,
        uri="producerWindowSize",
        about="octets that may be sent ahead to an address; -1: any",
    )
    min_large_message_size: int = setting(
        100 * 1024, unit=Unit.OCTETS, uri="minLargeMessageSize", about="larger messages are sent in pieces of this"
    )
    confirmation_window_size: int = setting(
        -1,
        unit=Unit.OCTETS,
        unlimited=True,
        uri="confirmationWindowSize",
        about="octets after which what came is confirmed: a session then outlives a lost connection; -1: it does not",
    )
    connection_ttl: Duration = setting(
        60 * SECOND,
        unit=Unit.DURATION,
        low=MILLISECOND,
        uri="connectionTTL",
        about="how long either side believes that a silent one lives",
    )


class LocatorOptions(Options, frozen=True):
    """How brokers are found, chosen and reached again behind Artemis' URLs ``(tcp://a,tcp://b)?...`` and ``udp://...``."""

    ha: bool = setting(False, uri="ha", about="go to other members of the cluster, too, when the broker is lost")
    initial_connect_attempts: int = setting(
        1, unlimited=True, uri="initialConnectAttempts", about="rounds until the first connection; -1: for ever"
    )
    reconnect_attempts: int = setting(
        0, unlimited=True, uri="reconnectAttempts", about="rounds after a connection was lost; -1: for ever"
    )
    retry_interval: Duration = setting(
        2 * SECOND, unit=Unit.DURATION, uri="retryInterval", about="wait between two rounds"
    )
    retry_interval_multiplier: float = setting(
        1.0, low=1.0, uri="retryIntervalMultiplier", about="the wait grows by this factor"
    )
    max_retry_interval: Duration = setting(2 * SECOND, unit=Unit.DURATION, uri="maxRetryInterval", about="longest wait")
    policy: str = setting(
        "RoundRobinConnectionLoadBalancingPolicy",
        uri="connectionLoadBalancingPolicyClassName",
        about="whom a new connection tries first: RoundRobin..., Random..., RandomSticky... or FirstElement...",
    )
    use_topology_for_load_balancing: bool = setting(
        True, uri="useTopologyForLoadBalancing", about="choose among the members of the cluster, once they are known"
    )
    user: str = setting("", uri="user", about="who we are")
    password: str = setting("", uri="password", secret=True, about="the proof")
    client_id: str = setting("", uri="clientID", about="name of the connection")

    def failover(self) -> FailoverOptions:
        """Return the same as options of a connection that survives its broker."""
        first = self.initial_connect_attempts
        return FailoverOptions(
            initial_reconnect_delay=self.retry_interval,
            max_reconnect_delay=max(self.retry_interval, self.max_retry_interval),
            use_exponential_back_off=self.retry_interval_multiplier > 1.0,
            reconnect_delay_exponent=self.retry_interval_multiplier,
            max_reconnect_attempts=self.reconnect_attempts,
            startup_max_reconnect_attempts=FOR_EVER if first < 0 else first,
            randomize=False,
            update_uris_supported=self.ha,
            reconnect_supported=self.ha,
        )


class GroupOptions(Options, frozen=True):
    """How brokers are heard behind ``udp://group:port``."""

    refresh_timeout: Duration = setting(
        10 * SECOND, unit=Unit.DURATION, uri="refreshTimeout", about="who is silent for so long is forgotten"
    )
    initial_wait_timeout: Duration = setting(
        10 * SECOND, unit=Unit.DURATION, uri="initialWaitTimeout", about="longest wait for the first broker"
    )
    local_bind_address: str = setting("", uri="localBindAddress", about="address of this machine where it listens")


class Reach(Enum):
    """How the brokers of a URL are found."""

    LISTED = "the URL names them"
    MULTICAST = "they announce themselves"
    GROUP = "they announce themselves as Artemis does"


class Target(Struct, frozen=True):
    """All that a URL says. ``reconnects`` is False for a single place, which is dialled once."""

    places: tuple[Endpoint, ...]
    failover: FailoverOptions
    client: ClientOptions
    reconnects: bool
    reach: Reach = Reach.LISTED
    beacon: Endpoint | None = None  # where MULTICAST listens
    fanout: FanoutOptions | None = None
    nested: dict[str, str] = {}
    core: CoreOptions | None = None  # it speaks CORE, and so
    locator: Locator | None = None  # chooses among several
    group: GroupOptions | None = None  # of GROUP


def read_target(url: str, overrides: dict[str, object], balancing: Balancing | None = None) -> Target:
    """Return what ``url`` says, with ``overrides`` of `ClientOptions` on top. Raises InvalidURI, InvalidOption.

    ``balancing``: chooses among the brokers of a list of Artemis.
    """
    target = _read_target(url, overrides)
    if balancing is None:
        return target
    if target.locator is None:
        raise InvalidOption(
            "balancing chooses among several brokers of Artemis", remedy="write (tcp://a:61616,tcp://b:61616) or udp://"
        )
    return structs.replace(target, locator=locator_of(url, balancing, topology=target.locator.topology))


def _read_target(url: str, overrides: dict[str, object]) -> Target:
    if "://" not in url and ":(" not in url:
        url = f"tcp://{url}"  # host:port is what people type
    parsed = parse(url)
    if parsed.scheme == "udp" or (isinstance(parsed, Composite) and parsed.scheme == ""):
        return _located_target(url, parsed, overrides)
    if is_core(parsed):
        return _core_target(parsed, overrides)
    if isinstance(parsed, Endpoint):
        return _single(parsed, overrides)
    fanout: FanoutOptions | None = None
    texts = dict(parsed.options)
    nested, texts = split_options(texts, NESTED)
    discovered, texts = split_options(texts, DISCOVERED)
    nested = {**discovered, **nested}
    if parsed.scheme == "fanout":
        fanout, texts = FanoutOptions.take(texts, Dialect.URI)
    client, texts = ClientOptions.take(without_one_way(texts), Dialect.URI)
    _refuse_unknown(texts)
    inner = parsed
    while len(inner.members) == 1 and isinstance(inner.members[0], Composite):
        inner = inner.members[0]  # discovery:(static:(...)), fanout:(static:(...))
        texts = {**inner.options, **texts}
    texts.pop("group", None)
    if inner.scheme in ("static", "simple"):
        texts = _agent_names(texts)
    elif inner.scheme not in ("failover", "", "discovery", "fanout", "masterslave"):
        raise InvalidURI(f"{inner.scheme}: is no list of brokers", remedy="use failover:(tcp://a:61616,tcp://b:61616)")
    if inner.scheme == "masterslave":
        texts = {"randomize": "false", **texts}
    failover = FailoverOptions.read(texts, Dialect.URI)
    members = tuple(inner.endpoints())
    beacons = [member for member in members if member.scheme == "multicast"]
    if beacons:
        return Target((), failover, client.replaced(**overrides), True, Reach.MULTICAST, beacons[0], fanout, nested)
    places = tuple(_dialled(member).with_options(nested) for member in members)
    return Target(
        places, failover, _with_user(client.replaced(**overrides), places[0]), True, fanout=fanout, nested=nested
    )


CORE_SCHEMES: Final = {"core": "tcp", "core+ssl": "ssl", "core+unix": "unix", "tcp": "tcp", "ssl": "ssl"}
"""How brokers of a ``core:`` URL may be written, and how they are dialled."""


def is_core(parsed: Endpoint | Composite) -> bool:
    """Tell whether a URL asks for CORE: it, or a broker in it, is written ``core:``."""
    if parsed.scheme.startswith("core"):
        return True
    return isinstance(parsed, Composite) and any(is_core(member) for member in parsed.members)


PLAIN_DIALECT: Final = {
    "trustStorePath": "transport.trustStorePath",
    "trustStorePassword": "transport.trustStorePassword",
    "keyStorePath": "transport.keyStorePath",
    "keyStorePassword": "transport.keyStorePassword",
}
"""Parameters of a connector of Artemis, and what they are called here."""


def _located_target(url: str, parsed: Endpoint | Composite, overrides: dict[str, object]) -> Target:
    """Return what ``(tcp://a,tcp://b)?...`` or ``udp://group:port?...`` says: Artemis' own forms, so it speaks CORE."""
    core, texts = CoreOptions.take(dict(parsed.options), Dialect.URI)
    options, texts = LocatorOptions.take(texts, Dialect.URI)
    group: GroupOptions | None = None
    if isinstance(parsed, Endpoint):
        texts.pop("localBindPort", None)  # of who speaks; who listens has the port of the group
        group, texts = GroupOptions.take(texts, Dialect.URI)
    client, texts = ClientOptions.take(without_one_way(texts), Dialect.URI)
    _refuse_unknown(texts)
    names = {**CoreOptions.names(Dialect.URI), **LocatorOptions.names(Dialect.URI), **GroupOptions.names(Dialect.URI)}
    refuse_unknown(list(texts), names)
    given = {"user_name": options.user, "password": options.password, "client_id": options.client_id}
    client = client.replaced(**{name: value for name, value in given.items() if value})
    locator = locator_of(url, options.policy, topology=options.use_topology_for_load_balancing)
    failover = options.failover()
    if isinstance(parsed, Endpoint):
        if parsed.port == NO_PORT:
            raise InvalidURI("udp:// needs the port of the group", remedy="write udp://231.7.7.7:9876")
        client = client.replaced(**overrides)
        return Target((), failover, client, True, Reach.GROUP, parsed, core=core, locator=locator, group=group)
    places = tuple(_connector(member) for member in parsed.endpoints())
    if not places:
        raise InvalidURI("the list names no broker", remedy="write (tcp://a:61616,tcp://b:61616)")
    return Target(
        places, failover, _with_user(client.replaced(**overrides), places[0]), True, core=core, locator=locator
    )


def _connector(place: Endpoint) -> Endpoint:
    """Return where a connector of Artemis is dialled. Raises InvalidURI."""
    scheme = CORE_SCHEMES.get(place.scheme)
    if scheme is None:
        raise InvalidURI(f"{place.scheme}:// is no place of CORE", remedy="write tcp://HOST:61616")
    own = {PLAIN_DIALECT.get(name, name): text for name, text in place.options.items()}
    if own.pop("sslEnabled", "false").lower() == "true":
        scheme = "ssl"
    return Endpoint(scheme, place.host, place.port, place.path, own, place.user, place.password)


def _core_target(parsed: Endpoint | Composite, overrides: dict[str, object]) -> Target:
    """Return what a URL of CORE says: ``core://a``, ``core:(tcp://a,tcp://b)?...``, ``failover:(core://a,core://b)``."""
    if isinstance(parsed, Composite) and parsed.scheme not in ("core", "failover", ""):
        raise InvalidURI(f"{parsed.scheme}: does not go with CORE", remedy="write core:(tcp://a:61616,tcp://b:61616)")
    core, texts = CoreOptions.take(dict(parsed.options), Dialect.URI)
    client, texts = ClientOptions.take(without_one_way(texts), Dialect.URI)
    _refuse_unknown(texts)
    several = isinstance(parsed, Composite)
    nested: dict[str, str] = {}
    if isinstance(parsed, Composite):
        failover = FailoverOptions.read(texts, Dialect.URI)
        members = list(parsed.endpoints())
    else:
        failover = FailoverOptions(max_reconnect_attempts=0, update_uris_supported=False, reconnect_supported=False)
        members = [parsed]
        nested = texts
    places: list[Endpoint] = []
    for member in members:
        scheme = CORE_SCHEMES.get(member.scheme)
        if scheme is None:
            raise InvalidURI(f"{member.scheme}:// is no place of CORE", remedy="write core://HOST:61616")
        own = member.options if several else nested
        places.append(Endpoint(scheme, member.host, member.port, member.path, own, member.user, member.password))
    client = _with_user(client.replaced(**overrides), places[0])
    return Target(tuple(places), failover, client, several, core=core)


DIALLED: Final = frozenset({"tcp", "ssl", "nio", "unix", "auto", "openwire", "http", "https", "vm"})
"""The words of a scheme behind which a broker may speak OpenWire."""


def _dialled(place: Endpoint) -> Endpoint:
    """Return ``place`` if a broker may speak OpenWire there. Raises InvalidURI, InvalidOption."""
    if not DIALLED.issuperset(place.scheme.split("+")):
        remedy = "write tcp://HOST:PORT with the port of OpenWire, 61616 where nobody changed it"
        if "stomp" in place.scheme:
            remedy += "; for STOMP there are stomp.py and `entrepot send`"
        raise InvalidURI(f"{place.scheme}:// is not OpenWire, which this client speaks", remedy=remedy)
    _refuse_unknown(place.options)
    return place


def _refuse_unknown(texts: dict[str, str]) -> None:
    """Raise InvalidOption for an option with our prefix that is none."""
    known = {*ClientOptions.names(Dialect.URI), *ONE_WAY}
    refuse_unknown([name for name in texts if name.startswith(JMS) and name not in known], known)


def _single(place: Endpoint, overrides: dict[str, object]) -> Target:
    if place.scheme == "multicast":
        return Target((), FailoverOptions(), ClientOptions().replaced(**overrides), True, Reach.MULTICAST, place)
    client, rest = ClientOptions.take(without_one_way(place.options), Dialect.URI)
    failover = FailoverOptions(max_reconnect_attempts=0, update_uris_supported=False, reconnect_supported=False)
    place = _dialled(Endpoint(place.scheme, place.host, place.port, place.path, rest, place.user, place.password))
    return Target((place,), failover, _with_user(client.replaced(**overrides), place), False)


def _with_user(client: ClientOptions, place: Endpoint) -> ClientOptions:
    if place.user and not client.user_name:
        return client.replaced(user_name=place.user, password=place.password)
    return client


def _agent_names(texts: dict[str, str]) -> dict[str, str]:
    """Return the options of a static list as those of failover; the defaults differ too (classic.md 1.4)."""
    renamed = {"initialReconnectDelay": "1000"}
    for name, text in texts.items():
        if name == "minConnectTime":
            continue  # how long a connection must live to count is the concern of links
        if name == "maxReconnectAttempts" and text == "0":
            continue  # for ever, here
        renamed["reconnectDelayExponent" if name == "backOffMultiplier" else name] = text
    return renamed
