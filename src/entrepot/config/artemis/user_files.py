"""The files of a ``PropertiesLoginModule``, changed as Artemis' management changes them (artemis.md 7.1, 7.2).

Comments and all other lines stay. Each file is replaced whole or not at all, the roles of somebody new first, and the
user first of somebody who goes: a crash between the two leaves nobody who may come in without what he should have.
What calls this does so in a thread: the disk may be slow. No message repeats a password.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidConfiguration, InvalidOption, Refused
from entrepot.config import properties
from entrepot.config.jaas import names, text_of
from entrepot.config.rewriting import mode_of, rewrite

ROUNDS: Final = 1024  # those of Artemis' default codec, PBKDF2 with SHA-1
SALT_OCTETS: Final = 32
HASH_OCTETS: Final = 64
LENGTH_MAX: Final = 1_000  # of a name or a password
OCTETS_MAX: Final = 4 << 20  # of a file: about 100,000 users


def hashed(password: str, salt: bytes) -> str:
    """Return ``password`` as ``artemis user add`` writes it: ``ENC(rounds:salt:hash)``."""
    found = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, ROUNDS, HASH_OCTETS)
    return f"ENC({ROUNDS}:{salt.hex().upper()}:{found.hex().upper()})"


class UserFiles:
    """Both files. ``users``: name and password; ``roles``: role and, with commas between, who has it."""

    def __init__(self, users: Path, roles: Path) -> None:
        self.users: Final = users
        self.roles: Final = roles

    def known(self, name: str) -> dict[str, list[str]]:
        """Return user -> roles, of ``name`` alone unless it is ""; who is not known has none.

        Raises InvalidConfiguration.
        """
        wanted = [name] if name else list(properties.parse(text_of(self.users)))
        belongs = self._belongs()
        return {user: [role for role, members in belongs.items() if user in members] for user in wanted}

    def add(self, name: str, password: str, roles: Iterable[str]) -> None:
        """Add somebody. Raises Refused, InvalidConfiguration, OSError."""
        _check(name, "user")
        if name in properties.parse(text_of(self.users)):
            raise Refused(f"AMQ229223: User {name} already exists", remedy="resetUser changes him")
        kept = _checked(password)
        self._belong(name, roles)
        self._write(self.users, {name: kept})

    def remove(self, name: str) -> None:
        """Remove somebody. Raises as `add`."""
        self._need(name)
        self._write(self.users, {name: None})
        self._belong(name, ())

    def reset(self, name: str, password: str, roles: Iterable[str] | None) -> None:
        """Give somebody another password, unless it is "", and other roles, unless they are None. Raises as `add`."""
        self._need(name)
        if password:
            self._write(self.users, {name: _checked(password)})
        if roles is not None:
            self._belong(name, roles)

    def _need(self, name: str) -> None:
        if name not in properties.parse(text_of(self.users)):
            raise Refused(f"AMQ229224: User {name} does not exist", remedy="listUser shows those that there are")

    def _belongs(self) -> dict[str, tuple[str, ...]]:
        return {role: names(members) for role, (members, _) in properties.parse(text_of(self.roles)).items()}

    def _belong(self, name: str, roles: Iterable[str]) -> None:
        """Let ``name`` have ``roles`` and no others; a role that nobody has is left out."""
        wanted = dict.fromkeys(roles)
        for role in wanted:
            _check(role, "role")
        changes: dict[str, str | None] = {}
        known = self._belongs()
        for role in dict.fromkeys([*known, *wanted]):
            members = [one for one in known.get(role, ()) if one != name]
            if role in wanted:
                members.append(name)
            if tuple(members) != known.get(role):
                changes[role] = ",".join(members) or None
        if changes:
            self._write(self.roles, changes)

    def _write(self, file: Path, changes: Mapping[str, str | None]) -> None:
        text = properties.edited(text_of(file), changes)
        if len(text) > OCTETS_MAX:
            raise Refused(f"{file.name} would be longer than {OCTETS_MAX} octets", remedy="remove users")
        try:
            place = file.resolve()  # a link stays one
            rewrite(place, text, mode_of(place))
        except OSError as error:
            raise InvalidConfiguration(
                f"cannot write {file}: {error.strerror}", remedy="let the broker write the file and its directory"
            ) from None


def _check(name: str, what: str) -> None:
    if not name or name != name.strip() or "," in name or len(name) > LENGTH_MAX or not name.isprintable():
        raise InvalidOption(
            f"{name[:40]!r} cannot be the name of a {what}", remedy="use no comma, and no blank first or last"
        )


def _checked(password: str) -> str:
    if not password or len(password) > LENGTH_MAX or "\0" in password:
        raise InvalidOption("a password is empty, too long, or has a NUL in it", remedy="give another one")
    return password
