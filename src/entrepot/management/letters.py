"""Dead letters by the queue that they died in and the cause: which condition says just those of one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

EXPIRED: Final = "expired"  # the cause of what has none: its time was over


def selector_of(row: Mapping[str, Any]) -> str:
    """Return the selector of a group of letters: those that died in one queue of one cause, whatever its numbers.

    ``row``: with ``origin`` and ``cause``, as `describeLetters` tells it.
    """
    origin = str(row["origin"]).replace("'", "''")
    cause = "".join("_" if one in "%_" else one for one in str(row["cause"])).replace("'", "''")
    parts = ["%" if one.isdigit() else one for one in cause]
    shown = "".join(part for at, part in enumerate(parts) if part != "%" or at == 0 or parts[at - 1] != "%")
    chosen = f"_AMQ_ORIG_QUEUE = '{origin}'"
    condition = "IS NULL" if row["cause"] == EXPIRED else f"LIKE '{shown}'"
    return f"{chosen} AND dlqDeliveryFailureCause {condition}"
