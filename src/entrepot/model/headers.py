"""What a transformer of Artemis makes of messages here: properties that are set on them (artemis.md 4.15).

Artemis loads a class; the one that its distribution has is `ADD_HEADERS`, and it is obeyed. Its properties are
annotations of a message, which every protocol shows as string properties, in place of those that have the same name.
Their names are noted, since AMQP tells what a program said from what a broker did. [C]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.errors import Refused
from entrepot.model.message import Message, Rare

ADD_HEADERS: Final = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
MOST: Final = 100
"""Properties of one transformer."""
OCTETS_MOST: Final = 64 * 1024
"""Of all their names and values: each message carries them."""
OWN: Final = ("_AMQ", "_HQ", "AMQ_", "entrepot.", "JMS")
"""What names begin with that brokers keep for themselves."""
_ADDED: Final = "added-headers"
"""The internal annotation with the names, one a line."""

Headers = tuple[tuple[str, str], ...]


def headers_of(class_name: str, properties: Mapping[str, str]) -> Headers:
    """Return what the transformer ``class_name`` sets, which has ``properties``. Raises Refused for another class."""
    if class_name != ADD_HEADERS:
        raise Refused(
            f"the transformer {class_name or 'without a class-name'} cannot run: a Java class cannot be loaded here",
            remedy=f"use {ADD_HEADERS}, or let a program change messages between two queues",
        )
    if len(properties) > MOST:
        raise Refused(f"a transformer sets {len(properties)} properties: {MOST} are the most")
    for name in properties:
        if not name or not name.isprintable() or name.startswith(OWN):
            raise Refused(
                f"a transformer cannot set the property {name[:80]!r}: the broker keeps such names for itself",
                remedy=f"use a name that does not begin with {', '.join(OWN)}",
            )
    octets = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
    if octets > OCTETS_MOST:
        raise Refused(f"what a transformer sets has {octets} octets: {OCTETS_MOST} are the most")
    return tuple(properties.items())


def set_headers(message: Message, headers: Headers) -> None:
    """Set ``headers`` on ``message``, in place of properties that have their names."""
    if not headers:
        return
    names = dict.fromkeys(added(message.need_rare()))
    for name, value in headers:
        message.annotate(name, value)
        names[name] = None
    message.mark(_ADDED, "\n".join(names))


def added(rare: Rare) -> list[str]:
    """Return the names of those annotations that a transformer set."""
    internal = rare.internal
    said = None if internal is None else internal.get(_ADDED)
    return said.split("\n") if isinstance(said, str) and said else []
