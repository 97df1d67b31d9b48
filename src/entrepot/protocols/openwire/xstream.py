"""OpenWire's commands as XML, as ActiveMQ's ``http:`` transport has them: the text form of the Java library XStream.

```text
<org.apache.activemq.command.MessageAck>          the class of the command
  <commandId>7</commandId>                        a field by its Java name; null: the element is not there
  <firstMessageId>...</firstMessageId>
  <lastMessageId reference="../firstMessageId"/>  the same object again: a path from this element
  <destination class="org.apache.activemq.command.ActiveMQQueue">   a class that is not the declared one
    <string>orders</string><null/>                destinations are written by their own method: name, options
  </destination>
</org.apache.activemq.command.MessageAck>
```

The fields are those of `schema`; nothing is made whose class is not in that table, and an element that names no field
is passed over, as ActiveMQ does. Following references costs as much as writing them out, within a budget.

What differs from OpenWire's frames: three fields are ``transient`` in Java (`TRANSIENT`), so Java neither writes nor
reads them; we do, among ourselves. A Java client reads no exception of ``javax.jms`` here (its allow-list has no such
package), and the connection would be lost over it: such a class is replaced by one that it may read, the true one
stands in the attribute ``of``. Stack traces are not written, nor why a message was given up (``poisonCause``): a
broker on a newer Java cannot read any exception unless it was started with ``--add-opens java.base/java.lang``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame
from entrepot.protocols.openwire.codec import prototypes
from entrepot.protocols.openwire.commands import Destination
from entrepot.protocols.openwire.elements import MAGIC, StackLine, Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.markup import DEPTH_MAX, SHOWN, Element, escape, leaf, parse
from entrepot.protocols.openwire.schema import TYPES, VERSION_MAX, Field, Kind, Type, children, type_named

PACKAGE: Final = "org.apache.activemq.command."
SEQUENCES: Final = ("content", "marshalledProperties")  # fields that are a ByteSequence; all others are a byte[]
TRANSIENT: Final = ("networkSubscription", "networkConsumerPath", "recievedByDFBridge")
INTERFACES: Final = ("additionalPredicate",)  # fields whose declared type in Java can have no object of its own
ALWAYS: Final[Mapping[str, str]] = {
    "ProducerInfo": "<sentCount>0</sentCount>",
    "Message": "<readOnlyProperties>true</readOnlyProperties><readOnlyBody>true</readOnlyBody>",
}
"""Fields of Java objects that no frame has, and that Java takes for granted."""
EXPANSION: Final = 4  # times as many elements as there are may be read by following references
EXPANSION_FLOOR: Final = 256

READABLE: Final = ("java.lang.", "org.apache.activemq.")  # packages of exceptions that a Java client accepts
SECURITY: Final = "java.lang.SecurityException"
SUBSTITUTES: Final[Mapping[str, str]] = {"javax.jms.JMSSecurityException": SECURITY}
SUBSTITUTE: Final = "java.lang.Exception"
DECLARED: Final = "java.lang.Throwable"  # when no class is said
OF: Final = "of"

_RANGES: Final = {Kind.BYTE: 7, Kind.INT: 31, Kind.LONG: 63}
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_STEP: Final = re.compile(r"([^\[\]/]+)(?:\[([0-9]{1,6})\])?")
_TRACE: Final = re.compile(r"(.+)\.([^.(]+)\(([^():]*)(?::([0-9]{1,9}))?\)")


def java_name(wire_name: str) -> str:
    """Return the name of a field in Java: its first letters are small, unless they are a word of their own."""
    if wire_name.startswith("JMSX"):
        return "jmsX" + wire_name[4:]
    return wire_name[0].lower() + wire_name[1:]


def _fields(each: Type) -> dict[str, Field]:
    return {java_name(field.wire_name): field for field in each.fields if field.travels(VERSION_MAX)}


_FIELDS: Final = {each.name: _fields(each) for each in TYPES if each.number}
_ACCEPTED: Final = {
    name: frozenset(each.name for each in children(name)) if name != "Structure" else frozenset(_FIELDS)
    for name in dict.fromkeys(field.holds for each in TYPES for field in each.fields if field.holds)
}


def decode(octets: bytes) -> Structure:
    """Return the structure that ``octets`` are the XML of.

    Raises MalformedFrame, LimitExceeded: the peer's fault.
    """
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedFrame("the XML is not UTF-8") from error
    root, count = parse(text)
    reader = _Reader(EXPANSION * count + EXPANSION_FLOOR)
    return reader.structure(root, _class_of(root.name), 0)


def encode(structure: Structure) -> bytes:
    """Return the XML of ``structure``. Raises Inexpressible for what Java could not read."""
    out: list[str] = []
    name = PACKAGE + type(structure).__name__
    _write_structure(out, name, "", structure, 0)
    return "".join(out).encode("utf-8")


# -- reading ----------------------------------------------------------------------------------------------------------


class _Reader:
    """Makes structures of elements. ``budget``: how many more elements may be looked at."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def structure(self, element: Element, name: str, depth: int) -> Structure:
        self.spend(depth)
        prototype = prototypes(VERSION_MAX)[type_named(name).number]
        assert prototype is not None
        made = prototype.fresh()
        if isinstance(made, Destination):
            first = element.children[0] if element.children else None
            if first is None or first.name != "string":
                raise MalformedFrame(f"a {name} has no name")
            made.physical_name = leaf(first)
            return made
        fields = _FIELDS[name]
        for child in element.children:
            field = fields.get(child.name)
            if field is not None:
                setattr(made, field.name, self.value(child, field, depth))
        return made

    def value(self, element: Element, field: Field, depth: int) -> object:
        self.spend(depth)
        kind = field.kind
        if kind is Kind.STRING:
            return leaf(element)
        if kind is Kind.BOOLEAN:
            return _boolean(element)
        if kind in _RANGES:
            return _number(element, _RANGES[kind])
        element = self.resolve(element)
        if kind is Kind.OCTETS and element.name in SEQUENCES:
            return _sequence(element)
        if kind is Kind.OCTETS:
            return _octets(element)
        if kind is Kind.MAGIC:
            return _magic(element)
        if kind is Kind.THROWABLE:
            return self.throwable(element, depth + 1)
        if kind is Kind.ARRAY:
            return [self.nested(each, _class_of(each.name), field, depth + 1) for each in element.children]
        written = element.attributes.get("class")
        return self.nested(element, field.holds if written is None else _class_of(written), field, depth + 1)

    def nested(self, element: Element, name: str, field: Field, depth: int) -> Structure:
        if name not in _ACCEPTED[field.holds]:
            raise MalformedFrame(f"a {name} stands where a {field.holds} belongs")
        return self.structure(self.resolve(element), name, depth)

    def throwable(self, element: Element, depth: int) -> Throwable:
        self.spend(depth)
        name = element.attributes.get(OF) or element.attributes.get("class") or DECLARED
        message = element.child("detailMessage")
        traces = element.child("stackTrace")
        cause = element.child("cause")
        stack = [] if traces is None else [_stack_line(leaf(each)) for each in traces.children]
        return Throwable(
            name,
            None if message is None else leaf(message),
            stack,
            None if cause is None or "reference" in cause.attributes else self.throwable(cause, depth + 1),
        )

    def resolve(self, element: Element) -> Element:
        """Return the element that ``element`` refers to, itself when it refers to none."""
        path = element.attributes.get("reference")
        if path is None:
            return element
        found: Element | None = element
        for step in path.split("/"):
            self.spend(0)
            if found is None:
                break
            found = found.parent if step == ".." else self.step(found, step)
        if found is None or "reference" in found.attributes:
            raise MalformedFrame(f"a reference leads nowhere: {path[:SHOWN]!r}")
        return found

    def step(self, element: Element, step: str) -> Element | None:
        """Return the child that one step of a path means: ``name``, or ``name[2]`` for the second of them."""
        written = _STEP.fullmatch(step)
        if written is None:
            return None
        number = int(written.group(2) or 1)
        for child in element.children:
            self.spend(0)
            if child.name == written.group(1):
                number -= 1
                if number == 0:
                    return child
        return None

    def spend(self, depth: int) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise LimitExceeded("references make far more of the XML than it is")
        if depth > DEPTH_MAX:
            raise LimitExceeded(f"structures stand more than {DEPTH_MAX} deep in one another")


