"""`entrepot check`: what brokers would make of their configurations, and of each other, without starting one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from entrepot.analysis.endings import tell
from entrepot.analysis.hops import WORDS, Grade, Hop, Risk, ends, way, weakest
from entrepot.analysis.members import member_of
from entrepot.analysis.model import Member, Network
from entrepot.analysis.picture import picture
from entrepot.analysis.rules import report
from entrepot.analysis.survey import machines, network_of
from entrepot.analysis.text import carried, draw
from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.cli.configuration import counted, examine
from entrepot.cli.output import listing_option
from entrepot.cli.output import show as show_rows
from entrepot.config.findings import Finding, Findings, Severity
from entrepot.config.reading import Reading

PATH_COLUMNS: Final = ("path", "hop", "from", "to", "grade", "what", "remedy")
COLUMNS: Final = ("severity", "line", "path", "what", "remedy")
NETWORK_COLUMNS: Final = ("severity", "file", "line", "path", "what", "remedy")
WAY_COLUMNS: Final = (*NETWORK_COLUMNS, "hop", "from", "to", "grade")


class _Told:
    """Where rows are shown: each table for itself, and all as one where programs read CSV."""

    def __init__(self, output: str, columns: Sequence[str]) -> None:
        """``columns``: those of CSV."""
        self.output: Final = output
        self._columns: Final = columns
        self._rows: list[dict[str, Any]] = []

    def show(self, rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
        """Show ``rows`` now, or `end` does."""
        if self.output == "csv":
            self._rows += rows
        elif rows:
            show_rows(rows, columns, self.output)

    def end(self) -> None:
        """Show what has to be one table."""
        if self.output == "csv":
            show_rows(self._rows, self._columns, self.output)


@click.command(
    epilog="""Examples:

    \b
    entrepot check /etc/activemq/activemq.xml
    entrepot check --strict -D activemq.data=/var/lib/mq conf/activemq.xml
    entrepot check -o json activemq.xml | jq -r 'select(.severity == "error").what'
    entrepot check --svg network.svg --host alpha=mq1 --host beta=mq2 alpha.xml beta.xml
    entrepot check --path alpha:gamma alpha.xml beta.xml gamma.xml
    """
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-D", "defines", multiple=True, metavar="NAME=VALUE", help="Value of the placeholder ${NAME}. Repeatable."
)
@click.option(
    "--properties",
    default="",
    metavar="FILE,...",
    help="Broker properties of Artemis, which win over the one broker.xml: files, or directories of them.",
)
@click.option("--strict", is_flag=True, help="Take every warning for an error.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="BROKER=HOST",
    help="The machine that a broker runs on, as others dial it; for listeners at 0.0.0.0. Repeatable.",
)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the network of the files into this file.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="FROM:TO",
    help="Say what the way between two brokers does to messages, hop by hop, and which hop is the weakest. Repeatable.",
)
@listing_option
@click.pass_context
def check(
    ctx: click.Context,
    files: tuple[str, ...],
    defines: tuple[str, ...],
    properties: str,
    strict: bool,
    hosts: tuple[str, ...],
    svg: Path | None,
    paths: tuple[str, ...],
    output: str,
) -> None:
    """Read configurations and say what is obeyed otherwise, ignored or refused, and why.

    Each FILE is an activemq.xml of ActiveMQ Classic or a broker.xml of Artemis. Several are checked as one network too,
    and drawn: names, ports, credentials, who reaches whom within the TTLs, loops, links made twice; clusters and pairs
    of Artemis too. Nothing is opened and nothing needs to run. Exit code 1 when a broker would not start, an error is
    found in the network, or no message gets along a --path. CSV is what is found, without the drawing.
    """
    if properties and len(files) > 1:
        raise InvalidOption("--properties are those of one broker", remedy="check that one by itself")
    on = machines(hosts)
    failed = False
    members: list[Member] = []
    told = _Told(output, WAY_COLUMNS if paths else NETWORK_COLUMNS)
    for file in files:
        reading, findings = _read(file, defines, properties, strict=strict)
        config = None if reading is None or findings.errors else reading.config
        failed = failed or config is None
        _show(findings, told)
        verdict = "it does not start" if config is None else "it starts"
        click.echo(f"{file}: {verdict}; {counted(findings)}", err=True)
        if reading is not None and reading.draft is not None:
            main = str(reading.files[0]) if reading.files else file
            members.append(member_of(reading.draft, main, on.get(reading.draft.broker.name, "")))
    if members:
        network = network_of(members)
        failed = _judge(network, told, strict=strict, drawn=len(files) > 1) or failed
        if svg is not None:
            svg.write_text(picture(network), encoding="utf-8")
        for text in paths:
            failed = not _follow(network, text, told) or failed
    told.end()
    if failed:
        ctx.exit(1)


def _read(file: str, defines: tuple[str, ...], properties: str, *, strict: bool) -> tuple[Reading | None, Findings]:
    try:
        reading = examine(file, defines, properties)
    except InvalidConfiguration as error:
        findings = Findings()
        findings.add(Severity.ERROR, error.file or file, error.line, "", error.message, error.remedy)
        return None, findings
    return reading, reading.findings.strict() if strict else reading.findings


def _show(findings: Findings, told: _Told) -> None:
    """Show what was found, with the names of the files where there are several."""
    several = len({finding.file for finding in findings}) > 1
    told.show([row(finding) for finding in findings.sorted()], NETWORK_COLUMNS if several else COLUMNS)


def _judge(network: Network, told: _Told, *, strict: bool, drawn: bool) -> bool:
    """Show what is wrong with the network, and the network; return whether something is an error."""
    findings = Findings()
    report(network, findings)
    if strict:
        findings = findings.strict()
    told.show([row(finding) for finding in findings.sorted()], NETWORK_COLUMNS)
    if drawn:
        click.echo(f"network of {len(network.members)}: {counted(findings)}", err=True)
        if told.output == "table":
            click.echo("\n" + draw(network), nl=False)
            for line in tell(network):
                click.echo(line)
    return bool(findings.errors)


def _follow(network: Network, text: str, told: _Told) -> bool:
    """Show what the way between two brokers does to messages; return whether there is one that they can go."""
    source, target = ends(network, text)
    hops = way(network, source, target)
    if not hops:
        click.echo(f"path {text}: there is no way" if source != target else f"path {text}: they are one", err=True)
        return source == target
    weak = weakest(hops)
    if told.output != "table":
        told.show([risk for at, hop in enumerate(hops, 1) for risk in _risk_rows(text, at, hop)], PATH_COLUMNS)
    else:
        click.echo(f"\npath {text}: {len(hops)} hop{'s' if len(hops) > 1 else ''}")
        for at, hop in enumerate(hops, 1):
            channel = hop.link.channel
            whose = f"{channel.kind} {channel.name}, {channel.spot.file}:{channel.spot.line}"
            limited = f", {carried(channel)}" if carried(channel) else ""
            click.echo(f"  {at} {hop.source} to {hop.target} ({whose}{limited}): {WORDS[hop.grade]}")
            for risk in hop.risks:
                click.echo(f"      {WORDS[risk.grade]}: {risk.what}\n        → {risk.remedy}")
        if hops[weak].grade > Grade.KEEPS:
            said = f"hop {weak + 1}, {hops[weak].source} to {hops[weak].target}: {WORDS[hops[weak].grade]}"
            click.echo(f"  the weakest is {said}")
    return hops[weak].grade < Grade.STOPS


def _risk_rows(text: str, at: int, hop: Hop) -> list[dict[str, Any]]:
    """Return what may happen on a hop as rows, one at least."""
    spot = hop.link.channel.spot
    known = {"path": text, "hop": at, "from": hop.source, "to": hop.target, "file": spot.file, "line": spot.line}
    risks = hop.risks or (Risk(Grade.KEEPS, "", ""),)
    return [{**known, "grade": WORDS[risk.grade], "what": risk.what, "remedy": risk.remedy} for risk in risks]


def row(finding: Finding) -> dict[str, Any]:
    """Return a finding as a row."""
    return {
        "severity": finding.severity.name.lower(),
        "file": finding.file,
        "line": finding.line,
        "path": finding.path,
        "what": finding.what,
        "remedy": finding.remedy,
    }
