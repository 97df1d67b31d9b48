"""XML that strangers may have written, read into a tree that knows its lines.

A document type is refused as soon as it begins, so there are no entities to expand and nothing to fetch; size, depth
and the number of elements are limited. Names lose their prefix and keep their name space. The parser is Python's own
(expat): it tells where a start tag begins, which the attributes' lines follow from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.parsers import expat

from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidConfiguration

OCTETS_MAX: Final = 16 * MIB  # the largest broker.xml that anybody showed us has a hundredth of it
DEPTH_MAX: Final = 64  # ActiveMQ's own nest to 9
ELEMENTS_MAX: Final = 200_000
NAME_MAX: Final = 128  # octets looked back for the beginning of a name
INVALID_TOKEN: Final = expat.errors.XML_ERROR_INVALID_TOKEN
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"

_ATTRIBUTE: Final = re.compile(rb"""\s+([^\s=<>"'/]+)\s*=\s*("[^"]*"|'[^']*')""")
_TAG: Final = re.compile(rb"<[^\s<>/]+")
_BARE_AMPERSAND: Final = re.compile(rb"&[\w.:-]*\Z")
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff", b"\x00<", b"<\x00")


class Attribute:
    """One attribute as written, before placeholders are filled in. ``source``: who says it, "" for the file."""

    __slots__ = ("line", "name", "source", "space", "text")

    def __init__(self, name: str, space: str, text: str, line: int, source: str = "") -> None:
        self.source = source
        self.name = name
        self.space = space
        self.text = text
        self.line = line


class Element:
    """One element: its own name and name space, attributes by name, children in order, the text directly in it."""

    __slots__ = (
        "attributes",
        "children",
        "counts",
        "instructions",
        "line",
        "name",
        "ordinal",
        "parent",
        "source",
        "space",
        "text",
    )

    def __init__(self, name: str, space: str, line: int, parent: Element | None) -> None:
        self.name = name
        self.space = space
        self.line = line
        self.parent = parent
        self.attributes: dict[str, Attribute] = {}
        self.children: list[Element] = []
        self.counts: dict[str, int] = {}  # children of each name
        self.ordinal = 1  # among its namesakes
        self.text = ""
        self.source = ""  # the file, at the root of each
        self.instructions: list[tuple[int, str, str]] = []  # of the whole file, at its root: line, target, text
        if parent is not None:
            self.ordinal = parent.counts.get(name, 0) + 1
            parent.counts[name] = self.ordinal
            parent.children.append(self)

    @property
    def path(self) -> str:
        """Return where it stands: names from the outermost in, with a number where siblings share one."""
        parts: list[str] = []
        node: Element | None = self
        while node is not None:
            parts.append(node._step())
            node = node.parent
        return "/".join(reversed(parts))

    @property
    def file(self) -> str:
        """Return the file that it is in; "" for a tree that was made and not read."""
        node: Element | None = self
        while node is not None and not node.source:
            node = node.parent
        return "" if node is None else node.source

    def _step(self) -> str:
        if self.parent is None or self.parent.counts[self.name] == 1:
            return self.name
        return f"{self.name}[{self.ordinal}]"

    def named(self, name: str) -> list[Element]:
        """Return the children of that name."""
        return [child for child in self.children if child.name == name]

    def walk(self) -> Iterator[Element]:
        """Yield it and all below, in the order of the file."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(reversed(element.children))


def parse(data: bytes, file: str) -> Element:
    """Return the root element of ``data``; ``file`` is for errors. Raises InvalidConfiguration."""
    if len(data) > OCTETS_MAX:
        raise InvalidConfiguration(f"it is larger than {OCTETS_MAX} octets", remedy="is it a configuration?", file=file)
    return _Reading(data, file).root()


class _Reading:
    """One pass of the parser."""

    def __init__(self, data: bytes, file: str) -> None:
        self.data: Final = data
        self.file: Final = file
        self.top: Element | None = None
        self.open: list[Element] = []
        self.count = 0
        self.narrow: Final = not data.startswith(_WIDE)
        self.parser: Final = expat.ParserCreate(namespace_separator=" ")
        self.parser.ordered_attributes = True
        self.parser.buffer_text = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.ProcessingInstructionHandler = self._instruction
        self.instructions: list[tuple[int, str, str]] = []

    def root(self) -> Element:
        try:
            self.parser.Parse(self.data, True)
        except expat.ExpatError as error:
            what, remedy = self._misspelt(error)
            raise InvalidConfiguration(what, remedy=remedy, file=self.file, line=error.lineno) from None
        except (ValueError, LookupError) as error:  # an encoding that Python does not have, or not like that
            raise InvalidConfiguration(
                f"it cannot be read: {error}", remedy="use UTF-8", file=self.file, line=1
            ) from None
        if self.top is None:
            raise InvalidConfiguration("it holds no element", file=self.file, line=1)
        self.top.instructions = self.instructions
        self.top.source = self.file
        return self.top

    def _misspelt(self, error: expat.ExpatError) -> tuple[str, str]:
        """Return what is wrong, and what to do: an ``&`` in a URI is the slip that nearly everybody makes once."""
        before = self.data[: self.parser.ErrorByteIndex][-NAME_MAX:]
        bare = _BARE_AMPERSAND.search(before) if expat.ErrorString(error.code) == INVALID_TOKEN else None
        if bare is not None and self.narrow:
            what = f"it is not well-formed XML: {bare[0].decode('utf-8', 'replace')!r} begins an entity without an end"
            return what, f"write &amp; for & (before column {error.offset + 1})"
        return f"it is not well-formed XML: {expat.ErrorString(error.code)}", f"look at column {error.offset + 1}"

    def _refuse(self, what: str, remedy: str) -> None:
        raise InvalidConfiguration(what, remedy=remedy, file=self.file, line=self.parser.CurrentLineNumber)

    def _doctype(self, name: str, system: str | None, public: str | None, internal: bool) -> None:
        self._refuse("a document type (<!DOCTYPE) is not read: entities can fetch and flood", "remove it")

    def _start(self, tag: str, flat: list[str]) -> None:
        self.count += 1
        if self.count > ELEMENTS_MAX:
            self._refuse(f"it has more than {ELEMENTS_MAX} elements", "is it a configuration?")
        if len(self.open) >= DEPTH_MAX:
            self._refuse(f"elements are nested deeper than {DEPTH_MAX}", "is it a configuration?")
        space, _, name = tag.rpartition(" ")
        parent = self.open[-1] if self.open else None
        element = Element(name, space, self.parser.CurrentLineNumber, parent)
        if parent is None:
            self.top = element
        self.open.append(element)
        if flat:
            self._attributes(element, flat)

    def _attributes(self, element: Element, flat: list[str]) -> None:
        lines = self._lines(element.line)
        for at in range(0, len(flat), 2):
            space, _, name = flat[at].rpartition(" ")
            if space != XSI:  # where a schema is, is said to editors
                line = lines.get(name, element.line)
                element.attributes.setdefault(name, Attribute(name, space, flat[at + 1], line))

    def _lines(self, line: int) -> dict[str, int]:
        """Return the line of each attribute of the start tag that the parser is at."""
        if not self.narrow:
            return {}
        found = _TAG.match(self.data, self.parser.CurrentByteIndex)
        lines: dict[str, int] = {}
        while found is not None:
            at = found.end()
            found = _ATTRIBUTE.match(self.data, at)
            if found is not None:
                name = found[1].rpartition(b":")[2].decode("utf-8", "replace")
                lines.setdefault(name, line + self.data.count(b"\n", at, found.start(1)))
                line += self.data.count(b"\n", at, found.end())
        return lines

    def _instruction(self, target: str, text: str) -> None:
        if len(self.instructions) >= ELEMENTS_MAX:
            self._refuse(f"it has more than {ELEMENTS_MAX} instructions", "is it a configuration?")
        self.instructions.append((self.parser.CurrentLineNumber, target, text.strip()))

    def _end(self, tag: str) -> None:
        self.open.pop()

    def _characters(self, text: str) -> None:
        self.open[-1].text += text
