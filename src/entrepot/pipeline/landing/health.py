"""/metrics, /health/live and /health/ready of a supervisor, over HTTP, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.landing.supervising import State, Supervisor

PREFIX: Final = "entrepot_land"
LIVE: Final = "/health/live"
READY: Final = "/health/ready"
SERVED_MAX: Final = 32  # connections at once: whoever opens more is turned away, and takes no thread
READ_PATIENCE: Final = 10.0  # s for a request: a peer that says nothing holds no thread for longer


class Figures(Collector):
    """The state of each flow, made when it is asked for."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor: Final = supervisor

    def collect(self) -> Iterable[Metric]:
        """Return all metrics: one series a flow each."""
        lives = list(self._supervisor.lives.values())
        now = time.monotonic()
        running = GaugeMetricFamily(f"{PREFIX}_running", "whether the query runs", labels=["flow"])
        rows = CounterMetricFamily(f"{PREFIX}_rows", "messages landed since the process began", labels=["flow"])
        batches = CounterMetricFamily(f"{PREFIX}_batches", "batches with messages", labels=["flow"])
        starts = CounterMetricFamily(f"{PREFIX}_starts", "starts of the query", labels=["flow"])
        failures = GaugeMetricFamily(f"{PREFIX}_failures_in_a_row", "ends without a calm time", labels=["flow"])
        lag = GaugeMetricFamily(f"{PREFIX}_lag_messages", "messages behind the last batch", labels=["flow"])
        age = GaugeMetricFamily(f"{PREFIX}_progress_age_seconds", "since a batch was heard of", labels=["flow"])
        for life in lives:
            running.add_metric([life.name], life.state is State.RUNNING)
            rows.add_metric([life.name], life.rows)
            batches.add_metric([life.name], life.batches)
            starts.add_metric([life.name], life.starts)
            failures.add_metric([life.name], life.failures)
            if life.lag >= 0:
                lag.add_metric([life.name], life.lag)
            if life.progress_at:
                age.add_metric([life.name], now - life.progress_at)
        return [running, rows, batches, starts, failures, lag, age]


class _Server(ThreadingHTTPServer):
    """Serves `SERVED_MAX` connections at once."""

    daemon_threads = True

    def __init__(self, place: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(place, handler)
        self._room = threading.BoundedSemaphore(SERVED_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread for it, if there is room."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()


class Page:
    """The server. `start` and `stop` it."""

    def __init__(self, supervisor: Supervisor, host: str, port: int) -> None:
        """Raises InvalidOption where nobody may listen there."""
        registry = CollectorRegistry()
        registry.register(Figures(supervisor))

        class Handler(BaseHTTPRequestHandler):
            timeout = READ_PATIENCE

            def do_GET(self) -> None:
                status, kind, body = answer(supervisor, registry, self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: a scrape is no news."""

        try:
            self._server: Final = _Server((host, port), Handler)
        except OSError as error:
            raise InvalidOption(
                f"nobody may listen at {host}:{port}: {error.strerror}", remedy="another port"
            ) from None
        self.port: Final = int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._server.serve_forever, name="land-health", daemon=True).start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


def answer(supervisor: Supervisor, registry: CollectorRegistry, path: str) -> tuple[int, str, bytes]:
    """Return status, type and body of what is asked for."""
    if path == "/metrics":
        return 200, CONTENT_TYPE_LATEST, generate_latest(registry)  # type: ignore[no-untyped-call]
    if path == LIVE:
        return 200, "text/plain; charset=utf-8", b"alive\n"
    if path == READY:
        lines = [
            f"{one.name}: {one.state.value}{f' ({one.why})' if one.why else ''}" for one in supervisor.lives.values()
        ]
        return 200 if supervisor.ready() else 503, "text/plain; charset=utf-8", ("\n".join(lines) + "\n").encode()
    return 404, "text/plain; charset=utf-8", b"there are /metrics, /health/live and /health/ready\n"
