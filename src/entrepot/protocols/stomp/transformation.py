"""The forms in which ActiveMQ says map and object messages to STOMP clients that ask for them, octet by octet.

ActiveMQ Classic writes them with XStream: as XML (``jms-map-xml``, ``jms-object-xml``) or, the same tree through
Jettison, as JSON (``jms-map-json``, ``jms-object-json``). One tree of `Element` stands for both here:

```text
{"map":{"entry":[{"string":"n","int":5},{"string":["name","x"]}]}}

<map>                                  boolean byte char short int long double float string: their text
  <entry>                              byte-array: base64; null: nothing in it
    <string>n</string>                 map: entry*, each a key and a value; list: values
    <int>5</int>
```

What is peculiar to the two libraries was measured at Classic 5.17.2 with XStream 1.4.20 and Jettison 1.5.3 and is kept:
entries stand in the order of Java's HashMap, equal names of one parent become an array at the place of the first one
(so a list of mixed types does not keep its order in JSON), and any text that looks like a number or a truth is one.
`docs/stomp.md` says where we differ.

What is read may come from anybody: no DOCTYPE, no more than `DEPTH_MAX` levels, no class is made by its name.
"""

from __future__ import annotations

import binascii
import json
import re
import unicodedata
from base64 import b64decode, b64encode
from struct import pack, unpack
from typing import Final

from entrepot.base.errors import Inexpressible
from entrepot.base.primitive import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    LONG_TEXT,
    MAP,
    NULL,
    OCTETS,
    SHORT,
    TEXT,
    Primitive,
)

MAP_JSON: Final = "jms-map-json"
MAP_XML: Final = "jms-map-xml"
OBJECT_JSON: Final = "jms-object-json"
OBJECT_XML: Final = "jms-object-xml"
JSON: Final = "jms-json"
XML: Final = "jms-xml"
BYTE_FORM: Final = "jms-byte"
ASKABLE: Final = (MAP_JSON, MAP_XML, OBJECT_JSON, OBJECT_XML, JSON, XML, BYTE_FORM)
OF_MAPS: Final = {JSON: MAP_JSON, XML: MAP_XML}  # what the general names mean for a map
OF_OBJECTS: Final = {JSON: OBJECT_JSON, XML: OBJECT_XML}

DEPTH_MAX: Final = 64  # elements inside one another: two for each of the 32 maps and lists that OpenWire can nest
NAMES: Final = {
    NULL: "null",
    BOOLEAN: "boolean",
    BYTE: "byte",
    CHAR: "char",
    SHORT: "short",
    INT: "int",
    LONG: "long",
    DOUBLE: "double",
    FLOAT: "float",
    TEXT: "string",
    LONG_TEXT: "string",
    OCTETS: "byte-array",
    MAP: "map",
    LIST: "list",
}
TAGS: Final = {name: tag for tag, name in NAMES.items() if tag != LONG_TEXT} | {"linked-hash-map": MAP}
INTEGERS: Final = {  # tag -> bits, lowest, highest that is read: Java takes the unsigned ones, too
    BYTE: (8, -(1 << 7), (1 << 8) - 1),
    SHORT: (16, -(1 << 15), (1 << 16) - 1),
    INT: (32, -(1 << 31), (1 << 32) - 1),
    LONG: (64, -(1 << 63), (1 << 64) - 1),
}
FLOAT_DIGITS_MAX: Final = 9  # of a 32-bit float: that many always tell it from its neighbours
SCIENTIFIC_BELOW: Final = 1e-3  # Java's borders (Double.toString)
SCIENTIFIC_FROM: Final = 1e7

