"""`entrepot run`: a broker in this process, until a signal ends it."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from entrepot.base.environment import GIB, MIB
from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.base.provenance import DEFAULT, Said
from entrepot.cli.arguments import read_connectors, read_draws, read_settings, read_users
from entrepot.cli.backups import Slot, housing, slot_of
from entrepot.cli.log_options import log_options
from entrepot.cli.replicas import FILE, replication_options
from entrepot.cli.sharing import reached_at, shared_store
from entrepot.cli.telemetry import otlp_options, telemetry
from entrepot.cli.values import SIZE

if TYPE_CHECKING:
    from entrepot.cli.pinger import Pinger
    from entrepot.config.console import ConsoleSettings
    from entrepot.config.model import Colocation
    from entrepot.config.processes import Process
    from entrepot.config.reading import Reading
    from entrepot.ha.options import SharedStoreOptions
    from entrepot.node_options import NodeOptions

DEFAULT_DATA: Final = "entrepot-data"


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
    envvar="ENTREPOT_CONNECT",
    show_envvar=True,
    help="Other brokers to bridge to: static:(tcp://host:61616), masterslave:(...), multicast://default. The query may "
    "hold attributes of <networkConnector>, like networkTTL=2. Repeatable: each is a network connector. "
    "activemq:(tcp://host:61616) draws from an ActiveMQ, and artemis:(...) from an Artemis, what is read here "
    "(docs/spark-on-activemq.md).",
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
@click.option(
    "--backup-of",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    hidden=True,
    help="Of a process that a node with <colocated> starts: the store whose backup it is.",
)
@click.option(
    "--backup-number", type=click.IntRange(min=1), default=1, hidden=True, help="Which of those of its host it is."
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Start N brokers that share the ports of --listen and are one to clients, for a machine with many cores: "
    "each has its directory below --data, and its part of --memory-limit. See docs/clusters.md.",
)
@click.option("--process", type=click.IntRange(min=0), hidden=True, help="Which of --processes it is.")
@click.option("--process-plan", type=FILE, hidden=True, help="What all of --processes know.")
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
    part: str | None,
    failback: bool | None,
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
    backup_of: Path | None,
    backup_number: int,
    processes: int | None,
    process: int | None,
    process_plan: Path | None,
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
    from entrepot.cli.given import options_of  # noqa: PLC0415 - `entrepot run --help` need not load a broker
    from entrepot.io import logs, runtime  # noqa: PLC0415 - as above

    _check_together(
        configured=configuration is not None,
        about_one=bool(defines or properties) or strict,
        ephemeral=ephemeral,
        ha=ha,
    )
    _check_console(console)
    if until_eof:
        runtime.stop_at_end_of_input()
    member = _process(processes, process, process_plan)
    logs.configure_logging(log_level, log_format, process)
    watching = telemetry(*otlp)
    policies = read_settings(settings)
    draws = read_draws(connect)
    networks = read_connectors(connect, duplex=duplex)
    security = None if users is None else read_users(users)
    slot = slot_of(backup_of, backup_number)
    written = (
        None
        if configuration is None
        else configured(configuration, defines, properties, strict=strict, slot=slot, processes=processes)
    )
    if written is not None:
        name = name if _given("name") else written.name
        data = data if _given("data") or written.data is None else written.data
        ephemeral = ephemeral or (written.data is None and not _given("data"))
    console, trace, ports_file, ephemeral = _kept(slot, member, console, trace, ports_file, ephemeral=ephemeral)
    name, data, listen, status = _as_backup(written, slot, data, name=name, listen=listen, status=status)
    colocation = _colocation(written, slot, ha=ha, ephemeral=ephemeral)
    page = planned(console, written)
    said = options_of(click.get_current_context(), policies)
    sharing = None if written is None or written.config is None or ephemeral else written.config.sharing
    copied = {
        "--replication": replication,
        "--peer": peers,
        "--part": part,
        "--failback": failback,
        "--copies": copies,
        "--confirm": confirm,
        "--copy-limit": copy_limit,
        "--replication-secret": replication_secret,
        "--replication-certificate": replication_certificate,
        "--replication-key": replication_key,
        "--replication-trust": replication_trust,
        "--replication-any-host": replication_any_host,
    }
    connectors = reached_at(written)
    if ha == "replication":
        from entrepot.cli.replication import of_cluster  # noqa: PLC0415 - few brokers need it

        hosting = _hosting(written, colocation)
        shared: SharedStoreOptions | None = of_cluster(
            copied, locker, lease_duration, status, sharing, connectors, hosting=hosting, name=name, slot=slot
        )
    else:
        shared = shared_store(ha, copied, locker, lease_duration, status, sharing, connectors)
    _refuse_nobody(written, shared)

    def options() -> NodeOptions:
        from entrepot.node_options import DEFAULT_LISTEN, NodeOptions  # noqa: PLC0415 - not before it is this broker's turn

        made = NodeOptions() if written is None else written
        made.name = name
        made.listen = list(listen or (DEFAULT_LISTEN if written is None else written.listen))
        made.data = data if written is None or _given("data") else written.data
        made.data = None if ephemeral else made.data
        whole = memory_limit // (processes or 1)
        made.memory_limit = whole if written is None or _given("memory_limit") else written.memory_limit
        made.policies = policies
        made.networks = networks
        made.draws = draws
        made.announce = list(announce)
        made.zone = zone or ""
        made.client_zones = list(client_zones)
        made.shared = shared
        made.security = security
        made.trace = trace
        made.trace_limit = trace_limit
        standing = DEFAULT_LISTEN if written is None and not listen else ()
        made.said = [*said, *(Said("--listen", str(at), uri, source=DEFAULT) for at, uri in enumerate(standing, 1))]
        made.telemetry = watching
        made.colocation = colocation
        made.command = [sys.executable, *sys.orig_argv[1:]]
        return _dressed(made, member)

    looks = _pinger(written)

    async def serve() -> bool:
        from entrepot.cli.serving import serve_alone, serve_in_turn  # noqa: PLC0415 - `--help` need not load it

        if processes is not None and member is None:
            from entrepot.cli.processes import supervise  # noqa: PLC0415 - most brokers are one process

            await supervise(options(), processes, ports_file, page)
            return False
        if looks is not None and not await looks.waits():
            return False
        if shared is None:
            return await serve_alone(options(), None, ports_file, page, looks)
        house = partial(housing, colocation, written)
        return await serve_in_turn(data, name, shared, options, ports_file, page, looks, house)

    runtime.tune_malloc()
    _turns_off(member)
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


def _process(count: int | None, number: int | None, plan: Path | None) -> Process | None:
    """Return which of ``count`` processes this is; None for who starts them, or is alone. Raises InvalidOption."""
    if count is None:
        return None
    from entrepot.cli.processes import process_of  # noqa: PLC0415 - most brokers are one process

    return process_of(count, plan, number or 0)


def _turns_off(member: Process | None) -> None:
    """Have the meeting place of a broker without a directory go with the last process, where the first was killed."""
    if member is None:
        return
    import atexit  # noqa: PLC0415 - most brokers are one process

    from entrepot.io import several  # noqa: PLC0415 - as above

    parent = os.getppid()

    def end() -> None:
        if os.getppid() != parent:
            several.turn_off(Path(member.plan.sockets))

    atexit.register(end)


def _dressed(made: NodeOptions, member: Process | None) -> NodeOptions:
    """Return what ``member`` is started with, where one broker would be with ``made``."""
    if member is None:
        return made
    from entrepot.cli.processes import dress  # noqa: PLC0415 - as above

    return dress(made, member)


def _kept(
    slot: Slot | None,
    member: Process | None,
    console: str | None,
    trace: Path | None,
    ports_file: Path | None,
    *,
    ephemeral: bool,
) -> tuple[str | None, Path | None, Path | None, bool]:
    """Return what a hosted backup has of this: nothing that its host has, and always a store.

    One of several processes has no console, and says where it is to who started it.
    """
    if member is not None:
        return "none", trace, Path(member.ports_file), ephemeral
    return (console, trace, ports_file, ephemeral) if slot is None else ("none", None, None, False)


def _colocation(
    written: NodeOptions | None, slot: Slot | None, *, ha: str | None, ephemeral: bool
) -> Colocation | None:
    """Return how backups are hosted. Raises InvalidOption where the lock is not the one that a host would look at."""
    from entrepot.config.hosted import colocation_of  # noqa: PLC0415 - a broker without a file needs none

    found = None if written is None or ephemeral or slot is not None else colocation_of(written.config)
    copied = found is not None and found.backup.copies is not None
    if found is not None and ha is not None and not (copied and ha == "replication"):
        raise InvalidOption(
            "the file says <colocated>, and --ha says otherwise who shares which store",
            remedy="leave --ha, --locker and --lease-duration out, or take <colocated> out",
        )
    return found


def _hosting(written: NodeOptions | None, colocation: Colocation | None) -> Colocation | None:
    """Return how the nodes of a cluster host one another's backups, for a node and for what it hosts."""
    return colocation if colocation is not None or written is None else written.colocation


