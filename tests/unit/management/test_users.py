"""Users in the files of a login module: listed and changed, never shown with a password, nothing else touched."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from entrepot.base.errors import EntrepotError, InvalidConfiguration
from entrepot.config import properties
from entrepot.config.artemis import user_files
from entrepot.config.artemis.security import FAMILY
from entrepot.config.artemis.user_files import UserFiles, hashed
from entrepot.config.model import BrokerConfig
from entrepot.config.security import Security
from entrepot.core.operators.listing import Arguments
from entrepot.core.security.passwords import Kept
from entrepot.management.users import Users

USERS = "# who may come in\nboss = manager\nlong = a\\\n  b\n\n! last\n"
ROLES = "all = boss, long\nshop:long\n"


@pytest.fixture
def files(tmp_path: Path) -> UserFiles:
    (tmp_path / "users").write_text(USERS)
    (tmp_path / "roles").write_text(ROLES)
    (tmp_path / "users").chmod(0o640)
    return UserFiles(tmp_path / "users", tmp_path / "roles")


class Clerk:
    """Asks for the operations of one broker."""

    def __init__(self, files: UserFiles | None, *, reloads: bool = True) -> None:
        names = None if files is None else (str(files.users), str(files.roles))
        config = BrokerConfig(security=Security(users=(), reloads=reloads, files=names))
        self.reloaded = 0
        self.users = Users(lambda: config, self.reload)

    def reload(self) -> None:
        self.reloaded += 1

    def do(self, name: str, *given: Any) -> Any:
        async def run() -> object:
            work: Any = self.users.operations()[name](Arguments(name, list(given)))
            until = time.monotonic() + 10
            while not work.step():
                assert time.monotonic() < until
                await asyncio.sleep(work.pause / 1e9)
            return work.result()

        return asyncio.run(run())

    def fail(self, name: str, *given: Any) -> str:
        with pytest.raises(EntrepotError) as found:
            self.do(name, *given)
        return str(found.value)


def test_users_come_change_and_go(files: UserFiles) -> None:
    clerk = Clerk(files)
    assert json.loads(clerk.do("listUser", "")) == [
        {"username": "boss", "roles": ["all"]},
        {"username": "long", "roles": ["all", "shop"]},
    ]
    assert clerk.do("addUser", "ann", "secret", "shop, new", False) is None
    assert json.loads(clerk.do("listUser", "ann")) == [{"username": "ann", "roles": ["shop", "new"]}]
    kept = properties.parse(files.users.read_text())["ann"][0]
    assert "secret" not in kept
    assert Kept("pbkdf2:" + kept.removeprefix("ENC(").removesuffix(")")).matches("secret")
    clerk.do("resetUser", "ann", None, "all", False)
    assert json.loads(clerk.do("listUser", "ann")) == [{"username": "ann", "roles": ["all"]}]
    assert properties.parse(files.users.read_text())["ann"][0] == kept
    clerk.do("resetUser", "ann", "other", None)
    assert properties.parse(files.users.read_text())["ann"][0] == "other"
    clerk.do("removeUser", "ann")
    assert (files.users.read_text(), files.roles.read_text()) == (USERS, "all = boss,long\nshop = long\n")
    assert files.users.stat().st_mode & 0o777 == 0o640
    assert clerk.reloaded == 4


def test_what_is_wrong_is_refused_and_no_password_is_repeated(files: UserFiles) -> None:
    clerk = Clerk(files)
    assert "AMQ229223" in clerk.fail("addUser", "boss", "x", "all", False)
    assert "AMQ229224" in clerk.fail("removeUser", "nobody")
    assert "AMQ229224" in clerk.fail("resetUser", "nobody", "x", "all")
    for name in ("", "a,b", " a", "a\nb"):
        assert "cannot be the name" in clerk.fail("addUser", name, "x", "all", False)
    assert "cannot be the name of a role" in clerk.fail("addUser", "ann", "x", "r\ns", False)
    assert "a password is empty" in clerk.fail("addUser", "ann", "", "all", False)
    told = clerk.fail("addUser", "ann", 123456, "all", False)
    assert "argument 2" in told
    assert "123456" not in told
    assert (files.users.read_text(), files.roles.read_text()) == (USERS, ROLES)
    assert clerk.reloaded == 0
    assert "login.config" in Clerk(None).fail("listUser", "")


def test_a_crash_between_the_two_files_leaves_nobody_with_less_than_he_should_have(
    files: UserFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = user_files.rewrite

    def replace(file: Path, text: str, mode: int) -> None:
        order.append(file.name)
        real(file, text, mode)

    monkeypatch.setattr(user_files, "rewrite", replace)
    files.add("ann", "x", ["all"])
    files.remove("ann")
    assert order == ["roles", "users", "users", "roles"]


def test_a_file_that_cannot_be_written_or_is_too_long_is_told_of(
    files: UserFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, text: str, mode: int) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(user_files, "rewrite", full)
    with pytest.raises(InvalidConfiguration, match="no space"):
        files.add("ann", "x", ["all"])
    monkeypatch.setattr(user_files, "OCTETS_MAX", 10)
    with pytest.raises(EntrepotError, match="longer than 10 octets"):
        files.add("ann", "x", ["all"])


def test_a_change_without_reload_waits_for_a_restart(files: UserFiles) -> None:
    clerk = Clerk(files, reloads=False)
    clerk.do("addUser", "ann", "x", "all", True)
    assert clerk.reloaded == 0


@pytest.mark.parametrize("name", ["a", "ä€\U0001f600", "a b", "a=b:c", "#a", "a\\b", " a"])
@pytest.mark.parametrize("value", ["x", " x", "x\\", "ENC(1:2:3)", "a=b", "ü\t\n"])
def test_what_is_written_is_read_back(name: str, value: str) -> None:
    text = properties.edited(USERS, {name: value, "boss": None})
    found = {each: said for each, (said, _) in properties.parse(text).items()}
    assert found == {"long": "ab", name: value}
    assert text.isascii()
    assert text.startswith("# who may come in\nlong = a\\\n  b\n")
    assert properties.edited("", {"a": None}) == ""


def test_hashes_are_those_that_the_reader_of_the_file_takes() -> None:
    assert hashed("secret", bytes(32)).startswith("ENC(1024:0000")
    assert FAMILY.reloads
