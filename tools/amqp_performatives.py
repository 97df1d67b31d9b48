"""Write the performatives of AMQP from the schema: ``python tools/amqp_performatives.py`` after a change of the table.

The result is checked in, because mypyc needs source. ``tools/generated_pages.py --check`` compares it, and the page
docs/formats/amqp.md, with the schema.
"""

from __future__ import annotations

import sys

from source_tree import ROOT, SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.protocols.amqp.schema import ABOUT_KINDS, COMPOSITES, SECTIONS, Composite, Field, Kind

TARGET = ROOT / "src/entrepot/protocols/amqp/performatives.py"
PAGE = ROOT / "docs/formats/amqp.md"

HEADER = '''\
"""The performatives of AMQP, written by ``tools/amqp_performatives.py`` from `schema`: change that, not this.

Every class takes its fields as keywords. A number that is not there is -1, a timestamp 0. ``settled`` of a transfer,
which may be missing, is 0, 1 or -1. [C]
"""
# ruff: noqa: D102
# fmt: off

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.amqp.primitives import DESCRIBED, NULL, Described
from entrepot.protocols.amqp.primitives import Source as Octets
from entrepot.protocols.amqp.writing import Target as Sink


class Composite:
    """One described list."""

    def descriptor(self) -> i64:
        """Return its descriptor."""
        raise NotImplementedError

    def fresh(self) -> Composite:
        """Return one with nothing in it."""
        raise NotImplementedError

    def read(self, source: Octets) -> None:
        """Fill it from the fields. Raises MalformedFrame."""

    def fields(self, target: Sink) -> None:
        """Write its fields. Raises Inexpressible."""

    def write(self, target: Sink) -> None:
        """Write it with its descriptor. Raises Inexpressible."""
        start = target.begin(self.descriptor())
        self.fields(target)
        target.finish(start)


class Unknown(Composite):
    """A described value that is not in the table, as it came; it is not written."""

    def __init__(self, value: Described) -> None:
        self.value: Described = value

    def descriptor(self) -> i64:
        return -1
'''

FOOTER = '''

_PROTOTYPES: Final[dict[int, Composite]] = {
%s}
_SYMBOLS: Final[dict[str, int]] = {
%s}


def composite_of(source: Octets) -> Composite | None:
    """Return the composite that stands next; None for null. Raises MalformedFrame, LimitExceeded."""
    if source.data[source.take(1)] != DESCRIBED:
        source.at -= 1
        if source.octet() == NULL:
            return None
        raise MalformedFrame("a list of fields has no descriptor")
    descriptor = source.value(False, 1)
    known = _SYMBOLS.get(descriptor) if isinstance(descriptor, str) else descriptor
    prototype = _PROTOTYPES.get(known) if isinstance(known, int) else None
    if prototype is None:
        return Unknown(Described(descriptor, source.value(False, 2)))
    made = prototype.fresh()
    outer_end, outer_left = source.end, source.left
    source.end = source.enter()
    made.read(source)
    source.at = source.end
    source.end = outer_end
    source.left = outer_left
    return made


def field_of(source: Octets) -> Composite | None:
    """Return the composite that is the next field; None for null, or where there are no more. Raises as above."""
    if source.left <= 0:
        return None
    source.left -= 1
    source.sink(1)
    made = composite_of(source)
    source.sink(-1)
    return made


def put(target: Sink, value: Composite | None) -> None:
    """Write a composite as a field. Raises Inexpressible."""
    if value is None:
        target.null()
        return
    if isinstance(value, Unknown):
        target.anything(value.value)
        return
    target.leave()
    value.write(target)
    target.back()
'''

ANNOTATIONS = {
    Kind.BOOLEAN: ("bool", "False"),
    Kind.UBYTE: ("i64", "-1"),
    Kind.USHORT: ("i64", "-1"),
    Kind.UINT: ("i64", "-1"),
    Kind.ULONG: ("i64", "-1"),
    Kind.MOMENT: ("i64", "0"),
    Kind.STRING: ("str | None", "None"),
    Kind.SYMBOL: ("str | None", "None"),
    Kind.BINARY: ("bytes | None", "None"),
    Kind.MAP: ("dict[str, object] | None", "None"),
    Kind.ANY: ("object", "None"),
    Kind.COMPOSITE: ("Composite | None", "None"),
}
WIDTHS = {Kind.UBYTE: 1, Kind.USHORT: 2, Kind.UINT: 4, Kind.ULONG: 8}


def is_three_way(field: Field) -> bool:
    """Return whether it is a boolean that may be missing, which is not false then."""
    return field.name == "settled" and field.kind is Kind.UBYTE


def parameter(field: Field) -> str:
    """Return the field as a parameter of the constructor."""
    if field.kind is Kind.SYMBOLS:
        return f"{field.name}: list[str] | None = None"
    kind, default = ANNOTATIONS[field.kind]
    if kind == "i64" and field.kind is not Kind.MOMENT:
        default = str(field.default)
    if field.needed and kind == "str | None":
        kind, default = "str", '""'
    if field.needed and kind == "bytes | None":
        kind, default = "bytes", 'b""'
    if field.needed and kind == "i64":
        default = "0"
    return f"{field.name}: {kind} = {default}"


def assigned(field: Field) -> str:
    """Return what the constructor gives the attribute."""
    if field.kind is Kind.SYMBOLS:
        return f"self.{field.name}: list[str] = [] if {field.name} is None else {field.name}"
    return f"self.{field.name}: {parameter(field).split(': ')[1].split(' = ')[0]} = {field.name}"


