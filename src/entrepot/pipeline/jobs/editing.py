"""What a replay says otherwise of each message that it sends again: headers and properties, set or left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.rows import DUPLICATE, MEANT, RESERVED, escaped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Edits = Mapping[str, str | None]
"""Name -> what it is from now on; None: nothing."""

HEADERS: Final = {
    "JMSCorrelationID": "correlation_id",
    "JMSPriority": "priority",
    "JMSReplyTo": "reply_to",
    "JMSType": "type",
    "JMSXGroupID": "group_id",
}
"""Headers, by the column that a message has for them; everything else is a property."""
PRIORITIES: Final = tuple("0123456789")
SCHEDULING: Final = "AMQ_SCHEDULED_"
NOT_AGAIN: Final = (*sorted(RESERVED), DUPLICATE, "AMQ_SCHEDULED_ID")
"""What belongs to the way of the first sending, and would change or stop the second; all of `SCHEDULING` too."""


def checked(edits: Edits) -> dict[str, str | None]:
    """Return ``edits`` in the order of names. Raises InvalidOption for what the sink would refuse in their midst."""
    for name, value in edits.items():
        if not _is_editable(name):
            known = ", ".join(HEADERS)
            raise InvalidOption(f"{name[:40]!r} cannot be edited", remedy=f"name a property, or one of {known}")
        escaped(name + (value or ""))
        number = value if name == "JMSPriority" else None
        if number is not None and number not in PRIORITIES:
            raise InvalidOption(f"{number[:40]!r} is no priority", remedy="give 0 to 9")
    return dict(sorted(edits.items()))


def _is_editable(name: str) -> bool:
    if name in HEADERS:
        return True
    return bool(name) and name not in (*NOT_AGAIN, *MEANT) and not name.startswith((SCHEDULING, "JMS"))


def properties(column: Column, edits: Edits) -> Column:
    """Return a map of properties as ``edits`` want it."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    named = [name for name in edits if name not in HEADERS]
    if not named:
        return column
    kept = f.map_filter(column, lambda name, value: ~name.isin(named))
    said = [f.lit(one) for name in named if (value := edits[name]) is not None for one in (name, value)]
    return f.map_concat(kept, f.create_map(*said)) if said else kept


def headers(rows: DataFrame, edits: Edits) -> DataFrame:
    """Return messages with headers as ``edits`` want them."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    kinds = dict(rows.dtypes)
    for name, value in edits.items():
        if name in HEADERS:
            column = HEADERS[name]
            rows = rows.withColumn(column, f.lit(value).cast(kinds[column]))
    return rows
