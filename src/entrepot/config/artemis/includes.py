"""``<xi:include href="file"/>``: the root of another file stands where it was, as in Artemis (artemis.md 8.1).

A file is one of this machine, found from the directory of the file that names it. What is included may include others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.findings import Severity
from entrepot.config.sources import Sources
from entrepot.config.xml import OCTETS_MAX, Element, parse

XINCLUDE: Final = "http://www.w3.org/2001/XInclude"
DEPTH_MAX: Final = 8
FILES_MAX: Final = 200


class Includes:
    """Puts the roots of other files into a tree."""

    def __init__(self, sources: Sources) -> None:
        self.sources: Final = sources
        self._count = 0

    def resolve(self, root: Element, file: Path, depth: int = 0) -> None:
        """Replace every include below ``root``, which is from ``file``. What cannot be read has become a finding."""
        for element in list(root.walk()):
            if any(_is_include(child) for child in element.children):
                element.children[:] = [made for child in element.children for made in self._put(child, file, depth)]

    def _put(self, child: Element, file: Path, depth: int) -> list[Element]:
        """Return what stands for ``child``."""
        if not _is_include(child):
            return [child]
        found = self._included(child, file, depth)
        if found is None:
            return []
        parent = child.parent
        found.parent = parent
        if parent is not None:
            parent.counts[found.name] = found.ordinal = parent.counts.get(found.name, 0) + 1
        return [found]

    def _included(self, child: Element, file: Path, depth: int) -> Element | None:
        href = child.attributes.get("href")
        other = next((name for name in child.attributes if name not in ("href", "parse")), "")
        fallback = next((one for one in child.children if one.space == XINCLUDE and one.name == "fallback"), None)
        if href is None or other or child.attributes.get("parse", href).text not in (href.text, "xml"):
            self._error(child, "only whole XML files are included", 'write href="FILE" and nothing else')
            return None
        if depth >= DEPTH_MAX or self._count >= FILES_MAX:
            self._error(child, "files include one another too often", "include each once")
            return None
        try:
            place = self.sources.local(self.sources.fill(href.text))
            if place is None:
                raise InvalidConfiguration(f"{href.text!r} is not fetched", remedy="name a file of this machine")
            place = file.parent / place
            self._count += 1
            self.sources.files[place] = None
            found = parse(_read(place), str(place))
        except InvalidConfiguration as error:
            if fallback is not None:
                return next(iter(fallback.children), None)
            self._error(child, f"{href.text!r} cannot be included: {error.message}", error.remedy)
            return None
        self.resolve(found, place, depth + 1)
        return found

    def _error(self, element: Element, what: str, remedy: str) -> None:
        self.sources.findings.add(Severity.ERROR, self.sources.file, element.line, element.path, what, remedy)


def _is_include(element: Element) -> bool:
    return element.space == XINCLUDE and element.name == "include"


def _read(place: Path) -> bytes:
    """Return what is in a file. Raises InvalidConfiguration."""
    try:
        if place.stat().st_size > OCTETS_MAX:
            raise InvalidConfiguration(f"it is larger than {OCTETS_MAX} octets", remedy="is it a configuration?")
        return place.read_bytes()
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidConfiguration(f"cannot read it: {what}", remedy="check the name and the permissions") from None
