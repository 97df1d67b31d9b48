"""What may be written in ``.option(...)``: one table of names, defaults and ranges, read by source and sink alike.

Decides what an option means and refuses what cannot be meant; never opens anything. Spark gives option names in any
case, so they are compared without it. Options that Spark itself adds (``path``, ``checkpointLocation``) are let pass.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.settings import I64_MAX
from entrepot.base.uri import Composite, Endpoint, parse_list
from entrepot.base.values import whole
from entrepot.driver.holding import Query
from entrepot.driver.offsets import milliseconds, parse_end, parse_start, source_name
from entrepot.driver.scope import QUEUES_MAX, Scope, divide
from entrepot.driver.search import Reach
from entrepot.driver.shard import Subject

READ: Final = "read"
STREAM: Final = "readStream"
WRITE: Final = "write"

STAGED: Final = "staged"
DUPLICATE_ID: Final = "duplicate-id"
AT_LEAST_ONCE: Final = "at-least-once"
COMMIT_MODES: Final = (STAGED, DUPLICATE_ID, AT_LEAST_ONCE)


class Setting(msgspec.Struct, frozen=True):
    """One option. ``low`` and ``high`` make it a whole number; ``words`` lists the only values."""

    name: str
    where: tuple[str, ...]
    meaning: str
    default: str = ""
    low: int | None = None
    high: int | None = None
    words: tuple[str, ...] = ()


EVERYWHERE: Final = (READ, STREAM, WRITE)

SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("url", EVERYWHERE, "the brokers: `stomp://host:port`, several with commas, or `failover:(...)`"),
    Setting(
        "queue",
        EVERYWHERE,
        "name of the queue, with or without `/queue/`; to read several: names and wildcards, with commas",
    ),
    Setting(
        "topic",
        EVERYWHERE,
        "name of the topic, with or without `/topic/`; to read several: names and wildcards, with commas",
    ),
    Setting(
        "maxQueues",
        (READ, STREAM),
        "queues that a list or a wildcard may be; more are an error",
        default="100",
        low=1,
        high=QUEUES_MAX,
    ),
    Setting(
        "discover",
        (READ, STREAM),
        "whether brokers of the network are read that `url` does not name: those of a queue; never of a topic",
        default="true",
        words=("true", "false"),
    ),
    Setting(
        "demand",
        (STREAM,),
        "whether brokers with a bridge to those of `url` are to send what they have of the queue or topic, as they "
        "would for a consumer: for queues that are at an ActiveMQ",
        default="false",
        words=("true", "false"),
    ),
    Setting(
        "arrivalWait",
        (STREAM,),
        "ms without a new message after which `availableNow` takes it that a bridge has brought all, with `demand`",
        default="2000",
        low=0,
        high=600_000,
    ),
    Setting("login", EVERYWHERE, "user; the one in `url` counts when this is not given"),
    Setting("passcode", EVERYWHERE, "that user's password"),
    Setting("columns", (READ, STREAM), "the columns that are read, with commas between them; default: all"),
    Setting("subscription", (READ, STREAM), "name of the reader: under it the brokers keep what it holds"),
    Setting("selector", (READ, STREAM), "SQL-92 condition: only messages that fulfil it are taken"),
    Setting(
        "maxMessagesPerTrigger",
        (STREAM,),
        "messages that one micro-batch takes at most, over all brokers",
        default="100000",
        low=1,
        high=100_000_000,
    ),
    Setting(
        "maxOctetsPerTrigger",
        (STREAM,),
        "octets of headers and bodies, over all brokers, with which a micro-batch ends; 0: any number. The message "
        "that reaches them is in it, so one that is larger alone is a batch",
        default="0",
        low=0,
        high=1 << 50,
    ),
    Setting(
        "minMessagesPerTrigger",
        (STREAM,),
        "messages that a micro-batch waits for, over all brokers, but not longer than `maxTriggerDelay`; the first of "
        "a run and `availableNow` wait for none. With a selector all that wait are counted, whether they match or not",
        default="0",
        low=0,
        high=100_000_000,
    ),
    Setting(
        "maxTriggerDelay",
        (STREAM,),
        "ms after a micro-batch until the next comes with what there is, fewer than `minMessagesPerTrigger` too",
        default="900000",
        low=0,
        high=86_400_000,
    ),
    Setting(
        "minPartitions",
        (READ, STREAM),
        "tasks that a batch is split into at least, when it has that many messages; 0: as many as there are cores",
        default="0",
        low=0,
        high=10_000,
    ),
    Setting(
        "startingPosition",
        (STREAM,),
        "where a new query begins: `earliest`; `latest`, behind all that is there now; a time such as "
        '`2026-11-21T13:00:00Z`; or positions such as `{"<broker>": 120}`',
        default="earliest",
    ),
    Setting(
        "until",
        (READ, STREAM),
        "a time such as `2026-11-21T13:00:00Z`: what was sent later is left to others, and to later runs; or positions "
        'such as `{"<broker>": 120}`, which are not in: brokers that are not named give nothing',
    ),
    Setting("range", (READ,), "what `entrepot.pipeline.claim` answered: exactly these messages are read"),
    Setting(
        "pollWait",
        (STREAM,),
        "ms that an idle query waits at the broker before it asks again",
        default="250",
        low=0,
        high=60_000,
    ),
    Setting(
        "batchOctets",
        (READ, STREAM),
        "octets of one Arrow batch, about; bounds the memory of a Python worker",
        default=str(6 << 20),
        low=1 << 10,
        high=1 << 30,
    ),
    Setting(
        "shortCircuit",
        (READ, STREAM),
        "whether a task on the machine of a broker reads messages in that broker's files, where the operating system "
        "lets it, instead of having them sent; what it cannot read there is sent in any case",
        default="true",
        words=("true", "false"),
    ),
    Setting("connectTimeout", EVERYWHERE, "ms to open one connection", default="5000", low=1, high=600_000),
    Setting("requestTimeout", EVERYWHERE, "ms to wait for one answer", default="60000", low=1, high=3_600_000),
    Setting(
        "failoverTimeout",
        EVERYWHERE,
        "ms to look for a broker that is gone, or for the one that takes its place",
        default="60000",
        low=0,
        high=86_400_000,
    ),
    Setting("commit.mode", (WRITE,), "how rows become messages", default=STAGED, words=COMMIT_MODES),
    Setting(
        "commit.atomic",
        (WRITE,),
        "whether a staged batch is refused of which a broker could not show its part at one moment",
        default="false",
        words=("true", "false"),
    ),
    Setting("sink", (WRITE,), "name under which batches are remembered; default: the id of the query"),
    Setting(
        "batch",
        (WRITE,),
        "number of this batch under `sink`, for `foreachBatch`: the same number is never published twice",
        low=0,
        high=(1 << 62) - 1,
    ),
    Setting(
        "counter",
        (WRITE,),
        "who counts the batches of `sink`; default: the query whose `foreachBatch` writes, `job` outside of one",
    ),
    Setting("properties", (WRITE,), "columns that become properties, with commas between them"),
)
BY_NAME: Final[dict[str, Setting]] = {setting.name.lower(): setting for setting in SETTINGS}

KAFKA_PREFIX: Final = "kafka."

_START: Final = 'use startingPosition: "earliest", "latest", a time, or positions {"<broker>": 120}; a batch has all'
_BEGIN: Final = "use startingPosition with a time such as 2026-11-21T13:00:00Z, for a stream; a batch has all"
_POSITIONS: Final = 'use until with positions {"<broker>": 120}, which are not in; "latest" is what a batch does anyway'
_UNTIL: Final = "use until with a time such as 2026-11-21T13:00:00Z"
_PATIENCE: Final = "use requestTimeout for one answer, failoverTimeout for a broker that is away"

# What to write in place of an option of Kafka, for those who come from there; docs/spark.md shows the same names.
# Source: "Structured Streaming + Kafka Integration Guide" of Apache Spark, all options of its source and its sink.
OF_KAFKA: Final[dict[str, str]] = {
    name.lower(): ours
    for name, ours in {
        "kafka.bootstrap.servers": "use url: stomp://host:port, several with commas",
        "subscribe": "use queue or topic: several names with commas between them",
        "subscribePattern": "use queue or topic with wildcards, such as orders.>: * is one word, > any number of them",
        "assign": "use queue or topic; its parts at all brokers are read, those of url alone with discover=false",
        "startingOffsets": _START,
        "startingTimestamp": _BEGIN,
        "startingOffsetsByTimestamp": _BEGIN,
        "startingOffsetsByTimestampStrategy": "leave it out: when nothing is as late as that, what comes is read",
        "endingOffsets": _POSITIONS,
        "endingTimestamp": _UNTIL,
        "endingOffsetsByTimestamp": _UNTIL,
        "failOnDataLoss": "leave it out: what was settled already and is read again is always an error",
        "maxOffsetsPerTrigger": "use maxMessagesPerTrigger, or maxOctetsPerTrigger to limit octets, or both",
        "minOffsetsPerTrigger": "use minMessagesPerTrigger",
        "maxRecordsPerPartition": "use minPartitions, and maxMessagesPerTrigger",
        "groupIdPrefix": "use subscription, a name of its own for each query",
        "kafka.group.id": "use subscription, a name of its own for each query",
        "includeHeaders": "leave it out: the column properties has them",
        "kafkaConsumer.pollTimeoutMs": _PATIENCE,
        "fetchOffset.numRetries": _PATIENCE,
        "fetchOffset.retryIntervalMs": _PATIENCE,
    }.items()
}
TLS_PREFIX: Final = "tls."
OF_SPARK: Final = ("path", "checkpointlocation", "paths", "queryname", "querytimeout", "provider")


class Options(msgspec.Struct, frozen=True):
    """Checked options. ``places`` has one entry for each broker: the places where it may be found."""

    places: tuple[tuple[Endpoint, ...], ...]
    destination: str  # "/queue/name" or "/topic/name", "" where a column names it
    login: str
    passcode: str
    values: dict[str, str]
    tls: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return the value of ``name`` or its default."""
        return self.values.get(name.lower()) or BY_NAME[name.lower()].default

    def number(self, name: str) -> int:
        """Return the value of an option that is a number; it was checked when the options were read."""
        return int(self.text(name) or "0")

    def seconds(self, name: str) -> float:
        """Return the value of an option in ms as seconds."""
        return self.number(name) / 1000

    @property
    def discovers(self) -> bool:
        """Whether brokers of the network are read that ``url`` does not name.

        Never for topics: bridges bring a topic's message to every broker with a subscription, so it would come twice.
        """
        return self.text("discover") == "true" and self.destination.startswith("/queue/")

    def scope(self) -> Scope | None:
        """Return which queues or topics are read, where that is a list or a wildcard of queues."""
        return divide(self.destination, self.number("maxQueues"))

    def subject(self, one: str = "") -> Subject:
        """Return whose lease on what these options name; ``one``: of several that they name, this one."""
        subject = self._subject()
        return replace(subject, destination=one, several=True) if one else subject

    def _subject(self) -> Subject:
        until = self.text("until")
        return Subject(
            self.destination,
            self.text("subscription"),
            self.text("selector"),
            self.text("demand") == "true",
            0 if not until or self.ends() is not None else milliseconds(until, "until"),
        )

    def ends(self) -> dict[str, int] | None:
        """Return the positions at which the query ends, by broker; None where it ends at a time, or never."""
        return parse_end(self.text("until"), source_name(self.destination, self.text("subscription")))

    def reach(self) -> Reach:
        """Return where brokers are looked for."""
        return Reach(self.places, self.discovers, self.tls, self.seconds("failoverTimeout"))

    def query(self) -> Query:
        """Return what a driver needs of these options."""
        return Query(
            self.subject(),
            self.reach(),
            self.text("startingPosition"),
            self.number("pollWait"),
            self.number("arrivalWait"),
            self.number("minMessagesPerTrigger"),
            self.number("maxTriggerDelay"),
            self.number("maxOctetsPerTrigger"),
            self.ends(),
            self.scope(),
        )


