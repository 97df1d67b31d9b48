"""A large body that comes faster than the disk takes it: its connection is read no further until that is nearer."""

from __future__ import annotations

from entrepot.protocols.inflow import PACE_OCTETS, Inflow
from entrepot.protocols.serving.pace import DiskPace
from entrepot.protocols.session import STOP_DISK, STOP_SPACE, Session, Shell
from kit import Rig


class Coming(Inflow):
    """A body that is due when the test says so, at a disk that answers when the test says so."""

    def __init__(self) -> None:
        rig = Rig()
        super().__init__(rig.broker, rig.message("large"))
        self.asked: list[DiskPace] = []
        self.crowded = False

    def is_crowded(self) -> bool:
        return self.crowded

    def ask_the_disk(self, waiter: object) -> None:
        assert isinstance(waiter, DiskPace)
        self.asked.append(waiter)
        self.written = 0

    def stretch(self) -> None:
        """So much came that the disk is to be asked."""
        self.written = PACE_OCTETS


def test_one_stretch_is_on_its_way_to_disk_while_the_next_comes_in() -> None:
    session, coming = Session(Shell()), Coming()
    pace = DiskPace(session)
    pace.look(coming)
    assert coming.asked == []  # nothing is due
    coming.stretch()
    pace.look(coming)
    assert (len(coming.asked), session.readable) == (1, True)
    coming.stretch()
    pace.look(coming)
    assert (len(coming.asked), session.readable) == (2, False)
    pace.reached()
    assert session.readable


def test_who_comes_to_a_disk_that_is_behind_for_others_waits_at_once() -> None:
    session, coming = Session(Shell()), Coming()
    pace = DiskPace(session)
    coming.crowded, coming.written = True, 1
    pace.look(coming)
    assert not session.readable


def test_it_lets_go_of_its_own_reason_only() -> None:
    session, coming = Session(Shell()), Coming()
    pace = DiskPace(session)
    coming.crowded, coming.written = True, 1
    pace.look(coming)
    session.stop_reading(STOP_SPACE)
    pace.reached()
    assert (session.readable, session.stops & STOP_DISK) == (False, 0)


def test_an_answer_behind_the_end_touches_nothing() -> None:
    session, coming = Session(Shell()), Coming()
    pace = DiskPace(session)
    coming.crowded, coming.written = True, 1
    pace.look(coming)
    pace.end()
    pace.reached()
    assert not session.readable
    coming.written = 1
    pace.look(coming)
    assert len(coming.asked) == 1
