"""`entrepot send`, `receive` and `browse`."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.base.errors import Inexpressible
from entrepot.cli import lines
from entrepot.cli.dialogue import connect_option, talking, url_option
from entrepot.cli.errors import Failure, Misuse
from entrepot.cli.output import listing_option, progress, records, show, to_json
from entrepot.cli.values import DURATION, HEADER, in_words
from entrepot.client.written import COLUMNS, as_fields, as_row
from entrepot.io import runtime
from entrepot.protocols.stomp.client import AUTO, CLIENT, CLIENT_INDIVIDUAL, Message

RECEIPTS_AWAITED: Final = 500  # enough for one sync of the disk to confirm hundreds; the tests of the issue use it too
PREFETCH: Final = 1_000  # Classic's for queues: what may be on its way to us
BROWSED: Final = 100  # rows that a person reads
PREVIEW: Final = 60  # characters of a body in a table

count_option = click.option("--count", "-n", type=click.IntRange(min=1), help="Stop after so many messages.")
selector_option = click.option(
    "--selector",
    "-s",
    default="",
    help="Only messages whose headers match, as in SQL: \"colour = 'red' AND size > 3\".",
)


@click.command(
    epilog="""Examples:

    \b
    entrepot send /queue/orders 'one lamp'
    entrepot send /topic/news hello --header colour=red --expires 10m
    seq 1000 | entrepot send /queue/numbers
    tail -f app.log | entrepot send /topic/log --non-persistent
    entrepot receive /queue/a --json | entrepot send /queue/b --json
    entrepot where "$(entrepot send /queue/orders 'where am I')"
    """
)
@click.argument("destination", metavar="DEST")
@click.argument("body", required=False)
@url_option
@connect_option
@click.option(
    "--output",
    "-o",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="What is written of the messages that the broker has: the id of one, or JSON with the id of each, one a line.",
)
@click.option(
    "--json", "as_json", is_flag=True, help='Input lines are JSON: {"body": ..., "headers": ..., "properties": ...}.'
)
@count_option
@click.option("--header", "-H", "headers", type=HEADER, multiple=True, help="A header or property. Repeatable.")
@click.option("--persistent/--non-persistent", default=True, show_default=True, help="Whether it survives the broker.")
@click.option("--priority", type=click.IntRange(0, 9), help="0 to 9; the broker's default is 4.")
@click.option("--expires", type=DURATION, help="How long it is worth delivering: 500ms, 10s, 5m, 1h, 1d.")
@click.option("--delay", type=DURATION, help="Deliver it only after that time.")
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path, exists=True),
    help="Send one bytes message whose body is this file, read while it is sent: over --connect core://.",
)
@click.option("--group", help="Message group: all of one group go to one consumer, in order (JMSXGroupID).")
@click.option("--timeout", type=DURATION, default="60s", show_default=True, help="How long to wait for the broker.")
def send(
    *,
    destination: str,
    body: str | None,
    url: str,
    place: str | None,
    output: str,
    as_json: bool,
    count: int | None,
    headers: tuple[tuple[str, str], ...],
    persistent: bool,
    priority: int | None,
    expires: Duration | None,
    delay: Duration | None,
    group: str | None,
    file: Path | None,
    timeout: Duration,
) -> None:
    """Send messages to DEST: /queue/NAME or /topic/NAME.

    With BODY that one message, --count times. Without it every line of standard input is a message. It ends when the
    broker has confirmed the last one: persistent messages are on its disk then. What it writes is the id by which
    `entrepot where` finds a message; of several, without --output json, the first and the last on standard error.
    """
    fields = _fields(headers, persistent, priority, delay, group)
    if file is not None:
        _only_alone(place, body, count, delay, group, as_json or None)
        _send_file(place, destination, file, fields, expires)
        return
    if body is None and sys.stdin.isatty():
        click.echo("Type messages, one a line; end with Ctrl-D.", err=True)
    source = _repeated(body, count or 1) if body is not None else _from_input(count, as_json)
    if body is not None and as_json:
        source = _from_argument(body, count or 1)
    total = count or (1 if body is not None else None)
    if place is not None and output == "json":
        raise Misuse(
            "over --connect no broker tells the ids of what it stored", remedy="leave --output out, or use --url"
        )
    ids = _Ids(destination, output)
    sending = (
        _send(
            ids=ids,
            url=url,
            destination=destination,
            source=source,
            fields=fields,
            expires=expires,
            timeout=timeout,
            total=total,
        )
        if place is None
        else _over_client().send(
            place=place,
            destination=destination,
            source=source,
            fields=fields,
            expires=expires,
            timeout=timeout,
            total=total,
        )
    )
    sent = runtime.run(sending)
    alone = sent == 1 and body is not None
    if alone and output == "text" and ids.last:
        click.echo(ids.last)
    if not alone:
        click.echo(f"sent {sent:,} messages to {destination}{ids.range()}", err=True)


def _send_file(
    place: str | None, destination: str, file: Path, fields: dict[str, str], expires: Duration | None
) -> None:
    octets = runtime.run(
        _over_client().send_file(place=place, destination=destination, file=file, fields=fields, expires=expires)
    )
    click.echo(f"sent {octets:,} octets to {destination}", err=True)


def _only_alone(place: str | None, *more: object) -> None:
    """See that --file stands alone. Raises Misuse."""
    if place is None:
        raise Misuse("--file is for a large message, which has pieces in CORE", remedy="add --connect core://HOST:PORT")
    if any(one is not None for one in more):
        raise Misuse("--file is one message by itself", remedy="leave out what makes several, or another form of it")


def _fields(
    headers: tuple[tuple[str, str], ...],
    persistent: bool,
    priority: int | None,
    delay: Duration | None,
    group: str | None,
) -> dict[str, str]:
    """Return what the options say of every message, as headers."""
    fields = dict(headers)
    fields["persistent"] = "true" if persistent else "false"
    if priority is not None:
        fields["priority"] = str(priority)
    if delay is not None:
        fields["AMQ_SCHEDULED_DELAY"] = str(delay // MILLISECOND)
    if group is not None:
        fields["JMSXGroupID"] = group
    return fields


def _over_client() -> ModuleType:
    """Return what speaks through the client; STOMP's commands do without it."""
    return importlib.import_module("entrepot.cli.over_client")


