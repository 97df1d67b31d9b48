"""Notes of parts of a broker: what was noted is there after a restart, by part, and what was removed is not."""

from __future__ import annotations

from kit import Rig


def test_notes_outlive_the_broker_and_keep_apart() -> None:
    rig = Rig(disk=True)
    notes = rig.broker.notes
    notes.put("a", "key", "one")
    notes.put("a", "key", "two")
    notes.put("b", "key", "other")
    notes.put("b", "gone", "x")
    notes.remove("b", "gone")
    notes.remove("b", "never")
    rig.turn()
    rig.restart("kill")
    notes = rig.broker.notes
    assert (notes.of("a"), notes.of("b")) == ({"key": "two"}, {"key": "other"})
    assert notes.of("c") == {}
