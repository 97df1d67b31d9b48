"""Every element and attribute of ``activemq.xml`` and what becomes of it here: the broker, its stores, its connectors.

Names and defaults are those of classic.md 1.2, 6.1 and 8.2 to 8.6; `policy_elements.py` has the rest. The documentation
and the reader both read these declarations.
"""

from __future__ import annotations

from typing import Final

from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.config.model import BrokerSettings, StoreOptions, UsageOptions
from entrepot.config.vocabulary import (
    Does,
    Kind,
    Slot,
    no_effect,
    obeyed,
    of_options,
    otherwise,
    refused,
    unobeyed,
)

NO_JMX: Final = "there is no JMX here"
ONE_THREAD: Final = "one thread takes all decisions"
IN_JOURNAL: Final = "all queues are in one journal"
INDEX: Final = "the index is in memory and rebuilt from the journal"
WOKEN: Final = "a broker that waits is woken the moment the lock is free"
ALWAYS_LOCKED: Final = "a store is always locked: two brokers that write to one destroy it"
ALWAYS_SYNCED: Final = "what is confirmed is synced, always; what arrives meanwhile shares the next sync"
STARTER: Final = "that is the business of whoever starts the process"
GONE: Final = "ActiveMQ itself has dropped it"
CUSTOM: Final = "a Java class cannot be loaded here"

BRIDGES_WITHOUT: Final = ("useBrokerNameAsIdSees", "gcDestinationViews", "gcSweepTime", "localUri")
DESTINATIONS: Final = ("queue", "topic", "tempQueue", "tempTopic")
LOCKERS: Final = ("shared-file-locker", "lease-database-locker", "database-locker", "transact-database-locker")
STORES: Final = (
    "kahaDB",
    "mKahaDB",
    "memoryPersistenceAdapter",
    "jdbcPersistenceAdapter",
    "journalPersistenceAdapter",
    "journalPersistenceAdapterFactory",
    "journaledJDBC",
    "levelDB",
    "replicatedLevelDB",
    "amqPersistenceAdapter",
    "amqPersistenceAdapterFactory",
)
PLUGINS: Final = (
    "simpleAuthenticationPlugin",
    "jaasAuthenticationPlugin",
    "jaasCertificateAuthenticationPlugin",
    "jaasDualAuthenticationPlugin",
    "authorizationPlugin",
    "shiroPlugin",
    "redeliveryPlugin",
    "statisticsBrokerPlugin",
    "timeStampingBrokerPlugin",
    "loggingBrokerPlugin",
    "discardingDLQBrokerPlugin",
    "traceBrokerPathPlugin",
    "forcePersistencyModeBrokerPlugin",
    "forcePersistencyModeBroker",
    "destinationsPlugin",
    "destinationPathSeparatorPlugin",
    "virtualSelectorCacheBrokerPlugin",
    "runtimeConfigurationPlugin",
    "connectionDotFilePlugin",
    "destinationDotFilePlugin",
    "udpTraceBrokerPlugin",
    "multicastTraceBrokerPlugin",
    "camelRoutesBrokerPlugin",
)

