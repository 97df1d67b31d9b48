"""``login.config`` of JAAS, as ActiveMQ uses it: entries by name, each a list of modules with a flag and options.

activemq-domain {
    org.apache.activemq.jaas.PropertiesLoginModule required
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="groups.properties";
};
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from entrepot.base.errors import InvalidConfiguration

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""(?P<skipped>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)|"(?P<quoted>[^"]*)"|(?P<mark>[{};=])|(?P<word>[^\s{};="]+)""",
    re.DOTALL,
)


class Module(Struct, frozen=True):
    """One module. ``name``: its class; ``line``: where it begins."""

    name: str
    flag: str
    options: dict[str, str]
    line: int


class _Tokens:
    def __init__(self, text: str) -> None:
        self.found: Iterator[tuple[str, int]] = self._read(text)
        self.token, self.line = "", 0
        self.step()

    def _read(self, text: str) -> Iterator[tuple[str, int]]:
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            line = text.count("\n", 0, at) + 1
            if match is None:
                raise InvalidConfiguration(f"a quote is not closed in line {line}")
            at = match.end()
            if match["skipped"] is None:
                yield match["mark"] or match["quoted"] or match["word"] or "", line
        yield "", text.count("\n") + 1

    def step(self) -> None:
        self.token, self.line = next(self.found, ("", self.line))

    def take(self) -> str:
        token = self.token
        self.step()
        return token

    def expect(self, mark: str) -> None:
        if self.token != mark:
            raise InvalidConfiguration(f"{mark!r} is missing in line {self.line}, there is {self.token!r}")
        self.step()


def parse(text: str) -> dict[str, list[Module]]:
    """Return the entries by name. Raises InvalidConfiguration, with the line in its message."""
    tokens = _Tokens(text)
    entries: dict[str, list[Module]] = {}
    while tokens.token:
        name = tokens.take()
        tokens.expect("{")
        modules: list[Module] = []
        while tokens.token not in ("}", ""):
            modules.append(_module(tokens))
        tokens.expect("}")
        tokens.expect(";")
        entries[name] = modules
    return entries


def _module(tokens: _Tokens) -> Module:
    line = tokens.line
    name = tokens.take()
    flag = tokens.take().lower()
    if flag not in FLAGS:
        raise InvalidConfiguration(f"{flag!r} in line {line} is no flag of a module", remedy="use " + ", ".join(FLAGS))
    options: dict[str, str] = {}
    while tokens.token not in (";", ""):
        option = tokens.take()
        tokens.expect("=")
        options[option] = tokens.take()
    tokens.expect(";")
    return Module(name, flag, options, line)
