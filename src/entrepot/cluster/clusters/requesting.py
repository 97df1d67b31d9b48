"""Who hosts this node's backup: the nodes of its cluster are asked one after the other (artemis.md 2.5).

A round asks each node that is met, from the one behind this node in the order of their ids, so that the backups of
several nodes spread; the first that says yes is the host. A round in which none does is repeated after the interval, as
often as the options say. The host is asked again at each interval: one that has the backup still says yes and does
nothing, one that lost it starts it again or says no. One that cannot be reached for an interval is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.cluster.clusters.connection import ClusterConnection
from entrepot.cluster.clusters.copied import is_copy
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.packets import BackupRequest

UNKNOWN: Final = -1  # how many backups a host is thought to have: the host counts its own
INTERVAL_LEAST: Final[Duration] = 100 * MILLISECOND
PATIENCE: Final[Duration] = 10 * SECOND  # for an answer: a host looks at the store, and sees whether the backup starts


class Fellow(Protocol):
    """Another node, over one connection to it."""

    node: str

    @property
    def met(self) -> bool:
        """Say whether it can be asked."""

    def ask_to_host(self, request: BackupRequest, answered: Callable[[bool], None]) -> None:
        """Ask it to host a backup; ``answered`` hears what it says, if it says anything."""


class Circle(Protocol):
    """Those whom a node can ask. ``own``: what it is called itself."""

    @property
    def own(self) -> str:
        """What this node is called, among all of them."""

    def now(self) -> Instant:
        """Return the time."""

    def fellows(self) -> Sequence[Fellow]:
        """Return whom it knows."""

    def wake(self, alarm: Alarm) -> None:
        """Ring ``alarm`` when it is due."""


class Connected(Circle):
    """The nodes that a cluster connection leads to."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection: Final = connection

    @property
    def own(self) -> str:
        """The id of this node."""
        return self._connection.topology.own.node

    def now(self) -> Instant:
        """Return the time of the broker."""
        return self._connection.now()

    def fellows(self) -> Sequence[Fellow]:
        """Return all contacts."""
        return list(self._connection.contacts.values())

    def wake(self, alarm: Alarm) -> None:
        """Have it in the broker's timetable."""
        self._connection.broker.timetable.add(alarm)


class _Due(Alarm):
    """It is time to ask again."""

    def __init__(self, due: Instant, requester: Requester) -> None:
        super().__init__(due)
        self._requester: Final = requester

    def ring(self, now: Instant) -> None:
        """Ask."""
        self._requester.look(self)


class Requester:
    """Asks for a backup of the store in ``directory``, or for the copy that it says (`copied.py`).

    ``retries``: rounds more, -1 for no end; ``interval``: in ns. ``host``: the node that hosts it, "" for none.
    ``given_up``: no round is left.
    """

    def __init__(
        self,
        circle: Circle,
        directory: str,
        *,
        retries: int,
        interval: Duration,
        say: Callable[[str], None],
    ) -> None:
        self.host = ""
        self.given_up = False
        self._circle: Final = circle
        self._directory: Final = directory
        self._retries: Final = retries
        self._interval: Final = max(interval, INTERVAL_LEAST)
        self._say: Final = say
        self._rounds = 0
        self._asked: dict[str, None] = {}  # nodes, in this round
        self._pending: Fellow | None = None  # who has not answered
        self._since: Instant = 0  # when it was asked
        self._missed = False  # the host could not be asked
        self._alarm: _Due | None = None
        self._said = ""

    def start(self) -> None:
        """Ask from now on: nobody is met yet, as a rule."""
        self._wait()

    def stop(self) -> None:
        """Ask no more."""
        self._alarm = None

    def _wait(self) -> None:
        self._alarm = _Due(self._circle.now() + self._interval, self)
        self._circle.wake(self._alarm)

    def look(self, alarm: Alarm) -> None:
        """An interval is over: ask the host whether it still is, or begin or end a round."""
        if alarm is not self._alarm:
            return
        pending = self._pending
        if pending is not None and pending.met and self._circle.now() < self._since + PATIENCE:
            self._wait()
            return
        self._pending = None  # an answer that takes longer counts as a no
        if self.host:
            self._look_at_host()
        else:
            self._ask_next()
        if not self.given_up:
            self._wait()

    def _look_at_host(self) -> None:
        for contact in self._met():
            if contact.node == self.host:
                self._missed = False
                self._ask(contact)
                return
        if not self._missed:  # the link may be back in a moment, and the backup with it
            self._missed = True
            return
        self._lose("it cannot be reached")

    def _lose(self, why: str) -> None:
        self._tell(f"the node {self.host} hosts its backup no more: {why}")
        self.host, self._rounds, self._missed = "", 0, False
        self._asked.clear()
        self._ask_next()

    def _met(self) -> list[Fellow]:
        """Return who can be asked, in the order of their ids from this node's own."""
        own = self._circle.own
        found = [one for one in self._circle.fellows() if one.met and one.node != own]
        return sorted(found, key=lambda one: (one.node < own, one.node))

    def _ask_next(self) -> None:
        for contact in self._met():
            if contact.node not in self._asked:
                self._asked[contact.node] = None
                self._ask(contact)
                return
        self._end_round()

    def _end_round(self) -> None:
        asked = len(self._asked)
        self._asked.clear()
        what = f"none of {asked} nodes hosts its backup" if asked else "no node is met that could host its backup"
        self.given_up = 0 <= self._retries <= self._rounds
        self._rounds += 1
        if self.given_up:
            self._alarm = None
            what += f": given up after {self._rounds} rounds (backup-request-retries)"
        self._tell(what)

    def _ask(self, contact: Fellow) -> None:
        """Shared stores fill the directories (artemis.md 5.2.5); one holds all of them here. A copy needs one word."""
        others = None if is_copy(self._directory) else self._directory
        self._pending, self._since = contact, self._circle.now()
        request = BackupRequest(
            backup_size=UNKNOWN,
            journal_dir=self._directory,
            bindings_dir=others,
            large_dir=others,
            paging_dir=others,
            node=self._circle.own,
        )
        contact.ask_to_host(request, partial(self._answered, contact))

    def _answered(self, contact: Fellow, started: bool) -> None:
        if self._alarm is None or contact is not self._pending:
            return
        self._pending = None
        if started and self.host != contact.node:
            self.host, self._rounds = contact.node, 0
            self._asked.clear()
            self._tell(f"the node {contact.node} hosts its backup")
        elif not started and self.host:
            self._lose("it has none, and starts none")
        elif not started:
            self._ask_next()

    def _tell(self, what: str) -> None:
        if what != self._said:
            self._said = what
            self._say(what)

    def facts(self) -> dict[str, object]:
        """Return what an operator sees."""
        return {"host": self.host, "state": "hosted" if self.host else "given up" if self.given_up else "asks"}
