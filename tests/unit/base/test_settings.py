"""Options: declared once, read in four dialects, checked, compared and listed."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import KIB, MIB, MILLISECOND, MINUTE, SECOND, Duration
from entrepot.base.errors import Fault, InvalidOption
from entrepot.base.settings import (
    I64_MAX,
    UNLIMITED,
    Change,
    Dialect,
    Options,
    Setting,
    Spelling,
    Unit,
    changes,
    refuse_unknown,
    setting,
)


class Full(Enum):
    PAGE = "page"
    BLOCK = "block"
    DROP_OLDEST = "drop-oldest"


class QueueOptions(Options, frozen=True):
    """One setting of every unit."""

    delay: Duration = setting(
        1 * SECOND,
        unit=Unit.DURATION,
        high=60 * MINUTE,
        classic="initialRedeliveryDelay",
        artemis="redelivery-delay",
        uri="delay",
        live=True,
        about="wait before the second delivery",
    )
    check: Duration = setting(
        5 * SECOND,
        unit=Unit.DURATION,
        artemis=Spelling("slow-consumer-check-period", SECOND),
        about="how often to look",
    )
    age: int = setting(0, unit=Unit.MILLISECONDS, unlimited=True, artemis="expiry-delay", about="time to live")
    size: int = setting(
        64 * MIB, unit=Unit.OCTETS, unlimited=True, classic="memoryLimit", artemis="max-size-bytes", about="memory"
    )
    tries: int = setting(10, low=1, high=1000, classic="maximumRedeliveries", about="deliveries", live=True)
    factor: float = setting(1.0, low=1.0, high=100.0, classic="backOffMultiplier", about="growth of the wait")
    order: bool = setting(False, classic="strictOrderDispatch", about="first consumer first")
    full: Full = setting(Full.PAGE, artemis="address-full-policy", about="what a full queue does")
    key: str = setting("", classic="keyStorePassword", secret=True, about="password of the key store")
    peers: tuple[str, ...] = setting((), uri="peers", about="who may come")
    group: str | None = setting(None, unit=Unit.TEXT, classic="group", about="group, if any")


def test_defaults_are_plain_attributes_and_typed() -> None:
    options = QueueOptions()
    assert (options.delay, options.size, options.tries, options.full) == (SECOND, 64 * MIB, 10, Full.PAGE)
    assert options.group is None
    assert options.__dict__["delay"] == SECOND
    assert QueueOptions.delay == SECOND


def test_values_are_checked_when_they_are_given() -> None:
    assert QueueOptions(tries=3).tries == 3
    assert QueueOptions(size=UNLIMITED).size == -1
    assert QueueOptions(factor=2).factor == 2
    wrong: list[tuple[str, Any]] = [
        ("tries", 0),
        ("tries", 1001),
        ("tries", -1),
        ("tries", True),
        ("tries", "3"),
        ("tries", 2.0),
        ("size", -2),
        ("size", I64_MAX + 1),
        ("delay", 61 * MINUTE),
        ("factor", 0.5),
        ("factor", float("nan")),
        ("order", 1),
        ("full", "PAGE"),
        ("full", Dialect.URI),
        ("key", None),
        ("peers", ["a"]),
    ]
    for name, value in wrong:
        with pytest.raises(InvalidOption):
            QueueOptions(**{name: value})


def test_options_do_not_change() -> None:
    options: Any = QueueOptions()
    with pytest.raises(Fault, match="replaced"):
        options.delay = 1
    with pytest.raises(Fault):
        del options.delay
    with pytest.raises(Fault):
        QueueOptions(**{"dealy": 1})
    assert options.replaced(delay=5).delay == 5
    assert options.delay == SECOND
    with pytest.raises(InvalidOption):
        options.replaced(tries=0)


@pytest.mark.parametrize(
    ("name", "text", "dialect", "value"),
    [
        ("delay", "500", Dialect.CLASSIC, 500 * MILLISECOND),
        ("delay", "0", Dialect.CLASSIC, 0),
        ("delay", "30s", Dialect.CLASSIC, 30 * SECOND),
        ("delay", " 500ms ", Dialect.URI, 500 * MILLISECOND),
        ("delay", "2 m", Dialect.CLI, 2 * MINUTE),
        ("delay", "1h", Dialect.CLI, 60 * MINUTE),
        ("check", "7", Dialect.ARTEMIS, 7 * SECOND),
        ("check", "7", Dialect.CLI, 7 * MILLISECOND),
        ("check", "7ms", Dialect.ARTEMIS, 7 * MILLISECOND),
        ("age", "5", Dialect.ARTEMIS, 5),
        ("age", "5s", Dialect.ARTEMIS, 5000),
        ("age", "-1", Dialect.ARTEMIS, UNLIMITED),
        ("size", "100", Dialect.CLASSIC, 100),
        ("size", "10mb", Dialect.CLASSIC, 10 * MIB),
        ("size", "64 kb", Dialect.CLASSIC, 64 * KIB),
        ("size", "1 GB", Dialect.CLASSIC, 1024 * MIB),
        ("size", "1 gb", Dialect.ARTEMIS, 1024 * MIB),
        ("size", "10K", Dialect.ARTEMIS, 10 * KIB),
        ("size", "2MiB", Dialect.ARTEMIS, 2 * MIB),
        ("size", "-1", Dialect.ARTEMIS, UNLIMITED),
        ("size", "unlimited", Dialect.CLI, UNLIMITED),
        ("tries", "+7", Dialect.CLASSIC, 7),
        ("factor", "1.5", Dialect.CLASSIC, 1.5),
        ("factor", "2", Dialect.CLASSIC, 2.0),
        ("order", "TRUE", Dialect.CLASSIC, True),
        ("order", "false", Dialect.CLASSIC, False),
        ("full", "BLOCK", Dialect.ARTEMIS, Full.BLOCK),
        ("full", "drop-oldest", Dialect.ARTEMIS, Full.DROP_OLDEST),
        ("full", "Drop_Oldest", Dialect.ARTEMIS, Full.DROP_OLDEST),
        ("key", " x y ", Dialect.CLASSIC, "x y"),
        ("peers", "a, b,,c", Dialect.URI, ("a", "b", "c")),
        ("peers", "", Dialect.URI, ()),
    ],
)
def test_texts(name: str, text: str, dialect: Dialect, value: object) -> None:
    parsed = QueueOptions.__settings__[name].parse(text, dialect)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("delay", "-1", "1h"),
        ("delay", "2h", "0 to 1h"),
        ("delay", "5 parsecs", "ms"),
        ("delay", "1.5s", "whole number"),
        ("delay", "", "whole number"),
        ("delay", "5kb", "ms"),
        ("age", "5us", "whole milliseconds"),
        ("age", "-1s", "-1 for no limit"),
        ("size", "10ms", "kb"),
        ("size", "99999999999tb", "0 or more"),
        ("size", "-2", "-1 for no limit"),
        ("size", "9" * 21, "whole number"),
        ("tries", "0", "1 to 1000"),
        ("tries", "5kb", "whole number"),
        ("tries", "٣", "whole number"),
        ("factor", "0.9", "1.0 to 100.0"),
        ("factor", "nan", "1.0 to 100.0"),
        ("factor", "x", "decimal"),
        ("order", "1", "true or false"),
        ("full", "FAIL", "PAGE, BLOCK, DROP_OLDEST"),
    ],
)
def test_texts_that_are_refused_say_what_would_do(name: str, text: str, word: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        QueueOptions.__settings__[name].parse(text, Dialect.CLASSIC)
    assert word in caught.value.remedy
    assert f" option {QueueOptions.__settings__[name].spelling(Dialect.CLASSIC) or name} (" in caught.value.message


def test_each_dialect_reads_its_own_names() -> None:
    assert QueueOptions.read({"initialRedeliveryDelay": "5"}, Dialect.CLASSIC).delay == 5 * MILLISECOND
    assert QueueOptions.read({"redelivery-delay": "5"}, Dialect.ARTEMIS).delay == 5 * MILLISECOND
    assert QueueOptions.read({"delay": "5", "peers": "x"}, Dialect.URI).peers == ("x",)
    assert QueueOptions.read({"tries": "5", "full": "BLOCK"}, Dialect.CLI).full is Full.BLOCK
    with pytest.raises(InvalidOption):
        QueueOptions.read({"redelivery-delay": "5"}, Dialect.CLASSIC)


def test_groups_share_one_list_of_texts() -> None:
    texts = {"maximumRedeliveries": "3", "persistent": "true", "group": "g"}
    options, rest = QueueOptions.take(texts, Dialect.CLASSIC, base=QueueOptions(delay=7))
    assert (options.tries, options.group, options.delay) == (3, "g", 7)
    assert rest == {"persistent": "true"}
    assert texts == {"maximumRedeliveries": "3", "persistent": "true", "group": "g"}


def test_unknown_names_get_near_matches_and_the_known_ones() -> None:
    with pytest.raises(InvalidOption) as caught:
        QueueOptions.read({"maximumredeliverys": "3"}, Dialect.CLASSIC)
    assert "'maximumredeliverys'" in caught.value.message
    assert "did you mean maximumRedeliveries?" in caught.value.remedy
    assert "memoryLimit" in caught.value.remedy
    with pytest.raises(InvalidOption, match="are no options"):
        refuse_unknown(["zz", "yy"], ["a"])
    refuse_unknown([], ["a"])


def test_changes_are_listed_with_whether_they_are_live() -> None:
    old = QueueOptions(tries=3)
    new = QueueOptions(tries=3, delay=0, order=True)
    found = changes(old, new)
    assert [(change.setting.name, change.old, change.new, change.live) for change in found] == [
        ("delay", SECOND, 0, True),
        ("order", False, True, False),
    ]
    assert isinstance(found[0], Change)
    assert changes(old, QueueOptions(tries=3)) == []
    with pytest.raises(Fault):
        changes(old, Options())


def test_equality_hash_and_text() -> None:
    assert QueueOptions(tries=3) == QueueOptions(tries=3)
    assert QueueOptions(tries=3) != QueueOptions()
    assert len({QueueOptions(tries=3), QueueOptions(tries=3)}) == 1
    assert repr(QueueOptions(tries=3, key="secret")) == "QueueOptions(tries=3, key=****)"


def test_secrets_stay_out_of_errors() -> None:
    with pytest.raises(InvalidOption) as caught:
        QueueOptions(**{"key": ("secret",)})
    assert "secret" not in str(caught.value)


def test_everything_is_listed_for_documentation() -> None:
    listed = QueueOptions.settings()
    assert [each.name for each in listed][:3] == ["delay", "check", "age"]
    delay, size = listed[0], QueueOptions.__settings__["size"]
    assert delay.about == "wait before the second delivery"
    assert delay.range_text() == "0 to 1h"
    assert delay.show(delay.default) == "1s"
    assert size.range_text() == "0 or more, or -1 for no limit"
    assert size.show(size.default) == "64mb"
    assert delay.spelling(Dialect.ARTEMIS) == "redelivery-delay"
    assert size.spelling(Dialect.URI) == ""
    assert size.spelling(Dialect.CLI) == "size"
    assert set(QueueOptions.names(Dialect.URI)) == {"delay", "peers"}
    assert [each.name for each in listed if each.live] == ["delay", "tries"]


def test_subclasses_inherit_add_and_change_defaults() -> None:
    class TopicOptions(QueueOptions):
        tries = 5
        retain: bool = setting(True, about="keep the last one")

    options = TopicOptions()
    assert (options.tries, options.retain, options.delay) == (5, True, SECOND)
    assert QueueOptions().tries == 10
    assert "retain" not in QueueOptions.__settings__


def test_declarations_that_contradict_themselves() -> None:
    with pytest.raises(Fault, match="refused by itself"):

        class OutOfRange(Options):
            a: int = setting(5, high=4, about="x")

    with pytest.raises(Fault, match="means both"):

        class Twice(Options):
            a: int = setting(5, classic="x", about="x")
            b: int = setting(5, classic="x", about="x")

    with pytest.raises(Fault, match="must be named"):

        class NoUnit(Options):
            a: int | None = setting(None, about="x")

    with pytest.raises(Fault, match="not declared"):

        class Bare(Options):
            a: int = 5

    with pytest.raises(Fault, match="method of this name"):

        class Shadow(Options):
            names: int = setting(5, about="x")

    with pytest.raises(Fault, match="never change"):

        class Mutable(Options, frozen=False):
            a: int = setting(5, about="x")


def _value_of(declared: Setting) -> st.SearchStrategy[Any]:
    if declared.unit is Unit.FACTOR:
        return st.floats(1.0, 100.0)
    if declared.unit in (Unit.COUNT, Unit.DURATION, Unit.MILLISECONDS, Unit.OCTETS):
        low, high = int(declared.low or 0), int(declared.high or 0)
        measures = st.sampled_from([1, 1000, KIB, MIB, MILLISECOND, SECOND, MINUTE])
        numbers = st.integers(low, high) | st.tuples(st.integers(1, 999), measures).map(lambda pair: pair[0] * pair[1])
        numbers = numbers.filter(lambda number: low <= number <= high)
        return numbers | st.just(UNLIMITED) if declared.unlimited else numbers
    if declared.unit is Unit.NAMES:
        return st.lists(st.text("ab", min_size=1)).map(tuple)
    if declared.unit is Unit.CHOICE:
        return st.sampled_from(Full)
    return st.booleans() if declared.unit is Unit.FLAG else st.text("ab-1", max_size=5)


@given(st.sampled_from(QueueOptions.settings()), st.sampled_from(Dialect), st.data())
def test_shown_values_are_read_back_in_every_dialect(declared: Setting, dialect: Dialect, data: st.DataObject) -> None:
    value = data.draw(_value_of(declared))
    assert declared.parse(declared.show(value), dialect) == value


@given(st.sampled_from(QueueOptions.settings()), st.sampled_from(Dialect), st.text("-+.0159kmsbtrue ", max_size=12))
def test_any_text_is_read_into_the_range_or_refused(declared: Setting, dialect: Dialect, text: str) -> None:
    try:
        value = declared.parse(text, dialect)
    except InvalidOption:
        return
    assert declared.checked(value) == value
