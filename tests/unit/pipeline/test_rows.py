from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import EntrepotError, InvalidDestination, InvalidOption
from entrepot.pipeline.rows import MEANT, PASSED_OVER, RESERVED, Encoder
from entrepot.protocols.stomp.columns import NOT_PROPERTIES
from entrepot.protocols.stomp.frames import V1_2, Frame, FrameParser
from entrepot.protocols.stomp.passing import CONSUMED

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def sent(columns: dict[str, Any], destination: str = "/queue/q", properties: tuple[str, ...] = ()) -> list[Frame]:
    batch = pa.RecordBatch.from_pydict(columns)
    parser = FrameParser(V1_2)
    parser.feed(b"".join(Encoder(batch.schema.names, properties, destination).frames(batch, "stage:p\n")))
    found: list[Frame] = []
    while (frame := parser.take()) is not None:
        found.append(frame)
    assert parser.buffered == 0
    return found


def test_every_column_becomes_its_header() -> None:
    columns = {
        "body": [b"a\0b"],
        "properties": pa.array([[("farbe:1", "grün\n")]], pa.map_(pa.string(), pa.string())),
        "priority": [7],
        "expiration": [datetime(2100, 1, 1, tzinfo=UTC)],
        "correlation_id": ["c"],
        "reply_to": ["/queue/r"],
        "type": ["t"],
        "group_id": ["g"],
        "group_sequence": [3],
        "persistent": [False],
        "duplicate_id": ["d"],
        "delay_ms": [50],
        "amount": [12],
        "fine": [True],
    }
    (frame,) = sent(columns, properties=("amount", "fine"))
    assert frame.body == b"a\0b"
    assert frame.headers == {
        "destination": "/queue/q",
        "stage": "p",
        "farbe:1": "grün\n",
        "priority": "7",
        "expires": "4102444800000",
        "correlation-id": "c",
        "reply-to": "/queue/r",
        "type": "t",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": "3",
        "persistent": "false",
        "_AMQ_DUPL_ID": "d",
        "AMQ_SCHEDULED_DELAY": "50",
        "amount": "12",
        "fine": "true",
        "content-length": "3",
    }


def test_text_has_no_length_unless_it_must_and_what_is_null_is_left_out() -> None:
    frames = sent({"text": ["plain", "with \0", None], "type": ["t", None, None], "priority": [None, None, 4]})
    assert [frame.body for frame in frames] == [b"plain", b"with \0", b""]
    assert ["content-length" in frame.headers for frame in frames] == [False, True, True]  # null is no text
    assert frames[1].headers["amq-msg-type"] == "text"
    assert ["type" in frame.headers for frame in frames] == [True, False, False]
    assert all(frame.headers["persistent"] == "true" for frame in frames)


def test_what_was_text_and_octets_at_the_source_is_so_again() -> None:
    text, octets = sent({"body": [b"abc", b"\xff"], "text": ["abc", None]})
    assert (text.body, octets.body) == (b"abc", b"\xff")
    assert "content-length" not in text.headers
    assert octets.headers["content-length"] == "1"


def test_the_option_counts_before_the_column() -> None:
    columns = {"text": ["a"], "destination": ["/queue/from"]}
    assert sent(columns)[0].headers["destination"] == "/queue/q"
    assert sent(columns, destination="")[0].headers["destination"] == "/queue/from"


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"text": ["a"], "destination": ["elsewhere"]}, InvalidDestination),
        ({"text": ["a"], "destination": pa.array([None], pa.string())}, InvalidDestination),
        ({"text": ["a"], "destination": ["/queue/q"], "priority": [10]}, InvalidOption),
        ({"text": ["a"], "destination": ["/queue/q"], "delay_ms": [-1]}, InvalidOption),
        ({"text": ["a"], "destination": ["/queue/q"], "type": ["a\0b"]}, InvalidOption),
        (
            {
                "text": ["a"],
                "destination": ["/queue/q"],
                "properties": pa.array([[("receipt", "r")]], pa.map_(pa.string(), pa.string())),
            },
            InvalidOption,
        ),
    ],
)
def test_a_row_that_cannot_be_a_message_is_refused(columns: dict[str, Any], error: type[EntrepotError]) -> None:
    with pytest.raises(error):
        sent(columns, destination="")


def with_properties(pairs: dict[str, str], **columns: Any) -> dict[str, Any]:
    map_ = pa.array([list(pairs.items())], pa.map_(pa.string(), pa.string()))
    return {"text": ["a"], "properties": map_, **columns}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_header_of_stomp_is_no_property_and_the_refusal_names_the_column(name: str) -> None:
    """Also those that the broker would have taken for itself without a word: ``ack``, ``amq-msg-type``."""
    for made in (
        lambda: sent(with_properties({name: "x"})),
        lambda: sent({"text": ["a"], name: ["x"]}, properties=(name,)),
    ):
        with pytest.raises(InvalidOption, match=f"no property can be called '{name}'") as caught:
            made()
        assert (RESERVED[name] or "another name") in str(caught.value.remedy)


@pytest.mark.parametrize(("name", "column"), sorted(MEANT.items()))
def test_a_property_that_means_something_means_it_and_is_said_once(name: str, column: str) -> None:
    (frame,) = sent(with_properties({name: "7"}))
    assert frame.headers[name] == "7"
    value = [7] if column in ("group_sequence", "delay_ms") else ["7"]
    with pytest.raises(InvalidOption, match=f"'{name}' and the column {column} say the same"):
        sent(with_properties({name: "7"}, **{column: value}))
    nothing = pa.array([None], pa.int64() if column in ("group_sequence", "delay_ms") else pa.string())
    (frame,) = sent(with_properties({name: "7"}, **{column: nothing}))
    assert frame.headers[name] == "7"


def test_every_header_that_the_broker_takes_for_itself_has_its_place_in_the_rule() -> None:
    """What is written as a property does not vanish: what SEND consumes is refused, means something, or is ours."""
    scheduling = {name for name in map(bytes.decode, CONSUMED) if name.startswith("AMQ_SCHEDULED_")}
    assert set(map(bytes.decode, CONSUMED)) - scheduling - RESERVED.keys() - PASSED_OVER == set()
    assert set(map(bytes.decode, NOT_PROPERTIES)) - RESERVED.keys() - MEANT.keys() == set()


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)


@given(
    st.lists(st.tuples(st.binary(max_size=40), TEXT, st.dictionaries(TEXT.filter(bool), TEXT, max_size=3)), max_size=8)
)
def test_any_body_and_any_text_in_headers_arrive_as_they_were(rows: list[tuple[bytes, str, dict[str, str]]]) -> None:
    properties = [[(f"p{name}", value) for name, value in table.items()] for _, _, table in rows]
    frames = sent(
        {
            "body": pa.array([body for body, _, _ in rows], pa.binary()),
            "correlation_id": pa.array([text for _, text, _ in rows], pa.string()),
            "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
        }
    )
    assert [frame.body for frame in frames] == [body for body, _, _ in rows]
    assert [frame.headers["correlation-id"] for frame in frames] == [text for _, text, _ in rows]
    for frame, pairs in zip(frames, properties, strict=True):
        assert all(frame.headers[name] == value for name, value in pairs)
