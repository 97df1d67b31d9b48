"""Cron: when a message that carries ``AMQ_SCHEDULED_CRON`` goes out next (classic.md 4.13).

Five fields separated by blanks::

    minute 0-59   hour 0-23   day-of-month 1-31   month 1-12 or JAN-DEC   day-of-week 0-7 or SUN-SAT, 0 and 7 = Sunday

Each is a list ``1,15,30`` of values, ranges ``9-17``, ``*`` for all, and steps over these: ``*/10``, ``9-17/2``;
``5/20`` is from 5 to the end by 20. When both day fields are restricted a day matches if either does; a field that
begins with ``*`` does not restrict, and then both must match. That is the rule of Vixie cron.

Pure arithmetic on the proleptic Gregorian calendar; whoever asks says how far local time is from UTC. There are no
time zone rules here: over a change to summer time, ask again with the new offset.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from entrepot.base.environment import WallTime
from entrepot.base.errors import Fault, InvalidSchedule

MINUTE_MS: Final = 60_000
DAY_MINUTES: Final = 24 * 60
TEXT_LENGTH_MAX: Final = 1024  # five fields that list every value are 400 characters; a client sends this text
CYCLE_MONTHS: Final = 400 * 12  # the calendar, weekdays included, repeats after 400 years

MONTH_NAMES: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAY_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTH_LENGTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # at most: February may have 29

SUNDAY: Final = 7  # how a range may end: "FRI-SUN" and "5-7"
EPOCH_WEEKDAY: Final = 4  # 1970-01-01 was a Thursday


class _Field(NamedTuple):
    """One of the five: its name in errors, its bounds, and the words for its values from ``low`` on."""

    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day-of-month", 1, 31),
    _Field("month", 1, 12, MONTH_NAMES),
    _Field("day-of-week", 0, 7, DAY_NAMES),
)


class Cron:
    """A schedule that never changes. Make one with `parse`; two of the same text are equal."""

    __slots__ = ("_either", "_hours", "_minutes", "_month_days", "_months", "_week_days", "text")

    def __init__(self, text: str, values: list[tuple[int, ...]], *, either: bool) -> None:
        """Keep the sorted ``values`` of the five fields; ``either``: one matching day field is enough."""
        self.text: Final = text
        self._minutes, self._hours, self._month_days, self._months = values[:4]
        self._week_days = tuple(sorted({day % 7 for day in values[4]}))
        self._either = either

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Return the schedule that ``text`` says. Raises InvalidSchedule, for 31 February too: it never comes."""
        if len(text) > TEXT_LENGTH_MAX:
            raise InvalidSchedule(f"a cron text of {len(text)} characters", remedy=f"use at most {TEXT_LENGTH_MAX}")
        parts = text.split()
        if len(parts) != len(_FIELDS):
            raise InvalidSchedule(
                f"the cron text {text!r} has {len(parts)} fields",
                remedy="give five: minute hour day-of-month month day-of-week",
            )
        values = [_values(field, part) for field, part in zip(_FIELDS, parts, strict=True)]
        either = not parts[2].startswith("*") and not parts[4].startswith("*")
        longest = max(MONTH_LENGTHS[month - 1] for month in values[3])
        if not either and values[2][0] > longest:
            raise InvalidSchedule(
                f"the cron text {text!r} names a day that never comes", remedy="choose a day that the month has"
            )
        return cls(" ".join(parts), values, either=either)

    def next_after(self, wall_ms: WallTime, utc_offset_ms: int = 0) -> WallTime:
        """Return the first instant after ``wall_ms`` that matches, in ms since 1970 UTC: the start of a local minute.

        ``utc_offset_ms`` is local time minus UTC, so 3,600,000 for central Europe in winter.
        """
        minute = (wall_ms + utc_offset_ms) // MINUTE_MS + 1
        day, within = divmod(minute, DAY_MINUTES)
        if self._matches(day):
            for hour in self._hours:
                for past in self._minutes:
                    if hour * 60 + past >= within:
                        return (day * DAY_MINUTES + hour * 60 + past) * MINUTE_MS - utc_offset_ms
        day = self._next_day(day + 1)
        return (day * DAY_MINUTES + self._hours[0] * 60 + self._minutes[0]) * MINUTE_MS - utc_offset_ms

    def _next_day(self, day: int) -> int:
        """Return the first matching day from ``day`` on, in days since 1970."""
        year, month, day_of_month = civil_from_days(day)
        for _ in range(CYCLE_MONTHS + 1):
            if month in self._months:
                first = days_from_civil(year, month, 1)
                for number in range(day_of_month, month_length(year, month) + 1):
                    if self._fits(number, first + number - 1):
                        return first + number - 1
            day_of_month = 1
            month += 1
            if month > 12:
                month = 1
                year += 1
        raise Fault(f"the cron text {self.text!r} passed the check and never comes")

    def _matches(self, day: int) -> bool:
        _, month, day_of_month = civil_from_days(day)
        return month in self._months and self._fits(day_of_month, day)

    def _fits(self, day_of_month: int, day: int) -> bool:
        """Return whether the two day fields admit this day."""
        by_month = day_of_month in self._month_days
        by_week = (day + EPOCH_WEEKDAY) % 7 in self._week_days
        return by_month or by_week if self._either else by_month and by_week

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cron) and self.text.upper() == other.text.upper()

    def __hash__(self) -> int:
        return hash(self.text.upper())

    def __repr__(self) -> str:
        return f"Cron({self.text!r})"


