"""Which number a message has, and which its record has."""

from __future__ import annotations

from entrepot.journal.moves import Move, Moves


def moves(*rows: tuple[int, int, int]) -> Moves:
    made = Moves()
    for first, count, fresh in rows:
        made.add(Move(first, count, 20, fresh, fresh))
    return made


def test_either_number_leads_to_the_other_and_no_other_number_anywhere() -> None:
    made = moves((10, 5, 100), (30, 1, 105), (3, 2, 200))
    both = {10: 100, 14: 104, 30: 105, 3: 200, 4: 201}
    for old, fresh in both.items():
        assert made.current(old) == fresh
        assert made.written(fresh) == old
    for number in (1, 2, 5, 9, 15, 29, 31, 99, 106, 199, 202):
        assert made.current(number) == number
        assert made.written(number) == number
        assert not made.has_some(number, number)
    assert made.has_some(1, 3)
    assert made.has_some(106, 200)
    assert not made.has_some(106, 199)


def test_what_goes_on_where_the_last_one_ended_is_one_row() -> None:
    made = Moves()
    made.add(Move(10, 5, 20, 100, 7))
    made.add(Move(15, 5, 20, 105, 7))
    made.add(Move(20, 5, 20, 110, 8))  # of another batch: it may be needed for longer
    assert [(int(row.first), int(row.count)) for row in made.rows] == [(10, 10), (20, 5)]
    assert made.written(109) == 19


def test_rows_that_come_in_another_order_are_found_and_some_can_be_forgotten() -> None:
    made = moves((30, 1, 205), (10, 5, 100))
    assert [int(row.fresh) for row in made.rows] == [100, 205]
    assert made.written(102) == 12
    made.keep(made.rows[1:])
    assert made.written(102) == 102
    assert made.current(12) == 12
    assert made.written(205) == 30
