"""jetty-realm.properties: users with passwords as they are, obfuscated, digested; and those that cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption
from entrepot.config.console import ConsoleUser, holds, port_of, versions
from entrepot.config.realm import read, revealed

HIDDEN = "OBF:1v2j1uum1xtv1zej1zer1xtn1uvk1v1v"  # `password`, as Jetty writes it


def obfuscated(password: str) -> str:
    """Return what Jetty's `Password.obfuscate` writes."""
    octets = password.encode()
    parts: list[str] = []
    for at, octet in enumerate(octets):
        other = octets[len(octets) - at - 1]
        if octet > 127 or other > 127:
            parts.append("U" + base36(octet * 256 + other))
        else:
            parts.append(base36((127 + octet + other) * 256 + 127 + octet - other))
    return "OBF:" + "".join(parts)


def base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits.rjust(4, "0")


def test_users_have_a_password_and_roles() -> None:
    text = f"# who\nadmin: admin, admin, ops\nhidden: {HIDDEN}\ndigest=MD5:5EBE2294ECD0E0F08EAB7690D2A6EE69,user\n"
    users, wrong = read(text)
    assert wrong == []
    assert users == [
        ConsoleUser("admin", "plain:admin", ("admin", "ops")),
        ConsoleUser("hidden", "plain:password"),
        ConsoleUser("digest", "md5:5ebe2294ecd0e0f08eab7690d2a6ee69", ("user",)),
    ]
    assert "password" not in repr(users)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("CRYPT:adpexzg3FUZAk", "hashed by CRYPT:"),
        ("MD5:xyz", "is no digest"),
        ("OBF:?", "is not what Jetty writes"),
        ("", "he has no password"),
    ],
)
def test_who_cannot_be_looked_at_is_named_with_his_line(written: str, message: str) -> None:
    users, ((line, what, remedy),) = read(f"good: word\nbad: {written}, admin\n")
    assert [user.name for user in users] == ["good"]
    assert line == 2
    assert message in what
    assert "'bad'" in what
    assert remedy


def test_an_obfuscated_password_is_the_one_that_jetty_hid() -> None:
    assert obfuscated("password") == HIDDEN
    assert revealed(HIDDEN) == "password"
    assert revealed("as it is") == "as it is"


@given(st.text(max_size=20))
def test_what_jetty_hides_comes_back(password: str) -> None:
    assert revealed(obfuscated(password)) == password


@given(st.text(max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    read(f"a: {text}")
    read(f"a: OBF:{text}")


def test_versions_of_tls_are_those_that_are_left() -> None:
    assert versions("", "") == versions("", "SSLv3,TLSv1,TLSv1.1") == versions("TLSv1.2 TLSv1.3", "") == ""
    assert versions("TLSv1.1,TLSv1.2", "") == "TLSv1.2"
    assert versions("", "TLSv1.2") == "TLSv1.3"
    for included, excluded in (("TLSv1", ""), ("", "TLSv1.2,TLSv1.3"), ("TLSv1.2", "TLSv1.2")):
        with pytest.raises(InvalidOption):
            versions(included, excluded)


def test_a_port_is_a_number_of_sixteen_bits() -> None:
    assert port_of(" 8161 ") == 8161
    for text in ("", "x", "65536", "-1", "1" * 40, "²"):
        with pytest.raises(InvalidOption):
            port_of(text)


def test_of_each_group_of_roles_one_is_needed() -> None:
    assert holds(("a",), ())
    assert holds(("a",), (("a", "b"), ("*",)))
    assert not holds(("a",), (("a",), ("b",)))
    assert not holds((), ((),))
