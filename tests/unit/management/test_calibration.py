"""What consumers can take is read off the time in which messages waited for them, and nothing else."""

from __future__ import annotations

import pytest

from entrepot.management.calibration import Limit, Sample, limit


def sample(at: float, waiting: int, settled: int, accepted: int = 0, consumers: int = 2) -> Sample:
    view = {"waiting": waiting, "settled": settled, "accepted": accepted, "consumers": consumers}
    return Sample(at, view)


def catching_up(rate: int, most: int, *, windows: int = 0, after: int = 0) -> list[Sample]:
    """Return samples each 100 ms of consumers that take ``rate`` of ``most``, then 5 a second as they come.

    ``windows``: what they take at once; ``after``: samples behind.
    """
    rows, at, settled = [], 0.0, 0
    while settled < most:
        rows.append(sample(at, most - settled, settled, accepted=round(at * 5)))
        settled = min(most, settled + rate // 10 + (windows if len(rows) == 1 else 0))
        at += 0.1
    return rows + [sample(at + step / 10, 0, most + step, round((at + step / 10) * 5)) for step in range(after + 1)]


def test_it_is_what_they_settle_while_others_wait() -> None:
    found = limit(catching_up(200, 400, after=50))
    assert found.known
    assert found.rate == pytest.approx(200)
    assert found.each == pytest.approx(100)
    assert found.arriving == pytest.approx(5, rel=0.1)


def test_what_fills_their_windows_at_first_does_not_count() -> None:
    assert limit(catching_up(200, 1400, windows=1000)).rate == pytest.approx(200)


def test_who_catches_up_at_once_takes_at_least_so_much() -> None:
    found = limit(catching_up(1000, 300))
    assert not found.known
    assert found.rate == pytest.approx(1000)


def test_a_consumer_that_left_meanwhile_is_not_counted() -> None:
    rows = catching_up(100, 200)
    rows[5] = sample(rows[5].at, rows[5].waiting, rows[5].settled, consumers=1)
    assert limit(rows).consumers == 1


@pytest.mark.parametrize("rows", [[], [sample(0, 5, 0)], [sample(0, 0, 7), sample(1, 0, 9)]])
def test_without_anything_that_waited_nothing_is_known(rows: list[Sample]) -> None:
    found = limit(rows)
    assert (found.known, found.rate) == (False, 0)
    assert Limit(1, 0, 0, known=True).each == 0
