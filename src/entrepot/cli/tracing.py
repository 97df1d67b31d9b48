"""What the commands that read traces with Spark share: where traces are, and where to write."""

from __future__ import annotations

import click

places_argument = click.argument("places", nargs=-1, required=True, metavar="DIR...")
target_option = click.option(
    "--to",
    "target",
    required=True,
    metavar="DIR",
    help="Where to write: a directory, or a URI of Hadoop, that is empty or not there yet.",
)
see_option = click.option(
    "--see",
    multiple=True,
    metavar="DIR",
    help="Where an audit, a report or a plan was written before: the page says what it said, and links to it.",
)