BROKER: Final = Kind(
    "broker",
    of_options(BrokerSettings),
    obeyed("transportConnectorURIs:text networkConnectorURIs:text"),
    no_effect(
        ONE_THREAD,
        "dedicatedTaskRunner:flag virtualThreadTaskRunner:flag taskRunnerPriority:number",
        "persistenceThreadPriority:number networkConnectorStartAsync:flag startAsync:flag",
    ),
    no_effect(NO_JMX, "useJmx:flag=false mbeanInvocationTimeout:ms populateUserNameInMBeans:flag"),
    no_effect(
        STARTER,
        "useShutdownHook:flag restartAllowed:flag restartRequested:flag systemExitOnShutdown:flag",
        "systemExitOnShutdownExitCode:number useLoggingForShutdownErrors:flag",
    ),
    no_effect(
        "scheduled messages and what does not fit memory are in the journal too",
        "tmpDataDirectory:text schedulerDirectory:text schedulerDirectoryFile:text",
    ),
    no_effect("subscriptions that nobody reads cost no memory", "keepDurableSubsActive:flag"),
    no_effect("expired messages leave every queue", "enableMessageExpirationOnActiveDurableSubs:flag"),
    no_effect("it is the period of a timeout that is off", "offlineDurableSubscriberTaskSchedule:ms"),
    no_effect("limits do not follow the disk; a full disk refuses messages", "schedulePeriodForDiskUsageCheck:ms"),
    no_effect("limits do not follow the disk; a full disk refuses messages", "diskUsageCheckRegrowThreshold:number"),
    no_effect("there is no heap to adjust the limits to", "adjustUsageLimits:flag"),
    no_effect("figures are always kept", "enableStatistics:flag"),
    no_effect("every unused destination is looked at", "maxPurgedDestinationsPerSweep:number"),
    no_effect("temporary destinations go with their connection", "cacheTempDestinations:flag"),
    no_effect("temporary destinations go with their connection", "timeBeforePurgeTempDestinations:ms"),
    no_effect("messages keep the encoding that they came in", "storeOpenWireVersion:number maxInflatedDataSize:size"),
    no_effect("connections are not watched for that", "monitorConnectionSplits:flag"),
    no_effect("there is one virtual machine less", "vmConnectorURI:text"),
    otherwise("it starts always", "start:flag=true", remedy="do not run it, then"),
    no_effect(
        "an advisory is published when somebody reads its topic, and costs nothing else", "advisorySupport:flag=true"
    ),
    otherwise("the node's id is made at its first start and kept in its journal", "brokerId:text"),
    otherwise("the name is the one that brokerName gives", "useLocalHostBrokerName:flag=false"),
    otherwise("temporary queues are not mirrored", "useTempMirroredQueues:flag=false"),
    otherwise("durable subscriptions stay until they are deleted", "offlineDurableSubscriberTimeout:ms=-1"),
    otherwise("one limit holds for all", "splitSystemUsageForProducersConsumers:flag=false"),
    no_effect("one limit holds for all", "producerSystemUsagePortion:number consumerSystemUsagePortion:number"),
    otherwise("a temporary destination must exist before it is sent to", "allowTempAutoCreationOnSend:flag=false"),
    otherwise("a transaction that lost a message can only roll back", "rollbackOnlyOnAsyncException:flag=true"),
    otherwise("transactions are not limited in length", "maxUncommittedCount:number=0"),
    otherwise("repetitions are not limited", "maxSchedulerRepeatAllowed:number"),
    no_effect(
        f"it belongs to pure master/slave; {GONE}",
        "waitForSlave:flag waitForSlaveTimeout:ms shutdownOnMasterFailure:flag shutdownOnSlaveFailure:flag",
        "passiveSlave:flag supportFailOver:flag",
    ),
    refused(
        f"pure master/slave: {GONE}", "masterConnectorURI:text", remedy="use a network connector, or a shared directory"
    ),
    Slot("destinationInterceptors", ("virtualDestinationInterceptor", "mirroredQueue"), many=True),
    Slot("destinationPolicy", ("policyMap",)),
    Slot("destinations", DESTINATIONS, many=True),
    Slot("managementContext", ("managementContext",)),
    Slot("networkConnectors", ("networkConnector", "ldapNetworkConnector", "multicastNetworkConnector"), many=True),
    Slot("persistenceAdapter", STORES),
    Slot("persistenceFactory", STORES),
    Slot("jobSchedulerStore", ("kahaDBJobScheduler", "inMemoryJobSchedulerStore")),
    Slot("plugins", PLUGINS, many=True),
    Slot("sslContext", ("sslContext",)),
    Slot("systemUsage", ("systemUsage",)),
    Slot("transportConnectors", ("transportConnector",), many=True),
    Slot("shutdownHooks", does=Does.NO_EFFECT, why=STARTER),
    Slot("taskRunnerFactory", does=Does.NO_EFFECT, why=ONE_THREAD),
    Slot("adminView", does=Does.NO_EFFECT, why=NO_JMX),
    Slot("tempDataStore", does=Does.NO_EFFECT, why="what does not fit memory is paged to the journal"),
    Slot("services", does=Does.OTHERWISE, why=CUSTOM),
    Slot(
        "ioExceptionHandler",
        does=Does.OTHERWISE,
        why="while the disk is full messages are refused and the broker goes on; on any other error it stops",
    ),
    Slot("producerSystemUsage", does=Does.OTHERWISE, why="one limit holds for all", remedy="use systemUsage"),
    Slot("consumerSystemUsage", does=Does.OTHERWISE, why="one limit holds for all", remedy="use systemUsage"),
    Slot("jmsBridgeConnectors", does=Does.REFUSED, why="bridges to other JMS providers are not built"),
    Slot("proxyConnectors", does=Does.REFUSED, why="proxy connectors are not built", remedy="use a TCP proxy"),
    Slot("messageAuthorizationPolicy", does=Does.REFUSED, why=CUSTOM),
    about="the broker itself",
)

