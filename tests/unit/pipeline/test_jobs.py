"""What the jobs decide without Spark: what is of an archive, what a replay asks for, how rows become portions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption, InvalidSelector, OperatorError
from entrepot.pipeline.jobs import editing, layout, pages, replay, selection, summary
from entrepot.pipeline.jobs.archive import Batch
from entrepot.pipeline.jobs.compaction import Compacted
from entrepot.pipeline.jobs.layout import Kept
from entrepot.pipeline.jobs.replay import Wanted
from entrepot.pipeline.jobs.storage import Storage

TYPES = {
    "string": "string",
    "binary": "binary",
    "int": "integer",
    "bigint": "long",
    "boolean": "boolean",
    "timestamp": "timestamp",
    "map<string,string>": {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True},
    "array<string>": {"type": "array", "elementType": "string", "containsNull": False},
}


def schema(version: int = 1, **changed: Any) -> str:
    fields = []
    for column in layout.STORED:
        type_ = changed.get(column.name, TYPES[column.type])
        if type_:
            fields.append({"name": column.name, "type": type_, "nullable": True, "metadata": {}})
    fields += [{"name": name, "type": "string", "metadata": {}} for name in changed if name not in known()]
    if version:
        fields[0]["metadata"] = {layout.VERSION_KEY: version}
    return json.dumps({"type": "struct", "fields": fields})


def known() -> list[str]:
    return [column.name for column in layout.STORED]


def test_a_file_of_an_archive_is_known_by_its_own_schema() -> None:
    layout.check_schema(schema(), "f")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "carries no schema of Spark"),
        (schema(version=0), r"no version of an archive \(its columns: message_id, body, text"),
        (schema(version=2), "of version 2 of the archive; this entrepot reads up to version 1"),
        (schema(body=None), "the column 'body' is missing"),
        (schema(priority="long"), "the column 'priority' is 'long', not int"),
        (schema(colour="string"), "nothing is known of the column 'colour'"),
        ('{"fields": []}', r"its columns: none"),
    ],
)
def test_a_foreign_file_is_refused_with_what_is_foreign(text: str | None, part: str) -> None:
    with pytest.raises(InvalidOption, match=part):
        layout.check_schema(text, "f")


@pytest.mark.parametrize("text", ["", "[]", '{"format":"other","version":1,"id":"x"}', '{"format":1}'])
def test_a_mark_that_is_none(text: str) -> None:
    with pytest.raises(InvalidOption, match="is not of an entrepot archive"):
        layout.read_mark(text, "here")


def test_what_is_wanted_is_kept_in_one_form() -> None:
    found = replay.checked(Wanted(["b", "a", "b"], "2026-11-21T14:00+01:00", "2026-11-22", "a = 1", ["2", "1", "2"]))
    assert found == Wanted(["a", "b"], "2026-11-21T13:00:00+00:00", "2026-11-22T00:00:00+00:00", "a = 1", ["1", "2"])
    assert replay.checked(found) == found


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (Wanted(since="soon"), InvalidOption),
        (Wanted(since="2026-11-21", until="2026-11-21"), InvalidOption),
        (Wanted(selector="a ="), InvalidSelector),
    ],
)
def test_what_cannot_be_wanted(wanted: Wanted, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        replay.checked(wanted)


def test_edits_are_kept_in_one_form() -> None:
    edits = {"version": "2", "JMSReplyTo": "/queue/b", "JMSPriority": "9", "JMSCorrelationID": None, "a b": ""}
    found = editing.checked(edits)
    assert found == edits
    assert list(found) == sorted(edits)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "a"),
        ("JMSPriority", "10"),
        ("JMSPriority", "high"),
        ("JMSMessageID", "a"),
        ("JMSXGroupSeq", None),
        ("_AMQ_GROUP_ID", "g"),
        ("_AMQ_DUPL_ID", None),
        ("AMQ_SCHEDULED_CRON", "* * * * *"),
        ("destination", "/queue/other"),
        ("transaction", "t"),
        ("a", "b\0c"),
        ("a\0", None),
    ],
)
def test_what_cannot_be_edited(name: str, value: str | None) -> None:
    with pytest.raises(InvalidOption):
        editing.checked({name: value})


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [
        ("", "", [22, 23, 24]),
        ("2026-11-21T23:59:00+00:00", "", [23, 24]),
        ("", "2026-11-21T23:00:00+00:00", [22, 23]),  # 23 for nothing: the last moment is not included
        ("2026-11-21T22:30:00+00:00", "2026-11-21T22:31:00+00:00", [22]),
        ("2026-11-22T00:00:00+00:00", "2026-11-23T00:00:00+00:00", [24]),
    ],
)
def test_only_hours_that_can_hold_it_are_read(since: str, until: str, hours: list[int]) -> None:
    found = [
        hour
        for hour in (22, 23, 24)
        if replay._may_hold(
            f"destination=%2Fqueue%2Fa/date=2026-11-{21 + hour // 24}/hour={hour % 24}/x.parquet",
            Wanted(since=since, until=until),
        )
    ]
    assert found == hours


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 40))
def test_portions_are_all_rows_once_and_in_order(sizes: list[int], portion: int) -> None:
    starts: dict[str, int] = {}
    numbers: list[int] = []
    for task, size in enumerate(sizes):
        starts[str(task * 3)] = len(numbers)  # tasks without rows are not there
        numbers += [(task * 3 << 33) + row for row in range(size)]
    found: list[int] = []
    for low in range(0, len(numbers), portion):
        high = min(len(numbers), low + portion)
        rows = [n for a, b in replay.ranges(starts, low, high, len(numbers)) for n in range(a, b)]
        assert len(rows) == high - low
        found += rows
    assert found == numbers


@pytest.mark.parametrize(
    ("pattern", "escape", "wanted"),
    [
        ("a%_", "", "a%_"),
        ("50!%", "!", r"50\%"),
        ("a!b", "!", "a!b"),
        ("!!", "!", "!"),
        ("a\\b", "", r"a\\b"),
        ("a\\%", "\\", r"a\%"),
        ("a\\\\", "\\", r"a\\"),
        ("%%", "%", r"\%"),
    ],
)
def test_patterns_in_the_words_of_spark(pattern: str, escape: str, wanted: str) -> None:
    assert selection.like_pattern(pattern, escape) == wanted


def test_reports_say_the_same_in_three_forms(tmp_path: Path) -> None:
    tally = summary.Tally(["/queue/a", "/queue/<b>"])
    files = [Kept("d=1/date=x/hour=1/f", 600, 10), Kept("d=1/date=x/hour=2/f", 400, 20)]
    tally.add("/queue/a", Batch("q", 0, "s", ["x", "y"], files, 0.5))
    tally.add("/queue/a", Batch("q", 1, "s", ["x"], files[:1], 0.5))
    report = summary.of_archive("/archive", tally, Compacted(1, 1000, 3, 1, 40, 30))
    written = tally.written["/queue/a"]
    assert (written.messages, written.files, written.batches, written.hours) == (1600, 3, 2, 2)
    assert written.messages_s == 1600.0
    for suffix in summary.SUFFIXES:
        report.write(tmp_path / f"r{suffix}")
    text = (tmp_path / "r.txt").read_text()
    assert text.startswith("1,600 messages archived in /archive\n")
    assert "/queue/a        1,600      40      3        2      2       1,600" in text
    page = (tmp_path / "r.html").read_text()
    assert "/queue/&lt;b&gt;" in page
    told = msgspec.json.decode((tmp_path / "r.json").read_bytes())
    assert told["archived"][0]["messages"] == 1600
    assert told["compacted"][0]["files_after"] == 1
    with pytest.raises(InvalidOption, match="says no kind of report"):
        report.write(tmp_path / "r.pdf")


class Connected:
    """A session of Spark Connect, as a job sees it: it raises for what it has not."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"[JVM_ATTRIBUTE_NOT_SUPPORTED] Attribute `{name}` is not supported in Spark Connect")


def test_a_job_over_spark_connect_is_refused_with_the_way_that_works() -> None:
    with pytest.raises(OperatorError, match="Spark Connect") as refused:
        Storage(Connected(), "data")  # type: ignore[arg-type]
    assert "spark-submit" in refused.value.remedy


def test_a_name_has_one_colour_in_all_plots_of_a_page_and_no_plot_has_one_twice() -> None:
    colours = pages.Colours()
    first = dict(zip("abc", colours.of("abc"), strict=True))
    second = dict(zip("bad", colours.of("bad"), strict=True))
    assert (second["a"], second["b"]) == (first["a"], first["b"])
    assert second["d"] not in first.values()
    many = colours.of([*map(str, range(pages.SERIES_MAX - 1)), "a"])
    assert len(set(many)) == pages.SERIES_MAX
    assert many[-1] == first["a"]


def test_a_command_in_a_sentence_is_set_as_one_and_escaped() -> None:
    assert pages.paragraph("`a < b` runs") == "<p><code>a &lt; b</code> runs</p>"