def read(field: Field, owner: str) -> list[str]:
    """Return the statements that read it."""
    name = f"self.{field.name}"
    if is_three_way(field):
        return [f"{name} = source.three_way()"]
    calls = {
        Kind.BOOLEAN: "source.flag()",
        Kind.MOMENT: "source.moment()",
        Kind.SYMBOLS: "source.texts()",
        Kind.MAP: "source.table()",
        Kind.ANY: "source.anything()",
        Kind.COMPOSITE: "field_of(source)",
        Kind.STRING: "source.text()",
        Kind.SYMBOL: "source.text()",
        Kind.BINARY: "source.octets()",
    }
    if field.kind in WIDTHS:
        call = "source.number()" if field.default == -1 else f"source.number({field.default})"
        found = [f"{name} = {call}"]
        if field.needed:
            found += [f"if {name} < 0:", f'    raise MalformedFrame("{owner} has no {field.name}")']
        return found
    if field.needed and field.kind in (Kind.STRING, Kind.SYMBOL, Kind.BINARY):
        return [
            f"{field.name} = {calls[field.kind]}",
            f"if {field.name} is None:",
            f'    raise MalformedFrame("{owner} has no {field.name}")',
            f"{name} = {field.name}",
        ]
    return [f"{name} = {calls[field.kind]}"]


def write(field: Field) -> str:
    """Return the statement that writes it."""
    name = f"self.{field.name}"
    if is_three_way(field):
        return f"target.three_way({name})"
    if field.kind in WIDTHS:
        if field.default >= 0:
            return f"target.number(-1 if {name} == {field.default} else {name}, {WIDTHS[field.kind]})"
        return f"target.number({name}, {WIDTHS[field.kind]})"
    if field.kind is Kind.BOOLEAN and field.needed:
        return f"target.needed_flag({name})"
    return {
        Kind.BOOLEAN: f"target.flag({name})",
        Kind.MOMENT: f"target.moment({name})",
        Kind.SYMBOLS: f"target.texts({name})",
        Kind.MAP: f"target.table({name})",
        Kind.ANY: f"target.anything({name})",
        Kind.COMPOSITE: f"put(target, {name})",
        Kind.STRING: f"target.text({name}, False)",
        Kind.SYMBOL: f"target.text({name}, True)",
        Kind.BINARY: f"target.octets({name})",
    }[field.kind]


def body(composite: Composite) -> list[str]:
    """Return the lines of one class."""
    lines = ["", "", f"class {composite.name}(Composite):"]
    lines.append(f'    """{composite.about} {composite.symbol}, {composite.part}."""')
    if composite.fields:
        lines += ["", "    def __init__(", "        self,", "        *,"]
        lines += [f"        {parameter(each)}," for each in composite.fields]
        lines += ["    ) -> None:"]
        lines += [f"        {assigned(each)}" for each in composite.fields]
    lines += ["", "    def descriptor(self) -> i64:", f"        return {composite.code:#x}"]
    lines += ["", "    def fresh(self) -> Composite:", f"        return {composite.name}()"]
    if composite.fields:
        lines += ["", "    def read(self, source: Octets) -> None:"]
        lines += [f"        {line}" for each in composite.fields for line in read(each, composite.name)]
        lines += ["", "    def fields(self, target: Sink) -> None:"]
        lines += [f"        {write(each)}" for each in composite.fields]
    return lines


def source() -> str:
    """Return the module."""
    lines = [line for each in COMPOSITES for line in body(each)]
    table = "".join(f"    {each.code:#x}: {each.name}(),\n" for each in COMPOSITES)
    symbols = "".join(f'    "{each.symbol}": {each.code:#x},\n' for each in COMPOSITES)
    return HEADER + "\n".join(lines) + "\n" + FOOTER % (table, symbols)


def page() -> str:
    """Return the page."""
    lines = [
        "<!-- Written by `make generated` from src/entrepot/protocols/amqp/schema.py. -->",
        "# AMQP 1.0 on the wire",
        "",
        "A frame: u32 size of all of it, u8 offset of its body in words of 4 octets (2), u8 type (0 AMQP, 1 SASL), u16",
        "channel, and a performative; behind a transfer the octets of a message follow. A frame without a performative",
        "says that its sender is alive. Before the first frame each side says `AMQP`, a protocol (0 AMQP, 3 SASL) and",
        "1.0.0.",
        "",
        "A performative is a described list. A field that is null, or behind the last one that is written, has the",
        "default of the table, or is not there.",
        "",
        "| Kind | What it is |",
        "|---|---|",
    ]
    lines += [f"| {kind.value} | {text} |" for kind, text in ABOUT_KINDS.items()]
    for each in COMPOSITES:
        lines += ["", f"## {each.name}", "", f"`{each.symbol}`, {each.code:#04x}, part {each.part}. {each.about}"]
        if each.fields:
            lines += ["", "| Field | Kind | Null means |", "|---|---|---|"]
            lines += [f"| {field.name} | {field.kind.value} | {_null(field)} |" for field in each.fields]
    lines += ["", "## Sections of a message", "", "| Descriptor | Section |", "|---|---|"]
    lines += [f"| {code:#x} | {name} |" for code, name in SECTIONS.items()]
    return "\n".join(lines) + "\n"


def _null(field: Field) -> str:
    if field.needed:
        return "an error"
    if field.default < 0:
        return "false" if field.kind is Kind.BOOLEAN else "not there"
    return ("true" if field.default else "false") if field.kind is Kind.BOOLEAN else str(field.default)


if __name__ == "__main__":
    TARGET.write_text(source())
    PAGE.write_text(page())
