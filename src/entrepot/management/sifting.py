"""A long list of a broker asked for page by page: the asking side of `core/operators/sifting.py`."""

from __future__ import annotations

import json
from typing import Any, Final

from entrepot.core.operators.together.asker import Asker

PAGE: Final = 500  # rows of one answer: the most that there are in one


BUSIEST: Final = json.dumps({"sortColumn": "messagesInTransit", "sortOrder": "desc"})
"""Of consumers: first who has most that is not acknowledged."""


async def sifted(asker: Asker, operation: str, most: int, **wanted: object) -> dict[str, Any]:
    """Return the first answer with the rows of all pages, ``most`` of them at most. Raises EntrepotError.

    ``operation``: of the broker; ``wanted``: what its argument has beside ``skip`` and ``most``. Where the list gets
    shorter while it is read, there are fewer rows than the ``count`` of the answer.
    """
    told = await _page(asker, operation, wanted, 0, most)
    rows = list(told["rows"])
    while len(rows) < min(most, told["count"]):
        page = await _page(asker, operation, wanted, len(rows), most - len(rows))
        if not page["rows"]:
            break
        rows += page["rows"]
    return {**told, "rows": rows}


async def _page(asker: Asker, operation: str, wanted: dict[str, object], skip: int, most: int) -> dict[str, Any]:
    asked = json.dumps({**wanted, "skip": skip, "most": min(PAGE, most)})
    page: dict[str, Any] = await asker.ask("broker", operation, asked)
    return page
