"""Every element of ``broker.xml`` and what becomes of it here (artemis.md 1, 2, 4, 6.2, 7, 8.1).

A scalar is an element with text or an attribute, Artemis takes most of them as either; both are declared as an
attribute. A slot is a child with children of its own. The documentation and the reader both read these declarations.
"""

from __future__ import annotations

from typing import Final

from entrepot.cluster.carrying.options import CoreBridgeOptions
from entrepot.config.artemis.broker_connection_elements import BROKER_CONNECTION_KINDS, BROKER_CONNECTIONS
from entrepot.config.artemis.cluster_elements import SLOTS, cluster_kinds
from entrepot.config.artemis.federation_elements import FEDERATION_KINDS, FEDERATIONS
from entrepot.config.artemis.ha_elements import HA_KINDS
from entrepot.config.artemis.router_elements import ROUTER_KINDS, ROUTERS
from entrepot.config.artemis.transformer_elements import TRANSFORMER, TRANSFORMER_KINDS
from entrepot.config.vocabulary import (
    Dialect,
    Does,
    Kind,
    Slot,
    no_effect,
    obeyed,
    of_options,
    otherwise,
    registry,
)
from entrepot.core.addressing.address_settings import AddressSettings

RETENTION: Final = "journal-retention-directory"
CONTENT: Final = "content"  # an attribute that stands for the text of the element itself

COUNTED: Final = "message counters are enabled, and set, by operations of management"
NO_JMX: Final = "there is no JMX here"
ONE_THREAD: Final = "one thread takes all decisions"
ONE_JOURNAL: Final = "bindings, messages, pages and large bodies are in one journal"
ALWAYS_SYNCED: Final = "what is confirmed is synced, always; what arrives meanwhile shares the next sync"
OWN_FILES: Final = "the journal looks after its own files"

