"""Users of the console itself: who comes in, and who may change something."""

from __future__ import annotations

import asyncio
from hashlib import md5

import pytest

pytest.importorskip("starlette")

from entrepot.base.errors import AccessDenied, InvalidOption
from entrepot.config.console import ConsoleRealm, ConsoleUser
from entrepot.console.access import Visitor
from entrepot.console.desk import Desks
from entrepot.console.gate import Gate
from entrepot.console.realm import Realm

DIGEST = md5("sesam-ö".encode("latin-1"), usedforsecurity=False).hexdigest()
USERS = (
    ConsoleUser("admin", "plain:open", ("admin",)),
    ConsoleUser("looker", f"md5:{DIGEST}", ("user",)),
    ConsoleUser("nobody", "plain:open", ("other",)),
)


def realm(*users: ConsoleUser) -> Realm:
    return Realm(ConsoleRealm(users=users or USERS, enters=(("user", "admin"),), changes=(("admin",),)))


def test_who_comes_in_has_the_password_and_a_role() -> None:
    made = realm()
    assert made.admits("admin", "open")
    assert made.admits("looker", "sesam-ö")
    for name, password in (
        ("admin", "Open"),
        ("admin", ""),
        ("looker", DIGEST),
        ("nobody", "open"),
        ("x", ""),
        ("", ""),
    ):
        assert not made.admits(name, password), name


def test_who_may_change_something_has_the_role_for_it() -> None:
    made = realm()
    assert [name for name in ("admin", "looker", "nobody", "x") if made.changes(name)] == ["admin"]


def test_a_password_in_a_form_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidOption):
        realm(ConsoleUser("a", "crypt:x"))


def test_the_gate_asks_the_realm_before_it_asks_a_broker() -> None:
    gate = Gate(Desks({}), realm=realm())

    async def log_in(name: str, password: str) -> str:
        try:
            await gate.log_in(name, password, "10.0.0.1")
        except AccessDenied as refused:
            return refused.message
        except Exception as error:  # there is no broker: it was asked for one
            return type(error).__name__
        return ""

    assert "does not know this name" in asyncio.run(log_in("admin", "wrong"))
    assert asyncio.run(log_in("admin", "open")) == "Refused"


def test_who_only_looks_is_told_so() -> None:
    gate = Gate(Desks({}), realm=realm())
    gate.of_changes(Visitor("admin", "open"))
    with pytest.raises(AccessDenied, match="looker may look and change nothing"):
        gate.of_changes(Visitor("looker", "sesam-ö"))
    Gate(Desks({})).of_changes(Visitor("", ""))