class _Ids:
    """The ids of what was sent, as the broker tells them; one that is no entrepot tells none."""

    def __init__(self, destination: str, output: str) -> None:
        self.destination = destination
        self.output = output
        self.first = ""
        self.last = ""

    def take(self, identity: str) -> None:
        """One message is confirmed."""
        self.first = self.first or identity
        self.last = identity
        if self.output == "json":
            click.echo(to_json({"message_id": identity or None, "destination": self.destination}))

    def range(self) -> str:
        """Return the first and the last for a person, "" where they are not known."""
        return f", {self.first} to {self.last}" if self.first and self.first != self.last else ""


Spoken = tuple[str | bytes, dict[str, str]]


async def _repeated(body: str, count: int) -> AsyncIterator[Spoken]:
    for _ in range(count):
        yield body, {}


async def _from_argument(text: str, count: int) -> AsyncIterator[Spoken]:
    spoken = lines.read_json(text.encode())
    for _ in range(count):
        yield spoken


async def _from_input(count: int | None, as_json: bool) -> AsyncIterator[Spoken]:
    read = lines.read_json if as_json else lines.read_text
    number = 0
    async for line in lines.input_lines():
        if as_json and not line.strip():
            continue
        number += 1
        try:
            yield read(line)
        except Inexpressible as wrong:
            raise Inexpressible(f"message {number} of the input: {wrong.message}", remedy=wrong.remedy) from wrong
        if number == count:
            return


