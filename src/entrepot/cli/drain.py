"""`entrepot drain`: a node of a cluster gives all its messages to another one."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.managing import at_desk, tell
from entrepot.cli.output import output_option, show
from entrepot.cli.status_page import SCHEMES, status_of

PLAN: Final = ("queue", "messages", "octets", "stays")
QUEUES: Final = ("queue", "moved", "left", "there", "first", "last", "done")
LOOK_S: Final = 0.3
OVER: Final = ("done", "failed", "aborted", "idle", "interrupted")


@click.command(
    epilog="""Examples:

    \b
    entrepot drain --dry-run
    entrepot drain --url stomp://mq1:61616 --to mq2:61616
    entrepot drain --resume
    entrepot drain --abort
    entrepot drain --status --url http://broker-b:8162
    """
)
@click.option("--to", default="", metavar="NODE", help="The id or the place of the other node; without, the first.")
@click.option("--dry-run", is_flag=True, help="Show what would move, and what would stay and why.")
@click.option("--status", is_flag=True, help="Show how far it is.")
@click.option("--resume", is_flag=True, help="Go on after a crash of the node, or after it failed.")
@click.option("--abort", is_flag=True, help="Stop: what was moved stays there, the rest stays here.")
@click.option("--no-wait", is_flag=True, help="Begin, and do not wait for the end.")
@url_option
@output_option
def drain(
    *, to: str, dry_run: bool, status: bool, resume: bool, abort: bool, no_wait: bool, url: str, output: str
) -> None:
    """Give all messages of the node at --url to another node of its cluster.

    Each queue moves in its order, to the queue of the same name there, which is made if there is none. A message is
    settled here when the other node has it on disk; a crash of either loses none, and nothing comes twice, but where a
    drain that broke off goes on to another node, or consumers here go on. The node goes on serving: stop its clients
    first if it is to be empty.

    Prepared transactions go first, each with what it sends and what it has taken, and their coordinator ends them at
    the other node. What repeats stays, and a transaction that the other node does not take; --status says why.

    What a reader holds by lease, and what a writer has staged, stays: a drain waits for whoever did something with it
    within 15 seconds, moves what he gives back, and ends then. --dry-run and --status say whose it is and what to do.
    The command fails if something stays: the store of this node is still needed.

    A backup that gives away what it took over (<scale-down>) has no port but its status page: ask that for --status.
    """
    if sum((dry_run, status, resume, abort)) > 1:
        raise click.UsageError("--dry-run, --status, --resume and --abort are different things: give one")
    if url.startswith(SCHEMES) and not status:
        raise click.UsageError("a status page only tells: of a broker's drain it answers to --status alone")
    if dry_run:
        show(_ask(url, "plan", ""), PLAN, output, empty="nothing to move")
        return
    if status:
        _told(_given_away(url) if url.startswith(SCHEMES) else _ask(url, "status", ""), output)
        return
    if abort:
        done = _ask(url, "abort", "")
        tell(f"aborted: what moved is at {done['place']}, the rest is here: {_figures(done)}", done, output)
        return
    found = _ask(url, "resume" if resume else "begin", to)
    while not no_wait and found["state"] not in OVER:
        time.sleep(LOOK_S)
        found = _ask(url, "status", "")
        if output != "json":
            why = f": {found['why']}" if found["why"] else ""
            click.echo(f"{found['state']}: {_figures(found)}{why}", err=True)
    _told(found, output)
    if found["state"] == "failed":
        raise Failure(f"the drain failed: {found['why']}", remedy="entrepot drain --resume goes on, --abort forgets it")
    kept = sum(int(row["messages"]) for row in found["stays"])
    if kept and found["state"] == "done":
        raise Failure(
            f"the drain is done, and {kept:,} messages stay that somebody holds",
            remedy="keep the store of this node; what is said of each above says what to do, then drain again",
        )


def _ask(url: str, verb: str, to: str) -> Any:
    return at_desk(url, lambda desk: desk.ask("broker", "drain", verb, to))


def _given_away(url: str) -> dict[str, Any]:
    """Return what a backup gives away that took over and has no port but that of its status page. Raises Failure."""
    found = status_of(url).get("drain")
    if found is None:
        what = "the broker there gives away nothing that it took over"
        raise Failure(what, remedy="of one that serves ask by STOMP: entrepot drain --status --url stomp://HOST:61613")
    return {"queues": [], **found}


def _told(found: dict[str, Any], output: str) -> None:
    if output == "json":
        show([found], (), output)
        return
    show(found["queues"], QUEUES, output, empty="no queue moved")
    who = f" to {found['place']}" if found["place"] else ""
    click.echo(f"{found['state']}{who}: {_figures(found)}", err=True)
    for queue, why in found["refused"].items():
        click.echo(f"{queue} stays: {why}", err=True)
    for row in found.get("stays", ()):  # a status page of an older broker has none
        click.echo(f"{row['messages']:,} of {row['queue']} stay: {row['stays']}", err=True)
    if found["why"]:
        click.echo(found["why"], err=True)
    for branch in found["branches"]:
        if branch["state"] != "moved":
            why = f": {branch['why']}" if branch["why"] else ""
            click.echo(f"the prepared transaction {branch['xid']} is {branch['state']}{why}", err=True)


def _figures(found: dict[str, Any]) -> str:
    """Return how much moved and is left, in words."""
    said = f"{found['moved']:,} moved, {found['left']:,} left"
    kept = sum(int(row["messages"]) for row in found.get("stays", ()))
    if kept:
        said += f", {kept:,} stay"
    if found["branches_moved"] or found["prepared"]:
        said += f"; prepared transactions: {found['branches_moved']:,} moved, {found['prepared']:,} left"
    return said
