"""A message that another broker brought, on its way to a third: it waits until the disk has it. [C]

Who brought it brings it again when a crash takes it back here, and it has another number then: the third broker, which
knows it by its number, would take it for another message. So no broker that fetches is given what this one may lose
(`protocols/artemis/linking/shelf.py` does the same for what is sent). What producers send needs no wait: what a crash
takes back of that, nobody was promised.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError
from entrepot.core.effort import Rest
from entrepot.core.ports import Host
from entrepot.core.queue.consumer import INCOMING_BRIDGE, Consumer, Measurement
from entrepot.core.room import PATIENCE, Room
from entrepot.journal.ports import Waiter
from entrepot.model.message import Message


class _Told(Waiter):
    """Is told what became of the disk."""

    def __init__(self, shore: Shore) -> None:
        self.shore: Shore = shore

    def stored(self, token: bytes) -> None:
        """The disk has all that came before."""
        self.shore.reached()

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It has not, for now: `Shore.hurry` looks again."""


class Shore(Room):
    """Where one message waits for the disk."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.effort, 0)
        self.host: Host = host
        self.rest: Rest | None = None

    def wait(self, rest: Rest, now: Instant) -> Instant:
        """Let ``rest`` go on when the disk has what came so far; return when to look all the same."""
        self.rest = rest
        self.host.journal.confirm(_Told(self), b"")
        return now + PATIENCE

    def hurry(self, rest: Rest) -> None:
        """Nothing was heard: let ``rest`` look."""
        self.reached()

    def reached(self) -> None:
        """Let who waits go on."""
        rest = self.rest
        self.rest = None
        if rest is not None:
            self.effort.later(rest)


class Landing(Measurement):
    """Waits until no crash takes ``message`` back, then for what ``behind`` finds out, if there is that."""

    def __init__(self, host: Host, message: Message, behind: Measurement | None) -> None:
        super().__init__()
        self.host: Host = host
        self.number: i64 = message.number
        self.behind: Measurement | None = behind
        self.landed: bool = False
        self.room = Shore(host)

    def step(self) -> bool:
        """Return whether the disk has it, and all is found out."""
        if not self.landed:
            self.landed = self.host.journal.reading.on_disk(self.number)
            if not self.landed:
                return False
            self.room = None
        behind = self.behind
        if behind is None:
            return True
        done = behind.step()
        self.room, self.flaw = behind.room, behind.flaw
        return done


def is_to_land(host: Host, message: Message, consumer: Consumer) -> bool:
    """Return whether ``message`` came from another broker and is on its way to a third before the disk has it."""
    rare = message.rare
    if rare is None or not rare.bridged or consumer.kind != INCOMING_BRIDGE:
        return False
    return not host.journal.reading.on_disk(message.number)
