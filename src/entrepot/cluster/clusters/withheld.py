"""What a drain may have given to its target, and does not know of: no other node of the cluster gets it from here.

The target knows by its duplicate id what comes to it again. Whoever else is given the same message cannot know that it
is at the target already, nor can the target, which gets it from redistribution under another number. So redistribution
leaves a queue alone from before its first message goes to the target, until the drain is done or aborted. Once nothing
goes there any more, since the drain was broken off, that is so of what was here then: what comes later moves.

Consumers of this node are given it all the same (docs/clusters.md says that this may come twice).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

EVERYTHING: Final = (1 << 63) - 1


class Withheld:
    """Of one broker. ``watchers`` are called with the name of a queue of which another part is withheld now."""

    def __init__(self) -> None:
        self.watchers: Final[list[Callable[[str], None]]] = []
        self._up_to: Final[dict[str, int]] = {}  # queue -> the highest number of a message

    def up_to(self, queue: str) -> int:
        """Return the number up to which messages of ``queue`` are withheld; 0: none is."""
        return self._up_to.get(queue, 0)

    def names(self) -> list[str]:
        """Return the queues of which something is withheld."""
        return list(self._up_to)

    def begin(self, queue: str) -> None:
        """What is in ``queue`` is given to the target from now on."""
        self._set(queue, EVERYTHING)

    def pause(self, number: int) -> None:
        """Nothing more is given; what has a number above ``number`` never was."""
        for queue, up_to in list(self._up_to.items()):
            if up_to == EVERYTHING:
                self._set(queue, number)

    def end(self) -> None:
        """The target has it all, or an operator says that it has none of it."""
        for queue in list(self._up_to):
            del self._up_to[queue]
            self._changed(queue)

    def _set(self, queue: str, up_to: int) -> None:
        if self._up_to.get(queue) != up_to:
            self._up_to[queue] = up_to
            self._changed(queue)

    def _changed(self, queue: str) -> None:
        for watcher in self.watchers:
            watcher(queue)
