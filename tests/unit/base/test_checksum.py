from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from entrepot.base.checksum import crc32, quickest


@given(some.binary(max_size=5000), some.integers(0, 5000))
def test_whatever_is_here_says_what_zlib_says_in_one_piece_and_in_two(octets: bytes, cut: int) -> None:
    assert crc32(octets) == zlib.crc32(octets)
    assert crc32(octets[cut:], crc32(octets[:cut])) == zlib.crc32(octets)
    assert crc32(memoryview(octets)) == zlib.crc32(octets)


def test_without_the_package_it_is_zlib() -> None:
    assert quickest("entrepot.no_such_package") is zlib.crc32
    assert quickest("entrepot.base.errors") is zlib.crc32  # no checksum there


def test_the_package_that_the_extra_names_is_used() -> None:
    isal = pytest.importorskip("isal.isal_zlib", reason="isal is not installed: pip install entrepot[fast]")
    assert crc32 is isal.crc32
