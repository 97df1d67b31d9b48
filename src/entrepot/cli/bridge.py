"""`entrepot bridge`: the bridges of a running broker to other brokers."""

from __future__ import annotations

from typing import Any, Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.managing import at_desk, tell
from entrepot.cli.output import listing_option, output_option, show

COLUMNS: Final = (
    "connector",
    "peer",
    "direction",
    "state",
    "for_s",
    "demands",
    "sent",
    "received",
    "under_way",
    "canary_ms",
    "failures",
    "error",
)


@click.group(
    epilog="""Examples:

    \b
    entrepot bridge list
    entrepot bridge list -o json | jq 'select(.state != "open")'
    entrepot bridge show NC
    entrepot bridge stop NC
    """
)
def bridge() -> None:
    """See and switch the bridges of a running broker to other brokers.

    A network connector makes one bridge to every broker that it finds. States: idle, dialling, opening, open, stalled
    (the peer lives and takes nothing), draining, waiting (for the next attempt), failed (no attempt is left), closed;
    a connector without a bridge is searching or stopped. docs/bridges.md says what moves a bridge from one to another.
    """


@bridge.command("list")
@url_option
@listing_option
def list_(*, url: str, output: str) -> None:
    """List all bridges, those that other brokers opened included.

    direction: > for messages that leave here, < for messages that come, both for duplex. canary_ms: how long the last
    canary took to the other broker and back.
    """
    rows = at_desk(url, lambda desk: desk.ask("broker", "describeBridges"))
    if output == "json":
        show(rows, (), output)
    else:
        show([_line(row) for row in rows], COLUMNS, output, empty="no bridges")


@bridge.command("show")
@click.argument("connector")
@url_option
@output_option
def show_(*, connector: str, url: str, output: str) -> None:
    """Show all there is to know about the bridges of a network connector."""
    rows = at_desk(url, lambda desk: desk.ask("broker", "describeBridges"))
    chosen = [row for row in rows if row["connector"] == connector]
    if output == "json":
        show(chosen, (), output)
        return
    fields = [{"field": name, "value": _told(value)} for row in chosen for name, value in row.items()]
    show(fields, ("field", "value"), output, empty=f"no bridge of a connector {connector!r}")


@bridge.command()
@click.argument("connector")
@url_option
@output_option
def stop(*, connector: str, url: str, output: str) -> None:
    """End the bridges of a network connector.

    They take nothing more, and end when what is on its way has arrived: at once, or after 30 s at the latest (`bridge
    list` says draining); what did not arrive by then goes back to its queues. Starting it again ends them at once.
    """
    at_desk(url, lambda desk: desk.ask("broker", "stopConnector", connector))
    tell(f"stopped {connector}", {"connector": connector, "started": False}, output)


@bridge.command()
@click.argument("connector")
@url_option
@output_option
def start(*, connector: str, url: str, output: str) -> None:
    """Start a network connector that was stopped, or has autoStart=false."""
    at_desk(url, lambda desk: desk.ask("broker", "startConnector", connector))
    tell(f"started {connector}", {"connector": connector, "started": True}, output)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    """Return ``row`` as the table shows it."""
    sends = row["initiator"] and row.get("kind") != "federation"  # what a federation dials for comes
    way = "> <" if row["duplex"] else (">" if sends else "<")
    canary = row.get("canary_us", -1)
    return {
        **row,
        "peer": row["peer"] or row["place"],
        "direction": way,
        "for_s": None if "since_ms" not in row else row["since_ms"] // 1000,
        "canary_ms": None if canary < 0 else canary / 1000,
    }


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(str(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
