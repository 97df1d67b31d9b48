"""Tells a catalog of lineage, by OpenLineage, what each flow reads and writes: ``pip install "entrepot[lineage]"``.

A run of OpenLineage is a run of the query: START with both datasets, the columns that land and the version of Spark;
RUNNING now and then, with the messages landed so far; COMPLETE when it was stopped or is at its end, FAIL with why.
What cannot be delivered does not hold up the flows (`posting.py`).
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    datasource_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.landing.configuration import Flow, Landing
from entrepot.pipeline.landing.datasets import Dataset, read_by, written_by
from entrepot.pipeline.landing.posting import Post
from entrepot.pipeline.landing.running import Witness

PRODUCER: Final = "urn:entrepot"
PARENT: Final = "OPENLINEAGE_PARENT_ID"  # NAMESPACE/JOB/RUN: what schedulers tell those whom they start
END_PATIENCE: Final = 10.0  # s for events that are on their way when the process ends

log: Final = logging.getLogger("entrepot.pipeline.lineage")

Columns = Callable[[Flow], Sequence[tuple[str, str]]]


class Lineage(Witness):
    """Tells what becomes of flows. `close` it. ``columns``: names and types of what a flow lands."""

    def __init__(
        self, landing: Landing, columns: Columns, *, once: bool = False, client: OpenLineageClient | None = None
    ) -> None:
        """Raises InvalidOption where the place of the catalog, or the parent, cannot be meant."""
        given = landing.lineage
        assert given is not None
        self._namespace: Final = given.namespace
        self._every: Final = given.every
        self._columns: Final = columns
        self._kind: Final = "BATCH" if once else "STREAMING"
        self._parent: Final = _parent()
        self._runs: Final[dict[str, str]] = {}
        self._rows: Final[dict[str, int]] = {}
        self._told: Final[dict[str, float]] = {}
        self._post: Final = Post[RunEvent]((client or _client(given.url)).emit)

    def started(self, flow: Flow) -> None:
        """Begin a run."""
        self._begin(flow)
        self._tell(flow, RunState.START, columns=self._landing_columns(flow))

    def landed(self, flow: Flow, rows: int) -> None:
        """Count ``rows``; say so where nothing was said for `LineageTo.every`."""
        self._rows[flow.name] += rows
        if time.monotonic() - self._told[flow.name] >= self._every:
            self._tell(flow, RunState.RUNNING)

    def failed(self, flow: Flow, why: str) -> None:
        """End the run; one that could not be started is a run as well."""
        if flow.name not in self._runs:
            self._begin(flow)
            self._tell(flow, RunState.START)
        self._tell(flow, RunState.FAIL, why=why)
        del self._runs[flow.name]

    def completed(self, flow: Flow) -> None:
        """End the run."""
        if flow.name in self._runs:
            self._tell(flow, RunState.COMPLETE)
            del self._runs[flow.name]

    def close(self) -> None:
        """Deliver what is left."""
        self._post.close(END_PATIENCE)

    def _landing_columns(self, flow: Flow) -> Sequence[tuple[str, str]]:
        try:
            return self._columns(flow)
        except Exception as error:  # Spark's: the query has its own say, and its columns are no reason to end it
            log.debug("the columns of %s are not known: %s", flow.name, error)
            return ()

    def _begin(self, flow: Flow) -> None:
        self._runs[flow.name] = str(generate_new_uuid())
        self._rows[flow.name] = 0

    def _tell(self, flow: Flow, state: RunState, why: str = "", columns: Sequence[tuple[str, str]] = ()) -> None:
        self._told[flow.name] = time.monotonic()
        kind = job_type_job.JobTypeJobFacet(processingType=self._kind, integration="ENTREPOT", jobType="QUERY")
        self._post.put(
            RunEvent(
                eventTime=datetime.now(UTC).isoformat(),
                producer=f"{PRODUCER}:{_version('entrepot') or 'unknown'}",
                eventType=state,
                run=Run(self._runs[flow.name], facets=self._of_run(why)),
                job=Job(self._namespace, flow.name, facets={"jobType": kind}),
                inputs=[_input(one) for one in read_by(flow)],
                outputs=[self._output(flow, columns)],
            )
        )

    def _of_run(self, why: str) -> dict[str, Any]:
        facets: dict[str, Any] = {}
        if self._parent is not None:
            facets["parent"] = self._parent
        version = _version("pyspark")
        if version:
            facets["processing_engine"] = processing_engine_run.ProcessingEngineRunFacet(version, "spark")
        if why:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=why, programmingLanguage="PYTHON")
        return facets

    def _output(self, flow: Flow, columns: Sequence[tuple[str, str]]) -> OutputDataset:
        place = written_by(flow, self._namespace)
        fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in columns]
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=self._rows[flow.name])
        return OutputDataset(
            *place,
            facets={**_at(place), **({"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {})},
            outputFacets={"outputStatistics": counted},
        )


def _at(place: Dataset) -> dict[str, Any]:
    return {"dataSource": datasource_dataset.DatasourceDatasetFacet(name=place.namespace, uri=place.namespace)}


def _input(place: Dataset) -> InputDataset:
    return InputDataset(*place, facets=_at(place))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _client(url: str) -> OpenLineageClient:
    """Return who speaks to ``url``, or to whom OpenLineage's own configuration names. Raises InvalidOption."""
    try:
        return OpenLineageClient(config={"transport": {"type": "http", "url": url}}) if url else OpenLineageClient()
    except Exception as error:
        raise InvalidOption(
            f"lineage cannot be told: {error}", remedy='url = "http://catalog:5000", or OPENLINEAGE_URL'
        ) from error


def _parent() -> parent_run.ParentRunFacet | None:
    """Return the run of a scheduler that this is a part of. Raises InvalidOption."""
    text = os.environ.get(PARENT, "")
    if not text:
        return None
    words = text.rsplit("/", 2)
    try:
        namespace, job, run = words
        return parent_run.ParentRunFacet(run=parent_run.Run(runId=run), job=parent_run.Job(namespace, job))
    except ValueError:
        raise InvalidOption(f"{PARENT} is {text[:100]!r}", remedy="NAMESPACE/JOB/RUN, the run a UUID") from None
