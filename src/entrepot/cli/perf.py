"""`entrepot perf`: load on a broker, and what it did with it."""

from __future__ import annotations

import secrets
import sys
from contextlib import ExitStack
from typing import Any

import click

from entrepot.base.environment import SECOND, Duration
from entrepot.cli.dialogue import connect_option, url_option
from entrepot.cli.errors import Failure, Misuse
from entrepot.cli.load import Load, LoadPlan, run_load
from entrepot.cli.output import to_json
from entrepot.cli.values import DURATION, SIZE
from entrepot.io import runtime
from entrepot.protocols.stomp.client import AUTO, CLIENT, CLIENT_INDIVIDUAL

DEFAULT_DURATION = 10 * SECOND
DEFAULT_WINDOW = 500  # what the tests of persistent sends in bench use


@click.command(
    epilog="""Examples:

    \b
    entrepot perf
    entrepot perf --rate 500 --duration 30s
    entrepot perf --persistent --producers 4 --consumers 4 --size 1kb --ack client-individual
    entrepot perf --kind topic --producers 1 --consumers 8 --count 100000 --json
    entrepot perf --connect core://127.0.0.1:61616 --persistent
    """
)
@url_option
@connect_option
@click.option(
    "--producers", "-p", type=click.IntRange(min=0), default=1, show_default=True, help="Connections that send."
)
@click.option(
    "--consumers", "-c", type=click.IntRange(min=0), default=1, show_default=True, help="Connections that receive."
)
@click.option("--size", type=SIZE, default=100, show_default=True, help="Octets of a body.")
@click.option(
    "--persistent/--non-persistent", default=False, show_default=True, help="Whether messages survive the broker."
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=0,
    show_default="as fast as possible",
    help="Messages a second of all producers together. Set it to measure latency: without, messages wait in queues.",
)
@click.option("--duration", "-d", type=DURATION, help="How long to send.  [default: 10s, or until --count]")
@click.option("--count", "-n", type=click.IntRange(min=1), help="How many messages to send.")
@click.option(
    "--ack",
    type=click.Choice([AUTO, CLIENT, CLIENT_INDIVIDUAL]),
    default=AUTO,
    show_default=True,
    help="How consumers settle.",
)
@click.option(
    "--window",
    type=click.IntRange(min=0),
    help="Receipts that a producer awaits at most; 0 asks for none.  [default: 500 if persistent, else 0]",
)
@click.option(
    "--kind", type=click.Choice(["queue", "topic"]), default="queue", show_default=True, help="Where to send."
)
@click.option("--destination", metavar="NAME", help="Its name.  [default: a fresh one]")
@click.option(
    "--timeout",
    type=DURATION,
    default="10s",
    show_default=True,
    help="Give up when nothing was confirmed or received for so long.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the figures as one JSON object.")
def perf(
    *,
    url: str,
    place: str | None,
    producers: int,
    consumers: int,
    size: int,
    persistent: bool,
    rate: float,
    duration: Duration | None,
    count: int | None,
    ack: str,
    window: int | None,
    kind: str,
    destination: str | None,
    timeout: Duration,
    as_json: bool,
) -> None:
    """Send and receive under load, and report throughput and latency.

    With --rate each message has a moment when it is due, and its latency counts from then, sent or not: a broker that
    stalls cannot hide it. "lateness" is how late this program itself was; when it nears the latency, use a lower rate.
    Exit code 1 when messages are missing at the end.
    """
    if producers == 0 and consumers == 0:
        raise Misuse(
            "neither producers nor consumers: there is nothing to do", remedy="give --producers or --consumers"
        )
    token = secrets.token_hex(4)
    plan = LoadPlan(
        url=place or url,
        destination=f"/{kind}/{destination or f'entrepot.perf.{token}'}",
        topic=kind == "topic",
        producers=producers,
        consumers=consumers,
        size=size,
        persistent=persistent,
        rate=rate,
        duration=duration or (0 if count and producers else DEFAULT_DURATION),
        count=count or 0,
        ack=ack,
        window=window if window is not None else DEFAULT_WINDOW if persistent else 0,
        patience=timeout,
        run=token,
    )
    load = _load_of(plan, by_client=place is not None)
    with ExitStack() as stack:
        watch = _live(load, stack) if sys.stderr.isatty() and not as_json else None
        runtime.run(run_load(load, watch))
    report = load.report()
    if as_json:
        click.echo(to_json({"settings": _settings(plan), **report}))
    else:
        _show(plan, report)
    if report["missing"]:
        raise Failure(
            f"{report['missing']:,} messages were sent and not received",
            remedy="raise --timeout; on a topic, a slow subscriber may have lost them",
        )


def _load_of(plan: LoadPlan, *, by_client: bool) -> Load:
    if not by_client:
        return Load(plan)
    from entrepot.cli.client_load import ClientLoad  # noqa: PLC0415 - the client, which STOMP does not need

    return ClientLoad(plan)


def _settings(plan: LoadPlan) -> dict[str, Any]:
    names = ("producers", "consumers", "size", "persistent", "rate", "count", "ack", "window", "topic")
    return {name: getattr(plan, name) for name in names} | {"duration_s": plan.duration / SECOND}


def _show(plan: LoadPlan, report: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415 - after the load, so that it costs the load nothing
    from rich.table import Table  # noqa: PLC0415

    console = Console(soft_wrap=True)
    console.print(
        f"{plan.producers} producers, {plan.consumers} consumers, {plan.size} B, "
        f"{'persistent' if plan.persistent else 'non-persistent'}, {plan.destination}",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "messages", "per second"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("sent", f"{report['sent']:,}", f"{report['sent_per_second']:,.0f}")
    table.add_row("received", f"{report['received']:,}", f"{report['received_per_second']:,.0f}")
    console.print(table)
    times = {name: report[f"{name}_ms"] for name in ("latency", "confirmation", "lateness") if f"{name}_ms" in report}
    if not times:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ms")
    for column in next(iter(times.values())):
        table.add_column(column, justify="right")
    for name, figures in times.items():
        table.add_row(name, *(f"{value:,.3f}" for value in figures.values()))
    console.print(table)
    if not plan.rate and plan.consumers:
        console.print("as fast as possible: latency is mostly time in queues; measure it with --rate", style="dim")


def _live(load: Load, stack: ExitStack) -> Any:
    """Show the figures on standard error while the load runs; return what renews them."""
    from rich.console import Console  # noqa: PLC0415 - see _show
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    live = stack.enter_context(Live(console=Console(stderr=True), transient=True, auto_refresh=False))
    before = [0, 0]

    def renew() -> None:
        sent, received = load.sent, load.received
        p99 = load.latency.percentile(99) / 1e6
        text = (
            f"sent {sent:>12,} ({(sent - before[0]) * 2:>9,}/s)   received {received:>12,} "
            f"({(received - before[1]) * 2:>9,}/s)   p99 {p99:,.2f} ms"
        )
        before[:] = [sent, received]
        live.update(Text(text), refresh=True)

    return renew
