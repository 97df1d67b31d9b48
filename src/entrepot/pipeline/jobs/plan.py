"""The plan: what would happen to load and forwarding if more came, or a broker were lost; and where consumers belong.

A network of brokers stands or falls with one question: has every broker enough consumers for what is produced there?
The answer is a small model of demand forwarding (`predict`), fed with what the traces show (`measure`):

- what is produced for a queue at a broker is shared by its own consumers, and by one bridge for each neighbour that has
  consumers of that queue. A bridge counts as ``weight`` consumers: 1 when it stands in the row with them, 0 when it
  only gets what they cannot take (it has a lower priority). The weight is measured;
- nobody gets more than he can take; what is too much for one goes to the others; what is too much for all waits;
- a message crosses one bridge. Where the traces show longer ways the report says that the model does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as fn

from entrepot.base.errors import InvalidOption
from entrepot.core import trace as facts
from entrepot.pipeline.jobs import life, pages
from entrepot.pipeline.jobs.life import Traces
from entrepot.pipeline.jobs.storage import Storage, fresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLLOW: Final = "follow"
GONE: Final = "gone"
CLIENTS: Final = (FOLLOW, GONE)
WEIGHT_UNKNOWN: Final = 1.0
MARGIN: Final = 0.7  # of what its consumers have shown that they can take, a queue should need at most so much
SLICE_US: Final = 1_000_000  # over which the best rate of a consumer is taken
FIT: Final = 0.15  # of what is produced: a larger difference between model and measurement is said
LEAST: Final = 1e-9


class Place:
    """One queue at one broker. Rates in messages a second; ``capacity``: of one consumer, 0 when none was seen."""

    def __init__(self, produced: float = 0.0, consumers: float = 0.0, capacity: float = 0.0) -> None:
        self.produced = produced
        self.consumers = consumers
        self.capacity = capacity


class Network:
    """What was measured. ``edges``: (from, to) of every bridge; ``forwarded``: (from, to, queue) -> rate."""

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = list(brokers)
        self.edges: set[tuple[str, str]] = set()
        self.places: dict[tuple[str, str], Place] = {}
        self.forwarded: dict[tuple[str, str, str], float] = {}
        self.seconds = 0.0
        self.weight = WEIGHT_UNKNOWN
        self.weight_measured = False

    @property
    def queues(self) -> list[str]:
        """Return every queue."""
        return sorted({queue for _, queue in self.places})

    def place(self, broker: str, queue: str) -> Place:
        """Return a place, made when there is none."""
        return self.places.setdefault((broker, queue), Place())

    def capacity(self, queue: str) -> float:
        """Return what one consumer of ``queue`` takes: the best that any of them showed."""
        return max((place.capacity for (_, name), place in self.places.items() if name == queue), default=0.0)

    def demand(self, broker: str, queue: str) -> list[str]:
        """Return the neighbours of ``broker`` that have consumers of ``queue``."""
        return sorted(
            there
            for here, there in self.edges
            if here == broker and self.places.get((there, queue), Place()).consumers > LEAST
        )

    def weigh(self) -> None:
        """Find out as how many consumers a bridge counts, where bridges and consumers stand in one row."""
        shares: list[tuple[float, float]] = []
        for (broker, queue), place in self.places.items():
            links = len(self.demand(broker, queue))
            if place.consumers > LEAST and links and place.produced > LEAST:
                crossed = sum(r for (here, _, name), r in self.forwarded.items() if (here, name) == (broker, queue))
                share = min(crossed / place.produced, 0.99)
                shares.append((place.produced, share * place.consumers / (links * (1 - share))))
        everything = sum(produced for produced, _ in shares)
        if everything > 0:
            self.weight = sum(produced * weight for produced, weight in shares) / everything
            self.weight_measured = True

    def changed(self, times: float, without: str | None, clients: str) -> Network:
        """Return this network with ``times`` the load and without a broker, whose clients go elsewhere or are gone."""
        rest = [broker for broker in self.brokers if broker != without]
        if not rest:
            raise InvalidOption("nothing is left of the network without its only broker")
        made = Network(rest)
        made.edges = {edge for edge in self.edges if without not in edge}
        made.weight, made.weight_measured, made.seconds = self.weight, self.weight_measured, self.seconds
        for (broker, queue), place in self.places.items():
            homes = [broker] if broker != without else (rest if clients == FOLLOW else [])
            for home in homes:
                there = made.place(home, queue)
                there.produced += place.produced * times / len(homes)
                there.consumers += place.consumers / len(homes)
                there.capacity = max(there.capacity, place.capacity)
        return made


class Prediction:
    """What the model says of a network."""

    def __init__(self, network: Network) -> None:
        self.network: Final = network
        self.forwarded: Final[dict[tuple[str, str, str], float]] = {}
        self.consumed: Final[dict[tuple[str, str], float]] = {}
        self.waiting: Final[dict[tuple[str, str], float]] = {}  # grows by so many a second
        self.stranded: Final[dict[tuple[str, str], float]] = {}  # no consumer is in reach

    def edge(self, here: str, there: str) -> float:
        """Return what crosses from ``here`` to ``there``, a second."""
        return sum(rate for (a, b, _), rate in self.forwarded.items() if (a, b) == (here, there))

    def load(self, broker: str) -> float:
        """Return the messages a second that ``broker`` handles: produced there, and come over bridges."""
        produced = sum(place.produced for (name, _), place in self.network.places.items() if name == broker)
        return produced + sum(rate for (_, there, _), rate in self.forwarded.items() if there == broker)

    def utilisation(self, broker: str) -> float | None:
        """Return which part of what its consumers can take they get; None without consumers."""
        able = taken = 0.0
        for (name, queue), place in self.network.places.items():
            if name == broker and place.consumers > LEAST:
                able += place.consumers * self.network.capacity(queue)
                taken += self.consumed.get((name, queue), 0.0)
        return taken / able if able > 0 else None


def predict(network: Network) -> Prediction:
    """Say what becomes of what is produced in ``network``."""
    made = Prediction(network)
    for queue in network.queues:
        _predict_queue(network, queue, made)
    return made


def _predict_queue(network: Network, queue: str, made: Prediction) -> None:
    each = network.capacity(queue)
    free = {b: network.place(b, queue).consumers * each if each else math.inf for b in network.brokers}
    left = {}
    for broker in network.brokers:
        place = network.place(broker, queue)
        takers = {broker: place.consumers} if place.consumers > LEAST else {}
        for there in network.demand(broker, queue):
            takers[there] = network.weight if takers and broker in takers else 1.0
        if takers:
            left[broker] = (place.produced, takers)
        elif place.produced > LEAST:
            made.stranded[broker, queue] = place.produced
    # First every taker's share as its weight says, then what was too much for one to those that only get the rest.
    for rest in (False, True):
        for broker, (produced, takers) in list(left.items()):
            weights = {name: weight or float(rest) for name, weight in takers.items()}
            produced = _share(broker, queue, produced, weights, free, made)
            left[broker] = (produced, takers)
    for broker, (produced, _) in left.items():
        if produced > LEAST:
            made.waiting[broker, queue] = produced


def _share(
    broker: str, queue: str, produced: float, weights: dict[str, float], free: dict[str, float], made: Prediction
) -> float:
    """Give ``produced`` to those with a weight and room, in proportion; return what nobody could take."""
    open_to = {name: weight for name, weight in weights.items() if weight > 0 and free[name] > LEAST}
    while produced > LEAST and open_to:
        total = sum(open_to.values())
        step = min(1.0, *(free[name] * total / (weight * produced) for name, weight in open_to.items()))
        given = produced * step
        for name, weight in open_to.items():
            part = given * weight / total
            free[name] -= part
            made.consumed[name, queue] = made.consumed.get((name, queue), 0.0) + part
            if name != broker:
                made.forwarded[broker, name, queue] = made.forwarded.get((broker, name, queue), 0.0) + part
        produced -= given
        open_to = {name: weight for name, weight in open_to.items() if free[name] > LEAST}
        if step >= 1.0:
            break
    return max(produced, 0.0)


def headroom(network: Network) -> dict[str, float]:
    """Return for each queue how many times today's load its consumers can take, all together."""
    found = {}
    for queue in network.queues:
        produced = sum(place.produced for (_, name), place in network.places.items() if name == queue)
        able = sum(p.consumers for (_, name), p in network.places.items() if name == queue) * network.capacity(queue)
        if produced > LEAST:
            found[queue] = able / produced
    return found


