"""What the progress of a query says about messages that wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrepot.pipeline.lag import lag


def offsets(shards: dict[str, int], first: dict[str, int] | None = None) -> dict[str, Any]:
    return {"version": 1, "source": "/queue/q#s", "shards": shards, "first": first or {}}


@pytest.mark.parametrize("text", [False, True], ids=["read", "as text"])
def test_what_waits_is_what_lies_behind_the_last_batch(text: bool) -> None:
    written = json.dumps if text else dict
    ours = {
        "endOffset": written(offsets({"A": 100, "B": 7})),
        "latestOffset": written(offsets({"A": 130, "B": 5, "C": 60}, {"C": 50})),
    }
    other = {"endOffset": "17", "latestOffset": "20"}
    assert lag({"sources": [ours, other]}) == {"/queue/q#s": 30 + 0 + 10}
    assert lag({"sources": [ours, ours]}) == {"/queue/q#s": 80}


@pytest.mark.parametrize(
    "progress",
    [
        None,
        {},
        {"sources": []},
        {"sources": [{"endOffset": None, "latestOffset": None}]},
        {"sources": [{"endOffset": "{", "latestOffset": "]"}]},
        {"sources": [{"endOffset": {"a": 1}, "latestOffset": {"source": "x"}}]},
    ],
)
def test_a_progress_that_says_nothing_is_empty(progress: Any) -> None:
    assert lag(progress) == {}
