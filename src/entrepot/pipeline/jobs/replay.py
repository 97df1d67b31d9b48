"""From an archive back into destinations: what is wanted is frozen, then published in portions, each of them once.

The selection is written beside the archive in order of time, with a number for each row. So every portion is the same
rows whenever it is asked for, though the archive grows or is compacted meanwhile. A portion is a batch of a staged
commit: brokers remember its number, so that a replay that died begins again with the portion that it was at, and what
was published is not published twice. What a replay has done is kept: asked for again, it has nothing left to do.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.base.errors import InvalidOption
from entrepot.model.predicate import compile_selector
from entrepot.pipeline import options as option_table
from entrepot.pipeline.jobs import compaction, editing, layout, selection
from entrepot.pipeline.jobs.archive import Archive
from entrepot.pipeline.jobs.editing import NOT_AGAIN, SCHEDULING, Edits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PORTION_MAX: Final = 20_000  # messages that one task stages: seconds of work, and what a restart repeats at most
PORTION_S: Final = 1.0  # with a rate: a portion is what may go in so long
NAME_MAX: Final = 100
_NUMBER: Final = "_number"


class Wanted(msgspec.Struct, frozen=True):
    """What of an archive is asked for. Times are ISO 8601 with an offset, ``since`` included, ``until`` not."""

    destinations: list[str] = []
    since: str = ""
    until: str = ""
    selector: str = ""
    ids: list[str] = []


class Plan(msgspec.Struct, frozen=True):
    """A frozen selection: ``rows`` messages, numbered by task: task t has those from starts[t] on.

    ``missing``: ids that are wanted and that nothing has which is wanted otherwise.
    ``edits``: what is otherwise in what is sent.
    """

    id: str
    wanted: Wanted
    target: str  # "" for the destinations that they had
    expiration: bool
    mark: bool
    portion: int
    rows: int
    starts: dict[str, int]
    missing: list[str] = []
    edits: dict[str, str | None] = {}


class Progress(msgspec.Struct, frozen=True):
    """How far a replay has come: ``done`` portions, ``rows`` messages."""

    done: int = 0
    rows: int = 0
    finished_at: str = ""


class Counted(msgspec.Struct, frozen=True):
    """One line of a dry run."""

    destination: str
    messages: int
    octets: int
    first: str
    last: str


class Replayed(msgspec.Struct, frozen=True):
    """What a replay did. ``before``: messages of earlier runs of the same replay; ``missing`` as in `Plan`."""

    name: str
    rows: int
    published: int
    before: int
    portions: int
    seconds: float
    complete: bool
    missing: list[str] = []


def moment(text: str) -> datetime:
    """Return a time; one without an offset is UTC. Raises InvalidOption."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{text[:40]!r} is no time", remedy="write 2026-11-21, 2026-11-21T13:05 or 2026-11-21T13:05:00+01:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def checked(wanted: Wanted) -> Wanted:
    """Return ``wanted`` with times as they are kept. Raises InvalidOption, InvalidSelector."""
    since = moment(wanted.since) if wanted.since else None
    until = moment(wanted.until) if wanted.until else None
    if since and until and since >= until:
        raise InvalidOption(f"nothing lies between {since} and {until}", remedy="the first is included, the last not")
    if wanted.selector:
        compile_selector(wanted.selector)
    return Wanted(
        sorted(dict.fromkeys(wanted.destinations)),
        since.astimezone(UTC).isoformat() if since else "",
        until.astimezone(UTC).isoformat() if until else "",
        wanted.selector,
        sorted(dict.fromkeys(wanted.ids)),
    )


def select(archive: Archive, wanted: Wanted) -> DataFrame:
    """Return the messages of ``archive`` that are wanted. Raises InvalidOption for files that are not of it."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = compaction.rows(archive, lambda path: _may_hold(path, wanted))  # by its folder
    conditions: list[Column] = []
    if wanted.destinations:
        conditions.append(f.col("destination").isin(wanted.destinations))
    if wanted.since:
        conditions.append(f.col("time") >= f.lit(moment(wanted.since)))
    if wanted.until:
        conditions.append(f.col("time") < f.lit(moment(wanted.until)))
    if wanted.selector:
        conditions.append(selection.condition(wanted.selector))
    if wanted.ids:
        named = archive.spark.createDataFrame([(id_,) for id_ in wanted.ids], "message_id string")
        rows = rows.join(f.broadcast(named), "message_id", "left_semi")
    for one in conditions:
        rows = rows.filter(one)
    return rows


def count(archive: Archive, wanted: Wanted) -> list[Counted]:
    """Return how many messages are wanted, for each destination."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    seconds = [f.unix_micros(of("time")).alias(name) for name, of in (("first", f.min), ("last", f.max))]
    octets = f.sum(f.coalesce(f.length("body"), f.lit(0))).alias("octets")
    rows = select(archive, wanted).groupBy("destination").agg(f.count("*").alias("messages"), octets, *seconds)
    return [
        Counted(row["destination"], row["messages"], row["octets"], shown(row["first"]), shown(row["last"]))
        for row in rows.orderBy("destination").collect()
    ]


