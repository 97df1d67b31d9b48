"""Names of MBeans: a domain and properties.

Patterns of them, as `javax.management.ObjectName` reads and writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from entrepot.base.errors import Refused

LENGTH_MAX: Final = 4096
PROPERTY: Final = re.compile(r'([^=:,*?"]+)=("(?:[^"\\]|\\.)*"|[^,=:"]*)(?:,|$)')


class ObjectName:
    """A name, or a pattern: ``*`` and ``?`` in the domain or a value, or a last property ``*``."""

    __slots__ = ("domain", "more", "properties")

    def __init__(self, domain: str, properties: Mapping[str, str], *, more: bool = False) -> None:
        """``more``: other properties may be there too."""
        self.domain = domain
        self.properties = dict(properties)
        self.more = more

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Return what ``text`` says. Raises Refused."""
        domain, colon, rest = text.partition(":")
        if not colon or len(text) > LENGTH_MAX:
            raise Refused(
                f"{text[:80]!r} is no name of an MBean", remedy="write it like org.apache.activemq:type=Broker"
            )
        properties: dict[str, str] = {}
        more, at = False, 0
        while at < len(rest):
            if rest[at] == "*" and rest[at + 1 : at + 2] in ("", ","):
                more, at = True, at + 2
                continue
            found = PROPERTY.match(rest, at)
            if found is None or found[1] in properties:
                raise Refused(
                    f"{text[:80]!r} is no name of an MBean", remedy="its properties are KEY=VALUE with commas"
                )
            properties[found[1]] = found[2]
            at = found.end()
        return cls(domain, properties, more=more)

    @property
    def is_pattern(self) -> bool:
        """Whether it may mean several."""
        return self.more or any(_wild(text) for text in (self.domain, *self.properties.values()))

    def covers(self, name: ObjectName) -> bool:
        """Return whether ``name``, which is no pattern, is meant."""
        if not _fits(self.domain, name.domain):
            return False
        if not self.more and len(self.properties) != len(name.properties):
            return False
        return all(
            key in name.properties and _fits(text, name.properties[key]) for key, text in self.properties.items()
        )

    def may_be(self, keys: Mapping[str, str]) -> bool:
        """Return whether names with these properties may be meant; "" is any value."""
        if not self.more and set(self.properties) != set(keys):
            return False
        return all(key in keys and (not keys[key] or _fits(text, keys[key])) for key, text in self.properties.items())

    def __str__(self) -> str:
        """Return the canonical name: properties by their keys."""
        return f"{self.domain}:{self.listed()}"

    def written(self, *, canonical: bool) -> str:
        """Return the name; not ``canonical``: properties in the order in which a broker in Java registers them."""
        return f"{self.domain}:{self.listed(canonical=canonical)}"

    def listed(self, *, canonical: bool = True) -> str:
        """Return its properties as `list` writes them."""
        keys = sorted(self.properties) if canonical else self.properties
        return ",".join(f"{key}={self.properties[key]}" for key in keys)


def plain(part: str) -> str:
    """Return a part of a name as ActiveMQ Classic writes it."""
    for character in ":,'\"":
        part = part.replace(character, "_")
    return part.replace("?", "&qe;").replace("=", "&eq;").replace("*", "&ast;")


def quoted(part: str) -> str:
    """Return a part of a name as Artemis writes it: `ObjectName.quote`."""
    escaped = (
        part.replace("\\", "\\\\").replace('"', '\\"').replace("*", "\\*").replace("?", "\\?").replace("\n", "\\n")
    )
    return f'"{escaped}"'


def unquoted(part: str) -> str:
    """Return what `quoted` was given; what has no quotes stays."""
    if len(part) < 2 or part[0] != '"' or part[-1] != '"':
        return part
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], part[1:-1])


def _wild(text: str) -> bool:
    return re.search(r"(?<!\\)[*?]", text) is not None


def _fits(pattern: str, text: str) -> bool:
    return pattern == text or (_wild(pattern) and _compiled(pattern).fullmatch(text) is not None)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.findall(r"\\.|.", re.sub(r"\*+", "*", pattern), re.DOTALL)
    return re.compile("".join(_part(part) for part in parts), re.DOTALL)


def _part(part: str) -> str:
    return {"*": ".*", "?": "."}.get(part) or re.escape(part)
