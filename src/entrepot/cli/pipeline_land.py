"""`entrepot pipeline land`: the flows of a file, for ever, each started again when it ends."""

from __future__ import annotations

from pathlib import Path

import click

from entrepot.cli.log_options import log_options
from entrepot.cli.pipeline_archive import until_told
from entrepot.cli.spark import spark_session


@click.command(
    epilog="""Examples:

    \b
    entrepot pipeline land land.toml
    entrepot pipeline land land.toml --check
    """
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="CONFIG.toml")
@log_options
@click.option("--check", is_flag=True, help="Read the file, say what it would do, and end.")
def land(*, file: Path, check: bool, log_level: str, log_format: str) -> None:
    """Land queues and topics in Parquet, Delta or Iceberg, as CONFIG.toml says, until SIGTERM or Ctrl-C.

    One process runs all queries. A query that ends is started again, and goes on where it was: nothing is lost or
    landed twice. docs/landing.md has the file, a systemd unit, and the metrics.
    """
    from entrepot.io.logs import configure_logging  # noqa: PLC0415 - as below
    from entrepot.pipeline.landing import configuration  # noqa: PLC0415

    landing = configuration.load(file)
    if check:
        for flow in landing.land:
            source = flow.options
            what = source.get("queue") or source.get("topic")
            click.echo(f"{flow.name}: {what} to {flow.format} at {flow.path}, every {flow.every}")
        return
    configure_logging(log_level, log_format)
    settings = configuration.settings(landing)
    with (
        configuration.alone(landing),
        until_told() as ended,
        spark_session(landing.name, landing.master or None, landing.memory, settings) as spark,
    ):
        from entrepot.pipeline.landing.running import Runner  # noqa: PLC0415 - `--help` needs no PySpark

        runner = Runner(spark, landing)
        if not landing.metrics:
            runner.run(ended)
            return
        from entrepot.pipeline.landing.health import Page  # noqa: PLC0415

        page = Page(runner.supervisor, *configuration.place(landing.metrics))
        page.start()
        click.echo(f"metrics at http://{landing.metrics}/metrics", err=True)
        try:
            runner.run(ended)
        finally:
            page.stop()
