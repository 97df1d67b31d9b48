"""Write the classes of OpenWire from the schema: ``python tools/openwire_commands.py`` after every change of the table.

The result is checked in, because mypyc needs source; tests/unit/protocols/openwire/test_commands.py fails when it and
the schema disagree.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from entrepot.protocols.openwire.schema import (  # noqa: E402
    TYPES,
    VERSION_MAX,
    VERSION_MIN,
    Field,
    Kind,
    Type,
    children,
)

TARGET = ROOT / "src/entrepot/protocols/openwire/commands.py"

HEADER = '''\
"""The types of OpenWire as classes, written by ``tools/openwire_commands.py`` from `schema`: change that, not this.

Every class takes its fields as keywords; a field that the version of a connection has no room for keeps its default.
`read` and `write` serve tight and loose encoding alike. Identities and destinations compare by value and must not
change once they were written or used as a key.

A `Message` keeps its first encoding in ``first`` (see `codec`). [C]
"""
# ruff: noqa: D102, E501
# fmt: off

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64

from entrepot.protocols.openwire.elements import MAGIC, FirstEncoding, Throwable
from entrepot.protocols.openwire.frames import FrameReader, FrameWriter, Structure

'''

ANNOTATIONS = {
    Kind.BOOLEAN: "bool",
    Kind.BYTE: "i32",
    Kind.INT: "i32",
    Kind.LONG: "i64",
    Kind.STRING: "str | None",
    Kind.OCTETS: "bytes | None",
    Kind.MAGIC: "bytes",
    Kind.THROWABLE: "Throwable | None",
}

KEPT_ENCODING = '''
    first: FirstEncoding | None = None
    """The octets it arrived in, if they can be passed on. Who changes a field that `codec.Encoder` does not patch
    sets it to None."""
    mark_sequence: i64 = 0
    mark_times: i64 = 0

    def retain(self, octets: bytes, layout: i64, start: i64) -> None:
        if self.data_structure is None and self.message_id is not None:
            times_mark = self.mark_times - start if self.mark_times > 0 else 0
            self.first = FirstEncoding(octets, layout, self.mark_sequence - start, times_mark)
'''


def annotation(field: Field) -> str:
    """Return the type of the attribute."""
    if field.kind is Kind.ARRAY:
        return f"list[{field.holds}] | None"
    return ANNOTATIONS.get(field.kind, f"{field.holds} | None")


def default(field: Field) -> str:
    """Return the default of the attribute."""
    if field.kind is Kind.MAGIC:
        return "MAGIC"
    if field.kind is Kind.BOOLEAN:
        return str(bool(field.default))
    return str(field.default) if field.kind in (Kind.BYTE, Kind.INT, Kind.LONG) else "None"


def attributes(fields: tuple[Field, ...]) -> list[Field]:
    """Return the fields without the second rows of those that moved."""
    return list({field.name: field for field in fields}.values())


def source_of(each: Type) -> str:
    """Return the class of one type."""
    number = f" Type {each.number}." if each.number else ""
    since = f" Since version {each.since}." if each.since > VERSION_MIN else ""
    lines = [f"class {each.name}({each.parent}):", f'    """{each.doc}{number}{since}"""']
    if each.name == "Message":
        lines.append(KEPT_ENCODING.rstrip("\n"))
    if each.name == "Command":
        lines += ["", "    command_id: i32 = 0", "    response_required: bool = False"]
    elif each.own or each.parent == "Command":
        lines += constructor(each)
    if each.number:
        lines += ["", "    @property", "    def type_id(self) -> int:", f"        return {each.number}", ""]
        lines += ["    def fresh(self) -> Structure:", f"        return {each.name}()"]
    if each.padded and each.own:
        lines += ["", "    def padded(self) -> bool:", "        return True"]
    if each.own:
        lines += reading(each) + writing(each)
    if each.by_value and each.own:
        lines += comparing(each)
    return "\n".join(lines)


def constructor(each: Type) -> list[str]:
    """Return ``__init__``: identities positionally too, everything else by keyword."""
    inherited = attributes(each.fields[: len(each.fields) - len(each.own)])
    own = attributes(each.own)
    keyword = [] if each.by_value else ["        *,"]
    lines = ["", "    def __init__(", "        self,", *keyword]
    lines += [f"        {field.name}: {annotation(field)} = {default(field)}," for field in inherited + own]
    lines.append("    ) -> None:")
    if each.parent not in ("Structure", "Command"):
        passed = ", ".join(f"{field.name}={field.name}" for field in inherited)
        lines.append(f"        super().__init__({passed})")
        inherited = []
    lines += [f"        self.{field.name} = {field.name}" for field in inherited + own]
    return lines


def reading(each: Type) -> list[str]:
    """Return ``read``."""
    lines = ["", "    def read(self, source: FrameReader) -> None:"]
    lines += prefix(each, "read", "source")
    for field in each.own:
        value = f"source.{field.kind.value}()"
        if field.holds == "Structure" or not field.holds:
            taken = [f"self.{field.name} = {value}"]
        elif field.kind is Kind.ARRAY:
            taken = [f"self.{field.name} = _{plural(field.holds)}(source, {value})"]
        else:
            taken = [f"self.{field.name} = _{singular(field.holds)}(source, {value})"]
        if field.mirror:
            taken.append(f"self.{field.mirror} = self.{field.name}")
        if field.mark:
            taken.append(f"self.{field.mark} = source.at")
        lines += guarded(field, "source", taken)
    return lines


def writing(each: Type) -> list[str]:
    """Return ``write``."""
    lines = ["", "    def write(self, target: FrameWriter) -> None:"]
    lines += prefix(each, "write", "target")
    for field in each.own:
        lines += guarded(field, "target", [f"target.{field.kind.value}(self.{field.name})"])
    return lines


def prefix(each: Type, verb: str, stream: str) -> list[str]:
    """Return the lines that read or write what comes before the own fields."""
    if each.parent == "Command":  # two fields of every command: written out rather than called
        method = {"read": "self.{0} = source.{1}()", "write": "target.{1}(self.{0})"}[verb]
        both = (("command_id", "int32"), ("response_required", "boolean"))
        return [f"        {method.format(name, kind)}" for name, kind in both]
    return [] if each.parent == "Structure" else [f"        super().{verb}({stream})"]


def guarded(field: Field, stream: str, lines: list[str]) -> list[str]:
    """Put ``lines`` under the condition that the version has the field."""
    conditions = []
    if field.since > VERSION_MIN:
        conditions.append(f"{stream}.version >= {field.since}")
    if field.until < VERSION_MAX:
        conditions.append(f"{stream}.version <= {field.until}")
    if not conditions:
        return [f"        {line}" for line in lines]
    return [f"        if {' and '.join(conditions)}:", *[f"            {line}" for line in lines]]


def comparing(each: Type) -> list[str]:
    """Return equality and hash over all fields and the type."""
    names = [field.name for field in attributes(each.fields)]
    compared = each.identity or names
    lines = ["", "    def __eq__(self, other: object) -> bool:", "        return ("]
    lines.append(f"            isinstance(other, {each.name})")
    if not each.number:
        lines.append("            and self.type_id == other.type_id")
    lines += [f"            and self.{name} == other.{name}" for name in compared] + ["        )"]
    key = ", ".join(f"self.{name}" for name in compared)
    lines += ["", "    def __hash__(self) -> int:", f"        return hash(({key}{',' if len(compared) == 1 else ''}))"]
    shown = ", ".join(f"{name}={{self.{name}!r}}" for name in names)
    lines += ["", "    def __repr__(self) -> str:", f'        return f"{{type(self).__name__}}({shown})"']
    return lines


def snake(name: str) -> str:
    """Return a function's name for a class."""
    out = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return out.strip("_")


