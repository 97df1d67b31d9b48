"""Connections of the console and questions side by side: shared, bounded, and none that waits for a dead broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from entrepot.base.errors import AccessDenied, EntrepotError, LimitExceeded, TimedOut, Unreachable
from entrepot.console import desk as desks_module
from entrepot.console import watch
from entrepot.console.desk import Desk, Desks
from entrepot.console.gate import Gate
from entrepot.console.watch import SideBySide, Watches


class FakeDesk(Desk):
    """Opens when it is let, and notes that it was made and closed."""

    made: list[FakeDesk]
    gate: asyncio.Event
    broken: EntrepotError | OSError | None

    def __init__(self, url: str, user: str, password: str) -> None:
        super().__init__(url, user, password)
        self.well = False
        self.made.append(self)

    async def open(self) -> None:
        if "away" in self.url:
            await asyncio.Event().wait()
        await self.gate.wait()
        if self.broken is not None:
            raise self.broken
        self.well = True

    @property
    def alive(self) -> bool:
        return self.well

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        return [self.url, operation, *values]

    async def close(self) -> None:
        self.well = False


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeDesk]:
    FakeDesk.made, FakeDesk.gate, FakeDesk.broken = [], asyncio.Event(), None
    monkeypatch.setattr(desks_module, "Desk", FakeDesk)
    return FakeDesk


def test_who_asks_at_the_same_time_shares_one_connection(fake: type[FakeDesk]) -> None:
    async def run() -> None:
        desks = Desks({"a": "tcp://a"})
        asking = [asyncio.create_task(desks.at("a", "u", "p")) for _ in range(5)]
        await asyncio.sleep(0)
        asking[0].cancel()  # who began to open it goes away: the others still get it
        await asyncio.sleep(0)
        fake.gate.set()
        found = await asyncio.gather(*asking[1:])
        assert len(fake.made) == 1
        assert {id(one) for one in found} == {id(fake.made[0])}
        assert desks.is_open("a", "u", "p")
        assert not desks.is_open("a", "u", "other")
        await desks.close()
        assert not fake.made[0].alive

    asyncio.run(run())


def test_after_a_failure_one_connection_is_opened_and_none_is_left_over(fake: type[FakeDesk]) -> None:
    async def run() -> None:
        desks = Desks({"a": "tcp://a"})
        fake.broken = OSError("refused")
        first = [asyncio.create_task(desks.at("a", "u", "p")) for _ in range(3)]
        await asyncio.sleep(0)
        fake.gate.set()
        failed = await asyncio.gather(*first, return_exceptions=True)
        assert [type(one) for one in failed] == [Unreachable] * 3
        fake.broken = None
        await asyncio.gather(*(desks.at("a", "u", "p") for _ in range(3)))
        assert len(fake.made) == 2
        fake.made[1].well = False  # the connection broke
        again = await desks.at("a", "u", "p")
        assert again is fake.made[2]
        await desks.close()
        assert [one.alive for one in fake.made] == [False] * 3

    asyncio.run(run())


def test_connections_that_are_being_opened_are_bounded(fake: type[FakeDesk]) -> None:
    async def run() -> None:
        desks = Desks({"a": "tcp://away"})
        asking = [asyncio.create_task(desks.at("a", f"u{n}", "p")) for n in range(desks_module.OPENING_MOST)]
        await asyncio.sleep(0)
        with pytest.raises(LimitExceeded):
            await desks.at("a", "one more", "p")
        await desks.close()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*asking, return_exceptions=True)
        )

    asyncio.run(run())


def test_a_broker_that_is_away_holds_no_page_and_is_asked_once(
    fake: type[FakeDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PATIENCE", 0.1)
    fake.gate.set()

    async def run() -> None:
        desks = Desks({"dead": "tcp://away", "well": "tcp://well"})
        watches = Watches(desks)
        for _ in range(3):
            told, failed = await watches.asked("", "", "where", "ID:1")
            assert told == {"well": ["tcp://well", "where", "ID:1"]}
            assert {name: type(one) for name, one in failed.items()} == {"dead": TimedOut}
        assert len([one for one in fake.made if one.url == "tcp://away"]) == 1
        # who comes in is let in by the one that can be asked, though the other one stands first
        await asyncio.wait_for(Gate(desks)._check("", "", "127.0.0.1"), 20)
        await desks.close()

    asyncio.run(run())


def test_questions_side_by_side_are_shared_bounded_and_fail_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "ASKING_MOST", 2)
    monkeypatch.setattr(watch, "PATIENCE", 0.01)

    async def run() -> None:
        side, never, asked = SideBySide(), asyncio.Event(), list[str]()

        async def ask(name: str) -> str:
            asked.append(name)
            if name == "denied":
                raise AccessDenied("no")
            await never.wait()
            return name

        assert type((await side.of(["denied"], ("x",), ask))[1]["denied"]) is AccessDenied
        await side.of(["a", "b"], ("x",), ask)
        await side.of(["a", "b"], ("x",), ask)
        assert asked == ["denied", "a", "b"]
        with pytest.raises(LimitExceeded):
            await side.of(["c"], ("x",), ask)
        never.set()
        monkeypatch.setattr(watch, "PATIENCE", 30)
        assert await side.of(["a", "b"], ("x",), ask) == ({"a": "a", "b": "b"}, {})

    asyncio.run(run())
