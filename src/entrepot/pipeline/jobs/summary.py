"""What the archive and replay jobs report: as text, as JSON, and as a page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.jobs import pages
from entrepot.pipeline.jobs.archive import Batch
from entrepot.pipeline.jobs.compaction import Compacted
from entrepot.pipeline.jobs.layout import partition_of
from entrepot.pipeline.jobs.replay import Counted, Replayed

SUFFIXES: Final = (".txt", ".json", ".html")

Table = tuple[str, Sequence[Mapping[str, Any]]]
"""A heading and rows that have the same columns."""


class Written(msgspec.Struct):
    """What was archived from one destination."""

    destination: str
    messages: int = 0
    octets: int = 0
    files: int = 0
    batches: int = 0
    hours: int = 0
    messages_s: float = 0.0  # while it was being written


class Tally:
    """Counts batches as they come to their places."""

    def __init__(self, destinations: Sequence[str]) -> None:
        self.written = {destination: Written(destination) for destination in destinations}
        self._seconds = dict.fromkeys(destinations, 0.0)
        self._hours: dict[str, dict[str, None]] = {destination: {} for destination in destinations}

    def add(self, destination: str, batch: Batch) -> None:
        """Count a batch."""
        one = self.written[destination]
        one.messages += batch.rows
        one.octets += sum(file.octets for file in batch.files)
        one.files += len(batch.files)
        one.batches += 1
        hours = self._hours[destination]
        hours.update(dict.fromkeys(partition_of(file.path) for file in batch.files))
        one.hours = len(hours)
        self._seconds[destination] += batch.seconds
        one.messages_s = round(one.messages / max(self._seconds[destination], 1e-3), 1)

    @property
    def messages(self) -> int:
        """How many messages there are in all."""
        return sum(one.messages for one in self.written.values())


class Report:
    """A title and tables; `write` makes a file of the kind that its name says."""

    def __init__(self, title: str, tables: Sequence[Table]) -> None:
        self.title = title
        self.tables = [(heading, list(rows)) for heading, rows in tables]
        self.made = datetime.now(UTC).isoformat(timespec="seconds")

    def json(self) -> str:
        """Return it as one line of JSON."""
        found = {"title": self.title, "made": self.made, **dict(self.tables)}
        return msgspec.json.encode(found).decode()

    def text(self) -> str:
        """Return it in columns, numbers to the right."""
        lines = [self.title]
        for heading, rows in self.tables:
            lines += ["", heading, *pages.columns(*_cells(rows))]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """Return it as a page."""
        parts: list[str] = []
        for heading, rows in self.tables:
            parts += [pages.heading(heading), pages.table(*_cells(rows))]
        return pages.page(self.title, parts)

    def write(self, path: Path) -> None:
        """Write a file; its suffix says of which kind."""
        check_suffix(path)
        path.write_text({".txt": self.text, ".json": self.json, ".html": self.html}[path.suffix](), encoding="utf-8")


def check_suffix(path: Path) -> None:
    """Raise InvalidOption for a file of no kind that is known."""
    if path.suffix not in SUFFIXES:
        raise InvalidOption(f"{path.name!r} says no kind of report", remedy="end it with .txt, .json or .html")


def of_archive(where: str, tally: Tally, compacted: Compacted | None) -> Report:
    """Return the report of an archive run."""
    tables: list[Table] = [("archived", [msgspec.to_builtins(one) for one in tally.written.values()])]
    if compacted is not None:
        tables.append(("compacted", [msgspec.to_builtins(compacted)]))
    return Report(f"{tally.messages:,} messages archived in {where}", tables)


def of_compaction(where: str, compacted: Compacted) -> Report:
    """Return the report of a compaction alone."""
    title = f"{compacted.files_before:,} files became {compacted.files_after:,} in {where}"
    return Report(title, [("compacted", [msgspec.to_builtins(compacted)])])


def of_replay(replayed: Replayed) -> Report:
    """Return the report of a replay."""
    state = "complete" if replayed.complete else "not complete; run it again to go on"
    title = f"replay {replayed.name}: {replayed.published:,} of {replayed.rows:,} messages published now, {state}"
    row = msgspec.to_builtins(replayed)
    missing = row.pop("missing")
    tables: list[Table] = [("replay", [row])]
    if missing:
        title += f"; {len(missing):,} of the ids that were asked for are not in the archive"
        tables.append(_not_there(missing))
    return Report(title, tables)


def of_count(counted: Sequence[Counted], rate: float, missing: Sequence[str] = ()) -> Report:
    """Return the report of a dry run."""
    messages = sum(one.messages for one in counted)
    title = f"{messages:,} messages would be published"
    if rate:
        title += f", in {messages / rate:,.0f} s at {rate:g} a second"
    tables: list[Table] = [("by destination", [msgspec.to_builtins(one) for one in counted])]
    if missing:
        tables.append(_not_there(missing))
    return Report(title, tables)


def _not_there(missing: Sequence[str]) -> Table:
    return "not there", [{"message_id": id_} for id_ in missing]


def _cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[object]]]:
    """Return names and rows of a table; truth in words."""
    names = list(rows[0]) if rows else []
    return names, [[_said(row[name]) for name in names] for row in rows]


def _said(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value
