"""A node that stops gives all that it has to the other one: ours to a real Artemis, and a real Artemis to ours."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import artemis
import pytest
from classic import free_port
from ours import member
from test_clusters import CLUSTER, pair

import entrepot
from entrepot import Acknowledge, Message, Xid
from entrepot.base.errors import EntrepotError
from promises import never

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
    with pair(tmp_path, kinds) as ((going, _), (here, there)):
        asyncio.run(fill(here))
        going.stop()
        assert asyncio.run(read(there, "moved", COUNT)) == [str(number) for number in range(COUNT)]
        assert asyncio.run(read(there, "big", 1)) == [LARGE]


THREE: Final = """
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<connectors>{connectors}</connectors>
<cluster-connections><cluster-connection name="c">
  <connector-ref>{own}</connector-ref><retry-interval>200</retry-interval><reconnect-attempts>-1</reconnect-attempts>
  <message-load-balancing>ON_DEMAND</message-load-balancing><max-hops>1</max-hops>
  <static-connectors>{others}</static-connectors>
</cluster-connection></cluster-connections>
"""
NEWS: Final = "topic://news"
WAITING: Final = 50


async def subscribed(url: str, name: str, *, most: int) -> list[object]:
    """Read what a durable subscription has; the first time makes it."""
    found: list[object] = []
    async with (
        asyncio.timeout(60),
        entrepot.connect(f"{url}?jms.clientID={name}") as connection,
        connection.session() as session,
        session.consumer(NEWS, durable="sub") as consumer,
    ):
        while len(found) < most and (message := await consumer.receive(PATIENCE_S)) is not None:
            found.append(message.body)
        while (message := await consumer.receive(1)) is not None:
            found.append(message.body)
    return found


async def publish(url: str, bodies: list[str]) -> None:
    async with entrepot.connect(url) as connection, connection.session() as session, session.producer(NEWS) as producer:
        for body in bodies:
            await producer.send(body)


def crosses(source: str, target: str, name: str) -> None:
    """Wait until ``source`` knows the subscription at ``target``."""
    asyncio.run(subscribed(target, name, most=0))
    for number in range(100):
        asyncio.run(publish(source, [f"try {number}"]))
        if asyncio.run(subscribed(target, name, most=0)):
            return
    pytest.fail(f"{source} never sent to {target}")


@pytest.mark.parametrize("far", ["ours", "artemis"])
@pytest.mark.parametrize("kind", ["ours", "artemis"])
def test_what_waits_for_a_third_node_goes_on_to_it_and_to_nobody_else(tmp_path: Path, kind: str, far: str) -> None:
    ports = [free_port() for _ in range(3)]
    connectors = "".join(f'<connector name="n{at}">tcp://127.0.0.1:{port}</connector>' for at, port in enumerate(ports))
    nodes = []
    for at, (each, port) in enumerate(zip((kind, "ours", far), ports, strict=True)):
        others = "".join(f"<connector-ref>n{other}</connector-ref>" for other in range(3) if other != at)
        core = THREE.format(connectors=connectors, own=f"n{at}", others=others)
        if at == 0:
            core += (SCALES + SCALES_END).replace("other", "n1")
        nodes.append(member(each, tmp_path / f"n{at}", f"n{at}", port, core))
    urls = [f"core://127.0.0.1:{port}" for port in ports]
    sent = [str(number) for number in range(WAITING)]
    try:
        for each in nodes:
            each.start()
        for each in nodes:
            each.await_ready()
        crosses(urls[0], urls[1], "near")
        crosses(urls[0], urls[2], "far")
        asyncio.run(subscribed(urls[1], "near", most=0))  # what the trials left
        nodes[2].kill()
        asyncio.run(publish(urls[0], sent))
        nodes[0].stop()
        nodes[2].start()
        nodes[2].await_ready()
        assert asyncio.run(subscribed(urls[2], "far", most=WAITING)) == sent
        assert asyncio.run(subscribed(urls[1], "near", most=WAITING)) == sent
    finally:
        for each in nodes:
            each.kill()


@pytest.mark.parametrize("kinds", [("artemis", "ours"), ("ours", "ours")], ids="-".join)
def test_what_a_producer_sends_again_to_the_node_that_took_over_is_known_there(
    tmp_path: Path, kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("test_clusters.CLUSTER", CLUSTER + SCALES + SCALES_END)

    async def send(url: str, ids: list[str]) -> None:
        async with (
            asyncio.timeout(60),
            entrepot.connect(url) as connection,
            connection.session() as session,
            session.producer("once") as producer,
        ):
            for one in ids:
                with contextlib.suppress(EntrepotError):  # it may say that it has it
                    await producer.send(Message(one, properties={"_AMQ_DUPL_ID": one}))

    with pair(tmp_path, kinds) as ((going, _), (here, there)):
        ids = [f"a longer id, of a message {number}" for number in range(COUNT)]
        asyncio.run(send(here, ids))
        going.stop()
        asyncio.run(send(there, [*ids[100:], "another"]))
        assert asyncio.run(read(there, "once", COUNT + 1)) == [*ids, "another"]


async def promise(url: str, xid: Xid, *, takes: bool = True) -> None:
    """Take the first of two messages, send another one and a large one, and leave it to a branch that is prepared."""
    async with (
        asyncio.timeout(60),
        entrepot.connect(url) as connection,
        connection.session(Acknowledge.TRANSACTED, xa=True) as session,
        connection.session() as other,
    ):
        async with other.producer("taken") as producer:
            for body in ("first", "second"):
                await producer.send(body)
        await session.begin_branch(xid)
        async with session.consumer("taken", prefetch=1) as consumer, session.producer("sent") as producer:
            if takes:
                message = await consumer.receive(PATIENCE_S)
                assert message is not None
                assert message.body == "first"
            await producer.send("of the branch")
            await producer.send(LARGE)
            await session.end_branch(xid)
            assert await connection.prepare(xid)


async def end(url: str, xid: Xid, *, commits: bool) -> None:
    async with asyncio.timeout(60), entrepot.connect(url) as connection:
        assert await connection.prepared() == [xid]
        if commits:
            await connection.commit(xid)
        else:
            await connection.rollback(xid)
        assert await connection.prepared() == []


OF_THE_BRANCH: Final = ["of the branch", LARGE]


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("kinds", [("artemis", "ours"), ("ours", "ours")], ids="-".join)
def test_a_prepared_branch_goes_with_what_it_sent_and_what_it_had_taken(
    tmp_path: Path, kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    monkeypatch.setattr("test_clusters.CLUSTER", CLUSTER + SCALES + SCALES_END)
    xid = Xid(7, b"whole", b"part")
    with pair(tmp_path, kinds) as ((going, _), (here, there)):
        asyncio.run(promise(here, xid))
        going.stop()
        asyncio.run(end(there, xid, commits=commits))
        found = asyncio.run(read(there, "taken", 1 if commits else 2))
        with never():
            assert sorted(map(str, found)) == (["second"] if commits else ["first", "second"])
            sent = asyncio.run(read(there, "sent", 2 if commits else 0))
            # An Artemis says what a branch sent in the order of a table of hashes.
            told = sorted(map(str, sent)) if kinds[0] == "artemis" else sent
            assert told == (OF_THE_BRANCH if commits else [])


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_a_branch_that_sends_goes_to_an_artemis_and_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    monkeypatch.setattr("test_clusters.CLUSTER", CLUSTER + SCALES + SCALES_END)
    xid = Xid(7, b"whole", b"part")
    with pair(tmp_path, ("ours", "artemis")) as ((going, other), (here, there)):
        asyncio.run(promise(here, xid, takes=False))
        going.stop()
        other.kill()
        other.start()  # it is on the disk there
        other.await_ready()
        asyncio.run(end(there, xid, commits=commits))
        with never():
            assert asyncio.run(read(there, "sent", 2 if commits else 0)) == (OF_THE_BRANCH if commits else [])
            assert asyncio.run(read(there, "taken", 2)) == ["first", "second"]


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_a_branch_that_an_artemis_would_lose_a_part_of_stays_and_ends_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    monkeypatch.setattr("test_clusters.CLUSTER", CLUSTER + SCALES + SCALES_END)
    xid = Xid(7, b"whole", b"part")
    with pair(tmp_path, ("ours", "artemis")) as ((going, _), (here, there)):
        asyncio.run(promise(here, xid))
        going.stop()
        assert asyncio.run(read(there, "taken", 1)) == ["second"]
        going.start()
        going.await_ready()
        asyncio.run(end(here, xid, commits=commits))
        with never():
            assert asyncio.run(read(here, "taken", 0 if commits else 1)) == ([] if commits else ["first"])
            assert asyncio.run(read(here, "sent", 2 if commits else 0)) == (OF_THE_BRANCH if commits else [])