def month_length(year: int, month: int) -> int:
    """Return the number of days of a month, 1 to 12, of the Gregorian calendar."""
    if month != 2:
        return MONTH_LENGTHS[month - 1]
    return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28


# Both conversions count years from March, so that the leap day is the last of its year and month lengths have the
# pattern 31 30 31 30 31 (153 days in five months). 719,468 days lie between 0000-03-01 and 1970-01-01; a cycle of
# 400 years has 146,097.


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to this date."""
    from_march = (month + 9) % 12
    if month <= 2:
        year -= 1
    before = year * 365 + year // 4 - year // 100 + year // 400
    return before + (153 * from_march + 2) // 5 + day - 1 - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the date ``days`` after 1970-01-01."""
    cycle, of_cycle = divmod(days + 719_468, 146_097)
    # Leap days up to here, taken out, leave years of 365: one in 1,461 days but for the end of a century and cycle.
    of_years = of_cycle - of_cycle // 1_460 + of_cycle // 36_524 - of_cycle // 146_096
    year = of_years // 365
    of_year = of_cycle - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    month = (from_march + 2) % 12 + 1
    return cycle * 400 + year + (month <= 2), month, of_year - (153 * from_march + 2) // 5 + 1


def _values(field: _Field, text: str) -> tuple[int, ...]:
    """Return the sorted values that one field admits."""
    admitted = [False] * (field.high + 1)
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(field, step_text, text) if slash else 1
        if step == 0:
            _refuse(field, text, "a step is 1 or more")
        first, last = _span(field, span, text, open_end=bool(slash))
        for value in range(first, last + 1, step):
            admitted[value] = True
    return tuple(value for value, is_in in enumerate(admitted) if is_in)


def _span(field: _Field, span: str, text: str, *, open_end: bool) -> tuple[int, int]:
    """Return the bounds of ``*``, ``a`` or ``a-b``; ``open_end``: a single value reaches to the end."""
    last_value = 6 if field.high == SUNDAY else field.high  # "*" and "a/n" do not meet Sunday twice
    if span == "*":
        return field.low, last_value
    first_text, dash, last_text = span.partition("-")
    first = _value(field, first_text, text)
    if not dash:
        return first, max(first, last_value) if open_end else first
    last = _value(field, last_text, text)
    if field.high == SUNDAY and last == 0 and first > 0:
        last = SUNDAY
    if last < first:
        _refuse(field, text, "a range goes from the smaller to the larger value")
    return first, last


def _value(field: _Field, word: str, text: str) -> int:
    if word.upper() in field.words:
        return field.low + field.words.index(word.upper())
    value = _number(field, word, text)
    if not field.low <= value <= field.high:
        _refuse(field, text, f"{field.name} is {field.low} to {field.high}")
    return value


def _number(field: _Field, digits: str, text: str) -> int:
    if not digits.isascii() or not digits.isdigit() or len(digits) > 4:
        words = f", or a name like {field.words[1]}" if field.words else ""
        _refuse(field, text, f"write *, numbers{words}, ranges 1-5, lists 1,2 and steps */2")
    return int(digits)


def _refuse(field: _Field, text: str, remedy: str) -> NoReturn:
    raise InvalidSchedule(f"the cron field {field.name} cannot be {text!r}", remedy=remedy)
