"""The audit: what was sent is what was consumed, or is still there, or is dead or expired; every exception by name.

It reconciles the traces of all brokers in three ways, none of which trusts the others:

- each copy has one end. A broker that stops in order names what it still has, and one that starts names what it finds:
  a persistent copy without an end that is not among them is *lost there*;
- what a bridge forwarded and had confirmed was accepted by the broker behind it, or is *lost on the way*;
- one message of one queue is consumed once in the whole network, or is *doubled*; and each reader gets the messages of
  one producer in their order, or the smallest set of those that are not where they belong is *out of order*.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

from entrepot.core.events import trace as facts
from entrepot.model.address import ANYCAST
from entrepot.pipeline.jobs import life, pages, related, sifting, storage
from entrepot.pipeline.jobs.life import STATES, Survey, Traces

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

    from entrepot.pipeline.jobs.related import Related

LOST: Final = "lost"
DOUBLED: Final = "doubled"
DISORDERED: Final = "out of order"
DOUBTFUL: Final = "in doubt"
NAMED_MAX: Final = 1000  # of each kind, in the readable report; Parquet has all

COUNTED: Final = (
    "sent", "made", "before", "consumed", "pending", "dead", "expired", "removed", "other", "in transit", "forwarded",
    "arrived", "lost", "in doubt", "difference",
)  # fmt: skip


class Finding:
    """One message that is not where it should be."""

    def __init__(self, kind: str, identity: str, queue: str, broker: str, what: str, time: int) -> None:
        self.kind: Final = kind
        self.identity: Final = identity
        self.queue: Final = queue
        self.broker: Final = broker
        self.what: Final = what
        self.time: Final = time  # us since 1970

    def __repr__(self) -> str:
        return f"{self.kind}: {self.identity} of {self.queue} at {self.broker}: {self.what}"


class Audit:
    """The outcome. ``totals``: a dict for each queue, of all brokers together; ``counts``: kind -> how many."""

    def __init__(
        self,
        *,
        totals: list[dict[str, Any]],
        counts: dict[str, int],
        findings: list[Finding],
        faults: list[str],
        brokers: list[str],
        records: int,
        altered: list[str],
        links: dict[str, str],
        others: Sequence[Related] = (),
    ) -> None:
        """``altered``: where a trace was changed after it was written; ``links``: broker -> the last of its chain.

        ``others``: what other jobs said.
        """
        self.others: Final = others
        self.totals: Final = totals
        self.counts: Final = counts
        self.findings: Final = findings
        self.faults: Final = faults
        self.brokers: Final = brokers
        self.records: Final = records
        self.altered: Final = altered
        self.links: Final = links

    @property
    def clean(self) -> bool:
        """Whether every message is accounted for, by traces that are as they were written."""
        balanced = all(0 <= row["difference"] <= row["in transit"] for row in self.totals)
        return balanced and not self.altered and not any(self.counts.values())

    def verdict(self) -> str:
        """Return the outcome in one sentence."""
        sent = sum(row["sent"] for row in self.totals)
        if self.clean:
            whole = "all are accounted for: none lost, none doubled, all in order"
            return f"{sent:,} messages were sent to queues and {whole}."
        said = [f"{count:,} {kind}" for kind, count in self.counts.items() if count]
        if self.altered:
            said.append("the traces are not as they were written")
        return f"{sent:,} messages were sent to queues; {', '.join(said) or 'the sums differ'}."


def audit(
    spark: SparkSession, places: Sequence[str | Path], target: str | Path, see: Sequence[str | Path] = ()
) -> Audit:
    """Reconcile the traces in ``places``; write Parquet and a report into ``target``, a directory or a URI of Hadoop.

    ``see``: where other jobs wrote, to be linked to. Raises InvalidOption.
    """
    others = related.found(spark, see, target)
    place = storage.fresh(spark, target)
    found = Traces(spark, places)
    with life.shuffled(spark, found.partitions):
        copies = found.copies(place)
        findings_path = place.path("findings.parquet")
        with _findings(copies, found.survey) as findings:
            findings.write.parquet(findings_path)
        findings = spark.read.parquet(findings_path)
        totals = [row.asDict() for row in _totals(copies, found.survey).collect()]
        named, counts = _named(findings, found.survey)
    outcome = Audit(
        totals=sorted(totals, key=lambda row: row["queue"] or ""),
        counts=counts,
        findings=named,
        faults=sorted({*found.survey.faults, *found.survey.altered}),
        altered=found.survey.altered,
        links=found.survey.last_links,
        others=others,
        brokers=sorted(f"{broker.name} ({broker.node})" for broker in found.survey.brokers.values()),
        records=sum(row["records"] for row in totals),
    )
    related.leave(place, related.AUDIT, outcome.verdict(), good=outcome.clean)
    place.write("report.txt", text_of(outcome))
    place.write("report.html", page_of(outcome))
    return outcome


# -- sums --------------------------------------------------------------------------------------------------------------


def _totals(copies: DataFrame, survey: Survey) -> DataFrame:
    """Return a row for each queue: what came, and where it is. Only queues; subscriptions of topics have their own."""
    queues = copies.where(fn.coalesce(fn.col("routing"), fn.lit(ANYCAST)) == ANYCAST)
    fresh = fn.col("accepted") > 0
    derived = fn.coalesce(fn.col("flags"), fn.lit(0)).bitwiseAND(facts.DERIVED) != 0
    crossed = fn.col("came_from").isNotNull() & ~derived  # a copy keeps the origin of its original
    # A copy with a new number goes on: its first half has no end of its own, its second no beginning.
    continued = (fn.col("accepted") == 0) & (fn.coalesce(fn.col("flags"), fn.lit(0)).bitwiseAND(facts.CONTINUED) != 0)
    states = {state: fn.count_if(fn.col("state") == state) for state in range(len(STATES))}
    other = states[life.REFUSED] + states[life.VANISHED]
    traced = list(survey.brokers)
    left = (fn.col("state") == life.FORWARDED) & ~fn.col("far").isin(traced)
    rows = queues.groupBy(fn.coalesce(fn.col("queue"), fn.lit("?")).alias("queue")).agg(
        fn.count_if(fresh & ~derived & ~crossed).alias("sent"),
        fn.count_if(fresh & derived).alias("made"),
        fn.count_if(fresh & crossed).alias("arrived"),
        fn.count_if(~fresh & ~continued).alias("before"),
        states[life.CONSUMED].alias("consumed"),
        states[life.FORWARDED].alias("forwarded"),
        (states[life.PENDING]).alias("pending"),
        states[life.DEAD].alias("dead"),
        states[life.EXPIRED].alias("expired"),
        states[life.REMOVED].alias("removed"),
        other.alias("other"),
        states[life.TRANSIT].alias("in transit"),
        fn.count_if(left).alias("left"),
        fn.count_if(fresh & crossed & ~fn.col("came_from").isin(traced)).alias("joined"),
        states[life.LOST].alias("lost"),
        states[life.DOUBTFUL].alias("in doubt"),
        fn.sum(fn.col("accepted") + fn.col("delivered") + fn.col("acknowledged") + fn.col("returned")).alias("records"),
    )
    came = fn.col("sent") + fn.col("made") + fn.col("before") + fn.col("joined")
    places = ("consumed", "pending", "dead", "expired", "removed", "other", "left")
    return rows.withColumn("difference", came - sum((fn.col(name) for name in places), fn.lit(0)))


# -- findings ----------------------------------------------------------------------------------------------------------


@contextmanager
def _findings(copies: DataFrame, survey: Survey) -> Iterator[DataFrame]:
    """Yield all findings. Only what summaries of many rows doubt (`sifting`) is brought together."""
    crossed, ended = _crossed(copies, survey), _ended(copies)
    with sifting.held(_uneven(crossed)) as uneven, sifting.held(_twice(ended)) as twice:
        yield _told_once(
            _lost_here(copies)
            .unionByName(_lost_between(sifting.among(crossed, uneven, sifting.identity()), survey))
            .unionByName(_doubled(sifting.among(ended, twice, sifting.identity())))
            .unionByName(_disordered(copies))
        )


def _told_once(found: DataFrame) -> DataFrame:
    # What was consumed twice came behind younger ones the second time: that is said once, as what it is.
    same = Window.partitionBy("prefix", "sequence")
    twice = fn.max((fn.col("kind") == DOUBLED).cast("int")).over(same) > 0
    named = fn.col("prefix").isNotNull()
    return (
        found.withColumn("twice", twice & named).where((fn.col("kind") != DISORDERED) | ~fn.col("twice")).drop("twice")
    )


def _finding(rows: DataFrame, kind: str, what: Any) -> DataFrame:
    return rows.select(
        fn.lit(kind).alias("kind") if isinstance(kind, str) else kind,
        "prefix", "sequence", "number", "queue", "node", fn.col("last_at").alias("time"), what.alias("what"),
    )  # fmt: skip


def _lost_here(copies: DataFrame) -> DataFrame:
    """Return persistent copies that no record lets go of, and that their broker has not got."""
    rows = copies.where(fn.col("state").isin(life.LOST, life.DOUBTFUL))
    last = fn.element_at(fn.array(*(fn.lit(name) for name in facts.KINDS)), (fn.shiftright("code", 16) + 1).cast("int"))
    what = fn.concat(
        fn.lit("the last record says "),
        last,
        fn.when(
            fn.col("consumer").isNotNull() & (fn.col("delivered") > 0), fn.concat(fn.lit(" to "), "consumer")
        ).otherwise(""),
        fn.when(fn.col("is_last"), ", and the broker did not have it when it stopped").otherwise(
            ", and the broker did not have it when it started again"
        ),
    )
    both = rows.withColumn("last_at", fn.coalesce("last_at", "began_at"))
    doubtful = fn.col("state") == life.DOUBTFUL
    found = _finding(both.where(~doubtful), LOST, what)
    return found.unionByName(_finding(both.where(doubtful), DOUBTFUL, what))


def _crossed(copies: DataFrame, survey: Survey) -> DataFrame:
    """Return what went over bridges between traced brokers: ``sent`` has 1 where it left, ``came`` where it arrived."""
    traced = list(survey.brokers)
    # over CORE a message may get another address, and waits for another node under that of the store
    place = fn.when(fn.col("core") | fn.col("over_core"), "").otherwise(fn.coalesce("address", fn.lit("")))
    identified = copies.where(fn.col("prefix").isNotNull()).withColumn("address", place)
    sent = identified.where((fn.col("state") == life.FORWARDED) & fn.col("far").isin(traced)).select(
        "prefix", "sequence", "address", fn.col("far").alias("there"), fn.lit(1).alias("sent"), fn.lit(0).alias("came"),
        "number", "queue", "node", "last_at", "consumer", "routing",
    )  # fmt: skip
    nothing = [fn.lit(None).cast(kind).alias(name) for name, kind in
               (("number", "bigint"), ("queue", "string"), ("node", "bigint"), ("last_at", "bigint"),
                ("consumer", "string"), ("routing", "int"))]  # fmt: skip
    came = identified.where(fn.col("came_from").isNotNull() & (fn.col("accepted") > 0)).select(
        "prefix", "sequence", "address", fn.col("node").alias("there"), fn.lit(0).alias("sent"),
        fn.lit(1).alias("came"), *nothing,
    )  # fmt: skip
    return sent.unionByName(came)


def _uneven(crossed: DataFrame) -> DataFrame:
    """Return the sets of 64 identities of which one was sent and did not come, or was sent twice."""
    bit = sifting.bit_of(sifting.identity())
    block = sifting.block_of(sifting.identity()).alias(sifting.BLOCK)
    sets = crossed.groupBy("prefix", "address", "there", block).agg(
        fn.sum("sent").alias("count"),
        fn.bit_or(fn.when(fn.col("sent") > 0, bit).otherwise(0)).alias("left"),
        fn.bit_or(fn.when(fn.col("came") > 0, bit).otherwise(0)).alias("came"),
    )
    missing = fn.col("left").bitwiseAND(fn.bitwise_not("came")) != 0
    uneven = missing | (fn.col("count") > fn.bit_count("left"))
    return sets.where(uneven).select("prefix", "address", "there", sifting.BLOCK)


def _lost_between(crossed: DataFrame, survey: Survey) -> DataFrame:
    """Return what a bridge forwarded, and had confirmed, that never came to the broker behind it."""
    traced = list(survey.brokers)
    joined = crossed.groupBy("prefix", "sequence", "address", "there").agg(
        fn.sum("sent").alias("sent"), fn.sum("came").alias("came"), fn.max("number").alias("number"),
        fn.max("queue").alias("queue"), fn.max("node").alias("node"), fn.max("last_at").alias("last_at"),
        fn.max("consumer").alias("consumer"), fn.max("routing").alias("routing"),
    )  # fmt: skip
    missing = (fn.col("sent") > 0) & fn.when(fn.col("routing") == ANYCAST, fn.col("sent") > fn.col("came")).otherwise(
        fn.col("came") == 0
    )
    names = fn.create_map(*(fn.lit(one) for node in traced for one in (node, survey.name_of(node)))) if traced else None
    there = fn.lit("") if names is None else names[fn.col("there")]
    what = fn.concat(fn.lit("forwarded to "), there, fn.lit(" and confirmed, but it never came there"))
    return _finding(joined.where(missing), LOST, what)


def _ended(copies: DataFrame) -> DataFrame:
    """Return the copies in queues, and what `_doubled` counts: ``consumed`` by clients, ``waits``, ``letter``."""
    queues = copies.where((fn.col("routing") == ANYCAST) & fn.col("prefix").isNotNull())
    client = fn.coalesce(fn.col("far"), fn.lit(0)) == 0
    consumed = fn.when(client & (fn.col("state") == life.CONSUMED), fn.col("acknowledged")).otherwise(0)
    return queues.withColumns(
        {
            "consumed": consumed,
            "waits": (fn.col("state") == life.PENDING).cast("int"),
            "letter": fn.col("state").isin(life.DEAD, life.EXPIRED).cast("int"),
        }
    )


def _twice(ended: DataFrame) -> DataFrame:
    """Return the sets of 64 identities of which one has two ends."""
    ends = fn.col("consumed") + fn.col("waits") + fn.col("letter")
    block = sifting.block_of(sifting.identity()).alias(sifting.BLOCK)
    sets = ended.where(ends > 0).groupBy("queue", "prefix", block).agg(
        fn.sum(ends).alias("ends"), fn.bit_or(sifting.bit_of(sifting.identity())).alias("which")
    )  # fmt: skip
    return sets.where(fn.col("ends") > fn.bit_count("which")).select("queue", "prefix", sifting.BLOCK)


def _doubled(ended: DataFrame) -> DataFrame:
    """Return messages of queues that were consumed, or are to be had, more than once in the whole network."""
    derived = fn.col("flags").bitwiseAND(facts.DERIVED) != 0
    grouped = ended.groupBy("prefix", "sequence", "queue").agg(
        fn.sum("consumed").alias("consumed"),
        fn.sum("waits").alias("waiting"),
        fn.sum("letter").alias("letters"),
        fn.count_if(fn.coalesce(derived, fn.lit(False))).alias("made"),
        fn.max("number").alias("number"),
        fn.max_by("node", "last_at").alias("node"),
        fn.max("last_at").alias("last_at"),
        fn.max_by("consumer", "last_at").alias("consumer"),
    )
    ends = fn.col("consumed") + fn.col("waiting") + fn.when(fn.col("made") > 0, 0).otherwise(fn.col("letters"))
    what = fn.concat(
        fn.lit("consumed "),
        fn.col("consumed").cast("string"),
        fn.lit(" times"),
        fn.when(
            fn.col("waiting") > 0, fn.concat(fn.lit(", still waiting "), fn.col("waiting").cast("string"))
        ).otherwise(""),
        fn.when(fn.col("consumer").isNotNull(), fn.concat(fn.lit(", last by "), fn.col("consumer"))).otherwise(""),
    )
    return _finding(grouped.where(ends > 1), DOUBLED, what)


def _disordered(copies: DataFrame) -> DataFrame:
    """Return, for each reader and producer, the fewest messages without which all came in their order.

    What was given back or made by the broker has no place of its own, and other priorities are other orders.
    """
    client = fn.coalesce(fn.col("far"), fn.lit(0)) == 0
    derived = fn.coalesce(fn.col("flags"), fn.lit(0)).bitwiseAND(facts.DERIVED | facts.CONTINUED) != 0
    given = copies.where(
        client & ~derived & (fn.col("delivered") == 1) & (fn.col("returned") == 0) & (fn.col("sequence") >= 0)
        & fn.col("reader").isNotNull() & (fn.col("reader") > 0)
    ).withColumn("priority", fn.shiftright("flags", 4))  # fmt: skip
    key = ["node", "place", "reader_run", "reader", "prefix", "priority"]
    given = sifting.disordered(given, key)
    window = Window.partitionBy(*key).orderBy("delivered_position")
    before = given.select(*key, "sequence", "delivered_position", fn.lag("sequence").over(window).alias("before"))
    wrong = before.where(fn.col("before") > fn.col("sequence")).select(*key).distinct()
    chosen = given.join(fn.broadcast(wrong), key, "left_semi").select(
        *key, "sequence", "delivered_position", "number", "queue", fn.col("delivered_at").alias("last_at"), "consumer"
    )
    schema = "prefix bigint, sequence bigint, number bigint, queue string, node bigint, last_at bigint, consumer string"
    displaced = chosen.groupBy(*key).applyInPandas(_displaced, schema)
    what = fn.concat(fn.lit("it came out of its place to "), fn.coalesce("consumer", fn.lit("its reader")))
    return _finding(displaced, DISORDERED, what)


def _displaced(rows: pd.DataFrame) -> pd.DataFrame:
    ordered = rows.sort_values("delivered_position")
    out = ordered.iloc[displaced(ordered["sequence"].tolist())]
    return out[["prefix", "sequence", "number", "queue", "node", "last_at", "consumer"]]


def displaced(sequence: list[int]) -> list[int]:
    """Return the indices of the fewest elements without which ``sequence`` rises strictly."""
    tails: list[int] = []
    at: list[int] = []  # index of each tail
    before: list[int] = []
    for index, value in enumerate(sequence):
        place = bisect_left(tails, value)
        before.append(at[place - 1] if place else -1)
        if place == len(tails):
            tails.append(value)
            at.append(index)
        else:
            tails[place] = value
            at[place] = index
    kept = set()
    index = at[-1] if at else -1
    while index >= 0:
        kept.add(index)
        index = before[index]
    return [index for index in range(len(sequence)) if index not in kept]


def _named(findings: DataFrame, survey: Survey) -> tuple[list[Finding], dict[str, int]]:
    counts = {LOST: 0, DOUBLED: 0, DISORDERED: 0, DOUBTFUL: 0}
    counts.update({row["kind"]: row["count"] for row in findings.groupBy("kind").count().collect()})
    window = Window.partitionBy("kind").orderBy("time", "prefix", "sequence")
    first = findings.withColumn("place", fn.row_number().over(window)).where(fn.col("place") <= NAMED_MAX)
    named = []
    for row in first.orderBy("kind", "place").collect():
        broker = survey.name_of(row["node"])
        identity = survey.identity(row["prefix"], row["sequence"]) or f"number {row['number']} of {broker}"
        named.append(Finding(row["kind"], identity, row["queue"] or "?", broker, row["what"], row["time"] or 0))
    return named, counts


# -- the report --------------------------------------------------------------------------------------------------------


def _rows(outcome: Audit) -> list[list[object]]:
    return [[row["queue"], *(row[name] for name in COUNTED)] for row in outcome.totals]


def text_of(outcome: Audit) -> str:
    """Return the report as text."""
    lines = [outcome.verdict(), "", f"Brokers: {', '.join(outcome.brokers)}; {outcome.records:,} records.", ""]
    lines += [f"Attention: {fault}" for fault in outcome.faults]
    lines += pages.columns(["queue", *COUNTED], _rows(outcome))
    for kind, count in outcome.counts.items():
        if count:
            lines += ["", f"{kind}: {count}" + (f", the first {NAMED_MAX}" if count > NAMED_MAX else "")]
            shown = [
                [pages.moment(one.time), one.identity, one.queue, one.broker, one.what]
                for one in outcome.findings
                if one.kind == kind
            ]
            lines += pages.columns(["last seen", "message", "queue", "broker", "last hop"], shown)
    if outcome.links:
        lines += ["", CHAIN, *pages.columns(["broker", "last link"], [list(pair) for pair in outcome.links.items()])]
    return "\n".join(lines) + "\n"


def page_of(outcome: Audit) -> str:
    """Return the report as a page that needs no other file."""
    parts = [pages.verdict(outcome.verdict(), good=outcome.clean)]
    parts += [pages.verdict(fault, good=False) for fault in outcome.faults]
    parts += pages.cards(outcome.others)
    parts.append(pages.paragraph(f"Brokers: {', '.join(outcome.brokers)}. {outcome.records:,} records."))
    parts.append(pages.heading("Queues"))
    parts.append(pages.table(["queue", *COUNTED], _rows(outcome)))
    parts.append(pages.paragraph(LEGEND))
    for kind, count in outcome.counts.items():
        if count:
            parts.append(pages.heading(f"{count:,} {kind}" + (f", the first {NAMED_MAX}" if count > NAMED_MAX else "")))
            shown: list[list[object]] = [
                [pages.moment(one.time), one.identity, one.queue, one.broker, one.what]
                for one in outcome.findings
                if one.kind == kind
            ]
            parts.append(pages.table(["last seen", "message", "queue", "broker", "last hop"], shown))
    if outcome.links:
        parts += [pages.heading("Chains"), pages.paragraph(CHAIN)]
        parts.append(pages.table(["broker", "last link"], [list(pair) for pair in outcome.links.items()]))
    return pages.page("Audit", parts)


CHAIN: Final = (
    "What was audited, for whoever keeps this report: `entrepot trace verify DIR --expect LINK` says later whether it "
    "is still the same."
)
LEGEND: Final = (
    "sent + made + before = consumed + pending + dead + expired + removed + other, for all brokers together; the "
    "difference is what is left of it. Made: copies that a broker made (dead letters, moves, diverts). Before: what "
    "was there before the trace began. Other: not persistent and gone with its broker, or not allowed to cross. In "
    "transit: on its way over a bridge, at one end or both. In doubt: accepted in the last second before a broker "
    "died; its producer may not have been told that it is stored. Lost: by a broker; what was lost between two is "
    "named below. Brokers that are not traced count as a place where messages come from and go to."
)
