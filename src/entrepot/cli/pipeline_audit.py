"""`entrepot pipeline audit`: is every message accounted for?"""

from __future__ import annotations

import click

from entrepot.cli.spark import spark_options, spark_session
from entrepot.cli.tracing import places_argument, see_option, target_option


@click.command()
@places_argument
@target_option
@see_option
@spark_options()
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    places: tuple[str, ...],
    target: str,
    see: tuple[str, ...],
    master: str | None,
    memory: str,
) -> None:
    """Reconcile the traces of all brokers, and name every message that is lost, doubled or out of order.

    DIR is what `entrepot run --trace` was given; name those of all brokers. Writes report.txt, report.html,
    copies.parquet and findings.parquet. Exit code 1 when something is not accounted for.
    """
    from entrepot.pipeline.jobs import audit as job  # noqa: PLC0415 - `--help` needs no PySpark

    with spark_session("entrepot audit", master, memory) as spark:
        outcome = job.audit(spark, places, target, see)
    click.echo(job.text_of(outcome), nl=False)
    click.echo(f"see {target.rstrip('/')}/report.html", err=True)
    if not outcome.clean:
        ctx.exit(1)
