"""Who waits for which batch, and is called when it is on disk, in the order of asking. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.journal.ports import Waiter


class Group:
    """Everybody who waits for one batch."""

    def __init__(self, sequence: i64) -> None:
        self.sequence: i64 = sequence
        self.waiters: list[Waiter] = []
        self.tokens: list[bytes] = []


class Waiting:
    """The groups of those who wait, by rising number of their batch."""

    def __init__(self) -> None:
        self.groups: list[Group] = []

    def ask(self, waiter: Waiter, token: bytes, sequence: i64) -> None:
        """Have ``waiter`` called once batch ``sequence`` is on disk; no lower one than anybody asked for before."""
        groups = self.groups
        if not groups or groups[-1].sequence != sequence:
            groups.append(Group(sequence))
        group = groups[-1]
        group.waiters.append(waiter)
        group.tokens.append(token)

    def reached(self, sequence: i64) -> None:
        """Call everybody who waits for batches up to ``sequence``."""
        while self.groups and self.groups[0].sequence <= sequence:
            group = self.groups.pop(0)
            waiters = group.waiters
            tokens = group.tokens
            position = 0
            while position < len(waiters):
                waiters[position].stored(tokens[position])
                position += 1

    def fail(self, error: EntrepotError) -> None:
        """Tell everybody that it is not known to be on disk. Who asks meanwhile waits anew."""
        groups = self.groups
        self.groups = []
        for group in groups:
            position = 0
            while position < len(group.waiters):
                group.waiters[position].store_failed(group.tokens[position], error)
                position += 1

    def check(self, synced: i64, sequence: i64) -> None:
        """Assert that nobody waits for what is on disk (``synced``), or for more than the batch after ``sequence``."""
        waiting = synced
        for group in self.groups:
            assert group.sequence > waiting, "somebody waits for a batch that is on disk, or out of order"
            waiting = group.sequence
        assert waiting <= sequence + 1
