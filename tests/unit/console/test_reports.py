"""A directory of reports: what is found of each, no way out of it, and bounds of what is looked at and opened."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from entrepot.base.errors import LimitExceeded, Refused
from entrepot.console import reports as reading
from entrepot.console.reports import Reports


def job(place: Path, kind: str, sentence: object, *, good: object = True) -> None:
    """Leave what a job leaves."""
    place.mkdir(parents=True)
    (place / "report.html").write_text("<!doctype html><title>Audit</title>whole")
    (place / "report.txt").write_text("whole")
    (place / "summary.json").write_text(json.dumps({"kind": kind, "sentence": sentence, "good": good}))
    (place / "totals.parquet").mkdir()
    (place / "totals.parquet" / "part.html").write_text("no report")


def test_a_job_is_one_report_and_other_files_say_what_they_are(tmp_path: Path) -> None:
    job(tmp_path / "night" / "audit", "audit", "nothing was lost")
    job(tmp_path / "plan", "plan", "it breaks", good=False)
    (tmp_path / "archive.json").write_text('{"title": "9 messages archived in x", "made": "", "archived": []}')
    (tmp_path / "page.html").write_text("<html><TITLE> 3 &lt; 4 </TITLE>")
    (tmp_path / "words.txt").write_text("first\nsecond")
    (tmp_path / "other.bin").write_text("x")
    (tmp_path / ".hidden.txt").write_text("x")
    for at, name in enumerate(
        ("words.txt", "page.html", "archive.json", "plan/report.html", "night/audit/report.html")
    ):
        os.utime(tmp_path / name, (at, at))
    found, whole = Reports(str(tmp_path)).listed()
    assert whole
    assert [(one.place, one.kind, one.sentence, one.good) for one in found] == [
        ("night/audit/report.html", "audit", "nothing was lost", True),
        ("plan/report.html", "plan", "it breaks", False),
        ("archive.json", "archived", "9 messages archived in x", None),
        ("page.html", "html", "3 < 4", None),
        ("words.txt", "txt", "first", None),
    ]


def test_a_summary_that_is_none_is_no_harm(tmp_path: Path) -> None:
    for at, text in enumerate(
        ("[1]", "{", '{"kind": 7, "sentence": null, "good": "yes"}', "[" * 60_000, '{"kind":"' + "k" * 99 + '"}')
    ):
        place = tmp_path / f"{at}"
        job(place, "", "")
        (place / "summary.json").write_text(text)
    found, _ = Reports(str(tmp_path)).listed()
    assert len(found) == 5
    assert all(one.good is None and len(one.kind) <= 40 for one in found)


@pytest.mark.parametrize(
    "place",
    [
        *("../secret.html", "a/../../secret.html", "/etc/passwd.html", "", "a//b.html", "a/./b.html", ".."),
        "a\\..\\b.html",
        *("x\0.html", "link.html", "linked/b.html", ".hidden.html", "a/.b/c.html", "plan", "other.bin", "pipe.html"),
        "\udc80.html",
    ],
)  # fmt: skip
def test_no_path_leads_out_and_no_link_is_followed(place: str, tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "other.bin").write_text("x")
    (root / ".hidden.html").write_text("x")
    (root / "link.html").symlink_to(tmp_path / "secret.html")
    (root / "linked").symlink_to(tmp_path)
    (tmp_path / "b.html").write_text("secret")
    os.mkfifo(root / "pipe.html")
    with pytest.raises(Refused):
        Reports(str(root)).read(place)
    assert Reports(str(root)).listed() == ([], True)


def test_what_is_looked_at_and_opened_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(9):
        (tmp_path / f"{at}.txt").write_text(f"number {at}")
        os.utime(tmp_path / f"{at}.txt", (at, at))
    monkeypatch.setattr(reading, "SHOWN_MOST", 3)
    found, whole = Reports(str(tmp_path)).listed()
    assert ([one.place for one in found], whole) == (["8.txt", "7.txt", "6.txt"], False)
    monkeypatch.setattr(reading, "ENTRIES_MOST", 4)
    monkeypatch.setattr(reading, "SHOWN_MOST", 100)
    found, whole = Reports(str(tmp_path)).listed()
    assert (len(found), whole) == (5, False)
    monkeypatch.setattr(reading, "REPORT_OCTETS", 8)
    assert Reports(str(tmp_path)).read("1.txt") == (b"number 1", "text/plain; charset=utf-8")
    (tmp_path / "1.txt").write_text("number 10")
    with pytest.raises(LimitExceeded):
        Reports(str(tmp_path)).read("1.txt")
    with pytest.raises(Refused, match="cannot be read"):
        Reports(str(tmp_path / "nowhere")).listed()
