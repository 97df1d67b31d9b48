"""The form of an archive: its columns, its folders, what marks it, and what of it is foreign. Data, without Spark.

    ARCHIVE/
    ├── destination=%2Fqueue%2Forders/date=2026-11-21/hour=13/<query>-<batch>-<n>.parquet
    └── _entrepot/                      what the jobs keep; readers of Parquet pass over it
        ├── archive.json                the mark: format, version, identity
        ├── checkpoints/<name>/         Spark's, one for each query
        ├── batches/<query>/<n>.json    which files a batch consists of, decided before they are moved to their places
        ├── compactions/<id>.json       which files take the place of which
        ├── replays/<name>/             the frozen selection of a replay, and how far it came
        └── staging/                    files that nobody has decided about

Every file carries the version in its own schema (metadata of the first column), so that it is known wherever it is
copied to. Version 1. A later version that adds columns reads files of the earlier one; what is newer is refused.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.schema import COLUMNS, Column

FORMAT: Final = "entrepot-archive"
VERSION: Final = 1
VERSION_KEY: Final = "entrepot.archive"  # in the metadata of the first column
KEPT: Final = "_entrepot"
MARK: Final = f"{KEPT}/archive.json"
BATCHES: Final = f"{KEPT}/batches"
CHECKPOINTS: Final = f"{KEPT}/checkpoints"
COMPACTIONS: Final = f"{KEPT}/compactions"
REPLAYS: Final = f"{KEPT}/replays"
STAGING: Final = f"{KEPT}/staging"

PARTITIONS: Final[tuple[Column, ...]] = (
    Column("destination", "string", "where it was read from, `/queue/...` or `/topic/...`"),
    Column("date", "date", "day of `time`, UTC"),
    Column("hour", "int", "hour of `time`, UTC"),
)
OWN: Final[tuple[Column, ...]] = (
    Column(
        "time", "timestamp", "when it was sent; when it was archived, where nobody said or said a day in the future"
    ),
    Column("archived_at", "timestamp", "when its batch was archived"),
    Column(
        "subscription",
        "string",
        "who took it from the brokers; (`destination`, `subscription`, `broker`, `position`) is unique",
    ),
)
PARTITION_NAMES: Final = tuple(column.name for column in PARTITIONS)
STORED: Final[tuple[Column, ...]] = (*(column for column in COLUMNS if column.name not in PARTITION_NAMES), *OWN)
"""What a file holds, in its order."""
ARCHIVED: Final[tuple[Column, ...]] = (*STORED, *PARTITIONS)

# As Spark writes types into the schema that a file carries.
_WRITTEN: Final[dict[str, Any]] = {
    "string": "string",
    "binary": "binary",
    "int": "integer",
    "bigint": "long",
    "boolean": "boolean",
    "timestamp": "timestamp",
    "map<string,string>": {"type": "map", "keyType": "string", "valueType": "string"},
    "array<string>": {"type": "array", "elementType": "string"},
}


class Mark(msgspec.Struct, frozen=True):
    """The content of `MARK`."""

    format: str
    version: int
    id: str


class Kept(msgspec.Struct, frozen=True):
    """One file: its path below the archive, its rows and octets."""

    path: str
    rows: int
    octets: int


def read_mark(text: str, where: str) -> Mark:
    """Return the mark of an archive. Raises InvalidOption for what is none, or newer."""
    try:
        mark = msgspec.json.decode(text, type=Mark)
    except msgspec.DecodeError as error:
        raise foreign(where, f"its {MARK} cannot be read: {error}") from None
    if mark.format != FORMAT:
        raise foreign(where, f"its {MARK} says {mark.format!r}")
    if mark.version > VERSION:
        raise newer(where, mark.version)
    return mark


def check_schema(text: str | None, file: str) -> None:
    """Check the schema that a file carries (Spark's JSON). Raises InvalidOption for a file that is none of ours."""
    if not text:
        raise foreign(file, "it was not written by an archive job: it carries no schema of Spark")
    fields: list[dict[str, Any]] = json.loads(text).get("fields", [])
    version = fields[0].get("metadata", {}).get(VERSION_KEY) if fields else None
    if not isinstance(version, int):
        names = ", ".join(str(field.get("name")) for field in fields[:5])
        raise foreign(file, f"its schema has no version of an archive (its columns: {names or 'none'})")
    if version > VERSION:
        raise newer(file, version)
    found = {str(field["name"]): _plain(field["type"]) for field in fields}
    for column in STORED:
        if column.name not in found:
            raise foreign(file, f"the column {column.name!r} is missing")
        if found[column.name] != _WRITTEN[column.type]:
            raise foreign(file, f"the column {column.name!r} is {found[column.name]!r}, not {column.type}")
    unknown = [name for name in found if name not in {column.name for column in STORED}]
    if unknown:
        raise foreign(file, f"nothing is known of the column {unknown[0]!r}")


def foreign(where: str, why: str) -> InvalidOption:
    """Return what to raise for files that are not of an archive."""
    return InvalidOption(
        f"{where} is not of an entrepot archive: {why}",
        remedy="name a directory that `entrepot pipeline archive` made, or an empty one; move foreign files elsewhere",
    )


def newer(where: str, version: int) -> InvalidOption:
    """Return what to raise for what a later entrepot wrote."""
    return InvalidOption(
        f"{where} is of version {version} of the archive; this entrepot reads up to version {VERSION}",
        remedy="use the entrepot that wrote it, or a later one",
    )


def partition_of(path: str) -> str:
    """Return the folders of a file below the archive, as they are written: ``destination=.../date=.../hour=...``."""
    return path.rpartition("/")[0]


def _plain(type_: Any) -> Any:
    """Return a type without what says whether it may be null."""
    if isinstance(type_, dict):
        return {
            key: _plain(value) for key, value in type_.items() if not key.endswith(("ContainsNull", "containsNull"))
        }
    return type_
