"""What `entrepot pipeline land CONFIG.toml` obeys: the flows of one process, each a source, a format and a place.

Read strictly: a word that is not known is refused with the nearest one that is, before anything is started. Needs no
PySpark.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from entrepot.base.errors import EntrepotError, InvalidOption
from entrepot.base.places import host_and_port
from entrepot.cluster.carrying.draw_options import draws_of, is_draw
from entrepot.pipeline import options as option_table

FORMATS: Final = ("parquet", "delta", "iceberg", "json", "csv")
JSON: Final = "json"
AVRO: Final = "avro"
PARSED: Final = ("", JSON, AVRO)
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOMENT: Final = re.compile(r"[0-9]+ (millisecond|second|minute|hour)s?")
LOCK: Final = ".land.lock"
FLOWS_MAX: Final = 1_000
# Six octets of Avro may say that a text of 1 GiB follows: Java makes room for it first, and a Java without memory ends.
LIMITS: Final = (
    "-Dorg.apache.avro.limits.string.maxLength=67108864 -Dorg.apache.avro.limits.bytes.maxLength=67108864 "
    "-Dorg.apache.avro.limits.collectionItems.maxLength=4194304"
)
SOMEWHERE: Final = "stomp://127.0.0.1:61613"  # in place of a broker that is not started yet
VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Flow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query. ``source``: options of the format entrepot (docs/spark.md); ``path``: a directory, or a table's name.

    ``parse`` and ``schema``: the body is read as JSON, with columns as Spark writes them, or as Avro, with a record as
    Avro writes it; what does not parse has ``parsed=false``.
    ``writer``: further options of the format that is written.
    """

    name: str
    path: str
    source: dict[str, str | int | bool] = {}
    format: str = "parquet"
    parse: str = ""
    schema: str = ""
    partition_by: list[str] = []
    every: str = "10 seconds"
    writer: dict[str, str | int | bool] = {}

    @property
    def options(self) -> dict[str, str]:
        """Options of the source as Spark takes them; the subscription is called like the flow where none is named."""
        return {"subscription": self.name, **_words(self.source)}


class Supervision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How flows are started again. Seconds. ``calm``: who ran so long has had its failures forgotten."""

    first: float = 1.0
    longest: float = 60.0
    calm: float = 300.0


class Beside(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker of ours in this process, which draws from the one that has the messages (docs/spark-on-activemq.md).

    ``connect``: from where, ``activemq:(...)`` and ``artemis:(...)``; ``data``: the directory of what it has drawn;
    ``listen``: ``host:port`` where tasks reach it, port 0 for a free one; ``name``: what it calls itself there.
    """

    connect: list[str]
    data: str
    listen: str = "127.0.0.1:0"
    name: str = "land"

    def where(self) -> str:
        """Return from where it draws, without secrets."""
        return ", ".join(place.masked() for entry in draws_of(tuple(self.connect)) for place in entry.places)


class LineageTo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom OpenLineage tells. ``url``: of the catalog, or as its own settings say; ``every``: s between figures."""

    namespace: str = "entrepot"
    url: str = ""
    every: float = 60.0


class Landing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``checkpoints``: directory of Spark's; ``metrics``: ``host:port`` of /metrics and /health, or ""."""

    checkpoints: str
    land: list[Flow]
    name: str = "entrepot land"
    master: str = ""
    memory: str = "2g"
    metrics: str = ""
    source: dict[str, str | int | bool] = {}  # of all flows; those of a flow win
    spark: dict[str, str | int | bool] = {}  # settings of the session
    restart: Supervision = Supervision()
    lineage: LineageTo | None = None
    beside: Beside | None = None

    def at(self, url: str) -> Landing:
        """Return the same with the broker beside at ``url``: the source of each flow that names no other one."""
        flows = [
            flow if "url" in flow.source else replace(flow, source={"url": url, "demand": True, **flow.source})
            for flow in self.land
        ]
        return replace(self, land=flows)


def load(path: Path) -> Landing:
    """Return what ``path`` says. Raises InvalidOption, which names the place in the file."""
    try:
        text = path.read_text()
    except OSError as error:
        raise InvalidOption(f"{path} cannot be read: {error.strerror}", remedy="name a TOML file") from None
    return read(text, str(path))