CORE: Final = Kind(
    "core",
    obeyed("name:text persistence-enabled:flag security-enabled:flag global-max-size:size journal-file-size:size"),
    obeyed("journal-directory:text"),
    no_effect(ONE_JOURNAL, "bindings-directory:text paging-directory:text large-messages-directory:text"),
    no_effect(ONE_JOURNAL, "create-bindings-dir:flag create-journal-dir:flag large-message-sync:flag"),
    no_effect(
        ALWAYS_SYNCED,
        "journal-sync-transactional:flag=true journal-sync-non-transactional:flag=true journal-datasync:flag=true",
        "journal-buffer-timeout:number page-sync-timeout:number journal-max-io:number journal-buffer-size:size",
        "journal-type:text journal-device-block-size:number journal-file-open-timeout:number",
        "log-journal-write-rate:flag journal-max-atticjournal-files:number",
    ),
    no_effect(
        OWN_FILES,
        "journal-min-files:number journal-pool-files:number journal-compact-min-files:number",
        "journal-compact-percentage:number page-max-concurrent-io:number read-whole-page:flag purge-page-folders:flag",
    ),
    no_effect(
        "the lock is kept alive and looked at, always",
        "journal-lock-monitor-timeout:ms journal-lock-monitor-max-retries:number",
    ),
    otherwise("a broker waits for its store for ever", "journal-lock-acquisition-timeout:number=-1"),
    otherwise("the lock is in the directory of the journal", "node-manager-lock-directory:text"),
    no_effect(
        ONE_THREAD,
        "thread-pool-max-size:number scheduled-thread-pool-max-size:number async-connection-execution-enabled:flag",
        "message-expiry-thread-priority:number",
    ),
    no_effect(NO_JMX, "jmx-management-enabled:flag jmx-domain:text jmx-use-broker-name:flag"),
    no_effect("expired messages leave their queue at once", "message-expiry-scan-period:ms"),
    no_effect("unused addresses are looked for now and then", "address-queue-scan-period:ms"),
    no_effect("duplicate ids are in the journal, always", "persist-id-cache:flag"),
    obeyed("id-cache-size:number connection-ttl-override:number"),
    obeyed("configuration-file-refresh-period:number"),
    no_effect("names are resolved when they are dialled", "resolve-protocols:flag"),
    no_effect(COUNTED, "message-counter-enabled:flag message-counter-sample-period:ms"),
    no_effect(COUNTED, "message-counter-max-day-history:number"),
    no_effect("nothing is dumped into the log", "server-dump-interval:number memory-measure-interval:number"),
    no_effect("there is no heap", "memory-warning-threshold:number"),
    no_effect(
        "connections are watched by the heart-beats of their protocol",
        "connection-ttl-check-interval:ms",
    ),
    obeyed("system-property-prefix:text"),
    no_effect("names of our own begin as Artemis has them", "internal-naming-prefix:text"),
    obeyed("max-disk-usage:number min-disk-free:size"),
    no_effect("the disk is looked at twice a second", "disk-scan-period:ms"),
    obeyed("global-max-messages:number transaction-timeout:ms"),
    no_effect("branches end when their time is over", "transaction-timeout-scan-period:ms"),
    obeyed("management-address:text management-notification-address:text suppress-session-notifications:flag"),
    no_effect(NO_JMX, "jmx-notification-enabled:flag"),
    obeyed("populate-validated-user:flag reject-empty-validated-user:flag wild-card-routing-enabled:flag"),
    otherwise("a stop waits a second for what was promised", "graceful-shutdown-enabled:flag=false"),
    no_effect("a stop waits a second for what was promised", "graceful-shutdown-timeout:number"),
    no_effect("users and rights are looked up anew", "security-invalidation-interval:ms"),
    obeyed("global-max-size-percent-of-jvm-max-memory:number literal-match-markers:text"),
    obeyed("temporary-queue-namespace:text uuid-namespace:text persist-delivery-count-before-delivery:flag"),
    no_effect("each return of a message is in the journal", "max-redelivery-records:number"),
    no_effect("there is one log", "log-delegate-factory-class-name:text"),
    no_effect("queues of subscriptions are named as those of CORE, always", "amqp-use-core-subscription-naming:flag"),
    no_effect("sessions of MQTT end at their time", "mqtt-session-scan-interval:ms"),
    no_effect("sessions of MQTT wait for no disk when they begin", "mqtt-session-state-persistence-timeout:ms"),
    otherwise(
        "sessions of MQTT that outlive their connection are kept", "mqtt-subscription-persistence-enabled:flag=true"
    ),
    otherwise(
        "what an acknowledgement of a mirror is about is looked for five times, 100 ms apart, in memory and on disk",
        "mirror-ack-manager-page-attempts:number=2 mirror-ack-manager-queue-attempts:number=5",
        "mirror-ack-manager-retry-delay:number=100",
    ),
    no_effect("`entrepot bridge list` counts them, always", "mirror-ack-manager-warn-unacked:flag"),
    no_effect("a message is one record for all its queues", "mirror-page-transaction:flag"),
    no_effect(
        "users and rights are looked up anew", "authentication-cache-size:number authorization-cache-size:number"
    ),
    obeyed("management-message-rbac:flag management-rbac-prefix:text view-permission-method-match-pattern:text"),
    obeyed("cluster-user:text cluster-password:text"),
    obeyed("mask-password:flag password-codec:text"),
    no_effect("no thread can hang unseen", "critical-analyzer:flag critical-analyzer-timeout:ms"),
    no_effect("no thread can hang unseen", "critical-analyzer-check-period:ms critical-analyzer-policy:text"),
    obeyed("network-check-list:text network-check-URL-list:text network-check-period:ms network-check-timeout:ms"),
    obeyed("network-check-NIC:text network-check-ping-command:text network-check-ping6-command:text"),
    Slot(RETENTION, (RETENTION,)),
    Slot("acceptors", ("acceptors",)),
    Slot("address-settings", ("address-settings",)),
    Slot("addresses", ("addresses",)),
    Slot("diverts", ("diverts",)),
    Slot("ha-policy", ("ha-policy",)),
    Slot("security-settings", ("security-settings",)),
    *SLOTS,
    Slot("bridges", ("bridges",)),
    BROKER_CONNECTIONS,
    FEDERATIONS,
    ROUTERS,
    Slot("lock-coordinators", does=Does.OTHERWISE, why="acceptors are not tied to locks"),
    Slot("store", does=Does.REFUSED, why="messages are not kept in databases here", remedy="leave it out: files"),
    Slot("wildcard-addresses", does=Does.OTHERWISE, why="the words of wildcards are those of both families"),
    Slot("metrics", does=Does.NO_EFFECT, why="figures are always kept"),
    Slot("metrics-plugin", does=Does.NO_EFFECT, why="figures are always kept"),
    Slot("broker-plugins", ("broker-plugins",)),
    Slot("remoting-incoming-interceptors", does=Does.REFUSED, why="a Java class cannot be loaded here"),
    Slot("remoting-outgoing-interceptors", does=Does.REFUSED, why="a Java class cannot be loaded here"),
    Slot("resource-limit-settings", ("resource-limit-settings",)),
    Slot("connector-services", does=Does.REFUSED, why="a Java class cannot be loaded here"),
    Slot("queues", does=Does.REFUSED, why="Artemis itself has dropped it", remedy="write <addresses>"),
    about="the broker itself",
)

