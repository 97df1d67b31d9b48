"""What crossed over CORE: between nodes of a cluster, by scale-down and by core bridges.

A broker that gets a message that way notes under which number the one before it knew it (`Trace.crossed`), because
what clients call the message does not cross. Here both become one message again: an identity that is a number of
another traced broker gives way to what that broker calls its copy, as often as it takes. And what waits in a store for
another node of a cluster is counted to the queue in which it arrives there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from entrepot.core.events.trace import CROSSED
from entrepot.model.address import ANYCAST
from entrepot.pipeline import traces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STORE_PREFIX: Final = "$.artemis.internal.sf."  # of queues in which messages wait for another node
HOPS_MAX: Final = 3  # times that names are looked up: 2 ** HOPS_MAX brokers one behind the other


class Nodes:
    """What other brokers call the brokers of the traces. All are hashes (`traces.fingerprint`)."""

    def __init__(self) -> None:
        self.ids: Final[dict[int, int]] = {}  # node -> what begins the ids of its messages
        self.node_of: Final[dict[int, int]] = {}  # UUID -> node

    def add(self, node: int, uuid: str, ids: str) -> None:
        """The traced broker ``node`` is called ``uuid`` in clusters."""
        self.ids[node] = traces.fingerprint(ids)
        self.node_of[traces.fingerprint(uuid)] = node

    def node(self, far: int) -> int:
        """Return the node that ``far``, a node or a UUID, is."""
        return self.node_of.get(far, far)


def resolved(copies: DataFrame, nodes: Nodes, prefixes: Mapping[int, str]) -> DataFrame:
    """Return ``copies`` with one identity for each message, wherever it is; ``core``: it came over CORE.

    ``prefixes``: hash -> what begins identities, as `Survey` has them.
    """
    beyond = {number: traces.fingerprint(text[len(CROSSED) : -1]) for number, text in prefixes.items()
              if text.startswith(CROSSED)}  # fmt: skip
    if not beyond:
        return copies.withColumn("core", fn.lit(False))
    came = {number: nodes.node(uuid) for number, uuid in beyond.items()}
    native = {number: nodes.ids[node] for number, node in came.items() if node in nodes.ids}
    arrived = fn.coalesce(fn.col("prefix").isin(list(beyond)), fn.lit(False))
    rows = (
        copies.withColumn("core", arrived)
        .withColumn("came_from", fn.when(arrived, _looked_up(came, "prefix")).otherwise(fn.col("came_from")))
        .withColumn("prefix", fn.coalesce(_looked_up(native, "prefix"), fn.col("prefix")))
        .withColumn("own", _looked_up(nodes.ids, "node"))
    )
    return _placed(_renamed(rows)).drop("own", "told", "said")


def _looked_up(table: Mapping[int, int], name: str) -> Column:
    """Return what ``table`` has for column ``name``; null for nothing."""
    nothing = fn.lit(None).cast("bigint")
    if not table:
        return nothing
    pairs = (fn.lit(value).cast("bigint") for pair in table.items() for value in pair)
    return fn.coalesce(fn.try_element_at(fn.create_map(*pairs), fn.col(name)), nothing)


def _renamed(rows: DataFrame) -> DataFrame:
    """Let each identity that is a number of a traced broker be what that broker calls this number.

    ``told`` and ``said`` keep that broker's prefix and its number.
    """
    foreign = fn.col("own").isNotNull() & fn.col("prefix").isNotNull() & (
        (fn.col("prefix") != fn.col("own")) | (fn.col("sequence") != fn.col("number"))
    )  # fmt: skip
    known = rows.where(foreign).groupBy(fn.col("own").alias("of"), fn.col("number").alias("at"))
    names = known.agg(fn.min(fn.struct("prefix", "sequence")).alias("called"))
    for _ in range(HOPS_MAX):
        further = names.select(fn.col("of").alias("by"), fn.col("at").alias("which"), fn.col("called").alias("better"))
        same = (fn.col("called.prefix") == fn.col("by")) & (fn.col("called.sequence") == fn.col("which"))
        names = names.join(further, same, "left").select("of", "at", fn.coalesce("better", "called").alias("called"))
    rows = rows.withColumn("told", fn.col("prefix")).withColumn("said", fn.col("sequence"))
    same = (fn.col("prefix") == fn.col("of")) & (fn.col("sequence") == fn.col("at"))
    found = rows.join(names, same & foreign, "left")
    found = found.withColumn("prefix", fn.coalesce("called.prefix", "prefix"))
    return found.withColumn("sequence", fn.coalesce("called.sequence", "sequence")).drop("of", "at", "called")


def _placed(rows: DataFrame) -> DataFrame:
    """Count what waits, or waited, for another node to the queue in which it arrived there."""
    store = fn.coalesce(fn.col("queue").startswith(STORE_PREFIX), fn.lit(False))
    there = rows.where(fn.col("core") & (fn.col("accepted") > 0)).groupBy(
        fn.col("told").alias("of"), fn.col("said").alias("at")
    )  # fmt: skip
    reached = there.agg(fn.min(fn.struct("routing", "queue", "address")).alias("reached"))
    same = store & (fn.col("own") == fn.col("of")) & (fn.col("number") == fn.col("at"))
    found = rows.join(reached, same, "left").withColumn("store", store)
    for name in ("queue", "address", "routing"):
        found = found.withColumn(name, fn.coalesce(f"reached.{name}", name))
    nowhere = fn.col("store") & fn.col("reached").isNull()
    found = found.withColumn("routing", fn.when(nowhere, fn.lit(ANYCAST)).otherwise(fn.col("routing")))
    return found.drop("of", "at", "reached", "store")
