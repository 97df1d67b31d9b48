"""Users and rules asked for page by page, and the matrix of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.management.rights import matrix, rules_of, users_of, verdicts_of
from kit import Rig
from unit.core.operators.test_entitlements import guarded


class Asker:
    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.asked = 0

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        self.asked += 1
        found = control(self.rig.broker, Census(), resource).call(operation, json.loads(json.dumps(values)))
        if not hasattr(found, "step"):
            return found
        while not found.step():
            pass
        return found.result()


def test_users_come_in_pages() -> None:
    lines = "".join(f"user u{number} g{number % 3} plain:x\n" for number in range(1_200))
    asker = Asker(guarded(lines))
    told = asyncio.run(users_of(asker))
    assert (told.count, len(told.rows), asker.asked, told.asks, told.guarded) == (1_200, 1_200, 3, True, False)
    assert len(asyncio.run(users_of(Asker(guarded(lines)), ["g1"], most=10)).rows) == 10


def test_rules_of_one_user_are_those_of_his_groups_and_of_everybody() -> None:
    told = asyncio.run(rules_of(Asker(guarded()), "app"))
    assert {row["group"] for row in told.rows} == {"shop", "*"}
    assert told.count == len(told.rows)
    assert not told.narrowest
    assert asyncio.run(verdicts_of(Asker(guarded()), "app", "queue://orders.eu"))["known"]


def test_the_matrix_has_a_row_for_each_pattern_and_a_column_for_each_group() -> None:
    groups, rows = matrix(asyncio.run(rules_of(Asker(guarded()))).rows)
    assert groups == ["*", "guests", "ops", "shop"]
    (prices,) = [row for row in rows if row["pattern"] == "prices.>"]
    assert prices["given"] == {"shop": "consume, browse, subscribe", "guests": "consume, browse, subscribe"}
    assert prices["line"] == 8
