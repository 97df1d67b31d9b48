"""What a client of AMQP calls an address: prefixes, capabilities, ``address::queue``, filters, subscriptions. [C]

An address says by itself what it is (``queue://A``, ``topic://A``, a prefix of the listener), or its terminus does by a
capability, as Qpid JMS has it; one that says nothing is what the broker's settings make of it (artemis.md 4.1).
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidDestination
from entrepot.base.values import INT_MAX, whole
from entrepot.core.addressing.routing import default_routing
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.model.address import ANYCAST, MULTICAST, NAME_OCTETS_MAX, UNTYPED, Destination
from entrepot.model.predicate import Predicate
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.performatives import Source
from entrepot.protocols.amqp.primitives import Described
from entrepot.protocols.amqp.refusals import INVALID_FIELD, AmqpRefused

QUEUE: Final = "queue"
TOPIC: Final = "topic"
TEMPORARY_QUEUE: Final = "temporary-queue"
TEMPORARY_TOPIC: Final = "temporary-topic"
SHARED: Final = "shared"
GLOBAL: Final = "global"

PREFIXES: Final = (
    ("queue://", ANYCAST, False),
    ("topic://", MULTICAST, False),
    ("temp-queue://", ANYCAST, True),
    ("temp-topic://", MULTICAST, True),
)
SELECTOR: Final = ("apache.org:selector-filter:string", 0x0000468C00000004)
NO_LOCAL: Final = ("apache.org:no-local-filter:list", 0x0000468C00000003)
PRIORITY: Final = "consumer-priority"
COPY: Final = "copy"
NEVER: Final = "never"
BAR: Final = "|"


def routing_of(capabilities: list[str]) -> tuple[int, bool]:
    """Return the routing type that ``capabilities`` say, and whether they say that the node is temporary."""
    temporary = TEMPORARY_QUEUE in capabilities or TEMPORARY_TOPIC in capabilities
    if TOPIC in capabilities or TEMPORARY_TOPIC in capabilities:
        return MULTICAST, temporary
    if QUEUE in capabilities or TEMPORARY_QUEUE in capabilities:
        return ANYCAST, temporary
    return UNTYPED, False


def place(address: object, capabilities: list[str], options: AmqpOptions, broker: BrokerCore) -> Destination:
    """Return what an address means. Raises InvalidDestination."""
    if not isinstance(address, str):
        raise InvalidDestination("the address of a terminus is no text", remedy="name it like orders")
    routing, temporary = routing_of(capabilities)
    return named(address, routing, temporary, options, broker)


def named(text: str, routing: int, temporary: bool, options: AmqpOptions, broker: BrokerCore) -> Destination:
    """Return what ``text`` means, which is of ``routing`` if it does not say so itself. Raises InvalidDestination."""
    name = text
    for prefixes, meant in ((options.anycast_prefixes, ANYCAST), (options.multicast_prefixes, MULTICAST)):
        for prefix in prefixes:
            if name.startswith(prefix):
                name = name[len(prefix) :]
                routing = meant
                break
    for prefix, meant, fleeting in PREFIXES:
        if name.startswith(prefix):
            name = name[len(prefix) :]
            routing = meant
            temporary = fleeting
            break
    name, _, query = name.partition("?")
    address, _, queue = name.partition("::")
    check(address, text)
    if queue:
        check(queue, text)
    temporary = temporary or address.startswith(broker.temporary_prefix)
    made = Destination(address, routing, temporary, queue)
    made.options = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    return made


def check(name: str, text: str) -> None:
    """Raise InvalidDestination for what is no name."""
    if not name:
        raise InvalidDestination(f"the address {text!r} has no name", remedy="name it like orders, or queue://orders")
    if len(name.encode("utf-8", "replace")) > NAME_OCTETS_MAX:
        raise InvalidDestination(f"a name is longer than {NAME_OCTETS_MAX} octets", remedy="shorten it")
    for character in name:
        if character < " " or character == "\x7f":
            raise InvalidDestination(f"the name {text!r} holds a control character", remedy="use printable ones")


def is_topic(where: Destination, broker: BrokerCore) -> bool:
    """Return whether who reads ``where`` gets copies of his own."""
    if where.queue:
        return False
    routing = where.routing
    if routing == UNTYPED:
        routing = default_routing(broker.table, where.name)
    return routing == MULTICAST


def priority_of(where: Destination) -> int:
    """Return the priority of who reads ``where``, in the words of either family. Raises InvalidDestination."""
    text = where.options.get(PRIORITY, where.options.get("consumer.priority", "0"))
    try:
        return whole(text, -INT_MAX, INT_MAX)
    except ValueError:
        raise InvalidDestination(f"{text!r} is no priority of a consumer") from None


class Filters:
    """The filters of a source that are obeyed. ``kept``: as the peer said them."""

    def __init__(self) -> None:
        self.selector: Predicate | None = None
        self.no_local: bool = False
        self.kept: dict[str, object] = {}


def filters_of(source: Source) -> Filters:
    """Return what the filters of ``source`` ask for; unknown ones are not kept. Raises AmqpRefused."""
    found = Filters()
    for name, value in (source.filter or {}).items():
        if not isinstance(value, Described):
            continue
        if value.descriptor in SELECTOR:
            if not isinstance(value.value, str):
                raise AmqpRefused("a selector is no text", INVALID_FIELD)
            found.selector = selector_or_none(value.value)
            found.kept[name] = value
        elif value.descriptor in NO_LOCAL:
            found.no_local = True
            found.kept[name] = value
    return found


class Subscribed:
    """How a subscription to a topic is called. ``durable``: it outlives its link."""

    def __init__(self, link_name: str, source: Source, container_id: str) -> None:
        self.durable: bool = source.durable > 0 or source.expiry_policy == NEVER
        self.shared: bool = SHARED in source.capabilities
        everywhere = GLOBAL in source.capabilities
        self.name: str = link_name.partition(BAR)[0] if self.shared else link_name
        self.client_id: str = "" if everywhere else container_id

    def volatile_queue(self) -> str:
        """Return the name of the queue of a shared subscription that goes with its last reader (artemis.md 5.3)."""
        owner = f"{self.client_id}." if self.client_id else ""
        end = "" if self.client_id else ":global"
        return f"nonDurable.{owner}{self.name}:shared-volatile{end}"


def looked_up(link_name: str, container_id: str) -> tuple[str, str]:
    """Return client id and name of the durable subscription that a link without a source asks for."""
    name, bar, rest = link_name.partition(BAR)
    return ("" if bar and rest.startswith(GLOBAL) else container_id), name