DESTINATION_KINDS: Final = [
    Kind("queue", obeyed("physicalName:text name:text"), about="a queue, or a pattern of queues"),
    Kind("topic", obeyed("physicalName:text name:text"), about="a topic, or a pattern of topics"),
    Kind("tempQueue", obeyed("physicalName:text name:text"), about="temporary queues"),
    Kind("tempTopic", obeyed("physicalName:text name:text"), about="temporary topics"),
]

USAGE_KINDS: Final = [
    Kind(
        "systemUsage",
        of_options(UsageOptions),
        no_effect("there is no log of single limits", "checkLimitsLogLevel:text name:text"),
        Slot("memoryUsage", ("memoryUsage",)),
        Slot("storeUsage", ("storeUsage",)),
        Slot("tempUsage", ("tempUsage",)),
        Slot("jobSchedulerUsage", ("jobSchedulerUsage",)),
        about="limits of the whole broker",
    ),
    Kind(
        "memoryUsage",
        obeyed("limit:size percentOfJvmHeap:number"),
        no_effect("usage is exact at any time", "percentUsageMinDelta:number pollingTime:ms name:text"),
        otherwise("there are no shares of a limit", "usagePortion:decimal=1.0 portion:decimal=1.0"),
        about="memory for messages",
    ),
    *(
        Kind(
            name,
            obeyed("limit:size percentLimit:number total:size"),
            no_effect("it is looked at twice a second", "percentUsageMinDelta:number pollingTime:ms"),
            no_effect("there is one journal", "name:text store:text"),
            otherwise("there are no shares of a limit", "usagePortion:decimal=1.0"),
            about=about,
        )
        for name, about in (
            ("storeUsage", "disk for persistent messages"),
            ("tempUsage", "disk for what does not fit memory and is lost at a restart"),
        )
    ),
    Kind(
        "jobSchedulerUsage",
        otherwise(
            "scheduled messages are in the journal", "limit:size percentLimit:number total:size", remedy="storeUsage"
        ),
        no_effect("it is looked at twice a second", "percentUsageMinDelta:number pollingTime:ms"),
        no_effect("there is one journal", "name:text store:text"),
        otherwise("there are no shares of a limit", "usagePortion:decimal=1.0"),
        about="disk for scheduled messages",
    ),
]

_KAHADB_TUNING: Final = (
    no_effect(
        INDEX,
        "indexDirectory:text indexCacheSize:number indexWriteBatchSize:number enableIndexWriteAsync:flag",
        "enableIndexDiskSyncs:flag enableIndexRecoveryFile:flag enableIndexPageCaching:flag useIndexLFRUEviction:flag",
        "indexLFUEvictionFactor:decimal forceRecoverIndex:flag archiveCorruptedIndex:flag checkpointInterval:ms",
    ),
    no_effect(
        ALWAYS_SYNCED,
        "enableJournalDiskSyncs:flag journalDiskSyncStrategy:text=always journalDiskSyncInterval:ms",
        "concurrentStoreAndDispatchQueues:flag concurrentStoreAndDispatchTopics:flag",
        "concurrentStoreAndDispatchTransactions:flag",
        "maxAsyncJobs:number concurrentStoreAndDispatchAsyncQueueSize:number",
    ),
    no_effect(
        "the journal looks after its own files",
        "cleanupInterval:ms cleanupOnStop:flag enableAckCompaction:flag compactAcksAfterNoGC:number",
        "compactAcksIgnoresStoreGrowth:flag journalMaxWriteBatchSize:size preallocationScope:text",
        "preallocationStrategy:text checkpointOnStop:flag",
    ),
    no_effect(
        "every record has a checksum, and is checked", "checksumJournalFiles:flag checkForCorruptJournalFiles:flag"
    ),
    otherwise(
        "a damaged or missing file is never skipped: the operator decides (`entrepot data`)",
        "ignoreMissingJournalfiles:flag=false ignoreMissingJournalFiles:flag=false",
    ),
    otherwise("files of the journal that are not needed any more are deleted", "archiveDataLogs:flag=false"),
    no_effect("files of the journal that are not needed any more are deleted", "directoryArchive:text"),
    no_effect(
        "duplicates of producers that failed over are found by other means",
        "maxFailoverProducersToTrack:number failoverProducersAuditDepth:number",
    ),
    no_effect("figures are always kept", "enableSubscriptionStatistics:flag"),
    no_effect("messages keep the encoding that they came in", "transactionIdTransformer:text"),
    otherwise("prepared transactions wait for whoever decides", "purgeRecoveredXATransactionStrategy:text=NEVER"),
    obeyed("lockKeepAlivePeriod:ms failIfDatabaseIsLocked:flag"),
    no_effect(WOKEN, "databaseLockedWaitDelay:ms"),
    otherwise(ALWAYS_LOCKED, "useLock:flag=true"),
    no_effect("an error of the store stops the broker, always", "stopOnError:flag"),
    no_effect("the broker's name is used", "brokerName:text"),
)

