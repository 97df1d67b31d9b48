"""Cron: documented examples, and the next instant against trying every day and minute with `datetime`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from entrepot.base.cron import TEXT_LENGTH_MAX, Cron, civil_from_days, days_from_civil, month_length
from entrepot.base.errors import InvalidSchedule, Refused

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_MS = 3_600_000


def ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def at(text: str) -> int:
    return ms(datetime.fromisoformat(text + "+00:00"))


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("* * * * *", "2024-01-01T00:00:00", "2024-01-01T00:01"),
        ("* * * * *", "2024-01-01T00:00:59.999", "2024-01-01T00:01"),
        ("0 * * * *", "2024-01-01T00:30", "2024-01-01T01:00"),
        ("0 2 * * *", "2024-01-01T02:00", "2024-01-02T02:00"),
        ("30 2 29 2 *", "2024-02-29T02:30", "2028-02-29T02:30"),
        ("30 2 29 2 *", "2097-01-01T00:00", "2104-02-29T02:30"),
        ("0 0 29 2 */7", "2024-03-01T00:00", "2032-02-29T00:00"),
        ("0 0 31 * *", "2024-01-31T00:00", "2024-03-31T00:00"),
        ("0 12 * * 0", "2024-05-15T00:00", "2024-05-19T12:00"),
        ("0 12 * * 7", "2024-05-15T00:00", "2024-05-19T12:00"),
        ("0 12 * * SUN", "2024-05-15T00:00", "2024-05-19T12:00"),
        ("0 0 * jan,Jul *", "2024-01-31T00:00", "2024-07-01T00:00"),
        ("59 23 31 12 *", "2024-12-31T23:59", "2025-12-31T23:59"),
        ("*/20 9-17/4 * * MON-FRI", "2024-05-17T17:40", "2024-05-20T09:00"),
        ("50/5 0 * * *", "2024-05-17T00:50", "2024-05-17T00:55"),
        ("0 0 * * FRI-SUN", "2024-05-18T00:00", "2024-05-19T00:00"),
        ("0 0 * * 5-7", "2024-05-19T00:00", "2024-05-24T00:00"),
        ("0 0 13 * 5", "2024-05-01T00:00", "2024-05-03T00:00"),
        ("0 0 13 * 5", "2024-05-11T00:00", "2024-05-13T00:00"),
        ("0 0 */2 * 5", "2024-05-02T00:00", "2024-05-03T00:00"),
        ("0 0 */2 * 5", "2024-05-04T00:00", "2024-05-17T00:00"),
        ("0 0 1 1 *", "1969-06-01T00:00", "1970-01-01T00:00"),
        ("0 0 31 2 1", "2024-01-01T00:00", "2024-02-05T00:00"),
    ],
)
def test_examples(cron: str, after: str, expected: str) -> None:
    assert Cron.parse(cron).next_after(at(after)) == at(expected)


def test_local_time_is_a_given_distance_from_utc() -> None:
    cron = Cron.parse("0 2 * * *")
    assert cron.next_after(at("2024-01-01T00:30"), HOUR_MS) == at("2024-01-01T01:00")
    assert cron.next_after(at("2024-01-01T01:00"), HOUR_MS) == at("2024-01-02T01:00")
    assert cron.next_after(at("2024-01-01T00:00"), -5 * HOUR_MS) == at("2024-01-01T07:00")
    assert cron.next_after(at("2024-01-01T00:00"), HOUR_MS * 11 // 2) == at("2024-01-01T20:30")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "five"),
        ("* * * *", "five"),
        ("* * * * * *", "five"),
        ("60 * * * *", "0 to 59"),
        ("* 24 * * *", "0 to 23"),
        ("* * 0 * *", "1 to 31"),
        ("* * 32 * *", "1 to 31"),
        ("* * * 13 *", "1 to 12"),
        ("* * * * 8", "0 to 7"),
        ("*/0 * * * *", "1 or more"),
        ("5-1 * * * *", "smaller"),
        ("* * * * FRI-MON", "smaller"),
        ("1,,2 * * * *", "numbers"),
        ("1- * * * *", "numbers"),
        ("-1 * * * *", "numbers"),
        ("*/ * * * *", "numbers"),
        ("*/MON * * * *", "numbers"),
        ("MON * * * *", "numbers"),
        ("* * * MON *", "JAN|FEB"),
        ("* * * * MONDAY", "MON"),
        ("٣ * * * *", "numbers"),
        ("? * * * *", "numbers"),
        ("99999 * * * *", "numbers"),
        ("30 2 31 2 *", "day that the month has"),
        ("30 2 31 4,6,9,11 *", "day that the month has"),
        ("30 2 30,31 FEB */2", "day that the month has"),
        ("*," * TEXT_LENGTH_MAX + "* * * * *", "at most"),
    ],
)
def test_refusals_belong_to_the_client_and_say_what_would_do(text: str, word: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        Cron.parse(text)
    assert isinstance(caught.value, Refused)
    assert any(each in caught.value.remedy for each in word.split("|"))


def test_schedules_compare_by_what_they_say() -> None:
    assert Cron.parse(" 0  0 * jan MON ") == Cron.parse("0 0 * JAN mon")
    assert len({Cron.parse("0 0 * jan *"), Cron.parse("0 0 * JAN *")}) == 1
    assert Cron.parse("0 0 * * *") != Cron.parse("0 1 * * *")
    assert repr(Cron.parse("0 0  * * *")) == "Cron('0 0 * * *')"


@given(st.dates())
@example(date(1, 1, 1))
@example(date(2000, 2, 29))
@example(date(1900, 3, 1))
@example(date(9999, 12, 31))
def test_the_calendar_is_that_of_datetime(day: date) -> None:
    days = day.toordinal() - date(1970, 1, 1).toordinal()
    assert days_from_civil(day.year, day.month, day.day) == days
    assert civil_from_days(days) == (day.year, day.month, day.day)
    assert day.day <= month_length(day.year, day.month)


@given(st.integers(-(10**12), 10**12))
def test_the_calendar_goes_beyond_datetime(days: int) -> None:
    year, month, day = civil_from_days(days)
    assert days_from_civil(year, month, day) == days
    assert 1 <= day <= month_length(year, month)


@st.composite
def field_texts(draw: st.DrawFn, low: int, high: int) -> tuple[str, frozenset[int]]:
    """A field, and the values that it admits by the definition of its notation."""
    terms: list[str] = []
    values: set[int] = set()
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        step = draw(st.integers(1, high))
        term, admitted = draw(
            st.sampled_from(
                [
                    (f"{first}", range(first, first + 1)),
                    (f"{first}-{last}", range(first, last + 1)),
                    (f"{first}-{last}/{step}", range(first, last + 1, step)),
                    (f"*/{step}", range(low, high + 1, step)),
                    (f"{first}/{step}", range(first, high + 1, step)),
                    ("*", range(low, high + 1)),
                ]
            )
        )
        terms.append(term)
        values.update(admitted)
    return ",".join(terms), frozenset(values)


def brute_force(fields: list[tuple[str, frozenset[int]]], after: datetime, days: int) -> datetime | None:
    """Try every minute of every day for ``days`` days, in the plainest way."""
    (_, minutes), (_, hours), (dom_text, month_days), (_, months), (dow_text, week_days) = fields
    either = dom_text[0] != "*" and dow_text[0] != "*"
    day = after.replace(hour=0, minute=0, second=0, microsecond=0)
    for _ in range(days):
        by_month, by_week = day.day in month_days, day.isoweekday() % 7 in week_days
        if day.month in months and ((by_month or by_week) if either else (by_month and by_week)):
            for minute in range(24 * 60):
                moment = day + timedelta(minutes=minute)
                if moment > after and moment.hour in hours and moment.minute in minutes:
                    return moment
        day += timedelta(days=1)
    return None


@given(
    st.tuples(field_texts(0, 59), field_texts(0, 23), field_texts(1, 31), field_texts(1, 12), field_texts(0, 6)),
    st.datetimes(datetime(1950, 1, 1), datetime(2150, 1, 1), timezones=st.just(UTC)),
    st.integers(-14 * 4, 14 * 4).map(lambda quarters: quarters * 900_000),
)
def test_next_agrees_with_trying_every_minute(
    fields: tuple[tuple[str, frozenset[int]], ...], moment: datetime, offset: int
) -> None:
    days = 3000
    try:
        cron = Cron.parse(" ".join(text for text, _ in fields))
    except InvalidSchedule:
        expected = brute_force(list(fields), moment, 9 * 366)
        assert expected is None
        return
    after = ms(moment)
    expected = brute_force(list(fields), moment, days)
    found = cron.next_after(after - offset, offset) + offset
    if expected is None:
        assert found > ms(moment + timedelta(days=days - 1))
    else:
        assert found == ms(expected)


@given(field_texts(1, 31), field_texts(1, 12), st.integers(0, 2**42))
def test_the_next_of_the_next_is_later_and_ends(
    dom: tuple[str, frozenset[int]], month: tuple[str, frozenset[int]], wall: int
) -> None:
    try:
        cron = Cron.parse(f"30 2 {dom[0]} {month[0]} *")
    except InvalidSchedule:
        assume(False)
    first = cron.next_after(wall)
    second = cron.next_after(first)
    assert wall < first < second
    assert cron.next_after(second - 1) == second
    assert cron.next_after(second - 60_000) == second
