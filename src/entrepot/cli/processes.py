"""`entrepot run --processes N`: one command, several brokers that are one to their clients.

The process that an operator starts serves nobody. It takes the ports, so that nobody else does, says in a file what all
processes have to know, starts them (`io/processes.py`), and ends them. Each of them is `entrepot run` again, with two
options more.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from entrepot.base.errors import InvalidOption, OperatorError
from entrepot.cli.data import Spectacles, unused
from entrepot.config.processes import Process, ProcessPlan, name_of
from entrepot.io import runtime, several
from entrepot.io.dialects import Dialects
from entrepot.io.lock import DirectoryLock
from entrepot.io.logs import tell
from entrepot.io.places import SPOKEN
from entrepot.io.processes import Supervisor
from entrepot.io.tcp import Listening, bind
from entrepot.journal.recovery import Recovery
from entrepot.protocols.session import HTTP

if TYPE_CHECKING:
    from entrepot.config.console import ConsoleSettings
    from entrepot.node_options import NodeOptions

log: Final = logging.getLogger("entrepot.node")

SECRET_OCTETS: Final = 32
REFUSED: Final = ("ha", "connect", "announce", "zone", "client_zones", "backup_of")
"""Options that would hold for each process by itself, and mean something else then."""


def check(count: int) -> None:
    """See that several processes can do what the command line says. Raises InvalidOption."""
    context = click.get_current_context()
    if not hasattr(socket, "SO_REUSEPORT"):
        raise InvalidOption("this system has no ports that processes share", remedy="leave --processes out")
    for option in REFUSED:
        if context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
            raise InvalidOption(
                f"--{option.replace('_', '-').removesuffix('s')} is about one broker, and --processes {count} starts "
                f"{count} that share a port",
                remedy="leave one of them out; see docs/clusters.md",
            )


def process_of(count: int, file: Path | None, number: int) -> Process | None:
    """Return which of ``count`` processes this one is, None for who starts them. Raises as `check`."""
    check(count)
    return None if file is None else Process(several.kept(file), number)


def dress(options: NodeOptions, process: Process) -> NodeOptions:
    """Make of what one broker would be started with what one process of it is."""
    number = str(process.number)
    options.name = name_of(options.name, process.number)
    options.data = None if options.data is None else options.data / number
    options.listen = [] if process.leaves else list(process.plan.listen)
    options.trace = None if options.trace is None else options.trace / number
    options.trace_limit //= process.plan.count
    options.process = process
    return options


async def supervise(
    options: NodeOptions, count: int, ports_file: Path | None = None, console: ConsoleSettings | None = None
) -> None:
    """Run ``count`` processes until somebody asks to stop. Raises OperatorError.

    ``options``: what one broker would be started with. ``console``: what is started beside them.
    """
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with AsyncExitStack() as stack:
        stack.callback(runtime.on_signals(stop.set_result))
        leaving: list[int] = []
        if options.data is not None:
            leaving = stack.enter_context(_held(options.data, options.name, count))
        listen = await stack.enter_async_context(_taken(options.listen))
        place = several.meeting_place(options.data)
        stack.callback(several.leave, place)
        stack.enter_context(several.held(place))
        several.clear(place)
        password = secrets.token_hex(SECRET_OCTETS)
        plan = ProcessPlan(count=count, listen=listen, sockets=str(place), password=password)
        supervisor = Supervisor(options.command, plan, several.keep(plan), leaving)
        await _run(supervisor, options, stop, ports_file, console)
        _say_what_stayed(options.data, leaving)


async def _run(
    supervisor: Supervisor,
    options: NodeOptions,
    stop: asyncio.Future[str],
    ports_file: Path | None,
    console: ConsoleSettings | None,
) -> None:
    plan = supervisor.plan
    page = None
    starting = asyncio.ensure_future(supervisor.start())
    wrong: list[str] = []
    try:
        waited: list[asyncio.Future[Any]] = [starting, stop]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            if console is not None:
                from entrepot.cli.console import Beside, askable_by  # noqa: PLC0415 - most have none

                settings = askable_by(console, list(plan.listen))
                if settings is not None:
                    page = Beside(settings, _named(options.name, plan))
                    page.start()
            tell("\n".join(_banner(options, plan, supervisor)))
            if ports_file is not None:
                several.write_private(ports_file, _facts(plan, options, supervisor))
        why = await stop
        tell(f"stopping: {why}")
    finally:
        starting.cancel()
        if ports_file is not None:
            ports_file.unlink(missing_ok=True)  # nobody should dial what is gone
        wrong = await supervisor.stop()
        if page is not None:
            await page.stop()
    if wrong:
        raise OperatorError("; ".join(wrong), remedy="see the log; what was confirmed is on disk")


def _named(name: str, plan: ProcessPlan) -> list[tuple[str, str]]:
    """Return what a console calls each process, and where it asks it."""
    return [(name_of(name, number), f"unix://{plan.socket(number)}") for number in range(plan.count)]


def _banner(options: NodeOptions, plan: ProcessPlan, supervisor: Supervisor) -> Iterator[str]:
    """Yield what a person wants to see who started them."""
    yield f"entrepot: broker {options.name!r}, {plan.count} processes, pid {os.getpid()}"
    for uri in _uris(plan):
        yield f"  listening  {uri}"
    if options.data is None:
        yield "  data       none: messages are lost when the broker stops (--ephemeral)"
    else:
        yield f"  data       {options.data.resolve()}/0 to {plan.count - 1}"
    for one in supervisor.processes:
        yield f"  process {one.number}  pid {one.pid}, node {one.facts['node']}, stomp+unix://{plan.socket(one.number)}"


def _uris(plan: ProcessPlan) -> list[str]:
    """Return where all listen, without options."""
    return [replace(Listening(one, Dialects().read, SPOKEN).endpoint, options={}).format() for one in plan.listen]


def _facts(plan: ProcessPlan, options: NodeOptions, supervisor: Supervisor) -> str:
    """Return what the file says that ``--ports-file`` names."""
    facts = {
        "pid": os.getpid(),
        "uris": _uris(plan),
        "stomp": supervisor.processes[0].facts["stomp"],
        "data": None if options.data is None else str(options.data.resolve()),
        "sockets": plan.sockets,
        "processes": [{"number": one.number, **one.facts} for one in supervisor.processes],
    }
    return json.dumps(facts, indent=2) + "\n"


@contextmanager
def _held(directory: Path, name: str, count: int) -> Iterator[list[int]]:
    """Have the data directory for ``count`` processes: yields the numbers of others that have messages there.

    Raises StoreLocked, StoreUnusable.
    """
    several.refuse_whole(directory)
    lock = DirectoryLock(directory, name)
    try:
        leaving = [one for one in several.beyond(directory, count) if _messages(directory / str(one))]
        several.note(directory, count)
        yield leaving
    finally:
        lock.release()


def _say_what_stayed(directory: Path | None, leaving: Sequence[int]) -> None:
    """Say which stores have messages still that no process serves, if any."""
    for number in leaving if directory is not None else ():
        assert directory is not None
        found = _messages(directory / str(number))
        if found:
            log.error(
                "%d messages are still in %s, which no process serves: start with --processes %d to have them served",
                found,
                directory / str(number),
                number + 1,
            )


def _messages(store: Path) -> int:
    """Return how many messages a store has that nobody serves. Raises StorageError."""
    with unused(store):
        recovery = Recovery(Spectacles(store))
        recovery.run()
        return int(recovery.report.messages)


@asynccontextmanager
async def _taken(listen: Sequence[str]) -> AsyncIterator[tuple[str, ...]]:
    """Have the ports of ``listen`` for all processes: yields the URIs, with the ports that were free.

    What is bound and does not listen takes no connection away from those that do. Raises InvalidOption for what
    processes cannot share, AddressInUse.
    """
    loop = asyncio.get_running_loop()
    found: list[str] = []
    with ExitStack() as held:
        for text in listen:
            alone = Listening(text, Dialects().read, SPOKEN)
            _check_shared(alone)
            probes = await bind(alone, loop, alone.port)  # somebody else who shares would not be noticed otherwise
            port = probes[0].getsockname()[1]
            for probe in probes:
                probe.close()
            shared = Listening(text, Dialects().read, SPOKEN, shared=True)
            for one in await bind(shared, loop, port, listens=False):
                held.callback(one.close)
            found.append(text if alone.port else replace(alone.endpoint, port=port).format())
        yield tuple(found)


def _check_shared(listening: Listening) -> None:
    """Raise InvalidOption for a place that processes cannot share."""
    if listening.unix:
        raise InvalidOption(
            f"{listening.endpoint.masked()}: a file cannot be shared by processes",
            remedy="listen on a port of 127.0.0.1; each process has a socket of its own below the data directory",
        )
    if listening.protocol == HTTP:
        raise InvalidOption(
            f"{listening.endpoint.masked()}: a client of HTTP comes by a new connection each time, and to another "
            "process",
            remedy="listen for ws:// or tcp://, or leave --processes out",
        )
