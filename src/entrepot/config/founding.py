"""A configuration made true in a broker that has just recovered: what exists from the start, and its standing orders.

The journal remembers queues and subscriptions; policies, diverts and virtual topics are configuration and said anew at
every start.
"""

from __future__ import annotations

from entrepot.config.model import BrokerConfig, CompositeEntry, Sharing, UsageOptions
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import composite, divert
from entrepot.core.addressing.policy import Policies
from entrepot.core.addressing.routing import Divert, VirtualTopic
from entrepot.core.broker import BrokerCore
from entrepot.core.options import BrokerOptions
from entrepot.core.sending.arrival import AS_SENT, Stamps
from entrepot.ha.lease import DURATION, LeaseOptions
from entrepot.ha.options import SharedStoreOptions
from entrepot.journal.limits import StoreLimits
from entrepot.model.address import ANYCAST
from entrepot.model.predicate import compile_selector
from entrepot.protocols.openwire.advisories import Advisories


def shared_store(sharing: Sharing, status: str = "") -> SharedStoreOptions:
    """Return how the store is shared, as `io/standby.py` wants it. Raises InvalidOption."""
    return SharedStoreOptions(
        locker=sharing.locker,
        lease=LeaseOptions(sharing.lease or DURATION, sharing.renew_every),
        status=status,
        part=sharing.part,
        failover_on_shutdown=sharing.failover_on_shutdown,
        allow_failback=sharing.allow_failback,
        restart_backup=sharing.restart_backup,
        holder=sharing.holder,
        twins=sharing.twins,
    )


WHY: str = "the configuration says so at every start (deleteAllMessagesOnStartup)"


def add_policies(config: BrokerConfig, policies: Policies) -> None:
    """Add what the configuration says about addresses. Raises InvalidOption."""
    for entry in config.policies:
        policies.put(entry.pattern, entry.settings, entry.routing)


def set_options(config: BrokerConfig, options: BrokerOptions) -> None:
    """Set what the configuration says about a broker that is not made yet."""
    plugins = config.plugins
    options.scheduler = config.broker.scheduler
    options.separator = plugins.separator
    options.refuses_durables = config.broker.refuse_durables
    users = config.broker.users_on_messages
    if plugins.persistence != AS_SENT or plugins.path_property or users:
        options.stamps = Stamps(options.name, plugins.persistence, plugins.path_property, users)


def set_advisories(config: BrokerConfig, advisories: Advisories) -> None:
    """Set what the configuration says about advisories."""
    advisories.anonymous = config.broker.anonymous_advisories
    advisories.virtual = config.broker.virtual_subscriptions
    advisories.virtual_on_creation = config.broker.virtual_on_creation


def found(config: BrokerConfig, broker: BrokerCore) -> None:
    """Bring a recovered broker to what the configuration says; call it within a turn. Raises Refused, StorageError."""
    if config.broker.delete_all:
        for queue in list(broker.table.queues.values()):
            broker.queues.delete(queue, WHY)
    broker.table.virtual_topics = [
        VirtualTopic(one.name, one.prefix, one.postfix, one.selective) for one in config.virtual_topics
    ]
    broker.table.mirror(config.mirror_prefix)
    for one in config.composites:
        broker.table.add_divert(_divert(one))
    for entry in config.diverts:
        condition = compile_selector(entry.selector) if entry.selector else None
        targets = list(entry.targets)
        broker.table.add_divert(
            divert(entry.name, entry.address, targets, entry.exclusive, condition, passes=entry.passes)
        )
    for definition in config.queues:
        known = broker.table.queues.get(definition.name)
        if known is None:
            broker.queues.create(definition)
        elif known.address == definition.address and known.routing == definition.routing:
            broker.queues.redefine(known, definition)
    for place in config.destinations:
        if place.routing != ANYCAST:
            broker.table.address(place.name).created_by_operator = True
        elif place.name not in broker.table.queues:
            broker.queues.create(QueueDefinition(name=place.name, address=place.name))


def _divert(entry: CompositeEntry) -> Divert:
    forwards = [
        (forward.target, compile_selector(forward.selector) if forward.selector else None) for forward in entry.forwards
    ]
    return composite(entry.name, entry.topic, forwards, entry.forward_only, entry.send_when_not_matched)


def set_limits(usage: UsageOptions, limits: StoreLimits, capacity: int) -> None:
    """Give a journal the limits of a configuration; percentages are of the ``capacity`` of its disk, in octets."""
    limits.capacity = capacity
    if usage.store_percent:
        limits.store = capacity * usage.store_percent // 100
    elif usage.store_limit:
        limits.store = usage.store_limit
    if usage.temp_percent:
        limits.temp = capacity * usage.temp_percent // 100
    elif usage.temp_limit:
        limits.temp = usage.temp_limit
    if usage.disk_free_min:
        limits.free_min = usage.disk_free_min
    elif usage.disk_percent_max:
        limits.free_min = capacity * (100 - usage.disk_percent_max) // 100
