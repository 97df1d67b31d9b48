"""Who can ask a broker, or one process of it, and a long list asked for page by page."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any, Protocol

from entrepot.core.operators.listing import PAGE_MOST


class Asker(Protocol):
    """Who can ask a broker."""

    def ask(self, resource: str, operation: str, *values: object) -> Coroutine[Any, Any, Any]:
        """Return the result of an operation. Raises EntrepotError."""


async def listed(asker: Asker, operation: str, options: str, most: int) -> list[dict[str, Any]]:
    """Return up to ``most`` rows of one of Artemis' lists (`core/operators/tables.py`). Raises EntrepotError.

    ``options``: how it is filtered and sorted, as its JSON; "" for not at all.
    """
    rows: list[dict[str, Any]] = []
    size = min(most, PAGE_MOST)
    while len(rows) < most:
        told = json.loads(await asker.ask("broker", operation, options, len(rows) // size + 1, size))
        rows += told["data"]
        if len(told["data"]) < size:
            break
    return rows[:most]
