"""List every element and attribute that the schema of Artemis' ``broker.xml`` knows: one path a line.

    python tools/artemis_schema.py artemis-server-2.42.0.jar > tests/vectors/broker-xml-2.42.0.txt

The jar is on Maven Central (org.apache.activemq:artemis-server). The names are facts; the schema itself stays there.
`tests/unit/config/artemis/test_schema.py` compares them with what our reader says of each.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as Tree
import zipfile
from collections.abc import Iterator
from typing import Final

SCHEMA: Final = "schema/artemis-configuration.xsd"
XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
NESTS: Final = ("sequence", "all", "choice", "complexContent", "simpleContent")
ROOT: Final = "core"


class Schema:
    """What is declared at the top of the schema, by name."""

    def __init__(self, text: bytes) -> None:
        root = Tree.fromstring(text)
        self.types = {one.get("name", ""): one for one in root.iter(f"{XSD}complexType") if one.get("name")}
        self.elements = {one.get("name", ""): one for one in root.findall(f"{XSD}element")}

    def body(self, element: Tree.Element) -> tuple[str, Tree.Element | None]:
        """Return the name of the type of ``element``, and its declaration where it is no plain value."""
        name = _local(element.get("type", ""))
        found = self.types.get(name)
        return name, element.find(f"{XSD}complexType") if found is None else found

    def meant(self, child: Tree.Element) -> list[Tree.Element]:
        """Return the elements that may stand where ``child`` is declared: those of its group, where it is abstract."""
        name = _local(child.get("ref", ""))
        if not name:
            return [child]
        if self.elements[name].get("abstract") != "true":
            return [self.elements[name]]
        return [one for one in self.elements.values() if _local(one.get("substitutionGroup", "")) == name]

    def paths(self, node: Tree.Element, path: str, above: tuple[str, ...]) -> Iterator[str]:
        """Yield the paths below ``node``; a type that is within itself is not entered again."""
        for child in node:
            tag = child.tag.removeprefix(XSD)
            if tag in NESTS:
                yield from self.paths(child, path, above)
            elif tag in ("extension", "restriction"):
                base = self.types.get(_local(child.get("base", "")))
                if base is not None:
                    yield from self.paths(base, path, above)
                yield from self.paths(child, path, above)
            elif tag == "attribute" and child.get("name"):
                yield f"{path}/@{child.get('name')}"
            elif tag == "element":
                for element in self.meant(child):
                    own = f"{path}/{element.get('name')}"
                    yield own
                    name, body = self.body(element)
                    key = name or own
                    if body is not None and key not in above:
                        yield from self.paths(body, own, (*above, key))


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def names(jar: str) -> list[str]:
    """Return the paths of the schema in ``jar``, sorted, each once."""
    with zipfile.ZipFile(jar) as archive:
        schema = Schema(archive.read(SCHEMA))
    _, body = schema.body(schema.elements[ROOT])
    assert body is not None
    return sorted(set(schema.paths(body, ROOT, ())))


if __name__ == "__main__":
    sys.stdout.write("# Written by ``tools/artemis_schema.py`` from artemis-server 2.42.0, not this file by hand.\n")
    sys.stdout.write("".join(f"{name}\n" for name in names(sys.argv[1])))
