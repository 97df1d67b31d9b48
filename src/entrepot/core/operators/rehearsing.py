"""What an operation of ``broker`` would come to, without doing it: `describeOutcome`.

For several processes that are one broker (`core/operators/together/`): each is asked before one of them does it, so
that what one would refuse is done at none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.address_control import address_named
from entrepot.core.operators.divert_control import changed_divert, divert_to_change, new_divert
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.making import MISSING, THERE, Making

Look = Callable[[Arguments], object]


class Rehearsal:
    """Looks what the operations of one broker would come to."""

    def __init__(self, broker: BrokerCore) -> None:
        making = Making(broker)
        self._queues: Final[dict[str, Callable[[Arguments], str]]] = {
            "createQueue": making.describe_to_make,
            "deployQueue": making.describe_to_make,
        }
        self._makes: Final[dict[str, Look]] = {
            "createAddress": making.address_to_make,
            "createDivert": partial(new_divert, broker),
        }
        self._changes: Final[dict[str, tuple[Look, Look]]] = {  # finds what is to change; looks whether it can
            "updateAddress": (lambda given: address_named(broker, given.text(0)), making.address_to_change),
            "deleteAddress": (lambda given: address_named(broker, given.text(0)), making.address_to_delete),
            "updateQueue": (making.queue_asked_for, making.queue_to_change),
            "destroyQueue": (making.queue_named, making.queue_to_destroy),
            "updateDivert": (partial(divert_to_change, broker), partial(changed_divert, broker)),
        }

    def describe(self, given: Arguments) -> str:
        """Take (operation, what that takes); return what it would find, and raise what it would raise.

        `MISSING`: nothing is there yet; `THERE`: it would change that; `SAME`, `OTHER`: such a queue, or another one of
        that name, which `createQueue` would leave alone. Raises Refused for any other operation.
        """
        operation = given.text(0)
        asked = Arguments(operation, given.values[1:], given.askers)
        if operation in self._queues:
            return self._queues[operation](asked)
        if operation in self._makes:
            self._makes[operation](asked)
            return MISSING
        if operation not in self._changes:
            known = ", ".join([*self._queues, *self._makes, *self._changes])
            raise Refused(f"nothing can be said of {operation!r} before it is done", remedy=f"ask about {known}")
        find, look = self._changes[operation]
        try:
            find(asked)
        except InvalidDestination:
            return MISSING
        look(asked)
        return THERE
