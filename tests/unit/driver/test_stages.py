from __future__ import annotations

import pytest

from entrepot.base.errors import ProtocolViolation, StageError
from entrepot.driver.stages import (
    Staged,
    batch_of,
    broker_of,
    by_broker,
    candidates,
    check_at_once,
    part_name,
    sinks,
)


def test_a_part_says_where_it_is() -> None:
    parts = [part_name("a~b", "1"), part_name("c", "2"), part_name("a~b", "3")]
    assert [broker_of(part) for part in parts] == ["a~b", "c", "a~b"]
    assert by_broker(parts) == {"a~b": [parts[0], parts[2]], "c": [parts[1]]}
    with pytest.raises(ProtocolViolation):
        broker_of("another program's")


def test_tasks_without_rows_have_no_part_and_still_say_whose_batch_it_is() -> None:
    messages = [Staged("s", 4, "a~1", 10), None, Staged("s", 4, "", 0)]
    assert candidates(messages) == ["a~1"]
    assert sinks(messages) == "s"
    assert batch_of(messages) == 4
    assert sinks([]) == ""


def test_tasks_that_disagree_are_a_fault() -> None:
    with pytest.raises(ProtocolViolation):
        sinks([Staged("s", 1, "a~1", 1), Staged("t", 1, "a~2", 1)])
    with pytest.raises(ProtocolViolation):
        batch_of([Staged("s", 1, "a~1", 1), Staged("s", 2, "a~2", 1)])


def test_what_a_broker_would_show_in_steps_is_refused_with_a_way_out() -> None:
    shares = [Staged("s", 1, "a~1", 5, 60, 100), Staged("s", 1, "b~1", 5, 60, 100), None, Staged("s", 1, "", 0)]
    check_at_once([*shares, Staged("s", 1, "b~2", 5, 40, 100)])
    with pytest.raises(StageError, match=r"more than 100 octets on the broker a; .*maxMessagesPerTrigger"):
        check_at_once([*shares, Staged("s", 1, "a~2", 5, 41, 100)])