def read(given: Mapping[str, str], where: str) -> Options:
    """Return the options of a source or a sink. ``where``: READ, STREAM or WRITE. Raises InvalidOption, InvalidURI."""
    values: dict[str, str] = {}
    tls: dict[str, str] = {}
    for written, value in given.items():
        name = str(written).lower()
        text = str(value).strip()
        if name.startswith(TLS_PREFIX):
            tls[str(written)[len(TLS_PREFIX) :]] = text
        elif name not in OF_SPARK:
            values[name] = _checked(str(written), text, where)
    destination = _destination(values)
    if where == WRITE and _is_several(destination):
        raise InvalidOption(
            f"{destination!r} is a wildcard or a list, and a row is written to one place",
            remedy="leave the option out, and say in the column destination where each row goes",
        )
    _combinations(values, where, destination)
    places = tuple(_with_options(group, tls) for group in _places(values.get("url", "")))
    return Options(places, destination, values.get("login", ""), values.get("passcode", ""), values, tls)


def split_destination(text: str) -> tuple[str, str]:
    """Return the option and the name that ``/queue/NAME`` or ``/topic/NAME`` stand for. Raises InvalidOption."""
    kind, _, name = text.strip("/").partition("/")
    if kind not in ("queue", "topic") or not name:
        raise InvalidOption(f"{text!r} is no destination", remedy="write /queue/NAME or /topic/NAME")
    return kind, name


