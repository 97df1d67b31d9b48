"""The credit of a producer: how often it is asked for."""

from __future__ import annotations

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.protocols.artemis.conversation.credit import Credit
from entrepot.protocols.artemis.conversation.requests import Requests
from entrepot.protocols.artemis.packets import Packet, RequestCredits

pytestmark = pytest.mark.skipif(is_compiled(), reason="native classes take no requests that are written for a test")

WINDOW = 1 << 20


class Asked(Requests):
    """Grants what is asked for, at once."""

    def __init__(self) -> None:
        self.octets: list[int] = []

    def post(self, packet: Packet) -> bool:
        assert isinstance(packet, RequestCredits)
        self.octets.append(packet.credits)
        return True


def test_credit_is_asked_for_seldom_and_never_runs_out_while_it_is_granted() -> None:
    asked = Asked()
    credit = Credit(asked, "Q", WINDOW)
    granted = 0
    for _ in range(10_000):
        credit.spend(400)
        assert credit.balance + credit.asked <= WINDOW // 2, "more than half of the window was asked for"
        for octets in asked.octets[granted:]:
            credit.granted(octets)
            granted += 1
        assert not credit.is_empty()
    assert len(asked.octets) <= 2 + 10_000 * 400 // (WINDOW // 4)
