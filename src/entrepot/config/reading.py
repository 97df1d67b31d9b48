"""From elements to beans: every attribute checked, every finding made, before anybody interprets anything.

A `Bean` holds what is obeyed, typed. What is not obeyed has become a finding on the way; what is unknown is an error
with the nearest known name, as in Classic ("Invalid property"). So an interpreter cannot forget to report something: it
only sees what it has to obey, and `Bean.unheard` names what it did not ask for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.base.provenance import Spot
from entrepot.base.settings import Dialect, Options, Unit
from entrepot.config.findings import SECRET_NAME, Findings, Severity
from entrepot.config.model import BrokerConfig
from entrepot.config.sources import Sources
from entrepot.config.vocabulary import SEVERITY, Attribute, Does, Kind, Slot
from entrepot.config.xml import Element

T = TypeVar("T", bound=Options)

SHOWN_LENGTH_MAX: Final = 60


class Bean:
    """One element that is obeyed. ``values``: its obeyed attributes, typed; ``slots``: the beans in its properties.

    ``said``: all its attributes that could be read, obeyed or not: for whoever judges a network of brokers of Classic.
    """

    def __init__(self, kind: Kind, element: Element) -> None:
        self.kind = kind
        self.element = element
        self.texts: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self.said: dict[str, Any] = {}
        self.slots: dict[str, list[Bean]] = {}
        self.pairs: dict[str, dict[str, str]] = {}
        self._heard: dict[str, None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or ``default`` where it is not given."""
        self._heard[name] = None
        return self.values.get(name, default)

    def text(self, name: str, default: str = "") -> str:
        """Return the text of an attribute, or ``default``."""
        self._heard[name] = None
        return self.texts.get(name, default)

    def one(self, slot: str) -> Bean | None:
        """Return the bean in a property, None where there is none."""
        found = self.slots.get(slot)
        return found[0] if found else None

    def many(self, *slots: str) -> list[Bean]:
        """Return the beans in properties, in the order of the names."""
        return [bean for slot in slots for bean in self.slots.get(slot, [])]

    def options(self, cls: type[T], **values: object) -> T:
        """Return the options that the attributes make, with ``values`` where they say nothing."""
        names = cls.names(Dialect.CLASSIC)
        texts = {name: text for name, text in self.texts.items() if name in names}
        for name in names:
            self._heard[name] = None
        made, _ = cls.take(texts, Dialect.CLASSIC, base=cls(**values))
        return made

    def line(self, name: str = "") -> int:
        """Return the line of an attribute, or of the element."""
        attribute = self.element.attributes.get(name)
        return self.element.line if attribute is None else attribute.line

    def spot(self, name: str = "") -> Spot:
        """Return the file and line of an attribute, or of the element. A scalar of Artemis is an element of its own."""
        attribute = self.element.attributes.get(name)
        if attribute is None:
            below = next((one for one in self.element.children if name and one.name == name), self.element)
            return Spot(below.file, below.line)
        return Spot(attribute.source or self.element.file, 0 if attribute.source else attribute.line)

    def path(self, name: str = "") -> str:
        """Return where an attribute, or the element, is."""
        return f"{self.element.path}/@{name}" if name else self.element.path

    def walk(self) -> Iterator[Bean]:
        """Yield it and every bean below."""
        yield self
        for beans in self.slots.values():
            for bean in beans:
                yield from bean.walk()

    def unheard(self) -> list[str]:
        """Return the obeyed attributes that nobody asked for: a bug of ours, found by a test."""
        return [self.path(name) for name in self.values if name not in self._heard]


class Reading(Struct, frozen=True):
    """What came of a file. ``config`` is None where a finding is an error; ``draft`` is what could be made of it then.

    ``bean``: the broker's element, where the file is Classic's. ``files``: all that was read.
    """

    config: BrokerConfig | None
    findings: Findings
    bean: Bean | None = None
    draft: BrokerConfig | None = None
    files: tuple[Path, ...] = ()


