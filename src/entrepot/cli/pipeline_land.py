"""`entrepot pipeline land`: the flows of a file, for ever, each started again when it ends; or once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from entrepot.base.errors import OperatorError
from entrepot.cli.errors import Failure
from entrepot.cli.log_options import log_options
from entrepot.cli.output import output_option, show
from entrepot.cli.pipeline_archive import until_told
from entrepot.cli.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from entrepot.embedded import BlockingBroker
    from entrepot.pipeline.landing.configuration import Landing
    from entrepot.pipeline.landing.running import Witness
    from entrepot.pipeline.landing.supervising import Supervisor

COLUMNS: Final = ("flow", "state", "rows", "batches", "why")


@click.command(
    epilog="""Examples:

    \b
    entrepot pipeline land land.toml
    entrepot pipeline land land.toml --once --output json
    entrepot pipeline land land.toml --check
    """
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="CONFIG.toml")
@log_options
@click.option("--check", is_flag=True, help="Read the file, say what it would do, and end.")
@click.option("--once", is_flag=True, help="Land what is there now, say how much, and end; no flow is tried again.")
@output_option
def land(*, file: Path, check: bool, once: bool, output: str, log_level: str, log_format: str) -> None:
    """Land queues and topics in Parquet, Delta or Iceberg, as CONFIG.toml says, until SIGTERM or Ctrl-C.

    One process runs all queries. A query that ends is started again, and goes on where it was: nothing is lost or
    landed twice. docs/landing.md has the file, a systemd unit, and the metrics.

    With --once it writes a row for each flow, and ends with exit code 1 where one did not come to its end.
    """
    from entrepot.io.logs import configure_logging  # noqa: PLC0415 - as below
    from entrepot.pipeline.landing import configuration  # noqa: PLC0415

    landing = configuration.load(file)
    if check:
        if landing.beside is not None:
            click.echo(f"beside: a broker that draws from {landing.beside.where()} into {landing.beside.data}")
        for flow in landing.land:
            source = flow.options
            what = source.get("queue") or source.get("topic")
            when = "once" if once else f"every {flow.every}"
            click.echo(f"{flow.name}: {what} to {flow.format} at {flow.path}, {when}")
        return
    configure_logging(log_level, log_format)
    settings = configuration.settings(landing)
    with (
        configuration.alone(landing),
        until_told() as ended,
        _beside(landing, ended) as landing,
        spark_session(landing.name, landing.master or None, landing.memory, settings) as spark,
        _witness(spark, landing, once=once) as witness,
    ):
        from entrepot.pipeline.landing.running import Runner  # noqa: PLC0415 - `--help` needs no PySpark

        runner = Runner(spark, landing, once=once, witness=witness)
        with _page(runner.supervisor, landing):
            runner.run(ended)
    if once:
        _tell(runner.supervisor, output)


@contextmanager
def _beside(landing: Landing, ended: threading.Event) -> Iterator[Landing]:
    """Run the broker beside, where the file has one, and yield what is landed from there.

    ``ended`` is set where that broker ends by itself, as one whose disk fails does: nothing would come any more.
    Raises EntrepotError where it cannot be started, and then.
    """
    beside = landing.beside
    if beside is None:
        yield landing
        return
    from entrepot.embedded import Broker  # noqa: PLC0415 - most files have none

    made = Broker(name=beside.name, data=beside.data, listen=[f"stomp://{beside.listen}"], connect=list(beside.connect))
    with made as broker:
        watch = _Watch(broker, ended)
        watch.start()
        yield landing.at(broker.uri("stomp"))
        if watch.why:
            raise OperatorError(f"the broker beside ended: {watch.why}", remedy="start it again; nothing is lost")


class _Watch(threading.Thread):
    """Waits for the end of a broker, and has all that lands come to its own. ``why``: it ended before that."""

    def __init__(self, broker: BlockingBroker, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.why = ""
        self._broker: Final = broker
        self._ended: Final = ended

    def run(self) -> None:
        """Wait."""
        why = self._broker.wait()
        if not self._ended.is_set():
            self.why = why
            self._ended.set()


@contextmanager
def _witness(spark: SparkSession, landing: Landing, *, once: bool) -> Iterator[Witness | None]:
    """Yield who tells a catalog of lineage, where the file names one. Raises OperatorError without the library."""
    if landing.lineage is None:
        yield None
        return
    from entrepot.pipeline.landing import flows  # noqa: PLC0415

    try:
        from entrepot.pipeline.landing.lineage import Lineage  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as absent:
        if (absent.name or "").partition(".")[0] != "openlineage":
            raise
        remedy = 'pip install "entrepot[lineage]", or take [lineage] out of the file'
        raise OperatorError("OpenLineage's library is not installed", remedy=remedy) from None
    made = Lineage(landing, lambda flow: flows.frame(spark, flow).dtypes, once=once)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def _page(supervisor: Supervisor, landing: Landing) -> Iterator[None]:
    """Answer for metrics and health, where the file says at which place."""
    if not landing.metrics:
        yield
        return
    from entrepot.pipeline.landing import configuration  # noqa: PLC0415 - as above
    from entrepot.pipeline.landing.health import Page  # noqa: PLC0415

    page = Page(supervisor, *configuration.place(landing.metrics))
    page.start()
    click.echo(f"metrics at http://{landing.metrics}/metrics", err=True)
    try:
        yield
    finally:
        page.stop()


def _tell(supervisor: Supervisor, output: str) -> None:
    """Write what became of each flow. Raises Failure where one is not at its end."""
    lives = list(supervisor.lives.values())
    rows = [
        {"flow": one.name, "state": one.state.value, "rows": one.rows, "batches": one.batches, "why": one.why}
        for one in lives
    ]
    show(rows, COLUMNS, output)
    short = [one for one in lives if not one.done]
    if short:
        said = "; ".join(f"{one.name} {one.state.value}{f': {one.why}' if one.why else ''}" for one in short)
        raise Failure(f"not all has landed: {said}", remedy="run it again; it goes on where it was")