def _class_of(written: str) -> str:
    name = written.removeprefix(PACKAGE)
    if name == written or name not in _FIELDS:
        raise MalformedFrame(f"{written[:SHOWN]!r} is no class that may be here")
    return name


def _boolean(element: Element) -> bool:
    text = leaf(element)
    if text not in ("true", "false"):
        raise MalformedFrame(f"<{element.name}> is {text[:SHOWN]!r}, not true or false")
    return text == "true"


def _number(element: Element, bits: int) -> int:
    text = leaf(element).strip()
    number = int(text) if _NUMBER.fullmatch(text) else None
    if number is None or not -(1 << bits) <= number < 1 << bits:
        raise MalformedFrame(f"<{element.name}> is {text[:SHOWN]!r}, no number of {bits + 1} bits")
    return number


def _octets(element: Element) -> bytes:
    text = "".join(leaf(element).split())
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedFrame(f"<{element.name}> is not base64") from error


def _magic(element: Element) -> bytes:
    octets = _octets(element)
    if octets != MAGIC:
        raise MalformedFrame(f"<{element.name}> is not that of ActiveMQ")
    return octets


def _sequence(element: Element) -> bytes:
    data, offset, length = element.child("data"), element.child("offset"), element.child("length")
    octets = b"" if data is None else _octets(data)
    start = 0 if offset is None else _number(offset, 31)
    count = len(octets) - start if length is None else _number(length, 31)
    if start < 0 or count < 0 or start + count > len(octets):
        raise MalformedFrame(f"<{element.name}> says that it has {count} octets from {start} of {len(octets)}")
    return octets[start : start + count]


