"""The plan: what would happen to load and forwarding if more came, or a broker were lost; and where consumers belong.

A network of brokers stands or falls with one question: has every broker enough consumers for what is produced there?
`forecast.py` has a model that answers it, and this feeds it with what the traces show: what is produced where, who
consumes where and how much he can take, which bridges asked for what, and as how many consumers a bridge counts. Where
the model does not say what was measured, the report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as fn

from entrepot.base.errors import InvalidOption
from entrepot.core.events import trace as facts
from entrepot.model.address import MULTICAST
from entrepot.pipeline.jobs import life, pages
from entrepot.pipeline.jobs.forecast import FOLLOW, TOPIC, Network, Prediction, headroom, predict, recommend
from entrepot.pipeline.jobs.life import Traces
from entrepot.pipeline.jobs.storage import Storage, fresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICE_US: Final = 1_000_000  # over which the best rate of a consumer is taken
FIT: Final = 0.15  # of what is produced: a larger difference between model and measurement is said


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(spark: SparkSession, places: Sequence[str | Path], target: Storage) -> tuple[Network, list[str]]:
    """Read a network off its traces; also what is wrong with them. ``target`` gets the copies. Raises InvalidOption."""
    found = Traces(spark, places)
    survey = found.survey
    network = Network(sorted({broker.name for broker in survey.brokers.values()}))
    names = {node: broker.name for node, broker in survey.brokers.items()}
    for node, _, _, _, far, _ in survey.consumers:
        if far in names:
            network.edges.add((names[node], names[far]))
    for node, _, _, far, _ in survey.origins:
        if far in names:
            network.edges.add((names[far], names[node]))
    with life.shuffled(spark, found.partitions):
        topic = fn.col("routing") == MULTICAST
        name = fn.when(topic, fn.concat(fn.lit(TOPIC), fn.col("address"))).otherwise(fn.col("queue"))
        copies = found.copies(target).where(fn.col("queue").isNotNull()).withColumn("name", name)
        _take_traffic(network, copies, names)
        _take_unread(network, found, names)
        _take_consumers(network, found, names)
    network.find_reach()
    network.weigh()
    return network, sorted(set(survey.faults))


def _take_traffic(network: Network, copies: Any, names: dict[int, str]) -> None:
    derived = fn.coalesce(fn.col("flags"), fn.lit(0)).bitwiseAND(facts.DERIVED | facts.CONTINUED) != 0
    fresh = copies.where((fn.col("accepted") > 0) & fn.col("came_from").isNull() & ~derived)
    spans = fresh.agg(fn.min("began_at").alias("first"), fn.max("began_at").alias("last")).collect()[0]
    if spans["first"] is None:
        raise InvalidOption("nothing was sent while there was a trace", remedy="trace a time with traffic")
    network.seconds = max((spans["last"] - spans["first"]) / 1e6, 1e-3)
    sent = fresh.groupBy("node", "name").agg(fn.countDistinct("number").alias("count"))  # a topic has many copies
    for row in sent.collect():
        network.place(names[row["node"]], row["name"]).produced = row["count"] / network.seconds
    crossed = copies.where(fn.col("state") == life.FORWARDED).groupBy("node", "far", "name").count()
    for row in crossed.collect():
        there = names.get(row["far"])
        if there is not None:
            network.forwarded[names[row["node"]], there, row["name"]] = row["count"] / network.seconds
    _take_capacity(network, copies.where(fn.col("state") == life.CONSUMED), names)


def _take_capacity(network: Network, done: Any, names: dict[int, str]) -> None:
    """Find out what one consumer can take: what it did in its best second, or what its usual message takes it.

    Both are lower bounds. The first is right for one that is never idle, whose messages wait in its window; the second
    for one that waits for messages. Of who acknowledges by receiving only the first is known.
    """
    kept = fn.when(fn.col("last_at") > fn.col("delivered_at"), fn.col("last_at") - fn.col("delivered_at"))
    usual = done.groupBy("node", "name").agg(fn.percentile_approx(kept, 0.5, 1000).alias("kept"))
    for row in usual.where("kept is not null").collect():
        network.place(names[row["node"]], row["name"]).capacity = 1e6 / row["kept"]
    slices = done.groupBy("node", "name", "reader", fn.floor(fn.col("last_at") / SLICE_US).alias("slice")).agg(
        fn.count("*").alias("count"),
        (fn.max("last_at") - fn.min("delivered_at")).alias("busy"),
    )
    best = slices.withColumn("rate", fn.col("count") * 1e6 / fn.greatest(fn.col("busy"), fn.lit(1000)))
    for row in best.where("count > 1").groupBy("node", "name").agg(fn.max("rate").alias("rate")).collect():
        place = network.place(names[row["node"]], row["name"])
        place.capacity = max(place.capacity, row["rate"])


def _take_unread(network: Network, found: Traces, names: dict[int, str]) -> None:
    """Count what was published to topics at brokers where nobody reads them: it is in no queue."""
    bridges = {(node, run, number) for node, run, number, _, _ in found.survey.origins}
    unrouted = found.events().where(fn.col("kind") == facts.UNROUTED).groupBy("node", "run", "place", "peer").count()
    for row in unrouted.collect():
        name = TOPIC + found.survey.addresses.get((row["node"], row["run"], row["place"]), "")
        if (row["node"], row["run"], row["peer"]) not in bridges and name in network.queues:
            network.place(names[row["node"]], name).produced += row["count"] / network.seconds


def _take_consumers(network: Network, found: Traces, names: dict[int, str]) -> None:
    """Count consumers by how long they were there while messages came; and note what bridges asked for."""
    survey = found.survey
    bridges = {(node, run, number): far for node, run, number, _, far, _ in survey.consumers if far}
    queues = {
        (node, run, number): TOPIC + address if routing == MULTICAST else name
        for node, run, number, name, address, routing in survey.queues
    }
    coming = (facts.ATTACHED, facts.DETACHED)
    rows = found.events().where(fn.col("kind").isin(*coming)).select("node", "run", "time", "kind", "place", "peer")
    span = found.events().where(fn.col("kind") == facts.ACCEPTED).agg(
        fn.min("time").alias("first"), fn.max("time").alias("last")
    )  # fmt: skip
    first, last = span.collect()[0]
    since: dict[tuple[int, int, int, int], int] = {}
    stays: list[tuple[tuple[int, int, int, int], int, int]] = []
    for row in rows.orderBy("time").collect():
        who = (row["node"], row["run"], row["place"], row["peer"])
        if row["kind"] == facts.ATTACHED:
            since[who] = row["time"]
        elif who in since:
            stays.append((who, since.pop(who), row["time"]))
    stays += [(who, begin, last) for who, begin in since.items()]
    for (node, run, place, peer), begin, end in stays:
        queue = queues.get((node, run, place))
        if queue is None:
            continue
        far = bridges.get((node, run, peer))
        if far is not None:
            if far in names:
                network.wanted.add((names[node], names[far], queue))
            continue
        there = max(0, min(end, last) - max(begin, first)) / max(last - first, 1)
        network.place(names[node], queue).consumers += there


# -- the job -----------------------------------------------------------------------------------------------------------


class Plan:
    """The outcome of the job."""

    def __init__(self, network: Network, faults: list[str], scenario: str, after: Prediction) -> None:
        self.network: Final = network
        self.faults: Final = faults
        self.scenario: Final = scenario
        self.now: Final = predict(network)
        self.after: Final = after

    def misfit(self) -> list[str]:
        """Return where the model does not say what was measured."""
        said = []
        produced = sum(place.produced for place in self.network.places.values()) or 1.0
        for here, there in sorted(self.network.edges):
            measured = sum(r for (a, b, _), r in self.network.forwarded.items() if (a, b) == (here, there))
            if abs(measured - self.now.edge(here, there)) > FIT * produced:
                said.append(
                    f"the model does not fit: {measured:.3g} a second crossed from {here} to {there}, "
                    f"it says {self.now.edge(here, there):.3g}"
                )
        return said


def plan(
    spark: SparkSession,
    places: Sequence[str | Path],
    target: str | Path,
    *,
    times: float = 1.0,
    without: str | None = None,
    clients: str = FOLLOW,
) -> Plan:
    """Predict the network with ``times`` the load and without a broker; write Parquet and a report into ``target``."""
    place = fresh(spark, target)
    network, faults = measure(spark, places, place)
    if without is not None and without not in network.brokers:
        raise InvalidOption(f"no broker {without!r} is traced", remedy="one of " + ", ".join(network.brokers))
    after = predict(network.changed(times, without, clients))
    scenario = f"{times:g} times the load"
    if without is not None:
        scenario += f", without {without}, whose clients " + ("go to the others" if clients == FOLLOW else "are gone")
    made = Plan(network, faults, scenario, after)
    rows = _edges(made)
    if rows:
        fields = "here string, there string, measured double, model double, predicted double"
        spark.createDataFrame(rows, fields).coalesce(1).write.parquet(place.path("forwarding.parquet"))
    fields = "broker string, load double, predicted double, busy double, predicted_busy double"
    spark.createDataFrame(_loads(made), fields).coalesce(1).write.parquet(place.path("load.parquet"))
    place.write("report.txt", text_of(made))
    place.write("report.html", page_of(made))
    return made


def _edges(made: Plan) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for here, there in sorted(made.network.edges):
        measured = sum(r for (a, b, _), r in made.network.forwarded.items() if (a, b) == (here, there))
        rows.append(
            [here, there, float(measured), float(made.now.edge(here, there)), float(made.after.edge(here, there))]
        )
    return rows


def _loads(made: Plan) -> list[list[Any]]:
    return [
        [
            broker,
            float(made.now.load(broker)),
            float(made.after.load(broker)) if broker in made.after.network.brokers else None,
            made.now.utilisation(broker),
            made.after.utilisation(broker) if broker in made.after.network.brokers else None,
        ]
        for broker in made.network.brokers
    ]


def warnings(made: Plan) -> list[str]:
    """Return what would go wrong."""
    said = [
        f"{queue}: {rate:.3g} a second produced at {broker} reach no consumer"
        for (broker, queue), rate in sorted(made.after.stranded.items())
    ]
    said += [
        f"{queue}: {rate:.3g} a second more wait at {broker} than all consumers in reach have shown to take"
        for (broker, queue), rate in sorted(made.after.waiting.items())
    ]
    return said + made.misfit()


LOADS: Final = ("broker", "load/s", "predicted/s", "consumers busy", "predicted busy")
EDGES: Final = ("from", "to", "measured/s", "model/s", "predicted/s")


def _parts(made: Plan) -> list[tuple[str, Sequence[str], list[list[Any]]]]:
    room = [[queue, factor] for queue, factor in sorted(headroom(made.network).items())]
    left = [[queue, factor] for queue, factor in sorted(headroom(made.after.network).items())]
    return [
        ("Brokers", LOADS, _loads(made)),
        ("Forwarding", EDGES, _edges(made)),
        ("Headroom today", ("queue", "times the load"), room),
        (f"Headroom with {made.scenario}", ("queue", "times that load"), left),
    ]


def _weight(made: Plan) -> str:
    how = "measured" if made.network.weight_measured else "assumed: no broker had both bridges and consumers of a queue"
    reach = "one bridge" if made.network.reach == 1 else f"up to {made.network.reach} bridges"
    return (
        f"A bridge counts as {made.network.weight:.2f} consumers ({how}). Messages cross {reach}. "
        f"Traced: {made.network.seconds:.1f} s."
    )


def text_of(made: Plan) -> str:
    """Return the report as text."""
    lines = [f"Scenario: {made.scenario}.", _weight(made)]
    lines += [f"Attention: {said}" for said in (*made.faults, *warnings(made))]
    for title, names, rows in _parts(made):
        lines += ["", title, *pages.columns(names, rows)]
    advice = recommend(made.after.network)
    lines += ["", "Placement", *(advice or ["every broker has the consumers that it needs for what is produced there"])]
    return "\n".join(lines) + "\n"


def page_of(made: Plan) -> str:
    """Return the report as a page that needs no other file."""
    parts = [pages.paragraph(f"Scenario: {made.scenario}."), pages.paragraph(_weight(made))]
    parts += [pages.verdict(said, good=False) for said in (*made.faults, *warnings(made))]
    for title, names, rows in _parts(made):
        parts += [pages.heading(title), pages.table(names, rows)]
    parts.append(
        pages.bars([(f"{a} → {b}", rate) for a, b, _, _, rate in _edges(made)], "predicted forwarding, a second")
    )
    advice = recommend(made.after.network)
    parts.append(pages.heading("Placement"))
    parts += [pages.verdict(said, good=False) for said in advice]
    if not advice:
        said = "every broker has the consumers that it needs for what is produced there"
        parts.append(pages.verdict(said, good=True))
    return pages.page("Plan", parts)
