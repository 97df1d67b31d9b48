"""``bootstrap.xml``, by which Artemis is started: which ``broker.xml``, whose users, and where the web console is.

It stands beside ``broker.xml`` in the directory ``etc`` of an instance. The console's users are the broker's here, as
they are there; of ``<web>`` the places and their TLS are obeyed. What is not known and might guard it closes it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from entrepot.base.errors import InvalidConfiguration, InvalidOption, InvalidURI
from entrepot.base.uri import Endpoint, parse
from entrepot.config.artemis.bootstrap_elements import KINDS, SPACE, SPACES
from entrepot.config.artemis.masks import decrypting
from entrepot.config.artemis.reading import PartReader
from entrepot.config.console import (
    CLOSED,
    ConsolePlace,
    ConsoleRealm,
    ConsoleSettings,
    ConsoleTls,
    ConsoleUser,
    Doubts,
    otherwise,
    versions,
)
from entrepot.config.findings import Severity
from entrepot.config.reading import Bean, Reader
from entrepot.config.security import Security
from entrepot.config.sources import Sources
from entrepot.config.vocabulary import Kind
from entrepot.config.xml import Element
from entrepot.config.xml import parse as parse_xml

FILE: Final = "bootstrap.xml"
DOMAIN: Final = "activemq"
OTHERS: Final = ("basic-security", "security-manager")
CONSOLE: Final = "console"
PARTS: Final = ("activemq-branding", "artemis-plugin")
"""Applications that are part of the console, in releases before 2.38."""
METRICS: Final = "metrics"
Users = Callable[[Reader, Bean, str], Security | None]
"""From an entry of ``login.config`` to who comes in by it; what is wrong is a finding of the reader about the bean."""
STORES: Final = {"keyStorePath": "certificate", "trustStorePath": "trust"}
PASSWORDS: Final = {"keyStorePassword": "password", "trustStorePassword": "trust_password"}


class Bootstrap:
    """One such file, parsed."""

    def __init__(self, root: Element, path: Path) -> None:
        self.root: Final = root
        self.path: Final = path

    @classmethod
    def beside(cls, file: str) -> Bootstrap | None:
        """Return the one in the directory of ``file``, None where there is none. Raises InvalidConfiguration."""
        path = Path(file).resolve().parent / FILE
        try:
            return cls(parse_xml(path.read_bytes(), str(path)), path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidConfiguration(f"cannot read {path}: {error.strerror}", remedy="check its rights") from None

    def domain(self) -> str:
        """Return which entry of ``login.config`` counts. Raises InvalidConfiguration for another manager of users."""
        for child in self.root.children:
            if child.name in OTHERS:
                raise InvalidConfiguration(
                    f"{self.path}:{child.line}: users are kept by <{child.name}>, which is not known here",
                    remedy="use <jaas-security> with a PropertiesLoginModule",
                )
            if child.name == "jaas-security" and "domain" in child.attributes:
                return child.attributes["domain"].text
        return DOMAIN

    def broker(self, sources: Sources) -> Path:
        """Return the ``broker.xml`` that it starts. Raises InvalidConfiguration."""
        servers = self.root.named("server")
        given = servers[0].attributes.get("configuration") if servers else None
        line = servers[0].line if servers else self.root.line
        if given is None:
            raise InvalidConfiguration(
                "it does not say which configuration to start",
                remedy='write <server configuration="file:DIRECTORY/broker.xml"/>',
                file=str(self.path),
                line=line,
            )
        self.place(sources)
        try:
            path = sources.local(sources.fill(given.text))
        except InvalidConfiguration as error:
            raise InvalidConfiguration(error.message, remedy=error.remedy, file=str(self.path), line=line) from None
        if path is None:
            what = f"{given.text!r} is not a file of this machine"
            raise InvalidConfiguration(what, remedy="use file: and a path", file=str(self.path), line=line)
        return self.path.parent / path

    def place(self, sources: Sources) -> None:
        """Let the placeholders of Artemis' start script be where this file is, unless somebody says otherwise."""
        etc = self.path.resolve().parent
        instance = sources.environment.get("ARTEMIS_INSTANCE") or str(etc.parent)
        for name, value in {
            "artemis.instance": instance,
            "artemis.instance.etc": str(etc),
            "artemis.URI.instance": f"file:{instance}",
        }.items():
            if name not in sources.properties:
                sources.give(name, value)

    def console(self, sources: Sources, users: Users | None) -> ConsoleSettings | None:
        """Return where the console is, None where it is nowhere. What is not done as written is a finding.

        ``users``: who comes in by an entry of ``login.config``, None where the broker asks for that itself.
        """
        sources.files[self.path] = None
        started = self._started(sources)
        if started and started != Path(sources.file).name:
            what = f"the console is not started: this file is about {started}"
            remedy = "name this broker's file in <server>"
            sources.findings.add(Severity.WARNING, str(self.path), self.root.line, self.root.path, what, remedy)
            return None
        return _Web(self, sources, users).settings()

    def _started(self, sources: Sources) -> str:
        """Return the name of the file that it starts, "" where that cannot be said."""
        try:
            return self.broker(sources).name
        except InvalidConfiguration:
            self.place(sources)
            return ""


def belongs(root: Element) -> bool:
    """Say whether a file is such a one."""
    return root.name == "broker" and root.space == SPACE