def _stack_line(text: str) -> StackLine:
    written = _TRACE.fullmatch(text)
    if written is None:
        return StackLine(text, "", None, -1)
    return StackLine(written.group(1), written.group(2), written.group(3), int(written.group(4) or -1))


# -- writing ----------------------------------------------------------------------------------------------------------


def _write_structure(out: list[str], tag: str, attributes: str, structure: Structure, depth: int) -> None:
    if depth > DEPTH_MAX // 2:
        raise Inexpressible("structures stand too deep in one another")
    out.append(f"<{tag}{attributes}>")
    name = type(structure).__name__
    if isinstance(structure, Destination):
        if structure.physical_name is None:
            raise Inexpressible("a destination has no name")
        out.append(f"<string>{escape(structure.physical_name)}</string><null/>")
    else:
        for java, field in _FIELDS[name].items():
            value = getattr(structure, field.name)
            if value is not None and java != "poisonCause":
                _write_value(out, java, field, value, depth)
        out.append(ALWAYS.get(name) or ALWAYS.get(type_named(name).parent, ""))
    out.append(f"</{tag}>")


def _write_value(out: list[str], java: str, field: Field, value: object, depth: int) -> None:
    if isinstance(value, str):
        out.append(f"<{java}>{escape(value)}</{java}>")
    elif isinstance(value, bool):
        out.append(f"<{java}>{'true' if value else 'false'}</{java}>")
    elif isinstance(value, int):
        out.append(f"<{java}>{value}</{java}>")
    elif isinstance(value, bytes):
        text = base64.b64encode(value).decode("ascii")
        if java in SEQUENCES:
            text = f"<data>{text}</data><offset>0</offset><length>{len(value)}</length>"
        out.append(f"<{java}>{text}</{java}>")
    elif isinstance(value, Throwable):
        _write_throwable(out, java, value, depth + 1)
    elif isinstance(value, list):
        out.append(f"<{java}>")
        for each in value:
            _write_structure(out, PACKAGE + type(each).__name__, "", each, depth + 1)
        out.append(f"</{java}>")
    elif isinstance(value, Structure):
        name = type(value).__name__
        attributes = "" if name == field.holds and java not in INTERFACES else f' class="{PACKAGE}{name}"'
        _write_structure(out, java, attributes, value, depth + 1)


def _write_throwable(out: list[str], tag: str, throwable: Throwable, depth: int) -> None:
    true = throwable.class_name or SUBSTITUTE
    name = true if true.startswith(READABLE) else SUBSTITUTES.get(true, SUBSTITUTE)
    of = "" if name == true else f' {OF}="{escape(true)}"'
    out.append(f'<{tag} class="{escape(name)}"{of}>')
    if throwable.message is not None:
        out.append(f"<detailMessage>{escape(throwable.message)}</detailMessage>")
    if throwable.cause is not None and depth <= DEPTH_MAX // 4:
        _write_throwable(out, "cause", throwable.cause, depth + 1)
    out.append(f"<stackTrace/></{tag}>")
