"""Columns of what is read, and of what may be written; as data, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from entrepot.base.errors import InvalidOption


class Column(msgspec.Struct, frozen=True):
    """One column: its name, its type as Spark writes it, and what it holds."""

    name: str
    type: str
    meaning: str


COLUMNS: Final[tuple[Column, ...]] = (
    Column("message_id", "string", "identity of the message, the same on every broker that it passed"),
    Column("destination", "string", "where it was read from, `/queue/...` or `/topic/...`"),
    Column("body", "binary", "the body as octets"),
    Column("text", "string", "the body as text; null for a message of octets"),
    Column("properties", "map<string,string>", "properties and further headers"),
    Column("priority", "int", "0 to 9"),
    Column("timestamp", "timestamp", "when it was sent; null when nobody said"),
    Column("expiration", "timestamp", "when it expires; null for never"),
    Column("correlation_id", "string", ""),
    Column("reply_to", "string", ""),
    Column("type", "string", "JMSType"),
    Column("group_id", "string", "JMSXGroupID"),
    Column("group_sequence", "int", "JMSXGroupSeq"),
    Column("persistent", "boolean", ""),
    Column("redelivered", "boolean", "whether somebody may have seen it before"),
    Column("delivery_count", "int", "how often it was handed out before this reader took it, plus one"),
    Column("broker", "string", "identity of the broker that held it"),
    Column("position", "bigint", "its number in what this subscription took from that broker; null when browsing"),
    Column("path", "array<string>", "brokers that it passed on its way through the network"),
)
BY_NAME: Final[dict[str, Column]] = {column.name: column for column in COLUMNS}

# What a row that is written may have; the type is that of the reading side, or one that converts to it.
WRITTEN: Final[tuple[Column, ...]] = (
    Column("body", "binary or string", "the body; a string makes a text message"),
    Column("text", "string", "the body of a text message, where `body` is null or not there"),
    Column("destination", "string", "`/queue/...` or `/topic/...`; counts where no option names one"),
    Column("properties", "map<string,string>", "properties"),
    Column("priority", "int", "0 to 9, default 4"),
    Column("expiration", "timestamp", "when it expires"),
    Column("correlation_id", "string", ""),
    Column("reply_to", "string", ""),
    Column("type", "string", "JMSType"),
    Column("group_id", "string", "JMSXGroupID"),
    Column("group_sequence", "int", "JMSXGroupSeq"),
    Column("persistent", "boolean", "default true"),
    Column("duplicate_id", "string", "identity by which the brokers drop a repetition (commit.mode duplicate-id)"),
    Column("delay_ms", "bigint", "hand it out so much later"),
)
WRITABLE: Final[dict[str, Column]] = {column.name: column for column in WRITTEN}
# Columns of a source that say nothing to a sink; let pass so that what was read can be written back as it is.
PASSED_OVER: Final = ("message_id", "timestamp", "redelivered", "delivery_count", "broker", "position", "path")

TYPED: Final = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
"""Types that a property can be read as, where the column `properties` is a struct."""

_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "properties": ("map<string,string>",),
    "priority": _NUMBERS,
    "group_sequence": _NUMBERS,
    "delay_ms": _NUMBERS,
    "expiration": ("timestamp",),
    "persistent": ("boolean",),
}


def chosen(text: str) -> list[Column]:
    """Return the columns that the option ``columns`` names, all for "". Raises InvalidOption."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in BY_NAME:
            raise InvalidOption(f"messages have no column {name!r}", remedy="they have " + ", ".join(BY_NAME))
        if names.count(name) > 1:
            raise InvalidOption(f"the option columns names {name!r} twice", remedy="name it once")
    return [BY_NAME[name] for name in names] or list(COLUMNS)


def ddl(columns: Iterable[Column]) -> str:
    """Return columns as Spark writes a schema."""
    return ", ".join(f"{column.name} {column.type}" for column in columns)


DDL: Final = ddl(COLUMNS)


def check_chosen(fields: list[tuple[str, str]], text: str) -> None:
    """Raise InvalidOption for a schema that is not what the option ``columns`` names."""
    if text and [name for name, _ in fields] != [column.name for column in chosen(text)]:
        raise InvalidOption("the schema and the option columns differ", remedy="leave one of the two out")


def check_read(fields: list[tuple[str, str]]) -> None:
    """Check a schema that a reader was given: some of the columns, each with its type. Raises InvalidOption."""
    for name, type_ in fields:
        column = BY_NAME.get(name)
        if column is None:
            raise InvalidOption(f"messages have no column {name!r}", remedy="they have " + ", ".join(BY_NAME))
        if column.type != type_:
            raise InvalidOption(f"the column {name} is of type {column.type}, not {type_}", remedy="cast it afterwards")


def check_typed(fields: list[tuple[str, str]]) -> None:
    """Check what a reader's column `properties` names, where it is a struct: property -> type. Raises InvalidOption."""
    for name, type_ in fields:
        if type_ not in TYPED:
            raise InvalidOption(
                f"the property {name} cannot be read as {type_}", remedy=f"use one of {', '.join(TYPED)}"
            )
    names = [name.lower() for name, _ in fields]  # Spark does not tell them apart
    if len(set(names)) < len(names) or not names:
        raise InvalidOption("the struct of properties names one twice, or none", remedy="name each that you want, once")


def check_written(fields: list[tuple[str, str]], properties: list[str], destination: str) -> None:
    """Check the columns of what is to be written. Raises InvalidOption."""
    names = [name for name, _ in fields]
    for name in properties:
        if name not in names:
            raise InvalidOption(f"the option properties names {name!r}, and there is no such column")
    for name, type_ in fields:
        if name in properties:
            if type_.startswith(("array", "struct", "map", "binary")):
                raise InvalidOption(f"the column {name} of type {type_} cannot be a property", remedy="make it text")
        elif name in WRITABLE:
            if type_ not in _TYPES.get(name, ("string",)):
                wanted = " or ".join(_TYPES.get(name, ("string",)))
                raise InvalidOption(f"the column {name} is of type {type_}, not {wanted}", remedy="cast it first")
        elif name not in PASSED_OVER:
            raise InvalidOption(
                f"nothing is known of a column {name!r}",
                remedy=f'drop it, or make it a property with .option("properties", "{name}")',
            )
    if "body" not in names and "text" not in names:
        raise InvalidOption("there is no column for the body", remedy='name it "body", or "text"')
    if not destination and "destination" not in names:
        raise InvalidOption(
            "nothing says where the rows go", remedy='add .option("queue", ...), or a column "destination"'
        )
