"""`entrepot pipeline plan`: what if more came, or a broker were lost?"""

from __future__ import annotations

import click

from entrepot.cli.spark import spark_options, spark_session
from entrepot.cli.tracing import places_argument, see_option, target_option


@click.command()
@places_argument
@target_option
@see_option
@click.option(
    "--times", type=click.FloatRange(min=0.0, min_open=True), default=1.0, show_default=True, help="So much more load."
)
@click.option("--without", metavar="NAME", help="Without this broker.")
@click.option(
    "--clients",
    type=click.Choice(["follow", "gone"]),
    default="follow",
    show_default=True,
    help="Whether the clients of the lost broker connect to the others, in equal parts, or are lost with it.",
)
@spark_options()
def plan(
    *,
    places: tuple[str, ...],
    target: str,
    see: tuple[str, ...],
    times: float,
    without: str | None,
    clients: str,
    master: str | None,
    memory: str,
) -> None:
    """Predict load, forwarding and headroom of a network of brokers, and recommend where consumers belong.

    DIR is what `entrepot run --trace` was given; name those of all brokers. Writes report.txt, report.html,
    forwarding.parquet and load.parquet.
    """
    from entrepot.pipeline.jobs import plan as job  # noqa: PLC0415 - `--help` needs no PySpark

    with spark_session("entrepot plan", master, memory) as spark:
        made = job.plan(spark, places, target, times=times, without=without, clients=clients, see=see)
    click.echo(job.text_of(made), nl=False)
    click.echo(f"see {target.rstrip('/')}/report.html", err=True)
