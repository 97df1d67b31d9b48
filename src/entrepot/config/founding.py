"""A configuration made true in a broker that has just recovered: what exists from the start, and its standing orders.

The journal remembers queues and subscriptions; policies, diverts and virtual topics are configuration and said anew at
every start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidOption, Refused
from entrepot.config.model import BrokerConfig, CompositeEntry, DivertEntry, Sharing, UsageOptions
from entrepot.core.addressing.address_settings import Full
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import composite, divert
from entrepot.core.addressing.policy import Policies
from entrepot.core.addressing.routing import Divert, VirtualTopic
from entrepot.core.addressing.upkeep_settings import Undeploy
from entrepot.core.arrival import AS_SENT, Stamps
from entrepot.core.broker import BrokerCore
from entrepot.core.mirrors.identity import MIRROR
from entrepot.core.options import BrokerOptions
from entrepot.ha.lease import DURATION, LeaseOptions
from entrepot.ha.options import SharedStoreOptions
from entrepot.journal.limits import StoreLimits
from entrepot.model.address import ANYCAST, ROUTING_NAMES
from entrepot.model.predicate import compile_selector
from entrepot.protocols.openwire.advisories import Advisories


def shared_store(sharing: Sharing, status: str = "", connectors: Mapping[str, str] | None = None) -> SharedStoreOptions:
    """Return how the store is shared, as `io/standby.py` wants it; ``connectors`` as there. Raises InvalidOption."""
    if sharing.copies is not None:
        raise InvalidOption(
            "the file says <replication>, and not where replicas connect",
            remedy="add --ha replication --replication HOST:PORT --peer HOST:PORT, see docs/replication.md",
        )
    return SharedStoreOptions(
        locker=sharing.locker,
        lease=LeaseOptions(sharing.lease or DURATION, sharing.renew_every),
        status=status,
        part=sharing.part,
        failover_on_shutdown=sharing.failover_on_shutdown,
        allow_failback=sharing.allow_failback,
        restart_backup=sharing.restart_backup,
        drains=sharing.drains,
        holder=sharing.holder,
        twins=sharing.twins,
        connectors=connectors,
    )


WHY: Final = "the configuration says so at every start (deleteAllMessagesOnStartup)"


LEFT_OUT: Final = "the configuration does not name it any more (config-delete-queues, config-delete-addresses)"
OF_EVENTS: Final = {
    "prioritized": False,
    "full": Full.PAGE,
    "max_octets": 64 * MIB,
    "max_messages": -1,
    "page_messages": -1,
    "page_octets": -1,
    "max_deliveries": -1,
    "redelivery_delay": 0,
    "dead_letter_address": "",
    "expiry_address": "",
    "expiry_ms": -1,
    "expiry_ms_min": -1,
    "expiry_ms_max": -1,
}
"""How the queue with the events of a mirror is: they keep their order, wait on disk, and none is lost or given up."""
INTERNAL: Final = "$"  # before names of the broker's own

Say = Callable[[str, str], None]
"""Takes what an operator should know: about what, and what."""


def unheard(who: str, what: str) -> None:
    """Tell nobody."""


def add_policies(config: BrokerConfig, policies: Policies) -> None:
    """Add what the configuration says about addresses. Raises InvalidOption."""
    for entry in config.policies:
        policies.put(entry.pattern, entry.settings, entry.routing, literal=entry.literal)
    for connection in config.amqp_connections:
        if connection.mirror is not None:
            policies.put(MIRROR + connection.name, OF_EVENTS, literal=True)
    policies.base = dict(config.base)
    policies.namespace = config.serving.uuid_namespace


def set_options(config: BrokerConfig, options: BrokerOptions) -> None:
    """Set what the configuration says about a broker that is not made yet."""
    plugins = config.plugins
    options.scheduler = config.broker.scheduler
    options.separator = plugins.separator
    options.refuses_durables = config.broker.refuse_durables
    users = config.broker.users_on_messages
    demands = config.serving.demands_user
    if plugins.persistence != AS_SENT or plugins.path_property or users or demands:
        options.stamps = Stamps(options.name, plugins.persistence, plugins.path_property, users, demands)
    options.messages_max = config.serving.messages_max
    options.wildcards = config.serving.wildcards


def set_advisories(config: BrokerConfig, advisories: Advisories) -> None:
    """Set what the configuration says about advisories."""
    advisories.anonymous = config.broker.anonymous_advisories
    advisories.virtual = config.broker.virtual_subscriptions
    advisories.virtual_on_creation = config.broker.virtual_on_creation


def found(config: BrokerConfig, broker: BrokerCore, say: Say = unheard) -> None:
    """Bring a recovered broker to what the configuration says; call it within a turn. Raises Refused, StorageError.

    ``say``: takes what of it cannot be done, and what is deleted since the file does not name it any more.
    """
    if config.broker.delete_all:
        for queue in list(broker.table.queues.values()):
            broker.queues.delete(queue, WHY)
    broker.table.virtual_topics = [
        VirtualTopic(one.name, one.prefix, one.postfix, one.selective) for one in config.virtual_topics
    ]
    broker.table.mirror(config.mirror_prefix)
    for one in config.composites:
        broker.queues.follow(_divert(one))
    for entry in config.diverts:
        broker.queues.follow(divert_of(entry))
    undeploy(config, broker, say)
    deploy(config, broker, say, patiently=False)
    for place in config.destinations:
        if place.routing != ANYCAST:
            broker.table.address(place.name).created_by_operator = True
        elif place.name not in broker.table.queues:
            broker.queues.create(QueueDefinition(name=place.name, address=place.name))


def divert_of(entry: DivertEntry) -> Divert:
    """Return a divert of Artemis. Raises InvalidSelector."""
    condition = compile_selector(entry.selector) if entry.selector else None
    return divert(
        entry.name,
        entry.address,
        list(entry.targets),
        entry.exclusive,
        condition,
        passes=entry.passes,
        headers=entry.headers,
    )


def deploy(config: BrokerConfig, broker: BrokerCore, say: Say, *, patiently: bool) -> None:
    """Make the addresses and queues that the file names, or change those that are there as far as queues can change.

    ``patiently``: a queue that is refused is told of, and the others are made. Raises Refused, StorageError.
    """
    for one in config.addresses:
        broker.queues.declare(one.name, one.types)
    for definition in config.queues:
        try:
            _deploy(definition, broker, say)
        except Refused as refusal:
            if not patiently:
                raise
            say(f"queue {definition.name}", str(refusal))


def _deploy(definition: QueueDefinition, broker: BrokerCore, say: Say) -> None:
    """Make one queue, or change it. Raises Refused, StorageError."""
    known = broker.table.queues.get(definition.name)
    if known is None:
        broker.queues.create(definition)
    elif known.address != definition.address:
        say(f"queue {known.name}", f"it exists at the address {known.address!r}, the file says {definition.address!r}")
    elif known.routing != definition.routing:
        had, wanted = ROUTING_NAMES[known.routing], ROUTING_NAMES[definition.routing]
        say(f"queue {known.name}", f"it is {had} for good, the file says {wanted}: delete it first")
    else:
        broker.queues.redefine(known, definition)


def undeploy(config: BrokerConfig, broker: BrokerCore, say: Say) -> None:
    """Delete what the file does not name any more, where the settings of its address say FORCE (artemis.md 4.1).

    Of queues those go that a file named once; with an address, all of its queues do. An address that came to be with
    its first message, or reader, is no matter of the file. Diverts go whoever made them.
    """
    forces = ("undeploy_queues", "undeploy_addresses", "undeploy_diverts")
    if not any(name in one.settings for one in config.policies for name in forces):
        return
    _remove_diverts({one.name for one in config.diverts}, broker, say)
    named = {one.name for one in config.addresses}
    queues = {(one.address, one.name) for one in config.queues}
    for address in list(broker.table.addresses.values()):
        given = broker.policies.of(address.name).given
        bound = [*address.anycast, *address.multicast]
        goes = (
            address.created_by_operator
            and address.name not in named
            and not address.name.startswith(INTERNAL)
            and given.undeploy_addresses == Undeploy.FORCE
        )
        for queue in bound:
            left_out = queue.definition.configured and (queue.address, queue.name) not in queues
            if goes or (left_out and given.undeploy_queues == Undeploy.FORCE):
                say(f"queue {queue.name}", "deleted: the file does not name it, or its address, any more")
                broker.queues.delete(queue, LEFT_OUT)
        if goes:
            say(f"address {address.name}", "deleted: the file does not name it any more")
            broker.queues.undeclare(address)


def _remove_diverts(named: set[str], broker: BrokerCore, say: Say) -> None:
    for one in [one for diverts in broker.table.diverts.values() for one in diverts]:
        forced = broker.policies.of(one.address).given.undeploy_diverts == Undeploy.FORCE
        if forced and one.marks and one.name not in named:
            say(f"divert {one.name}", "removed: the file does not name it")
            broker.queues.forget(one.name)


def renew(config: BrokerConfig, had: BrokerConfig, broker: BrokerCore, say: Say) -> None:
    """Bring a broker that runs by ``had`` to what ``config`` says of diverts, addresses and queues; within a turn.

    Settings of addresses are ``config``'s already. Raises StorageError.
    """
    before = {one.name: one for one in had.diverts}
    for entry in config.diverts:
        if before.get(entry.name) != entry:
            broker.queues.follow(divert_of(entry))
    undeploy(config, broker, say)
    deploy(config, broker, say, patiently=True)


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
