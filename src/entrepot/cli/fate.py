"""What became of a message that is on no broker any more: what the traces of the brokers say about it, by time.

A broker forgets what it settled. One that runs with ``--trace DIR`` wrote down when and by whom; its answer to `where`
names the directory. That is read here where this machine has it, and a broker that cannot say is named with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from entrepot.base.errors import EntrepotError
from entrepot.core.events.trace import SETTLED

LINES_MOST: Final = 60
BRIDGE: Final = "bridge to "  # how a trace names a consumer that is one


def fates(
    answers: Sequence[Mapping[str, Any]], message: str | int, copies: Sequence[Path]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows of all traces about ``message``, by time; and for each broker without any: why it has none.

    ``answers``: what brokers said to `where`; ``copies``: directories that hold traces of brokers elsewhere.
    """
    found: list[dict[str, Any]] = []
    silent: dict[str, str] = {}
    for answer in answers:
        try:
            rows, why = _told(answer, message, copies)
        except EntrepotError as error:
            rows, why = [], f"its trace cannot be read: {error}"
        found += rows
        if why:
            silent[answer["broker"]] = why
    late = _late(found)
    found.sort(key=lambda row: row["time"] + late.get(row["broker"], timedelta()))
    return found, silent


def _late(rows: Sequence[Mapping[str, Any]]) -> dict[str, timedelta]:
    """Return by how much the clock of a broker is behind at least, as nothing is accepted before it was sent there.

    A message on its way is faster than clocks agree, also on one machine, where each notes milliseconds of its own.
    """
    sent = {
        (row["broker"], str(row["consumer"]).removeprefix(BRIDGE)): row["time"]
        for row in reversed(rows)
        if row["what"] == "delivered" and str(row["consumer"] or "").startswith(BRIDGE)
    }
    late: dict[str, timedelta] = {}
    for row in sorted((row for row in rows if row["what"] == "accepted"), key=lambda row: row["time"]):
        went = sent.get((row["came_from"], row["broker"]))
        if went is not None and row["broker"] not in late:
            behind = went + late.get(row["came_from"], timedelta()) - row["time"]
            if behind >= timedelta():
                late[row["broker"]] = behind + timedelta(microseconds=1)
    return late


def _told(answer: Mapping[str, Any], message: str | int, copies: Sequence[Path]) -> tuple[list[dict[str, Any]], str]:
    kept = str(answer.get("trace", ""))
    places = [*([Path(kept)] if kept else []), *copies]
    if not places:
        return [], "it runs without --trace DIR, and remembers only what it holds"
    from entrepot.pipeline import traces  # noqa: PLC0415 - needs pyarrow, which asking a broker does not

    paths = next((found for place in places if (found := traces.segments_of(place, answer["node"]))), [])
    if not paths:
        where = f"its trace is in {kept} on its own machine" if kept else "none of the traces named is its own"
        return [], f"{where}; name a copy of that directory with --trace"
    rows = traces.story(paths, message)
    if rows:
        return rows, ""
    return [], f"its trace in {paths[0].parent} has no record of it: older than the trace, or its segment was dropped"


def told(row: Mapping[str, Any]) -> str:
    """Return one row as a line for people."""
    when: datetime = row["time"].astimezone(UTC)
    return f"{when:%Y-%m-%d %H:%M:%S.%f} {row['broker']}: {_what(row)}"


def _what(row: Mapping[str, Any]) -> str:
    what = str(row["what"])
    queue = str(row["queue"] or "")
    who = str(row["consumer"] or "")
    beyond = who.removeprefix(BRIDGE) if who.startswith(BRIDGE) else ""
    if what == "accepted":
        return f"accepted into {queue}" + (f", from {row['came_from']}" if row["came_from"] else "")
    if what == "delivered" and beyond:
        return f"sent on to {beyond}, from {queue}"
    if what == "delivered":
        settled = ", which settled it (automatic acknowledgement)" if row["flags"] & SETTLED else ""
        return f"delivered from {queue} to {who}{settled}"
    if what == "acknowledged" and beyond:
        return f"confirmed by {beyond}, so settled here"
    if what == "acknowledged":
        return f"acknowledged by {who or 'a lease or a transaction whose consumer had left'}, so settled"
    if what == "duplicate":
        came = f", from {row['came_from']}" if row["came_from"] else ""
        return f"dropped as a repetition of what {queue} has or had already{came}"
    why = f": {row['why']}" if row["why"] else ""
    return f"{what}{f' in {queue}' if queue else ''}{why}"
