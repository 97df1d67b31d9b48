"""What stays at a node that gives all away, since somebody's work is under way on it: leases and staged commits.

A range that a reader holds by lease is his until he settles it, and what a writer has staged is seen by nobody until
it is published *here*: both go by positions and numbers of this node (docs/leases.md, docs/stages.md). To move them
would give messages to two readers, or take a batch from the writer who asks for it.

So a drain waits for whoever is at work, and moves what he gives back. He is at work as long as something was done with
what he holds within `PATIENCE`: claimed, read or settled of a range, written to a stage. A lease has no end of its own:
of a reader that is silent for longer nobody knows whether he comes back, and one that only asks for more may settle
what he has when more comes, which is elsewhere now. Who reads the same again and again, and settles nothing of it, is
waited for as long as `REPEATING`. The drain ends without him and says what stays. So it ends where nothing more comes:
nothing more is claimed then, and what is held is settled piece by piece, or stays. Where the node serves nobody any
more, it does not wait at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.core.broker import BrokerCore
from entrepot.core.leases.holder import release_of, said_of
from entrepot.core.leases.lease import Lease
from entrepot.core.stages.staged import Stage

PATIENCE: Final = 15 * SECOND  # less than a node that stops waits where nothing happens
REPEATING: Final = 120 * SECOND
Row = dict[str, object]


class Stays:
    """That of one broker."""

    def __init__(self, broker: BrokerCore, tell: Callable[[str], None]) -> None:
        self.broker: Final = broker
        self._served = True
        self._said = ""
        self._tell: Final = tell

    def serve_nobody(self) -> None:
        """No reader and no writer comes here any more: what they hold stays, and is not waited for."""
        self._served = False

    def rows(self) -> list[Row]:
        """Return what stays, as rows of a plan: ``stays`` says why, ``who`` whose it is."""
        leases = [self._of_lease(one) for one in self._leases()]
        return leases + [self._of_sink(sink, stages) for sink, stages in self._staged().items()]

    def awaited(self) -> str:
        """Return for whom it is worth while to wait, and tell once; "" for nobody."""
        if not self._served:
            return ""
        now = int(self.broker.now)
        names = [repr(one.group) for one in self._leases() if _is_at_work(one, now)]
        names += [
            f"the sink {sink!r}"
            for sink, stages in self._staged().items()
            if any(now - one.heard < PATIENCE for one in stages)
        ]
        why = f"it waits for {', '.join(names)} to settle or publish what stays till then" if names else ""
        if why and why != self._said:
            self._tell(why)
        self._said = why
        return why

    @property
    def count(self) -> int:
        """How many messages stay as it is now."""
        return sum(one.held for one in self._leases()) + sum(
            int(one.count) for stages in self._staged().values() for one in stages
        )

    def _leases(self) -> Iterator[Lease]:
        return (one for one in self.broker.leases.held.values() if one.held > 0)

    def _staged(self) -> dict[str, list[Stage]]:
        found: dict[str, list[Stage]] = {}
        for stage in self.broker.stages.stages.values():
            found.setdefault(stage.sink, []).append(stage)
        return found

    def _of_lease(self, lease: Lease) -> Row:
        why = (
            f"{said_of(lease, self.broker)}. It is there for him when this node is started again; if he is gone for "
            f"good: {release_of(lease)}, and drain again"
        )
        return _row(lease.queue.name, lease.held, lease.group, why)

    def _of_sink(self, sink: str, stages: list[Stage]) -> Row:
        batches = sorted({one.batch for one in stages})
        said = f"batch {batches[0]}" if len(batches) == 1 else f"batches {batches[0]} to {batches[-1]}"
        why = (
            f"{said} is staged here and not published. Let its writer go on, at this node; if he is gone for good: "
            f"entrepot stage drop {sink}"
        )
        return _row(f"(staged) {sink}", sum(int(one.count) for one in stages), sink, why)


def _is_at_work(lease: Lease, now: Instant) -> bool:
    return now - lease.worked < PATIENCE and now - lease.advanced < REPEATING


def _row(queue: str, messages: int, who: str, why: str) -> Row:
    return {"queue": queue, "messages": messages, "octets": 0, "who": who, "stays": why}