def _as_backup(
    written: NodeOptions | None,
    slot: Slot | None,
    data: Path,
    *,
    name: str,
    listen: tuple[str, ...],
    status: str | None,
) -> tuple[str, Path, tuple[str, ...], str | None]:
    """Return name, directory, listeners and status page, those of a hosted backup for one. Raises InvalidOption."""
    if slot is None:
        return name, data, listen, status
    from entrepot.base.places import host_and_port  # noqa: PLC0415 - few brokers are one
    from entrepot.config.hosted import name_of, shifted  # noqa: PLC0415

    directory, number, owner, _ = slot
    if written is None or written.config is None or written.colocation is None:
        raise InvalidOption("--backup-of is said by a broker whose file has <colocated>, for a process of its own")
    offset = written.colocation.port_offset * number
    if status is not None:
        host, port = host_and_port(status, "0.0.0.0:8162", everywhere=True)
        status = f"{host or '0.0.0.0'}:{port + offset}" if port else status
    name = name_of(name, number, owner) if _given("name") else name
    return name, directory, tuple(shifted(one, offset) for one in listen), status


def _refuse_nobody(written: NodeOptions | None, shared: SharedStoreOptions | None) -> None:
    """See that a backup that gives away what it takes over is in a cluster. Raises InvalidOption."""
    if written is not None and written.config is not None and shared is not None and shared.drains:
        from entrepot.config.clusters import refuse_nobody  # noqa: PLC0415 - few brokers need it

        refuse_nobody(written.config.peering)


