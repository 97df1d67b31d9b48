"""Write the packets of CORE from the schema: ``python tools/core_packets.py`` after every change of the table.

The result is checked in, because mypyc needs source. ``tools/generated_pages.py --check`` compares it, and the page
docs/formats/core.md, with the schema.
"""

from __future__ import annotations

import sys

from source_tree import ROOT, SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.protocols.artemis.schema import (
    ABOUT_KINDS,
    FORMS_MAX,
    PACKETS,
    VERSION_MAX,
    VERSION_MIN,
    Field,
    Kind,
    Packet,
)

TARGET = ROOT / "src/entrepot/protocols/artemis/packets.py"
PAGE = ROOT / "docs/formats/core.md"

HEADER = '''\
"""The packets of CORE as classes, written by ``tools/core_packets.py`` from `schema`: change that, not this.

Every class takes its fields as keywords; a field that the version of a channel has no room for keeps its default.
``channel`` is where a packet came from or goes to. ``form`` is the id under which it came; 0: it is written in the
newest form that the channel has. ``octets``: the length of the frame in which it came.

Messages are kept closed: see `headers`, `properties` and `bodies`. [C]
"""
# ruff: noqa: D102, E501
# fmt: off

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.protocols.artemis.primitives import Connector, PacketReader, PacketWriter, Xid


class Packet:
    """One packet."""

    channel: i64 = 0
    form: i64 = 0
    octets: i64 = 0

    def number(self, version: i64) -> i64:
        """Return the id under which it is written on a channel of ``version``."""
        raise NotImplementedError

    def fresh(self) -> Packet:
        """Return one with nothing in it."""
        raise NotImplementedError

    def confirmed(self) -> bool:
        """Return whether both sides count it, and keep it until the other one confirms it (artemis.md 5.2.6)."""
        return True

    def read(self, source: PacketReader) -> None:
        """Fill it from a frame. Raises MalformedFrame."""

    def write(self, target: PacketWriter) -> None:
        """Write what follows the head of its frame. Raises Inexpressible."""
'''

ANNOTATIONS = {
    Kind.BOOLEAN: "bool",
    Kind.BYTE: "i64",
    Kind.INT: "i64",
    Kind.LONG: "i64",
    Kind.OPERATION: "i64",
    Kind.PAGE: "i64",
    Kind.SIMPLE: "str",
    Kind.TEXT: "str",
    Kind.OCTETS: "bytes",
    Kind.MESSAGE: "bytes",
    Kind.HEADERS: "bytes",
    Kind.PAGED: "bytes",
    Kind.CHUNK: "bytes",
    Kind.REST: "bytes",
    Kind.NULLABLE_BOOLEAN: "bool | None",
    Kind.NULLABLE_INT: "int | None",
    Kind.NULLABLE_LONG: "int | None",
    Kind.NULLABLE_SIMPLE: "str | None",
    Kind.NULLABLE_TEXT: "str | None",
    Kind.SIMPLES: "list[str]",
    Kind.ROUTINGS: "list[int]",
    Kind.LONGS: "list[int]",
    Kind.XID: "Xid",
    Kind.XIDS: "list[Xid]",
    Kind.CONNECTOR: "Connector",
    Kind.NULLABLE_CONNECTOR: "Connector | None",
}
DEFAULTS = {"bool": "False", "str": '""', "bytes": 'b""'}
NUMBERS = {"i64": "int", "bool": "bool", "list[int]": "list[int]"}
TAIL_OCTETS = {Kind.BOOLEAN: 1, Kind.BYTE: 1, Kind.INT: 4, Kind.LONG: 8}


def leaves_out(field: Field) -> bool:
    """Tell whether None means that the field, and what follows it, is not written at all."""
    return field.optional and not ANNOTATIONS[field.kind].endswith("None")


def annotation(field: Field) -> str:
    """Return the type of the attribute."""
    plain = ANNOTATIONS[field.kind]
    return f"{NUMBERS[plain]} | None" if leaves_out(field) else plain


def parameter(field: Field) -> str:
    """Return the field as a parameter of the constructor."""
    kind = annotation(field)
    if kind.endswith("None"):
        default = "None"
    elif kind == "i64":
        default = str(field.default)
    elif kind in DEFAULTS:
        default = DEFAULTS[kind]
    else:  # a value of its own for each packet
        return f"{field.name}: {kind} | None = None"
    return f"{field.name}: {kind} = {default}"


