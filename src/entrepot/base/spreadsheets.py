"""CSV that a spreadsheet opens: what strangers wrote is text there, and nothing that it carries out."""

from __future__ import annotations

from typing import Final

FORMULAS: Final = (
    *("=", "+", "-", "@", "\t", "\r", "\n"),
    *"\uff1d\uff0b\uff0d\uff20",
)  # a queue may be called =HYPERLINK(...)


def harmless(text: str) -> str:
    """Return ``text``, with a ``'`` before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(FORMULAS) else text
