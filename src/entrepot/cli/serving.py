"""What `entrepot run` does once it knows what to run: waits for its turn, serves, and says where."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.compiled import build_name
from entrepot.base.errors import EntrepotError, InvalidOption, StorageFull, StoreLost
from entrepot.cli.build import slow_warning
from entrepot.io import runtime
from entrepot.io.logs import tell

if TYPE_CHECKING:
    from entrepot.cli.console import Beside
    from entrepot.cli.pinger import Pinger
    from entrepot.config.console import ConsoleSettings
    from entrepot.ha.options import SharedStoreOptions
    from entrepot.io.colocated import Housing
    from entrepot.io.standby import Standby
    from entrepot.node import Node
    from entrepot.node_options import NodeOptions

PRELOAD_AFTER: Final = 0.5  # s; who gets the store at once has to load everything at once
LOOK: Final = 0.05  # s between two looks whether another process is there
PRELOADED: Final = "entrepot.node"
"""What a waiting broker loads ahead, with all that it needs: 0.1 to 0.2 s of a takeover, for 8 MB."""


async def serve_in_turn(
    data: Path,
    name: str,
    shared: SharedStoreOptions,
    options: Callable[[], NodeOptions],
    ports_file: Path | None,
    console: ConsoleSettings | None = None,
    looks: Pinger | None = None,
    house: Callable[[Standby], Housing | None] = lambda standby: None,
) -> bool:
    """Wait for the lease of ``data``, then serve. Returns True when it should begin anew, as a backup.

    ``house``: returns what hosts copies of other stores from now on, None for nothing.
    """
    from entrepot.io.standby import Standby  # noqa: PLC0415
    from entrepot.io.status import StatusPage  # noqa: PLC0415

    standby = Standby(data, name, shared)
    page = StatusPage(shared.status, standby.facts) if shared.status else None
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    undo = runtime.on_signals(stop.set_result)
    following = None
    if shared.replication is not None:
        from entrepot.io.following import Following  # noqa: PLC0415 - few brokers need it

        following = Following(standby, shared.replication)
        following.start()
    housing = None
    if page is not None:
        await page.open()
    try:
        housing = house(standby)
        turn = asyncio.ensure_future(standby.win())
        waited: list[asyncio.Future[Any]] = [turn, stop]
        await asyncio.wait(waited, timeout=PRELOAD_AFTER, return_when=asyncio.FIRST_COMPLETED)
        if not turn.done() and not stop.done():
            importlib.import_module(PRELOADED)
            runtime.tune_collector()
            runtime.give_back_memory()
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not turn.done():
            turn.cancel()
            await asyncio.wait([turn])
            standby.withdraw()
            if following is not None:
                await following.end()
            tell(f"stopping: {stop.result()}")
            return False
        grant = turn.result()
        if following is not None and not await following.take_office(grant.epoch):
            standby.hand_back("its copy is not whole: a catch-up was under way")
            return not stop.done()
        if looks is not None and not await looks.check.reachable():
            standby.hand_back("it is cut off: nothing that its network check names answers")
            return not stop.done()
        if stop.done():  # while the copy was looked at, or the network: nothing is open yet
            standby.hand_back("it was asked to stop")
            tell(f"stopping: {stop.result()}")
            return False
        made = options()  # loads what is not loaded yet: nobody should end it at once meanwhile
        made.housing = housing
        undo()
        return await serve_alone(made, standby, ports_file, console, looks)
    finally:
        undo()
        if housing is not None:
            await housing.stop()
        if page is not None:
            page.close()


async def serve_alone(
    options: NodeOptions,
    standby: Standby | None,
    ports_file: Path | None,
    console: ConsoleSettings | None = None,
    looks: Pinger | None = None,
) -> bool:
    """Serve until somebody asks to stop. Returns True when it should begin anew: its store, or its network, is gone.

    ``console``: what is started beside it, None for nothing. ``looks``: whether it is cut off.
    """
    from entrepot.node import Node  # noqa: PLC0415

    node = Node(options, standby)
    ends = False

    def end(why: str) -> None:
        nonlocal ends
        ends = True
        node.ask_to_stop(why)

    undo = runtime.on_signals(end)
    failure: EntrepotError | None = None
    beside: Beside | None = None
    try:
        if node.drains:
            console = None  # there is nobody that it could ask
        if console is not None:
            from entrepot.cli.console import Beside, askable_by  # noqa: PLC0415 - most have none

            console = askable_by(console, options.listen)
        await node.start()
        runtime.tune_collector()
        if console is not None:
            beside = Beside(console, [(options.name, node.uri("openwire"))])
            beside.start()
        if options.process is not None and options.process.leaves:
            await _leave(node)
        said = "\n".join(banner(node))
        if said:
            tell(said)
        if ports_file is not None:
            write_ports(ports_file, node)
        if looks is not None:
            looks.watch(node.ask_to_stop)
        why = await node.wait()
        failure = node.broker.journal.refusal()
        tell(f"stopping: {why}")
        await node.stop(f"the broker stops: {why}")
    except StoreLost:
        if not node.fenced:
            raise
    finally:
        undo()
        if looks is not None:
            looks.ends()
        try:
            await node.stop()
        finally:
            if beside is not None:
                await beside.stop()
        if ports_file is not None:
            ports_file.unlink(missing_ok=True)  # nobody should dial what is gone
    if node.fenced:
        return True
    if not ends and _begins_anew(standby, looks):
        return True
    if failure is not None and not isinstance(failure, StorageFull):
        raise failure
    return False


def _begins_anew(standby: Standby | None, looks: Pinger | None) -> bool:
    """Say whether a broker that stopped is to wait for its turn, or for the network."""
    if standby is not None and (standby.candidate.gave_back or standby.candidate.emptied):
        return standby.options.restart_backup
    return (standby is not None and standby.candidate.steps_down) or (looks is not None and looks.gone)


async def _leave(node: Node) -> None:
    """Have ``node`` stop once another process of this broker can take what it has."""
    cluster = node.made.clusters[0]
    while not cluster.met():
        await asyncio.sleep(LOOK)
    node.ask_to_stop("its messages go to the other processes")


def banner(node: Node) -> Iterator[str]:
    """Yield what a person who started a broker wants to see."""
    options = node.options
    if options.process is not None:
        return  # who started it says so for all
    yield f"entrepot, {build_name()}: broker {options.name!r}, node {node.broker.ids.node_id}"
    yield f"  uuid       {node.broker.ids.node.uuid_text}"
    slow = slow_warning()
    if slow:
        yield f"  warning    {slow}"
    for uri in node.uris:
        yield f"  listening  {uri}"
    if node.drains:
        yield "  serves     nobody: all that it took over goes to another broker (scale-down)"
    if options.data is None:
        yield "  data       none: messages are lost when the broker stops (--ephemeral)"
    else:
        yield f"  data       {options.data.resolve()}"
        if node.report is not None:
            yield f"  recovered  {node.report.describe()}"
    if node.plan.zone:
        yield f"  zone       {node.plan.zone}"
    security = node.plan.security
    if security.users is not None:
        may = "may do everything" if security.rules is None else f"have rights by {len(security.rules)} rules"
        yield f"  users      {len(security.users)}, who {may}"
    place = stomp_place(node)
    if not place:
        return
    given = "" if place == "stomp://127.0.0.1:61613" else f" --url {place}"
    yield "  try it     " + f"entrepot send{given} /queue/hello 'good morning'"
    yield "             " + f"entrepot receive{given} /queue/hello"


def stomp_place(node: Node) -> str:
    """Return where the other commands can reach ``node``; "" where it speaks no STOMP."""
    try:
        return node.uri("stomp")
    except InvalidOption:
        return ""


def write_ports(path: Path, node: Node) -> None:
    """Write where ``node`` listens, whole or not at all: who polls for the file never reads half of it."""
    facts = {
        "pid": os.getpid(),
        "node": node.broker.ids.node_id,
        "uuid": node.broker.ids.node.uuid_text,
        "uris": node.uris,
        "stomp": stomp_place(node),
        "data": None if node.options.data is None else str(node.options.data.resolve()),
    }
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps(facts, indent=2) + "\n")
    draft.replace(path)
