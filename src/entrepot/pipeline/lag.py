"""How many messages wait for a query, from the progress that Spark reports of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def lag(progress: Mapping[str, Any] | None) -> dict[str, int]:
    """Return how many messages wait behind the last batch, by source: queue or topic, ``#``, subscription.

    ``progress`` is ``query.lastProgress``, or what a listener is given, or its JSON read. Sources of other formats are
    not in it; neither is one of which no broker was asked yet. With PySpark before 4.2 it is empty.
    """
    found: dict[str, int] = {}
    for source in (progress or {}).get("sources", ()):
        end, latest = (_offsets(_field(source, name)) for name in ("endOffset", "latestOffset"))
        if end is None or latest is None:
            continue
        name = str(latest["source"])
        reached: Mapping[str, int] = end["shards"]
        first: Mapping[str, int] = latest.get("first", {})
        waiting = sum(
            max(0, position - reached.get(shard, first.get(shard, 0))) for shard, position in latest["shards"].items()
        )
        found[name] = found.get(name, 0) + waiting
    return found


def _field(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _offsets(given: Any) -> Mapping[str, Any] | None:
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError:
            return None
    ours = isinstance(given, Mapping) and "source" in given and isinstance(given.get("shards"), Mapping)
    return given if ours else None
