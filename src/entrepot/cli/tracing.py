"""What the commands that read traces with Spark share: their options, and the session."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from entrepot.base.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

places_argument = click.argument("places", nargs=-1, required=True, metavar="DIR...")
target_option = click.option(
    "--to",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Where to write; a directory that is empty or not there yet.",
)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --master and --memory."""
    command = click.option(
        "--memory", default="2g", show_default=True, help="Java heap of the driver, where this command starts it."
    )(command)
    return click.option(
        "--master", help="Where Spark runs: local[2], spark://host:7077. Default: local[*], or what spark-submit says."
    )(command)


@contextmanager
def spark_session(name: str, master: str | None, memory: str) -> Iterator[SparkSession]:
    """Yield a session, which ends with the block unless spark-submit began it. Raises OperatorError."""
    if not re.fullmatch(r"[0-9]+[kmgt]", memory):
        raise InvalidOption(f"--memory {memory!r} is no size for Java", remedy="write 2g or 800m")
    from entrepot import pipeline  # noqa: PLC0415

    submitted = "SPARK_ENV_LOADED" in os.environ
    settings = {} if submitted else {"spark__driver__memory": memory, "spark__ui__enabled": "false"}
    if not submitted and master is None:
        master = "local[*]"
    spark = pipeline.session(name, master=master, **settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
