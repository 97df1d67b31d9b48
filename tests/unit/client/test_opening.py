"""`Opening`: awaited it opens, used in ``async with`` it also closes."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.base.errors import Refused
from entrepot.client.opening import Closing, Opening


class Door(Closing):
    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


async def opened() -> Door:
    return Door()


async def refused() -> Door:
    raise Refused("no")


def test_an_awaited_one_stays_open() -> None:
    async def run() -> Door:
        return await Opening(opened)

    assert asyncio.run(run()).closed == 0


def test_one_in_a_block_is_closed_when_the_block_ends_however_it_does() -> None:
    async def run(*, fails: bool) -> Door:
        door = None
        try:
            async with Opening(opened) as door:
                assert door.closed == 0
                if fails:
                    raise KeyError
        except KeyError:
            pass
        assert door is not None
        return door

    assert [asyncio.run(run(fails=fails)).closed for fails in (False, True)] == [1, 1]


def test_what_could_not_be_opened_is_not_closed() -> None:
    async def run() -> None:
        async with Opening(refused):
            pytest.fail("it was not opened")

    with pytest.raises(Refused):
        asyncio.run(run())
