"""OpenTelemetry: what an operator asks for, and the parts that a broker gets for it.

The variables of OpenTelemetry hold (`OTEL_EXPORTER_OTLP_...`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_TRACES_SAMPLER`, `OTEL_BSP_...`, `OTEL_SDK_DISABLED`); most of them the SDK reads itself. Its packages are an
extra, loaded only where telemetry is asked for.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from entrepot.base.errors import InvalidOption
from entrepot.core.broker import BrokerCore
from entrepot.core.events.watching import Watch
from entrepot.io.outbox import BATCH, DELAY, LIMIT, Outbox
from entrepot.management.spans import Span, SpanMaker

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

RATIO: Final = 0.01  # OpenTelemetry's own default is 1, which a broker that carries everybody's messages cannot afford
MOST: Final = 10  # messages a second: with five spans one took 0.9 ms on a loaded machine, and 1 % is the target
PACKAGES: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
REMEDY: Final = "pip install 'entrepot[telemetry]'"
TRACES_PATH: Final = "/v1/traces"
SAMPLERS: Final = {  # OTEL_TRACES_SAMPLER -> whether the producer's word counts, and the ratio, None: what ..._ARG says
    "always_on": (False, 1.0),
    "always_off": (False, 0.0),
    "traceidratio": (False, None),
    "parentbased_always_on": (True, 1.0),
    "parentbased_always_off": (True, 0.0),
    "parentbased_traceidratio": (True, None),
}

log: Final = logging.getLogger("entrepot.telemetry")


class TelemetryOptions(Struct, frozen=True):
    """``url``: of the collector, with the path of traces; "": what the variables of OpenTelemetry say.

    ``ratio``: of messages without a context; ``honours``: what producers decided counts for theirs; ``most``: how many
    are recorded in a second, 0: as many as come. ``limit``, ``batch``, ``delay``: as `Outbox` has them.
    """

    url: str = ""
    ratio: float = RATIO
    honours: bool = True
    most: int = MOST
    limit: int = LIMIT
    batch: int = BATCH
    delay: float = DELAY


def telemetry_options(
    url: str | None, ratio: float | None, variables: Mapping[str, str], most: int | None = None
) -> TelemetryOptions | None:
    """Return what ``url``, ``ratio`` and ``most`` of the command line and the ``variables`` ask for; None: nothing.

    Variables alone ask for it where they name a collector. Raises InvalidOption.
    """
    named = any(variables.get(f"OTEL_EXPORTER_OTLP_{what}ENDPOINT") for what in ("", "TRACES_"))
    off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if url is None:
        if not named and (ratio is not None or most is not None):
            raise InvalidOption(
                "--otlp-ratio and --otlp-limit are about telemetry, and there is none", remedy="add --otlp URL"
            )
        if not named or off or variables.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
            return None
    missing = absent_packages()
    if missing and url is not None:
        raise InvalidOption(f"--otlp needs {missing}, which is not installed", remedy=REMEDY)
    if missing:
        log.warning("no telemetry: %s is not installed: %s", missing, REMEDY)
        return None
    honours, drawn = _sampler(variables)
    return TelemetryOptions(
        "" if url is None else collector(url),
        drawn if ratio is None else ratio,
        honours,
        MOST if most is None else most,
        _whole(variables, "OTEL_BSP_MAX_QUEUE_SIZE", LIMIT),
        _whole(variables, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH),
        _whole(variables, "OTEL_BSP_SCHEDULE_DELAY", int(DELAY * 1000)) / 1000,
    )


def absent_packages() -> str:
    """Return the first package that is not installed; "" where all are."""
    for name in PACKAGES:
        try:
            if importlib.util.find_spec(name) is None:
                return name
        except ModuleNotFoundError:
            return name
    return ""


def collector(url: str) -> str:
    """Return where traces go: ``url``, with the path of OTLP where it has none. Raises InvalidOption."""
    scheme, colon, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    if scheme not in ("http", "https") or not colon or not authority:
        raise InvalidOption(f"{url!r} is no collector", remedy="name it like http://localhost:4318")
    return url if path else f"{scheme}://{authority}{TRACES_PATH}"


def _sampler(variables: Mapping[str, str]) -> tuple[bool, float]:
    name, text = variables.get("OTEL_TRACES_SAMPLER", ""), variables.get("OTEL_TRACES_SAMPLER_ARG", "")
    if name and name not in SAMPLERS:
        raise InvalidOption(f"OTEL_TRACES_SAMPLER={name!r} is not known", remedy="use one of " + ", ".join(SAMPLERS))
    honours, ratio = SAMPLERS.get(name, (True, None))
    if ratio is not None:
        return honours, ratio
    if not text:
        return honours, RATIO if not name else 1.0  # as the specification has it for a named sampler
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise InvalidOption(f"OTEL_TRACES_SAMPLER_ARG={text!r} is no ratio", remedy="use a number from 0 to 1")
    return honours, ratio


def _whole(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise InvalidOption(f"{name}={text!r} is no number above 0")
    return int(text)


class Telemetry:
    """The watch of one broker, the listener that makes its spans, and the outbox that they go to.

    ``send``: takes batches of spans, on a thread of the outbox; None: exports them by OTLP over HTTP.
    """

    def __init__(self, options: TelemetryOptions, send: Callable[[list[Span]], bool] | None = None) -> None:
        self.options: Final = options
        self.outbox: Outbox[Span] | None = None
        self.watching: Watch | None = None
        self._send: Final = send

    def watch(self, broker: BrokerCore, soon: Callable[[Callable[[], None]], object]) -> None:
        """Have messages of ``broker`` watched from now on. Call it before there are queues, and once."""
        options, entropy = self.options, broker.entropy
        send = self._send or Sender(options.url, broker)
        outbox = Outbox(broker.options.name, send, limit=options.limit, batch=options.batch, delay=options.delay)
        broker.hub.add(
            SpanMaker(outbox.put, time.time_ns, lambda: entropy.token(8).hex(), broker.ids.identity_of, soon)
        )
        broker.watch = self.watching = Watch(
            broker.hub, broker.journal, entropy, options.ratio, options.honours, options.most
        )
        outbox.start()
        self.outbox = outbox

    def close(self) -> None:
        """Send what waits, within a moment, and end."""
        if self.outbox is None or self.watching is None:
            return
        self.outbox.close()
        passed_over = int(self.watching.passed_over)
        if passed_over:
            log.info("%s: %d messages were not traced: no more than %d a second are", self.outbox.name, passed_over,
                     self.options.most)  # fmt: skip


class Sender:
    """Sends batches by OTLP. Called on the thread of the outbox, which loads the packages as well.

    What goes wrong on the way is told by the outbox, once; the packages would tell it for each batch.
    """

    def __init__(self, url: str, broker: BrokerCore) -> None:
        self.timeout: float | None = None  # s for a batch; None: what the variables say, else 10
        self._url: Final = url
        self._broker: Final = broker
        self._exporter: Any = None
        self._resource: Any = None
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

    def __call__(self, spans: list[Span]) -> bool:
        """Return whether the collector took ``spans``."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - as above

        if self._exporter is None:
            self._resource = resource_of(self._broker.options.name, self._broker.ids.node_id)
            self._exporter = OTLPSpanExporter(endpoint=self._url or None, timeout=self.timeout)
        result = self._exporter.export(readable(spans, self._resource))
        return bool(result is SpanExportResult.SUCCESS)


