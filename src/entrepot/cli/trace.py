"""`entrepot trace`: what the traces of brokers say, for people and as Parquet. Needs pyarrow, and no Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from entrepot.base.errors import InvalidOption
from entrepot.cli.output import output_option, show

SHOWN: Final = ("time", "broker", "what", "message", "queue", "who", "why")


@click.group()
def trace() -> None:
    """Read what `entrepot run --trace DIR` wrote. See docs/audit.md for audits, reports and plans."""


@trace.command("show")
@click.argument("places", nargs=-1, required=True, metavar="DIR...")
@click.option("--message", metavar="ID", help="Only the message with this id, on every broker.")
@click.option("--queue", metavar="NAME", help="Only this queue, or this address where a message found no queue.")
@click.option("--what", metavar="KIND", help="Only records of this kind: accepted, delivered, acknowledged, dead ...")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Show so many at most.")
@output_option
def show_trace(
    *, places: tuple[str, ...], message: str | None, queue: str | None, what: str | None, limit: int, output: str
) -> None:
    """Show the records of traces, by time.

    DIR is what --trace was given, or one segment; several are shown as one.
    """
    from entrepot.core.events.trace import KINDS  # noqa: PLC0415 - `entrepot trace --help` need not load pyarrow
    from entrepot.pipeline import traces  # noqa: PLC0415

    if what is not None and what not in KINDS:
        raise InvalidOption(f"{what!r} is no kind of record", remedy="one of " + ", ".join(KINDS[1:]))
    found: list[dict[str, Any]] = []
    numbers: set[tuple[str, int]] = set()
    if message is not None:
        for table in traces.read(places):
            numbers |= traces.numbers_of(table, message)
        if not numbers:
            click.echo(f"no message {message} was accepted while there was a trace", err=True)
    more = False
    for table in traces.read(places):  # again: a trace may be more than memory holds
        rows = traces.chosen(table, numbers if message is not None else None, queue, what)
        found += [row_of(row) for row in rows.slice(0, limit).to_pylist()]
        found.sort(key=lambda row: row["time"])
        more = more or len(rows) > limit or len(found) > limit
        del found[limit:]
    if more:
        click.echo(f"the first {limit} of more; --limit shows further ones", err=True)
    show(found, SHOWN, output)


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record as it is shown."""
    sequence = row["message_sequence"]
    given = (
        None if row["message_prefix"] is None else row["message_prefix"] + ("" if sequence is None else str(sequence))
    )
    time: datetime = row["time"].astimezone(UTC)
    return {
        "time": time.strftime("%Y-%m-%d %H:%M:%S.%f"),
        "broker": row["broker"],
        "what": row["what"],
        "message": given or (f"#{row['number']}" if row["number"] else ""),
        "queue": row["queue"] or "",
        "who": row["consumer"] or row["came_from"] or "",
        "why": row["why"] or "",
    }


@trace.command()
@click.argument("places", nargs=-1, required=True, metavar="DIR...")
@click.option("--expect", metavar="LINK", help="A link that was noted earlier, here or in an audit: is it still there?")
@output_option
@click.pass_context
def verify(ctx: click.Context, *, places: tuple[str, ...], expect: str | None, output: str) -> None:
    """Check that traces are as they were written; exit code 1 if not.

    Each closed segment is sealed with what it holds and with the one before it. The last link stands for the whole
    trace: note it where who could write here cannot, and give it to --expect later. (A link that was noted goes when
    --trace-limit drops its segment.)
    """
    from entrepot.io import seals  # noqa: PLC0415 - as above
    from entrepot.io.traces import SUFFIX  # noqa: PLC0415
    from entrepot.pipeline import traces  # noqa: PLC0415

    brokers: dict[str, list[seals.Sealed]] = {}
    for path in traces.segments(places):
        stem = str(path.parent / path.name.removesuffix(SUFFIX).rpartition(".")[0])
        brokers.setdefault(stem, []).append(seals.look(path))
    faults = [said for row in brokers.values() for said in seals.wrong(row)]
    links = {link for row in brokers.values() for one in row for link in (one.before, one.link)}
    if expect is not None and expect.lower() not in links:
        faults.append(f"the link {expect} is not there: it was written anew, or its segment was dropped for room")
    rows = [
        {
            "broker": Path(stem).name,
            "segments": len(row),
            "sealed": sum(bool(one.link) for one in row),
            "last link": next((one.link for one in reversed(row) if one.link), ""),
        }
        for stem, row in brokers.items()
    ]
    show(rows, ("broker", "segments", "sealed", "last link"), output)
    for said in faults:
        click.echo(said, err=True)
    if faults:
        ctx.exit(1)


@trace.command()
@click.argument("places", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The Parquet file to write; there must be none yet.",
)
def convert(*, places: tuple[str, ...], target: Path) -> None:
    """Write traces as one Parquet file, every name spelt out, for other programs."""
    from entrepot.pipeline import traces  # noqa: PLC0415 - as above

    if target.exists():
        raise InvalidOption(f"{target} is there already", remedy="name another file, or remove it first")
    rows = traces.to_parquet(places, target)
    click.echo(f"{rows} records in {target}", err=True)
