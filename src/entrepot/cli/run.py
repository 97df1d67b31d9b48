"""`entrepot run`: a broker in this process, until a signal ends it."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from entrepot.base.compiled import build_name
from entrepot.base.environment import GIB, MIB, SECOND
from entrepot.base.errors import EntrepotError, InvalidConfiguration, InvalidOption, StorageFull, StoreLost
from entrepot.cli.build import slow_warning
from entrepot.cli.log_options import log_options
from entrepot.cli.replicas import FILE, replication_options
from entrepot.cli.telemetry import otlp_options, telemetry
from entrepot.cli.values import SIZE

if TYPE_CHECKING:
    from entrepot.cli.console import Beside
    from entrepot.cluster.networks.options import NetworkConnectorOptions
    from entrepot.config.console import ConsoleSettings
    from entrepot.config.model import Sharing
    from entrepot.config.reading import Reading
    from entrepot.config.security import Security
    from entrepot.ha.options import SharedStoreOptions
    from entrepot.io.standby import Standby
    from entrepot.node import Node, NodeOptions

DEFAULT_DATA: Final = "entrepot-data"
PRELOAD_AFTER: Final = 0.5  # s; who gets the store at once has to load everything at once
PRELOADED: Final = "entrepot.node"
"""What a waiting broker loads ahead, with all that it needs: 0.1 to 0.2 s of a takeover, for 8 MB."""


@click.command(
    epilog="""Examples:

    \b
    entrepot run
    entrepot run conf/activemq.xml
    entrepot run etc/bootstrap.xml
    entrepot run --data /var/lib/entrepot --name amsterdam
    entrepot run --connect 'static:(tcp://other:61616)' --duplex
    entrepot run --listen 'stomp://0.0.0.0:61613?maximumConnections=1000'
    entrepot run --ephemeral --listen stomp://127.0.0.1:0 --ports-file ports.json
    entrepot run --set 'orders.>:max_deliveries=3,redelivery_delay=1000'
    """
)
@click.argument("configuration", required=False)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA,
    show_default=True,
    help="Directory of the journal; made if it does not exist.",
)
@click.option("--name", default="localhost", show_default=True, help="Name of this broker, for logs and message ids.")
@click.option(
    "--listen",
    multiple=True,
    metavar="URI",
    help="Where to listen, with options as ActiveMQ's transport connectors have them; port 0 takes a free one. Give it "
    "again for more places; the first replaces the defaults, stomp://127.0.0.1:61613 and auto://127.0.0.1:61616.",
)
@click.option(
    "--connect",
    multiple=True,
    metavar="URI",
    help="Other brokers to bridge to: static:(tcp://host:61616), masterslave:(...), multicast://default. The query may "
    "hold attributes of <networkConnector>, like networkTTL=2. Repeatable: each is a network connector.",
)
@click.option("--duplex", is_flag=True, help="Let messages come back over the connections that --connect makes.")
@click.option(
    "--announce",
    multiple=True,
    metavar="URI",
    help="Where to tell other brokers and clients of this one: multicast://default, as ActiveMQ's discoveryUri, or "
    "zeroconf://GROUP. Repeatable.",
)
@click.option("--zone", metavar="NAME", help="The zone of this broker: its clients stay in theirs. See docs/zones.md.")
@click.option(
    "--client-zone",
    "client_zones",
    multiple=True,
    metavar="ZONE=WHAT,...",
    help="Which clients belong to ZONE: those of a network (10.1.0.0/16), client:PATTERN, user:PATTERN. Repeatable; "
    "the first that fits counts.",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing on disk: every message is lost when the broker stops.")
@click.option(
    "--memory-limit",
    type=SIZE,
    default=512 * MIB,
    show_default="512mb",
    help="How much memory messages may take before they are paged to disk or producers wait.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PATTERN:SETTING=VALUE,...",
    help="Settings of the addresses that PATTERN covers (wildcards * and >, # too). Repeatable.",
)
@click.option(
    "--users",
    type=FILE,
    help="Who may connect, and what he may do: a file as `entrepot user add` writes it. See docs/security.md.",
)
@click.option(
    "-D", "defines", multiple=True, metavar="NAME=VALUE", help="Value of the placeholder ${NAME}. Repeatable."
)
@click.option(
    "--properties",
    default="",
    metavar="FILE,...",
    help="Broker properties of Artemis, which win over its broker.xml: files, or directories of them.",
)
@click.option("--strict", is_flag=True, help="Start only if the configuration has no warnings either.")
@click.option(
    "--ha",
    type=click.Choice(["shared-store", "replication"]),
    help="Stand in for one another: with shared-store all have the same --data, one serves, the others take over "
    "(docs/high-availability.md); with replication each has its own, a copy of the primary's (docs/replication.md).",
)
@replication_options
@click.option(
    "--locker",
    metavar="URI",
    help="With --ha: where the lock is: file (default, in --data), sqlite:FILE, postgresql://..., "
    "zookeeper://HOSTS/PATH, quorum:(HOST:PORT,...) for `entrepot witness`.",
)
@click.option(
    "--lease-duration",
    type=click.FloatRange(min=0.2),
    metavar="SECONDS",
    help="With --ha: how long a master without a sign of life keeps the store (5). A dead process does not keep it.",
)
@click.option(
    "--status", metavar="HOST:PORT", help="For a shared store: where /status and /ready answer, also while waiting."
)
@click.option(
    "--console",
    "console",
    metavar="HOST:PORT|none",
    help="Start `entrepot console` beside this broker, there, and end it with it. Needs 'entrepot[console]'. It goes "
    "before the place in jetty.xml or bootstrap.xml, whose TLS and users hold all the same; `none` starts none.",
)
@click.option(
    "--trace",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep a trace of what happens to every message in this directory, for `entrepot pipeline audit`.",
)
@click.option(
    "--trace-limit",
    type=SIZE,
    default=4 * GIB,
    show_default="4gb",
    help="How much disk the trace of this broker may take; beyond, its oldest segments go.",
)
@click.option(
    "--until-eof",
    is_flag=True,
    help="Stop when standard input ends, as after SIGTERM: whoever started this broker may end in any "
    "way, and leaves no broker behind.",
)
@click.option("--no-uvloop", is_flag=True, help="Use asyncio's own event loop even where uvloop is installed.")
@otlp_options
@log_options
@click.option(
    "--ports-file",
    type=FILE,
    help="Write the real URIs, as JSON, to this file once the broker accepts connections.",
)
def run(
    *,
    configuration: str | None,
    defines: tuple[str, ...],
    properties: str,
    strict: bool,
    data: Path,
    name: str,
    listen: tuple[str, ...],
    connect: tuple[str, ...],
    duplex: bool,
    announce: tuple[str, ...],
    zone: str | None,
    client_zones: tuple[str, ...],
    ephemeral: bool,
    memory_limit: int,
    settings: tuple[str, ...],
    users: Path | None,
    ha: str | None,
    replication: str | None,
    peers: tuple[str, ...],
    copies: int | None,
    confirm: str | None,
    copy_limit: int | None,
    replication_secret: Path | None,
    replication_certificate: Path | None,
    replication_key: Path | None,
    replication_trust: Path | None,
    replication_any_host: bool,
    locker: str | None,
    lease_duration: float | None,
    status: str | None,
    console: str | None,
    trace: Path | None,
    trace_limit: int,
    until_eof: bool,
    no_uvloop: bool,
    otlp: tuple[str | None, float | None, int | None],
    log_level: str,
    log_format: str,
    ports_file: Path | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C ends it.

    Without options it speaks STOMP on 127.0.0.1:61613, finds out the protocol on 127.0.0.1:61616, and keeps its journal
    in ./entrepot-data. A second signal ends it at once; what was confirmed is on disk in any case.

    CONFIGURATION is an activemq.xml of ActiveMQ Classic (or xbean:file:...) or a broker.xml of Artemis: the broker is
    what it says, and whatever it does not do as written is reported, line by line; options given here win. The
    bootstrap.xml of an instance of Artemis names its broker.xml. See `entrepot check`.
    """
    from entrepot.io import logs, runtime  # noqa: PLC0415 - `entrepot run --help` need not load a broker

    _check_together(
        configured=configuration is not None,
        about_one=bool(defines or properties) or strict,
        ephemeral=ephemeral,
        ha=ha,
    )
    _check_console(console)
    if until_eof:
        runtime.stop_at_end_of_input()
    logs.configure_logging(log_level, log_format)
    watching = telemetry(*otlp)
    policies = read_settings(settings)
    networks = read_connectors(connect, duplex=duplex)
    security = None if users is None else read_users(users)
    written = None if configuration is None else configured(configuration, defines, properties, strict=strict)
    if written is not None:
        name = name if _given("name") else written.name
        data = data if _given("data") or written.data is None else written.data
        ephemeral = ephemeral or (written.data is None and not _given("data"))
    page = planned(console, written)
    sharing = None if written is None or written.config is None or ephemeral else written.config.sharing
    copied = {
        "--replication": replication,
        "--peer": peers,
        "--copies": copies,
        "--confirm": confirm,
        "--copy-limit": copy_limit,
        "--replication-secret": replication_secret,
        "--replication-certificate": replication_certificate,
        "--replication-key": replication_key,
        "--replication-trust": replication_trust,
        "--replication-any-host": replication_any_host,
    }
    if ha == "replication":
        from entrepot.cli.replication import replicated  # noqa: PLC0415 - few brokers need it

        shared: SharedStoreOptions | None = replicated(copied, locker, lease_duration, status, sharing)
    else:
        for option, value in copied.items():
            if value:
                raise InvalidOption(f"{option} is about replication", remedy="add --ha replication")
        shared = shared_store(ha, locker, lease_duration, status, sharing)

    def options() -> NodeOptions:
        from entrepot.node import DEFAULT_LISTEN, NodeOptions  # noqa: PLC0415 - not before it is this broker's turn

        made = NodeOptions() if written is None else written
        made.name = name
        made.listen = list(listen or (DEFAULT_LISTEN if written is None else written.listen))
        made.data = data if written is None or _given("data") else written.data
        made.data = None if ephemeral else made.data
        made.memory_limit = memory_limit if written is None or _given("memory_limit") else written.memory_limit
        made.policies = policies
        made.networks = networks
        made.announce = list(announce)
        made.zone = zone or ""
        made.client_zones = list(client_zones)
        made.shared = shared
        made.security = security
        made.trace = trace
        made.trace_limit = trace_limit
        made.telemetry = watching
        return made

    async def serve() -> bool:
        if shared is None:
            return await serve_alone(options(), None, ports_file, page)
        return await serve_in_turn(data, name, shared, options, ports_file, page)

    runtime.tune_malloc()
    if runtime.run(serve(), "asyncio" if no_uvloop else "auto"):
        # A fresh process is the surest way to forget a store that may be another's; it keeps its number.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _check_together(*, configured: bool, about_one: bool, ephemeral: bool, ha: str | None) -> None:
    """Raise InvalidOption for options that contradict one another. ``about_one``: some say how to read a file."""
    if ephemeral and _given("data"):
        raise InvalidOption("--ephemeral keeps nothing on disk, so --data has no meaning", remedy="leave one out")
    if about_one and not configured:
        raise InvalidOption("-D and --strict are about a configuration, and there is none", remedy="name its file")
    if ha is not None and ephemeral:
        raise InvalidOption("--ephemeral keeps nothing on disk, so there is no store to share", remedy="leave one out")


