"""What surrounds the broker in a file of Spring: property files, other beans, imports.

Only the beans that give values to placeholders mean something here (classic.md 8.1), and the import of a file that
describes the web console. The rest is reported and left alone: a broker that needs one of them refers to it, and that
is refused where it happens.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidConfiguration
from entrepot.base.values import boolean_or
from entrepot.config import properties
from entrepot.config.classic import jetty
from entrepot.config.console import ConsoleSettings
from entrepot.config.findings import Findings, Severity
from entrepot.config.sources import Sources
from entrepot.config.xml import Element

CONFIGURERS: Final = (
    "PropertyPlaceholderConfigurer",
    "PropertySourcesPlaceholderConfigurer",
    "EncryptablePropertyPlaceholderConfigurer",
    "EncryptablePropertySourcesPlaceholderConfigurer",
)
DECRYPTION: Final = ("EnvironmentStringPBEConfig", "SimpleStringPBEConfig", "StandardPBEStringEncryptor")
DECRYPTOR: Final = "what decrypts is the password in ACTIVEMQ_ENCRYPTION_PASSWORD"
HARMLESS: Final = {
    "systemPropertiesModeName": "the command line and the environment come first, always",
    "systemPropertiesMode": "the command line and the environment come first, always",
    "searchSystemEnvironment": "the environment is searched, always",
    "fileEncoding": "property files are read as UTF-8, or else Latin-1",
    "order": "there is one set of properties",
    "ignoreUnresolvablePlaceholders": "a placeholder without a value is an error",
}
CONSOLE: Final = "jetty"
"""What the names of the files begin with that describe a console: jetty.xml, jetty-demo.xml, jetty-spring.xml."""


class Surroundings:
    """Reads the children of ``<beans>`` other than the broker, and gives what they say to the sources."""

    def __init__(self, sources: Sources, findings: Findings) -> None:
        self.sources: Final = sources
        self.findings: Final = findings
        self.imports: Final[list[tuple[Element, Path]]] = []

    def console(self) -> ConsoleSettings | None:
        """Return the console that an import describes, None where there is none; once all else around was read."""
        found: ConsoleSettings | None = None
        for element, path in self.imports:
            if found is not None:
                self._say(Severity.WARNING, element, f"{path} is not read: there is a console already", "take it out")
                continue
            try:
                found = jetty.read(path, self.sources)
            except OSError as error:
                what = f"no console is started: cannot read {str(path)!r}: {error.strerror}"
                self._say(Severity.WARNING, element, what, "check the name, or take the import out")
            except InvalidConfiguration as error:
                what = f"no console is started by this file: {error.message}"
                self.findings.add(Severity.WARNING, str(path), error.line, "", what, error.remedy)
        return found

    def read(self, element: Element) -> None:
        """Take one child of ``<beans>``; whatever it is, it is heard or reported."""
        match element.name:
            case "bean":
                self._bean(element)
            case "import":
                self._import(element)
            case "property-placeholder":
                self._load(element, self._attribute(element, "location"), optional=self._optional(element))
            case "description":
                pass
            case "camelContext":
                self._say(Severity.WARNING, element, "routes of Camel do not run here", "run Camel as a client")
            case _:
                self._say(Severity.WARNING, element, f"<{element.name}> means nothing here", "take it out")

    def _bean(self, element: Element) -> None:
        name = self._attribute(element, "class")
        short = name.rpartition(".")[2]
        if short in CONFIGURERS:
            for child in element.children:
                if child.name == "property":
                    self._property(child)
                elif child.name == "constructor-arg":
                    self._say(Severity.NOTE, child, f"{DECRYPTOR}, not a bean")
                else:
                    self._say(Severity.WARNING, child, f"<{child.name}> means nothing here", "take it out")
        elif short in DECRYPTION:
            self._say(Severity.NOTE, element, f"{DECRYPTOR}, not this bean")
        elif short.endswith("DataSource"):
            self.sources.beans[self._attribute(element, "id")] = element
            what = f"{short} is not made here; of it, a locker that refers to it takes the URL, user and password"
            self._say(Severity.NOTE, element, what)
        else:
            what = f"the Java bean {name or 'without a class'} is not made here"
            self._say(Severity.WARNING, element, what, "what needs it is refused where it refers to it")

    def _property(self, element: Element) -> None:
        name = self._attribute(element, "name")
        match name:
            case "location" | "locations":
                bean = element.parent
                optional = bean is not None and self._optional(bean)
                for text in self._texts(element):
                    for location in text.split(","):
                        if location.strip():
                            self._load(element, location.strip(), optional=optional)
            case "properties":
                self._inline(element)
            case "ignoreResourceNotFound":
                pass
            case _ if name in HARMLESS:
                self._say(Severity.NOTE, element, f"{name} has no effect here: {HARMLESS[name]}")
            case _:
                self._say(Severity.WARNING, element, f"the property {name!r} of a configurer means nothing here")

    def _inline(self, element: Element) -> None:
        for below in element.walk():
            if below.name == "prop":
                self.sources.give(self._attribute(below, "key"), below.text.strip())
            elif below.name == "value":
                for name, (value, _) in properties.parse(below.text).items():
                    self.sources.give(name, value)

    def _texts(self, element: Element) -> list[str]:
        """Return the values of a property, however they are written: an attribute, text, a list or an array of them."""
        found = [element.attributes["value"].text] if "value" in element.attributes else []
        found += [below.text.strip() for below in element.walk() if below.name == "value"]
        return found

    def _optional(self, bean: Element) -> bool:
        if boolean_or(self._attribute(bean, "ignore-resource-not-found"), False):
            return True
        return any(
            self._attribute(child, "name") == "ignoreResourceNotFound" and self._texts(child) == ["true"]
            for child in bean.named("property")
        )

    def _load(self, element: Element, location: str, *, optional: bool) -> None:
        try:
            filled = self.sources.fill(location)
        except InvalidConfiguration as error:
            self._say(Severity.ERROR, element, error.message, error.remedy)
            return
        self.sources.load(filled, element.line, element.path, optional=optional)

    def _import(self, element: Element) -> None:
        resource = self._attribute(element, "resource")
        if not re.split(r"[/:]", resource)[-1].startswith(CONSOLE):
            what = f"{resource} is not read: only the broker's own file is"
            self._say(Severity.WARNING, element, what, "put what belongs to the broker into one file")
            return
        try:
            path = self.sources.local(self.sources.fill(resource))
        except InvalidConfiguration as error:
            self._say(Severity.ERROR, element, error.message, error.remedy)
            return
        if path is None:
            what = f"no console is started: {resource!r} is not a file of this machine"
            self._say(Severity.WARNING, element, what, "use a path, or file: and a path")
        else:
            self.imports.append((element, Path(self.sources.file).parent / path))

    def _attribute(self, element: Element, name: str) -> str:
        given = element.attributes.get(name)
        return "" if given is None else given.text.strip()

    def _say(self, severity: Severity, element: Element, what: str, remedy: str = "") -> None:
        self.findings.add(severity, self.sources.file, element.line, element.path, what, remedy)
