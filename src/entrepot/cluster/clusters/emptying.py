"""A backup that took over and does not serve: all that it has goes to another broker (artemis.md 1.20, `scale-down`).

The drain does it (`draining.py`); this keeps it going until nothing is left, for as long as the lease lasts. Where no
target is there it waits, says so again and again, and serves nobody meanwhile: what it has stays on disk, the same
target is dialled again, and a primary that comes back is given the rest. Artemis gives up at once, and the messages
stay with a broker that is stopped.

How far it is, is in the journal. So a backup that is killed in the middle goes on with the same target, which knows
what it has already. Whoever else has the store then, the primary above all, serves what is left (`serve_the_rest`): of
what was on its way nobody knows then whether it arrived, and that alone may be there twice.

A replicated store moves nothing while its copies do not know that it moved: one of them might serve next, and have it
all again. When all has moved the broker stays, empty, for only from it can the primary have a copy that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.cluster.clusters.dated import Dated
from entrepot.cluster.clusters.drain_notes import BY, NOTES, RUNNING, TAKEOVER, Notebook, State
from entrepot.cluster.clusters.drain_ways import held_in
from entrepot.cluster.clusters.draining import Drain
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm

LOOK_EVERY: Final = SECOND // 10
AGAIN: Final = 5 * SECOND  # after a drain that found nobody, or was refused
SAY_EVERY: Final = 30 * SECOND  # while nothing moves
FACTS: Final = (
    "state", "why", "node", "place", "moved", "left", "prepared", "refused", "stays", "branches", "branches_moved",
)  # fmt: skip
Tell = Callable[[str, bool], None]
"""Takes what an operator should know, and whether it is bad news."""


class _Look(Alarm):
    def __init__(self, due: Instant, emptying: Emptying) -> None:
        super().__init__(due)
        self._emptying: Final = emptying

    def ring(self, now: int) -> None:
        self._emptying.look()


class Emptying:
    """That of one broker. Call `start`, within a turn; ``over`` is called once, when nothing is left that can go."""

    def __init__(
        self,
        drain: Drain,
        tell: Tell,
        over: Callable[[str], None],
        *,
        may: Callable[[], bool] = lambda: True,
        stays: bool = False,
    ) -> None:
        """``may``: what is settled here is kept, whoever serves next; nothing moves while it says no.

        ``stays``: the broker does not end then, and what comes by itself (a schedule that repeats) goes as well.
        """
        self.drain: Final = drain
        self.broker: Final[BrokerCore] = drain.broker
        self.ended = False
        self._tell: Final = tell
        self._over: Final = over
        self._may: Final = may
        self._stays: Final = stays
        self._held = False
        self._over_once = False
        self._waiting = -1  # messages, when they were counted last
        self._since: Instant = 0  # nothing has moved
        self._said: Instant = 0
        self._again: Instant = 0  # when a drain that failed is begun again

    def start(self) -> None:
        """Begin, or go on where a broker of this store broke off."""
        self._since = self._said = int(self.broker.now)
        self.drain.ways.stays.serve_nobody()
        self.look()

    def look(self) -> None:
        """See how far it is, and go on."""
        if self.ended:
            return
        now = int(self.broker.now)
        waiting = sum(int(one.count) for one in self.broker.table.queues.values())
        if waiting != self._waiting:
            self._waiting, self._since, self._said = waiting, now, now
        if not self._may():
            self._hold()
        elif self._rests():
            if self._done():
                return
        else:
            self._held = False
            self._go_on(now)
        if now - self._said >= SAY_EVERY and not self._rests():
            self._said = now
            self._complain((now - self._since) // SECOND)
        self.broker.timetable.add(_Look(now + LOOK_EVERY, self))

    def stop(self) -> None:
        """The broker stops: begin nothing more. What is on its way still arrives."""
        self.ended = True
        self.drain.break_off()

    def facts(self) -> dict[str, object]:
        """Return how far it is, for the status page."""
        report = self.drain.report()
        return {name: report[name] for name in FACTS}

    def _hold(self) -> None:
        """Move nothing: who serves next might not know of it. The same target knows what was on its way."""
        if self.drain.state in RUNNING:
            self.drain.break_off()
            self.drain.ways.stop()
        if not self._held:
            self._held = True
            self._tell("nothing moves while no other copy of this store knows of it, and nobody is served", True)

    def _go_on(self, now: Instant) -> None:
        state = self.drain.state
        if state is State.INTERRUPTED:
            self._tell(f"goes on with the node that has a part of it: {self.drain.ways.node or 'none yet'}", False)
            self.drain.resume()
        elif state is State.IDLE:
            self.drain.begin(by=TAKEOVER)
        elif state in RUNNING:
            self._again = 0
        elif self._again == 0:
            self._again = now + AGAIN
        elif now >= self._again:
            self._again = 0
            if state is State.FAILED:
                self.drain.resume()
            else:
                self.drain.begin(by=TAKEOVER)

    def _rests(self) -> bool:
        """Return whether nothing is to be done."""
        return self.drain.state is State.DONE and self.drain.ways.passing() == 0

    def _complain(self, seconds: int) -> None:
        report = self.drain.report()
        where = report["place"] or "a node of the cluster that takes it"
        self._tell(
            f"nothing moved for {seconds} s: {report['left']} messages wait here for {where}, and nobody is "
            f"served ({report['why'] or report['state']}). Start that broker, or the primary of this store; or take "
            "<scale-down> out and start this one again, which then serves them",
            True,
        )

    def _done(self) -> bool:
        """All is there; return whether that is the end."""
        if self._stays and self._over_once:
            if any(one.name not in self.drain.ways.refused for one in self.drain.ways.sources(held_in(self.broker))):
                self.drain.begin(by=TAKEOVER)
            return False
        stays = [f"{row['messages']} of {row['queue']}: {row['stays']}" for row in self.drain.plan() if row["stays"]]
        stays += [f"the queue {name}: {why}" for name, why in self.drain.ways.refused.items()]
        if stays:
            self._tell(f"what stays in this store, for its primary: {'; '.join(stays)}", True)
        self._over_once = True
        self.ended = not self._stays
        what = f"all that it took over is at the node {self.drain.ways.node}: {self.drain.ways.moved} messages"
        if self._stays:
            self._tell(f"{what}; it waits for its primary, to give it the store back", False)
        self._over(what)
        return self.ended


def serve_the_rest(broker: BrokerCore, drain: Drain | None) -> str:
    """Let a broker that serves have what a backup began to give away; within a turn. Return what became of it, or "".

    ``drain``: the broker's, where it is in a cluster. What an operator began stays as it is: he resumes or aborts it.
    """
    notebook = Notebook(broker)
    interrupted, node, moved = notebook.recall()
    if not interrupted or broker.notes.of(NOTES).get(BY) != TAKEOVER:
        return ""
    what = (
        f"a backup that stood in gave {sum(moved.values())} messages to the node {node or '(none yet)'} and broke off: "
        "they stay there, and the rest is served here. What was on its way may be at both"
    )
    if drain is not None:
        drain.abort(what)
    else:
        Dated(broker).give_back()
        notebook.forget()
    return what