JSON_ESCAPES: Final = {
    "\\": "\\\\",
    '"': '\\"',
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
XML_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\r": "&#xd;"}
JSON_SPECIAL: Final = re.compile('[\\\\"\x00-\x1f\u2028\u2029]')
REAL: Final = re.compile(r"-?[0-9.eE]+")
INTEGER: Final = re.compile(r"-?[0-9]+")
SINGLE_DIGIT: Final = re.compile(r"-?[1-9](\.0)?(e|$)")
JAVA_INTEGER: Final = re.compile(r"([-+]?)(0[xX]|#|0(?=[0-7]))?([0-9a-fA-F]+)")
JAVA_REAL: Final = re.compile(r"[-+]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[dDfF]?)")


class Element:
    """One node of the tree: text, or children."""

    def __init__(self, name: str, text: str | None = None) -> None:
        self.name: Final = name
        self.text: str | None = text  # None: it has children, or nothing in it at all
        self.children: Final[list[Element]] = []


# -- writing -------------------------------------------------------------------------------------------------------


def as_json(value: object) -> str:
    """Return ``value``, a map or a single one, as ``jms-*-json`` has it. Raises Inexpressible."""
    element = _element(value, 0)
    return '{"' + element.name + '":' + _json(element, False) + "}"


def as_xml(value: object) -> str:
    """Return ``value``, a map or a single one, as ``jms-*-xml`` has it. Raises Inexpressible."""
    lines: list[str] = []
    _xml(_element(value, 0), 0, lines)
    return "\n".join(lines)


def _element(value: object, depth: int) -> Element:
    if depth > DEPTH_MAX:
        raise Inexpressible("maps and lists are nested too deep")
    if isinstance(value, Primitive):
        tag, inner = int(value.tag), value.value
    else:
        tag, inner = _tag_of(value), value
    if inner is None:
        return Element(NAMES[NULL])
    element = Element(NAMES[tag])
    if isinstance(inner, dict):
        for key in java_order(inner):
            entry = Element("entry")
            entry.children.extend((Element(NAMES[TEXT], key), _element(inner[key], depth + 2)))
            element.children.append(entry)
    elif isinstance(inner, list):
        element.children.extend(_element(each, depth + 1) for each in inner)
    else:
        element.text = _text_of(tag, inner)
    return element


def _tag_of(value: object) -> int:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return INT if -(1 << 31) <= value < 1 << 31 else LONG
    for kind, tag in ((float, DOUBLE), (str, TEXT), (bytes, OCTETS), (dict, MAP), (list, LIST), (type(None), NULL)):
        if isinstance(value, kind):
            return tag
    raise Inexpressible(f"a {type(value).__name__} has no form among the values of a map message")


def _text_of(tag: int, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, (int, float)) and tag in (DOUBLE, FLOAT):
        return java_real(float(value), single=tag == FLOAT)
    text = str(value)
    return "" if tag == CHAR and text == "\0" else text


def java_order(keys: dict[str, object]) -> list[str]:
    """Return ``keys`` in the order of a HashMap that was made for so many and given them one after another."""
    count = len(keys)
    buckets = 1 << max(0, count - 1).bit_length()
    while count > buckets * 3 // 4:
        buckets *= 2
    return sorted(keys, key=lambda key: _java_hash(key) & (buckets - 1))


def _java_hash(text: str) -> int:
    octets = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for at in range(0, len(octets), 2):
        found = (found * 31 + (octets[at] << 8) + octets[at + 1]) & 0xFFFFFFFF
    return found ^ (found >> 16)


def java_real(value: float, *, single: bool = False) -> str:
    """Return what Java's Double.toString says (Float.toString if ``single``), with the fewest digits that tell it."""
    if value != value:  # noqa: PLR0124 - only NaN is not itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = _shortest_single(value) if single else repr(value)
    if SINGLE_DIGIT.match(shortest):
        shortest = f"{value:.1e}"  # Java says two at least, the nearest ones: 4.9E-324
    sign = "-" if shortest.startswith("-") else ""
    mantissa, _, exponent = shortest.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - (len(whole + fraction) - len(digits)) + int(exponent or 0)
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if SCIENTIFIC_BELOW <= abs(value) < SCIENTIFIC_FROM:
        digits = digits.rjust(len(digits) - point, "0") if point < 0 else digits.ljust(point, "0")
        point = max(point, 0)
        return f"{sign}{digits[:point] or '0'}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _shortest_single(value: float) -> str:
    for precision in range(1, FLOAT_DIGITS_MAX):
        text = f"{value:.{precision}g}"
        if _single_precision(float(text)) == value:
            return text
    return f"{value:.{FLOAT_DIGITS_MAX}g}"


def _json(element: Element, listed: bool) -> str:
    """Return what follows the name of ``element``; ``listed``: it has a namesake, so that it stands in an array."""
    if element.text is not None:
        return _json_text(element.text, listed)
    if not element.children:
        return '""'
    count: dict[str, int] = {}
    for child in element.children:
        count[child.name] = count.get(child.name, 0) + 1
    said: dict[str, list[str]] = {}
    for child in element.children:
        said.setdefault(child.name, []).append(_json(child, count[child.name] > 1))
    members = (f'"{name}":' + (each[0] if len(each) == 1 else f"[{','.join(each)}]") for name, each in said.items())
    return "{" + ",".join(members) + "}"


def _json_text(text: str, listed: bool) -> str:
    """Return ``text`` as a JSON value: Jettison makes numbers and truths of what reads back as the same text."""
    if text in ("true", "false"):
        return text
    if INTEGER.fullmatch(text) and len(text) < 21 and str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63:
        return text
    if REAL.fullmatch(text) and _reads_as_real(text):
        if "." in text and "E" not in text:
            return text.rstrip("0").removesuffix(".")
        return text
    quoted = JSON_SPECIAL.sub(_json_escape, text)
    # Jettison escapes every slash in an array, elsewhere only the one that could end a <script>.
    return '"' + (quoted.replace("/", "\\/") if listed else quoted.replace("</", "<\\/")) + '"'


def _reads_as_real(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return "." in text and java_real(value) == text


def _json_escape(found: re.Match[str]) -> str:
    character = found[0]
    return JSON_ESCAPES.get(character) or f"\\u{ord(character):04x}"


def _xml(element: Element, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    if element.text is not None:
        lines.append(f"{indent}<{element.name}>{_xml_text(element.text)}</{element.name}>")
    elif not element.children:
        lines.append(f"{indent}<{element.name}/>")
    else:
        lines.append(f"{indent}<{element.name}>")
        for child in element.children:
            _xml(child, depth + 1, lines)
        lines.append(f"{indent}</{element.name}>")


def _xml_text(text: str) -> str:
    return text if text.isascii() and text.isalnum() else "".join(_xml_character(character) for character in text)


def _xml_character(character: str) -> str:
    if character in "\t\n":
        return character
    if character in XML_ESCAPES:
        return XML_ESCAPES[character]
    if unicodedata.category(character) in ("Cc", "Cn"):  # controls and what Unicode does not define
        return f"&#x{ord(character):x};"
    return character


# -- reading -------------------------------------------------------------------------------------------------------


def read(text: str, form: str) -> object:
    """Return what ``text`` says in ``form``: for the forms of maps a dict, for those of objects a single `Primitive`.

    Values of the dict are `Primitive`. Raises Inexpressible, whose message fits a ``transformation-error``.
    """
    if form in (MAP_JSON, OBJECT_JSON):
        root = _json_tree(text)
    elif form in (MAP_XML, OBJECT_XML):
        root = _xml_tree(text)
    else:
        raise Inexpressible(f"Unknown transformation: {form}")
    value = _value(root)
    if form in (MAP_JSON, MAP_XML):
        if not isinstance(value.value, dict):
            raise Inexpressible(f"<{root.name}> is no map")
        return value.value
    return value


class _Members:
    """The members of a JSON object as they stand: equal names are several elements."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.pairs: Final = pairs


def _json_tree(text: str) -> Element:
    try:
        said = json.loads(text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_Members)
    except RecursionError:
        raise Inexpressible("the JSON is nested too deep") from None
    except ValueError as error:
        raise Inexpressible(f"it is no JSON: {error}") from None
    if not isinstance(said, _Members) or len(said.pairs) != 1:
        raise Inexpressible("it is no JSON object with one member, whose name is the type")
    ((name, inner),) = said.pairs
    return _json_element(name, inner, 0)


def _json_element(name: str, said: object, depth: int) -> Element:
    if depth > DEPTH_MAX:
        raise Inexpressible("the JSON is nested too deep")
    element = Element(name)
    if isinstance(said, _Members):
        for each, inner in said.pairs:
            for one in inner if isinstance(inner, list) else [inner]:
                element.children.append(_json_element(each, one, depth + 1))
    elif isinstance(said, list):
        raise Inexpressible(f"{name!r} is an array in an array")
    else:
        element.text = "" if said is None else str(said).lower() if isinstance(said, bool) else str(said)
    return element


class _Builder:
    """Collects what expat finds."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self.open: list[Element] = []

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if len(self.open) > DEPTH_MAX:
            raise Inexpressible("the XML is nested too deep")
        element = Element(name, "")
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, _name: str) -> None:
        self.open.pop()

    def data(self, text: str) -> None:
        self.open[-1].text = (self.open[-1].text or "") + text

    def doctype(self, *_said: object) -> None:
        raise Inexpressible("the XML has a DOCTYPE, which is not read")


def _xml_tree(text: str) -> Element:
    from xml.parsers import expat  # noqa: PLC0415 - 0.2 MB for the few brokers that are sent XML to transform

    builder = _Builder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError) as error:
        raise Inexpressible(f"it is no XML: {error}") from None
    if builder.root is None:
        raise Inexpressible("it is no XML: there is nothing in it")
    return builder.root


def _value(element: Element) -> Primitive:
    tag = TAGS.get(element.name)
    if tag is None:
        raise Inexpressible(f"<{element.name}> is no type that a map message can hold")
    if tag == MAP:
        entries: dict[str, object] = {}
        for entry in element.children:
            if entry.name != "entry" or len(entry.children) != 2:
                raise Inexpressible("a map has something else in it than entries of a key and a value")
            key, value = entry.children
            if key.name != NAMES[TEXT]:
                raise Inexpressible(f"a key is <{key.name}>, not <string>")
            entries[key.text or ""] = _value(value)
        return Primitive(MAP, entries)
    if tag == LIST:
        return Primitive(LIST, [_value(each) for each in element.children])
    if element.children:
        raise Inexpressible(f"<{element.name}> has elements in it")
    return Primitive(tag, _single(tag, element.text or ""))


def _single(tag: int, text: str) -> object:
    if tag == NULL:
        return None
    if tag == BOOLEAN:
        return text.lower() == "true"
    if tag == CHAR:
        return text[:1] or "\0"
    if tag == TEXT:
        return text
    if tag == OCTETS:
        try:
            return b64decode("".join(text.split()), validate=True)
        except binascii.Error as error:
            raise Inexpressible(f"a byte-array is no base64: {error}") from None
    if tag in INTEGERS:
        return _integer(tag, text)
    if JAVA_REAL.fullmatch(text.strip()) is None:
        raise Inexpressible(f"{text[:40]!r} is no {NAMES[tag]}")
    value = float(text.strip().removesuffix("d").removesuffix("D").removesuffix("f").removesuffix("F"))
    return value if tag == DOUBLE else _single_precision(value)


def _single_precision(value: float) -> float:
    try:
        return float(unpack(">f", pack(">f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _integer(tag: int, text: str) -> int:
    """Read a whole number as Java's ``decode`` does (0x10, #10, 010); the unsigned half means negative numbers."""
    found = JAVA_INTEGER.fullmatch(text)
    bits, lowest, highest = INTEGERS[tag]
    if found is not None:
        base = 10 if found[2] is None else 8 if found[2] == "0" else 16
        try:
            value = int(found[1] + found[3], base)
        except ValueError:
            value = highest + 1
        if lowest <= value <= highest:
            return value if value < 1 << (bits - 1) else value - (1 << bits)
    raise Inexpressible(f"{text[:40]!r} is no {NAMES[tag]}")