def _checked(written: str, text: str, where: str) -> str:
    setting = BY_NAME.get(written.lower())
    if setting is None:
        ours = OF_KAFKA.get(written.lower())
        if ours is not None:
            raise InvalidOption(f"the option {written!r} is one of Kafka's source or sink", remedy=ours)
        if written.lower().startswith(KAFKA_PREFIX):
            raise InvalidOption(
                f"the option {written!r} is for Kafka's client, which is not used here",
                remedy="leave it out; docs/spark.md has a table of Kafka's options and ours",
            )
        near = difflib.get_close_matches(written.lower(), list(BY_NAME), n=1, cutoff=0.7)
        hint = f"did you mean {BY_NAME[near[0]].name!r}?" if near else "docs/spark.md lists them"
        raise InvalidOption(f"the format entrepot has no option {written!r}", remedy=hint)
    if where not in setting.where:
        raise InvalidOption(
            f"the option {setting.name!r} has no meaning for {where}", remedy="it is for " + ", ".join(setting.where)
        )
    if setting.words:
        if text.lower() not in setting.words:
            raise InvalidOption(f"{setting.name} is {text!r}", remedy="it can be " + ", ".join(setting.words))
        return text.lower()
    if setting.low is not None and text:
        try:
            whole(text, setting.low, I64_MAX if setting.high is None else setting.high)
        except ValueError:
            raise InvalidOption(
                f"{setting.name} is {text[:40]!r}", remedy=f"it is a whole number from {setting.low} to {setting.high}"
            ) from None
    return text


