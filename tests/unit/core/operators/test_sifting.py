"""A page of a long list that is searched, at the pace of what is between messages."""

from __future__ import annotations

from typing import Any

from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.pace import PART, Pace
from entrepot.core.operators.sifting import LOOKED_A_STEP, Sifted
from kit import Rig


def sifted(rig: Rig, wanted: dict[str, Any]) -> tuple[Any, int]:
    given = Arguments("describe", [wanted])
    work = Sifted(given, "numbers", range(5_000), Pace(rig.broker), str, lambda one: {"n": one}, facts={"of": "x"})
    steps = 1
    while not work.step():
        steps += 1
    return work.result(), steps


def test_a_page_has_the_rows_that_are_meant_and_says_how_many_there_are() -> None:
    found, _ = sifted(Rig(), {"search": "99", "skip": 1, "most": 2})
    assert (found["of"], found["rows"]) == ("x", [{"n": 199}, {"n": 299}])
    assert found["count"] == sum("99" in str(number) for number in range(5_000))


def test_a_step_is_short_where_there_is_time() -> None:
    rig = Rig()
    rig.broker.effort.alone = True
    assert sifted(rig, {})[1] == 5_000 // (LOOKED_A_STEP // PART) + 1
    rig.broker.effort.alone = False
    assert sifted(rig, {})[1] == 5_000 // LOOKED_A_STEP + 2
