"""A node that stops gives all that it has to the other one: ours to a real Artemis, and a real Artemis to ours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import artemis
import pytest
from classic import free_port
from test_clusters import CLUSTER, node

import entrepot
from entrepot import Message

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

SCALES: Final = "<ha-policy><primary-only><scale-down><connectors><connector-ref>other</connector-ref></connectors>"
SCALES_END: Final = "</scale-down></primary-only></ha-policy>"
COUNT: Final = 300
LARGE: Final = "y" * 300_000
PATIENCE_S: Final = 20.0


async def fill(url: str) -> None:
    async with (
        asyncio.timeout(60),
        entrepot.connect(url) as connection,
        connection.session() as session,
        session.producer("moved") as producer,
        session.producer("big") as big,
    ):
        for number in range(COUNT):
            await producer.send(Message(str(number), properties={"number": number}))
        await big.send(LARGE)


async def read(url: str, queue: str, most: int) -> list[object]:
    found: list[object] = []
    async with (
        asyncio.timeout(90),
        entrepot.connect(url) as connection,
        connection.session() as session,
        session.consumer(queue) as consumer,
    ):
        while len(found) < most and (message := await consumer.receive(PATIENCE_S)) is not None:
            found.append(message.body)
        extra = await consumer.receive(0.5)
        assert extra is None, extra
    return found


@pytest.mark.parametrize("kinds", [("ours", "artemis"), ("artemis", "ours")], ids="-".join)
def test_a_node_that_stops_gives_all_to_the_other(
    tmp_path: Path, kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("test_clusters.CLUSTER", CLUSTER + SCALES + SCALES_END)
    ports = free_port(), free_port()
    going, staying = (
        node(kind, tmp_path / f"n{at}", f"n{at}", ports[at], ports[1 - at]) for at, kind in enumerate(kinds)
    )
    try:
        for each in (going, staying):
            each.start()
        for each in (going, staying):
            each.await_ready()
        asyncio.run(fill(f"core://127.0.0.1:{ports[0]}"))
        going.stop()
        there = f"core://127.0.0.1:{ports[1]}"
        assert asyncio.run(read(there, "moved", COUNT)) == [str(number) for number in range(COUNT)]
        assert asyncio.run(read(there, "big", 1)) == [LARGE]
    finally:
        for each in (going, staying):
            each.kill()
