"""Connectors: what they offer where they dial."""

from __future__ import annotations

from typing import cast

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.uri import Endpoint, parse
from entrepot.cluster.networks.opening import offered


@pytest.mark.parametrize(
    ("options", "interval", "expected"),
    [
        ("", 10 * SECOND, 30_000),
        ("", 60 * SECOND, 30_000),
        ("", 500 * MILLISECOND, 1_500),
        ("?wireFormat.maxInactivityDuration=0", 500 * MILLISECOND, 0),
        ("?wireFormat.maxInactivityDuration=90000", SECOND, 90_000),
    ],
)
def test_a_quiet_peer_is_heard_in_each_interval_of_supervision(options: str, interval: int, expected: int) -> None:
    place = cast("Endpoint", parse(f"tcp://b:61616{options}"))
    offer = offered(place, interval)
    assert offer.max_inactivity_duration == expected
    assert offer.host == "b"