def _destination(values: Mapping[str, str]) -> str:
    queue, topic = values.get("queue", ""), values.get("topic", "")
    if queue and topic:
        raise InvalidOption("both a queue and a topic are named", remedy="leave one of the options out")
    for kind, name, other in (("queue", queue, "topic"), ("topic", topic, "queue")):
        prefix = f"/{kind}/"
        if name.startswith(f"/{other}/"):
            raise InvalidOption(f"the option {kind!r} names a {other}: {name}", remedy=f"use the option {other!r}")
        if name in (prefix, prefix[:-1]):
            raise InvalidOption(f"the option {kind!r} holds no name: {name!r}", remedy="write the name behind it")
        if name:
            words = [word.strip() for word in name.split(",")]
            if any(word.startswith(f"/{other}/") for word in words):
                raise InvalidOption(f"the option {kind!r} names a {other}: {name}", remedy="use a stream for each kind")
            return prefix + ",".join(word.removeprefix(prefix) for word in words)
    return ""


def _is_several(destination: str) -> bool:
    """Return whether these are more than one place: a list, or a wildcard."""
    return "," in destination or is_pattern(destination.rpartition("/")[2], MIXED)


def _whole(values: Mapping[str, str], destination: str) -> None:
    """Refuse a list that cannot be read, and positions where they would be those of several. Raises InvalidOption."""
    most = values.get("maxqueues") or BY_NAME["maxqueues"].default
    if divide(destination, int(most)) is None:
        return
    for name in ("startingPosition", "until"):
        if values.get(name.lower(), "").startswith("{"):
            raise InvalidOption(
                f"{name} has positions by broker, and this query reads several queues of each",
                remedy="use a time, or a stream for each queue",
            )


def _combinations(values: Mapping[str, str], where: str, destination: str) -> None:
    """Refuse what cannot be meant together. Raises InvalidOption."""
    if where == WRITE:
        _written(values)
    else:
        _read_from(values, where, destination)
    if values.get("discover") == "true" and destination.startswith("/topic/"):
        raise InvalidOption(
            "the brokers of a topic are not discovered: bridges bring its messages to every broker with a "
            "subscription, and each would be read several times",
            remedy="name in url the brokers whose subscriptions are to be read, and leave the option out",
        )
    for name, most in (("subscription", 200), ("sink", 200), ("counter", 200)):
        text = values.get(name, "")
        if len(text) > most or any(not character.isprintable() for character in text):
            raise InvalidOption(f"{name} is {text[:40]!r}...", remedy=f"at most {most} printable characters")


