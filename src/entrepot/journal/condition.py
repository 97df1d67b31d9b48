"""Whether the store takes something at this moment: well, tight, full, or dead for good. [C]

``tight`` comes from the disk before it is full: nothing is stored, settlements go on because they make room. ``full``
means that something that was asked for did not fit: nothing that waits is confirmed, until there is space again. Dead
is a store whose disk failed for another reason, or that another broker owns: it never confirms anything again.
"""

from __future__ import annotations

from entrepot.base.errors import EntrepotError, StorageError, StorageFull, StoreLost


class Condition:
    """``refusal``: why nothing may be stored, or None. ``dead``: the same, once it is for ever."""

    def __init__(self) -> None:
        self.refusal: EntrepotError | None = None
        self.full: bool = False
        self.dead: EntrepotError | None = None

    def tighten(self, error: EntrepotError) -> None:
        """Refuse to store from now on, go on with the rest."""
        if self.dead is None:
            self.refusal = error
            self.full = False

    def relieve(self) -> None:
        """Store again."""
        if self.dead is None:
            self.refusal = None
            self.full = False

    def fail(self, error: EntrepotError) -> bool:
        """Refuse for want of space, or for ever; return whether it is for ever. Call while not ``dead``."""
        self.refusal = error
        if isinstance(error, StorageFull):
            self.full = True
            return False
        self.dead = error
        return True


def again(error: EntrepotError) -> EntrepotError:
    """Return the same error afresh: one instance raised often would grow a traceback without end."""
    if isinstance(error, StorageFull):
        return StorageFull(error.message, remedy=error.remedy)
    if isinstance(error, StoreLost):
        return StoreLost(error.message, remedy=error.remedy)
    return StorageError(error.message, remedy=error.remedy)