async def _send(
    *,
    ids: _Ids,
    url: str,
    destination: str,
    source: AsyncIterator[Spoken],
    fields: dict[str, str],
    expires: Duration | None,
    timeout: Duration,
    total: int | None,
) -> int:
    sent = 0
    async with talking(url) as dialogue:
        dialogue.on_identified = ids.take
        if dialogue.connected is not None and dialogue.connected.server.startswith("entrepot/"):
            fields = {**fields, "receipt-message-id": "true"}
        with progress("sending", total) as step:
            async for body, headers in source:
                merged = {**fields, **headers}
                if expires is not None:
                    merged["expires"] = str((time.time_ns() + expires) // MILLISECOND)
                await dialogue.room(RECEIPTS_AWAITED - 1, timeout)
                dialogue.unconfirmed[dialogue.client.send(destination, body, merged, receipt=True)] = 0
                sent += 1
                step()
            await dialogue.room(0, timeout)
    return sent


@click.command(
    epilog="""Examples:

    \b
    entrepot receive /queue/orders
    entrepot receive /queue/orders --count 10 --json
    entrepot receive /topic/news --follow
    entrepot receive /queue/orders --selector "colour = 'red'" --timeout 500ms
    """
)
@click.argument("destination", metavar="DEST")
@url_option
@connect_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines with body, headers and properties.")
@count_option
@selector_option
@click.option(
    "--ack",
    type=click.Choice([CLIENT_INDIVIDUAL, CLIENT, AUTO]),
    default=CLIENT_INDIVIDUAL,
    show_default=True,
    help="auto: the broker forgets a message as soon as it has sent it. The others settle it once it is written.",
)
@click.option(
    "--timeout",
    type=DURATION,
    default="1s",
    show_default=True,
    help="End when nothing came for so long. With --count that is a failure.",
)
@click.option("--follow", "-f", is_flag=True, help="Wait for ever; Ctrl-C ends it.")
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the body of one message to this file while it comes: over --connect core://.",
)
@click.option("--header", "-H", "headers", type=HEADER, multiple=True, help="A header of the subscription. Repeatable.")
def receive(
    *,
    destination: str,
    url: str,
    place: str | None,
    as_json: bool,
    count: int | None,
    selector: str,
    ack: str,
    timeout: Duration,
    follow: bool,
    file: Path | None,
    headers: tuple[tuple[str, str], ...],
) -> None:
    """Receive messages from DEST and write them to standard output, one body a line.

    A message is settled once it has been written, so what a broken pipe did not take stays with the broker. Bodies
    with line ends are told apart by --json only.
    """
    form = lines.as_json if as_json else lines.as_text
    patience = None if follow else timeout
    if file is not None:
        _only_alone(place, as_json or None, None if count == 1 else count, headers or None, ack == AUTO or None)
        assert place is not None
        octets = runtime.run(
            _over_client().receive_file(
                place=place, destination=destination, selector=selector, file=file, patience=patience
            )
        )
        if octets is None:
            raise Failure(
                f"no message came within {in_words(timeout)}", remedy="raise --timeout, or wait with --follow"
            )
        click.echo(f"{octets:,} octets are in {file}", err=True)
        return
    if place is not None and headers:
        raise Misuse("--header is of STOMP's subscriptions", remedy="leave it out with --connect")

    async def write(batch: list[Message]) -> None:
        await lines.write_out(b"".join(map(form, batch)))

    fetching = (
        _receive(
            url=url,
            destination=destination,
            headers=dict(headers),
            selector=selector,
            ack=ack,
            count=count,
            patience=patience,
            form=form,
        )
        if place is None
        else _over_client().receive(
            place=place,
            destination=destination,
            selector=selector,
            ack=ack,
            count=count,
            patience=patience,
            write=write,
        )
    )
    try:
        received = runtime.run(fetching)
    except KeyboardInterrupt:
        if not follow:
            raise
        return
    if count is not None and received < count:
        raise Failure(
            f"only {received} of {count} messages came before it was quiet for {in_words(timeout)}",
            remedy="raise --timeout, or wait with --follow",
        )


async def _receive(
    *,
    url: str,
    destination: str,
    headers: dict[str, str],
    selector: str,
    ack: str,
    count: int | None,
    patience: Duration | None,
    form: Callable[[Message], bytes],
) -> int:
    received = 0
    async with talking(url) as dialogue:
        client = dialogue.client
        window = min(count or PREFETCH, PREFETCH)
        fields = {"activemq.prefetchSize": str(window), **headers}
        subscription, _ = client.subscribe(destination, ack=ack, selector=selector, headers=fields)
        with progress("receiving", count) as step:
            while count is None or received < count:
                if not await dialogue.until(lambda: len(dialogue.messages) > 0, patience):
                    break
                batch = [dialogue.messages.popleft() for _ in range(_least(len(dialogue.messages), count, received))]
                await lines.write_out(b"".join(map(form, batch)))
                if ack == CLIENT_INDIVIDUAL:
                    for message in batch:
                        client.ack(message)
                elif ack == CLIENT:
                    client.ack(batch[-1])
                received += len(batch)
                step(len(batch))
        client.unsubscribe(subscription)
    return received


