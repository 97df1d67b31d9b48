"""The processes of one broker (`run --processes`) asked as one, over a connection to each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from entrepot.core.operators.together.asker import Asker
from entrepot.core.operators.together.whole import Asking, Whole


def whole_of(
    name: str, parts: Mapping[int, Asker], failures: Mapping[int, str], place: Callable[[int], str] = str
) -> Whole:
    """Return the broker whose processes ``parts`` asks, all of them at the same time where it can; see `Whole`."""
    whole = Whole(name, parts, failures, place)
    whole.side_by_side = _side_by_side
    return whole


async def _side_by_side(asking: list[Asking]) -> list[Any]:
    return list(await asyncio.gather(*asking, return_exceptions=True))


def sockets_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the sockets of the processes of which one tells ``facts``; none where they are elsewhere, or another's.

    ``facts``: what it answers to `describeAvailability`. Elsewhere is another machine; another's: another user's.
    """
    sockets = [str(one) for one in facts.get("sockets", ())] if "processes" in facts else []
    return sockets if sockets and os.access(os.path.dirname(sockets[0]), os.X_OK) else []
