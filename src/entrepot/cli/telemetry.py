"""The options of `entrepot run` about OpenTelemetry."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from entrepot.management.telemetry import Telemetry

_URL: Final = click.option(
    "--otlp",
    metavar="URL",
    help="Export spans of messages to this collector, by OTLP over HTTP: http://localhost:4318. Needs "
    "'entrepot[telemetry]'. The variables OTEL_... hold too. See docs/telemetry.md.",
)
_RATIO: Final = click.option(
    "--otlp-ratio",
    type=click.FloatRange(0, 1),
    metavar="RATIO",
    help="With --otlp: how many of the messages without a trace of their producer begin one (0.01).",
)
_LIMIT: Final = click.option(
    "--otlp-limit",
    type=click.IntRange(0),
    metavar="N",
    help="With --otlp: how many messages are recorded in a second at most (10); 0: no limit.",
)


def otlp_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` the parameter ``otlp``: what `telemetry` takes."""

    @functools.wraps(command)
    def given(*, otlp: str | None, otlp_ratio: float | None, otlp_limit: int | None, **others: Any) -> Any:
        return command(otlp=(otlp, otlp_ratio, otlp_limit), **others)

    return _URL(_RATIO(_LIMIT(given)))


def telemetry(url: str | None, ratio: float | None, most: int | None) -> Telemetry | None:
    """Return what the options and the environment ask for; None: nothing. Raises InvalidOption."""
    if (
        url is None
        and ratio is None
        and most is None
        and not any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ)
    ):
        return None
    from entrepot.management.telemetry import Telemetry, telemetry_options  # noqa: PLC0415 - few brokers need it

    options = telemetry_options(url, ratio, os.environ, most)
    return None if options is None else Telemetry(options)
