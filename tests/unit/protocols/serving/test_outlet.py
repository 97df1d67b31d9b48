"""Who is stopped when a peer reads too slowly, and who goes on when it reads again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.base.environment import SECOND
from entrepot.base.errors import BodyLost
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.consumer import Consumer, Pause
from entrepot.core.queue.queue import Queue
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.protocols.outflow import Outflow
from entrepot.protocols.serving.outlet import (
    WRITER_KEPT_OCTETS,
    WRITER_QUIET,
    Outlet,
    ServedSubscription,
    Source,
)
from entrepot.protocols.session import Session, Shell
from kit import Rig

subclasses = pytest.mark.skipif(is_compiled(), reason="a subscription of this test cannot derive from a compiled class")


class Counting(Shell):
    """Counts how often it was told that there is something to write."""

    def __init__(self) -> None:
        self.told = 0

    def dirty(self) -> None:
        self.told += 1


class Fed(ServedSubscription):
    """Notes that it may go on; ``chokes``: it then writes too much at once."""

    def __init__(self, outlet: Outlet, *, chokes: bool = False) -> None:
        super().__init__(outlet, Rig().broker, [])
        self.chokes = chokes
        self.went_on = 0
        outlet.feed(self)

    def relieved(self) -> None:
        self.went_on += 1
        if self.chokes:
            self.outlet.choke()


class Well(Source):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def choked(self) -> None:
        self.heard.append("choked")

    def relieved(self) -> None:
        self.heard.append("relieved")


def an_outlet(shell: Shell | None = None) -> Outlet:
    return Outlet(Session(shell or Shell()), 10)


def test_the_shell_is_told_once_until_it_takes_what_there_is() -> None:
    shell = Counting()
    outlet = an_outlet(shell)
    outlet.out.write(b"a")
    outlet.note()
    outlet.note()
    assert shell.told == 1
    assert outlet.take(7) == b"a"
    assert outlet.wrote == 7
    outlet.note()
    assert shell.told == 2


@subclasses
def test_nobody_is_told_of_a_connection_that_is_gone() -> None:
    shell = Counting()
    outlet = an_outlet(shell)
    fed = Fed(outlet)
    outlet.end()
    outlet.note()
    outlet.relieve()
    assert shell.told == fed.went_on == 0


@subclasses
def test_a_choked_outlet_stops_everybody_also_who_comes_later() -> None:
    outlet = an_outlet()
    first, well = Fed(outlet), Well()
    outlet.add_source(well)
    outlet.choke()
    outlet.choke()
    second = Fed(outlet)
    assert first.window.pauses == second.window.pauses == Pause.SOCKET
    assert well.heard == ["choked"]
    outlet.relieve()
    assert first.window.pauses == second.window.pauses == 0
    assert (first.went_on, second.went_on, well.heard) == (1, 1, ["choked", "relieved"])


@subclasses
def test_that_the_peer_reads_again_lifts_no_other_pause() -> None:
    outlet = an_outlet()
    fed = Fed(outlet)
    fed.window.pause(Pause.MOVING)
    fed.window.pause(Pause.OPENING)
    outlet.choke()
    outlet.relieve()
    assert fed.window.pauses == Pause.MOVING | Pause.OPENING
    fed.opened()
    assert fed.window.pauses == Pause.MOVING


@subclasses
def test_who_writes_too_much_at_once_stops_the_others_again() -> None:
    outlet = an_outlet()
    busy, other, well = Fed(outlet, chokes=True), Fed(outlet), Well()
    outlet.add_source(well)
    outlet.choke()
    outlet.relieve()
    assert (busy.went_on, other.went_on) == (1, 0)
    assert other.window.pauses == Pause.SOCKET
    assert well.heard == ["choked", "choked"]


@subclasses
def test_one_that_has_ended_is_not_asked() -> None:
    outlet = an_outlet()
    fed = Fed(outlet)
    outlet.starve(fed)
    outlet.choke()
    outlet.relieve()
    assert fed.went_on == 0


def test_the_memory_of_a_burst_is_given_back_when_there_was_none_for_a_while() -> None:
    outlet = an_outlet()
    before = outlet.writer
    outlet.out.write(b"x" * (WRITER_KEPT_OCTETS + 1))
    outlet.take(SECOND)
    assert outlet.due() == SECOND + WRITER_QUIET
    assert not outlet.shrink(SECOND + WRITER_QUIET - 1)
    outlet.out.write(b"more")
    assert not outlet.shrink(SECOND + WRITER_QUIET), "something waits in it"
    assert outlet.due() == SECOND + 2 * WRITER_QUIET
    outlet.take(SECOND)
    assert outlet.shrink(SECOND + 2 * WRITER_QUIET)
    assert outlet.out is outlet.writer is not before


class Seen(ServedSubscription):
    """A browser whose shows are noted."""

    def __init__(self, outlet: Outlet, broker: BrokerCore, browser: Browser) -> None:
        super().__init__(outlet, broker, [Destination("q", 0, False)])
        self.browser = browser
        self.shown: list[int] = []
        self.ends = 0
        outlet.feed(self)

    def consumer(self, queue: Queue) -> Consumer:
        raise AssertionError("a browser consumes nothing")

    def show(self, browser: Browser, message: Message) -> None:
        self.shown.append(int(message.number))

    def show_end(self) -> None:
        self.ends += 1


@subclasses
def test_a_browse_goes_on_where_its_turn_ended_and_is_ended_once() -> None:
    rig = Rig()
    for _ in range(450):
        rig.send("/queue/q", "x")
    rig.turn()
    effort = rig.broker.effort
    browser = rig.broker.reading.browse([Destination("q", rig.queue("q").routing, False)], None)
    outlet = an_outlet()
    seen = Seen(outlet, rig.broker, browser)
    effort.allowance = 1
    effort.spent = 1
    seen.pump()
    assert seen.shown == []
    assert effort.waits()
    while effort.waits():
        effort.go_on()
    assert len(seen.shown) == 450
    assert seen.ends == 1
    seen.pump()
    assert seen.ends == 1


class Parts(Outflow):
    """A body of given parts. ``then``: called when it is let go of."""

    def __init__(self, parts: list[bytes], tail: bytes = b"") -> None:
        super().__init__(sum(map(len, parts)), b"", b"")
        self.parts = parts
        self.tail = tail
        self.gone: list[bool] = []
        self.told_lost = 0
        self.then: Callable[[], None] = int

    def piece(self) -> bytes:
        if not self.parts:
            raise BodyLost("a part is damaged")
        part = self.parts.pop(0)
        self.done = not self.parts
        return part

    def lost(self) -> None:
        self.told_lost += 1

    def finish(self, gone: bool) -> None:
        self.gone.append(gone)
        self.then()


def drained(outlet: Outlet) -> bytes:
    """Return what goes out while the socket takes all."""
    gone = [outlet.take(0)]
    while outlet.is_streaming():
        assert outlet.flow() == ""
        gone.append(outlet.take(0))
    return b"".join(gone)


@subclasses
def test_all_else_waits_behind_a_body_and_a_body_behind_another() -> None:
    shell = Counting()
    outlet = an_outlet(shell)
    first, second = Parts([b"1", b"2"], b"."), Parts([b"3"], b";")
    outlet.out.write(b"head ")
    outlet.pour(first)
    assert (shell.told, outlet.choked, outlet.is_streaming()) == (1, True, True)
    outlet.out.write(b" between ")
    outlet.pour(second)
    outlet.out.write(b" behind")
    assert drained(outlet) == b"head 12. between 3; behind"
    assert first.gone == second.gone == [True]
    assert outlet.out is outlet.writer


@subclasses
def test_what_is_written_as_a_body_is_let_go_of_comes_behind_it() -> None:
    """A link sends on at once then: into a writer whose octets had gone it would be lost."""
    outlet = an_outlet()
    first, second = Parts([b"1"]), Parts([b"2"])

    def go_on() -> None:
        outlet.out.write(b" next ")
        outlet.pour(second)

    first.then = go_on
    outlet.pour(first)
    assert drained(outlet) == b"1 next 2"


@subclasses
def test_a_body_waits_while_the_socket_is_full() -> None:
    outlet = an_outlet()
    outlet.pour(Parts([b"1"]))
    outlet.socket_full = True
    assert outlet.flow() == ""
    assert (outlet.take(0), outlet.is_streaming()) == (b"", True)


@subclasses
def test_a_body_that_cannot_be_read_says_so_once_and_is_let_go_of_at_the_end() -> None:
    outlet = an_outlet()
    body, behind = Parts([]), Parts([b"2"])
    outlet.pour(body)
    outlet.pour(behind)
    assert "a part is damaged" in outlet.flow()
    assert body.told_lost == 1
    outlet.end()
    assert body.gone == behind.gone == [False]
    assert not outlet.is_streaming()
