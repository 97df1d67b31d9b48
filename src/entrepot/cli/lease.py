"""`entrepot lease`: reading a queue by lease, step by step; for trying it out, and for repairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from entrepot.base.errors import ProtocolViolation
from entrepot.cli import lines
from entrepot.cli.dialogue import talking, url_option
from entrepot.cli.managing import at_desk
from entrepot.cli.output import listing_option, output_option, show
from entrepot.io import runtime
from entrepot.model.address import TOPIC_PREFIXES
from entrepot.protocols.stomp.client import Message

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS: Final = ("queue", "group", "epoch", "base", "tail")


subscription_option = click.option(
    "--subscription",
    default="",
    help="QUEUE is a topic, read through this durable subscription.  [default: one that GROUP has for itself]",
)


def _named(function: F) -> F:
    """Give a command the arguments that say whose lease it is."""
    for decorator in (
        output_option,
        url_option,
        subscription_option,
        click.argument("group"),
        click.argument("queue", metavar="QUEUE"),
    ):
        function = decorator(function)
    return function


epoch_option = click.option(
    "--epoch", type=click.IntRange(min=0), required=True, help="What `attach` answered; an older one is refused."
)


@click.group(
    epilog="""Examples:

    \b
    entrepot lease attach /queue/orders nightly               # answers the epoch, say 1
    entrepot lease claim /queue/orders nightly --epoch 1 --max 100 --octets 1000000
    entrepot lease read /queue/orders nightly --epoch 1       # as often as you like
    entrepot lease settle /queue/orders nightly --epoch 1 --end 100
    entrepot lease release /queue/orders nightly
    """
)
def lease() -> None:
    """Read a queue by lease: claim a range of messages, read it again and again, settle it.

    GROUP names the reader. Its range is kept by the broker, through restarts of both, until it is settled or released;
    other consumers have the rest of the queue meanwhile. Positions count what the group has claimed, from 0: base is
    the first that is not settled, tail the next to be claimed.
    """


@lease.command()
@_named
@click.option("--selector", "-s", default="", help="Claim only messages that match.")
@click.option(
    "--from",
    "begins",
    default="",
    metavar="WHERE",
    help="Where a lease begins that is new: earliest, latest, or a time in ms since 1970.  [default: earliest]",
)
@click.option(
    "--until",
    type=click.IntRange(min=1),
    metavar="MS",
    help="Claim nothing that was stamped later, a time in ms since 1970; until the next `attach`.  [default: no bound]",
)
def attach(
    *, queue: str, group: str, subscription: str, url: str, output: str, selector: str, begins: str, until: int | None
) -> None:
    """Become the reader of GROUP; whoever was it before is refused from now on."""
    bound = "" if until is None else str(until)
    given = {name: text for name, text in (("selector", selector), ("from", begins), ("until", bound)) if text}
    _answer("ATTACH", _shard(queue, subscription), group, url, output, given)


@lease.command()
@_named
@epoch_option
@click.option("--max", "most", type=click.IntRange(min=1), default=1_000, show_default=True, help="How many at most.")
@click.option("--start", type=click.IntRange(min=0), help="Position to begin at.  [default: the tail]")
@click.option(
    "--octets",
    type=click.IntRange(min=0),
    help="End with the message that reaches so many octets of headers and bodies.  [default: any number]",
)
@click.option("--wait", type=click.IntRange(0, 60_000), default=0, help="Wait so many ms while there is nothing.")
def claim(
    *,
    queue: str,
    group: str,
    subscription: str,
    url: str,
    output: str,
    epoch: int,
    most: int,
    start: int | None,
    octets: int | None,
    wait: int,
) -> None:
    """Take messages from the queue; "end" is the position behind the last of them, "more" how many wait behind it.

    With --octets, "octets" says how many the messages have that were added: what was claimed before behind --start is
    the answer as it is, and adds none.
    """
    fields = {"epoch": str(epoch), "max": str(most), "wait": str(wait)}
    fields.update({name: str(value) for name, value in (("start", start), ("octets", octets)) if value is not None})
    _answer("CLAIM", _shard(queue, subscription), group, url, output, fields)


@lease.command()
@_named
@epoch_option
@click.option("--end", type=click.IntRange(min=0), required=True, help="Settle every position below this one.")
def settle(*, queue: str, group: str, subscription: str, url: str, output: str, epoch: int, end: int) -> None:
    """Be done with messages: they are gone for good."""
    _answer("SETTLE", _shard(queue, subscription), group, url, output, {"epoch": str(epoch), "end": str(end)})


@lease.command()
@_named
@click.option("--epoch", type=click.IntRange(min=0), help="Only if this is current still.  [default: in any case]")
def release(*, queue: str, group: str, subscription: str, url: str, output: str, epoch: int | None) -> None:
    """Give everything that is claimed back to the queue, in order; whoever reads it is refused from now on."""
    fields = {} if epoch is None else {"epoch": str(epoch)}
    _answer("RELEASE", _shard(queue, subscription), group, url, output, fields)


@lease.command("list")
@url_option
@listing_option
def list_(*, url: str, output: str) -> None:
    """List all leases: who holds how much of which queue."""
    rows = at_desk(url, lambda desk: desk.ask("broker", "describeLeases"))
    show(rows, (*COLUMNS, "held", "lost", "begins", "selector"), output, empty="no leases")


@lease.command()
@click.argument("queue", metavar="QUEUE")
@click.argument("group")
@subscription_option
@url_option
@epoch_option
@click.option("--start", type=click.IntRange(min=0), help="First position.  [default: the base]")
@click.option("--end", type=click.IntRange(min=0), help="Position behind the last.  [default: the tail]")
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines; the headers have the position.")
def read(
    *,
    queue: str,
    group: str,
    subscription: str,
    url: str,
    epoch: int,
    start: int | None,
    end: int | None,
    as_json: bool,
) -> None:
    """Write claimed messages to standard output. Changes nothing, so it may be done again."""
    fields = {**_shard(queue, subscription), "group": group, "epoch": str(epoch)}
    fields.update({name: str(value) for name, value in (("start", start), ("end", end)) if value is not None})
    form = lines.as_json if as_json else lines.as_text
    runtime.run(_read(url, fields, form))


async def _read(url: str, fields: dict[str, str], form: Callable[[Message], bytes]) -> None:
    async with talking(url) as dialogue:
        receipt = dialogue.client.request("READ", fields)
        dialogue.unconfirmed[receipt] = 0
        while dialogue.unconfirmed or dialogue.messages:
            await dialogue.until(lambda: len(dialogue.messages) > 0 or not dialogue.unconfirmed)
            batch = b"".join(map(form, dialogue.messages))
            dialogue.messages.clear()
            await lines.write_out(batch)


def _shard(queue: str, subscription: str) -> dict[str, str]:
    """Return the headers that say what is read."""
    topic = queue.startswith(TOPIC_PREFIXES) and "::" not in queue
    if subscription and not topic:
        raise click.UsageError(f"--subscription goes with a topic, and {queue!r} is none")
    if not topic:
        return {"queue": queue}
    return {"topic": queue, "subscription": subscription} if subscription else {"topic": queue}


def _answer(command: str, shard: dict[str, str], group: str, url: str, output: str, fields: dict[str, str]) -> None:
    """Ask the broker and show what it answers."""

    async def ask() -> dict[str, str]:
        async with talking(url) as dialogue:
            return await dialogue.ask(dialogue.client.request(command, {**shard, "group": group, **fields}))

    answer = runtime.run(ask())
    for bound in ("until", "octets"):
        if bound in fields and bound not in answer:
            raise ProtocolViolation(f"the broker does not know --{bound}, and obeyed the rest", remedy="upgrade it")
    row: dict[str, Any] = {"queue": shard.get("queue", shard.get("topic", "")), "group": group}
    row.update({name: int(text) for name, text in answer.items() if name != "receipt-id" and text.isdigit()})
    show([row], (*COLUMNS, *(name for name in row if name not in COLUMNS)), output)
