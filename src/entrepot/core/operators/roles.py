"""Who may do what at an address, in the words of Artemis' roles (artemis.md 7.1).

What a broker.xml or an operator said in these words is answered as it was said.
"""

from __future__ import annotations

from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.core.security.access import (
    BROWSE,
    CONSUME,
    CREATE,
    DELETE,
    EDIT,
    MANAGE,
    SEND,
    SUBSCRIBE,
    VIEW,
    grants,
    said,
)
from entrepot.model.address import ANYCAST, MULTICAST

BITS: Final[dict[str, int]] = {
    "send": SEND,
    "consume": CONSUME,
    "createDurableQueue": SUBSCRIBE,
    "deleteDurableQueue": SUBSCRIBE,
    "createNonDurableQueue": CREATE,
    "deleteNonDurableQueue": DELETE,
    "manage": MANAGE,
    "browse": BROWSE,
    "createAddress": CREATE,
    "deleteAddress": DELETE,
    "view": VIEW,
    "edit": EDIT,
}
"""Artemis' rights in their order -> which of ours each is; ours know no difference between queue and address."""


def roles(broker: BrokerCore, name: str) -> list[dict[str, object]]:
    """Return each group that has rights on the address ``name``, a pattern included; none where there are no rules."""
    permissions = said(broker.access, name)
    if permissions is not None:
        return [{"name": role} | {word: word in kinds for word in BITS} for role, kinds in permissions.items()]
    found: dict[str, int] = {}
    for routing in (ANYCAST, MULTICAST):
        for group, rights in grants(broker.access, name, routing).items():
            found[group] = found.get(group, 0) | rights
    return [
        {"name": group} | {word: rights & bit != 0 for word, bit in BITS.items()} for group, rights in found.items()
    ]


def role_rows(broker: BrokerCore, name: str) -> list[list[object]]:
    """Return the same as rows without names, as `getRoles` of Artemis does."""
    return [list(one.values()) for one in roles(broker, name)]
