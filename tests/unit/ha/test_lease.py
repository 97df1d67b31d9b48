"""The two rules of a lease: what its holder may believe, and what a challenger may conclude."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.ha.lease import DRIFT_PERCENT, Grant, LeaseOptions, Record, Tenure, Watch, decode, patience

OPTIONS = LeaseOptions(5 * SECOND)


def office(asked: int = 100 * SECOND) -> Tenure:
    tenure = Tenure(OPTIONS)
    tenure.won(Grant(3, asked, "free"))
    return tenure


def test_a_lease_counts_from_the_question_not_from_the_answer() -> None:
    tenure = office(0)
    assert tenure.renewed(1 * SECOND, 4 * SECOND)
    assert tenure.until == 1 * SECOND + OPTIONS.trusted


def test_a_renewal_whose_answer_came_after_the_end_does_not_count() -> None:
    tenure = office(0)
    assert not tenure.renewed(1 * SECOND, OPTIONS.trusted)
    assert "stood still" in tenure.lost
    assert not tenure.holds(2 * SECOND)
    assert not tenure.renewed(2 * SECOND, 2 * SECOND), "what is lost is lost"


def test_a_failed_renewal_is_tried_again_soon() -> None:
    tenure = office(0)
    tenure.failed(1 * SECOND)
    assert tenure.deadline() == 1 * SECOND + OPTIONS.renew_every // 4
    assert tenure.holds(1 * SECOND)


def test_the_first_reason_counts() -> None:
    tenure = office()
    tenure.lose("one")
    tenure.lose("two")
    assert tenure.lost == "one"


def test_a_challenger_starts_anew_with_every_sign_of_life() -> None:
    watch, record = Watch(), Record(name="a", instance="x", epoch=1, beat=1, lease=5 * SECOND)
    watch.observe(record, 0)
    assert not watch.alive
    record.beat = 2
    watch.observe(record, 4 * SECOND)
    assert watch.alive
    assert not watch.expired(record, 4 * SECOND + patience(5 * SECOND) - 1)
    assert watch.expired(record, 4 * SECOND + patience(5 * SECOND))
    watch.forget()
    assert not watch.expired(record, 100 * SECOND)


@given(
    duration=st.integers(200, 60_000),
    asked=st.integers(0, 10**9),
    visible=st.integers(0, 10**5),
    seen=st.integers(0, 10**5),
    drift=st.floats(-0.04, 0.04),
)
def test_nobody_finds_a_lease_expired_that_its_holder_believes_in(
    duration: int, asked: int, visible: int, seen: int, drift: float
) -> None:
    """However long it took until the record could be seen, and until it was; the clocks drifting by 4 % apart."""
    options = LeaseOptions(duration * MILLISECOND)
    tenure = Tenure(options)
    tenure.won(Grant(1, asked * MILLISECOND, ""))
    record = Record(name="a", instance="x", epoch=1, beat=1, lease=options.duration)
    watch = Watch()
    watch.observe(record, (asked + visible + seen) * MILLISECOND)
    end = tenure.until
    elsewhere = asked * MILLISECOND + int((end - asked * MILLISECOND) * (1 + drift))
    assert not watch.expired(record, elsewhere)
    assert DRIFT_PERCENT > 4


@given(st.builds(Record, name=st.text(), host=st.text(), pid=st.integers(0, 1 << 22), epoch=st.integers(0, 1 << 40)))
def test_a_record_reads_back_as_it_was_written(record: Record) -> None:
    back = decode(record.encode().ljust(4096, b"\0"))
    if "\n" in record.host:
        return
    assert back is not None
    assert back.facts() == {**record.facts(), "name": back.name}


@given(st.binary(max_size=200))
def test_what_no_broker_wrote_is_no_record(octets: bytes) -> None:
    assert decode(octets) is None


def test_half_a_record_is_none() -> None:
    octets = Record(name="a", epoch=1).encode()
    for length in range(len(octets) - 1):
        assert decode(octets[:length]) is None


@pytest.mark.parametrize(("duration", "every"), [(100, 0), (1000, 501), (1000, -1)])
def test_a_lease_that_cannot_work_is_refused(duration: int, every: int) -> None:
    with pytest.raises(InvalidOption):
        LeaseOptions(duration * MILLISECOND, every * MILLISECOND)


def test_a_lock_that_is_missing_is_waited_for_as_long_as_it_stays_missing() -> None:
    watch = Watch()
    watch.observe(Record(name="a", instance="x", epoch=1, beat=1), 0)
    watch.missed(SECOND)
    watch.missed(3 * SECOND)
    assert watch.unchanged(4 * SECOND) == 3 * SECOND
    watch.observe(Record(name="a", instance="x", epoch=1, beat=1), 5 * SECOND)
    assert watch.unchanged(5 * SECOND) == 0
