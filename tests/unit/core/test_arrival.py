"""What plugins change in every message that comes in: whether it is kept, and the brokers that it passed."""

from __future__ import annotations

import pytest

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
        stamps.put_on(message)
        found.append(message.durable)
    assert found == kept


def test_advisories_of_others_stay_as_they_are() -> None:
    message = Rig().message("x", "ActiveMQ.Advisory.Connection", durable=False)
    Stamps("b", DURABLE, "BrokerPath").put_on(message)
    assert not message.durable
    assert message.rare is None


def test_the_names_of_brokers_are_collected() -> None:
    message = Rig().message("x", "q")
    Stamps("a", path_property="way").put_on(message)
    Stamps("b", path_property="way").put_on(message)
    assert message.fact("way") == "a,b"
    assert message.fact("BrokerPath") is None