def assigned(field: Field) -> str:
    """Return what the constructor gives the attribute."""
    kind = annotation(field)
    empty = {"Xid": 'Xid(0, b"", b"")', "Connector": 'Connector("", "", [])'}.get(kind, "[]")
    if (kind.startswith("list") and not kind.endswith("None")) or kind in ("Xid", "Connector"):
        return f"self.{field.name}: {kind} = {empty} if {field.name} is None else {field.name}"
    return f"self.{field.name}: {kind} = {field.name}"


def forms_text(packet: Packet) -> str:
    """Return the ids, with the versions from which each may be written."""
    first, *newer = packet.forms
    return ", ".join(
        [str(first[0]), *(f"{number} from {since} on" if since else str(number) for number, since in newer)]
    )


def source_of(packet: Packet) -> str:
    """Return the class of one packet."""
    lines = [
        f"class {packet.name}(Packet):",
        f'    """{packet.doc} {packet.wire_name}, id {forms_text(packet)}."""',
        "",
    ]
    given = ["*", *(parameter(field) for field in packet.fields), "channel: i64 = 0", "form: i64 = 0"]
    lines += ["    def __init__(", "        self,", *[f"        {each}," for each in given], "    ) -> None:"]
    lines += [f"        {assigned(field)}" for field in packet.fields]
    lines += ["        self.channel = channel", "        self.form = form"]
    lines += numbering(packet)
    lines += ["", "    def fresh(self) -> Packet:", f"        return {packet.name}()"]
    if not packet.confirmed:
        answer = "self.form != 104 and self.require_response" if packet.name == "AddMetadata" else "False"
        lines += ["", "    def confirmed(self) -> bool:", f"        return {answer}"]
    if packet.fields:
        lines += reading(packet) + writing(packet)
    return "\n".join(lines)


def numbering(packet: Packet) -> list[str]:
    """Return `number`."""
    lines = ["", "    def number(self, version: i64) -> i64:"]
    first, *newer = packet.forms
    if newer:
        lines += ["        if self.form != 0:", "            return self.form"]
    for number, since in reversed(newer):
        if not since:
            return [*lines, f"        return {number}"]
        lines += [f"        if version >= {since}:", f"            return {number}"]
    return [*lines, f"        return {first[0]}"]


def condition(packet: Packet, field: Field, stream: str) -> str:
    """Return when the field travels, "" for always."""
    found = []
    if field.first > 1 or field.last < FORMS_MAX:
        numbers = [number for number, _ in packet.forms[field.first - 1 : field.last]]
        others = [number for number, _ in packet.forms if number not in numbers]
        if len(others) == 1:
            found.append(f"form != {others[0]}")
        elif len(numbers) == 1:
            found.append(f"form == {numbers[0]}")
        else:
            found.append(f"form in ({', '.join(str(number) for number in numbers)})")
    if field.since:
        found.append(f"{stream}.version >= {field.since}")
    if field.when:
        words = [f"self.{word}" if word.isidentifier() and word != "not" else word for word in field.when.split()]
        found.append(" ".join(words))
    if field.optional and stream == "source":
        found.append("source.at < source.end")
    return " and ".join(found)


def grouped(packet: Packet, stream: str, body: dict[str, list[str]]) -> list[str]:
    """Return the lines of all fields, neighbours with the same condition under one ``if``."""
    lines: list[str] = []
    before = ""
    for field in packet.fields:
        guard = condition(packet, field, stream)
        if guard and (guard != before or field.optional):
            lines.append(f"        if {guard}:")
        before = guard
        lines += [f"        {'    ' if guard else ''}{line}" for line in body[field.name]]
    return lines


def has_forms(packet: Packet) -> bool:
    """Tell whether a field depends on the form."""
    return any(field.first > 1 or field.last < FORMS_MAX for field in packet.fields)


def tail(packet: Packet, field: Field) -> list[str]:
    """Return the lines that count the octets behind a message."""
    behind = packet.fields[packet.fields.index(field) + 1 :]
    fixed = sum(TAIL_OCTETS[each.kind] for each in behind if not each.since)
    lines = [f"tail: i64 = {fixed}"]
    for each in behind:
        if each.since:
            lines += [f"if source.version >= {each.since}:", f"    tail += {TAIL_OCTETS[each.kind]}"]
    return lines