_LISTS: Final = [
    Kind("acceptors", Slot("acceptor", ("acceptor",), many=True), about="places to listen"),
    Kind("address-settings", Slot("address-setting", ("address-setting",), many=True), about="settings of addresses"),
    Kind("addresses", Slot("address", ("address",), many=True), about="addresses that exist from the start"),
    Kind("bridges", Slot("bridge", ("bridge",), many=True), about="queues whose messages go to other brokers"),
    Kind("broker-plugins", Slot("broker-plugin", ("broker-plugin",), many=True), about="two plugins of Artemis itself"),
    Kind(
        "broker-plugin",
        obeyed("class-name:text"),
        Slot("property", ("property",), many=True),
        about="NotificationActiveMQServerPlugin is obeyed; LoggingActiveMQServerPlugin is --log-level debug here",
    ),
    Kind("diverts", Slot("divert", ("divert",), many=True), about="standing orders"),
    Kind(
        "security-settings",
        Slot("security-setting", ("security-setting",), many=True),
        Slot("security-setting-plugin", does=Does.REFUSED, why="a Java class cannot be loaded here"),
        Slot("role-mapping", ("role-mapping",), many=True),
        about="who may do what. Of several that cover an address the most specific one counts",
    ),
]

_PLACES: Final = [
    Kind(
        RETENTION,
        obeyed(f"unit:text=DAYS period:number=-1 storage-limit:size {CONTENT}:text"),
        about="where what the journal does not need any more is kept for `replay`, how long, and how much of it",
    ),
    Kind(
        "acceptor",
        obeyed(f"name:text {CONTENT}:text"),
        about="a place to listen. Of its protocols those are opened that this build speaks, and the others are named",
    ),
]

_DEFAULTS_HERE: Final = "the protocol says whether a name is a queue or a topic"

ADDRESS_SETTING: Final = Kind(
    "address-setting",
    obeyed("match:text"),
    of_options(AddressSettings, dialect=Dialect.ARTEMIS),
    no_effect(
        "what does not fit memory is paged to the journal",
        "page-size-bytes:size page-max-cache-size:number max-read-page-messages:number max-read-page-bytes:size",
        "prefetch-page-messages:number prefetch-page-bytes:size",
    ),
    no_effect("Artemis itself looks at it nowhere: who may fail fails, and all others wait", "disk-full-policy:text"),
    otherwise("a producer is blocked before that", "max-size-bytes-reject-threshold:size=-1"),
    no_effect(COUNTED, "message-counter-history-day-limit:number"),
    obeyed("last-value-queue:flag"),
    no_effect("an address that was made by itself has had a queue", "auto-delete-addresses-skip-usage-check:flag"),
    no_effect("answers are cut by their own limits", "management-browse-page-size:number"),
    no_effect("answers are cut by their own limits", "management-message-attribute-size-limit:number"),
    otherwise(_DEFAULTS_HERE, "default-queue-routing-type:text default-address-routing-type:text"),
    no_effect("it belongs to CORE clients", "default-consumer-window-size:number"),
    no_effect("figures are always kept", "enable-metrics:flag"),
    no_effect("queues grow as they need", "initial-queue-buffer-size:number"),
    no_effect(
        "Artemis itself looks at them no more",
        "auto-create-jms-queues:flag auto-create-jms-topics:flag auto-delete-jms-queues:flag",
        "auto-delete-jms-topics:flag",
    ),
    about="settings of the addresses that `match` covers; settings of several patterns merge",
)

