"""`entrepot probe`: is a broker well? For health checks of containers, load balancers and monitors."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.managing import Desk, at_desk
from entrepot.cli.output import listing_option, show

FACTS: Final = "name,nodeID,active,addressMemoryUsagePercentage,diskStoreUsage"
COLUMNS: Final = ("check", "value", "limit", "well")

Finding = dict[str, Any]


@click.command(
    epilog="""Examples:

    \b
    entrepot probe
    entrepot probe --master --memory-below 80 --store-below 90
    entrepot probe --queue orders --waiting-below 1000 --consumers 2 --oldest-below 60
    entrepot probe --backup --peers 3
    entrepot probe --bridges --output json
    """
)
@click.option("--master", is_flag=True, help="It is master of its store, or has it alone.")
@click.option("--backup", is_flag=True, help="A backup of it is known in its cluster.")
@click.option(
    "--peers", type=click.IntRange(1), metavar="N", help="Its cluster has so many nodes at least, itself too."
)
@click.option("--memory-below", type=click.IntRange(1, 100), metavar="PERCENT", help="Messages take less memory.")
@click.option("--store-below", type=click.IntRange(1, 100), metavar="PERCENT", help="The store is less full.")
@click.option("--bridges", is_flag=True, help="Every bridge to another broker is open.")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="This queue exists and is not paused. Repeatable."
)
@click.option("--waiting-below", type=click.IntRange(0), metavar="N", help="Fewer messages wait in each of these.")
@click.option("--consumers", type=click.IntRange(1), metavar="N", help="Each of them has so many consumers at least.")
@click.option("--oldest-below", type=click.IntRange(1), metavar="S", help="The next message of each is younger.")
@url_option
@listing_option
def probe(
    *,
    master: bool,
    backup: bool,
    peers: int | None,
    memory_below: int | None,
    store_below: int | None,
    bridges: bool,
    queues: tuple[str, ...],
    waiting_below: int | None,
    consumers: int | None,
    oldest_below: int | None,
    url: str,
    output: str,
) -> None:
    """Ask a broker whether it is well: exit code 0 when all that was asked for holds, 1 when not, 2 for a wrong option.

    Without options it is well when it answers. Each check is a line of the output; all that were asked for are made.
    docs/managing.md compares it with `artemis check`.
    """
    limits = {"waiting": waiting_below, "consumers": consumers, "oldest_s": oldest_below}
    if not queues and any(value is not None for value in limits.values()):
        raise click.UsageError("--waiting-below, --consumers and --oldest-below are about queues: add --queue NAME")

    async def look(desk: Desk) -> list[Finding]:
        facts = await desk.ask("broker", "describeAttributes", FACTS)
        found = [_finding("answers", facts["name"], True)]
        if master:
            role = str((await desk.ask("broker", "describeAvailability")).get("role"))
            found.append(_finding("master", role, role in ("alone", "primary")))
        if backup or peers is not None:
            found += await _cluster(desk, str(facts["nodeID"]), backup=backup, peers=peers)
        if memory_below is not None:
            memory = int(facts["addressMemoryUsagePercentage"])
            found.append(_finding("memory_percent", memory, memory < memory_below, memory_below))
        if store_below is not None:
            store = round(100 * float(facts["diskStoreUsage"]), 1)
            found.append(_finding("store_percent", store, store < store_below, store_below))
        if bridges:
            for row in await desk.ask("broker", "describeBridges"):
                found.append(_finding(f"bridge {row['connector']}", row["state"], row["state"] == "open"))
        for name in queues:
            found += await _queue(desk, name, limits)
        return found

    found = at_desk(url, look)
    if output == "table":
        for row in found:
            click.echo(_line(row))
    else:
        show(found, COLUMNS, output)
    bad = [row["check"] for row in found if not row["well"]]
    if bad:
        raise Failure(f"not well: {', '.join(bad)}", remedy="`entrepot explain QUEUE` says why messages wait")


async def _cluster(desk: Desk, own: str, *, backup: bool, peers: int | None) -> list[Finding]:
    """Return what the topology says of the node ``own`` and of how many there are."""
    nodes = json.loads(await desk.ask("broker", "listNetworkTopology"))
    found = []
    if backup:
        known = next((str(one["backup"]) for one in nodes if one["nodeID"] == own and one.get("backup")), "")
        found.append(_finding("backup", known or "none", bool(known)))
    if peers is not None:
        found.append(_finding("peers", len(nodes), len(nodes) >= peers, peers))
    return found


async def _queue(desk: Desk, name: str, limits: dict[str, int | None]) -> list[Finding]:
    try:
        row = await desk.ask(f"queue.{name}", "describe")
    except InvalidDestination as error:
        return [_finding(f"queue {name}", _told(error), False)]
    found = [_finding(f"queue {name}", "paused" if row["paused"] else "exists", not row["paused"])]
    waiting, least, oldest = limits["waiting"], limits["consumers"], limits["oldest_s"]
    if waiting is not None:
        found.append(_finding(f"waiting {name}", row["waiting"], row["waiting"] < waiting, waiting))
    if least is not None:
        found.append(_finding(f"consumers {name}", row["consumers"], row["consumers"] >= least, least))
    if oldest is not None:
        age = row["oldest_ms"] / 1000 if row["waiting"] else 0
        found.append(_finding(f"oldest_s {name}", age, age < oldest, oldest))
    return found


def _finding(check: str, value: object, well: bool, limit: int | None = None) -> Finding:
    return {"check": check, "value": value, "limit": limit, "well": well}


def _line(row: Finding) -> str:
    limit = "" if row["limit"] is None else f" (limit {row['limit']})"
    return f"{'well' if row['well'] else 'BAD '}  {row['check']}: {row['value']}{limit}"


def _told(error: EntrepotError) -> str:
    return error.message
