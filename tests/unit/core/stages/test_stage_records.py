"""Documents of staged commits come back as they went, and each has a key of its own below that of its batch."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.core.stages import stage_records as records

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
BATCHES = st.integers(0, (1 << 63) - 1)


@given(sink=NAMES, batch=BATCHES, part=NAMES)
def test_what_was_written_is_read(sink: str, batch: int, part: str) -> None:
    stage = records.StageRecord(sink, batch, part, 1, 2, 3, ["queue://A"], 4)
    runs = records.RunsRecord(sink, batch, part, 0, [5, 1, 0])
    decision = records.DecisionRecord(sink, batch, [part], "x")
    publication = records.PublicationRecord(sink, batch, [part], 9, True)
    count = records.CountRecord(sink, "c", "s", [], "d")
    assert records.decode_stage(records.encode(stage)) == stage
    assert records.decode_runs(records.encode(runs)) == runs
    assert records.decode_decision(records.encode(decision)) == decision
    assert records.decode_publication(records.encode(publication)) == publication
    assert records.decode_count(records.encode(count)) == count


def test_a_decision_from_before_counting_has_no_decider() -> None:
    older = msgspec.msgpack.encode({"sink": "s", "batch": 1, "parts": ["p"]})
    assert records.decode_decision(older).by == ""


def test_a_torn_document_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        records.decode_stage(records.encode(records.RunsRecord("s", 1, "p", 0, [1]))[:-1])


@given(one=st.tuples(NAMES, BATCHES, NAMES), other=st.tuples(NAMES, BATCHES, NAMES))
def test_two_stages_have_two_keys(one: tuple[str, int, str], other: tuple[str, int, str]) -> None:
    assert (records.stage_key(*one) == records.stage_key(*other)) == (one == other)
    assert records.runs_key(*one, 3).startswith(records.stage_key(*one))
    assert records.stage_key(*one).startswith(records.batch_key(one[0], one[1]))