def planned(console: str | None, written: NodeOptions | None) -> ConsoleSettings | None:
    """Return the console to start, None for none. Raises InvalidOption."""
    config = None if written is None else written.config
    if console is None and (config is None or config.console is None):
        return None
    from entrepot.cli.console import planned as plan  # noqa: PLC0415 - most brokers have none

    return plan(console, config)


def _pinger(written: NodeOptions | None) -> Pinger | None:
    """Return what looks whether this broker is cut off, None where its file names nothing. Raises InvalidOption."""
    if written is None or written.config is None or written.config.network_check is None:
        return None
    from entrepot.cli.pinger import pinger  # noqa: PLC0415 - few brokers have one

    return pinger(written.config.network_check)


def _check_console(console: str | None) -> None:
    """See that the console can be started, before anything else is. Raises InvalidOption."""
    if console is not None:
        from entrepot.cli.console import check  # noqa: PLC0415 - most brokers have none

        check(console)


def _given(option: str) -> bool:
    """Return whether an option was given, and not just has its default."""
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def configured(
    configuration: str,
    defines: tuple[str, ...],
    properties: str = "",
    *,
    strict: bool,
    slot: Slot | None = None,
    processes: int | None = None,
) -> NodeOptions:
    """Return what a file says, and show its findings. Raises InvalidConfiguration where one is an error.

    ``slot``: the broker is the hosted backup of that number, of the store in that directory. ``processes``: it is for
    each of so many. Raises InvalidOption for what they cannot be.
    """
    from entrepot.cli.configuration import counted, examine, show  # noqa: PLC0415 - a broker without a file needs no XML
    from entrepot.io.reloading import Origin  # noqa: PLC0415
    from entrepot.journal.log import JournalOptions  # noqa: PLC0415
    from entrepot.node_options import NodeOptions  # noqa: PLC0415

    def written() -> Reading:
        found = examine(configuration, defines, properties)
        findings = found.findings.strict() if strict else found.findings
        return replace(found, findings=findings, config=None if findings.errors else found.config)

    def read() -> Reading:
        return _of_slot(written(), slot, processes)

    whole = written()
    reading = _of_slot(whole, slot, processes)
    config, findings = reading.config, reading.findings
    show(findings)
    if config is None:
        raise InvalidConfiguration(
            f"{configuration}: {counted(findings)}: it does not start", remedy="see above what to do about each"
        )
    made = NodeOptions(
        name=config.broker.name,
        data=Path(config.store.directory) if config.store.directory else None,
        listen=[connector.uri for connector in config.connectors],
        memory_limit=config.usage.memory_limit,
        journal=JournalOptions(segment_bytes=config.store.segment),
        config=config,
        origin=Origin(read, reading),
    )
    if slot is not None:
        from entrepot.config.hosted import colocation_of  # noqa: PLC0415 - few brokers are one

        made.colocation = colocation_of(whole.config)
    return made


def _of_slot(reading: Reading, slot: Slot | None, processes: int | None) -> Reading:
    """Return what a file says for the hosted backup of that store and number, or for each of so many processes."""
    config = reading.config
    if config is None or (slot is None and processes is None):
        return reading
    from entrepot.config.hosted import hosted  # noqa: PLC0415 - few brokers are one
    from entrepot.config.processes import shared_out  # noqa: PLC0415 - as above

    config = config if processes is None else shared_out(config, processes)
    return replace(reading, config=config if slot is None else hosted(config, str(slot[0]), slot[1], slot[2]))
