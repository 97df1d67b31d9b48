"""`entrepot run`: a broker in this process, until a signal ends it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from entrepot.base.compiled import build_name
from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidConfiguration, InvalidOption, StorageFull
from entrepot.cli.values import SIZE

if TYPE_CHECKING:
    from entrepot.node import Node, NodeOptions

DEFAULT_DATA: Final = "entrepot-data"
LEVELS: Final = ("debug", "info", "warning", "error")


@click.command(
    epilog="""Examples:

    \b
    entrepot run
    entrepot run conf/activemq.xml
    entrepot run --data /var/lib/entrepot --name amsterdam
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
    "-D", "defines", multiple=True, metavar="NAME=VALUE", help="Value of the placeholder ${NAME}. Repeatable."
)
@click.option("--strict", is_flag=True, help="Start only if the configuration has no warnings either.")
@click.option("--no-uvloop", is_flag=True, help="Use asyncio's own event loop even where uvloop is installed.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="What to log.",
)
@click.option(
    "--ports-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the real URIs, as JSON, to this file once the broker accepts connections.",
)
def run(
    *,
    configuration: str | None,
    defines: tuple[str, ...],
    strict: bool,
    data: Path,
    name: str,
    listen: tuple[str, ...],
    ephemeral: bool,
    memory_limit: int,
    settings: tuple[str, ...],
    no_uvloop: bool,
    log_level: str,
    ports_file: Path | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C ends it.

    Without options it speaks STOMP on 127.0.0.1:61613, finds out the protocol on 127.0.0.1:61616, and keeps its journal
    in ./entrepot-data. A second signal ends it at once; what was confirmed is on disk in any case.

    CONFIGURATION is an activemq.xml of ActiveMQ Classic (or xbean:file:...): the broker is what it says, and whatever
    it does not do as written is reported, line by line; options given here win. See `entrepot check`.
    """
    from entrepot.io import runtime  # noqa: PLC0415 - `entrepot run --help` need not load a broker
    from entrepot.node import DEFAULT_LISTEN, Node, NodeOptions  # noqa: PLC0415

    if ephemeral and _given("data"):
        raise InvalidOption("--ephemeral keeps nothing on disk, so --data has no meaning", remedy="leave one out")
    runtime.configure_logging(log_level)
    if configuration is None:
        if defines or strict:
            raise InvalidOption("-D and --strict are about a configuration, and there is none", remedy="name its file")
        options = NodeOptions(name=name, data=data, listen=listen or DEFAULT_LISTEN, memory_limit=memory_limit)
    else:
        options = configured(configuration, defines, strict=strict)
        options.name = name if _given("name") else options.name
        options.data = data if _given("data") else options.data
        options.listen = list(listen or options.listen)
        options.memory_limit = memory_limit if _given("memory_limit") else options.memory_limit
    options.data = None if ephemeral else options.data
    options.policies = read_settings(settings)
    runtime.tune_malloc()

    async def serve() -> None:
        node = Node(options)
        undo = runtime.on_signals(node.ask_to_stop)
        await node.start()
        try:
            runtime.tune_collector()
            click.echo("\n".join(banner(node)), err=True)
            if ports_file is not None:
                write_ports(ports_file, node)
            why = await node.wait()
            failure = node.broker.journal.refusal()
            click.echo(f"stopping: {why}", err=True)
            await node.stop(f"the broker stops: {why}")
        finally:
            undo()
            await node.stop()
            if ports_file is not None:
                ports_file.unlink(missing_ok=True)  # nobody should dial what is gone
        if failure is not None and not isinstance(failure, StorageFull):
            raise failure

    runtime.run(serve(), "asyncio" if no_uvloop else "auto")


def _given(option: str) -> bool:
    """Return whether an option was given, and not just has its default."""
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def configured(configuration: str, defines: tuple[str, ...], *, strict: bool) -> NodeOptions:
    """Return what a file says, and show its findings. Raises InvalidConfiguration where one is an error."""
    from entrepot.cli.configuration import counted, load, show  # noqa: PLC0415 - a broker without a file needs no XML
    from entrepot.journal.log import JournalOptions  # noqa: PLC0415
    from entrepot.node import NodeOptions  # noqa: PLC0415

    config, findings = load(configuration, defines, strict=strict)
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
    )


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
    yield f"entrepot, {build_name()}: broker {options.name!r}, node {node.broker.node_id}"
    for uri in node.uris:
        yield f"  listening  {uri}"
    if options.data is None:
        yield "  data       none: messages are lost when the broker stops (--ephemeral)"
    else:
        yield f"  data       {options.data.resolve()}"
        if node.report is not None:
            yield f"  recovered  {node.report.describe()}"
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
        "node": node.broker.node_id,
        "uris": node.uris,
        "stomp": stomp_place(node),
        "data": None if node.options.data is None else str(node.options.data.resolve()),
    }
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps(facts, indent=2) + "\n")
    draft.replace(path)