_ADDRESSES: Final = [
    Kind(
        "address",
        obeyed("name:text"),
        Slot("anycast", ("anycast",)),
        Slot("multicast", ("multicast",)),
        about="an address with its queues",
    ),
    Kind("anycast", Slot("queue", ("queue",), many=True), about="queues that share in its messages"),
    Kind("multicast", Slot("queue", ("queue",), many=True), about="queues that each get its messages"),
    Kind(
        "queue",
        obeyed("name:text durable:flag max-consumers:number exclusive:flag purge-on-no-consumers:flag"),
        obeyed("consumers-before-dispatch:number delay-before-dispatch:number enabled:flag user:text"),
        obeyed("group-rebalance:flag group-rebalance-pause-dispatch:flag group-buckets:number group-first-key:text"),
        obeyed("last-value:flag last-value-key:text non-destructive:flag ring-size:number"),
        Slot("filter", ("filter",)),
        about="a queue that exists from the start",
    ),
    Kind("filter", obeyed("string:text"), about="a selector"),
    Kind(
        "divert",
        obeyed("name:text address:text forwarding-address:text exclusive:flag routing-type:text"),
        no_effect("a divert is known by its name", "routing-name:text"),
        obeyed("transformer-class-name:text"),
        Slot("filter", ("filter",)),
        TRANSFORMER,
        about="what is sent to one address goes to another too, or only",
    ),
    Kind(
        "security-setting",
        obeyed("match:text"),
        Slot("permission", ("permission",), many=True),
        about="rights on the addresses that `match` covers",
    ),
    Kind("permission", obeyed("type:text roles:text"), about="one right of some roles"),
    Kind("role-mapping", obeyed("from:text to:text"), about="who has the role `from` has the rights of the roles `to`"),
    Kind(
        "resource-limit-settings",
        Slot("resource-limit-setting", ("resource-limit-setting",), many=True),
        about="how much single users may have at once",
    ),
    Kind(
        "resource-limit-setting",
        obeyed("match:text max-sessions:number=-1 max-queues:number=-1 max-connections:number=-1"),
        about="of the user `match`: sessions of CORE, and queues that were made on his account; -1 any number",
    ),
]

_BRIDGES: Final = [
    Kind(
        "bridge",
        of_options(CoreBridgeOptions, dialect=Dialect.ARTEMIS),
        no_effect("a place that does not answer is tried again like any other", "reconnect-attempts-same-node:number"),
        no_effect("calls wait as long as the connection lives", "call-failover-timeout:number"),
        no_effect("Artemis itself has dropped it", "failover-on-server-shutdown:flag"),
        obeyed("transformer-class-name:text"),
        Slot("filter", ("filter",)),
        TRANSFORMER,
        Slot("static-connectors", ("static-connectors",)),
        Slot("discovery-group-ref", ("discovery-group-ref",)),
        about="a queue whose messages go to another broker",
    ),
]

_BETWEEN: Final = [
    *_BRIDGES,
    *HA_KINDS,
    *cluster_kinds(CONTENT),
    *ROUTER_KINDS,
    *FEDERATION_KINDS,
    *TRANSFORMER_KINDS,
    *BROKER_CONNECTION_KINDS,
]

KINDS: Final = registry([CORE, ADDRESS_SETTING, *_LISTS, *_PLACES, *_ADDRESSES, *_BETWEEN])