def reading(packet: Packet) -> list[str]:
    """Return ``read``."""
    body: dict[str, list[str]] = {}
    for field in packet.fields:
        argument = {Kind.MESSAGE: "tail", Kind.CHUNK: "self.size"}.get(field.kind, "")
        lines = tail(packet, field) if field.kind is Kind.MESSAGE else []
        call = f"source.{field.kind.value}({argument})"
        if leaves_out(field) and field.kind in (Kind.INT, Kind.LONG, Kind.BYTE):
            call = f"int({call})"
        taken = f"self.{field.name} = {call}"
        body[field.name] = [*lines, taken]
    head = ["", "    def read(self, source: PacketReader) -> None:"]
    if has_forms(packet):
        head.append("        form = self.form")
    return head + grouped(packet, "source", body)


def writing(packet: Packet) -> list[str]:
    """Return ``write``."""
    body: dict[str, list[str]] = {}
    for field in packet.fields:
        lines = [f"target.{field.kind.value}(self.{field.name})"]
        if leaves_out(field):
            name = f"{field.name}"
            lines = [
                f"{name} = self.{name}",
                f"if {name} is None:",
                "    return",
                f"target.{field.kind.value}({name})",
            ]
        body[field.name] = lines
    head = ["", "    def write(self, target: PacketWriter) -> None:"]
    if has_forms(packet):
        head.append("        form = self.number(target.version)")
    return head + grouped(packet, "target", body)


def registry() -> str:
    """Return the table of prototypes by id."""
    lines = ["PROTOTYPES: Final[dict[int, Packet]] = {"]
    lines += [f"    {number}: {packet.name}()," for packet in PACKETS for number, _ in packet.forms]
    lines += ["}", '"""One of each id: asked for a fresh packet, so that no name from the wire ever makes one."""']
    return "\n".join(lines)


def source() -> str:
    """Return the whole module."""
    return HEADER + "\n\n" + "\n\n\n".join([*(source_of(each) for each in PACKETS), registry()]) + "\n"


# -- the page ------------------------------------------------------------------------------------------------------

PAGE_HEAD = f"""\
<!-- Written by `python tools/core_packets.py` from src/entrepot/protocols/artemis/schema.py. -->
# CORE

The protocol of ActiveMQ Artemis, channel versions {VERSION_MIN} to {VERSION_MAX}. The client begins with the seven
octets `ARTEMIS`; then both sides write frames:

```text
length:4  id:1  channel:8  fields         length counts what follows it; numbers are big-endian
```

Channel 0 is the connection's, 1 opens sessions, 2 replicates, 3 and 4 are for clusters; a client chooses the numbers of
its sessions from 10 on. Rules around the packets: [behaviour/artemis.md 5.2](../behaviour/artemis.md).

## Kinds of fields

| Kind | Octets |
|---|---|
"""

PACKETS_HEAD = """
## Packets

A field in parentheses travels only as said there: *form n* is the n-th of the ids, *since* the version of the channel,
*may be missing* at the end of the packet.

| Packet | Ids | Fields | What it says |
|---|---|---|---|
"""


def page() -> str:
    """Return docs/formats/core.md."""
    kinds = "".join(f"| {kind.value} | {text.replace('`', '')} |\n" for kind, text in ABOUT_KINDS.items())
    return PAGE_HEAD + kinds + PACKETS_HEAD + "".join(row(packet) for packet in PACKETS)


def row(packet: Packet) -> str:
    """Return the row of one packet."""
    fields = ", ".join(field_text(field) for field in packet.fields) or "none"
    doc = packet.doc.replace("``", "`")
    return f"| {packet.name}<br>{packet.wire_name} | {forms_text(packet)} | {fields} | {doc} |\n"


def field_text(field: Field) -> str:
    """Return one field with its conditions."""
    notes = []
    if field.first > 1 or field.last < FORMS_MAX:
        notes.append(f"form {field.first} only" if field.first == field.last else f"form {field.first}")
    if field.since:
        notes.append(f"since {field.since}")
    if field.when:
        notes.append(f"when {field.when}")
    if field.optional:
        notes.append("may be missing")
    return f"{field.name} *{field.kind.value}*" + (f" ({', '.join(notes)})" if notes else "")


if __name__ == "__main__":
    TARGET.write_text(source())
    PAGE.write_text(page())
