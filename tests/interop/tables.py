"""Cells of the tables that compare values here with those of a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def cell(value: Any, home: Path, longest: int) -> str:
    """Return a cell of so many characters at most. ``home``: where the brokers ran, which says nothing to a reader."""
    text = json.dumps(value).replace(str(home), "DIR").replace("|", "\\|")
    return "`" + (text if len(text) <= longest else text[: longest - 3] + "...") + "`"