def _least(available: int, count: int | None, received: int) -> int:
    return available if count is None else min(available, count - received)


@click.command(
    epilog="""Examples:

    \b
    entrepot browse /queue/orders
    entrepot browse /queue/orders --selector "priority > 4" --count 10
    entrepot browse /queue/orders --output json > backup.jsonl
    """
)
@click.argument("destination", metavar="DEST")
@url_option
@connect_option
@count_option
@selector_option
@listing_option
@click.option(
    "--timeout", type=DURATION, default="30s", show_default=True, help="How long to wait for the next message."
)
def browse(
    *,
    destination: str,
    url: str,
    place: str | None,
    count: int | None,
    selector: str,
    output: str,
    timeout: Duration,
) -> None:
    """Show the messages that wait in the queue DEST, and leave them there.

    A table shows the first 100, JSON and CSV all, unless --count says otherwise. `entrepot send --json` reads the JSON
    lines. In CSV properties are JSON, and a body that is no text is in base64, as in what the console exports.
    """
    if destination.startswith(("/topic/", "topic://")):
        raise Misuse(f"{destination} is a topic, which keeps no messages to browse", remedy="browse a queue")
    limit = count or (BROWSED if output == "table" else None)
    rows: list[dict[str, Any]] = []
    head: list[Sequence[str]] = [COLUMNS]

    async def write(batch: list[Message]) -> None:
        if output == "json":
            await lines.write_out(b"".join((to_json(as_fields(one)) + "\n").encode() for one in batch))
        elif output == "csv":
            await lines.write_out(records([*head, *(as_row(as_fields(one)) for one in batch)]).encode())
            head.clear()
        else:
            rows.extend(_row(message) for message in batch)

    looking = (
        _browse(url=url, destination=destination, selector=selector, limit=limit, timeout=timeout, write=write)
        if place is None
        else _over_client().browse(place=place, destination=destination, selector=selector, limit=limit, write=write)
    )
    shown, more = runtime.run(looking)
    if output == "table":
        show(rows, ("message-id", "when", "priority", "persistent", "size", "body"), output, empty="no messages")
    if more and count is None:
        click.echo(f"the first {shown} are shown; --count shows more", err=True)


async def _browse(
    *,
    url: str,
    destination: str,
    selector: str,
    limit: int | None,
    timeout: Duration,
    write: Callable[[list[Message]], Any],
) -> tuple[int, bool]:
    """Return how many were shown, and whether there are more."""
    shown = 0
    async with talking(url) as dialogue:
        client = dialogue.client
        subscription, _ = client.subscribe(destination, selector=selector, headers={"browser": "true"})
        while True:
            if not await dialogue.until(lambda: len(dialogue.messages) > 0, timeout):
                raise Failure(
                    f"the broker showed nothing for {in_words(timeout)}", remedy="see its log, or raise --timeout"
                )
            batch: list[Message] = []
            ended = more = False
            while dialogue.messages and not ended:
                message = dialogue.messages.popleft()
                if message.ends_browse:
                    ended = True
                elif limit is not None and shown + len(batch) == limit:
                    ended = more = True
                else:
                    batch.append(message)
            await write(batch)
            shown += len(batch)
            if ended:
                break
        if more:
            client.unsubscribe(subscription)
    return shown, more


def _row(message: Message) -> dict[str, Any]:
    headers = message.headers
    stamp = headers.get("timestamp", "")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(stamp) / 1000)) if stamp.isdigit() else ""
    body = message.body[: PREVIEW * 4].decode(errors="backslashreplace")
    flat = "".join(character if character.isprintable() else "·" for character in body)
    return {
        "message-id": message.message_id,
        "when": when,
        "priority": headers.get("priority", ""),
        "persistent": headers.get("persistent") == "true",
        "size": len(message.body),
        "body": flat if len(flat) <= PREVIEW else flat[: PREVIEW - 1] + "…",
    }