class Reader:
    """Makes beans of elements by a vocabulary."""

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        elsewhere: Collection[str],
        spaces: Collection[str],
        sources: Sources,
        findings: Findings,
    ) -> None:
        """``elsewhere``: names that are known and out of place. ``spaces``: the name spaces of the vocabulary."""
        self.kinds: Final = kinds
        self.elsewhere: Final = elsewhere
        self.spaces: Final = spaces
        self.sources: Final = sources
        self.findings: Final = findings

    # -- findings -----------------------------------------------------------------------------------------------------

    def at(self, severity: Severity, element: Element, what: str, remedy: str = "", attribute: str = "") -> None:
        """Make a finding about an element, or one of its attributes."""
        given = element.attributes.get(attribute)
        line = element.line if given is None else given.line
        path = f"{element.path}/@{attribute}" if attribute else element.path
        self.findings.add(severity, self.sources.file, line, path, what, remedy)

    def error(self, bean: Bean, what: str, remedy: str = "", attribute: str = "") -> None:
        """Make an error about a bean."""
        self.at(Severity.ERROR, bean.element, what, remedy, attribute)

    def warn(self, bean: Bean, what: str, remedy: str = "", attribute: str = "") -> None:
        """Make a warning about a bean."""
        self.at(Severity.WARNING, bean.element, what, remedy, attribute)

    def note(self, bean: Bean, what: str, remedy: str = "", attribute: str = "") -> None:
        """Make a note about a bean."""
        self.at(Severity.NOTE, bean.element, what, remedy, attribute)

    # -- elements -----------------------------------------------------------------------------------------------------

    def bean(self, kind: Kind, element: Element) -> Bean | None:
        """Return the bean of ``element``; None for one that is not obeyed, which is a finding then."""
        if kind.does is not Does.OBEYED:
            self.at(SEVERITY[kind.does], element, _sentence(element.name, kind.does, kind.why), kind.remedy)
            return None
        bean = Bean(kind, element)
        for attribute in element.attributes.values():
            self._attribute(bean, attribute.name, attribute.space, attribute.text)
        self._no_text(element)
        for child in element.children:
            self._child(bean, child)
        return bean

    def _attribute(self, bean: Bean, name: str, space: str, written: str) -> None:
        if space and space not in self.spaces:
            if name not in ("base", "lang", "space"):  # of XML itself
                self.note(bean, f"attributes of {space!r} mean nothing here", "", name)
            return
        declared = bean.kind.attributes.get(name)
        if declared is None:
            if name == "id":  # a name for references, which are refused where they are made
                return
            self.error(bean, f"<{bean.kind.name}> has no attribute {name!r}", self._near(name, bean.kind), name)
            return
        try:
            text = self.sources.fill(written)
            if SECRET_NAME.search(name):
                self.findings.hide(text)
            if text.startswith("#") and declared.unit is not Unit.TEXT:
                raise InvalidConfiguration(f"it refers to a Java bean, {text!r}", remedy="write the value itself")
            value = declared.parse(text)
        except (InvalidConfiguration, InvalidOption) as error:
            self.error(bean, error.message, error.remedy, name)
            return
        bean.said[name] = value
        if declared.does is Does.OBEYED:
            bean.texts[name] = text
            bean.values[name] = value
        elif not declared.asks_for_the_same(value):
            self._unobeyed(bean, declared, text)

    def _unobeyed(self, bean: Bean, declared: Attribute, text: str) -> None:
        shown = text if len(text) <= SHOWN_LENGTH_MAX else text[:SHOWN_LENGTH_MAX] + "..."
        what = _sentence(f'{declared.name}="{shown}"', declared.does, declared.why)
        self.at(SEVERITY[declared.does], bean.element, what, declared.remedy, declared.name)

    def _child(self, bean: Bean, child: Element) -> None:
        if child.space and child.space not in self.spaces and child.name not in bean.kind.slots:
            self.at(
                Severity.ERROR,
                child,
                f"<{child.name}> of {child.space!r} cannot stand in <{bean.kind.name}>: Java beans are not loaded here",
                "take it out",
            )
            return
        slot = bean.kind.slots.get(child.name)
        if slot is None:
            if child.name in bean.kind.attributes:
                what = f"<{child.name}> is a single value"
                self.at(Severity.ERROR, child, what, f'write it as an attribute: <{bean.kind.name} {child.name}="...">')
            else:
                what = f"<{bean.kind.name}> holds no <{child.name}>"
                self.at(Severity.ERROR, child, what, self._near(child.name, bean.kind))
            return
        if slot.does is not Does.OBEYED:
            self.at(SEVERITY[slot.does], child, _sentence(f"<{child.name}>", slot.does, slot.why), slot.remedy)
            return
        if slot.pairs:
            bean.pairs.setdefault(slot.name, {}).update(self._pairs(child))
            return
        self._slot(bean, slot, child)

    def _pairs(self, element: Element) -> Iterator[tuple[str, str]]:
        """Yield the entries of a map."""
        self._no_text(element)
        for child in element.children:
            key, value = child.attributes.get("key"), child.attributes.get("value")
            if child.name == "map":
                yield from self._pairs(child)
            elif child.name == "entry" and key is not None and value is not None:
                try:
                    yield self.sources.fill(key.text), self.sources.fill(value.text)
                except InvalidConfiguration as error:
                    self.at(Severity.ERROR, child, error.message, error.remedy)
            else:
                what = f"<{child.name}> is no entry of a map"
                self.at(Severity.ERROR, child, what, 'write <entry key="..." value="..."/>')

    def _slot(self, bean: Bean, slot: Slot, element: Element) -> None:
        for attribute in element.attributes.values():
            if attribute.name != "id":
                what = f"<{element.name}> is a property and has no attributes"
                self.at(Severity.ERROR, element, what, f"put them on an element within it: {', '.join(slot.kinds)}")
                break
        self._no_text(element)
        found = bean.slots.setdefault(slot.name, [])
        for child in element.children:
            kind = self._kind_within(slot, child)
            if kind is None:
                continue
            if found and not slot.many:
                self.at(Severity.ERROR, child, f"<{slot.name}> holds one element", "take the others out")
                continue
            made = self.bean(kind, child)
            if made is not None:
                found.append(made)

    def _kind_within(self, slot: Slot, child: Element) -> Kind | None:
        """Return the kind of a bean in a property; what may not be there is an error."""
        if child.space and child.space not in self.spaces:
            name = child.attributes["class"].text if "class" in child.attributes else child.name
            self.at(Severity.ERROR, child, f"{name}: a Java class cannot be loaded here", "use one of: " + _list(slot))
            return None
        if child.name in slot.kinds:
            return self.kinds[child.name]
        known = child.name in self.kinds or child.name in self.elsewhere
        what = f"<{child.name}> does not belong into <{slot.name}>" if known else f"there is no <{child.name}>"
        self.at(Severity.ERROR, child, what, self._guess(child.name, slot.kinds) + "known here: " + _list(slot))
        return None

    def _no_text(self, element: Element) -> None:
        if element.text.strip():
            self.at(Severity.ERROR, element, "text cannot stand here", "write values as attributes")

    def _near(self, name: str, kind: Kind) -> str:
        if name in kind.slots:
            return f"it is an element: <{kind.name}><{name}>...</{name}>"
        known = [*kind.attributes, *kind.slots]
        return self._guess(name, known) or "see the table of elements in the documentation of activemq.xml"

    def _guess(self, name: str, known: Collection[str]) -> str:
        folded = {one.lower(): one for one in known}
        near = get_close_matches(name.lower()[:SHOWN_LENGTH_MAX], folded, n=1, cutoff=0.6)
        return f"did you mean {folded[near[0]]!r}? " if near else ""


def _sentence(what: str, does: Does, why: str) -> str:
    match does:
        case Does.NO_EFFECT:
            return f"{what} has no effect here: {why}"
        case Does.OTHERWISE:
            return f"{what} is not done here: {why}"
        case _:
            return f"{what} is refused: {why}"


def _list(slot: Slot) -> str:
    return ", ".join(slot.kinds)