class _Web(PartReader):
    """Reads the elements. A mistake in them closes the console, and leaves the broker alone."""

    def __init__(self, bootstrap: Bootstrap, sources: Sources, users: Users | None) -> None:
        super().__init__(sources, KINDS, SPACES)
        self.bootstrap: Final = bootstrap
        self.users: Final = users
        self.doubts: Final = Doubts(sources.findings, str(bootstrap.path))

    def at(self, severity: Severity, element: Element, what: str, remedy: str = "", attribute: str = "") -> None:
        given = element.attributes.get(attribute)
        line = element.line if given is None else given.line
        path = f"{element.path}/@{attribute}" if given is not None else element.path
        if severity is Severity.ERROR:
            self.doubts.closed = True
            severity, what, remedy = Severity.WARNING, f"{what}: {CLOSED}", otherwise(remedy)
        self.findings.add(severity, self.doubts.file, line, path, what, remedy)

    def part(self, kind: Kind, element: Element) -> Bean:
        """Do the same with values in ``ENC()`` read by the codec that the element names."""
        codec = element.attributes.get("passwordCodec")
        before, self.sources.decrypt = (
            self.sources.decrypt,
            decrypting("" if codec is None else codec.text, self.sources),
        )
        try:
            return super().part(kind, element)
        finally:
            self.sources.decrypt = before

    def settings(self) -> ConsoleSettings | None:
        """Return what the file says."""
        root = self.bootstrap.root
        webs: list[Bean] = []
        for child in root.children:
            if child.name == "web":
                webs.append(self.part(self.kinds["web"], child))
            elif child.name in self.kinds:
                self.part(self.kinds[child.name], child)
            elif child.name not in OTHERS:  # `domain` answers for those, where users count at all
                self.doubts.warn(child, f"<{child.name}> has no effect here: components of Artemis are Java classes")
        if not webs:
            return None
        places = [place for bean in self._bindings(webs) if (place := self._place(*bean)) is not None]
        realm = self._realm(webs[0])
        if self.doubts.closed or not places:
            return None
        element = webs[0].element
        return ConsoleSettings(
            places=tuple(places), realm=realm, file=self.doubts.file, line=element.line, path=element.path
        )

    def _realm(self, web: Bean) -> ConsoleRealm | None:
        """Return who comes in where the broker asks nobody: Artemis' console asks even then."""
        if self.users is None:
            return None
        try:
            found = self.users(self, web, self.bootstrap.domain())
        except InvalidConfiguration as error:
            self.error(web, error.message, error.remedy)
            return None
        if found is None or found.anonymous is not None:
            return None
        return ConsoleRealm(users=tuple(ConsoleUser(one.name, one.password, one.groups) for one in found.users or ()))

    def _bindings(self, webs: list[Bean]) -> list[tuple[Bean, str]]:
        """Return what says where it listens, with the attribute that says it."""
        found: list[tuple[Bean, str]] = []
        for web in webs:
            inside = web.many("binding")
            found += [(bean, "uri") for bean in inside]
            for name in (*STORES, *PASSWORDS, "clientAuth", "bind") if inside else ():
                if name in web.values:
                    self.warn(web, f"{name} has no effect: the bindings say it", "write it there", name)
            if web.text("bind") and not inside:
                self._applications(web)
                found.append((web, "bind"))
            elif not inside:
                self.at(Severity.WARNING, web.element, "no console is started: nothing says where", "add a <binding>")
        return found

    def _place(self, bean: Bean, attribute: str) -> ConsolePlace | None:
        """Return the place of one binding; None, and a finding, where it cannot be opened."""
        if attribute == "uri":
            self._applications(bean)
        text = bean.text(attribute)
        try:
            place = parse(text)
            if not isinstance(place, Endpoint) or place.scheme not in ("http", "https") or place.port < 0:
                raise InvalidOption(f"{text!r} is no place", remedy="write http://HOST:PORT or https://HOST:PORT")
            tls = self._tls(bean)
            return ConsolePlace(
                host=place.host,
                port=place.port,
                tls=tls if place.scheme == "https" else None,
                file=self.doubts.file,
                line=bean.line(attribute),
                path=bean.path(attribute),
            )
        except (InvalidConfiguration, InvalidOption, InvalidURI) as error:
            self.at(Severity.WARNING, bean.element, f"this place is not opened: {error.message}", error.remedy)
            return None

    def _tls(self, bean: Bean) -> ConsoleTls:
        """Return the TLS of a binding. Raises InvalidOption, InvalidConfiguration."""
        values: dict[str, Any] = {}
        for name, field in STORES.items():
            path = self.sources.local(bean.text(name)) if bean.text(name) else None
            if path is None and bean.text(name):
                raise InvalidOption(f"{bean.text(name)!r} is not a file of this machine", remedy="use a path")
            values[field] = "" if path is None else str(path)
        for name, field in PASSWORDS.items():
            values[field] = bean.text(name)
        included, excluded = bean.text("includedTLSProtocols"), bean.text("excludedTLSProtocols")
        return ConsoleTls(
            **values,
            need_client=bool(bean.get("clientAuth", False)),
            protocols=versions(included, excluded),
            ciphers=bean.text("includedCipherSuites"),
        )

    def _applications(self, bean: Bean) -> None:
        """Name what else than the console a binding serves."""
        names = [one.text("url") or one.text("name") or one.text("war") for one in bean.many("app")]
        for one, name in zip(bean.many("app"), names, strict=True):
            if name == METRICS:
                self.note(one, "metrics are at /metrics here, in every place of the console")
            elif name not in (CONSOLE, *PARTS):
                self.warn(one, f"the web application {name!r} is not served here", "take it out")
        if CONSOLE not in names:
            self.note(bean, "the console is served here too: each place serves all of it")
