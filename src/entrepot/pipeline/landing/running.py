"""The supervisor on a real Spark: starts queries, hears how they end, tells logs, metrics and health."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from entrepot.pipeline.causes import lasts, told_apart
from entrepot.pipeline.lag import lag
from entrepot.pipeline.landing import flows
from entrepot.pipeline.landing.configuration import Flow, Landing
from entrepot.pipeline.landing.supervising import Supervisor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK: Final = 0.5  # s between two looks at the queries: a thread of Python for each would tell no sooner
WHY_MAX: Final = 500  # characters of a reason
STOP_PATIENCE: Final = 60.0  # s for the batches that are under way when the process ends

log: Final = logging.getLogger("entrepot.pipeline.land")

Start = Callable[["SparkSession", Landing, Flow], "StreamingQuery"]


class Witness:
    """Who is told what becomes of each flow, on the thread that runs them: it may neither wait nor raise."""

    def started(self, flow: Flow) -> None:
        """Its query runs."""

    def landed(self, flow: Flow, rows: int) -> None:
        """It has landed ``rows`` more."""

    def failed(self, flow: Flow, why: str) -> None:
        """Its query ended, or could not be started."""

    def completed(self, flow: Flow) -> None:
        """Its query came to its end, or was stopped behind a batch."""


class Runner:
    """The queries of one process. Belongs to the thread that calls `run`."""

    def __init__(
        self,
        spark: SparkSession,
        landing: Landing,
        start: Start | None = None,
        *,
        once: bool = False,
        witness: Witness | None = None,
    ) -> None:
        """``once``: land what is there, and end. ``witness``: who is told what becomes of each flow."""
        self.supervisor: Final = Supervisor([flow.name for flow in landing.land], landing.restart, once=once)
        self._spark: Final = spark
        self._landing: Final = landing
        self._start: Final = start or (flows.start_once if once else flows.start)
        self._witness: Final = witness or Witness()
        self._flows: Final = {flow.name: flow for flow in landing.land}
        self._queries: dict[str, StreamingQuery] = {}
        self._told: dict[str, str] = {}  # when the last progress was told of, that was looked at
        self._counted: dict[str, tuple[str, int]] = {}  # run and batch of the last rows that were counted

    def run(self, ended: threading.Event) -> None:
        """Go on until ``ended``, or no flow is left; then stop each query behind the batch that it is in."""
        try:
            while not ended.is_set() and not self.supervisor.over():
                for name in self.supervisor.due(time.monotonic()):
                    self._begin(name)
                self._look()
                ended.wait(min(LOOK, max(0.05, self.supervisor.next_due(time.monotonic()))))
        finally:
            self._stop()

    def _begin(self, name: str) -> None:
        try:
            self._queries[name] = self._start(self._spark, self._landing, self._flows[name])
        except Exception as error:
            self._ended(name, error)
        else:
            self.supervisor.started(name, time.monotonic())
            log.info("%s runs", name)
            self._witness.started(self._flows[name])

    def _look(self) -> None:
        for name, query in list(self._queries.items()):
            active = query.isActive  # asked first: what it tells behind that is its last word
            self._count(name, query)
            if not active:
                del self._queries[name]
                error = query.exception()
                if error is None and self.supervisor.once:
                    self._done(name)
                else:
                    self._ended(name, error or RuntimeError("somebody stopped the query"))

    def _done(self, name: str) -> None:
        self.supervisor.done(name)
        log.info("%s has landed what was there: %d messages", name, self.supervisor.lives[name].rows)
        self._witness.completed(self._flows[name])

    def _count(self, name: str, query: StreamingQuery) -> None:
        """Count the batches since the last look: there may have been several, and a query that idles tells of the next.

        A batch that idles has no rows yet, and the same number when it has: only one with rows was counted.
        """
        last = query.lastProgress
        if last is None or last["timestamp"] == self._told.get(name):
            return
        self._told[name] = last["timestamp"]
        run, batch = self._counted.get(name, ("", -1))
        rows = batches = 0
        for progress in query.recentProgress:
            one = (str(progress["runId"]), int(progress["batchId"]))
            if int(progress["numInputRows"]) and (one[0] != run or one[1] > batch):
                rows += int(progress["numInputRows"])
                batches += 1
                run, batch = one
        self._counted[name] = (run, batch)
        waiting = lag(last)
        behind = sum(waiting.values()) if waiting else -1
        self.supervisor.progressed(name, time.monotonic(), rows, behind, batches=batches)
        if rows:
            self._witness.landed(self._flows[name], rows)

    def _ended(self, name: str, error: Exception) -> None:
        found = told_apart(error)
        lasting = lasts(found)
        why = next(iter(str(found).strip().splitlines()), repr(error))[:WHY_MAX]
        wait = self.supervisor.ended(name, time.monotonic(), why, lasting=lasting)
        if self.supervisor.once:
            log.error("%s ended: %s", name, why)
        else:
            log.log(logging.ERROR if lasting else logging.WARNING, "%s ended: %s; again in %.0f s", name, why, wait)
        self._witness.failed(self._flows[name], why)

    def _stop(self) -> None:
        until = time.monotonic() + STOP_PATIENCE
        for name in self.supervisor.stop():
            query = self._queries[name]
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
                time.sleep(0.05)  # the batch under way: stopped in the middle it would only run again
            try:
                query.stop()
                self._count(name, query)  # the batch that was under way
            except Exception as error:  # the others are to be stopped, too
                log.warning("%s did not stop: %s", name, told_apart(error))
            else:
                log.info("%s stopped", name)
            self._witness.completed(self._flows[name])
