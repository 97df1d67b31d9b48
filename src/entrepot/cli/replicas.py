"""The options of `entrepot run` that are about replicas; `cli/replication.py` says what they mean together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from entrepot.cli.values import SIZE
from entrepot.ha.lease import PARTS

FILE: Final = click.Path(dir_okay=False, path_type=Path)

OPTIONS: Final = (
    click.option(
        "--replication",
        metavar="HOST:PORT",
        help="With --ha replication: where this broker's replicas connect while it is primary.",
    ),
    click.option(
        "--peer",
        "peers",
        multiple=True,
        metavar="HOST:PORT",
        help="--replication of another broker of the store. Repeat.",
    ),
    click.option(
        "--part",
        type=click.Choice(PARTS),
        help="With --ha replication: primary: the store is this broker's, and it asks for it when it is back; backup: "
        "it serves while the primary cannot, and begins no store; either (default): whoever is first.",
    ),
    click.option(
        "--failback/--no-failback",
        default=None,
        help="Of a --part backup: it gives the store back to the primary once that is in sync, or goes on (default).",
    ),
    click.option(
        "--copies",
        type=click.IntRange(1, 8),
        help="How many stores must have a message before it is confirmed, this one included (2). With 1 a primary goes "
        "on alone when it has lost its last replica, and says so.",
    ),
    click.option(
        "--confirm",
        type=click.Choice(["synced", "received"]),
        help="What a replica has done when a message is confirmed: written and synced (default), or received it only.",
    ),
    click.option(
        "--copy-limit",
        type=SIZE,
        metavar="SIZE",
        help="Octets a second for making a replica; 0, the default, for no limit.",
    ),
    click.option(
        "--replication-secret",
        type=FILE,
        metavar="FILE",
        help="What brokers of one store know and nobody else; needed where they are on several machines.",
    ),
    click.option(
        "--replication-certificate", type=FILE, metavar="FILE", help="Replicate over TLS: what this broker shows."
    ),
    click.option("--replication-key", type=FILE, metavar="FILE", help="Its key, where that is another file."),
    click.option(
        "--replication-trust", type=FILE, metavar="FILE", help="Who vouches for the other brokers of the store."
    ),
    click.option(
        "--replication-any-host", is_flag=True, help="A primary's certificate need not be for its host in --peer."
    ),
)


def replication_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` all of them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
