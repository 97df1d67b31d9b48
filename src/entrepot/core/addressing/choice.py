"""The choice among bindings: to which of them one message goes. [C]

`core/addressing/routing.py` finds what a target leads to when queues come and go, and writes it into a `Choice`; per
message only this module decides. Of a group one binding gets the message: its ring is walked once from the turn that
all targets share, and the turn moves on behind the one that was chosen (artemis.md 1.12).

How a cluster spreads messages is a *mode* of that walk, and `Share.pick` is where modes are told apart. There is one
today, OFF: what is at another node gets nothing but multicast messages, and consumers are not looked at. STRICT,
ON_DEMAND and OFF_WITH_REDISTRIBUTION differ in `_admits` (is a binding to another node eligible), in what makes an
eligible one the strong candidate (`connected`, `Binding.is_wanted`), and in which one is kept for want of such a one.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.addressing.binding import Binding, Group
from entrepot.core.queue.queue import Queue
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message


class Share:
    """Several bindings of one group: one of them gets a message."""

    def __init__(self, group: Group, bindings: list[Binding]) -> None:
        self.group: Group = group
        self.bindings: list[Binding] = bindings

    def pick(self, message: Message) -> Binding | None:
        """Return the next one in turn that may have ``message``; None, and nobody's turn is over, when none may."""
        bindings = self.bindings
        group = self.group
        count: i64 = len(bindings)
        at = group.turn if group.turn < count else 0
        tried: i64 = 0
        while tried < count:
            binding = bindings[at]
            at = at + 1 if at + 1 < count else 0
            if _admits(binding) and binding.passes(message):
                group.turn = at
                return binding
            tried += 1
        return None


def _admits(binding: Binding) -> bool:
    """Return whether the mode lets ``binding`` take part: OFF keeps queues to their node (artemis.md 1.12)."""
    return binding.distance == 0 or binding.routing == MULTICAST


def _add(found: list[Queue], binding: Binding) -> None:
    """Add the queue of ``binding``: once, where several bindings to one node have the same."""
    if binding.distance == 0 or binding.queue not in found:
        found.append(binding.queue)


class Choice:
    """What one target leads to: bindings that get every message, and groups of which one binding gets it."""

    def __init__(self) -> None:
        self.every: list[Binding] = []
        self.shares: list[Share] = []
        self.selective: list[Binding] = []  # of ``every`` those that take only what a consumer wants now

    def clear(self) -> None:
        """Lead nowhere."""
        self.every = []
        self.shares = []
        self.selective = []

    def share(self, group: Group, without: list[Binding]) -> None:
        """Add ``group``; not those of its bindings ``without`` which the choice leads to already."""
        bindings = group.bindings
        if without:
            bindings = [one for one in bindings if one not in without]
        if len(bindings) == 1:
            self.every.append(bindings[0])
        elif bindings:
            self.shares.append(Share(group, list(bindings)))

    def is_empty(self) -> bool:
        """Return whether it leads nowhere."""
        return not self.every and not self.shares

    def only(self) -> Queue | None:
        """Return the one queue that each message goes to, whatever is in it; None when there is more to look at."""
        if len(self.every) != 1 or self.shares or self.selective:
            return None
        binding = self.every[0]
        queue = binding.queue
        if binding.distance > 0 or queue.filter is not None or queue.filter_origin != 0:
            return None
        return queue

    def choose(self, message: Message) -> list[Queue]:
        """Return the queues that ``message`` goes to now, filters applied; the turns of groups move on."""
        found: list[Queue] = []
        selective = self.selective
        for binding in self.every:
            if binding.passes(message) and (not selective or binding not in selective or binding.is_wanted(message)):
                _add(found, binding)
        for share in self.shares:
            picked = share.pick(message)
            if picked is not None:
                _add(found, picked)
        return found

    def candidates(self) -> list[Queue]:
        """Return all queues that a message may go to; no turn moves on."""
        found: list[Queue] = []
        for binding in self.every:
            _add(found, binding)
        for share in self.shares:
            for binding in share.bindings:
                _add(found, binding)
        return found
