"""`entrepot simulate`: the network that configuration files describe, run in simulation with load and crashes."""

from __future__ import annotations

from typing import Any, Final

import click
from msgspec import to_builtins

from entrepot.analysis.members import member_of
from entrepot.analysis.survey import machines, network_of
from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.cli.configuration import examine, show
from entrepot.cli.output import output_option, to_json
from entrepot.config.model import BrokerConfig
from entrepot.simulation.rehearsal import Load, Outcome, rehearse
from entrepot.simulation.sites import Blueprint

STATEMENT: Final = "The same files, options and seed give the same trace, on every machine."


@click.command(
    epilog="""Examples:

    \b
    entrepot simulate --send queue://orders@a --read queue://orders@c a.xml b.xml c.xml
    entrepot simulate --send queue://orders@a --read queue://orders@c --kill b --seeds 50 a.xml b.xml c.xml
    """
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--send", "sends", multiple=True, required=True, metavar="DEST@BROKER", help="Messages come from there.")
@click.option("--read", "reads", multiple=True, metavar="DEST@BROKER", help="Somebody reads there. Repeatable.")
@click.option("--messages", default=50, show_default=True, type=click.IntRange(1, 100_000), help="From each sender.")
@click.option("--kill", multiple=True, metavar="BROKER", help="It dies once under load and comes back. Repeatable.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), help="How many runs.")
@click.option("--first", default=1, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option(
    "-D", "defines", multiple=True, metavar="NAME=VALUE", help="Value of the placeholder ${NAME}. Repeatable."
)
@click.option(
    "--host", "hosts", multiple=True, metavar="BROKER=HOST", help="The machine of a broker, as others dial it."
)
@output_option
@click.pass_context
def simulate(
    ctx: click.Context,
    files: tuple[str, ...],
    sends: tuple[str, ...],
    reads: tuple[str, ...],
    messages: int,
    kill: tuple[str, ...],
    seeds: int,
    first: int,
    defines: tuple[str, ...],
    hosts: tuple[str, ...],
    output: str,
) -> None:
    """Run the network that configuration files describe in simulation: what arrives where, what is stuck, and why.

    The brokers are real down to the protocol; time, disks and connections are simulated, so nothing is opened and a
    minute takes a second. Exit code 1 when something confirmed did not arrive.
    """
    blueprints = _blueprints(files, defines, hosts)
    loads = _loads(sends, reads, list(blueprints))
    for name in kill:
        _known(name, list(blueprints), f"--kill {name}")
    failed = False
    for seed in range(first, first + seeds):
        outcome = rehearse(seed, blueprints, loads, messages=messages, kill=kill)
        failed = failed or _is_short(outcome)
        if output == "json":
            click.echo(to_json(to_builtins(outcome, str_keys=True)))
        else:
            _tell(outcome)
    if output != "json":
        click.echo(STATEMENT)
    if failed:
        ctx.exit(1)


def _blueprints(files: tuple[str, ...], defines: tuple[str, ...], hosts: tuple[str, ...]) -> dict[str, Blueprint]:
    on = machines(hosts)
    configs: list[BrokerConfig] = []
    members = []
    for file in files:
        reading = examine(file, defines)
        if reading.config is None or reading.findings.errors:
            show(reading.findings)
            raise InvalidConfiguration(f"{file}: this broker does not start", remedy=f"see entrepot check {file}")
        member = member_of(reading.config, file, on.get(reading.config.broker.name, ""))
        if any(one.broker.name == member.name for one in configs):
            raise InvalidConfiguration(
                f"two files describe a broker called {member.name}", remedy="give each a brokerName of its own"
            )
        configs.append(reading.config)
        members.append(member)
    network = network_of(members)
    found: dict[str, Blueprint] = {}
    for number, (config, member) in enumerate(zip(configs, members, strict=True)):
        routes: dict[str, str] = {}
        for channel in member.channels:
            meant = network.meant.get((number, channel.name), ())
            for places, nodes in zip(channel.targets, meant, strict=False):
                for place, node in zip(places, nodes, strict=False):
                    inside = network.nodes[node].members
                    routes[place.text] = members[inside[0]].name if inside else ""
        found[member.name] = Blueprint(config=config, routes=routes)
    return found


def _loads(sends: tuple[str, ...], reads: tuple[str, ...], brokers: list[str]) -> list[Load]:
    senders: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for texts, into, option in ((sends, senders, "--send"), (reads, readers, "--read")):
        for text in texts:
            destination, at, name = text.rpartition("@")
            if not at or not destination:
                raise InvalidOption(f"{option} {text!r} is not DEST@BROKER", remedy="like queue://orders@a")
            _known(name, brokers, f"{option} {text}")
            into.setdefault(destination, []).append(name)
    return [
        Load(destination, tuple(senders.get(destination, ())), tuple(readers.get(destination, ())))
        for destination in dict.fromkeys([*senders, *readers])
    ]


def _known(name: str, brokers: list[str], where: str) -> None:
    if name not in brokers:
        raise InvalidOption(
            f"{where}: no file describes a broker called {name!r}", remedy="one of " + ", ".join(brokers)
        )


def _is_short(outcome: Outcome) -> bool:
    return bool(outcome.faults) or any(one.arrived < one.confirmed for one in outcome.arrivals)


def _tell(outcome: Outcome) -> None:
    click.echo(f"seed {outcome.seed}, trace {outcome.trace}")
    for one in outcome.arrivals:
        places: dict[str, Any] = one.places
        at = ", ".join(f"{count} at {name}" for name, count in places.items()) or "nowhere"
        twice = f", {one.twice} a second time and unmarked" if one.twice else ""
        click.echo(
            f"  {one.destination}: {one.sent} sent, {one.confirmed} confirmed, {one.arrived} arrived: {at}{twice}"
        )
    if outcome.hops:
        click.echo("  hops: " + ", ".join(f"{count} over {hops}" for hops, count in outcome.hops.items()))
    for stuck in outcome.stuck:
        click.echo(f"  stuck: {stuck.messages} in {stuck.queue} of {stuck.broker}")
        for reason in stuck.reasons:
            click.echo(f"    {reason}")
    for name in outcome.down:
        click.echo(f"  the bridge {name} is down")
    for fault in outcome.faults:
        click.echo(f"  FAULT {fault}")
