"""Who is let in."""

from __future__ import annotations

import pytest

from entrepot.base.environment import SECOND
from entrepot.base.errors import AccessDenied, UserUnknown
from entrepot.core.directory import FAILURES_A_SECOND, Directory, Subject, User
from entrepot.core.passwords import hashed

HASHED = hashed("secret", b"0123456789abcdef")


def directory(**given: Subject) -> Directory:
    return Directory([User("app", HASHED, ["shop"]), User("boss", "plain:manager", ["admins", "shop"])], **given)


def test_user_and_password_must_be_right() -> None:
    known = directory()
    assert known.admit("app", "secret", 0).name == "app"
    assert list(known.admit("boss", "manager", 0).groups) == ["admins", "shop"]
    for name, password in (
        ("app", "Secret"),
        ("app", None),
        ("boss", ""),
        ("nobody", "secret"),
        ("", ""),
        (None, "secret"),
    ):
        with pytest.raises(UserUnknown, match=r"User name \[(null|app|boss|nobody|)\] or password is invalid\."):
            known.admit(name, password, 0)


def test_who_says_nothing_may_be_anonymous_and_who_says_something_wrong_a_stranger() -> None:
    nobody, stranger = Subject("anonymous", ["guests"]), Subject("guest", ["strangers"])
    known = directory(anonymous=nobody)
    assert known.admit(None, None, 0) is nobody
    with pytest.raises(UserUnknown):
        known.admit("app", "wrong", 0)
    with pytest.raises(UserUnknown):
        known.admit("", "", 0)
    both = directory(anonymous=nobody, stranger=stranger)
    assert both.admit("app", "wrong", 0) is stranger
    assert both.admit("app", "secret", 0).name == "app"


def test_a_name_alone_may_do_for_a_guest() -> None:
    nobody = Subject("guest")
    assert Directory([User("app", HASHED)], anonymous=nobody, names_suffice=True).admit("app", None, 0) is nobody
    with pytest.raises(UserUnknown):
        Directory([User("app", HASHED)], anonymous=nobody).admit("app", None, 0)


def test_a_password_that_was_right_is_recognised_without_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    known = directory()
    known.admit("app", "secret", 0)
    looked: list[str] = []
    monkeypatch.setattr(known.users["app"].kept.__class__, "matches", lambda kept, password: looked.append(password))
    assert known.admit("app", "secret", 1).name == "app"
    assert looked == []
    with pytest.raises(UserUnknown):
        known.admit("app", "guess", 2)
    assert looked == ["guess"]


def test_guessing_slows_down_who_guesses_and_not_those_who_were_in() -> None:
    known = directory()
    known.admit("app", "secret", 0)
    for _ in range(FAILURES_A_SECOND):
        with pytest.raises(UserUnknown):
            known.admit("nobody", "guess", SECOND)
    with pytest.raises(AccessDenied, match="too many wrong passwords"):
        known.admit("nobody", "guess", SECOND + 1)
    assert known.admit("app", "secret", SECOND + 1).name == "app"
    assert known.admit("boss", "manager", SECOND + 1).name == "boss"
    with pytest.raises(UserUnknown):
        known.admit("nobody", "guess", 2 * SECOND)


def test_plain_passwords_cost_nothing_and_are_not_counted() -> None:
    known = Directory([User("app", "plain:secret")])
    for _ in range(3 * FAILURES_A_SECOND):
        with pytest.raises(UserUnknown):
            known.admit("app", "guess", 0)
