"""One visit to a lab: start it, obey keys, show it, end it, and say what was lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from entrepot.base.errors import EntrepotError
from entrepot.cli.errors import Failure
from entrepot.cli.lab.brokers import Broker, Link, Network
from entrepot.cli.lab.load import Load
from entrepot.cli.lab.picture import line, picture
from entrepot.cli.lab.watch import Watch
from entrepot.io import runtime

if TYPE_CHECKING:
    from rich.console import Console

SHOW_S: Final = 0.25
LINE_S: Final = 1.0
ARRIVE_S: Final = 15.0  # for what is under way when the lab ends
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def play(count: int, shape: str, *, rate: float, loaded: bool, port_base: int | None, seconds: float | None) -> None:
    """Run a lab until `q`, a signal or ``seconds`` end it. Raises Failure when promised messages did not arrive."""
    with tempfile.TemporaryDirectory(prefix="entrepot-lab-") as directory:
        stage = Stage(Network(Path(directory), count, shape, port_base=port_base), rate)
        runtime.run(stage.play(loaded=loaded, seconds=seconds))
    ledger = stage.load.ledger
    missing = ledger.missing
    click.echo(
        f"promised {len(ledger.promised):,}, arrived {len(ledger.arrived):,}, came again {ledger.twice:,}, "
        f"missing {missing:,}"
    )
    if missing:
        raise Failure(
            f"{missing:,} messages that were promised to their producers did not arrive",
            remedy="were brokers still down or links cut at the end? Start and heal them before you end the lab",
        )


class Stage:
    """A lab while it is open."""

    def __init__(self, network: Network, rate: float) -> None:
        self.network: Final = network
        self.watch: Final = Watch(network)
        self.load: Final = Load(network, rate, self.say)
        self.events: list[str] = []
        self._plain = True
        self._began = 0.0
        self._over: asyncio.Event | None = None
        self._doing: dict[asyncio.Task[None], None] = {}

    def say(self, what: str) -> None:
        """Note an event; write it at once where there is no picture."""
        seconds = asyncio.get_running_loop().time() - self._began
        told = f"{seconds:6.1f} s  {what}"
        self.events.append(told)
        if self._plain:
            click.echo(told)

    async def play(self, *, loaded: bool, seconds: float | None) -> None:
        """Start, show, end."""
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        self._over = asyncio.Event()
        self._plain = not (sys.stdin.isatty() and sys.stdout.isatty())
        for number in SIGNALS:
            loop.add_signal_handler(number, self._over.set)
        try:
            await self.network.start()
            self.watch.start()
            for broker in self.network.brokers:
                self.say(f"{broker.name} listens at {broker.tcp} and {broker.url}, process {broker.process_id}")
            if loaded:
                self.load.start()
            if seconds is not None:
                loop.call_later(seconds, self._over.set)
            await (self._lines() if self._plain else self._live())
            for task in list(self._doing):
                await task
            await self.load.close(ARRIVE_S if all(broker.up for broker in self.network.brokers) else 1.0)
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            await self.watch.close()
            await self.load.close(0)
            await self.network.stop()

    async def _lines(self) -> None:
        assert self._over is not None
        while not self._over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LINE_S):
                    await self._over.wait()
            click.echo(line(self.network, self.watch, self.load))

    async def _live(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only for a terminal
        from rich.live import Live  # noqa: PLC0415

        assert self._over is not None
        console = Console()
        with keys(self._key), Live(self._picture(console), console=console, screen=True, auto_refresh=False) as live:
            while not self._over.is_set():
                live.update(self._picture(console), refresh=True)
                with suppress(TimeoutError):
                    async with asyncio.timeout(SHOW_S):
                        await self._over.wait()

    def _picture(self, console: Console) -> Any:
        width, height = console.size  # what the environment says in COLUMNS and LINES goes before the terminal
        return picture(self.network, self.watch, self.load, self.events, width=width, height=height)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _key(self, key: str) -> None:
        assert self._over is not None
        if key in ("q", "\x03", "\x04"):
            self._over.set()
        elif key == " ":
            self._do(self._switch_load())
        elif key.isdigit() and 1 <= int(key) <= len(self.network.brokers):
            self._do(self._switch_broker(self.network.brokers[int(key) - 1]))
        else:
            for link in self.network.links:
                if link.letter == key:
                    self._do(self._switch_link(link))

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._doing[task] = None
        task.add_done_callback(lambda done: self._doing.pop(done, None))

    async def _switch_load(self) -> None:
        if self.load.running:
            await self.load.stop()
            self.say("the load stops")
        else:
            self.load.start()
            self.say("the load starts")

    async def _switch_broker(self, broker: Broker) -> None:
        if broker.starting:
            return
        if broker.up:
            await broker.kill()
            self.say(f"{broker.name}: kill -9")
            return
        try:
            seconds = await broker.start()
            self.say(f"{broker.name} accepts connections again after {seconds:.2f} s")
        except EntrepotError as error:
            self.say(error.message)

    async def _switch_link(self, link: Link) -> None:
        near, far = self.network.brokers[link.near].name, self.network.brokers[link.far].name
        if link.relay.cut_off:
            await link.relay.heal()
            self.say(f"the link {link.letter} ({near} ─ {far}) is healed")
        else:
            await link.relay.cut()
            self.say(f"the link {link.letter} ({near} ─ {far}) is cut")


@contextmanager
def keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call ``pressed`` with each key of the terminal, at once and without echo."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def read() -> None:
        data = os.read(descriptor, 64)
        if not data:
            loop.remove_reader(descriptor)
            pressed("q")
            return
        for key in data.decode(errors="ignore"):
            pressed(key)

    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
