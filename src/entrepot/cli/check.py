"""`entrepot check`: what a broker would make of its configuration, without starting one."""

from __future__ import annotations

from typing import Any, Final

import click

from entrepot.base.errors import InvalidConfiguration
from entrepot.cli.configuration import counted, load
from entrepot.cli.output import output_option
from entrepot.cli.output import show as show_rows
from entrepot.config.findings import Finding, Findings, Severity

COLUMNS: Final = ("severity", "line", "path", "what", "remedy")


@click.command(
    epilog="""Examples:

    \b
    entrepot check /etc/activemq/activemq.xml
    entrepot check --strict -D activemq.data=/var/lib/mq conf/activemq.xml
    entrepot check -o json activemq.xml | jq -r 'select(.severity == "error").what'
    """
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-D", "defines", multiple=True, metavar="NAME=VALUE", help="Value of the placeholder ${NAME}. Repeatable."
)
@click.option("--strict", is_flag=True, help="Take every warning for an error.")
@output_option
@click.pass_context
def check(ctx: click.Context, files: tuple[str, ...], defines: tuple[str, ...], strict: bool, output: str) -> None:
    """Read configurations of ActiveMQ Classic and say what is obeyed otherwise, ignored or refused, and why.

    Each FILE is read by itself; nothing is opened and nothing is written. Exit code 1 when a broker would not start.
    """
    failed = False
    for file in files:
        try:
            config, findings = load(file, defines, strict=strict)
        except InvalidConfiguration as error:
            config, findings = None, Findings()
            findings.add(Severity.ERROR, error.file or file, error.line, "", error.message, error.remedy)
        failed = failed or config is None
        if findings.all:
            show_rows([row(finding) for finding in findings.sorted()], COLUMNS, output)
        verdict = "it does not start" if config is None else "it starts"
        click.echo(f"{file}: {verdict}; {counted(findings)}", err=True)
    if failed:
        ctx.exit(1)


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