def shared_store(
    ha: str | None, locker: str | None, lease_duration: float | None, status: str | None, sharing: Sharing | None = None
) -> SharedStoreOptions | None:
    """Return how the store is shared, None when it is not. ``sharing``: what a file says. Raises InvalidOption."""
    if ha is None and sharing is not None and locker is None and lease_duration is None:
        from entrepot.config import founding  # noqa: PLC0415

        return founding.shared_store(sharing, status or "")
    if ha is None:
        if locker is not None or lease_duration is not None or status is not None:
            raise InvalidOption(
                "--locker, --lease-duration and --status are about a shared store", remedy="add --ha shared-store"
            )
        return None
    from entrepot.ha.lease import DURATION, LeaseOptions  # noqa: PLC0415
    from entrepot.ha.options import FILE_LOCKER, SharedStoreOptions  # noqa: PLC0415

    duration = DURATION if lease_duration is None else int(lease_duration * SECOND)
    return SharedStoreOptions(locker=locker or FILE_LOCKER, lease=LeaseOptions(duration), status=status or "")


async def serve_in_turn(
    data: Path,
    name: str,
    shared: SharedStoreOptions,
    options: Callable[[], NodeOptions],
    ports_file: Path | None,
    console: ConsoleSettings | None = None,
) -> bool:
    """Wait for the lease of ``data``, then serve. Returns True when it should begin anew, as a backup."""
    from entrepot.io import runtime  # noqa: PLC0415
    from entrepot.io.logs import tell  # noqa: PLC0415
    from entrepot.io.standby import Standby  # noqa: PLC0415
    from entrepot.io.status import StatusPage  # noqa: PLC0415

    standby = Standby(data, name, shared)
    page = StatusPage(shared.status, standby.facts) if shared.status else None
    import asyncio  # noqa: PLC0415 - `entrepot run --help` need not load it

    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    undo = runtime.on_signals(stop.set_result)
    following = None
    if shared.replication is not None:
        from entrepot.io.following import Following  # noqa: PLC0415 - few brokers need it

        following = Following(standby, shared.replication)
        following.start()
    if page is not None:
        await page.open()
    try:
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
            return True
        made = options()  # loads what is not loaded yet: nobody should end it at once meanwhile
        undo()
        return await serve_alone(made, standby, ports_file, console)
    finally:
        undo()
        if page is not None:
            page.close()


