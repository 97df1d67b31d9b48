"""`entrepot queue`: what operators do to the queues of a running broker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.managing import Desk, at_desk, tell
from entrepot.cli.messages import selector_option
from entrepot.cli.output import listing_option, output_option, progress, show
from entrepot.management.letters import selector_of

LIST_COLUMNS: Final = ("name", "routing", "messages", "in_flight", "delayed", "leased", "consumers", "paused")
CONSUMER_COLUMNS: Final = (
    "queue",
    "connection",
    "selector",
    "priority",
    "in_flight",
    "credit",
    "delivered",
    "exclusive",
    "idle_ms",
)
LETTER_COLUMNS: Final = ("count", "origin", "cause", "last", "selector")
PAGE: Final = 500
DEAD_LETTERS: Final = "ActiveMQ.DLQ"

count_option = click.option("--count", "-n", type=click.IntRange(min=1), help="At most so many, the first ones.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask, even at a terminal.")
name_argument = click.argument("name", metavar="QUEUE")


@click.group(
    epilog="""Examples:

    \b
    entrepot queue list
    entrepot queue list 'orders.*' -o json
    entrepot queue move orders orders.eu --selector "region = 'eu'"
    entrepot queue letters                      # dead letters by queue and cause
    entrepot queue retry                        # send dead letters back to where they came from
    entrepot queue purge orders --yes
    """
)
def queue() -> None:
    """See and manage the queues of a running broker.

    QUEUE is the name of a queue, or a destination like /queue/orders. Of a topic, each subscription has a queue:
    `list` shows their names. What is in flight at a consumer, or leased, is never moved or removed.
    """


@queue.command("list")
@click.argument("pattern", default="")
@url_option
@listing_option
@click.option("--count", "-n", type=click.IntRange(min=1), help="At most so many, by name.")
@click.option("--all", "-a", "temporary", is_flag=True, help="Temporary queues and plain subscriptions of topics too.")
def list_(*, pattern: str, url: str, output: str, count: int | None, temporary: bool) -> None:
    """List all queues, or those that PATTERN matches: * is one word, > is any number of words."""
    rows = at_desk(url, lambda desk: _listed(desk, pattern, count, temporary=temporary))
    show(rows, LIST_COLUMNS, output, empty="no queues")


async def _listed(desk: Desk, pattern: str, count: int | None, *, temporary: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    last = ""
    while count is None or len(rows) < count:
        page = await desk.ask("broker", "describeQueues", pattern, last, PAGE)
        rows += [row for row in page if temporary or not row["temporary"]]
        if len(page) < PAGE:
            break
        last = page[-1]["name"]
    return rows if count is None else rows[:count]


@queue.command("show")
@name_argument
@url_option
@output_option
def show_(*, name: str, url: str, output: str) -> None:
    """Show all there is to know about a queue."""
    view = at_desk(url, lambda desk: _view(desk, name))
    if output == "json":
        show([view], (), output)
    else:
        fields = [{"field": field, "value": _told(value)} for field, value in view.items()]
        show(fields, ("field", "value"), output)


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


async def _view(desk: Desk, name: str) -> dict[str, Any]:
    view: dict[str, Any] = await desk.ask(f"queue.{name}", "describe")
    return view


@queue.command()
@click.argument("name", metavar="[QUEUE]", default="")
@url_option
@listing_option
def consumers(*, name: str, url: str, output: str) -> None:
    """List the consumers of a queue, or of all queues (the first 500; one is this command's own)."""
    rows = at_desk(url, lambda desk: desk.ask("broker", "describeConsumers", name))
    show(rows, CONSUMER_COLUMNS, output, empty="no consumers")


@queue.command()
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@url_option
@output_option
def pause(*, names: tuple[str, ...], url: str, output: str) -> None:
    """Stop delivery from queues; they go on taking messages, and stay paused over a restart."""
    _switch(names, url, output, "pause", "paused")


@queue.command()
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@url_option
@output_option
def resume(*, names: tuple[str, ...], url: str, output: str) -> None:
    """Deliver again from paused queues."""
    _switch(names, url, output, "resume", "resumed")


@queue.command()
@name_argument
@click.option("--group", default="", help="Of this group only.")
@url_option
@output_option
def regroup(*, name: str, group: str, url: str, output: str) -> None:
    """Forget which consumer owns a message group of a queue, or all of them; the next message chooses anew."""

    async def act(desk: Desk) -> None:
        if group:
            await desk.ask(f"queue.{name}", "resetGroup", group)
        else:
            await desk.ask(f"queue.{name}", "resetAllGroups")

    at_desk(url, act)
    tell(f"{name}: {group or 'all groups'} may go to another consumer", {"queue": name, "group": group}, output)


def _switch(names: tuple[str, ...], url: str, output: str, operation: str, said: str) -> None:
    async def act(desk: Desk) -> None:
        for name in names:
            await desk.ask(f"queue.{name}", operation)
            tell(f"{said} {name}", {"queue": name, "paused": operation == "pause"}, output)

    at_desk(url, act)


@queue.command()
@name_argument
@url_option
@selector_option
@count_option
@yes_option
@output_option
def purge(*, name: str, url: str, selector: str, count: int | None, yes: bool, output: str) -> None:
    """Remove the messages that wait in a queue, for good."""
    which = f" that match {selector!r}" if selector else ""
    some = f"up to {count:,} of " if count else ""
    _confirm(url, name, yes, lambda view: f"Remove {some}the {view['messages']:,} messages{which} of {name}?")

    async def act(desk: Desk) -> int:
        most = await _most(desk, name, count)
        if not selector:
            return await desk.in_chunks("purging", most, f"queue.{name}", "purge", lambda chunk: [chunk])
        return await desk.in_chunks("purging", most, f"queue.{name}", "removeMessages", lambda chunk: [selector, chunk])

    gone = at_desk(url, act)
    tell(f"removed {gone:,} messages from {name}", {"queue": name, "messages": gone}, output)


@queue.command()
@name_argument
@url_option
@click.option("--if-empty", is_flag=True, help="Only if it holds no messages.")
@click.option("--if-unused", is_flag=True, help="Only if it has no consumers and no leases.")
@yes_option
@output_option
def delete(*, name: str, url: str, if_empty: bool, if_unused: bool, yes: bool, output: str) -> None:
    """Delete a queue with all that it holds; its consumers are told, leases on it end."""
    _confirm(
        url,
        name,
        yes or if_empty,
        lambda view: f"Delete {name} with {view['messages']:,} messages and {view['consumers']} consumers?",
    )

    async def act(desk: Desk) -> int:
        view = await _view(desk, name)
        gone = 0
        if not if_empty and not (if_unused and view["consumers"]):
            gone = await desk.in_chunks("deleting", view["messages"], f"queue.{name}", "purge", lambda chunk: [chunk])
        arguments = (name, not if_unused, False, if_empty)
        return gone + int(await desk.ask("broker", "destroyQueue", *arguments, patience=None))

    gone = at_desk(url, act)
    tell(f"deleted {name} with {gone:,} messages", {"queue": name, "messages": gone}, output)


@queue.command()
@click.argument("source", metavar="QUEUE")
@click.argument("target", metavar="TARGET")
@url_option
@selector_option
@count_option
@output_option
def move(*, source: str, target: str, url: str, selector: str, count: int | None, output: str) -> None:
    """Move the messages that wait in QUEUE to the end of TARGET, in order. TARGET is made if need be."""

    async def act(desk: Desk) -> int:
        most = await _most(desk, source, count)
        return await desk.in_chunks(
            "moving", most, f"queue.{source}", "moveMessages", lambda chunk: [selector, target, chunk]
        )

    moved = at_desk(url, act)
    fields = {"queue": source, "target": target, "messages": moved}
    tell(f"moved {moved:,} messages from {source} to {target}", fields, output)


@queue.command()
@click.argument("source", metavar="QUEUE")
@click.argument("target", metavar="TARGET")
@url_option
@selector_option
@count_option
@output_option
def copy(*, source: str, target: str, url: str, selector: str, count: int | None, output: str) -> None:
    """Copy the messages that wait in QUEUE to the end of TARGET, in order. TARGET is made if need be."""

    async def act(desk: Desk) -> int:
        most = await _most(desk, source, count)
        with progress("copying"):
            return int(await desk.ask(f"queue.{source}", "copyMessages", selector, target, most, patience=None))

    copied = at_desk(url, act)
    fields = {"queue": source, "target": target, "messages": copied}
    tell(f"copied {copied:,} messages from {source} to {target}", fields, output)


@queue.command()
@click.argument("name", metavar="[QUEUE]", default=DEAD_LETTERS)
@url_option
@selector_option
@count_option
@output_option
def retry(*, name: str, url: str, selector: str, count: int | None, output: str) -> None:
    """Send dead letters back to the queues that they came from, as they were. QUEUE is ActiveMQ.DLQ if not given.

    What does not say where it came from stays.
    """

    async def act(desk: Desk) -> int:
        most = await _most(desk, name, count)
        return await desk.in_chunks(
            "returning", most, f"queue.{name}", "retryMessages", lambda chunk: [selector, chunk]
        )

    sent = at_desk(url, act)
    tell(f"sent {sent:,} messages of {name} back", {"queue": name, "messages": sent}, output)


@queue.command()
@click.argument("name", metavar="[QUEUE]", default=DEAD_LETTERS)
@url_option
@listing_option
def letters(*, name: str, url: str, output: str) -> None:
    """List what waits in a queue of dead letters by the queue that it died in and the cause. QUEUE: as of `retry`.

    The first 300 letters are looked at, the five most frequent causes are shown. The selector of a row, in JSON and CSV
    too, says just those letters: give it to `retry`, `copy`, `move` or `purge`.
    """
    looked = at_desk(url, lambda desk: desk.ask(f"queue.{name}", "describeLetters"))
    rows = [{**row, "selector": selector_of(row)} for row in looked["found"]]
    show(rows, LETTER_COLUMNS, output, empty="no dead letters")
    if not looked["all"]:
        click.echo(f"only the first {looked['of']:,} messages were looked at", err=True)


@queue.command()
@click.argument("address", metavar="ADDRESS")
@click.argument("target", metavar="[TARGET]", default="")
@url_option
@selector_option
@click.option("--since", default="", help="Only what was sent then or later: 2026-11-21T13:05, UTC without an offset.")
@click.option("--until", default="", help="Only what was sent until then.")
@output_option
def replay(*, address: str, target: str, url: str, selector: str, since: str, until: str, output: str) -> None:
    """Send again what was sent to ADDRESS, settled or not, to TARGET, or to ADDRESS itself.

    Of persistent messages the broker keeps what its journal does not need any more where its broker.xml has a
    <journal-retention-directory>, and as long as that says. What an earlier replay sent is sent again, too.
    """
    times = [since, until] if since or until else []

    async def act(desk: Desk) -> list[dict[str, Any]]:
        with progress("replaying"):
            await desk.ask("broker", "replay", *times, address, target, selector, patience=None)
        rows: list[dict[str, Any]] = await desk.ask("broker", "describeReplay")
        return rows

    rows = at_desk(url, act)
    counts = {name: sum(row[name] for row in rows) for name in ("sent", "dropped", "bodies_lost", "passed_over_count")}
    fields = {"address": address, "target": target or address, **counts}
    fields["passed_over"] = [why for row in rows for why in row["passed_over"]]
    text = f"sent {counts['sent']:,} messages of {address} again" + (f", to {target}" if target else "")
    said = {"dropped": "dropped by a full target", "bodies_lost": "whose bodies are not kept any more"}
    text += "".join(f"; {counts[name]:,} {words}" for name, words in said.items() if counts[name])
    if counts["passed_over_count"]:
        text += f"; {counts['passed_over_count']:,} parts of files were passed over: {fields['passed_over'][0]}"
    tell(text, fields, output)


@queue.command("remove-message")
@name_argument
@click.argument("identities", metavar="MESSAGE-ID...", nargs=-1, required=True)
@url_option
@output_option
def remove_message(*, name: str, identities: tuple[str, ...], url: str, output: str) -> None:
    """Remove single messages, named by the ids that `entrepot browse` shows. It fails for one that does not wait."""
    missing: list[str] = []

    async def act(desk: Desk) -> None:
        for identity in identities:
            removed = await desk.ask(f"queue.{name}", "removeMessage", identity, patience=None)
            if not removed:
                missing.append(identity)
            if removed or output == "json":
                fields = {"queue": name, "message-id": identity, "removed": removed}
                tell(f"removed {identity} from {name}", fields, output)

    at_desk(url, act)
    if missing:
        raise Failure(
            f"{name} has no message {' or '.join(missing)} that waits",
            remedy="`entrepot browse` shows the ids; a consumer may have it",
        )


async def _most(desk: Desk, name: str, count: int | None) -> int:
    """Return how many messages it can be about: those that are there now, so that work on a busy queue ends."""
    there = int((await _view(desk, name))["messages"])
    return there if count is None else min(there, count)


def _confirm(url: str, name: str, yes: bool, question: Callable[[dict[str, Any]], str]) -> None:
    """Ask the person at the terminal, if there is one, whether to go on."""
    if not yes and sys.stdin.isatty():
        view = at_desk(url, lambda desk: _view(desk, name))
        click.confirm(question(view), abort=True, err=True)
