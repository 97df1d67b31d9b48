"""Real brokers, traced: the audit agrees, the report sees what went on, the plan foretells what a lost broker does."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from entrepot import Broker, connect
from entrepot.base.errors import InvalidOption
from entrepot.pipeline.jobs import report as reporting
from entrepot.pipeline.jobs.audit import audit
from entrepot.pipeline.jobs.forecast import GONE
from entrepot.pipeline.jobs.plan import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SENT = 1500
PRICES = 300
TOLERANCE = 0.1  # of what is produced
ROW = "?decreaseNetworkConsumerPriority=false"  # bridges stand in one row with consumers


def tcp(broker: Broker) -> str:
    return broker.uri("openwire").replace("openwire://", "tcp://")


async def network(traces: Path, names: str, readers: str = "", bridges: str = "") -> dict[str, int]:
    """Run brokers with a consumer at each, or only at ``readers``; send to the first; return what each consumer got.

    They are a full mesh; with options of ``bridges`` a chain, whose last broker has a reader of a topic, too.
    """
    readers = readers or names
    got = dict.fromkeys(readers, 0)
    everything = asyncio.Event()
    prices = asyncio.Event()

    async def subscribe(session: Any) -> None:
        async with session.consumer("topic://prices") as consumer:
            count = 0
            async for _ in consumer:
                count += 1
                if count == PRICES:
                    prices.set()

    async def consume(name: str, session: Any) -> None:
        async with session.consumer("queue://orders") as consumer:
            async for _ in consumer:
                got[name] += 1
                if sum(got.values()) >= SENT:
                    everything.set()

    async with contextlib.AsyncExitStack() as stack:
        brokers: list[Broker] = []
        for name in names:
            near = brokers[-1:] if bridges else brokers
            ways = [f"static:({tcp(other)}){ROW}{bridges}" for other in near]
            made = Broker(name=name, trace=traces, listen=["auto://127.0.0.1:0"], connect=ways, duplex=True)
            brokers.append(await stack.enter_async_context(made))
        connections = [await connect(tcp(broker)) for broker in brokers]
        tasks = [
            asyncio.ensure_future(consume(name, connection.session()))
            for name, connection in zip(names, connections, strict=True)
            if name in readers
        ]
        first = brokers[0].node.broker
        async with asyncio.timeout(30):
            while len(first.table.queues.get("orders", _NoQueue).roster.consumers) < (1 if bridges else len(names)):
                await asyncio.sleep(0.02)
            if bridges:
                tasks.append(asyncio.ensure_future(subscribe(connections[-1].session())))
                while not any(queue.address == "prices" for queue in first.table.queues.values()):
                    await asyncio.sleep(0.02)
        producer = await connections[0].session().producer("queue://orders")
        for number in range(SENT):
            await producer.send(f"order {number}")
        if bridges:
            publisher = await connections[0].session().producer("topic://prices")
            for number in range(PRICES):
                await publisher.send(f"price {number}")
            async with asyncio.timeout(30):
                await prices.wait()
        async with asyncio.timeout(60):
            await everything.wait()
        await asyncio.sleep(0.3)  # the last acknowledgements are on their way
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in connections:
            await connection.close()
    return got


class _NoQueue:
    class roster:  # noqa: N801
        consumers = ()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    home = tmp_path_factory.mktemp("three")
    return home, asyncio.run(network(home, "ABC"))


def test_the_audit_of_real_brokers(spark: SparkSession, three: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    traces, got = three
    outcome = audit(spark, [traces], tmp_path / "out")
    assert outcome.clean, (outcome.totals, outcome.findings[:5], outcome.counts)
    (total,) = (row for row in outcome.totals if row["queue"] == "orders")
    assert total["sent"] == total["consumed"] == SENT == sum(got.values())
    assert total["forwarded"] == got["B"] + got["C"]
    assert outcome.faults == []


def test_a_report_is_compared_with_an_earlier_one(
    spark: SparkSession, three: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    traces, _ = three
    first = reporting.report(spark, [traces], tmp_path / "first")
    assert first.compared is None
    again = reporting.report(spark, [traces], tmp_path / "again", tmp_path / "first", [tmp_path / "first"])
    assert again.compared is not None
    assert (again.compared.worse, again.compared.better) == ([], [])
    assert "orders" in [row[0] for row in again.compared.rows]
    assert "Beside the earlier report" in (tmp_path / "again" / "report.txt").read_text()
    page = (tmp_path / "again" / "report.html").read_text()
    assert "much as before" in page
    assert 'href="../first/report.html"><b>Report</b>' in page
    assert first.numbers in page
    with pytest.raises(InvalidOption, match="holds no audit, report or plan"):
        reporting.report(spark, [traces], tmp_path / "other", see=[traces])
    with pytest.raises(InvalidOption, match="holds no report"):
        reporting.report(spark, [traces], tmp_path / "other", traces)


def test_the_report_of_real_brokers(spark: SparkSession, three: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    traces, got = three
    outcome = reporting.report(spark, [traces], tmp_path / "out")
    tables = outcome.tables
    (orders,) = (row for row in tables["destinations"] if row["address"] == "orders")
    assert (orders["entered"], orders["passed_on"], orders["consumed"]) == (SENT, got["B"] + got["C"], SENT)
    assert orders["took_p50_us"] <= orders["took_p95_us"] <= orders["took_p99_us"]
    hops = {row["far_name"]: row["forwarded"] for row in tables["hops"] if row["address"] == "orders"}
    assert hops == {"B": got["B"], "C": got["C"]}
    consumers = {row["broker"]: row["consumed"] for row in tables["consumers"] if row["queue"] == "orders"}
    assert consumers == got
    assert {row["broker"] for row in tables["rates"]} == {"A"}, "what bridges bring did not enter"
    assert sum(row["count"] for row in tables["rates"]) == SENT
    assert outcome.head.startswith("Brokers A, B, C, from 20")
    assert f"{SENT:,} messages entered the network" in outcome.head
    assert [row["waiting"] for row in tables["depths"] if row["address"] == "orders"][-1] == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<svg" in page
    assert outcome.head in page
    assert "from entering the network to the last acknowledgement" in page
    assert "_us" not in page + (tmp_path / "out" / "report.txt").read_text(), "one unit is enough"
    assert "http://" not in page
    assert "https://" not in page


def test_the_plan_foretells_what_is_forwarded_without_a_broker(
    spark: SparkSession, three: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    traces, _ = three
    made = plan(spark, [traces], tmp_path / "out", without="C", clients=GONE)
    assert made.network.order_measured
    assert made.misfit() == []
    (tmp_path / "two").mkdir()
    got = asyncio.run(network(tmp_path / "two", "AB"))
    produced = made.network.place("A", "orders").produced
    predicted = made.after.edge("A", "B") / produced
    assert predicted == pytest.approx(got["B"] / SENT, abs=TOLERANCE)
    assert "Placement" in (tmp_path / "out" / "report.txt").read_text()


CHAINED = "&networkTTL=3&messageTTL=3&consumerTTL=3"


def test_the_plan_of_a_chain_knows_that_messages_cross_several_bridges(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "run").mkdir()
    asyncio.run(network(tmp_path / "seen", "ABCD", "BCD", CHAINED))
    made = plan(spark, [tmp_path / "seen"], tmp_path / "out", without="D", clients=GONE)
    assert made.network.reach == 3
    assert made.network.order_measured  # at B and C, of what came over bridges
    assert made.misfit() == []
    topic = made.network.place("A", "/topic/prices").produced
    measured = {edge: rate / topic for edge, rate in made.network.forwarded.items() if edge[2] == "/topic/prices"}
    assert measured == {(a, b, "/topic/prices"): pytest.approx(1, abs=0.02) for a, b in ("AB", "BC", "CD")}
    model = {edge: rate / topic for edge, rate in made.now.forwarded.items() if edge[2] == "/topic/prices"}
    assert model == {edge: pytest.approx(1) for edge in measured}
    # what it says of the chain without its last broker is what such a chain does
    got = asyncio.run(network(tmp_path / "run", "ABC", "BC", CHAINED))
    produced = made.network.place("A", "orders").produced
    assert made.after.forwarded["A", "B", "orders"] == pytest.approx(produced, rel=0.02)
    assert made.after.forwarded["B", "C", "orders"] / produced == pytest.approx(got["C"] / SENT, abs=TOLERANCE)
