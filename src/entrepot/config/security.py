"""Users and rights as a file describes them: one of `config/users.py`, or the plugins of ``activemq.xml``."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.provenance import NOWHERE, Spot
from entrepot.core.security.access import Access, Rule
from entrepot.core.security.directory import Certified, Directory, Subject, User
from entrepot.model.address import UNTYPED


class UserEntry(Struct, frozen=True):
    """Somebody who may come in. ``password``: as it is kept, see `core/security/passwords.py`."""

    name: str
    password: str
    groups: tuple[str, ...] = ()
    at: Spot = NOWHERE

    def __repr__(self) -> str:
        return f"UserEntry({self.name!r}, groups={self.groups})"  # a configuration is printed; a password is not


class CertificateEntry(Struct, frozen=True):
    """Somebody who comes in by his certificate. ``written``: see `core/security/directory.py`."""

    name: str
    written: str
    groups: tuple[str, ...] = ()
    at: Spot = NOWHERE


class SubjectEntry(Struct, frozen=True):
    """Whom somebody stands for who does not say who he is, or cannot prove it."""

    name: str
    groups: tuple[str, ...] = ()


class RuleEntry(Struct, frozen=True):
    """Rights (bits of `core/security/access.py`) on what ``pattern`` covers, by group; ``routing`` UNTYPED: of any.

    ``said``: the permissions of Artemis that they come from, by group; None where they come from elsewhere.
    """

    pattern: str
    grants: tuple[tuple[str, int], ...]
    routing: int = UNTYPED
    said: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    at: Spot = NOWHERE


class Security(Struct, frozen=True, kw_only=True):
    """Who may come in and what he may do. ``users`` None: everybody comes in; ``rules`` None: he may do everything.

    ``names_suffice``: who gives a name and no password is ``anonymous`` too. ``narrowest``: only the most specific of
    the rules that cover a destination counts (Artemis), not all of them (Classic). ``certified``: who comes over TLS,
    by his certificate alone, None for by his password; ``passwords``: whether others come in at all. ``reloads``: the
    files of users count anew when they were changed. ``files``: those of users and of roles that may be changed.
    """

    users: tuple[UserEntry, ...] | None = None
    anonymous: SubjectEntry | None = None
    stranger: SubjectEntry | None = None
    names_suffice: bool = False
    rules: tuple[RuleEntry, ...] | None = None
    temporary: RuleEntry | None = None
    narrowest: bool = False
    certified: tuple[CertificateEntry, ...] | None = None
    passwords: bool = True
    reloads: bool = False
    files: tuple[str, str] | None = None

    @property
    def guards(self) -> bool:
        """Whether anybody is asked who he is, or kept from anything."""
        return self.users is not None or self.rules is not None

    def succeeding(self, former: Security) -> Security:
        """Return what holds after ``former`` when the files were read again: its users, unless they count anew."""
        if self.guards != former.guards:  # that takes a restart
            return former
        if self.reloads:
            return self
        return replace(
            self,
            users=former.users,
            anonymous=former.anonymous,
            stranger=former.stranger,
            names_suffice=former.names_suffice,
            certified=former.certified,
            passwords=former.passwords,
        )


OPEN = Security()


def protect(security: Security, access: Access) -> None:
    """Make it true in a broker. Raises InvalidOption for a password that is kept in a form that is not known."""
    directory = None
    if security.users is not None:
        directory = Directory(
            [User(one.name, one.password, one.groups, at=one.at) for one in security.users],
            anonymous=_subject(security.anonymous),
            stranger=_subject(security.stranger),
            names_suffice=security.names_suffice,
            certified=_certified(security),
            passwords=security.passwords,
        )
    rules = None if security.rules is None else [_rule(one) for one in security.rules]
    temporary = None if security.temporary is None else _rule(security.temporary)
    access.protect(directory, rules, temporary, narrowest=security.narrowest)


def _certified(security: Security) -> list[Certified] | None:
    if security.certified is None:
        return None
    return [Certified(one.name, one.written, one.groups, one.at) for one in security.certified]


def _subject(entry: SubjectEntry | None) -> Subject | None:
    return None if entry is None else Subject(entry.name, entry.groups)


def _rule(entry: RuleEntry) -> Rule:
    grants: dict[str, int] = {}
    for group, rights in entry.grants:
        grants[group] = grants.get(group, 0) | rights
    said = None if entry.said is None else dict(entry.said)
    return Rule(entry.pattern, entry.routing, grants, said, entry.at)
