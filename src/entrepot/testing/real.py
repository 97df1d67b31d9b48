"""Several real brokers in this process, each joined to each: sockets, threads and time are real."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from entrepot.base.errors import InvalidOption, TimedOut
from entrepot.client.portal import Portal
from entrepot.embedded import BlockingBroker, Broker

LOOK_S: Final = 0.002  # between two looks whether the bridges are open
PATIENCE_S: Final = 10.0
BRIDGE: Final = "?messageTTL=3&consumerTTL=1&initialReconnectDelay=20&maxReconnectDelay=200"
"""In a mesh everybody is one hop away from everybody; a message that has moved once may move again."""


class Cluster:
    """Brokers by name: ``cluster["a"].url``. ``with`` starts and stops them; `stop` and `start` do so with one.

    ``data``: a directory for their journals; without it a broker that is stopped has forgotten everything.
    """

    def __init__(self, names: Sequence[str] = ("a", "b", "c"), *, data: str | Path | None = None) -> None:
        self._names: Final = list(names)
        self._data: Final = None if data is None else Path(data)
        self._portal: Final = Portal.shared()
        self._ports: dict[str, str] = {}
        self._running: dict[str, Broker] = {}

    def __getitem__(self, name: str) -> BlockingBroker:
        """Return a broker that runs. Raises InvalidOption."""
        running = self._running.get(name)
        if running is None:
            raise InvalidOption(f"no broker {name!r} runs", remedy=f"running: {', '.join(self._running) or 'none'}")
        return BlockingBroker(running, self._portal)

    @property
    def names(self) -> list[str]:
        """Return the names of all of them, running or not."""
        return list(self._names)

    @property
    def url(self) -> str:
        """Return what a client connects to that may use any of them: a ``failover:`` list."""
        return f"failover:({','.join(f'tcp://{place}' for place in self._ports.values())})"

    def start(self, name: str) -> None:
        """Start a broker where it was, and wait until its bridges are open. Raises OperatorError, TimedOut."""
        self._launch(name)
        self._wait()

    def stop(self, name: str) -> None:
        """Stop a broker in order; what it keeps on disk is there when it starts again."""
        broker = self._running.pop(name)
        self._portal.call(broker.node.stop)

    def __enter__(self) -> Self:
        try:
            for name in self._names:
                self._launch(name)
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _launch(self, name: str) -> None:
        place = self._ports.get(name, "127.0.0.1:0")
        # the later of two dials, so whoever starts first finds nobody, and no pair has two connections
        before = self._names[: self._names.index(name)]
        broker = Broker(
            name=name,
            data=None if self._data is None else self._data / name,
            listen=[f"auto://{place}"],
            connect=[f"static:(tcp://{self._ports[other]}){BRIDGE}&name={other}" for other in before],
            duplex=True,
        )
        self._portal.call(broker.node.start)
        self._running[name] = broker
        self._ports[name] = broker.url.removeprefix("tcp://")

    def _wait(self) -> None:
        """Wait until every bridge between two that run is open. Raises TimedOut."""
        self._portal.call(self._opened)

    async def _opened(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while shut := [row for row in self._bridges() if row["state"] != "open"]:
            if time.monotonic() > until:
                raise TimedOut(f"the bridges of this cluster did not open within {PATIENCE_S:g} s: {shut}")
            await asyncio.sleep(LOOK_S)

    def _bridges(self) -> list[dict[str, object]]:
        """Return the bridges whose both ends run."""
        rows: list[dict[str, object]] = []
        for broker in self._running.values():
            if broker.node.links is not None:
                known = [row for row in broker.node.links.report() if row["connector"] in self._names]
                rows += [row for row in known if row["connector"] in self._running]
        return rows

    def _end(self) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)
