"""How much is asked for, by how much is remembered: what is on its way may all come again when a connection is lost."""

from __future__ import annotations

import pytest

from .drawn import KINDS, Drawn


def drawn(language: str, ids: int, **options: int) -> Drawn:
    one = KINDS[language](near={"policies": {"Q": {"id-cache-size": str(ids)}}}, **options)
    one.create("Q")
    return one


@pytest.mark.parametrize("language", sorted(KINDS))
def test_where_no_ids_are_remembered_nothing_is_drawn(language: str) -> None:
    one = drawn(language, 0)
    one.send("a")
    one.read()
    assert one.came() == []
    assert one.kept() == 1
    assert [said for said in one.said if "ids are not remembered here" in said]
    assert one.bridge.drawing == {}


@pytest.mark.parametrize("language", sorted(KINDS))
def test_no_more_is_on_its_way_than_is_remembered(language: str) -> None:
    one = drawn(language, 10)
    one.read()
    one.deaf = True
    one.send(*(f"{number}" for number in range(50)))
    assert 0 < len(one.came()) <= 10
    one.cut()
    one.pass_ms(3_000)
    assert one.came() == [f"{number}" for number in range(50)]
    assert one.kept() == 0


@pytest.mark.parametrize("language", sorted(KINDS))
def test_what_a_lost_connection_brought_is_known_whatever_comes_first(language: str) -> None:
    """The other broker gives it back long after this one has dialled anew: its connection is half open there."""
    one = drawn(language, 10)
    one.read()
    one.deaf = True
    one.send("a", "b")
    pinned = list(one.near.broker.sending.duplicates.addresses["BRIDGE.Q"].ids)
    assert len(pinned) == 2
    one.cut()
    one.far.broker.queues.delete(one.far.queue("Q"), "what is behind it comes first")
    one.create("Q")
    one.pass_ms(3_000)
    for number in range(50):
        one.send(f"{number}")
    assert len(one.came()) == 52
    known = one.near.broker.sending.duplicates.addresses["BRIDGE.Q"].ids
    assert all(identity in known for identity in pinned)
    assert len(known) == 12
