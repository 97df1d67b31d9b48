"""The little XML that XStream writes: elements, attributes, text. Read into a tree, within bounds.

It is read here and not by a parser of the standard library for two reasons: XStream writes references to characters
that XML 1.0 forbids (``&#x1;``) and reads them, and what is not understood cannot be abused: there are no declarations,
entities, comments, processing instructions or name spaces. Neither depth nor number of elements can be without limit;
how long the text may be is for the caller to say.
"""

from __future__ import annotations

import re
from typing import Final

from entrepot.base.errors import LimitExceeded, MalformedFrame

DEPTH_MAX: Final = 64  # a message in a message in a dispatch has 12
ELEMENTS_MAX: Final = 100_000  # half a second to read; 5,000 durable subscriptions of a network's peer
ATTRIBUTES_MAX: Final = 8  # XStream writes three at most

_NAME: Final = r"[A-Za-z_][\w.$-]*"
_TAG: Final = re.compile(rf"<(/?)({_NAME})((?:\s+{_NAME}\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*(/?)>")
_ATTRIBUTE: Final = re.compile(rf"({_NAME})\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_PROLOG: Final = re.compile(r"\s*(?:<\?xml\s[^<>?]*\?>)?\s*")
_REFERENCE: Final = re.compile(r"&(#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-z]{1,4});|&")
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_AWKWARD: Final = re.compile("[&<>\"'\r\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
SHOWN: Final = 60  # characters of what was wrong that an error repeats


class Element:
    """One element: its text if it has no children, its children otherwise."""

    __slots__ = ("attributes", "children", "name", "parent", "text")

    def __init__(self, name: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.children: list[Element] = []
        self.text = ""

    def child(self, name: str) -> Element | None:
        """Return the first child that is called ``name``."""
        return next((each for each in self.children if each.name == name), None)


class _Tree:
    """The elements read so far. ``here``: the innermost that is open, None before and behind ``root``."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self.here: Element | None = None
        self.count = 0

    def add(self, name: str, attributes: str) -> Element:
        """Add an element, not open yet. Raises MalformedFrame, LimitExceeded."""
        self.count += 1
        if self.count > ELEMENTS_MAX:
            raise LimitExceeded(f"there are more than {ELEMENTS_MAX} elements")
        here = self.here
        made = Element(name, _attributes(attributes), here)
        if here is not None:
            if here.text and not here.text.isspace():
                raise MalformedFrame(f"text stands beside elements: {here.text[:SHOWN]!r}")
            here.children.append(made)
        elif self.root is not None:
            raise MalformedFrame("there is more than one element")
        else:
            self.root = made
        return made

    def open(self, element: Element) -> None:
        """Let ``element`` have what follows. Raises LimitExceeded."""
        self.here = element
        _check_depth(element)

    def close(self, name: str, *, bare: bool) -> None:
        """End the innermost element. ``bare``: the tag holds the name alone. Raises MalformedFrame."""
        here = self.here
        if here is None or here.name != name or not bare:
            raise MalformedFrame(f"</{name[:SHOWN]}> closes what is not open")
        self.here = here.parent

    def complete(self) -> Element:
        """Return the root, at the end of the text. Raises MalformedFrame."""
        if self.root is None or self.here is not None:
            raise MalformedFrame("the text ends before its element does")
        return self.root


def parse(text: str) -> tuple[Element, int]:
    """Return the one element that ``text`` is, and how many are in it. Raises MalformedFrame, LimitExceeded."""
    tree = _Tree()
    prolog = _PROLOG.match(text)
    at = 0 if prolog is None else prolog.end()
    while at < len(text):
        tag = _TAG.match(text, at)
        if tag is None:
            raise MalformedFrame(f"no element begins at character {at}: {text[at : at + SHOWN]!r}")
        at = text.find("<", tag.end())
        at = len(text) if at < 0 else at
        between = text[tag.end() : at]
        closes, name, attributes, empty = tag.groups()
        if closes:
            tree.close(name, bare=not attributes and not empty)
        else:
            made = tree.add(name, attributes)
            if not empty:
                tree.open(made)
                if between:
                    made.text = between
                    continue
        if between and not between.isspace():
            raise MalformedFrame(f"text stands beside elements: {between[:SHOWN]!r}")
    return tree.complete(), tree.count


def leaf(element: Element) -> str:
    """Return the text of an element without children. Raises MalformedFrame."""
    if element.children:
        raise MalformedFrame(f"<{element.name[:SHOWN]}> has elements where text belongs")
    return unescape(element.text)


def unescape(text: str) -> str:
    """Return ``text`` with its references resolved. Raises MalformedFrame for one that means nothing."""
    if "&" not in text:
        return text
    plain = _REFERENCE.sub(_referred, text)
    if _SURROGATE.search(plain):  # a character outside of the first plane, as two
        plain = plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return plain


def escape(text: str) -> str:
    """Return ``text`` as it can stand in an element or an attribute."""
    return _AWKWARD.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return _ESCAPES.get(character) or f"&#x{ord(character):x};"


def _referred(found: re.Match[str]) -> str:
    word = found.group(1)
    if word is None:
        raise MalformedFrame("a & is not the beginning of a reference")
    if not word.startswith("#"):
        if word not in _NAMED:
            raise MalformedFrame(f"there is no entity &{word};")
        return _NAMED[word]
    number = int(word[2:], 16) if word[1] == "x" else int(word[1:])
    if number > 0x10FFFF:
        raise MalformedFrame(f"there is no character &{word};")
    return chr(number)


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if not text:
        return found
    for each in _ATTRIBUTE.finditer(text):
        found[each.group(1)] = unescape(each.group(2) if each.group(2) is not None else each.group(3))
        if len(found) > ATTRIBUTES_MAX:
            raise LimitExceeded(f"an element has more than {ATTRIBUTES_MAX} attributes")
    return found


def _check_depth(element: Element) -> None:
    depth = 0
    above: Element | None = element
    while above is not None:
        depth += 1
        above = above.parent
    if depth > DEPTH_MAX:
        raise LimitExceeded(f"elements stand more than {DEPTH_MAX} deep in one another")
