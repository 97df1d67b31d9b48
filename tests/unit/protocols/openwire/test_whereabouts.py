"""What brokers and clients of this kind say about zones, in a field that ActiveMQ passes over."""

from __future__ import annotations

import msgspec
import pytest

from entrepot.protocols.openwire.whereabouts import ZONES_TOKEN, Zones, read_zones


def test_what_a_broker_says_is_read() -> None:
    said = Zones("near", {"tcp://a:61616": "far"})
    assert read_zones(ZONES_TOKEN + msgspec.json.encode(said)) == said
    assert read_zones(ZONES_TOKEN + b"{}") == Zones()


@pytest.mark.parametrize(
    "token",
    [None, b"", b"entrepot-zones", b"other\n{}", ZONES_TOKEN, ZONES_TOKEN + b"[1]", ZONES_TOKEN + b'{"here":1}'],
)
def test_what_cannot_be_read_says_nothing(token: bytes | None) -> None:
    assert read_zones(token) is None
