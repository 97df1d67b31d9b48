"""From elements of Artemis to beans: scalars are elements with text or attributes, everything else is a bean below.

The findings are made as for Classic's files (`config/reading.py`); what differs is where a value may stand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.artemis.elements import CONTENT, KINDS
from entrepot.config.findings import Severity
from entrepot.config.reading import Bean, Reader
from entrepot.config.sources import Sources
from entrepot.config.vocabulary import SEVERITY, Does, Kind
from entrepot.config.xml import Element

SPACES: Final = ("urn:activemq", "urn:activemq:core", "")


class PartReader(Reader):
    """Makes a bean of an element and of all below it."""

    def __init__(self, sources: Sources, kinds: Mapping[str, Kind] = KINDS, spaces: Collection[str] = SPACES) -> None:
        """``kinds``, ``spaces``: the vocabulary, where it is that of another file than ``broker.xml``."""
        super().__init__(kinds, (), spaces, sources, sources.findings)

    def at(self, severity: Severity, element: Element, what: str, remedy: str = "", attribute: str = "") -> None:
        """Make a finding about an element, or a scalar in it, wherever that stands."""
        if attribute == CONTENT:
            attribute = ""
        nested = next((child for child in element.children if attribute and child.name == attribute), None)
        if nested is None:
            super().at(severity, element, what, remedy, attribute)
        else:
            self.findings.add(severity, self.sources.file, nested.line, nested.path, what, remedy)

    def part(self, kind: Kind, element: Element) -> Bean:
        """Return the bean of ``element``. What is not obeyed, unknown or wrong has become a finding."""
        bean = Bean(kind, element)
        for attribute in element.attributes.values():
            self._attribute(bean, attribute.name, attribute.space, attribute.text)
        if CONTENT in kind.attributes:
            if CONTENT not in element.attributes:  # broker properties say it as one
                self._attribute(bean, CONTENT, "", element.text.strip())
        else:
            self._no_text(element)
        for child in element.children:
            self._child(bean, child)
        return bean

    def _child(self, bean: Bean, child: Element) -> None:
        slot = bean.kind.slots.get(child.name)
        if slot is None:
            self._scalar(bean, child)
            return
        if slot.does is not Does.OBEYED:
            words = {Does.NO_EFFECT: "has no effect here", Does.OTHERWISE: "is not done here"}
            what = f"<{child.name}> {words.get(slot.does, 'is refused')}: {slot.why}"
            if child.children or child.attributes or slot.does is Does.REFUSED:
                self.at(SEVERITY[slot.does], child, what, slot.remedy)
            return
        found = bean.slots.setdefault(slot.name, [])
        if found and not slot.many:
            self.at(Severity.ERROR, child, f"there is a <{slot.name}> already", "take one of them out")
            return
        found.append(self.part(self.kinds[slot.kinds[0]], child))

    def _scalar(self, bean: Bean, child: Element) -> None:
        if child.name not in bean.kind.attributes or child.name == CONTENT:
            what = f"<{bean.kind.name}> holds no <{child.name}>"
            self.at(Severity.ERROR, child, what, self._near(child.name, bean.kind))
            return
        if child.children:
            self.at(Severity.ERROR, child, f"<{child.name}> is a single value", "write it as text")
            return
        self._attribute(bean, child.name, "", child.text.strip())

    def _near(self, name: str, kind: Kind) -> str:
        known = [one for one in (*kind.attributes, *kind.slots) if one != CONTENT]
        return self._guess(name, known) or "see the table of elements in the documentation of broker.xml"

    def filled(self, bean: Bean, text: str) -> str:
        """Return ``text`` with its placeholders filled in; what cannot be is a finding, and ""."""
        try:
            return self.sources.fill(text)
        except InvalidConfiguration as error:
            self.error(bean, error.message, error.remedy)
            return ""
