"""The plan: what would happen to load and forwarding if more came, or a broker were lost; and where consumers belong.

A network of brokers stands or falls with one question: has every broker enough consumers for what is produced there?
`forecast.py` has a model that answers it, and this feeds it with what the traces show: what is produced where, who
consumes where and how much he can take, which bridges asked for what, and as how many consumers a bridge counts. Where
the model does not say what was measured, the report says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as fn

from entrepot.base.errors import InvalidOption
from entrepot.core.events import trace as facts
from entrepot.model.address import MULTICAST
from entrepot.pipeline.jobs import life, pages, related
from entrepot.pipeline.jobs.crossings import STORE_PREFIX
from entrepot.pipeline.jobs.forecast import FOLLOW, TOPIC, Network, Prediction, headroom, predict, recommend, weakest
from entrepot.pipeline.jobs.life import Traces
from entrepot.pipeline.jobs.storage import Storage, fresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from entrepot.pipeline.jobs.related import Related

SLICE_US: Final = 1_000_000  # over which the best rate of a consumer is taken
WAITED_US: Final = 100_000  # at least so long waits what comes to a consumer at its limit
BEFORE: Final = 3  # and while it takes at least so many others
# Temporary places, as clients call them: answers go there to whoever asked, and nobody else may consume them.
ANSWERS: Final = rf"^({TOPIC})?(ID:|[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$)"
CALIBRATION: Final = "To find out, `entrepot pipeline calibrate QUEUE` while it is traced."
FIT: Final = 0.15  # of what is produced: a larger difference between model and measurement is said


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(spark: SparkSession, places: Sequence[str | Path], target: Storage) -> tuple[Network, list[str]]:
    """Read a network off its traces; also what is wrong with them. ``target`` gets the copies. Raises InvalidOption."""
    found = Traces(spark, places)
    survey = found.survey
    network = Network(sorted({broker.name for broker in survey.brokers.values()}))
    names = {node: broker.name for node, broker in survey.brokers.items()}
    for node, _, _, _, far, *_ in survey.consumers:
        if far in names:
            network.edges.add((names[node], names[far]))
    for node, _, _, far, _ in survey.origins:
        if far in names:
            network.edges.add((names[far], names[node]))
    with life.shuffled(spark, found.partitions):
        topic = fn.col("routing") == MULTICAST
        name = fn.when(topic, fn.concat(fn.lit(TOPIC), fn.col("address"))).otherwise(fn.col("queue"))
        copies = found.copies(target).where(fn.col("queue").isNotNull()).withColumn("name", name)
        copies = copies.where(~fn.col("name").rlike(ANSWERS))
        _take_traffic(network, copies, names)
        _take_unread(network, found, names)
        _take_consumers(network, found, names)
    again = copies.where((fn.col("state") == life.FORWARDED) & fn.col("came_from").isNotNull())
    network.find_reach(1 if again.isEmpty() else 2)
    network.find_order()
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
    """Find out what one consumer takes: its limit where it was seen at it, otherwise what it takes at least.

    It was at its limit in a second in which every message had waited, in the queue or in its window, for several others
    that it took before. What it did in other seconds, and what the usual time from delivered to acknowledged allows,
    does not say that it could not take more.
    """
    slices = done.groupBy("node", "name", "reader", fn.floor(fn.col("last_at") / SLICE_US).alias("slice")).agg(
        fn.count("*").alias("count"),
        (fn.max("last_at") - fn.min("last_at")).alias("span"),
        fn.min(fn.col("last_at") - fn.col("began_at")).alias("waited"),
    )
    each = fn.col("span") / (fn.col("count") - 1)
    full = (fn.col("span") >= SLICE_US // 2) & (fn.col("waited") >= fn.greatest(fn.lit(WAITED_US), BEFORE * each))
    readers = (
        slices.where("count > 1")
        .groupBy("node", "name", "reader")
        .agg(
            fn.percentile_approx(fn.when(full, 1e6 / each), 0.5, 1000).alias("limit"),
            (fn.max("count") * 1e6 / SLICE_US).alias("best"),
        )
    )
    for row in readers.collect():
        place = network.place(names[row["node"]], row["name"])
        rate = row["limit"] or row["best"]
        if rate > place.capacity:
            place.capacity, place.limited = rate, row["limit"] is not None
    kept = fn.when(fn.col("last_at") > fn.col("delivered_at"), fn.col("last_at") - fn.col("delivered_at"))
    usual = done.groupBy("node", "name").agg(fn.percentile_approx(kept, 0.5, 1000).alias("kept"))
    for row in usual.where("kept is not null").collect():
        place = network.place(names[row["node"]], row["name"])
        if 1e6 / row["kept"] > place.capacity and not place.limited:
            place.capacity = 1e6 / row["kept"]


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
    bridges = {(node, run, number): far for node, run, number, _, far, *_ in survey.consumers if far}
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
        if queue is None or re.match(ANSWERS, queue):
            continue
        far = bridges.get((node, run, peer))
        if far is not None:
            if queue.removeprefix(TOPIC).startswith(STORE_PREFIX):
                network.balanced = True  # what waits for another node of a cluster: who wants it is known there
            elif far in names:
                network.wanted.add((names[node], names[far], queue))
            continue
        there = max(0, min(end, last) - max(begin, first)) / max(last - first, 1)
        network.place(names[node], queue).consumers += there


# -- the job -----------------------------------------------------------------------------------------------------------


class Plan:
    """The outcome of the job."""

    def __init__(
        self,
        network: Network,
        faults: list[str],
        scenario: str,
        after: Prediction,
        others: Sequence[Related] = (),
    ) -> None:
        """``others``: what other jobs said."""
        self.others: Final = others
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
    see: Sequence[str | Path] = (),
) -> Plan:
    """Predict the network with ``times`` the load and without a broker; write Parquet and a report into ``target``.

    ``see``: where other jobs wrote, to be linked to. Raises InvalidOption.
    """
    others = related.found(spark, see, target)
    place = fresh(spark, target)
    network, faults = measure(spark, places, place)
    if without is not None and without not in network.brokers:
        raise InvalidOption(f"no broker {without!r} is traced", remedy="one of " + ", ".join(network.brokers))
    after = predict(network.changed(times, without, clients))
    scenario = f"{times:g} times the load"
    if without is not None:
        scenario += f", without {without}, whose clients " + ("go to the others" if clients == FOLLOW else "are gone")
    made = Plan(network, faults, scenario, after, others)
    rows = _edges(made)
    if rows:
        fields = "here string, there string, measured double, model double, predicted double"
        spark.createDataFrame(rows, fields).coalesce(1).write.parquet(place.path("forwarding.parquet"))
    fields = "broker string, load double, predicted double, busy double, predicted_busy double"
    spark.createDataFrame(_loads(made), fields).coalesce(1).write.parquet(place.path("load.parquet"))
    attention = warnings(made)
    said = "; ".join(one.removesuffix(f" {CALIBRATION}").rstrip(".") for one in attention)
    sentence = f"{made.scenario}: {said or first_to_break(made) or WELL_PLACED}."
    related.leave(place, related.PLAN, sentence, good=not attention)
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
        f"{queue}: {rate:.3g} a second more wait at {broker} than all consumers in reach can take"
        for (broker, queue), rate in sorted(made.after.waiting.items())
    ]
    for queue, factor in sorted(headroom(made.after.network).items()):
        if 0 < factor < 1 and made.after.network.limit(queue) == math.inf:  # at 0 there is no consumer: said above
            said.append(
                f"{queue}: {made.scenario} is {1 / factor:.3g} times what its consumers were seen to take. Whether "
                f"they can is not known, because none was seen at its limit. {CALIBRATION}"
            )
    return said + made.misfit()


def advice(made: Plan) -> list[str]:
    """Return where consumers belong; nothing where the model does not say what was measured."""
    if made.misfit():
        return ["no advice: the model does not say what was measured (see Attention)"]
    return recommend(made.after.network)


def first_to_break(made: Plan) -> str:
    """Return what gives way first when the load of the scenario grows; "" where the model does not fit, or knows none.

    Consumers are all that the model knows limits of. Those of which none was seen at its limit hold at least so much.
    """
    room = headroom(made.after.network)
    if made.misfit() or not room:
        return ""
    if made.after.stranded:
        (broker, queue), rate = max(made.after.stranded.items(), key=lambda one: (one[1], one[0]))
        return f"{queue} at {broker} breaks at any load: no consumer is in reach of {rate:.3g} a second"
    seen = [(factor, queue) for queue, factor in room.items() if made.after.network.limit(queue) < math.inf]
    unseen = [(factor, queue) for queue, factor in room.items() if made.after.network.limit(queue) == math.inf]
    if not seen:
        factor, queue = min(unseen)
        return (
            f"nothing is known to break: no consumer was seen at its limit; all hold at least {factor:.3g} times this "
            f"load, {queue} the least"
        )
    factor, queue = min(seen)
    node = weakest(made.after.network, queue)[1] if made.after.network.balanced else ""
    at = f" at {node}" if node and not queue.startswith(TOPIC) else ""
    if factor < 1:
        said = f"{queue}{at} breaks now: its consumers take {factor:.3g} times this load"
    else:
        said = f"{queue}{at} breaks first, at {factor:.3g} times this load"
    sooner = sorted(name for least, name in unseen if least < factor)
    return said + (f", unless it is {', '.join(sooner)}, whose limit was not seen" if sooner else "")


WELL_PLACED: Final = "every broker has the consumers that it needs for what is produced there"
LOADS: Final = ("broker", "load/s", "predicted/s", "consumers busy", "predicted busy")
EDGES: Final = ("from", "to", "measured/s", "model/s", "predicted/s")


def _parts(made: Plan) -> list[tuple[str, Sequence[str], list[list[Any]]]]:
    room, left = _room(made.network), _room(made.after.network)
    return [
        ("Brokers", LOADS, _loads(made)),
        ("Forwarding", EDGES, _edges(made)),
        ("Headroom today", ("queue", "times the load", "seen"), room),
        (f"Headroom with {made.scenario}", ("queue", "times that load", "seen"), left),
    ]


def _room(network: Network) -> list[list[Any]]:
    """Return the rows of a table of headroom; "at least" where no consumer was seen at its limit."""
    return [
        [queue, factor, "at least" if network.limit(queue) == math.inf else "limit"]
        for queue, factor in sorted(headroom(network).items())
    ]


def _order(made: Plan) -> str:
    if made.network.balanced:
        return f"A cluster: nodes with consumers get messages in turn. Traced: {made.network.seconds:.1f} s."
    where = "get what consumers cannot take" if made.network.bridges_last else "stand in one row with consumers"
    how = "measured" if made.network.order_measured else "assumed: no broker had both bridges and consumers of a queue"
    reach = "one bridge" if made.network.reach == 1 else f"up to {made.network.reach} bridges"
    return f"Bridges {where} ({how}). Messages cross {reach}. Traced: {made.network.seconds:.1f} s."


def text_of(made: Plan) -> str:
    """Return the report as text."""
    lines = [f"Scenario: {made.scenario}.", _order(made)]
    lines += [f"Attention: {said}" for said in (*made.faults, *warnings(made))]
    for title, names, rows in _parts(made):
        lines += ["", title, *pages.columns(names, rows)]
    breaking = first_to_break(made)
    lines += ["", "First to break", breaking] if breaking else []
    lines += [
        "",
        "Placement",
        *(advice(made) or [WELL_PLACED]),
    ]
    return "\n".join(lines) + "\n"


def page_of(made: Plan) -> str:
    """Return the report as a page that needs no other file."""
    parts = [pages.paragraph(f"Scenario: {made.scenario}."), pages.paragraph(_order(made))]
    parts += pages.cards(made.others)
    parts += [pages.verdict(said, good=False) for said in (*made.faults, *warnings(made))]
    for title, names, rows in _parts(made):
        parts += [pages.heading(title), pages.table(names, rows)]
    parts.append(pages.heading("Predicted forwarding"))
    parts.append(pages.bars([(f"{a} → {b}", rate) for a, b, _, _, rate in _edges(made)], "messages a second"))
    breaking = first_to_break(made)
    parts += [pages.heading("First to break"), pages.paragraph(breaking)] if breaking else []
    found = advice(made)
    parts.append(pages.heading("Placement"))
    parts += [pages.verdict(said, good=False) for said in found]
    if not found:
        parts.append(pages.verdict(WELL_PLACED, good=True))
    return pages.page("Plan", parts)
