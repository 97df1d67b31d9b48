"""`entrepot top`: brokers, queues and bridges of a network on one screen that renews itself."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from entrepot.base.errors import EntrepotError, InvalidOption
from entrepot.cli.context import masked, read
from entrepot.cli.dialogue import url_option
from entrepot.cli.managing import managing
from entrepot.cli.output import output_option, to_json

if TYPE_CHECKING:
    from entrepot.cli.top_screen import Board

SORTS: Final = ("messages", "in", "out", "consumers", "age", "dead", "name")  # those of `top_screen.ASKED_AS`
QUEUES_MOST: Final = 500  # of one broker: the most that it describes at once
AGAIN_S: Final = 2.0  # after which a broker that did not answer is dialled again
LATE_S: Final = 10.0  # that programs wait for the answer of a broker; of one that was late they wait no more
RESERVED: Final = 12  # lines of the screen that are not for queues
KEYS: Final = "q quit, space stop and go on; sort by " + ", ".join(f"[{one[0]}]{one[1:]}" for one in SORTS)


@click.command(
    epilog="""Examples:

    \b
    entrepot top
    entrepot top stomp://mq1:61613 stomp://mq2:61613 stomp://mq3:61613
    entrepot top --all --sort in --search orders
    entrepot top --count 1 -o json | jq '.alarms'
    """
)
@click.argument("brokers", nargs=-1, metavar="[URL|CONTEXT]...")
@click.option("--all", "everyone", is_flag=True, help="All brokers of `entrepot context`.")
@click.option("--every", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, metavar="S", help="Renew.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="Renew so often, and end.")
@click.option("--sort", type=click.Choice(SORTS), default="messages", show_default=True, help="Sort queues by it.")
@click.option("--search", default="", metavar="TEXT", help="Only queues whose name has it, whatever its case.")
@click.option("--rows", type=click.IntRange(1, QUEUES_MOST), metavar="N", help="Queues that are shown.")
@url_option
@output_option
def top(
    *,
    brokers: tuple[str, ...],
    everyone: bool,
    every: float,
    count: int | None,
    sort: str,
    search: str,
    rows: int | None,
    url: str,
    output: str,
) -> None:
    """Watch brokers: what comes and goes a second, where it waits, which bridges are down, and what is wrong.

    Without a terminal, or as JSON, each look is written out: one object a broker, the first without rates. A look waits
    for what every broker answers, 10 s at most. A broker that does not answer is dialled again, and the others are
    shown. Keys: q ends it, space stops the picture, and the
    first letter of a column sorts by it.
    """
    from entrepot.cli.top_screen import Board  # noqa: PLC0415 - `--help` need not load it
    from entrepot.io import runtime  # noqa: PLC0415

    urls = _places(brokers, everyone=everyone, url=url)
    live = output == "table" and sys.stdout.isatty()
    room = max(5, (os.get_terminal_size().lines if live else 40) - RESERVED - len(urls))
    board = Board({masked(one): one for one in urls}, sort=sort, rows=rows or min(room, QUEUES_MOST))
    watch = Watch(board, every=every, search=search, patience=every if live else LATE_S)
    if not live:
        show = _objects(board) if output == "json" else _pages(board)
        runtime.run(watch.run(show, count if output == "json" or count else 2))
        return
    from rich.live import Live  # noqa: PLC0415 - as in top_screen

    with Live(auto_refresh=False, screen=True) as screen, _keys(watch):
        runtime.run(watch.run(lambda: screen.update(_framed(board, watch, screen.console.width), refresh=True), count))


class Watch:
    """Looks at all brokers again and again. ``held``: the picture stays as it is.

    ``patience``: seconds that a look waits for brokers. Each answers anew, or fails, before it is shown; one that let
    a look wait in vain is not waited for until it answers.
    """

    def __init__(self, board: Board, *, every: float, search: str, patience: float = 0.0) -> None:
        self.board: Final = board
        self.every: Final = every
        self.search: Final = search
        self.patience: Final = patience
        self.held = False
        self.over = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self._due = set(board.places)  # brokers that the next look waits for
        self._late: set[str] = set()
        self._pressed = False
        self._changed: asyncio.Event | None = None

    async def run(self, show: Callable[[], object], count: int | None = None) -> None:
        """Look and ``show`` ``count`` times, for ever without one. Raises what the only broker refuses."""
        self._changed = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        followers = [asyncio.create_task(self._follow(name, url)) for name, url in self.board.places.items()]
        try:
            while not self.over and (count is None or count > 0):
                await self._wait(followers, self.patience, lambda: not self._due)
                if self.over:
                    break
                self._expect()
                if not self.held:
                    show()
                count = None if count is None else count - 1
                if count != 0:
                    await self._wait(followers, self.every, lambda: False)
        finally:
            self.loop = None
            for task in followers:
                task.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    async def _wait(self, followers: list[asyncio.Task[None]], most: float, ready: Callable[[], bool]) -> None:
        """Wait for ``most`` seconds, or until it is ``ready`` or a key was pressed."""
        assert self._changed is not None
        assert self.loop is not None
        end = self.loop.time() + most
        while not self._pressed and not ready() and (left := end - self.loop.time()) > 0:
            self._changed.clear()
            change = asyncio.create_task(self._changed.wait())
            await asyncio.wait({change, *followers}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            change.cancel()
            for follower in followers:
                if follower.done():
                    follower.result()  # it ends by an error alone

    def _expect(self) -> None:
        """Choose whom the next look waits for; a look that a key asked for waited for nobody."""
        if not self._pressed:
            self._late |= self._due
        self._pressed = False
        self._due = self.board.places.keys() - self._late

    def _heard(self, name: str) -> None:
        """A broker answered or failed."""
        self._late.discard(name)
        self._due.discard(name)
        self._change()

    def _change(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _follow(self, name: str, url: str) -> None:
        """Look at one broker for as long as it takes."""
        while True:
            try:
                async with managing(url) as desk:
                    while True:
                        began = asyncio.get_running_loop().time()
                        await self._look(name, desk)
                        await asyncio.sleep(max(0.0, began + self.every - asyncio.get_running_loop().time()))
            except (EntrepotError, OSError) as error:
                self.board.failed(name, str(error))
                self._heard(name)
                if len(self.board.places) == 1 and self.board.lines[name].glance is None:
                    raise  # it was never there: no reason to go on
            await asyncio.sleep(AGAIN_S)

    async def _look(self, name: str, desk: Any) -> None:
        from entrepot.cli.top_screen import ASKED_AS  # noqa: PLC0415 - as above
        from entrepot.management.view import glance, page_of  # noqa: PLC0415

        sort = ASKED_AS[self.board.sort]
        most = QUEUES_MOST if self.board.sort in ("in", "out") else self.board.rows
        wanted = {"search": self.search, "sort": sort, "down": sort != "name", "most": most}
        found = await page_of(desk, wanted)
        self.board.answered(name, await glance(desk), found.rows)
        self._heard(name)

    def pressed(self, key: str) -> None:
        """A key was pressed."""
        if key == "q":
            self.over = True
        elif key == " ":
            self.held = not self.held
        for one in SORTS:
            if key == one[0]:
                self.board.sort = one
        self._pressed = True
        self._change()


def _places(brokers: tuple[str, ...], *, everyone: bool, url: str) -> list[str]:
    """Return the URLs of what the command line names: URLs, and names of contexts. Raises InvalidOption."""
    known = read().urls
    if everyone:
        if not known:
            raise InvalidOption("there are no contexts", remedy="entrepot context add NAME URL")
        return [*known.values(), *(one for one in brokers if one not in known and one not in known.values())]
    found = [known.get(one, one) for one in brokers]
    for one in found:
        if "://" not in one and ":" not in one:
            names = ", ".join(sorted(known)) or "none"
            raise InvalidOption(f"{one!r} is neither a URL nor a context", remedy=f"contexts: {names}")
    return list(dict.fromkeys(found)) or [url]


def _objects(board: Board) -> Callable[[], None]:
    def show() -> None:
        for row in board.facts():
            click.echo(to_json(row))

    return show


def _pages(board: Board) -> Callable[[], None]:
    """Return what writes the picture to a file or a pipe, once there are rates."""
    from rich.console import Console  # noqa: PLC0415 - as in top_screen

    console = Console()
    looks = 0

    def show() -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            console.print(board.screen(console.width))
            console.print()

    return show


def _framed(board: Board, watch: Watch, width: int) -> Any:
    from rich.console import Group  # noqa: PLC0415 - as in top_screen
    from rich.text import Text  # noqa: PLC0415

    return Group(board.screen(width), Text(("stopped; " if watch.held else "") + KEYS, style="dim"))


@contextmanager
def _keys(watch: Watch) -> Iterator[None]:
    """Let single keys be heard while the screen is up, where standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios  # noqa: PLC0415 - not on every system, and only here
    import threading  # noqa: PLC0415
    import tty  # noqa: PLC0415

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    listening = threading.Event()

    def listen() -> None:
        import select  # noqa: PLC0415 - as above

        while not listening.is_set():
            if select.select([descriptor], [], [], 0.2)[0]:
                key = os.read(descriptor, 1).decode("latin-1")
                loop = watch.loop
                with suppress(RuntimeError):  # it ended in between
                    if loop is not None:
                        loop.call_soon_threadsafe(watch.pressed, key)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listening.set()
        thread.join(1)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