async def serve_alone(
    options: NodeOptions, standby: Standby | None, ports_file: Path | None, console: ConsoleSettings | None = None
) -> bool:
    """Serve until somebody asks to stop. Returns True when the store was lost to another broker.

    ``console``: what is started beside it, None for nothing.
    """
    from entrepot.io import runtime  # noqa: PLC0415
    from entrepot.io.logs import tell  # noqa: PLC0415
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
        if console is not None:
            from entrepot.cli.console import Beside, askable_by  # noqa: PLC0415 - most have none

            console = askable_by(console, options.listen)
        await node.start()
        runtime.tune_collector()
        if console is not None:
            beside = Beside(console, options.name, node.uri("openwire"))
            beside.start()
        tell("\n".join(banner(node)))
        if ports_file is not None:
            write_ports(ports_file, node)
        why = await node.wait()
        failure = node.broker.journal.refusal()
        tell(f"stopping: {why}")
        await node.stop(f"the broker stops: {why}")
    except StoreLost:
        if not node.fenced:
            raise
    finally:
        undo()
        try:
            await node.stop()
        finally:
            if beside is not None:
                await beside.stop()
        if ports_file is not None:
            ports_file.unlink(missing_ok=True)  # nobody should dial what is gone
    if node.fenced:
        return True
    if standby is not None and standby.candidate.gave_back:
        return standby.options.restart_backup and not ends
    if standby is not None and standby.candidate.steps_down and not ends:
        return True
    if failure is not None and not isinstance(failure, StorageFull):
        raise failure
    return False