def recommend(network: Network) -> list[str]:
    """Return where consumers are missing, and from where some could come."""
    said = []
    for queue in network.queues:
        each = network.capacity(queue)
        spare: dict[str, int] = {}
        lacking: dict[str, int] = {}
        for broker in network.brokers:
            place = network.place(broker, queue)
            wanted = math.ceil(place.produced / (each * MARGIN)) if each else int(place.produced > LEAST)
            has = round(place.consumers)
            if has > wanted:
                spare[broker] = has - wanted
            elif has < wanted:
                lacking[broker] = wanted - has
        for broker, count in lacking.items():
            place = network.place(broker, queue)
            said.append(_advice(queue, broker, place, count, each, spare))
    return said


def _advice(queue: str, broker: str, place: Place, count: int, each: float, spare: dict[str, int]) -> str:
    has = f"has {place.consumers:.3g} of the {place.consumers + count:.3g} consumers that it needs for it"
    text = f"{queue}: {broker}, where {place.produced:.3g} a second are produced, {has}"
    moves = []
    for there in sorted(spare, key=lambda name: -spare[name]):
        moved = min(count, spare[there])
        if moved > 0:
            spare[there] -= moved
            count -= moved
            moves.append(f"move {moved} there from {there}")
    if count:
        moves.append(f"add {count} there")
    assumed = "" if each else " (how much a consumer takes was not seen)"
    return f"{text}: {', '.join(moves)}{assumed}"


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
        _take_traffic(
            network, found.copies(target).where((fn.col("routing") == 0) & fn.col("queue").isNotNull()), names
        )
        _take_consumers(network, found, names)
    network.weigh()
    return network, sorted(set(survey.faults))


