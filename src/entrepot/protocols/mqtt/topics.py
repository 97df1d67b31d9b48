"""Topics of MQTT and addresses of the broker: the same names, written with other characters. [C]

Both families swap characters: ``/`` and ``.``, ``+`` and ``*``, ``#`` and ``>`` (classic.md 6.4), so each name has one
on the other side and comes back as it was. A level that is ``>`` in a topic would become the wildcard ``#`` of Artemis:
it gets a backslash, and one more if it has some already.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import InvalidDestination
from entrepot.base.patterns import WORDS_MAX
from entrepot.model.address import NAME_OCTETS_MAX

SWAPPED: Final = str.maketrans("/.+*#>", "./*+>#")
SHARE: Final = "$share/"
VIRTUAL: Final = "VirtualTopic."
LEVELS: Final = ("AT_MOST_ONCE", "AT_LEAST_ONCE", "EXACTLY_ONCE")  # what Classic calls QoS, in names of queues
_LITERAL: Final = re.compile(r"(?<![^.])(\\*#)(?![^.])")
_ESCAPED: Final = re.compile(r"(?<![^.])\\(\\*#)(?![^.])")
_FOREIGN: Final = re.compile(r"[+#]")


def address_of(topic: str, virtual: bool = False) -> str:
    """Return the address, or the pattern of addresses, of a topic or filter; ``virtual``: of a virtual topic."""
    name = topic.translate(SWAPPED)
    if "#" in name:
        name = _LITERAL.sub(r"\\\1", name)
    return VIRTUAL + name if virtual and not name.startswith(VIRTUAL) else name


def topic_of(address: str, virtual: bool = False) -> str:
    """Return the topic of an address. What no topic may hold, in a name that came from elsewhere, is ``_``."""
    if virtual and address.startswith(VIRTUAL):
        address = address[len(VIRTUAL) :]
    name = _ESCAPED.sub(r"\1", address) if "#" in address else address
    topic = name.translate(SWAPPED)
    return _FOREIGN.sub("_", topic) if "+" in topic or "#" in topic else topic


def virtual_queue(client_id: str, qos: i64, text: str) -> str:
    """Return what Classic calls the queue of a lasting subscription to a virtual topic (classic.md 6.4).

    Dots and backslashes of the client id get a backslash, as in names of durable subscriptions: without it the queue of
    one client could have the name of another's, and rights by the levels of a name would be read in the wrong place.
    """
    client = client_id.replace("\\", "\\\\").replace(".", "\\.")
    return f"Consumer.{client}:{LEVELS[int(qos)]}.{address_of(text, True)}"


def check_length(name: str) -> None:
    """Raise InvalidDestination for a name that is longer, or has more levels, than this broker keeps."""
    if len(name.encode()) > NAME_OCTETS_MAX or name.count("/") >= WORDS_MAX:
        raise InvalidDestination(
            f"a topic that begins {name[:40]!r} is longer than {NAME_OCTETS_MAX} octets or has {WORDS_MAX} levels",
            remedy="use a shorter one",
        )


def check_topic(topic: str) -> None:
    """Raise InvalidDestination for what cannot be published to (5: 4.7)."""
    if not topic:
        raise InvalidDestination("a topic is empty")
    if "+" in topic or "#" in topic:
        raise InvalidDestination(f"the topic {topic!r} holds a wildcard", remedy="publish to a name without + and #")
    check_length(topic)


def check_filter(text: str) -> None:
    """Raise InvalidDestination for what is no filter (5: 4.7.1)."""
    if not text:
        raise InvalidDestination("a filter is empty")
    check_length(text)
    levels = text.split("/")
    for at, level in enumerate(levels):
        if ("#" in level and (level != "#" or at != len(levels) - 1)) or ("+" in level and level != "+"):
            raise InvalidDestination(
                f"{text!r} is no filter", remedy="+ stands alone between slashes, # alone and at the end"
            )


def shared(text: str) -> tuple[str, str]:
    """Return the share name and the filter of a subscription, "" for one that is not shared (5: 4.8.2).

    Raises InvalidDestination.
    """
    if not text.startswith(SHARE):
        if text == "$share":
            raise InvalidDestination("a shared subscription has no name", remedy="write $share/NAME/FILTER")
        check_filter(text)
        return "", text
    name, slash, rest = text[len(SHARE) :].partition("/")
    if not name or not slash or not rest or "+" in name or "#" in name:
        raise InvalidDestination(f"{text!r} is no shared subscription", remedy="write $share/NAME/FILTER")
    check_filter(rest)
    return name, rest