def _read_from(values: Mapping[str, str], where: str, destination: str) -> None:
    subscription, held = values.get("subscription"), values.get("range")
    least, most = values.get("minmessagespertrigger"), values.get("maxmessagespertrigger")
    if least and int(least) > int(most or BY_NAME["maxmessagespertrigger"].default):
        raise InvalidOption(
            f"a batch cannot have at least {least} messages and no more than maxMessagesPerTrigger",
            remedy="make minMessagesPerTrigger smaller, or maxMessagesPerTrigger larger",
        )
    if values.get("maxtriggerdelay") and int(least or "0") == 0:
        raise InvalidOption(
            "maxTriggerDelay says how long a batch waits for minMessagesPerTrigger, and here it waits for none",
            remedy='add .option("minMessagesPerTrigger", ...), or leave maxTriggerDelay out; the time between two '
            "batches is that of .trigger(...)",
        )
    if "until" in values:
        _ends(values["until"], values.get("startingposition", ""), source_name(destination, subscription or ""))
        if where == READ and not subscription and values["until"].startswith("{"):
            raise InvalidOption(
                "positions are of a subscription, and a look at a queue has none",
                remedy="use until with a time, or claim(subscription=..., until=...)",
            )
    if not destination:
        raise InvalidOption("nothing to read from", remedy='add .option("queue", ...) or .option("topic", ...)')
    _whole(values, destination)
    if where == STREAM and not subscription:
        raise InvalidOption(
            "a stream needs a subscription: the name under which the brokers keep what this query holds",
            remedy='add .option("subscription", "a-name-of-its-own"); two queries must not share it',
        )
    if where == READ and bool(subscription) != bool(held):
        raise InvalidOption(
            "a batch read of a subscription needs the range that it holds, or it would differ from action to action",
            remedy="held = entrepot.pipeline.claim(...); held.read(spark); held.settle() - or leave the subscription "
            "out to browse",
        )
    if where == READ and destination.startswith("/topic/") and not held:
        raise InvalidOption(
            "a topic keeps nothing that could be browsed", remedy="read it as a stream with a subscription, or claim it"
        )


def _ends(until: str, starting: str, source: str) -> None:
    """Refuse an end that cannot be read, and a query that ends before it begins. Raises InvalidOption."""
    ends = parse_end(until, source)
    if ends is None:
        _bounds(starting, milliseconds(until, "until"))
    elif starting.startswith("{"):
        for broker, begin in parse_start(starting, source)[0].shards.items():
            if begin > ends.get(broker, begin):
                raise InvalidOption(
                    f"startingPosition of {broker} is {begin}, behind until, {ends[broker]}: no message lies between",
                    remedy="make until later, or startingPosition earlier",
                )


def _bounds(starting: str, until: int) -> None:
    """Refuse a query that ends before it begins. ``until`` in ms since 1970. Raises InvalidOption."""
    try:
        since = milliseconds(starting, "startingPosition")
    except InvalidOption:
        return  # a word or positions; what is none of these, the driver refuses
    if since > until:
        raise InvalidOption(
            f"startingPosition {starting[:60]!r} is later than until: no message lies between the two",
            remedy="make until later, or startingPosition earlier",
        )


def _written(values: Mapping[str, str]) -> None:
    if values.get("commit.atomic") == "true" and values.get("commit.mode", STAGED) != STAGED:
        raise InvalidOption(
            "only staged batches are seen at one moment", remedy="leave commit.mode or commit.atomic out"
        )
    if values.get("batch") and not values.get("sink"):
        raise InvalidOption("a batch number counts within a sink", remedy='add .option("sink", "a-name")')
    if values.get("counter") and not values.get("batch"):
        raise InvalidOption("a counter counts batches", remedy='add .option("batch", ...), or leave the counter out')


def _places(url: str) -> list[tuple[Endpoint, ...]]:
    if not url:
        raise InvalidOption("no broker is named", remedy='add .option("url", "stomp://host:61613")')
    if "://" not in url and ":(" not in url:
        url = ",".join(f"stomp://{part.strip()}" for part in url.split(",") if part.strip())  # what people type
    groups: list[tuple[Endpoint, ...]] = []
    for member in parse_list(url):
        if isinstance(member, Composite) and member.scheme not in ("failover", "masterslave", "static"):
            raise InvalidURI(f"{member.scheme}: names no brokers to read from", remedy="use failover:(...), or commas")
        groups.append(tuple(member.endpoints()))
    if not groups or not all(groups):
        raise InvalidURI("the url names no place", remedy="write something like stomp://host:61613")
    for group in groups:
        for place in group:
            words = place.scheme.split("+")
            if any(word not in ("stomp", "tcp", "auto", "ssl", "nio", "unix") for word in words):
                raise InvalidURI(f"{place.scheme}:// is not spoken here", remedy="use stomp:// or stomp+ssl://")
    return groups


def _with_options(group: tuple[Endpoint, ...], tls: Mapping[str, str]) -> tuple[Endpoint, ...]:
    if not tls:
        return group
    return tuple(place.with_options({**tls, **place.options}) for place in group)