STORE_KINDS: Final = [
    Kind(
        "kahaDB",
        of_options(StoreOptions),
        obeyed("directory:text"),
        *_KAHADB_TUNING,
        Slot("locker", LOCKERS),
        about="the journal is in the directory `entrepot` below the one that is named; files of KahaDB are not read",
    ),
    Kind(
        "mKahaDB",
        of_options(StoreOptions),
        obeyed("directory:text"),
        no_effect("the journal looks after its own files", "journalWriteBatchSize:size journalCleanupInterval:ms"),
        no_effect("every record is checked", "checkForCorruption:flag"),
        obeyed("lockKeepAlivePeriod:ms failIfDatabaseIsLocked:flag"),
        no_effect(WOKEN, "databaseLockedWaitDelay:ms"),
        otherwise(ALWAYS_LOCKED, "useLock:flag=true"),
        Slot("filteredPersistenceAdapters", does=Does.NO_EFFECT, why=IN_JOURNAL),
        Slot("locker", LOCKERS),
        about="as kahaDB: one journal for all destinations",
    ),
    Kind(
        "memoryPersistenceAdapter",
        no_effect("nothing is kept on disk", "createTransactionStore:flag directory:text"),
        about="nothing is kept on disk",
    ),
    Kind(
        "kahaDBJobScheduler",
        no_effect(IN_JOURNAL, "directory:text journalMaxFileLength:size enableIndexWriteAsync:flag"),
        no_effect(IN_JOURNAL, "checkpointInterval:ms cleanupInterval:ms enableJournalDiskSyncs:flag"),
        about="scheduled messages are in the journal",
    ),
    Kind(
        "shared-file-locker",
        obeyed("failIfLocked:flag"),
        no_effect(WOKEN, "lockAcquireSleepInterval:ms"),
        otherwise("the lock is in the directory of the journal", "directory:text"),
        no_effect("the broker's name is used", "name:text"),
        about="brokers that are given one directory take turns: one serves, the others wait. It is the default, too",
    ),
    Kind(
        "lease-database-locker",
        obeyed("dataSource:text lockDataSource:text lockAcquireSleepInterval:ms leaseHolderId:text failIfLocked:flag"),
        no_effect("no clock but the broker's own is believed", "maxAllowableDiffFromDBTime:number"),
        no_effect("its table is made, or used as it is", "createTablesOnStartup:flag"),
        no_effect("no query takes longer than the lease allows", "queryTimeout:number"),
        otherwise("a database that does not answer is waited for", "handleStartException:flag=false"),
        no_effect("the broker's name is used", "name:text"),
        Slot("statements", ("statements",)),
        about="the lock is a lease in PostgreSQL or SQLite: `lockAcquireSleepInterval` is how long it lasts (10 s), "
        "`lockKeepAlivePeriod` of the store how often it is renewed (a fifth of that). `dataSource` refers to a bean "
        "with a JDBC URL, user and password",
    ),
    Kind(
        "statements",
        obeyed("lockTableName:text tablePrefix:text"),
        about="the name of the lock among others in the same database",
    ),
    *unobeyed(
        Does.REFUSED,
        "a lock that ends with a connection does not notice a broker that stands still",
        "database-locker",
        "transact-database-locker",
        remedy="use lease-database-locker with the same dataSource",
    ),
    *unobeyed(Does.NO_EFFECT, "scheduled messages are in the journal", "inMemoryJobSchedulerStore"),
    *unobeyed(
        Does.REFUSED,
        "messages are not kept in databases here",
        "jdbcPersistenceAdapter",
        remedy="use kahaDB: its directory will hold the journal",
    ),
    *unobeyed(
        Does.REFUSED,
        GONE,
        "journalPersistenceAdapter",
        "journalPersistenceAdapterFactory",
        "journaledJDBC",
        "levelDB",
        "replicatedLevelDB",
        "amqPersistenceAdapter",
        "amqPersistenceAdapterFactory",
        remedy="use kahaDB: its directory will hold the journal",
    ),
]

