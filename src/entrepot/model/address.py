"""Names: the address model of Artemis, and how the names of ActiveMQ Classic and of STOMP map onto it.

An *address* is a name with routing types; a *queue* is bound to one address. ANYCAST gives a message to one queue of
the address, MULTICAST to each. Classic's queue ``X`` is address ``X`` with the anycast queue ``X``; topic ``X`` is
address ``X`` with one multicast queue a subscription (artemis.md 4.1). ``address::queue`` names one queue (FQQN).
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidDestination, InvalidOption

ANYCAST: Final = 0
MULTICAST: Final = 1
UNTYPED: Final = 2  # the address decides: its own routing type, or the default of its settings

ROUTING_NAMES: Final = ("ANYCAST", "MULTICAST", "BOTH")

NAME_OCTETS_MAX: Final = 10_000  # below the STOMP header line limit of 10,240 (classic.md 6.3) and the journal's u16

QUEUE_PREFIXES: Final = ("queue://", "/queue/")
TOPIC_PREFIXES: Final = ("topic://", "/topic/")
TEMPORARY_QUEUE_PREFIXES: Final = ("temp-queue://", "/temp-queue/", "/remote-temp-queue/")
TEMPORARY_TOPIC_PREFIXES: Final = ("temp-topic://", "/temp-topic/", "/remote-temp-topic/")


class Destination:
    """One destination as a client names it. ``queue`` is set for an FQQN only; ``options`` are its ``?consumer.*``."""

    __slots__ = ("name", "options", "queue", "routing", "temporary")

    def __init__(self, name: str, routing: int, temporary: bool = False, queue: str = "") -> None:
        self.name = name
        self.routing = routing
        self.temporary = temporary
        self.queue = queue
        self.options: dict[str, str] = {}

    @property
    def is_topic(self) -> bool:
        """Return whether this is a topic of Classic."""
        return self.routing == MULTICAST

    def qualified(self) -> str:
        """Return Classic's text form: ``queue://A``, ``topic://A``, ``temp-queue://A``, ``temp-topic://A``."""
        kind = "topic" if self.routing == MULTICAST else "queue"
        return f"temp-{kind}://{self.name}" if self.temporary else f"{kind}://{self.name}"

    def stomp(self) -> str:
        """Return the form that STOMP clients use: ``/queue/A`` and so on."""
        kind = "topic" if self.routing == MULTICAST else "queue"
        return f"/temp-{kind}/{self.name}" if self.temporary else f"/{kind}/{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Destination) and self.qualified() == other.qualified() and self.queue == other.queue

    def __hash__(self) -> int:
        return hash((self.qualified(), self.queue))

    def __repr__(self) -> str:
        return f"Destination({self.qualified()!r})"


def parse(text: str, routing: int = UNTYPED) -> list[Destination]:
    """Return the destinations that ``text`` names: one, or several for a composite ``A,topic://B``.

    ``routing`` is that of a part without a prefix (STOMP's ``destination-type`` header). Options behind ``?`` belong to
    every part. Raises InvalidDestination for an empty, overlong or unreadable name.
    """
    names, _, query = text.partition("?")
    options = _options(query, text)
    found: list[Destination] = []
    for part in names.split(","):
        destination = _one(part.strip(), routing, text)
        destination.options = options
        if destination not in found:  # the same one twice is one copy: Classic keeps composites in a set
            found.append(destination)
    return found


def parse_one(text: str, routing: int = UNTYPED) -> Destination:
    """Return the single destination that ``text`` names. Raises InvalidDestination for a composite."""
    found = parse(text, routing)
    if len(found) > 1:
        raise InvalidDestination(f"{text!r} names several destinations where one is wanted", remedy="use one name")
    return found[0]


def _one(part: str, routing: int, whole: str) -> Destination:
    name = part
    temporary = False
    for prefixes, kind, fleeting in (
        (QUEUE_PREFIXES, ANYCAST, False),
        (TOPIC_PREFIXES, MULTICAST, False),
        (TEMPORARY_QUEUE_PREFIXES, ANYCAST, True),
        (TEMPORARY_TOPIC_PREFIXES, MULTICAST, True),
    ):
        for prefix in prefixes:
            if part.startswith(prefix):
                name = part[len(prefix) :]
                routing = kind
                temporary = fleeting
    name, _, queue = name.partition("::")
    if not name or ("::" in part and not queue):
        raise InvalidDestination(f"the destination {whole!r} has an empty name", remedy="name it like /queue/orders")
    if max(len(name.encode()), len(queue.encode())) > NAME_OCTETS_MAX:
        raise InvalidDestination(f"a destination name is longer than {NAME_OCTETS_MAX} octets", remedy="shorten it")
    for character in name + queue:
        if character < " " or character == "\x7f":
            raise InvalidDestination(f"the name {whole!r} holds a control character", remedy="use printable ones")
    return Destination(name, routing, temporary, queue)


def _options(query: str, whole: str) -> dict[str, str]:
    options: dict[str, str] = {}
    if query:
        for pair in query.split("&"):
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise InvalidOption(f"{pair!r} in the destination {whole!r} is not key=value")
            options[key] = value
    return options
