"""The choice among bindings: to which of them one message goes. [C]

`core/addressing/routing.py` finds what a target leads to when queues come and go, and writes it into a `Choice`; per
message only this module decides. Of a group one binding gets the message: its ring is walked once from the turn that
all targets share, and the turn moves on behind the one that was chosen (artemis.md 1.12).

How a cluster connection spreads messages is the *mode* of its bindings (artemis.md 1.12). Which of them may take part
at all is seen when a target is made: OFF and OFF_WITH_REDISTRIBUTION keep what is sent to queues on its node, and what
is sent to topics goes to every group that there is. Groups without a queue of another node are walked as ever; in the
others, a `ClusteredShare` looks for one that is connected and, unless the mode is STRICT, has a consumer for the
message. Where nobody has one ON_DEMAND keeps it here, if there is a queue here. A group of one binding is not asked.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.addressing.binding import ON_DEMAND, STRICT, Binding, Group, RemoteBinding
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
            if binding.passes(message):
                group.turn = at
                return binding
            tried += 1
        return None


class ClusteredShare(Share):
    """A group with queues of other nodes."""

    def __init__(self, group: Group, bindings: list[Binding], strict: bool) -> None:
        super().__init__(group, bindings)
        self.strict: bool = strict

    def pick(self, message: Message) -> Binding | None:
        """Return the next one in turn that is connected and wants ``message``; else, where it is to wait."""
        bindings = self.bindings
        group = self.group
        count: i64 = len(bindings)
        at = group.turn if group.turn < count else 0
        weak: Binding | None = None
        after: i64 = 0
        tried: i64 = 0
        while tried < count:
            binding = bindings[at]
            at = at + 1 if at + 1 < count else 0
            tried += 1
            if not binding.passes(message):
                continue
            if binding.connected and (self.strict or binding.is_wanted(message)):
                group.turn = at
                return binding
            if weak is None or (weak.distance > 0 and binding.distance == 0 and not self.strict):
                weak = binding
                after = at
        if weak is not None:
            group.turn = after
        return weak


def _add(found: list[Queue], binding: Binding) -> None:
    """Add the queue of ``binding``: once, where several bindings to one node have the same."""
    if binding.distance == 0 or binding.queue not in found:
        found.append(binding.queue)


def may_leave(binding: Binding, routing: int) -> bool:
    """Return whether what is sent as ``routing`` may go to ``binding`` in the mode of its cluster."""
    if not isinstance(binding, RemoteBinding) or routing == MULTICAST:
        return True
    return binding.mode in (STRICT, ON_DEMAND)


class Choice:
    """What one target leads to: bindings that get every message, and groups of which one binding gets it."""

    def __init__(self) -> None:
        self.every: list[Binding] = []
        self.shares: list[Share] = []
        self.selective: list[Binding] = []  # of ``every`` those that take only what a consumer wants now
        self.routes: dict[str, bytes] | None = None  # of the last message: annotation -> ids of bindings there

    def clear(self) -> None:
        """Lead nowhere."""
        self.every = []
        self.shares = []
        self.selective = []

    def share(self, group: Group, without: list[Binding], routing: int) -> None:
        """Add ``group`` for what is sent as ``routing``; not the bindings ``without``, which it leads to already."""
        bindings = [one for one in group.bindings if one not in without and may_leave(one, routing)]
        if len(bindings) == 1:
            self.every.append(bindings[0])
        elif bindings:
            self.add(group, bindings)

    def add(self, group: Group, bindings: list[Binding]) -> None:
        """Add ``bindings`` of ``group``, of which one gets a message."""
        last: RemoteBinding | None = None
        for one in bindings:
            if isinstance(one, RemoteBinding):
                last = one
        if last is None:
            self.shares.append(Share(group, bindings))
        else:
            self.shares.append(ClusteredShare(group, bindings, last.mode == STRICT))

    def is_empty(self) -> bool:
        """Return whether it leads nowhere."""
        return not self.every and not self.shares

    def only(self) -> Queue | None:
        """Return the one queue that each message goes to, whatever is in it; None when there is more to look at."""
        if len(self.every) != 1 or self.shares or self.selective:
            return None
        binding = self.every[0]
        queue = binding.queue
        if binding.distance > 0 or queue.filter is not None or queue.filter_origin != 0 or queue.traits.bars():
            return None
        return queue

    def choose(self, message: Message) -> list[Queue]:
        """Return the queues that ``message`` goes to now, filters applied; the turns of groups move on."""
        found: list[Queue] = []
        self.routes = None
        selective = self.selective
        for binding in self.every:
            if binding.passes(message) and (not selective or binding not in selective or binding.is_wanted(message)):
                if binding.distance == 0:
                    found.append(binding.queue)
                else:
                    self.lead(found, binding)
        for share in self.shares:
            picked = share.pick(message)
            if picked is not None:
                self.lead(found, picked)
        return found

    def takes(self, binding: Binding, message: Message) -> bool:
        """Return whether ``binding``, one of `every`, gets ``message``."""
        selective = self.selective
        return binding.passes(message) and (not selective or binding not in selective or binding.is_wanted(message))

    def choose_here(self, message: Message) -> list[Queue]:
        """Return the queues of this broker that ``message`` goes to, whatever other nodes would take."""
        found: list[Queue] = []
        for binding in self.every:
            if binding.distance == 0 and binding.passes(message):
                found.append(binding.queue)
        for share in self.shares:
            here = [one for one in share.bindings if one.distance == 0]
            picked = Share(share.group, here).pick(message)
            if picked is not None:
                found.append(picked.queue)
        return found

    def lead(self, found: list[Queue], binding: Binding) -> None:
        """Add the queue of ``binding`` to ``found``, and where it leads on another node to `routes`."""
        if not isinstance(binding, RemoteBinding):
            found.append(binding.queue)
            return
        routes = self.routes
        if routes is None:
            routes = self.routes = {}
        ids = routes.get(binding.route_key)
        routes[binding.route_key] = binding.route if ids is None else binding.route + ids
        if ids is None:
            found.append(binding.queue)

    def candidates(self) -> list[Queue]:
        """Return all queues that a message may go to; no turn moves on."""
        found: list[Queue] = []
        for binding in self.every:
            _add(found, binding)
        for share in self.shares:
            for binding in share.bindings:
                _add(found, binding)
        return found
