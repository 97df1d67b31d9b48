"""docs/decided.md, docs/glossary.md and ARCHITECTURE.md name places that are there; the first two, nothing twice."""

from __future__ import annotations

import re

import pytest

from decided import PAGES, PLACE, Row, is_there, mended, place_now, rows, text_of

QUESTIONS = rows(text_of("docs/decided.md"))
WORDS = rows(text_of("docs/glossary.md"))


def test_there_are_sixty_questions_and_none_is_asked_twice() -> None:
    questions = [row.name for row in QUESTIONS]
    assert len(questions) >= 60
    assert sorted(questions) == sorted(set(questions))
    assert [question for question in questions if "?" not in question] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_place_is_there(page: str) -> None:
    lost = [f"{path}:{name}" for path, name in PLACE.findall(text_of(page)) if not is_there(path, name)]
    assert lost == [], "moved? `python tests/decided.py` writes the new path, if there is one"


def test_a_question_has_one_place() -> None:
    assert {row.name: len(row.places) for row in QUESTIONS if len(row.places) != 1} == {}
    assert all(name for row in QUESTIONS for _, name in row.places)


def test_the_twenty_are_there() -> None:
    assert sum(bool(row.mark) for row in QUESTIONS) == 20


def test_words_are_in_order_and_each_lives_in_one_module() -> None:
    words = [row.name.lower() for row in WORDS]
    assert len(words) >= 50
    assert words == sorted(set(words))
    assert [row.name for row in WORDS if len(row.also) != 1] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/index.md"])
@pytest.mark.parametrize("name", ["decided", "glossary"])
def test_readers_are_sent_there(page: str, name: str) -> None:
    assert re.search(rf"(docs/{name}\.md\)|^{name}$)", text_of(page), re.MULTILINE)


def test_a_place_that_is_not_there_is_found() -> None:
    assert is_there("model/ids.py", "")
    assert not is_there("model/ids.py", "nothing")
    assert not is_there("model/no.py", "")


def test_a_row_is_read() -> None:
    assert rows("| Question | a | b |\n|---|---|---|\n| ① Why? | `a/b.py:C.d`, `e.py:f` | `g.py` |") == [
        Row("Why?", "①", [("a/b.py", "C.d"), ("e.py", "f")], [("g.py", "")])
    ]


def test_a_place_follows_its_module_or_its_function() -> None:
    assert place_now("core/message.py", "") == "" or is_there("core/message.py", "")  # there are several
    assert place_now("core/cron.py", "Cron.parse") == "`base/cron.py:Cron.parse`"
    assert place_now("core/elsewhere.py", "days_from_civil") == "`base/cron.py:days_from_civil`"
    assert place_now("core/elsewhere.py", "no_such_function") == ""
    assert mended("see `core/cron.py`, or `base/uri.py`") == "see `base/cron.py`, or `base/uri.py`"
