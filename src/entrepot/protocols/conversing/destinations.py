"""Destinations as programs write them: ``queue://A``, ``topic://B``, ``temp-queue://...``; a bare name: a queue. [C]"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from entrepot.base.errors import InvalidDestination


class Kind(Enum):
    """Whom the messages of a destination go to, and how long it lives. The value is what stands before its name."""

    QUEUE = "queue://"
    TOPIC = "topic://"
    TEMPORARY_QUEUE = "temp-queue://"
    TEMPORARY_TOPIC = "temp-topic://"


LIKE_A_KIND: Final = re.compile(r"[A-Za-z-]+://")


def kind_and_name(text: str) -> tuple[Kind, str]:
    """Return what ``text`` names. Raises InvalidDestination for no name, or what looks like a kind and is none."""
    kind, name = Kind.QUEUE, text
    for each in Kind:
        if text.startswith(each.value):
            kind, name = each, text.removeprefix(each.value)
            break
    if not name.strip():
        raise InvalidDestination("a destination has no name")
    found = LIKE_A_KIND.match(name)
    if found is not None:
        known = ", ".join(each.value for each in Kind)
        raise InvalidDestination(f"{found[0]} in {text!r} is no kind of destination", remedy=f"write one of {known}")
    return kind, name


def is_queue(text: str) -> bool:
    """Tell whether each message goes to one consumer. Raises as `kind_and_name`."""
    return kind_and_name(text)[0] in (Kind.QUEUE, Kind.TEMPORARY_QUEUE)


def full_name(text: str) -> str:
    """Return ``text`` with its kind before it, ``queue://A`` for ``A``. Raises as `kind_and_name`."""
    kind, name = kind_and_name(text)
    return kind.value + name