TRANSPORT_KINDS: Final = [
    Kind(
        "transportConnector",
        obeyed("name:text uri:text autoStart:flag allowLinkStealing:flag discoveryUri:text auditNetworkProducers:flag"),
        obeyed(
            "updateClusterClients:flag rebalanceClusterClients:flag updateClusterClientsOnRemove:flag",
            "updateClusterFilter:text",
        ),
        obeyed("maximumProducersAllowedPerConnection:number maximumConsumersAllowedPerConnection:number"),
        no_effect("slow and blocked connections are always noticed", "enableStatusMonitor:flag"),
        no_effect(ONE_THREAD, "disableAsyncDispatch:flag"),
        no_effect("see --log-level", "warnOnRemoteClose:flag displayStackTrace:flag"),
        Slot("publishedAddressPolicy", ("publishedAddressPolicy",)),
        Slot("messageAuthorizationPolicy", does=Does.REFUSED, why=CUSTOM),
        Slot("taskRunnerFactory", does=Does.NO_EFFECT, why=ONE_THREAD),
        Slot("discoveryAgent", does=Does.OTHERWISE, why="no beans are made; discoveryUri announces a broker"),
        about="a place to listen",
    ),
    Kind(
        "publishedAddressPolicy",
        obeyed("publishedHostStrategy:text clusterClientUriQuery:text"),
        Slot("portMapping", pairs=True),
        Slot("hostMapping", pairs=True),
        about="which address clients are told, with updateClusterClients",
    ),
    Kind(
        "sslContext",
        obeyed("keyStore:text keyStorePassword:text keyStoreKeyPassword:text trustStore:text trustStorePassword:text"),
        no_effect("the file itself tells", "keyStoreType:text trustStoreType:text"),
        no_effect("TLS is OpenSSL's", "keyStoreAlgorithm:text trustStoreAlgorithm:text secureRandomAlgorithm:text"),
        no_effect("TLS is OpenSSL's", "protocol:text provider:text keyManagerProvider:text"),
        refused("revocation lists are not read", "crlPath:text", remedy="revoke by the trust store"),
        about="certificates of every connector with TLS whose URI names none",
    ),
    Kind(
        "managementContext",
        otherwise(NO_JMX, "createConnector:flag=false"),
        no_effect(
            NO_JMX,
            "connectorPort:number connectorHost:text connectorPath:text rmiServerPort:number jmxDomainName:text",
            "useMBeanServer:flag createMBeanServer:flag findTigerMbeanServer:flag suppressMBean:text",
            "allowRemoteAddressInMBeanNames:flag",
        ),
        Slot("property", does=Does.NO_EFFECT, why=NO_JMX),
        about="JMX",
    ),
]

NETWORK_KINDS: Final = [
    Kind(
        "networkConnector",
        of_options(NetworkConnectorOptions, without=BRIDGES_WITHOUT),
        no_effect("ids of bridges begin with the names of the brokers", "useBrokerNameAsIdSees:flag=true"),
        no_effect("there are no figures that would have to be forgotten", "gcDestinationViews:flag gcSweepTime:ms"),
        no_effect("a bridge is within its own broker", "localUri:text"),
        refused(CUSTOM, "connectionFilter:text bridgeFactory:text"),
        refused("it refers to a Java bean", "sslContext:text", remedy="write <sslContext> inside"),
        Slot("excludedDestinations", DESTINATIONS, many=True),
        Slot("dynamicallyIncludedDestinations", DESTINATIONS, many=True),
        Slot("staticallyIncludedDestinations", DESTINATIONS, many=True),
        Slot("durableDestinations", does=Does.NO_EFFECT, why="it is computed"),
        Slot("sslContext", ("sslContext",)),
        Slot("bridgeFactory", does=Does.REFUSED, why=CUSTOM),
        Slot("connectionFilter", does=Does.REFUSED, why=CUSTOM),
        about="bridges to other brokers",
    ),
    *unobeyed(
        Does.REFUSED,
        "brokers are not looked up in LDAP",
        "ldapNetworkConnector",
        remedy="use networkConnector with static:(...)",
    ),
    *unobeyed(
        Does.REFUSED,
        "it needs multicast transports, which are not built",
        "multicastNetworkConnector",
        remedy='use networkConnector uri="multicast://default"',
    ),
]
