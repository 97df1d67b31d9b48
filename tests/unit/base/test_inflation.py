"""Compressed bodies are opened, and never beyond the bound."""

from __future__ import annotations

import zlib

import pytest

from entrepot.base.errors import LimitExceeded, MalformedFrame
from entrepot.base.inflation import DEFLATE_RATIO_MAX, inflate

BODY = b"to be or not to be " * 100


@pytest.mark.parametrize("level", [0, 1, 9])
def test_what_was_compressed_comes_back(level: int) -> None:
    assert inflate(zlib.compress(BODY, level), len(BODY)) == BODY


def test_one_octet_above_the_bound_is_refused() -> None:
    octets = zlib.compress(BODY)
    with pytest.raises(LimitExceeded, match=f"more than {len(BODY) - 1} octets"):
        inflate(octets, len(BODY) - 1)


def test_a_bomb_is_refused_before_it_is_kept() -> None:
    bomb = zlib.compress(bytes(20_000_000), 9)
    assert len(bomb) * DEFLATE_RATIO_MAX > 20_000_000, "no stream inflates to more than the ratio says"
    with pytest.raises(LimitExceeded):
        inflate(bomb, 1_000_000)


def test_what_is_no_stream_or_ends_too_early_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="cannot be inflated"):
        inflate(b"not zlib", 100)
    with pytest.raises(MalformedFrame, match="ends too early"):
        inflate(zlib.compress(BODY)[:-6], len(BODY))


def test_a_stream_that_was_flushed_will_do_where_that_is_said() -> None:
    stream = zlib.compressobj()
    octets = stream.compress(BODY) + stream.flush(zlib.Z_SYNC_FLUSH)
    assert inflate(octets, len(BODY), unended=True) == BODY
    with pytest.raises(MalformedFrame, match="ends too early"):
        inflate(octets, len(BODY))