def missing(archive: Archive, wanted: Wanted) -> list[str]:
    """Return the ids that are wanted and that no message has which is wanted otherwise."""
    if not wanted.ids:
        return []
    there = {row["message_id"] for row in select(archive, wanted).select("message_id").distinct().collect()}
    return [id_ for id_ in wanted.ids if id_ not in there]


def shown(us: int) -> str:
    """Return a time for people, from us since 1970."""
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds")


class Replay:
    """One replay of one archive. ``name``: two with the same name are the same replay; "": named by what is wanted."""

    def __init__(
        self,
        archive: Archive,
        wanted: Wanted,
        given: Mapping[str, str],
        *,
        target: str = "",
        name: str = "",
        rate: float = 0,
        expiration: bool = False,
        mark: bool = False,
        edits: Edits = MappingProxyType({}),
    ) -> None:
        """``given``: options of the sink, ``url`` first. ``target``: ``/queue/...`` or ``/topic/...``; "": as before.

        ``rate``: messages a second at most, 0 for no limit. ``expiration``: keep times of expiry. ``mark``: two
        properties say from which replay and which message this comes. ``edits``: what is otherwise in what is sent.

        Raises InvalidOption, InvalidSelector.
        """
        if rate < 0:
            raise InvalidOption(f"a rate of {rate} messages a second", remedy="give a rate above 0, or none")
        self.archive = archive
        self.wanted = checked(wanted)
        self.rate = rate
        self._given = dict(given)
        if target:
            kind, rest = option_table.split_destination(target)
            self._given[kind] = rest
            target = f"/{kind}/{rest}"
        option_table.read({**self._given, "sink": "x", "batch": "0"}, option_table.WRITE)
        self._asked = (target, expiration, mark)
        self._edits = editing.checked(edits)
        self.name = name or self._default_name()
        if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_MAX - 1}}}", self.name):
            raise InvalidOption(f"{self.name[:40]!r} cannot be the name of a replay", remedy="letters, digits, . _ -")
        self._folder = f"{layout.REPLAYS}/{self.name}"

    def run(
        self,
        told: Callable[[int, int], None] = lambda done, of: None,
        ended: threading.Event | None = None,
    ) -> Replayed:
        """Publish what is not published yet; ``told`` after each portion, with messages done and messages in all.

        Stops between portions when ``ended`` is set; run again to go on. Raises what Spark raises.
        """
        ended = ended or threading.Event()
        plan = self.plan()
        begun = self._progress()
        done = begun
        total = -(-plan.rows // plan.portion)
        started = time.monotonic()
        told(begun.rows, plan.rows)
        while done.done < total and not ended.is_set():
            if self.rate and ended.wait(max(0.0, started + (done.rows - begun.rows) / self.rate - time.monotonic())):
                break
            self._publish(plan, done.done)
            rows = min(plan.portion, plan.rows - done.done * plan.portion)
            last = done.done + 1 == total
            done = Progress(done.done + 1, done.rows + rows, datetime.now(UTC).isoformat() if last else "")
            self.archive.storage.write(f"{self._folder}/done.json", msgspec.json.encode(done).decode(), replace=True)
            told(done.rows, plan.rows)
        complete = done.done == total
        if complete:
            self.archive.storage.remove(f"{self._folder}/rows-{plan.id}")  # what it was is not needed any more
        seconds = round(time.monotonic() - started, 3)
        return Replayed(
            self.name, plan.rows, done.rows - begun.rows, begun.rows, total, seconds, complete, plan.missing
        )

    def plan(self) -> Plan:
        """Return the frozen selection, made now if there is none. Raises InvalidOption when the name means another."""
        text = self.archive.storage.read(f"{self._folder}/plan.json")
        if text is None:
            self.archive.storage.write(f"{self._folder}/plan.json", msgspec.json.encode(self._freeze()).decode())
            text = self.archive.storage.read(f"{self._folder}/plan.json") or ""
        plan = msgspec.json.decode(text, type=Plan)
        had = plan.wanted, plan.target, plan.expiration, plan.mark, plan.edits
        if had != (self.wanted, *self._asked, self._edits):
            raise InvalidOption(
                f"the replay {self.name!r} is of something else: {msgspec.json.encode(plan.wanted).decode()[:200]}",
                remedy="ask for the same to go on with it, or give this one another name",
            )
        return plan

    def _freeze(self) -> Plan:
        from pyspark.sql import functions as f  # noqa: PLC0415

        for name in self.archive.storage.names(self._folder):  # a selection that died half frozen
            self.archive.storage.remove(f"{self._folder}/{name}")
        number = uuid.uuid4().hex[:12]
        place = self.archive.storage.path(f"{self._folder}/rows-{number}")
        rows = select(self.archive, self.wanted).orderBy("time", "subscription", "broker", "position")
        target, expiration, mark = self._asked
        rows = self._messages(rows, expiration=expiration, mark=mark)
        rows.withColumn(_NUMBER, f.monotonically_increasing_id()).write.parquet(place)
        task = f.shiftright(f.col(_NUMBER), 33)  # what monotonically_increasing_id is made of
        counts = self.archive.spark.read.parquet(place).groupBy(task.alias("task")).count().collect()
        starts: dict[str, int] = {}
        total = 0
        for row in sorted(counts, key=lambda row: int(row["task"])):
            starts[str(row["task"])] = total
            total += int(row["count"])
        portion = PORTION_MAX if not self.rate else max(1, min(PORTION_MAX, int(self.rate * PORTION_S)))
        absent = missing(self.archive, self.wanted)
        return Plan(number, self.wanted, target, expiration, mark, portion, total, starts, absent, self._edits)

    def _messages(self, rows: DataFrame, *, expiration: bool, mark: bool) -> DataFrame:
        """Return what is sent: the columns of the sink that a message brings with it."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        names = ["body", "text", "priority", "correlation_id", "reply_to", "type", "group_id", "group_sequence"]
        names += ["persistent", "destination"]
        if expiration:
            names.append("expiration")
        again = f.map_filter(
            f.coalesce(f.col("properties"), f.create_map().cast("map<string,string>")),
            lambda name, value: ~name.isin(list(NOT_AGAIN)) & ~name.startswith(SCHEDULING) & value.isNotNull(),
        )
        if mark:
            more = f.create_map(
                f.lit("entrepot_replay"), f.lit(self.name), f.lit("entrepot_message_id"), f.col("message_id")
            )
            again = f.map_concat(
                f.map_filter(again, lambda name, value: ~name.isin("entrepot_replay", "entrepot_message_id")), more
            )
        again = editing.properties(again, self._edits)
        return editing.headers(rows.select(*names, again.alias("properties")), self._edits)

    def _publish(self, plan: Plan, number: int) -> None:
        low = number * plan.portion
        high = min(plan.rows, low + plan.portion)
        rows = self.archive.spark.read.parquet(self.archive.storage.path(f"{self._folder}/rows-{plan.id}"))
        rows = rows.filter(_between(plan.starts, low, high, plan.rows))
        rows = rows.coalesce(1).sortWithinPartitions(_NUMBER).drop(_NUMBER)  # one task: they keep their order
        if plan.target:
            rows = rows.drop("destination")
        sink = {"sink": f"replay-{self.name}-{plan.id}", "batch": str(number)}
        rows.write.format("entrepot").options(**{**self._given, **sink}).mode("append").save()

    def _progress(self) -> Progress:
        text = self.archive.storage.read(f"{self._folder}/done.json")
        return msgspec.json.decode(text, type=Progress) if text else Progress()

    def _default_name(self) -> str:
        asked: tuple[Any, ...] = (self.wanted, self._asked, *([self._edits] if self._edits else []))
        return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()[:12]


def _between(starts: Mapping[str, int], low: int, high: int, total: int) -> Column:
    """Return the condition for rows ``low`` to ``high`` - 1 in the order of tasks."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    found = f.lit(False)
    for start, end in ranges(starts, low, high, total):
        found = found | ((f.col(_NUMBER) >= f.lit(start)) & (f.col(_NUMBER) < f.lit(end)))
    return found


def ranges(starts: Mapping[str, int], low: int, high: int, total: int) -> list[tuple[int, int]]:
    """Return which numbers the rows ``low`` to ``high`` - 1 have: one range for each task that has some of them."""
    found: list[tuple[int, int]] = []
    tasks = sorted((int(task), start) for task, start in starts.items())
    for at, (task, start) in enumerate(tasks):
        end = tasks[at + 1][1] if at + 1 < len(tasks) else total
        first, last = max(low, start), min(high, end)
        if first < last:
            base = task << 33
            found.append((base + first - start, base + last - start))
    return found


def _may_hold(path: str, wanted: Wanted) -> bool:
    """Whether a file's folder can hold what is wanted, by its date and hour."""
    found = re.search(r"/date=(\d{4,5}-\d\d-\d\d)/hour=(\d{1,2})/", path)
    if found is None:
        return True
    hour = f"{found[1]}T{int(found[2]):02}"
    if wanted.since and hour < wanted.since[:13]:
        return False
    return not wanted.until or hour <= wanted.until[:13]
