"""What the commands that run on Spark share: their options, the session, and where reports go."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from entrepot.base.errors import EntrepotError, InvalidOption, OperatorError
from entrepot.cli.dialogue import LOGIN, PASSCODE
from entrepot.cli.noise import without_noise
from entrepot.cli.values import named_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from entrepot.pipeline.jobs.summary import Report

# Archives are for other programs too: days and hours do not depend on where a job runs, times are as Parquet has them.
SETTINGS: Final = {
    "spark__sql__session__timeZone": "UTC",
    "spark__sql__parquet__outputTimestampType": "TIMESTAMP_MICROS",
    "spark__ui__showConsoleProgress": "false",
}
ERROR_LINE: Final = re.compile(r"[A-Za-z_.]*(Error|Exception)\b: .")


def spark_options(memory: str = "2g") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds --master and --memory, with ``memory`` as its default, to a command."""
    memory_option = click.option(
        "--memory", default=memory, show_default=True, help="Java heap of the driver, where this command starts it."
    )
    master_option = click.option(
        "--master",
        help="Where Spark runs: spark://host:7077.  [default: what spark-submit says, or local[*,4]]",
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        return master_option(memory_option(command))

    return add


@contextmanager
def spark_session(
    name: str, master: str | None, memory: str, further: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session, which ends with the block. Raises OperatorError when PySpark or Java are missing.

    ``further``: more of its settings, as `pipeline.session` takes them.

    Spark's own log is off, and what it says of the machine is kept away: what goes wrong is raised, and said once.
    """
    if not re.fullmatch(r"[0-9]+[kmgt]", memory):
        raise InvalidOption(f"--memory {memory!r} is no size for Java", remedy="write 2g or 800m")
    from entrepot import pipeline  # noqa: PLC0415 - `--help` needs no PySpark

    settings = dict(SETTINGS)
    if "SPARK_ENV_LOADED" not in os.environ:  # else spark-submit has decided these
        settings |= {"spark__driver__memory": memory, "spark__ui__enabled": "false"}
        master = master or "local[*,4]"
    settings |= further or {}
    with without_noise():
        spark = pipeline.session(name, master=master, **settings)
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    except Exception as error:
        raise worded(error) from error
    finally:
        with suppress(OSError):  # Java is gone; that is what the block has raised
            spark.stop()


def worded(error: Exception) -> Exception:
    """Return what to tell of an error: ours inside Spark's, or the lines of Spark's that say what it is."""
    from entrepot.pipeline.causes import told_apart  # noqa: PLC0415

    found = error if isinstance(error, EntrepotError) else told_apart(error)
    if found is not error or not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return found
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if ERROR_LINE.match(line)), "")
    said = " ... ".join(dict.fromkeys(line for line in (*lines[:1], last) if line))
    return OperatorError(f"Spark failed: {said}", remedy="run it again; it goes on where it was")


report_option = click.option(
    "--report",
    "reports",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Write the report here too; .txt, .json or .html says how. May be given more than once.",
)
further_option = click.option(
    "--option",
    "further",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the format (docs/spark.md): failoverTimeout=120000, tls.trustStorePath=ca.pem.",
)


def given_options(url: str, further: Sequence[str]) -> dict[str, str]:
    """Return options for the format. Raises InvalidOption for a word without ``=``."""
    context = click.get_current_context().meta
    given = {"url": url}
    for name, key in (("login", LOGIN), ("passcode", PASSCODE)):
        if context.get(key):
            given[name] = context[key]
    return given | named_values("--option", further, "failoverTimeout=120000")


def named(queues: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Return destinations with their kind, each once."""
    found = [f"/queue/{name.removeprefix('/queue/')}" for name in queues]
    found += [f"/topic/{name.removeprefix('/topic/')}" for name in topics]
    return list(dict.fromkeys(found))


def check_reports(reports: Sequence[Path]) -> None:
    """Raise InvalidOption for a file of no kind that is known, before anything else is done."""
    if reports:
        from entrepot.pipeline.jobs.summary import check_suffix  # noqa: PLC0415 - `--help` needs no PySpark

        for path in reports:
            check_suffix(path)


def hand_over(report: Report, reports: Sequence[Path], output: str) -> None:
    """Write a report to standard output, and to files."""
    click.echo(report.json() if output == "json" else report.text(), nl=output == "json")
    for path in reports:
        report.write(path)
