"""`entrepot pipeline calibrate`: what can the consumers of a queue take?"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import click

from entrepot.base.errors import EntrepotError
from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.managing import Desk, managing, together
from entrepot.cli.output import output_option, show
from entrepot.cli.queue import yes_option
from entrepot.io import runtime
from entrepot.management.calibration import Limit, Sample, limit

INTERVAL_S: Final = 0.1
COLUMNS: Final = ("queue", "broker", "consumers", "arriving", "waited", "rate", "each", "known")
CREDENTIALS: Final = re.compile(r"//[^/@]*@")
WATCHED: Final = 3.0  # times the pause, for catching up


@click.command()
@click.argument("name", metavar="QUEUE")
@url_option
@click.option("--beside", metavar="URL", multiple=True, help="Another broker that has it; may be given more than once.")
@click.option("--seconds", type=click.FloatRange(0.5, 60), default=10.0, show_default=True, help="To hold delivery.")
@click.option(
    "--most", type=click.IntRange(min=1), default=10_000, show_default=True, help="Messages with which a pause ends."
)
@yes_option
@output_option
def calibrate(
    *, name: str, url: str, beside: tuple[str, ...], seconds: float, most: int, yes: bool, output: str
) -> None:
    """Find out what the consumers of a queue can take: hold delivery for some seconds, and watch them catch up.

    Traces that are written meanwhile (`entrepot run --trace`) have consumers at their limit, which is what
    `entrepot pipeline plan` needs. Name all brokers where the queue has consumers: what one of them holds, another
    one may take. Rates are messages a second; "at least" where they caught up too soon: let more wait.

    Ctrl-C and SIGTERM resume the queue. A kill -9 of this command does not: `entrepot queue resume QUEUE`.
    """
    if not yes and sys.stdin.isatty():
        click.confirm(f"Hold delivery of {name} for up to {seconds:g} s, or until {most:,} messages wait?", abort=True)
    found = runtime.run(_calibrated(name, (url, *beside), seconds, most))
    rows = [_row(name, one, waited, place) for place, (one, waited) in found.items()]
    show(rows, COLUMNS, output)


def _row(name: str, found: Limit, waited: int, place: str) -> dict[str, Any]:
    return {
        "queue": name,
        "broker": place,
        "consumers": found.consumers,
        "arriving": round(found.arriving, 1),
        "waited": waited,
        "rate": round(found.rate, 1),
        "each": round(found.each, 1),
        "known": "limit" if found.known else "at least",
    }


async def _calibrated(name: str, urls: tuple[str, ...], seconds: float, most: int) -> dict[str, tuple[Limit, int]]:
    """Return for each broker what was seen, and how many messages the pause let wait."""
    async with AsyncExitStack() as stack:
        desks: dict[str, Desk] = {}
        for url in dict.fromkeys(urls):
            desk = await stack.enter_async_context(managing(url))
            desks[CREDENTIALS.sub("//", url)] = await stack.enter_async_context(together(desk, url))
        await stack.enter_async_context(_ended_in_order())
        first = {place: await _sample(desk, name) for place, desk in desks.items()}
        if not any(sample.consumers for sample in first.values()):
            raise Failure(f"nobody reads {name}", remedy="name the brokers where it has consumers: --beside URL")
        async with _held(desks, name):
            held = await _watch(desks, name, seconds, lambda now: sum(one.waiting for one in now.values()) >= most)
        waited = {place: rows[-1].waiting for place, rows in held.items()}
        seen = await _watch(desks, name, WATCHED * seconds, lambda now: not any(one.waiting for one in now.values()))
    return {place: (limit(rows), waited[place]) for place, rows in seen.items()}


async def _sample(desk: Desk, name: str) -> Sample:
    view = await desk.ask(f"queue.{name}", "describe")
    if view["paused"]:
        raise Failure(f"{name} is paused", remedy=f"somebody holds it; when he is done: entrepot queue resume {name}")
    return Sample(time.monotonic(), view)


async def _watch(
    desks: dict[str, Desk], name: str, seconds: float, enough: Callable[[dict[str, Sample]], bool]
) -> dict[str, list[Sample]]:
    """Look at all of them again and again, until it is enough or the time is over; at each twice at least."""
    rows: dict[str, list[Sample]] = {place: [] for place in desks}
    until = time.monotonic() + seconds
    while True:
        for place, desk in desks.items():
            rows[place].append(Sample(time.monotonic(), await desk.ask(f"queue.{name}", "describe")))
        now = {place: found[-1] for place, found in rows.items()}
        if time.monotonic() >= until or (len(next(iter(rows.values()))) > 1 and enough(now)):
            return rows
        await asyncio.sleep(INTERVAL_S)


@asynccontextmanager
async def _held(desks: dict[str, Desk], name: str) -> AsyncIterator[None]:
    """Hold delivery at all brokers meanwhile, whatever ends it."""
    paused: list[str] = []
    try:
        for place, desk in desks.items():
            paused.append(place)
            await desk.ask(f"queue.{name}", "pause")
        yield
    finally:
        left = []
        for place in paused:
            try:
                await desks[place].ask(f"queue.{name}", "resume")
            except (EntrepotError, OSError) as error:
                left.append(f"{place} ({error})")
        if left:
            raise Failure(
                f"{name} is still paused at {', '.join(left)}", remedy=f"entrepot queue resume {name}, at each of them"
            )


@asynccontextmanager
async def _ended_in_order() -> AsyncIterator[None]:
    """Let SIGTERM do what Ctrl-C does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    except asyncio.CancelledError:
        raise Failure("it was told to end before it was done; the queue delivers again") from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
