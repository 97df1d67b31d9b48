"""The elements of ``activemq.xml`` that say how destinations behave: policies, virtual destinations, plugins.

See `elements.py`; classic.md 4.6 to 4.16 and 7.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.settings import Dialect, Setting
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.config.classic.elements import (
    BROKER,
    DESTINATION_KINDS,
    DESTINATIONS,
    NETWORK_KINDS,
    ONE_THREAD,
    STORE_KINDS,
    TRANSPORT_KINDS,
    USAGE_KINDS,
)
from entrepot.config.vocabulary import (
    Attribute,
    Does,
    Kind,
    Slot,
    Unit,
    no_effect,
    obeyed,
    of_options,
    otherwise,
    refused,
    registry,
    unobeyed,
)
from entrepot.core.addressing.address_settings import AddressSettings

PAGED: Final = "what does not fit memory is paged to the journal, whatever the cursor"
NO_AUDIT: Final = "message ids are not audited per queue, so nothing that comes back is taken for a duplicate"
SWEEP: Final = "expired messages are looked for every second, and never delivered"
IN_ORDER: Final = "one thread dispatches: every subscriber sees the same order"
ONE_RECORD: Final = "one record in the journal serves all copies: they are stored together or not at all"
LETTER_KINDS: Final = ("processExpired", "processNonPersistent")
LETTER_NAMES: Final = ("queuePrefix", "topicPrefix", "queueSuffix", "topicSuffix")
_READ_BY_RULE: Final = ("memoryLimit", "sendFailIfNoSpaceAfterTimeout", "gcInactiveDestinations")
_OF_STRATEGIES: Final = (*LETTER_KINDS, *LETTER_NAMES, "constantPendingMessageLimit", "maxTimeSinceLastAck")
SIMPLE: Final[Mapping[str, Setting]] = {
    name: declared
    for name, declared in AddressSettings.names(Dialect.CLASSIC).items()
    if name not in (*_READ_BY_RULE, *_OF_STRATEGIES)
}
"""Attributes of an entry whose value is that of the setting."""
MISSPELT_DELAY: Final = "inactiveTimoutBeforeGC"  # Classic accepts it beside the right spelling

A_GROUP: Final = "a group is a name here"
NO_SHIRO: Final = "Shiro cannot run here: what it decides is not known"

POLICY_ENTRY: Final = Kind(
    "policyEntry",
    obeyed(
        "queue:text topic:text tempQueue:text tempTopic:text",
        "memoryLimit:size producerFlowControl:flag sendFailIfNoSpace:text sendFailIfNoSpaceAfterTimeout:ms",
        "messageGroupMapFactoryType:text gcInactiveDestinations:flag",
    ),
    of_options(AddressSettings, only=tuple(SIMPLE)),
    [Attribute(MISSPELT_DELAY, Unit.DURATION, setting=SIMPLE["inactiveTimeoutBeforeGC"])],
    no_effect(PAGED, "useCache:flag maxPageSize:number cursorMemoryHighWaterMark:number reduceMemoryFootprint:flag"),
    no_effect(PAGED, "doOptimzeMessageStorage:flag optimizeMessageStoreInFlightLimit:number maxAuditDepth:number"),
    no_effect(NO_AUDIT, "enableAudit:flag maxProducersToAudit:number maxQueueAuditDepth:number"),
    no_effect(NO_AUDIT, "sendDuplicateFromStoreToDLQ:flag"),
    no_effect(SWEEP, "expireMessagesPeriod:ms maxExpirePageSize:number"),
    no_effect("sizes are the real ones", "minimumMessageSize:size"),
    no_effect("a browser sees every message", "maxBrowsePageSize:number"),
    no_effect("a browser gets what its own window takes", "queueBrowserPrefetch:number"),
    no_effect(ONE_THREAD, "optimizedDispatch:flag"),
    no_effect("a producer that waits is reported once in 10 s", "blockedProducerWarningInterval:ms"),
    no_effect("the window of a consumer is what it asked for", "usePrefetchExtension:flag"),
    no_effect(
        "figures are always kept", "useTopicSubscriptionInflightStats:flag advancedMessageStatisticsEnabled:flag"
    ),
    no_effect("figures are always kept", "advancedNetworkStatisticsEnabled:flag"),
    no_effect("bridges do not count as consumers of an unused destination", "gcWithNetworkConsumers:flag"),
    otherwise("all of storeUsage may be used", "storeUsageHighWaterMark:number=100"),
    otherwise("what can be dispatched is dispatched at once", "lazyDispatch:flag=false"),
    otherwise("consumers with a higher priority come first", "useConsumerPriority:flag=true"),
    otherwise("the number of destinations is not limited", "maxDestinations:number=-1"),
    otherwise("a temporary destination is read by its own connection only", "allowTempDestinationStealing:flag=false"),
    Slot("destination", DESTINATIONS),
    Slot("deadLetterStrategy", ("sharedDeadLetterStrategy", "individualDeadLetterStrategy", "discarding")),
    Slot(
        "pendingMessageLimitStrategy",
        ("constantPendingMessageLimitStrategy", "prefetchRatePendingMessageLimitStrategy"),
    ),
    Slot(
        "messageEvictionStrategy",
        (
            "oldestMessageEvictionStrategy",
            "oldestMessageWithLowestPriorityEvictionStrategy",
            "uniquePropertyMessageEvictionStrategy",
        ),
    ),
    Slot("slowConsumerStrategy", ("abortSlowConsumerStrategy", "abortSlowAckConsumerStrategy")),
    Slot(
        "subscriptionRecoveryPolicy",
        (
            "noSubscriptionRecoveryPolicy",
            "lastImageSubscriptionRecoveryPolicy",
            "fixedCountSubscriptionRecoveryPolicy",
            "fixedSizedSubscriptionRecoveryPolicy",
            "timedSubscriptionRecoveryPolicy",
            "queryBasedSubscriptionRecoveryPolicy",
            "retainedMessageSubscriptionRecoveryPolicy",
        ),
    ),
    Slot(
        "dispatchPolicy",
        (
            "simpleDispatchPolicy",
            "roundRobinDispatchPolicy",
            "strictOrderDispatchPolicy",
            "priorityDispatchPolicy",
            "priorityNetworkDispatchPolicy",
            "clientIdFilterDispatchPolicy",
        ),
    ),
    Slot(
        "messageGroupMapFactory",
        ("simpleMessageGroupMapFactory", "cachedMessageGroupMapFactory", "messageGroupHashBucketFactory"),
    ),
    Slot(
        "networkBridgeFilterFactory",
        ("defaultNetworkBridgeFilterFactory", "conditionalNetworkBridgeFilterFactory"),
    ),
    Slot("pendingQueuePolicy", does=Does.NO_EFFECT, why=PAGED),
    Slot("pendingSubscriberPolicy", does=Does.NO_EFFECT, why=PAGED),
    Slot("pendingDurableSubscriberPolicy", does=Does.NO_EFFECT, why=PAGED),
    Slot("messageInterceptorStrategy", does=Does.REFUSED, why="messages are not changed on their way by a policy"),
    about="how destinations behave; entries do not inherit from one another",
)

_DEAD_LETTERS: Final = (
    of_options(AddressSettings, only=LETTER_KINDS),
    obeyed("expiration:ms"),
    no_effect(
        "a message becomes a dead letter as often as it fails",
        "enableAudit:flag maxProducersToAudit:number maxAuditDepth:number",
    ),
)

POLICY_KINDS: Final = [
    Kind(
        "policyMap",
        Slot("policyEntries", ("policyEntry",), many=True),
        Slot("defaultEntry", ("policyEntry",)),
        Slot("entries", ("policyEntry",), many=True),
        about="entries by pattern; the most specific one holds, alone",
    ),
    POLICY_ENTRY,
    Kind(
        "sharedDeadLetterStrategy",
        *_DEAD_LETTERS,
        obeyed("deadLetterQueue:text"),
        Slot("deadLetterQueue", DESTINATIONS),
        about="one queue for all dead letters",
    ),
    Kind(
        "individualDeadLetterStrategy",
        *_DEAD_LETTERS,
        of_options(AddressSettings, only=LETTER_NAMES),
        otherwise("dead letters go to queues", "useQueueForQueueMessages:flag=true useQueueForTopicMessages:flag=true"),
        otherwise("the dead letters of a topic share one queue", "destinationPerDurableSubscriber:flag=false"),
        no_effect("there is nothing to audit", "maxDestinationsToAudit:number"),
        about="a queue of dead letters for each source",
    ),
    Kind("discarding", *_DEAD_LETTERS, about="dead letters are dropped"),
    Kind(
        "constantPendingMessageLimitStrategy",
        obeyed("limit:number"),
        about="how many messages a topic subscriber may leave waiting",
    ),
    Kind(
        "prefetchRatePendingMessageLimitStrategy",
        obeyed("multiplier:decimal"),
        about="the same as a multiple of its prefetch",
    ),
    Kind(
        "oldestMessageEvictionStrategy",
        no_effect(SWEEP, "evictExpiredMessagesHighWatermark:number expiryCheckEnabled:flag"),
        about="the oldest goes first",
    ),
    *unobeyed(
        Does.OTHERWISE,
        "the oldest message goes first",
        "oldestMessageWithLowestPriorityEvictionStrategy",
        "uniquePropertyMessageEvictionStrategy",
    ),
    Kind(
        "abortSlowConsumerStrategy",
        obeyed("maxSlowDuration:ms"),
        no_effect("slow consumers are looked for every second", "checkPeriod:ms name:text"),
        otherwise("it is the time that counts, not how often", "maxSlowCount:number=-1"),
        otherwise("the consumer is ended, its connection lives on", "abortConnection:flag=false"),
        no_effect("a bridge is a consumer that is never slow for long", "ignoreNetworkConsumers:flag"),
        about="ends a consumer that holds messages and settles none for maxSlowDuration",
    ),
    Kind(
        "abortSlowAckConsumerStrategy",
        obeyed("maxTimeSinceLastAck:ms"),
        no_effect("maxTimeSinceLastAck decides", "maxSlowDuration:ms"),
        no_effect("slow consumers are looked for every second", "checkPeriod:ms name:text"),
        otherwise("it is the time that counts, not how often", "maxSlowCount:number=-1"),
        otherwise("the consumer is ended, its connection lives on", "abortConnection:flag=false"),
        otherwise("who holds no message is idle, not slow", "ignoreIdleConsumers:flag=true"),
        no_effect("a bridge is a consumer that is never slow for long", "ignoreNetworkConsumers:flag"),
        about="ends a consumer that holds messages and settles none for maxTimeSinceLastAck",
    ),
    Kind("noSubscriptionRecoveryPolicy", about="a retroactive consumer gets no older messages"),
    Kind("lastImageSubscriptionRecoveryPolicy", about="a retroactive consumer gets the last message"),
    Kind(
        "fixedCountSubscriptionRecoveryPolicy",
        obeyed("maximumSize:number"),
        about="a retroactive consumer gets the last messages, as many as maximumSize (100)",
    ),
    Kind(
        "fixedSizedSubscriptionRecoveryPolicy",
        obeyed("maximumSize:size"),
        otherwise("each topic has a buffer of its own", "useSharedBuffer:flag=false"),
        about="a retroactive consumer gets the last messages, as many octets as maximumSize (65536)",
    ),
    Kind(
        "timedSubscriptionRecoveryPolicy",
        obeyed("recoverDuration:ms"),
        about="a retroactive consumer gets what came in the last recoverDuration ms (60000)",
    ),
    Kind(
        "retainedMessageSubscriptionRecoveryPolicy",
        Slot("wrapped", does=Does.OTHERWISE, why="only retained messages are kept"),
        about="every subscriber whose consumer is retroactive gets the message that asked to be retained",
    ),
    *unobeyed(
        Does.REFUSED,
        "it runs a query in Java that is not there",
        "queryBasedSubscriptionRecoveryPolicy",
        remedy="use a timed or a fixed policy, and a selector at the consumer",
    ),
    *unobeyed(
        Does.NO_EFFECT, IN_ORDER, "simpleDispatchPolicy", "roundRobinDispatchPolicy", "strictOrderDispatchPolicy"
    ),
    *unobeyed(
        Does.OTHERWISE,
        "every subscriber of a topic gets every message, whatever its priority",
        "priorityDispatchPolicy",
        "priorityNetworkDispatchPolicy",
    ),
    *unobeyed(
        Does.REFUSED,
        "messages would reach clients that they are not for",
        "clientIdFilterDispatchPolicy",
        remedy="give each client a destination, or a selector",
    ),
    Kind("simpleMessageGroupMapFactory", about="an owner for each message group"),
    Kind(
        "cachedMessageGroupMapFactory",
        no_effect("owners of message groups are not forgotten", "cacheSize:number"),
        about="an owner for each message group",
    ),
    Kind(
        "messageGroupHashBucketFactory",
        obeyed("bucketCount:number"),
        no_effect("owners of message groups are not forgotten", "cacheSize:number"),
        about="an owner for each bucket of message groups",
    ),
    Kind("defaultNetworkBridgeFilterFactory", about="what a bridge forwards by default"),
    Kind(
        "conditionalNetworkBridgeFilterFactory",
        of_options(BridgeFilterOptions),
        otherwise("the limit is in messages and time", "rateLimitPerSecond:number"),
        about="what may go back through a bridge",
    ),
]

VIRTUAL_KINDS: Final = [
    Kind(
        "virtualDestinationInterceptor",
        Slot("virtualDestinations", ("virtualTopic", "compositeQueue", "compositeTopic"), many=True),
        about="virtual destinations; they replace the one that is there by default",
    ),
    Kind(
        "virtualTopic",
        obeyed("name:text prefix:text postfix:text selectorAware:flag"),
        otherwise("messages from other brokers are copied too", "local:flag=false"),
        otherwise("a full queue answers as its own policy says", "dropOnResourceLimit:flag=false"),
        otherwise("copies keep the name of the topic", "setOriginalDestination:flag=true"),
        no_effect(ONE_RECORD, "concurrentSend:flag transactedSend:flag"),
        about="queues that share in a topic",
    ),
    *(
        Kind(
            name,
            obeyed("name:text forwardOnly:flag sendWhenNotMatched:flag"),
            no_effect(ONE_RECORD, "concurrentSend:flag copyMessage:flag"),
            Slot("forwardTo", ("queue", "topic", "filteredDestination"), many=True),
            about=about,
        )
        for name, about in (
            ("compositeQueue", "a queue whose messages go to others"),
            ("compositeTopic", "a topic whose messages go to others"),
        )
    ),
    Kind(
        "filteredDestination",
        obeyed("selector:text queue:text topic:text"),
        Slot("destination", DESTINATIONS),
        about="a target that gets what its selector matches",
    ),
    Kind(
        "mirroredQueue",
        obeyed("prefix:text"),
        otherwise("the topic is named by the prefix alone", "postfix:text="),
        no_effect(ONE_RECORD, "copyMessage:flag"),
        about="each queue is published on a topic too",
    ),
]

PLUGIN_KINDS: Final = [
    Kind(
        "simpleAuthenticationPlugin",
        obeyed("anonymousAccessAllowed:flag anonymousUser:text anonymousGroup:text"),
        Slot("users", ("authenticationUser",), many=True),
        about="who may come in: user and password",
    ),
    Kind(
        "authenticationUser",
        obeyed("username:text password:text groups:text"),
        about="a user with the groups that rights are given to",
    ),
    Kind(
        "jaasAuthenticationPlugin",
        obeyed("configuration:text"),
        no_effect("login.config is looked for beside the configuration", "discoverLoginConfig:flag"),
        about="who may come in, from an entry of `login.config`: property files of users and groups, and a guest",
    ),
    Kind(
        "jaasCertificateAuthenticationPlugin",
        obeyed("configuration:text"),
        no_effect("login.config is looked for beside the configuration", "discoverLoginConfig:flag"),
        about="who may come in, by the subject of his certificate (`needClientAuth=true` on the connectors), from an "
        "entry of `login.config` with a TextFileCertificateLoginModule; nobody comes in without TLS",
    ),
    Kind(
        "jaasDualAuthenticationPlugin",
        obeyed("configuration:text sslConfiguration:text"),
        no_effect("login.config is looked for beside the configuration", "discoverLoginConfig:flag"),
        about="over TLS as `jaasCertificateAuthenticationPlugin`, by the entry `sslConfiguration` "
        "(`activemq-ssl-domain`), without it as `jaasAuthenticationPlugin`",
    ),
    *unobeyed(
        Does.REFUSED, NO_SHIRO, "shiroPlugin", remedy="use simpleAuthenticationPlugin or jaasAuthenticationPlugin"
    ),
    Kind(
        "authorizationPlugin",
        Slot("map", ("authorizationMap", "cachedLDAPAuthorizationMap", "lDAPAuthorizationMap")),
        about="what the groups may do; without it who is in may do everything",
    ),
    Kind(
        "authorizationMap",
        no_effect(A_GROUP, "groupClass:text"),
        Slot("authorizationEntries", ("authorizationEntry",), many=True),
        Slot("defaultEntry", ("authorizationEntry",)),
        Slot("tempDestinationAuthorizationEntry", ("tempDestinationAuthorizationEntry",)),
        about="rights by pattern; those of all entries that match add up",
    ),
    Kind(
        "authorizationEntry",
        obeyed("queue:text topic:text read:text write:text admin:text"),
        refused(
            "temporary destinations have one entry for all",
            "tempQueue:text tempTopic:text",
            remedy="use tempDestinationAuthorizationEntry",
        ),
        no_effect(A_GROUP, "groupClass:text"),
        Slot("destination", DESTINATIONS),
        about="which groups may read (consume, browse), write (send) and administrate (create, remove); `*`: everybody",
    ),
    Kind(
        "tempDestinationAuthorizationEntry",
        obeyed("read:text write:text admin:text"),
        no_effect("it is about all temporary destinations", "queue:text topic:text tempQueue:text tempTopic:text"),
        no_effect(A_GROUP, "groupClass:text"),
        about="the same for temporary destinations; without it everybody may have some",
    ),
    *unobeyed(
        Does.REFUSED,
        "rights are not looked up in LDAP",
        "cachedLDAPAuthorizationMap",
        "lDAPAuthorizationMap",
        remedy="use authorizationMap",
    ),
    Kind(
        "redeliveryPlugin",
        otherwise("it becomes a dead letter", "sendToDlqIfMaxRetriesExceeded:flag=true fallbackToDeadLetter:flag=true"),
        Slot("redeliveryPolicyMap", ("redeliveryPolicyMap",)),
        about="the broker delivers again what a consumer refused",
    ),
    Kind(
        "redeliveryPolicyMap",
        Slot("redeliveryPolicyEntries", ("redeliveryPolicy",), many=True),
        Slot("defaultEntry", ("redeliveryPolicy",)),
        about="redelivery by pattern",
    ),
    Kind(
        "redeliveryPolicy",
        obeyed(
            "queue:text topic:text maximumRedeliveries:number initialRedeliveryDelay:ms redeliveryDelay:ms",
            "useExponentialBackOff:flag backOffMultiplier:decimal maximumRedeliveryDelay:ms",
            "useCollisionAvoidance:flag collisionAvoidanceFactor:decimal collisionAvoidancePercent:number",
        ),
        no_effect("it is the client's business", "preDispatchCheck:flag"),
        Slot("destination", DESTINATIONS),
        about="how often and when a message comes again",
    ),
    Kind(
        "timeStampingBrokerPlugin",
        obeyed("zeroExpirationOverride:ms ttlCeiling:ms"),
        otherwise("timestamps stay as the client wrote them", "futureOnly:flag=true"),
        otherwise("messages from other brokers are bounded too", "processNetworkMessages:flag=true"),
        about="gives and bounds times to live; timestamps stay as the client wrote them",
    ),
    Kind(
        "discardingDLQBrokerPlugin",
        obeyed("dropAll:flag"),
        otherwise("dead letters are dropped all, or none", "dropOnly:text="),
        no_effect("temporary destinations follow dropAll", "dropTemporaryTopics:flag dropTemporaryQueues:flag"),
        no_effect("each is counted, and logged at DEBUG", "reportInterval:number"),
        about="drops dead letters",
    ),
    Kind(
        "statisticsBrokerPlugin",
        about="answers messages to `ActiveMQ.Statistics.Broker`, `ActiveMQ.Statistics.Destination.NAME` (a wildcard, "
        "too) and `ActiveMQ.Statistics.Subscription` with map messages",
    ),
    *unobeyed(Does.NO_EFFECT, "events are logged with --log-level debug", "loggingBrokerPlugin"),
    Kind(
        "traceBrokerPathPlugin",
        obeyed("stampProperty:text"),
        about="each message collects the names of the brokers that it passes, in the property `BrokerPath` or the one "
        "that is named; it is written when a message comes in, ActiveMQ writes it at each dispatch",
    ),
    *(
        Kind(
            name,
            obeyed("persistenceFlag:flag"),
            about="all messages that are sent here are kept on disk, or, without `persistenceFlag`, none",
        )
        for name in ("forcePersistencyModeBrokerPlugin", "forcePersistencyModeBroker")
    ),
    *unobeyed(Does.OTHERWISE, "destinations are kept in the journal, not in a file", "destinationsPlugin"),
    Kind(
        "destinationPathSeparatorPlugin",
        obeyed("pathSeparator:text"),
        about="names and wildcards may be written with slashes, or with `pathSeparator`, for the dots; readers are "
        "shown dots. Names in this file have dots",
    ),
    *unobeyed(Does.NO_EFFECT, "virtual topics do not look at selectors", "virtualSelectorCacheBrokerPlugin"),
    *unobeyed(Does.OTHERWISE, "a change of the file takes a restart in this build", "runtimeConfigurationPlugin"),
    *unobeyed(Does.NO_EFFECT, "no pictures are drawn", "connectionDotFilePlugin", "destinationDotFilePlugin"),
    *unobeyed(
        Does.OTHERWISE, "messages are not copied to a trace port", "udpTraceBrokerPlugin", "multicastTraceBrokerPlugin"
    ),
    *unobeyed(
        Does.REFUSED, "routes of Camel cannot run here", "camelRoutesBrokerPlugin", remedy="run Camel as a client"
    ),
]

KINDS: Final = registry(
    [BROKER],
    DESTINATION_KINDS,
    USAGE_KINDS,
    STORE_KINDS,
    TRANSPORT_KINDS,
    NETWORK_KINDS,
    POLICY_KINDS,
    VIRTUAL_KINDS,
    PLUGIN_KINDS,
)
"""Every bean of ``activemq.xml`` by its name."""

ELSEWHERE: Final = frozenset(
    (
        "activationSpec",
        "blobJDBCAdapter",
        "bytesJDBCAdapter",
        "chainMessageInterceptorStrategy",
        "compositeDemandForwardingBridge",
        "connectionFactory",
        "connectionManager",
        "db2JDBCAdapter",
        "defaultIOExceptionHandler",
        "defaultJDBCAdapter",
        "defaultUsageCapacity",
        "demandForwardingBridge",
        "destinationEntry",
        "fileCursor",
        "fileDurableSubscriberCursor",
        "fileQueueCursor",
        "filteredKahaDB",
        "forwardingBridge",
        "h2-jdbc-adapter",
        "headerMessageInterceptorStrategy",
        "hsqldb-jdbc-adapter",
        "imageBasedJDBCAdaptor",
        "inboundQueueBridge",
        "inboundTopicBridge",
        "informixJDBCAdapter",
        "jDBCIOExceptionHandler",
        "jmsQueueConnector",
        "jmsTopicConnector",
        "leaseLockerIOExceptionHandler",
        "managedConnectionFactory",
        "maxdb-jdbc-adapter",
        "mysql-jdbc-adapter",
        "oracleBlobJDBCAdapter",
        "oracleJDBCAdapter",
        "outboundQueueBridge",
        "outboundTopicBridge",
        "pListStoreImpl",
        "pooledConnectionFactory",
        "postgresql-jdbc-adapter",
        "prefetchPolicy",
        "proxyConnector",
        "queueDispatchSelector",
        "reconnectionPolicy",
        "resourceAdapter",
        "simpleDispatchSelector",
        "simpleJmsMessageConvertor",
        "sqlServerJDBCAdapter",
        "storeCursor",
        "storeDurableSubscriberCursor",
        "sybase-jdbc-adapter",
        "taskRunnerFactory",
        "transact-jdbc-adapter",
        "transactionManager",
        "usageCapacity",
        "vmCursor",
        "vmDurableCursor",
        "vmQueueCursor",
        "xaConnectionFactory",
        "xaPooledConnectionFactory",
    )
)
"""Beans of ActiveMQ that are known and never stand where `KINDS` may: within a part that is not read, or in clients."""
