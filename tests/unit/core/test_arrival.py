"""What plugins change in every message that comes in: whether it is kept, and the brokers that it passed."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AccessDenied
from entrepot.core.arrival import AS_SENT, DURABLE, NOT_DURABLE, Stamps
from kit import Rig


@pytest.mark.parametrize(
    ("persistence", "kept"), [(AS_SENT, [False, True]), (DURABLE, [True] * 2), (NOT_DURABLE, [False] * 2)]
)
def test_messages_are_as_persistent_as_the_broker_says(persistence: int, kept: list[bool]) -> None:
    rig = Rig()
    stamps = Stamps("b", persistence)
    found = []
    for durable in (False, True):
        message = rig.message("x", "q", durable=durable)
        stamps.put_on(message, "u")
        found.append(message.durable)
    assert found == kept


def test_advisories_of_others_stay_as_they_are() -> None:
    message = Rig().message("x", "ActiveMQ.Advisory.Connection", durable=False)
    Stamps("b", DURABLE, "BrokerPath").put_on(message, "u")
    assert not message.durable
    assert message.rare is None


def test_the_names_of_brokers_are_collected() -> None:
    message = Rig().message("x", "q")
    Stamps("a", path_property="way").put_on(message, "u")
    Stamps("b", path_property="way").put_on(message, "u")
    assert message.fact("way") == "a,b"
    assert message.fact("BrokerPath") is None


def test_what_nobody_sent_is_refused_where_a_user_is_demanded() -> None:
    stamps = Stamps("b", users=True, demands=True)
    mine, brought, nobodys = (Rig().message("x", "q") for _ in range(3))
    stamps.put_on(mine, "ada")
    stamps.put_on(brought, None)
    with pytest.raises(AccessDenied, match="AMQ229225"):
        stamps.put_on(nobodys, "")


def test_the_user_is_written_on_a_message_where_that_is_asked_for() -> None:
    stamps = Stamps("b", users=True)
    mine, brought, nobodys = (Rig().message("x", "q") for _ in range(3))
    stamps.put_on(mine, "ada")
    stamps.put_on(brought, None)
    stamps.put_on(nobodys, "")
    assert [one.fact("JMSXUserID") for one in (mine, brought, nobodys)] == ["ada", None, None]
    brought.annotate("JMSXUserID", "eve")
    stamps.put_on(brought, "")
    assert brought.fact("JMSXUserID") == ""  # a name that its sender made up
