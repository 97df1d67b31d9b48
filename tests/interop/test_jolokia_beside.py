"""Jolokia's answers beside those of a real ActiveMQ and a real Artemis that hold the same messages.

The real ones answer by Jolokia's own agent. ``ENTREPOT_TABLES=docs`` writes the tables of the documentation.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("uvicorn")

import artemis
import classic
import jolokias
from classic import NEWER
from tables import cell

BEANS: Final = {
    "classic": {
        "broker": "org.apache.activemq:type=Broker,brokerName=ref",
        "queue": "org.apache.activemq:type=Broker,brokerName=ref,destinationType=Queue,destinationName=orders",
        "topic": "org.apache.activemq:type=Broker,brokerName=ref,destinationType=Topic,destinationName=news",
        "durable": "org.apache.activemq:type=Broker,brokerName=ref,endpoint=Consumer,destinationName=news,"
        "destinationType=Topic,clientId=ref-client,consumerId=Durable(ref-client_sub)",
    },
    "artemis": {
        "broker": 'org.apache.activemq.artemis:broker="ref"',
        "address": 'org.apache.activemq.artemis:broker="ref",component=addresses,address="orders"',
        "queue": 'org.apache.activemq.artemis:broker="ref",component=addresses,address="orders",subcomponent=queues,'
        'routing-type="anycast",queue="orders"',
    },
}
SAME: Final = {
    ("classic", "broker"): {"BrokerName", "Persistent", "Slave", "VMURL"},
    ("classic", "queue"): {
        "Name",
        "QueueSize",
        "EnqueueCount",
        "DequeueCount",
        "DispatchCount",
        "ExpiredCount",
        "InFlightCount",
        "ConsumerCount",
        "Paused",
        "DLQ",
        "Subscriptions",
    },
    ("classic", "topic"): {"Name", "EnqueueCount", "ConsumerCount", "DequeueCount", "DispatchCount", "InFlightCount"},
    ("classic", "durable"): {
        "Active",
        "ClientId",
        "DestinationName",
        "DestinationTopic",
        "Durable",
        "SubscriptionName",
        "DispatchedCounter",
        "DispatchedQueueSize",
        "Selector",
    },
    ("artemis", "broker"): {"Name", "Active", "Started", "Backup", "Clustered", "SecurityEnabled", "ManagementAddress"},
    ("artemis", "address"): {"Address", "MessageCount", "QueueNames", "RoutingTypes", "Paused", "Temporary", "Paging"},
    ("artemis", "queue"): {
        "Name",
        "Address",
        "MessageCount",
        "MessagesAdded",
        "MessagesAcknowledged",
        "DeliveringCount",
        "ScheduledCount",
        "ConsumerCount",
        "Durable",
        "Paused",
        "RoutingType",
        "MaxConsumers",
        "Exclusive",
        "LastValue",
        "Temporary",
        "Filter",
        "DeadLetterAddress",
        "MessagesExpired",
        "MessagesKilled",
    },
}
"""What must be equal; what is not here may differ, and the table says so."""

pytestmark = pytest.mark.skipif(bool(classic.unavailable(NEWER)), reason=classic.unavailable(NEWER))


def ask(url: str, body: Any) -> Any:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def read(url: str, family: str) -> dict[str, dict[str, Any]]:
    """Return kind of MBean -> its attributes."""
    asked = [{"type": "read", "mbean": name, "config": {"ignoreErrors": True}} for name in BEANS[family].values()]
    told = ask(url, asked)
    return {kind: one.get("value") or {"error": one} for kind, one in zip(BEANS[family], told, strict=True)}


def settled(url: str, family: str) -> dict[str, dict[str, Any]]:
    """Read when the message of the topic is with its reader."""
    until = time.monotonic() + 30
    while True:
        found = read(url, family)
        done = family != "classic" or found["durable"].get("DispatchedCounter") == 1
        if done or time.monotonic() > until:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize("family", jolokias.FAMILIES)
def test_attributes_are_those_of_the_real_one(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with jolokias.own(family, tmp_path / "ours") as (place, url), jolokias.talking(url):
        ours = settled(place, family)
    with jolokias.real(family, tmp_path / "real", monkeypatch) as (place, url), jolokias.talking(url):
        real = settled(place, family)
    folder = os.environ.get("ENTREPOT_TABLES")
    if folder:
        (Path(folder) / f"jolokia-{family}.md").write_text(table(family, ours, real, tmp_path))
    for kind in BEANS[family]:
        for name in SAME[family, kind]:
            assert (kind, name, ours[kind].get(name)) == (kind, name, real[kind].get(name))
        assert not set(ours[kind]) - set(real[kind]), "attributes that a real one has not"


def table(family: str, ours: dict[str, dict[str, Any]], real: dict[str, dict[str, Any]], home: Path) -> str:
    title = "ActiveMQ Classic " + NEWER if family == "classic" else "Artemis " + artemis.VERSION
    lines = [
        f"<!-- Written by tests/interop/test_jolokia_beside.py with ENTREPOT_TABLES. -->\n# Jolokia beside {title}\n",
        "Both held the same: three messages in a queue, one delivered to a durable subscription. *Absent* is what is\n"
        "not measured or does not exist here. *Different* is what depends on the machine, the program or defaults;\n"
        "the console's own connection and queue for answers are counted here, advisories not.",
    ]
    for kind, values in real.items():
        same = [name for name in values if name in ours[kind] and ours[kind][name] == values[name]]
        other = [name for name in values if name in ours[kind] and name not in same]
        absent = [name for name in values if name not in ours[kind]]
        lines.append(f"\n## {kind}: {len(same)} equal, {len(other)} different, {len(absent)} absent of {len(values)}\n")
        for word, names in (("Equal", same), ("Absent", absent)):
            lines.append(f"{word}: " + (", ".join(f"`{name}`" for name in sorted(names)) or "none") + ".\n")
        if other:
            lines.append("| Different | There | Here |\n|---|---|---|")
            lines += [
                f"| `{name}` | {cell(values[name], home, 60)} | {cell(ours[kind][name], home, 60)} |"
                for name in sorted(other)
            ]
    return "\n".join(lines) + "\n"
