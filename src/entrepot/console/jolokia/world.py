"""What MBeans are made of: the rows that a broker tells, asked for once in a request of Jolokia, and only if needed.

The requests of one POST share a world until one of them changes something, so that a hundred of them cost a broker what
one does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from entrepot.core.operators.together.asker import Asker
from entrepot.core.operators.views import QueueView
from entrepot.management.view import all_queues, queue_named

TUNED: Final = "describeTuned"
PAGE: Final = 1_000  # rows of one list: the most that the broker answers with
RESOURCES: Final = 500  # of one `describeResources`
IMPLEMENTED: Final = {
    "artemis": {
        "acceptor": "Acceptor",
        "address": "Address",
        "bridge": "Bridge",
        "broker": "ActiveMQServer",
        "brokerconnection": "BrokerConnection",
        "clusterconnection": "ClusterConnection",
        "divert": "Divert",
        "queue": "Queue",
    },
    "classic": {
        "broker": "BrokerView",
        "connection": "ConnectionView",
        "connector": "ConnectorView",
        "health": "HealthView",
        "networkBridge": "NetworkBridgeView",
        "networkConnector": "NetworkConnectorView",
        "queue": "QueueView",
        "subscription": "SubscriptionView",
        "topic": "TopicView",
    },
}
"""Kind of MBean -> its class in Java; Jolokia's Java client takes what `list` tells for no MBean without one."""
Row = dict[str, Any]
Readers = Mapping[str, Callable[[Row], object]]


class World:
    """One broker, as rows. Each list is asked for once."""

    def __init__(self, asker: Asker) -> None:
        self.asker: Final = asker
        self._kept: dict[str, list[Row]] = {}
        self._attributes: dict[tuple[str, str], Row] = {}
        self._queues: list[QueueView] | None = None

    async def facts(self, names: str) -> Row:
        """Return attributes of the broker. Raises EntrepotError."""
        return await self.attributes("broker", names)

    async def attributes(self, resource: str, names: str) -> Row:
        """Return attributes of one resource, "" for all. Raises EntrepotError."""
        found = self._attributes.get((resource, names))
        if found is None:
            found = dict(await self.asker.ask(resource, "describeAttributes", names))
            self._attributes[resource, names] = found
        return found

    async def listed(self, operation: str) -> list[Row]:
        """Return all rows of a list in pages: ``listConsumers`` and its like. Raises EntrepotError."""
        kept = self._kept.get(operation)
        if kept is None:
            kept, at = [], 0
            while True:
                at += 1
                page = json.loads(await self.asker.ask("broker", operation, "", at, PAGE))["data"]
                kept += page
                if len(page) < PAGE:
                    break
            self._kept[operation] = kept
        return kept

    async def resources(self, kind: str, names: str = "") -> list[Row]:
        """Return all queues or addresses with their attributes. Raises EntrepotError."""
        key = f"{kind}:{names}"
        kept = self._kept.get(key)
        if kept is None:
            kept, word = [], "name" if kind == "queue" else "address"
            while True:
                last = str(kept[-1][word]) if kept else ""
                page = await self.asker.ask("broker", "describeResources", kind, "", last, RESOURCES, names)
                kept += page
                if len(page) < RESOURCES:
                    break
            self._kept[key] = kept
        return kept

    async def tuned(self) -> list[Row]:
        """Return all addresses with settings of their own. Raises EntrepotError."""
        kept = self._kept.get(TUNED)
        if kept is None:
            kept, after = [], ""
            while True:
                rows = await self.asker.ask("broker", TUNED, after, RESOURCES)
                page = [row for row in rows if str(row["address"]) > after]  # an older broker tells all each time
                kept += page
                if len(page) < RESOURCES:
                    break
                after = str(page[-1]["address"])
            self._kept[TUNED] = kept
        return kept

    async def rows(self, operation: str) -> list[Row]:
        """Return what one operation lists. Raises EntrepotError."""
        kept = self._kept.get(operation)
        if kept is None:
            kept = self._kept[operation] = list(await self.asker.ask("broker", operation))
        return kept

    async def queues(self, name: str = "") -> list[QueueView]:
        """Return all queues, or one. Raises EntrepotError."""
        if self._queues is None:
            if name:
                return [await queue_named(self.asker, name)]
            self._queues = await all_queues(self.asker)
        if name:
            return [one for one in self._queues if one.name == name]
        return self._queues


@cache
def shapes(family: str) -> Mapping[str, Mapping[str, Any]]:
    """Return kind of MBean -> its attributes and operations with their types, as `list` shows them."""
    text = files("entrepot.console.jolokia").joinpath(f"{family}.json").read_text()
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return found


def shape(family: str, kind: str) -> Mapping[str, Any]:
    """Return the types of one kind of MBean."""
    found = shapes(family).get(kind, {"attr": {}, "op": {}, "desc": kind})
    name = IMPLEMENTED[family][kind]
    if family == "artemis":
        return {**found, "class": f"org.apache.activemq.artemis.core.management.impl.{name}ControlImpl"}
    return {**found, "class": f"org.apache.activemq.broker.jmx.{name}"}


def readers(table: Readers, row: Row) -> dict[str, Callable[[], object]]:
    """Return what reads each attribute of ``table`` from ``row``."""
    return {name: _reader(read, row) for name, read in table.items()}


def _reader(read: Callable[[Row], object], row: Row) -> Callable[[], object]:
    return lambda: read(row)
