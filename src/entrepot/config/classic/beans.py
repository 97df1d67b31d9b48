"""A Java bean as a file of Spring writes it: its class, its properties, and what it refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from entrepot.config.xml import Element


class SpringBean:
    """One ``<bean>``. ``named``: the beans of the file by id, which a ``ref`` may mean."""

    def __init__(self, element: Element, named: Mapping[str, Element]) -> None:
        self.element: Final = element
        self._named: Final = named

    @property
    def short(self) -> str:
        """Its class without the package."""
        return text_of(self.element, "class").rpartition(".")[2]

    @property
    def id(self) -> str:
        """What references call it."""
        return text_of(self.element, "id")

    def properties(self) -> dict[str, Element]:
        """Return its properties by name."""
        return {text_of(child, "name"): child for child in self.element.named("property")}

    def below(self) -> Iterator[SpringBean]:
        """Yield every bean in it or that it refers to, at any depth, each once."""
        seen: dict[int, None] = {id(self.element): None}
        pending = [self.element]
        while pending:
            for child in reversed(list(self._next(pending.pop()))):
                if id(child) not in seen:
                    seen[id(child)] = None
                    pending.append(child)
                    if child.name == "bean":
                        yield SpringBean(child, self._named)

    def _next(self, element: Element) -> Iterator[Element]:
        yield from element.children
        for name in references(element):
            if name in self._named:
                yield self._named[name]


def references(element: Element) -> list[str]:
    """Return the ids that one element refers to."""
    found = [text_of(element, "ref")]
    if element.name in ("ref", "idref"):
        found += [text_of(element, "bean"), text_of(element, "local")]
    return [name for name in found if name]


def texts(element: Element) -> list[str]:
    """Return the values of a property, however they are written: an attribute, or elements of a list."""
    given = element.attributes.get("value")
    found = [] if given is None else [given.text.strip()]
    return found + [below.text.strip() for below in element.walk() if below.name == "value"]


def text_of(element: Element, name: str) -> str:
    """Return an attribute, "" where there is none."""
    given = element.attributes.get(name)
    return "" if given is None else given.text.strip()
