"""Users of a broker.xml, listed and changed while the broker runs: their files, read and written in a thread.

One change after the other, whoever asks: each reads the file that it replaces. What was written holds when the
configuration was read again, which is asked for at once where the login module says ``reload``; else after a restart,
as with Artemis.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import Refused
from entrepot.config.artemis.user_files import SALT_OCTETS, UserFiles, hashed
from entrepot.config.jaas import names
from entrepot.core.operators.control import json_of

if TYPE_CHECKING:
    from entrepot.config.model import BrokerConfig
    from entrepot.core.operators.listing import Arguments

PAUSE: Final = 5 * MILLISECOND  # between two looks whether the thread is done

log: Final = logging.getLogger("entrepot.config")


class InThread:
    """Work that a thread does; it is looked after every `pause`, and holds nobody up."""

    pause = PAUSE

    def __init__(self, do: Callable[[], object], then: Callable[[], object] = lambda: None) -> None:
        """``then`` is called in the loop when that is done."""
        self._future: Final = asyncio.get_running_loop().run_in_executor(None, do)
        self._then: Final = then
        self._result: object = None

    def step(self) -> bool:
        """Return whether it is done. Raises EntrepotError."""
        if not self._future.done():
            return False
        self._result = self._future.result()
        self._then()
        return True

    def result(self) -> object:
        """Return what came of it."""
        return self._result


class Users:
    """Those of one broker. ``config``: what holds now; ``reload``: has it read again."""

    def __init__(self, config: Callable[[], BrokerConfig | None], reload: Callable[[], object]) -> None:
        self._config: Final = config
        self._reload: Final = reload
        self._lock: Final = threading.Lock()

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done, by the names of Artemis."""
        return {
            "listUser": self._list,
            "addUser": self._add,
            "removeUser": self._remove,
            "resetUser": self._reset,
        }

    def _files(self) -> UserFiles:
        config = self._config()
        found = None if config is None else config.security.files
        if found is None:
            raise Refused(
                "the users of this broker are not in the files of a PropertiesLoginModule of login.config",
                remedy="change them where they are: docs/security.md",
            )
        return UserFiles(Path(found[0]), Path(found[1]))

    def _list(self, given: Arguments) -> InThread:
        """Take ([name]): names and roles, never passwords."""
        files, name = self._files(), given.text(0, "")
        return InThread(lambda: self._alone(lambda: _as_json(files.known(name))))

    def _add(self, given: Arguments) -> InThread:
        """Take (name, password, roles with commas between, whether the password is kept as it is)."""
        files, name, roles = self._files(), given.text(0), names(given.text(2))
        kept = _kept(given.secret(1), plainly=given.flag(3))
        return self._change("added", name, lambda: files.add(name, kept(), roles))

    def _remove(self, given: Arguments) -> InThread:
        """Take (name)."""
        files, name = self._files(), given.text(0)
        return self._change("removed", name, lambda: files.remove(name))

    def _reset(self, given: Arguments) -> InThread:
        """Take (name, password, roles [, whether the password is kept as it is]); null leaves what there is."""
        files, name = self._files(), given.text(0)
        roles = None if len(given) < 3 or given.values[2] is None else names(given.text(2))
        kept = _kept(given.secret(1, ""), plainly=given.flag(3, True))
        return self._change("changed", name, lambda: files.reset(name, kept(), roles))

    def _change(self, what: str, name: str, do: Callable[[], object]) -> InThread:
        return InThread(partial(self._alone, do), partial(self._changed, what, name))

    def _alone(self, do: Callable[[], object]) -> object:
        with self._lock:
            return do()

    def _changed(self, what: str, name: str) -> None:
        config = self._config()
        reloads = config is not None and config.security.reloads
        log.info(
            "an operator %s the user %r%s", what, name, "" if reloads else ": that takes a restart, without reload"
        )
        if reloads:
            self._reload()


def _kept(password: str, *, plainly: bool) -> Callable[[], str]:
    """Return what makes the text that is kept of ``password``; a hash takes a ms, and is made in the thread."""
    return lambda: password if plainly or not password else hashed(password, secrets.token_bytes(SALT_OCTETS))


def _as_json(known: Mapping[str, list[str]]) -> str:
    return json_of([{"username": name, "roles": roles} for name, roles in known.items()])
