"""Permissions in the words of Artemis, and which rights here each set of them is (artemis.md 7.1).

Artemis guards what a client causes: a durable subscription is ``createDurableQueue``, a plain one of a topic
``createNonDurableQueue``. Here rights are about what a client does (`core/security/access.py`), so those
are read together:

    consume of a queue                 consume
    consume of a topic                 consume, and createNonDurableQueue or createDurableQueue
    subscribe durably, unsubscribe     createDurableQueue and deleteDurableQueue
    create, delete                     of a queue: ...Address and ...DurableQueue, of a topic: ...Address

A role that has a part of what is needed may less than in Artemis, never more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.base.errors import Refused
from entrepot.core.security.access import (
    BROWSE,
    CONSUME,
    CREATE,
    DELETE,
    EDIT,
    EVERYBODY,
    MANAGE,
    SEND,
    SUBSCRIBE,
    VIEW,
    Rule,
)
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED

Kinds = dict[str, bool]
"""The types of permission of one role, as a set with an order."""
Grants = tuple[tuple[str, int], ...]
"""Role and rights."""

SIMPLE: Final[Mapping[str, int]] = {"send": SEND, "consume": CONSUME, "browse": BROWSE, "manage": MANAGE}
CAUSED: Final = (
    "createAddress",
    "deleteAddress",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
)
OF_OPERATIONS: Final[Mapping[str, int]] = {"view": VIEW, "edit": EDIT}
"""What single operations of management take, with ``management-message-rbac``."""
PERMISSIONS: Final = (*SIMPLE, *OF_OPERATIONS, *CAUSED)


def held_by(said: Mapping[str, str]) -> dict[str, Kinds]:
    """Return role -> permissions of ``said``: permission -> roles, with commas between.

    Raises Refused for ``*``, which would be everybody here.
    """
    held: dict[str, Kinds] = {}
    for kind, roles in said.items():
        for role in (word.strip() for word in roles.split(",")):
            if role == EVERYBODY:
                raise Refused(f"* is no role for {kind}: it would be everybody", remedy="name the roles")
            if role:
                held.setdefault(role, {})[kind] = True
    return held


def granted(held: Mapping[str, Kinds], of: Callable[[Kinds], int]) -> Grants:
    """Return the rights of each role. ``of``: what a set of permissions is, one of those below."""
    return tuple((role, of(kinds)) for role, kinds in held.items())


def rules_of(pattern: str, held: Mapping[str, Kinds]) -> list[Rule]:
    """Return the rules of one pattern: for queues, and for topics."""
    return [
        Rule(pattern, ANYCAST, dict(granted(held, of_queue)), held),
        Rule(pattern, MULTICAST, dict(granted(held, of_topic)), held),
    ]


def temporary_of(pattern: str, held: Mapping[str, Kinds]) -> Rule:
    """Return the rule for temporary destinations that the permissions on ``pattern`` are."""
    return Rule(pattern, UNTYPED, dict(granted(held, of_temporary)))


def _common(kinds: Kinds) -> int:
    found = 0
    for kind, right in {**SIMPLE, **OF_OPERATIONS}.items():
        if kind in kinds:
            found |= right
    if "createDurableQueue" in kinds and "deleteDurableQueue" in kinds:
        found |= SUBSCRIBE
    return found


def of_queue(kinds: Kinds) -> int:
    """Return the rights on queues."""
    found = _common(kinds)
    if "createAddress" in kinds and "createDurableQueue" in kinds:
        found |= CREATE
    if "deleteAddress" in kinds and "deleteDurableQueue" in kinds:
        found |= DELETE
    return found


def of_topic(kinds: Kinds) -> int:
    """Return the rights on topics."""
    found = _common(kinds)
    if "createNonDurableQueue" not in kinds and "createDurableQueue" not in kinds:
        found &= ~CONSUME
    if "createAddress" in kinds:
        found |= CREATE
    if "deleteAddress" in kinds:
        found |= DELETE
    return found


def of_temporary(kinds: Kinds) -> int:
    """Return the rights on temporary destinations."""
    found = _common(kinds) & ~SUBSCRIBE
    if "createAddress" in kinds and "createNonDurableQueue" in kinds:
        found |= CREATE
    if "deleteNonDurableQueue" in kinds:
        found |= DELETE
    return found
