from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from entrepot.management.whole import sockets_of, whole_of


class Process:
    """One that answers only when all have been asked."""

    def __init__(self, said: int, asked: list[int], all_asked: asyncio.Event, count: int) -> None:
        self.said = said
        self.asked = asked
        self.all_asked = all_asked
        self.count = count

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        self.asked.append(self.said)
        if len(self.asked) == self.count:
            self.all_asked.set()
        await asyncio.wait_for(self.all_asked.wait(), 10)
        return self.said


def test_what_only_looks_is_asked_of_all_processes_at_the_same_time() -> None:
    async def run() -> Any:
        asked: list[int] = []
        event = asyncio.Event()
        parts = {number: Process(number + 1, asked, event, 3) for number in range(3)}
        return await whole_of("b", parts, {}).ask("broker", "getConnectionCount")

    assert asyncio.run(run()) == 1 + 2 + 3


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may look into every directory")
def test_sockets_that_another_user_has_are_none(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o600)
    assert sockets_of({"processes": 2, "sockets": [f"{private}/0", f"{private}/1"]}) == []


def test_sockets_are_those_of_processes_on_this_machine(tmp_path: Path) -> None:
    sockets = [f"{tmp_path}/0", f"{tmp_path}/1"]
    assert sockets_of({"processes": 2, "sockets": sockets}) == sockets
    assert sockets_of({"sockets": sockets}) == []
    assert sockets_of({"processes": 2}) == []
    assert sockets_of({"processes": 2, "sockets": [f"{tmp_path}/elsewhere/0"]}) == []
