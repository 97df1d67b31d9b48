"""What the commands that read traces with Spark share: where traces are, and where to write."""

from __future__ import annotations

from pathlib import Path

import click

places_argument = click.argument("places", nargs=-1, required=True, metavar="DIR...")
target_option = click.option(
    "--to",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Where to write; a directory that is empty or not there yet.",
)
