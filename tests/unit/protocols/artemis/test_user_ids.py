"""Ids of CORE, the ids that others know messages by, and one made of the other."""

from __future__ import annotations

from entrepot.protocols.artemis.user_ids import digits_of, identity_of, user_id_of

UUID = bytes.fromhex("65473acbc6871870a96ec941e8329b10")


def test_message_ids_are_told_apart() -> None:
    assert user_id_of(identity_of(UUID)) == UUID
    made = user_id_of("ID:host-1-2:1:1:1:1")
    assert made == user_id_of("ID:host-1-2:1:1:1:1") != user_id_of("ID:host-1-2:1:1:1:2")
    assert made.hex() == "463f0c81bb8a8f06a4925b09866b3254", "older builds and stores know it by this id"
    assert identity_of(made)[17] == "8"  # RFC 9562: made in a way of our own, of a name
    assert user_id_of("ID:" + "z" * 32) != user_id_of("ID:" + "y" * 32)


def test_what_is_no_id_has_no_digits() -> None:
    assert digits_of(UUID) == b"65473acb-c687-1870-a96e-c941e8329b10"
    assert digits_of(b"") == b""
    assert identity_of(b"short") == ""


def test_an_id_that_utf_8_cannot_say_is_one_too() -> None:
    assert len(user_id_of("\ud800")) == 16
