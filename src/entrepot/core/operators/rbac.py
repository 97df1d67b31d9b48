"""Rights on single operations: with ``management-message-rbac`` a request takes ``view`` or ``edit`` on its address.

That address is a prefix, the resource and the method, like ``mops.queue.orders.pause``: who may do it is said by the
rule that covers it, beside the right to manage that every request takes (artemis.md 7.1).
"""

from __future__ import annotations

import re
from typing import Final

from entrepot.base.errors import AccessDenied, InvalidOption
from entrepot.core.broker import BrokerCore
from entrepot.core.security.access import EDIT, VIEW
from entrepot.core.security.directory import Subject

PREFIX: Final = "mops"
VIEWS: Final = "^(get|is|count|list|browse|query).*$"
OWN_VIEWS: Final = re.compile("describe.*|explain|where")
"""Operations that Artemis does not have and that change nothing: they take ``view``, whatever the pattern says."""


class Guard:
    """Asks for these rights. ``prefix``: the first word of the addresses; ``views``: methods that only look."""

    def __init__(self, broker: BrokerCore, prefix: str, views: str) -> None:
        """Raises InvalidOption for a pattern that is none."""
        self.broker: Final = broker
        self.prefix: Final = prefix
        try:
            self._views: Final = re.compile(views)
        except re.error as error:
            raise InvalidOption(f"{views!r} is no pattern of methods: {error}") from None

    def check(self, subjects: list[Subject], resource: str, method: str) -> None:
        """Raise AccessDenied unless all of ``subjects``, who speak over one connection, may do that."""
        access = self.broker.access
        if not access.guarded:
            return
        looks = self._views.fullmatch(method) or OWN_VIEWS.fullmatch(method)
        right, name = (VIEW, "VIEW") if looks else (EDIT, "EDIT")
        address = f"{self.prefix}.{resource}.{method}"
        for subject in subjects:
            if not access.has_right(subject, address, right):
                raise AccessDenied(
                    f"AMQ229032: User: {subject.name} does not have permission='{name}' on address {address}"
                )
        if not subjects:
            raise AccessDenied(f"nobody is known who asks for {address}", remedy="keep the connection until the answer")
