"""Tables of Rights, Configuration and Drift: their cells, and what is said where there is more, less or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from entrepot.base.errors import AccessDenied, Refused
from entrepot.console.effective_pages import DIFFERENCES_MOST, SIZE, _alike, _notes, _table, _turns
from entrepot.console.rights_pages import GROUPS_MOST, _judged, _people, _rules
from entrepot.console.rights_pages import _notes as notes_of_rights
from entrepot.management.drift import Setting, Settings, differences
from entrepot.management.rights import Told, rules_of
from unit.core.operators.test_entitlements import guarded
from unit.management.test_rights import Asker


def grants(count: int, *, guarded: bool = True) -> Told:
    rows = [
        {"pattern": f"p{at}", "kind": "any", "group": f"g{at}", "rights": ["send"], "file": "f", "line": at + 1}
        for at in range(count)
    ]
    return Told(rows, count, True, guarded, False)


def settings(*names: str, count: int = 0, family: str = "classic") -> Settings:
    return Settings([Setting(name, "v") for name in names], count or len(names), [], family, [])


def test_few_groups_are_columns_and_many_are_rows() -> None:
    few, many = _rules(grants(GROUPS_MOST)), _rules(grants(GROUPS_MOST + 1))
    assert len(few.columns) == 2 + GROUPS_MOST + 1
    assert (few.rows[0]["group 0"], few.rows[0]["group 1"], few.rows[0]["where"]) == ("send", "", "f:1")
    assert [label for _, label, _ in many.columns] == ["On", "Kind", "Group", "May", "Written in"]
    assert "no rules" in _rules(grants(0, guarded=False)).empty


def test_users_beyond_what_is_shown_are_counted() -> None:
    row = {"user": "u", "groups": ["a", "b"], "comes": "by his password", "file": "", "line": 0}
    table = _people(Told([row], 700, True, True, True))
    assert table.title == "Users: the first 1 of 700"
    assert (table.rows[0]["roles"], table.rows[0]["where"]) == ("a, b", "")
    assert notes_of_rights(Told([], 0, False, True, True), Told([], 0, False, True, True))[1].startswith("This broker")


def test_a_question_that_cannot_be_meant_is_no_page_of_its_own() -> None:
    class Desk:
        def __init__(self, error: Exception) -> None:
            self.error = error

        async def ask(self, *values: object) -> Any:
            raise self.error

    tables, trouble = asyncio.run(_judged(Desk(Refused("no")), "u", "a"))  # type: ignore[arg-type]
    assert (tables, "no" in trouble) == ([], True)
    with pytest.raises(AccessDenied):
        asyncio.run(_judged(Desk(AccessDenied("no")), "u", "a"))  # type: ignore[arg-type]
    (table,), _ = asyncio.run(_judged(Asker(guarded()), "who", "queue://open"))  # type: ignore[arg-type]
    assert "nobody is called so here" in table.title
    assert asyncio.run(rules_of(Asker(guarded()))).guarded


def test_differences_are_a_column_a_broker_whatever_it_is_called() -> None:
    table = _table("", differences({"setting": settings("x"), "b": settings("y")}), ["setting", "b"], "")
    assert [key for key, _, _ in table.columns] == ["setting", "broker 0", "broker 1"]
    assert next((row["setting"], row["broker 0"][0], row["broker 1"]) for row in table.rows) == ("x", "v", "not set")
    many = differences({"a": settings(*(f"s{at}" for at in range(DIFFERENCES_MOST + 5))), "b": settings()})
    assert len(_table("", many, ["a", "b"], "").rows) == DIFFERENCES_MOST
    assert _notes({"a": settings("x", count=9), "b": settings(family="artemis")}, many) == [
        "Of a the first 1 of 9 settings are compared.",
        "Their files are of different families, which call the same by other names.",
        f"{DIFFERENCES_MOST + 5:,} settings differ: search for one.",
    ]
    assert [_alike(["a"], "").partition(":")[0], _alike(["a", "b"], "x"), _alike(["a", "b"], "")] == [
        "There is one broker to look at", "No difference is called like that.", "These brokers obey the same.",
    ]  # fmt: skip


def test_a_search_goes_on_to_its_other_pages() -> None:
    told = settings(*(f"s{at}" for at in range(SIZE)), count=3 * SIZE)
    turns = _turns("b", "a&b", "file", 2, told)
    assert [label for label, _ in turns] == ["earlier", f"{SIZE + 1} to {2 * SIZE} of {3 * SIZE}", "later"]
    assert turns[2][1] == "/configuration?broker=b&q=a%26b&source=file&page=3"
    assert _turns("b", "", "", 1, settings()) == [("none of 0", "")]
