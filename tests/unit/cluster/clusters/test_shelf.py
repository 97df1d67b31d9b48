"""What a node notes of a copy that it hosts, and what it makes of that when it begins anew."""

from __future__ import annotations

from entrepot.cluster.clusters.copied import Copy
from entrepot.cluster.clusters.shelf import Note, prepare, read_note, remember
from entrepot.simulation.shelves import PowerCut, SimulatedShelf

OWN = "b" * 32
COPY = Copy("a" * 32, "alice", "10.0.0.1:61620")
NOTE = Note(COPY, "n1", 1)


def shelf() -> SimulatedShelf:
    return SimulatedShelf(lambda octets: bytes(range(octets)))


def remembered(of: SimulatedShelf) -> list[Note]:
    doubted: list[str] = []
    found = remember(of, lambda store, error: doubted.append(store))
    assert doubted == []
    return found


def test_a_note_says_the_same_when_it_is_read() -> None:
    assert read_note(NOTE.text().encode()) == NOTE
    assert read_note(b'{"copy": "/a/directory", "node": "n", "number": 1}') is None


def test_the_power_may_fail_at_any_step_and_it_is_done_again() -> None:
    for steps in range(4):
        made = shelf()
        made.steps = steps
        try:
            prepare(made, OWN, NOTE)
        except PowerCut:
            made.crash()
        assert remembered(made) in ([], [NOTE])
        assert prepare(made, OWN, NOTE) == ""
        made.crash()
        assert (remembered(made), made.whose(COPY.store)) == ([NOTE], COPY.store)


def test_a_standing_that_is_there_stays_and_another_stores_is_refused() -> None:
    made = shelf()
    assert prepare(made, OWN, NOTE) == ""
    standing = made.drawers[COPY.store].standing
    assert prepare(made, OWN, Note(COPY, "n2", 3)) == ""
    assert made.drawers[COPY.store].standing == standing
    assert remembered(made) == [Note(COPY, "n2", 3)]
    made.drawers[COPY.store].standing = (standing or b"").replace(COPY.store.encode(), b"c" * 32)
    assert "copy of another store" in prepare(made, OWN, NOTE)
    assert "the store of this broker" in prepare(made, COPY.store, NOTE)


def test_what_makes_no_sense_keeps_nothing_else_back() -> None:
    made, doubted = shelf(), list[str]()
    other = Copy("d" * 32, "dora", "10.0.0.2:61620")
    for note in (NOTE, Note(other, "n2", 2)):
        assert prepare(made, OWN, note) == ""
    made.drawers[COPY.store].note = b"{"
    assert [one.copy for one in remember(made, lambda store, error: doubted.append(store))] == [other]
    assert doubted == [COPY.store]
    made.drawers[COPY.store].note = Note(other, "n2", 1).text().encode()
    assert [one.copy for one in remembered(made)] == [other], "a note that was put into another's directory"
