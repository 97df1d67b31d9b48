"""`entrepot pipeline report`: what flowed, how fast and how late."""

from __future__ import annotations

import click

from entrepot.cli.spark import spark_options, spark_session
from entrepot.cli.tracing import places_argument, see_option, target_option


@click.command()
@places_argument
@target_option
@see_option
@click.option("--against", metavar="DIR", help="An earlier report: say what is otherwise now.")
@spark_options()
def report(
    *,
    places: tuple[str, ...],
    target: str,
    see: tuple[str, ...],
    against: str | None,
    master: str | None,
    memory: str,
) -> None:
    """Show rates, latencies, hot spots, slow consumers, causes of dead letters and needless crossings.

    DIR is what `entrepot run --trace` was given; name those of all brokers. Writes report.html with plots, report.txt
    and each table as Parquet.
    """
    from entrepot.pipeline.jobs import report as job  # noqa: PLC0415 - `--help` needs no PySpark

    with spark_session("entrepot report", master, memory) as spark:
        outcome = job.report(spark, places, target, against, see)
    click.echo(job.text_of(outcome), nl=False)
    click.echo(f"see {target.rstrip('/')}/report.html", err=True)
