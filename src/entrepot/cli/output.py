"""What commands write: tables and JSON to standard output, progress to standard error when somebody watches."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import click
import msgspec

from entrepot.base.spreadsheets import harmless

FORMATS: Final = ("table", "json")

output_option = click.option(
    "--output",
    "-o",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="A table for people, or JSON, one object a line, for programs.",
)

listing_option = click.option(
    "--output",
    "-o",
    type=click.Choice((*FORMATS, "csv")),
    default="table",
    show_default=True,
    help="A table for people; JSON, one object a line, or CSV with a line of names, for programs.",
)


def to_json(value: object) -> str:
    """Return ``value`` on one line."""
    return msgspec.json.encode(value).decode()


PROCESS: Final = "process"
"""Which of the processes of a broker a row is of: a column where there are several (`management/whole.py`)."""


def show(rows: Iterable[dict[str, Any]], columns: Sequence[str], output: str, *, empty: str = "nothing") -> None:
    """Write ``rows``: every field as JSON, or ``columns`` as CSV or a table (numbers right, text left)."""
    if output == "json":
        for row in rows:
            click.echo(to_json(row))
        return
    kept = list(rows)
    if any(PROCESS in row for row in kept) and PROCESS not in columns:
        columns = (*columns, PROCESS)
    if output == "csv":
        click.echo(records([columns, *([_plain(row.get(column)) for column in columns] for row in kept)]), nl=False)
        return
    if not kept:
        click.echo(empty, err=True)
        return
    from rich.console import Console  # noqa: PLC0415 - 100 ms that the other commands need not wait for
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in kept)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in kept:
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))  # Text: no markup of rich in a body
    # Into a file there is no width: a row is a line, whatever its length.
    console = Console() if sys.stdout.isatty() else Console(width=10_000, soft_wrap=True)
    console.print(table)


def records(rows: Iterable[Sequence[object]]) -> str:
    """Return ``rows`` as records of CSV."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()


def _plain(value: object) -> object:
    """Return what CSV has of a value: numbers without commas, and no text that a spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    return harmless(value if isinstance(value, str) else to_json(value))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return str(value)


class Step(Protocol):
    """Says that ``count`` more are done."""

    def __call__(self, count: int = 1) -> None:
        """Count them."""


def _in_lines(what: str, total: int | None) -> Step:
    began = time.monotonic()
    done = 0

    def step(count: int = 1) -> None:
        nonlocal done
        if not count:
            return
        done += count
        of = "" if total is None else f" of {total:,}"
        click.echo(f"{done:,}{of} {what} ({time.monotonic() - began:.0f} s)", err=True)

    return step


@contextmanager
def progress(what: str, total: int | None = None, *, lines: bool = False) -> Iterator[Step]:
    """Show how far long work is, on standard error if that is a terminal; ``total`` None: only a count and a rate.

    ``lines``: elsewhere every step writes a line, for logs; for work whose steps take seconds.
    """
    if not sys.stderr.isatty():
        yield _in_lines(what, total) if lines else lambda count=1: None
        return
    from rich.console import Console  # noqa: PLC0415 - see show
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count=1: bar.advance(task, count)
