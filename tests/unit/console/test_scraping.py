"""One text of metrics for all who ask at about the same time, in pieces."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from entrepot.base.errors import AccessDenied
from entrepot.console import scraping
from entrepot.console.scraping import PIECE, Scrape, Scraped, Scrapes
from entrepot.console.watch import FORGOTTEN, Sides, Watches

PLAIN = Scrape("u", "p", open_metrics=False, detailed=False)


class Nobody(Watches):
    """Watches of no broker, which count how often they are asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def sides(self, user: str, password: str) -> Sides[Any]:
        self.asked.append(user)
        await asyncio.sleep(0)
        if user == "nobody":
            raise AccessDenied("wrong", remedy="right")
        return Sides({}, {})


def test_many_who_ask_at_once_get_one_text() -> None:
    watches = Nobody()
    scrapes = Scrapes(watches)

    async def ask() -> list[Scraped]:
        return await asyncio.gather(*(scrapes.of(PLAIN) for _ in range(30)))

    found = asyncio.run(ask())
    assert all(one is found[0] for one in found)
    assert watches.asked == ["u"]
    assert found[0].status == 503  # no broker answers


def test_each_user_and_each_form_has_a_text_of_its_own_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    watches = Nobody()
    scrapes = Scrapes(watches)

    async def ask() -> None:
        first = await scrapes.of(PLAIN)
        assert (await scrapes.of(PLAIN._replace(open_metrics=True))).kind != first.kind
        assert b"entrepot_details_missing" not in (await scrapes.of(PLAIN._replace(detailed=True))).octets
        for number in range(3 * scraping.KINDS_MOST):
            await scrapes.of(PLAIN._replace(user=str(number)))
        assert len(scrapes._kept) == scraping.KINDS_MOST
        later = time.monotonic() + FORGOTTEN + 1
        monkeypatch.setattr("entrepot.console.watch.time.monotonic", lambda: later)
        await scrapes.of(PLAIN)
        assert len(scrapes._kept) == 1
        assert PLAIN in scrapes._kept
        for _ in range(2):
            with pytest.raises(AccessDenied):  # who may not is told so each time, and nothing is kept for him
                await scrapes.of(PLAIN._replace(user="nobody"))

    asyncio.run(ask())
    assert watches.asked.count("nobody") == 2


def test_it_goes_out_in_pieces_that_are_all_of_it() -> None:
    octets = bytes(range(256)) * (3 * PIECE // 256) + b"end"
    answer: Any = Scraped(octets, 200, "text/plain").response()

    async def read() -> list[bytes]:
        return [piece async for piece in answer.body_iterator]

    pieces = asyncio.run(read())
    assert b"".join(pieces) == octets
    assert max(map(len, pieces)) == PIECE
    assert answer.headers["content-length"] == str(len(octets))
