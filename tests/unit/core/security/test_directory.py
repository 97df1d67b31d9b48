"""Who is let in."""

from __future__ import annotations

import pytest

from entrepot.base.errors import UserUnknown
from entrepot.core.security.directory import Directory, Subject, User
from entrepot.core.security.passwords import hashed
from kit import admitted

HASHED = hashed("secret", b"0123456789abcdef")


def directory(**given: Subject) -> Directory:
    return Directory([User("app", HASHED, ["shop"]), User("boss", "plain:manager", ["admins", "shop"])], **given)


def test_user_and_password_must_be_right() -> None:
    known = directory()
    assert admitted(known, "app", "secret").name == "app"
    assert list(admitted(known, "boss", "manager").groups) == ["admins", "shop"]
    for name, password in (
        ("app", "Secret"),
        ("app", None),
        ("boss", ""),
        ("nobody", "secret"),
        ("", ""),
        (None, "secret"),
    ):
        with pytest.raises(UserUnknown, match=r"User name \[(null|app|boss|nobody|)\] or password is invalid\."):
            admitted(known, name, password)


def test_who_says_nothing_may_be_anonymous_and_who_says_something_wrong_a_stranger() -> None:
    nobody, stranger = Subject("anonymous", ["guests"]), Subject("guest", ["strangers"])
    known = directory(anonymous=nobody)
    assert admitted(known, None, None) is nobody
    with pytest.raises(UserUnknown):
        admitted(known, "app", "wrong")
    with pytest.raises(UserUnknown):
        admitted(known, "", "")
    both = directory(anonymous=nobody, stranger=stranger)
    assert admitted(both, "app", "wrong") is stranger
    assert admitted(both, "app", "secret").name == "app"


def test_a_name_alone_may_do_for_a_guest() -> None:
    nobody = Subject("guest")
    assert admitted(Directory([User("app", HASHED)], anonymous=nobody, names_suffice=True), "app", None) is nobody
    with pytest.raises(UserUnknown):
        admitted(Directory([User("app", HASHED)], anonymous=nobody), "app", None)


def test_a_password_that_was_right_is_recognised_without_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    known = directory()
    admitted(known, "app", "secret")
    looked: list[str] = []
    monkeypatch.setattr(known.users["app"].kept.__class__, "matches", lambda kept, password: looked.append(password))
    assert admitted(known, "app", "secret").name == "app"
    assert looked == []
    with pytest.raises(UserUnknown):
        admitted(known, "app", "guess")
    assert looked == ["guess"]


def test_plain_passwords_cost_nothing_and_are_not_counted() -> None:
    known = Directory([User("app", "plain:secret")])
    for _ in range(30):
        with pytest.raises(UserUnknown):
            admitted(known, "app", "guess")
