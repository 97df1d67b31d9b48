"""What a spreadsheet would carry out is text in CSV."""

from __future__ import annotations

import pytest

from entrepot.base.spreadsheets import harmless


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1"])
def test_what_would_be_carried_out_has_a_mark_before_it(text: str) -> None:
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "orders", "a=1", "'=1", "0-1"])
def test_all_else_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text
