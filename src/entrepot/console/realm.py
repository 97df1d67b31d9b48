"""Users of the console itself, where a configuration gives it some: looked at before the broker is asked."""

from __future__ import annotations

import hashlib
from typing import Final

from entrepot.base.scram import same
from entrepot.config.console import ConsoleRealm, ConsoleUser, holds
from entrepot.config.realm import MD5_KEPT
from entrepot.core.security.passwords import Kept


class Realm:
    """Who comes in, and who may change something."""

    def __init__(self, settings: ConsoleRealm) -> None:
        """Raises InvalidOption for a password that is kept in a form that is not known."""
        self.settings: Final = settings
        self._users: Final = {user.name: _Known(user) for user in settings.users}

    def admits(self, name: str, password: str) -> bool:
        """Return whether somebody comes in."""
        user = self._users.get(name)
        if user is None or not user.is_his(password):
            return False
        return holds(user.roles, self.settings.enters)

    def changes(self, name: str) -> bool:
        """Return whether who came in may change something."""
        user = self._users.get(name)
        return user is not None and holds(user.roles, self.settings.changes)


class _Known:
    def __init__(self, user: ConsoleUser) -> None:
        form, _, rest = user.password.partition(":")
        self.roles: Final = user.roles
        self._digest: Final = rest.encode() if form == MD5_KEPT else b""
        self._kept: Final = None if form == MD5_KEPT else Kept(user.password)

    def is_his(self, password: str) -> bool:
        if self._kept is not None:
            return self._kept.matches(password)
        octets = password.encode("latin-1", "replace")  # as Jetty digests it
        return same(self._digest, hashlib.md5(octets, usedforsecurity=False).hexdigest().encode())
