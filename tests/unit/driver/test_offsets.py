from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption
from entrepot.driver.offsets import Offsets, milliseconds, parse, parse_end, parse_start, source_name

SOURCE = source_name("/queue/q", "s")
SHARDS = st.dictionaries(st.text(min_size=1), st.integers(0, 1 << 60))


@given(SHARDS)
def test_what_spark_keeps_as_json_comes_back(shards: dict[str, int]) -> None:
    offsets = Offsets(SOURCE, shards)
    assert parse(json.loads(json.dumps(offsets.as_json())), SOURCE) == offsets


@given(SHARDS, SHARDS)
def test_a_position_never_goes_back(before: dict[str, int], moved: dict[str, int]) -> None:
    after = Offsets(SOURCE, before).moved(moved, moved)
    assert set(after.shards) == set(before) | set(moved)
    assert all(after.shards[shard] >= position for shard, position in before.items())
    assert after.moved(moved, {}) == after
    assert after.first == {shard: position for shard, position in moved.items() if shard not in before}


def test_the_same_offsets_are_the_same_text_whatever_order_they_were_found_in() -> None:
    one, other = Offsets(SOURCE, {"a": 1, "b": 2}), Offsets(SOURCE, {"b": 2, "a": 1})
    assert json.dumps(one.as_json()) == json.dumps(other.as_json())


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"version": 2, "source": SOURCE, "shards": {}}, "version 2"),
        ({"version": 1, "source": "/queue/other#s", "shards": {}}, "the checkpoint is of '/queue/other#s'"),
        ({"version": 1, "source": SOURCE, "shards": {"a": -1}}, "no offsets of entrepot"),
        ({"version": 1, "source": SOURCE, "shards": {"a": True}}, "no offsets of entrepot"),
        ({"version": 1, "source": SOURCE, "shards": 3}, "no offsets of entrepot"),
        ({"topic": {"0": 12}}, "version None"),
        ([], "no offsets of entrepot"),
    ],
)
def test_foreign_offsets_are_refused(given: object, part: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse(given, SOURCE)
    assert part in str(caught.value)


def test_a_starting_position_is_a_table_of_shards_or_the_offsets_of_a_query() -> None:
    assert parse_start('{"a": 5}', SOURCE) == (Offsets(SOURCE, {"a": 5}), {})
    assert parse_start(json.dumps(Offsets(SOURCE, {"a": 5}).as_json()), SOURCE)[0].shards == {"a": 5}


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("earliest", {}),
        ("latest", {"from": "latest"}),
        ("1970-01-02T00:00:00Z", {"from": "86400000"}),
        ("1970-01-02", {"from": "86400000"}),
        ("1970-01-02T02:00:00.25+02:00", {"from": "86400250"}),
    ],
)
def test_or_an_end_or_a_time_which_leave_the_offsets_as_they_are(text: str, headers: dict[str, str]) -> None:
    assert parse_start(text, SOURCE) == (Offsets(SOURCE, {}), headers)


@pytest.mark.parametrize("text", ["newest", "1969-12-31", '{"a": ', "12", ""])
def test_and_nothing_else(text: str) -> None:
    with pytest.raises(InvalidOption, match="startingPosition is"):
        parse_start(text, SOURCE)


def test_an_end_is_positions_or_none_of_them() -> None:
    assert parse_end('{"A": 5, "B": 0}', SOURCE) == {"A": 5, "B": 0}
    assert parse_end(json.dumps(Offsets(SOURCE, {"A": 5}).as_json()), SOURCE) == {"A": 5}, "what Spark shows"
    assert parse_end("2026-11-21T13:00:00Z", SOURCE) is None
    assert parse_end("", SOURCE) is None


@pytest.mark.parametrize("text", ["{}", '{"a": ', '{"a": -1}', '{"a": "5"}', '{"a": true}'])
def test_an_end_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidOption):
        parse_end(text, SOURCE)


def test_an_end_of_another_source_is_refused() -> None:
    with pytest.raises(InvalidOption, match="it is of '/queue/other#s'"):
        parse_end(json.dumps(Offsets("/queue/other#s", {"A": 5}).as_json()), SOURCE)


def test_a_bound_is_a_time_and_nothing_else() -> None:
    assert milliseconds("1970-01-02T02:00:00.25+02:00", "until") == 86_400_250
    for text in ("latest", "1969-12-31", "12", ""):
        with pytest.raises(InvalidOption, match="until is"):
            milliseconds(text, "until")