def planned(console: str | None, written: NodeOptions | None) -> ConsoleSettings | None:
    """Return the console to start, None for none. Raises InvalidOption."""
    config = None if written is None else written.config
    if console is None and (config is None or config.console is None):
        return None
    from entrepot.cli.console import planned as plan  # noqa: PLC0415 - most brokers have none

    return plan(console, config)


def _check_console(console: str | None) -> None:
    """See that the console can be started, before anything else is. Raises InvalidOption."""
    if console is not None:
        from entrepot.cli.console import check  # noqa: PLC0415 - most brokers have none

        check(console)


def _given(option: str) -> bool:
    """Return whether an option was given, and not just has its default."""
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def configured(configuration: str, defines: tuple[str, ...], properties: str = "", *, strict: bool) -> NodeOptions:
    """Return what a file says, and show its findings. Raises InvalidConfiguration where one is an error."""
    from entrepot.cli.configuration import counted, examine, show  # noqa: PLC0415 - a broker without a file needs no XML
    from entrepot.io.reloading import Origin  # noqa: PLC0415
    from entrepot.journal.log import JournalOptions  # noqa: PLC0415
    from entrepot.node import NodeOptions  # noqa: PLC0415

    def read() -> Reading:
        found = examine(configuration, defines, properties)
        findings = found.findings.strict() if strict else found.findings
        return replace(found, findings=findings, config=None if findings.errors else found.config)

    reading = read()
    config, findings = reading.config, reading.findings
    show(findings)
    if config is None:
        raise InvalidConfiguration(
            f"{configuration}: {counted(findings)}: it does not start", remedy="see above what to do about each"
        )
    return NodeOptions(
        name=config.broker.name,
        data=Path(config.store.directory) if config.store.directory else None,
        listen=[connector.uri for connector in config.connectors],
        memory_limit=config.usage.memory_limit,
        journal=JournalOptions(segment_bytes=config.store.segment),
        config=config,
        origin=Origin(read, reading),
    )