def singular(name: str) -> str:
    """Return the name of the function that checks one nested value."""
    return snake(name)


def plural(name: str) -> str:
    """Return the name of the function that checks an array."""
    return snake(name) + "s"


def checks() -> list[str]:
    """Return the functions that accept one class, or an array of one class, and nothing else."""
    held = [field for each in TYPES for field in each.own if field.holds not in ("", "Structure")]
    out: list[str] = []
    for name in dict.fromkeys(field.holds for field in held if field.kind is not Kind.ARRAY):
        out.append(
            f"def _{singular(name)}(source: FrameReader, value: Structure | None) -> {name} | None:\n"
            f"    if value is None or isinstance(value, {name}):\n        return value\n"
            f'    raise source.misplaced(value, "{name}")'
        )
    for name in dict.fromkeys(field.holds for field in held if field.kind is Kind.ARRAY):
        out.append(
            f"def _{plural(name)}(source: FrameReader, values: list[Structure] | None) -> list[{name}] | None:\n"
            f"    if values is None:\n        return None\n"
            f"    checked: list[{name}] = []\n    for value in values:\n"
            f"        if not isinstance(value, {name}):\n"
            f'            raise source.misplaced(value, "{name}")\n'
            f"        checked.append(value)\n    return checked"
        )
    return out


def registry() -> str:
    """Return the list of prototypes."""
    lines = ["PROTOTYPES: Final[list[Structure]] = ["]
    lines += [f"    {each.name}()," for each in TYPES if each.number]
    lines += ["]", '"""One of each: asked for a fresh structure, so that no name from the wire ever makes one."""']
    return "\n".join(lines)


def in_order() -> list[Type]:
    """Return the types, parents before children."""
    done: dict[str, Type] = {}
    for each in TYPES:
        for name in [each.parent, each.name]:
            for known in TYPES:
                if known.name == name:
                    done.setdefault(name, known)
    return list(done.values())


def source() -> str:
    """Return the whole module."""
    parts = [source_of(each) for each in in_order()] + checks() + [registry()]
    assert all(children(each.name) for each in TYPES)
    return HEADER + "\n" + "\n\n\n".join(parts) + "\n"


if __name__ == "__main__":
    TARGET.write_text(source())
