"""What happens to messages, in the log: not every line that a peer could cause."""

from __future__ import annotations

import logging

import pytest

from entrepot.base.environment import SECOND, Clock, Instant
from entrepot.core.events.facts import (
    MESSAGE_DEAD,
    MESSAGE_DROPPED,
    MESSAGE_DUPLICATE,
    MESSAGE_EXPIRED,
    MessageFact,
    Place,
)
from entrepot.management.fact_log import FactLog


class Hands(Clock):
    """A clock that is set."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> Instant:
        return Instant(self.at)

    def wall(self) -> int:
        return 0


@pytest.mark.parametrize(("kind", "most"), [(MESSAGE_DEAD, 1), (MESSAGE_DROPPED, 1), (MESSAGE_DUPLICATE, 100)])
def test_a_flood_makes_few_lines_and_they_say_how_many_there_were(
    kind: int, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Hands()
    heard = FactLog(clock)
    fact = MessageFact(kind, Place("orders", "orders"), None, "tries-used-up")
    with caplog.at_level(logging.INFO, "entrepot.broker"):
        for _ in range(1000):
            heard.heard(fact)
        assert len(caplog.records) == most
        clock.at = 11 * SECOND
        heard.heard(fact)
    assert len(caplog.records) == most + 1
    assert f"({1000 - most} more since it was said last)" in caplog.records[-1].getMessage()
    assert caplog.records[0].getMessage() == f"{fact.name} orders code=tries-used-up"


def test_what_is_ordinary_is_told_to_those_who_look_closely(caplog: pytest.LogCaptureFixture) -> None:
    heard = FactLog(Hands())
    with caplog.at_level(logging.INFO, "entrepot.broker"):
        heard.heard(MessageFact(MESSAGE_EXPIRED, Place("orders", "orders"), None))
    assert caplog.records == []
    assert heard.counts == {"message.expired": 1}