def read_users(path: Path) -> Security:
    """Return who may connect and what he may do. Raises InvalidConfiguration."""
    from entrepot.cli.user import read  # noqa: PLC0415 - as above
    from entrepot.config.users import parse  # noqa: PLC0415

    return parse(read(path), str(path))


def read_connectors(texts: tuple[str, ...], *, duplex: bool) -> list[NetworkConnectorOptions]:
    """Return the network connectors that ``--connect`` names. Raises InvalidURI, InvalidOption."""
    from entrepot.cluster.networks.connector import connector_of  # noqa: PLC0415 - as above

    if duplex and not texts:
        raise InvalidOption("--duplex is about the connections of --connect, and there are none")
    return [connector_of(text, number, duplex=duplex) for number, text in enumerate(texts, 1)]


def read_settings(settings: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """Return pattern -> setting -> value. Raises InvalidOption; the names of settings are the broker's to check."""
    policies: dict[str, dict[str, object]] = {}
    for text in settings:
        head, equals, tail = text.partition("=")
        pattern, colon, first = head.rpartition(":")  # a pattern may hold colons, a setting does not
        if not (equals and colon and pattern and first):
            raise InvalidOption(
                f"--set {text!r} is not PATTERN:SETTING=VALUE", remedy="write it like 'orders.>:max_deliveries=3'"
            )
        values = policies.setdefault(pattern, {})
        for pair in f"{first}={tail}".split(","):
            name, equals, value = pair.partition("=")
            if not equals:
                raise InvalidOption(f"{pair!r} in --set {text!r} is not SETTING=VALUE")
            values[name.strip()] = value.strip()
    return policies


def banner(node: Node) -> Iterator[str]:
    """Yield what a person who started a broker wants to see."""
    options = node.options
    yield f"entrepot, {build_name()}: broker {options.name!r}, node {node.broker.ids.node_id}"
    yield f"  uuid       {node.broker.ids.node.uuid_text}"
    slow = slow_warning()
    if slow:
        yield f"  warning    {slow}"
    for uri in node.uris:
        yield f"  listening  {uri}"
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