def resource_of(name: str, instance: str) -> Any:
    """Return who makes the spans: this broker, and what the variables of OpenTelemetry add."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra

    said = {"service.instance.id": instance, "entrepot.broker": name}
    if not os.environ.get("OTEL_SERVICE_NAME") and "service.name=" not in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        said["service.name"] = "entrepot"
    return Resource.create(said)


def readable(spans: Sequence[Span], resource: Any) -> list[ReadableSpan]:
    """Return ``spans`` as exporters of OpenTelemetry take them."""
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415 - as above
    from opentelemetry.trace import (  # noqa: PLC0415 - as above
        Link,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
        TraceState,
    )

    recorded = TraceFlags(TraceFlags.SAMPLED)

    def context(trace: str, span: str, state: str = "", *, remote: bool = False) -> SpanContext:
        said = TraceState.from_header([state]) if state else None
        return SpanContext(int(trace, 16), int(span, 16), remote, recorded, said)

    scope = InstrumentationScope("entrepot")
    made = []
    for span in spans:
        attributes: dict[str, str | int | bool] = dict(span.attributes)
        if span.error:
            attributes["error.type"] = span.error
        made.append(
            ReadableSpan(
                span.name,
                context(span.trace, span.span, span.state),
                context(span.trace, span.parent, remote=span.remote) if span.parent else None,
                resource,
                attributes,
                links=[Link(context(trace, other)) for trace, other in span.links],
                kind=SpanKind(span.kind),
                status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
                start_time=span.start,
                end_time=span.end,
                instrumentation_scope=scope,
            )
        )
    return made
