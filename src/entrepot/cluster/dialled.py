"""A link that a shell dials for: what the shell drives, whatever language the connection speaks. [C]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.uri import Endpoint
from entrepot.cluster.link import Effect, LinkCore, State
from entrepot.cluster.source import LinkPort
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.session import NEVER, Session, Shell

TOLD_KEPT: Final = 20


class _Watch(Alarm):
    def __init__(self, due: int, end: Dialled) -> None:
        super().__init__(due)
        self.end = end

    def ring(self, now: int) -> None:
        self.end.ring(now)


@mypyc_attr(allow_interpreted_subclasses=True)
class Dialled(LinkPort):
    """One end of one link. ``told``: what the operator should know, newest last."""

    def __init__(self, broker: BrokerCore, link: LinkCore) -> None:
        self.broker: Final = broker
        self.link: Final = link
        self.told: list[str] = []
        self._watch: _Watch | None = None

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``, which is open to ``place``. Raises InvalidOption."""
        raise NotImplementedError

    def speaks(self, option: str) -> bool:
        """Return whether an option of a URI belongs to the language, not to the socket."""
        return False

    def perform(self, effects: list[Effect]) -> None:
        """Have done what the link decided, and see when it wants to be called again."""
        raise NotImplementedError

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        raise NotImplementedError

    def watch(self) -> None:
        """Call `LinkCore.advance` when its deadline has come."""
        due = self.link.deadline()
        watch = self._watch
        if watch is not None and not watch.cancelled:
            if watch.due <= due:
                return  # it looks again when it rings
            watch.cancelled = True
        self._watch = None
        if due < NEVER:
            self._watch = _Watch(due, self)
            self.broker.timetable.add(self._watch)

    def ring(self, now: Instant) -> None:
        """The link's time may have come."""
        self._watch = None
        self.perform(self.link.advance(now) if self.link.deadline() <= now else [])

    def note_told(self, what: str) -> None:
        """Keep what the operator was told."""
        self.told.append(what)
        del self.told[:-TOLD_KEPT]


class _Look(Alarm):
    def __init__(self, due: int, looking: Looking) -> None:
        super().__init__(due)
        self.looking = looking

    def ring(self, now: int) -> None:
        self.looking.ring()


class Looking:
    """Looks once at the earliest of the times that were asked for: what is wanted may have changed."""

    def __init__(self, broker: BrokerCore, look: Callable[[], None]) -> None:
        self._broker: Final = broker
        self._act: Final = look
        self._look: _Look | None = None

    def at(self, due: Instant) -> None:
        """Look at ``due``, or before."""
        look = self._look
        if look is not None:
            if look.due <= due:
                return
            look.cancelled = True
        self._look = _Look(due, self)
        self._broker.timetable.add(self._look)

    def ring(self) -> None:
        """It is time."""
        self._look = None
        self._act()

    def end(self) -> None:
        """Look no more."""
        look, self._look = self._look, None
        if look is not None:
            look.cancelled = True


Perform = Callable[[Dialled, list[Effect]], None]
Say = Callable[[str, str], None]
"""Takes what an operator should know: who, and what."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Driven(Dialled):
    """One whose decisions a driver performs, and which tells the operator by the name of its link."""

    def __init__(self, broker: BrokerCore, link: LinkCore, driver: Perform, say: Say) -> None:
        """``driver`` performs what the link decides; ``say``: what an operator should know."""
        super().__init__(broker, link)
        self._driver: Final = driver
        self._say: Final = say

    def now(self) -> Instant:
        """Return the time of this turn."""
        return int(self.broker.now)

    def say(self, what: str) -> None:
        """Tell the operator."""
        self._say(self.link.name, what)
        self.note_told(what)

    def perform(self, effects: list[Effect]) -> None:
        """Have done what the link decided, and see when it wants to be called again."""
        if effects:
            self._driver(self, effects)
        self.watch()


def is_stalled(link: LinkCore) -> bool:
    """Return whether the other broker lives and confirms nothing."""
    return bool(link.supervision.stalled_since) and link.state is State.OPEN


def report_at_rest(
    name: str, kind: str, place: str, state: str, since_ms: int, *, initiator: bool
) -> dict[str, object]:
    """Return what is to be told of one that has no link; ``since_ms``: how long it has none, -1: it never had one."""
    return {
        "connector": name,
        "kind": kind,
        "peer": "",
        "peer_url": "",
        "place": place,
        "state": state,
        "initiator": initiator,
        "duplex": False,
        "since_ms": since_ms,
    }


def link_report(link: LinkCore, now: Instant) -> dict[str, object]:
    """Return what an operator wants to know of a link in any language; see `Dialled.report`."""
    counts = link.counts
    watch = link.supervision
    due = link.deadline()
    return {
        "place": "" if link.place is None else link.place.masked(),
        "state": "stalled" if is_stalled(link) else link.state.value,
        "since_ms": (now - link.since) // MILLISECOND,
        "sent": counts.forwarded,
        "confirmed": counts.confirmed,
        "under_way": len(link.under_way),
        "requeued": counts.requeued,
        "dead": counts.dead,
        "connections": counts.connections,
        "failures": counts.failures,
        "error": link.why,
        "error_ms": (now - link.failed_at) // MILLISECOND if link.failed_at else -1,
        "down_ms": (now - link.down_since) // MILLISECOND if link.down_since else -1,
        "next_attempt_ms": max(0, due - now) // MILLISECOND if link.state is State.WAITING else -1,
        "canary_us": watch.round_trip // 1000 if watch.round_trip_at else -1,
        "canary_age_ms": (now - watch.round_trip_at) // MILLISECOND if watch.round_trip_at else -1,
    }
