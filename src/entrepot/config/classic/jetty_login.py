"""Who comes into a console that ``jetty.xml`` describes: a login service, constraints, and the paths that they guard.

The paths of Jetty's web applications are not those of this console. So a constraint holds for all of it, except one
that guards ``*.action`` alone, the forms of the old console that change something: that is about changing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidConfiguration
from entrepot.base.values import boolean
from entrepot.config import realm as realm_file
from entrepot.config.classic.beans import SpringBean, references, texts
from entrepot.config.classic.security import FAMILY
from entrepot.config.console import ConsoleRealm, ConsoleUser, Doubts
from entrepot.config.findings import Severity
from entrepot.config.jaas import login, names, text_of
from entrepot.config.reading import Bean, Reader
from entrepot.config.sources import Sources
from entrepot.config.vocabulary import Kind
from entrepot.config.xml import Element

FORMS: Final = "*.action"
EVERYTHING: Final = ("/", "/*")
HASH: Final = "HashLoginService"
JAAS: Final = "JAASLoginService"
CONSTRAINT: Final = "Constraint"
MAPPING: Final = "ConstraintMapping"
KNOWN: Final = {
    HASH: ("config", "name", "hotReload", "refreshInterval"),
    JAAS: ("loginModuleName", "name", "roleClassNames", "identityService"),
    CONSTRAINT: ("authenticate", "name", "roles"),
    MAPPING: ("constraint", "pathSpec"),
}
"""The properties of each bean that mean something, or nothing that anybody could miss."""


class Login:
    """Collects the beans about it, and makes a realm of them."""

    def __init__(self, sources: Sources, doubts: Doubts, named: Mapping[str, Element]) -> None:
        self.sources: Final = sources
        self.doubts: Final = doubts
        self.named: Final = named
        self.services: Final[list[SpringBean]] = []
        self.mappings: Final[list[SpringBean]] = []

    def takes(self, bean: SpringBean) -> bool:
        """Take a bean that is about logins; return whether it is one."""
        known = KNOWN.get(bean.short)
        if known is None:
            return False
        for name, element in bean.properties().items():
            if name not in known:
                self.doubts.close(element, f"the property {name!r} of {bean.short} is not understood", "take it out")
            elif name in ("hotReload", "refreshInterval"):
                self.doubts.note(element, f"{name} has no effect here: a change of the users takes a restart")
        if bean.short in (HASH, JAAS):
            self.services.append(bean)
        elif bean.short == MAPPING:
            self.mappings.append(bean)
        return True

    def realm(self) -> ConsoleRealm | None:
        """Return who comes in; None where no constraint asks for a login, and the broker's users do."""
        enters: list[tuple[str, ...]] = []
        changes: list[tuple[str, ...]] = []
        whole = False
        for mapping in self.mappings:
            roles = self._roles(mapping)
            if roles is None:
                continue
            paths = self._words(mapping, "pathSpec")
            whole = whole or any(path in EVERYTHING for path in paths)
            (changes if paths == [FORMS] else enters).append(roles)
        if not enters and not changes:
            return None
        element = self.mappings[0].element
        if not whole:
            self.doubts.note(element, "the login is asked for in all of the console, not on some of its paths alone")
        service = self._service(element)
        users = () if service is None else self._users(service)
        return ConsoleRealm(users=users, enters=tuple(enters), changes=tuple(changes))

    def _service(self, element: Element) -> SpringBean | None:
        if len(self.services) == 1:
            return self.services[0]
        what = "there are two login services" if self.services else "there is no login service that is known here"
        self.doubts.close(element, what, f"use one {HASH} or {JAAS}")
        return None

    def _roles(self, mapping: SpringBean) -> tuple[str, ...] | None:
        """Return who may, by a mapping's constraint; None where it asks nobody who he is."""
        constraint = self._constraint(mapping)
        if constraint is None:
            self.doubts.close(mapping.element, "the constraint of this mapping is not there", "refer to one by its id")
            return None
        try:
            asks = self._words(constraint, "authenticate") or ["false"]
            if not boolean(asks[0]):
                return None
        except ValueError as error:
            self.doubts.close(constraint.element, f"authenticate: {error}", "write true or false")
            return None
        return tuple(self._words(constraint, "roles"))

    def _constraint(self, mapping: SpringBean) -> SpringBean | None:
        said = mapping.properties().get("constraint")
        if said is None:
            return None
        inside = [child for child in said.walk() if child.name == "bean"]
        inside += [self.named[name] for one in said.walk() for name in references(one) if name in self.named]
        found = SpringBean(inside[0], self.named) if inside else None
        return found if found is not None and found.short == CONSTRAINT else None

    def _words(self, bean: SpringBean, name: str) -> list[str]:
        said = bean.properties().get(name)
        try:
            return [] if said is None else [one for text in texts(said) for one in names(self.sources.fill(text))]
        except InvalidConfiguration as error:
            self.doubts.close(bean.element, f"{name}: {error.message}", error.remedy)
            return []

    # -- users ---------------------------------------------------------------------------------------------------------

    def _users(self, service: SpringBean) -> tuple[ConsoleUser, ...]:
        return self._hashed(service) if service.short == HASH else self._jaas(service)

    def _hashed(self, service: SpringBean) -> tuple[ConsoleUser, ...]:
        said = self._words(service, "config")
        path = self.sources.local(said[0]) if said else None
        if path is None:
            self.doubts.close(service.element, "it does not say in which file the users are", "give config a path")
            return ()
        try:
            users, wrong = realm_file.read(text_of(path))
        except InvalidConfiguration as error:
            self.doubts.close(service.element, error.message, error.remedy)
            return ()
        for line, what, remedy in wrong:
            self.sources.findings.add(Severity.WARNING, str(path), line, "", what, remedy)
        return tuple(users)

    def _jaas(self, service: SpringBean) -> tuple[ConsoleUser, ...]:
        said = self._words(service, "loginModuleName")
        reader = _Doubting(self.sources, self.doubts)
        bean = Bean(Kind(JAAS), service.element)
        directory = Path(self.sources.directories.get("conf", "."))
        found = login(reader, bean, FAMILY, said[0] if said else "", directory)
        if found is None or found.users is None:
            return ()
        return tuple(ConsoleUser(user.name, user.password, user.groups) for user in found.users)


class _Doubting(Reader):
    """Lets what is wrong with ``login.config`` close the console, and leave the broker alone."""

    def __init__(self, sources: Sources, doubts: Doubts) -> None:
        super().__init__({}, (), (), sources, sources.findings)
        self.doubts: Final = doubts

    def at(self, severity: Severity, element: Element, what: str, remedy: str = "", attribute: str = "") -> None:
        if severity is Severity.ERROR:
            self.doubts.close(element, what, remedy)
        else:
            self.findings.add(severity, self.doubts.file, element.line, element.path, what, remedy)
