"""Where the values of a configuration come from: its file, property files, the environment and the command line.

``${name}`` is looked up, first hit counts: the command line (``-D name=value``); the four directories of ActiveMQ
(``activemq.home``, ``.base``, ``.conf``, ``.data``) from ACTIVEMQ_HOME and so on; the environment under that very name;
the property files that the configuration names; what stands behind a colon, ``${name:this}`` (classic.md 8.1).

The directories have defaults where nobody says: the configuration's own directory is ``activemq.conf``, the one above
it (if it is called ``conf``) the base. A value whose name is a secret's is masked in every finding. Nothing is fetched:
a location is a file of this machine, or it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidConfiguration
from entrepot.config import properties
from entrepot.config.findings import SECRET_NAME, Findings, Severity
from entrepot.config.xml import Element

ENCRYPTED: Final = re.compile(r"ENC\((.*)\)", re.DOTALL)
ENCRYPTED_OPTION: Final = re.compile(r"(?<=Password=)ENC\(([^()&;]*)\)")
"""An option of a URI that holds a password."""
DIRECTORIES: Final = ("home", "base", "conf", "data")
PROPERTIES_OCTETS_MAX: Final = 1 * MIB
FILLED_LENGTH_MAX: Final = 65_536  # a value that grows beyond this refers to itself, or was meant to harm
NESTING_MAX: Final = 16

Decrypt = Callable[[str], str]
"""From the text within ``ENC(...)`` to what it hides. Raises ValueError."""


class Sources:
    """All that a placeholder may be looked up in."""

    def __init__(
        self,
        findings: Findings,
        *,
        defines: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        decrypt: Decrypt | None = None,
    ) -> None:
        """``defines``: from the command line. ``environment``: that of the process."""
        self.findings: Final = findings
        self.defines: Final = dict(defines or {})
        self.environment: Final = dict(environment or {})
        self.decrypt = decrypt
        self.properties: Final[dict[str, str]] = {}
        self.directories: Final[dict[str, str]] = {}
        self.beans: Final[dict[str, Element]] = {}  # around the broker, by id: what it may refer to
        self._assumed: dict[str, None] = {}
        self._known: dict[
            str, str
        ] = {}  # what was filled in before, so that nested values cost no more than their text
        self.file = ""
        self.files: Final[dict[Path, None]] = {}  # all that was read: who waits for changes looks at these
        for given in (self.defines, self.environment):
            for name, value in given.items():
                self.hide(name, value)

    def hide(self, name: str, value: str) -> None:
        """Mask ``value`` from now on if ``name`` is that of a secret."""
        if SECRET_NAME.search(name):
            self.findings.hide(value)

    def open(self, path: Path) -> bytes:
        """Return the configuration file, and let its directory be ``activemq.conf``. Raises InvalidConfiguration."""
        self.file = str(path)
        self.files[path] = None
        try:
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidConfiguration(
                f"cannot read it: {what}", remedy="check the name and the permissions", file=str(path)
            ) from None
        self.place(path)
        return data

    def place(self, path: Path) -> None:
        """Derive the four directories from where the configuration is and from the environment."""
        conf = path.resolve().parent
        base = conf.parent if conf.name == "conf" else conf
        defaults = {"conf": str(conf), "base": str(base), "home": str(base), "data": str(base / "data")}
        for name in DIRECTORIES:
            given = self.defines.get(f"activemq.{name}") or self.environment.get(f"ACTIVEMQ_{name.upper()}")
            if given:
                self.directories[name] = given
                continue
            if name in ("conf", "data") and "base" in self.directories and "base" not in self._assumed:
                self.directories[name] = str(Path(self.directories["base"]) / name)
            else:
                self.directories[name] = defaults[name]
            self._assumed[name] = None

    def load(self, location: str, line: int, path: str, *, optional: bool = False) -> None:
        """Add the entries of a property file. What is wrong with it is a finding."""
        file = self.local(location)
        if file is None:
            self._error(line, path, f"properties from {location!r} are not fetched", "use file: and a path")
            return
        try:
            data = file.read_bytes()
        except (OSError, ValueError) as error:
            if not optional:
                what = error.strerror if isinstance(error, OSError) else str(error)
                self._error(line, path, f"cannot read the property file {str(file)!r}: {what}", "check the name")
            return
        if len(data) > PROPERTIES_OCTETS_MAX:
            self._error(line, path, f"the property file {str(file)!r} is too large", "name another file")
            return
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("latin-1")  # what Java says these files are in
        for name, (value, _) in properties.parse(text).items():
            self.give(name, value)

    def give(self, name: str, value: str) -> None:
        """Add one entry, as if from a property file."""
        self.properties[name] = value
        self._known.clear()
        self.hide(name, value)

    def local(self, location: str) -> Path | None:
        """Return the path that ``file:...`` or a plain path means; None for what is elsewhere (http:, classpath:)."""
        scheme, colon, rest = location.strip().partition(":")
        if not colon or len(scheme) == 1:
            return Path(location.strip())
        if scheme != "file":
            return None
        return Path(re.sub(r"^/{2,}", "/", rest))

    def fill(self, text: str, depth: int = 0) -> str:
        """Return ``text`` with every placeholder filled in. Raises InvalidConfiguration, without a place."""
        if "#{" in text:
            raise InvalidConfiguration(
                "expressions of Spring, #{...}, are not evaluated", remedy="write the value, or ${NAME}"
            )
        start = text.find("${")
        if start < 0:
            return self._decrypted(text)
        if depth > NESTING_MAX:
            raise InvalidConfiguration(
                "placeholders refer to each other in a circle", remedy="give one of them a value"
            )
        parts: list[str] = []
        at = 0
        length = 0
        while start >= 0:
            end = _closing(text, start + 2)
            if end < 0:
                raise InvalidConfiguration("a placeholder ${ is never closed", remedy="close it with }")
            value = self._value(self.fill(text[start + 2 : end], depth + 1), depth + 1)
            parts += (text[at:start], value)
            length += len(value)
            if length > FILLED_LENGTH_MAX:
                raise InvalidConfiguration("what the placeholders of one value stand for is too long")
            at = end + 1
            start = text.find("${", at)
        parts.append(text[at:])
        return self._decrypted("".join(parts))

    def _value(self, text: str, depth: int) -> str:
        """Return what the name within a placeholder stands for."""
        if depth > NESTING_MAX:
            raise InvalidConfiguration(
                "placeholders refer to each other in a circle", remedy="give one of them a value"
            )
        known = self._known.get(text)
        if known is None:
            known = self._looked_up(text, depth)
            self._known[text] = known
        return known

    def _looked_up(self, text: str, depth: int) -> str:
        found = self._found(text)
        if found is not None:
            filled = self.fill(found, depth)
            self.hide(text, filled)
            return filled
        name, colon, default = text.partition(":")
        if not colon:
            raise InvalidConfiguration(
                f"nobody says what ${{{name}}} is",
                remedy=f"give it: -D {name}=VALUE, an environment variable, or a property file",
            )
        found = self._found(name)
        filled = default if found is None else self.fill(found, depth)
        self.hide(name, filled)
        return filled

    def _found(self, name: str) -> str | None:
        if name in self.defines:
            return self.defines[name]
        family, _, short = name.partition(".")
        if family == "activemq" and short in self.directories:
            self._say_assumed(short)
            return self.directories[short]
        if name in self.environment:
            return self.environment[name]
        return self.properties.get(name)

    def _say_assumed(self, name: str) -> None:
        if name in self._assumed:
            del self._assumed[name]
            self.findings.add(
                Severity.NOTE,
                self.file,
                0,
                "",
                f"activemq.{name} is taken to be {self.directories[name]!r}",
                f"set ACTIVEMQ_{name.upper()} or -D activemq.{name}=DIRECTORY for another",
            )

    def _decrypted(self, text: str) -> str:
        found = ENCRYPTED.fullmatch(text.strip())
        if found is not None:
            return self._plain(found[1])
        if "=ENC(" not in text:
            return text
        return ENCRYPTED_OPTION.sub(lambda option: quote(self._plain(option[1]), safe=""), text)

    def _plain(self, hidden: str) -> str:
        if self.decrypt is None:
            raise InvalidConfiguration(
                "the value is encrypted, ENC(...), and nothing here can decrypt it",
                remedy="set ACTIVEMQ_ENCRYPTION_PASSWORD, or give the value by a variable of the environment",
            )
        try:
            plain = self.decrypt(hidden)
        except ValueError as error:
            raise InvalidConfiguration(f"the value cannot be decrypted: {error}", remedy="check the password") from None
        self.findings.hide(plain)
        return plain

    def _error(self, line: int, path: str, what: str, remedy: str) -> None:
        self.findings.add(Severity.ERROR, self.file, line, path, what, remedy)


def _closing(text: str, at: int) -> int:
    """Return where the placeholder that begins before ``at`` is closed; -1 if it is not."""
    depth = 1
    while at < len(text):
        if text.startswith("${", at):
            depth += 1
            at += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return -1