def _take_traffic(network: Network, copies: Any, names: dict[int, str]) -> None:
    derived = fn.coalesce(fn.col("flags"), fn.lit(0)).bitwiseAND(facts.DERIVED | facts.CONTINUED) != 0
    fresh = copies.where((fn.col("accepted") > 0) & fn.col("came_from").isNull() & ~derived)
    spans = fresh.agg(fn.min("began_at").alias("first"), fn.max("began_at").alias("last")).collect()[0]
    if spans["first"] is None:
        raise InvalidOption("nothing was sent to a queue while there was a trace", remedy="trace a time with traffic")
    network.seconds = max((spans["last"] - spans["first"]) / 1e6, 1e-3)
    for row in fresh.groupBy("node", "queue").count().collect():
        network.place(names[row["node"]], row["queue"]).produced = row["count"] / network.seconds
    crossed = copies.where(fn.col("state") == life.FORWARDED).groupBy("node", "far", "queue").count()
    for row in crossed.collect():
        there = names.get(row["far"])
        if there is not None:
            network.forwarded[names[row["node"]], there, row["queue"]] = row["count"] / network.seconds
    _take_capacity(network, copies.where(fn.col("state") == life.CONSUMED), names)


def _take_capacity(network: Network, done: Any, names: dict[int, str]) -> None:
    """Find out what one consumer can take: what it did in its best second, or what its usual message takes it.

    Both are lower bounds. The first is right for one that is never idle, whose messages wait in its window; the second
    for one that waits for messages. Of who acknowledges by receiving only the first is known.
    """
    kept = fn.when(fn.col("last_at") > fn.col("delivered_at"), fn.col("last_at") - fn.col("delivered_at"))
    usual = done.groupBy("node", "queue").agg(fn.percentile_approx(kept, 0.5, 1000).alias("kept"))
    for row in usual.where("kept is not null").collect():
        network.place(names[row["node"]], row["queue"]).capacity = 1e6 / row["kept"]
    slices = done.groupBy("node", "queue", "reader", fn.floor(fn.col("last_at") / SLICE_US).alias("slice")).agg(
        fn.count("*").alias("count"),
        (fn.max("last_at") - fn.min("delivered_at")).alias("busy"),
    )
    best = slices.withColumn("rate", fn.col("count") * 1e6 / fn.greatest(fn.col("busy"), fn.lit(1000)))
    for row in best.where("count > 1").groupBy("node", "queue").agg(fn.max("rate").alias("rate")).collect():
        place = network.place(names[row["node"]], row["queue"])
        place.capacity = max(place.capacity, row["rate"])


def _take_consumers(network: Network, found: Traces, names: dict[int, str]) -> None:
    """Count consumers by how long they were there while messages came."""
    survey = found.survey
    bridges = {(node, run, number) for node, run, number, _, far, _ in survey.consumers if far}
    queues = {(n, run, number): name for n, run, number, name, _, routing in survey.queues if routing == 0}
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
        if queue is None or (node, run, peer) in bridges:
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
    return f"A bridge counts as {made.network.weight:.2f} consumers ({how}). Traced: {made.network.seconds:.1f} s."


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
