"""Records that no sane program wrote: their checksum is right, and what they say is not."""

from __future__ import annotations

import pytest

from entrepot.journal.record import RECORD_NAMES, crc_of, describe, payload_fits


def record(kind: int, payload: bytes) -> bytes:
    body = bytes([kind]) + payload
    return len(body).to_bytes(4, "big") + int(crc_of(body)).to_bytes(4, "big", signed=True) + body


@pytest.mark.parametrize("kind", [*RECORD_NAMES, 0, 255], ids=str)
@pytest.mark.parametrize("filling", [0, 1, 0x7F, 0xFF])
def test_a_record_that_is_too_short_is_malformed_and_nothing_behind_it_is_read(kind: int, filling: int) -> None:
    for octets in range(50):
        last = record(kind, bytes([filling]) * octets)
        assert describe(last, 0), "nothing stands behind it"
        behind = last + b"\x7f" * 64
        assert payload_fits(behind, 0) == payload_fits(last, 0), "what stands behind it does not count"