def read(text: str, name: str = "the file") -> Landing:
    """Return what ``text`` says; ``${NAME}`` in a value is that variable of the environment. Raises InvalidOption."""
    try:
        given = _filled(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidOption(f"{name} is no TOML: {error}", remedy="docs/landing.md has one to begin with") from None
    try:
        landing = msgspec.convert(given, Landing)
    except msgspec.ValidationError as error:
        raise InvalidOption(
            f"{name}: {error}", remedy=_near(str(error)) or "docs/landing.md lists what it may say"
        ) from None
    flows = [replace(flow, source={**landing.source, **flow.source}) for flow in landing.land]
    landing = replace(landing, land=flows)
    if landing.beside is not None:
        _check_beside(landing.beside, name)
    _check(landing if landing.beside is None else landing.at(SOMEWHERE), name)
    return landing


def _check_beside(beside: Beside, name: str) -> None:
    other = [text for text in beside.connect if not is_draw(text)]
    if other or not beside.connect:
        raise InvalidOption(
            f"{name}: beside draws from {other[0].partition(':')[0] if other else 'nothing'}",
            remedy='connect = ["activemq:(tcp://host:61616)"], or artemis:(...); a bridge is one of `entrepot run`',
        )
    try:
        draws_of(tuple(beside.connect))
    except EntrepotError as error:
        raise InvalidOption(f"{name}: beside: {error.message}", remedy=error.remedy) from None
    if not beside.data.strip():
        raise InvalidOption(f"{name}: beside keeps nothing", remedy="data names a directory: what came is nowhere else")
    host_and_port(beside.listen, "127.0.0.1:0", name="listen")


def _check(landing: Landing, name: str) -> None:
    if not landing.land:
        raise InvalidOption(f"{name} lands nothing", remedy="write at least one [[land]]")
    if len(landing.land) > FLOWS_MAX:
        raise InvalidOption(f"{name} has {len(landing.land)} flows", remedy=f"at most {FLOWS_MAX} in one process")
    restart = landing.restart
    if not 0 < restart.first <= restart.longest or restart.calm < 0:
        raise InvalidOption(f"{name}: restart cannot be obeyed", remedy="first is above 0 and at most longest, in s")
    if landing.metrics:
        place(landing.metrics)
    if landing.lineage is not None and not (landing.lineage.namespace and landing.lineage.every > 0):
        raise InvalidOption(f"{name}: lineage cannot be told so", remedy="a namespace, and every above 0, in s")
    for one in ("name", "subscription"):
        seen: dict[tuple[str, ...], str] = {}
        for flow in landing.land:
            given = flow.options
            key = (
                (flow.name,) if one == "name" else tuple(given.get(word, "") for word in ("url", "queue", "topic", one))
            )
            if key in seen:
                raise InvalidOption(
                    f"{name}: the flows {seen[key]!r} and {flow.name!r} have the same {one}",
                    remedy="two queries of one subscription replace each other: give each its own",
                )
            seen[key] = flow.name
    for flow in landing.land:
        _check_flow(flow, f"{name}, flow {flow.name!r}")


def _check_flow(flow: Flow, where: str) -> None:
    if not NAME.fullmatch(flow.name):
        raise InvalidOption(f"{where}: that is no name", remedy="letters, digits, dots, - and _, at most 100")
    if flow.format not in FORMATS:
        raise InvalidOption(f"{where}: the format {flow.format!r} is not known", remedy="one of " + ", ".join(FORMATS))
    if flow.parse not in PARSED:
        remedy = 'parse = "json" or "avro", or leave it out'
        raise InvalidOption(f"{where}: nothing parses {flow.parse!r}", remedy=remedy)
    if bool(flow.parse) != bool(flow.schema):
        raise InvalidOption(f"{where}: parse and schema go together", remedy='schema = "order int, customer string"')
    _check_parsed(flow, where)
    if not MOMENT.fullmatch(flow.every):
        raise InvalidOption(f"{where}: every is {flow.every!r}", remedy='write "10 seconds"')
    try:
        option_table.read(flow.options, option_table.STREAM)
    except InvalidOption as error:
        raise InvalidOption(f"{where}: {error.message}", remedy=error.remedy) from None


def _check_parsed(flow: Flow, where: str) -> None:
    chosen = [name.strip() for name in flow.options.get("columns", "").split(",") if name.strip()]
    wanted = "text" if flow.format == "csv" and flow.parse == JSON else "body"  # CSV holds no octets
    if flow.parse and chosen and wanted not in chosen:
        remedy = f"add {wanted} to its columns: what does not parse is kept there"
        raise InvalidOption(f"{where}: nothing is read that could be parsed", remedy=remedy)
    if flow.parse == AVRO and not _is_record(flow.schema):
        remedy = """schema = '{"type": "record", "name": "Order", "fields": [{"name": "order", "type": "int"}]}'"""
        raise InvalidOption(f"{where}: the schema is no record of Avro", remedy=remedy)


def _is_record(schema: str) -> bool:
    try:
        found = json.loads(schema)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("type") == "record" and bool(found.get("fields"))


@contextmanager
def alone(landing: Landing) -> Iterator[None]:
    """Hold the checkpoints while the block runs, where they are on a disk. Raises InvalidOption for a second copy."""
    if "://" in landing.checkpoints:
        yield  # nothing can be locked there: the newer process takes the subscriptions over
        return
    folder = Path(landing.checkpoints)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidOption(
                f"another process lands with the checkpoints {landing.checkpoints}",
                remedy="stop it first, or give this one checkpoints and subscriptions of its own",
            ) from None
        yield


def place(text: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidOption."""
    return host_and_port(text, "127.0.0.1:9464", name="metrics")


def _words(given: dict[str, str | int | bool]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def settings(landing: Landing) -> dict[str, str]:
    """Return the session's settings as `pipeline.session` takes them."""
    found = {name.replace(".", "__"): value for name, value in _words(landing.spark).items()}
    if any(flow.parse == AVRO for flow in landing.land):
        for name in ("spark__driver__extraJavaOptions", "spark__executor__extraJavaOptions"):
            found[name] = f"{LIMITS} {found.get(name, '')}".strip()  # what the file says comes last, and counts
    return found


def written(flow: Flow) -> dict[str, str]:
    """Return the options of the format that is written."""
    return _words(flow.writer)


def _filled(given: Any) -> Any:
    """Return ``given`` with the variables of the environment put in: passwords do not belong into files."""
    if isinstance(given, dict):
        return {key: _filled(value) for key, value in given.items()}
    if isinstance(given, list):
        return [_filled(value) for value in given]
    return VARIABLE.sub(_variable, given) if isinstance(given, str) else given


def _variable(found: re.Match[str]) -> str:
    value = os.environ.get(found.group(1))
    if value is None:
        raise InvalidOption(f"the environment has no {found.group(1)}, which the file names", remedy="export it first")
    return value


def _near(said: str) -> str:
    """Return a remedy for a word that is not known."""
    found = re.search(r"unknown field `([^`]*)`", said)
    if found is None:
        return ""
    known = {field for one in (Landing, Flow, Supervision, LineageTo, Beside) for field in one.__struct_fields__}
    near = difflib.get_close_matches(found.group(1), sorted(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""
