"""Jolokia's answers beside those of a real ActiveMQ and a real Artemis that hold the same messages.

The real ones answer by Jolokia's own agent. ``ENTREPOT_TABLES=docs`` writes the tables of the documentation.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final, NamedTuple
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
WRITES: Final[dict[str, list[tuple[str, str, Any]]]] = {
    "classic": [
        ("broker", "MemoryLimit", 100_000_000),
        ("broker", "StoreLimit", "200000000"),
        ("broker", "TempLimit", 30_000_000),
        ("queue", "MemoryLimit", 1_000_000),
        ("queue", "ProducerFlowControl", False),
        ("queue", "ProducerFlowControl", "true"),
        ("topic", "MemoryLimit", 2_000_000),
        ("broker", "BrokerName", "other"),
        ("broker", "NoSuch", 1),
        ("broker", "MemoryLimit", "many"),
        ("queue", "QueueSize", 5),
        ("durable", "ClientId", "other"),
    ],
    "artemis": [
        ("broker", "MessageCounterSamplePeriod", 20_000),
        ("broker", "MessageCounterMaxDayCount", "7"),
        ("broker", "Name", "other"),
        ("broker", "NoSuch", 1),
        ("broker", "MessageCounterSamplePeriod", "many"),
        ("address", "Paused", True),
        ("queue", "MessageCount", 5),
    ],
}
"""What is written, one after the other: kind of MBean, attribute, value."""

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


class Seen(NamedTuple):
    """What one broker told. ``writable``: kind of MBean -> what can be written, as `list` says it."""

    attributes: dict[str, dict[str, Any]]
    writable: dict[str, set[str]]
    written: list[tuple[Any, ...]]


def writable(url: str, family: str) -> dict[str, set[str]]:
    found = {}
    for kind, name in BEANS[family].items():
        domain, _, keys = name.partition(":")
        path = "/".join(part.replace("!", "!!").replace("/", "!/") for part in (domain, keys, "attr"))
        told = ask(url, {"type": "list", "path": path})
        found[kind] = {name for name, one in told["value"].items() if one["rw"]}
    return found


def written(url: str, family: str) -> list[tuple[Any, ...]]:
    """Write all of `WRITES`; return each with status, class of the error, and what is read behind it."""
    found = []
    for kind, name, value in WRITES[family]:
        place = {"mbean": BEANS[family][kind], "attribute": name}
        told = ask(url, {"type": "write", **place, "value": value})
        until = time.monotonic() + (5 if told["status"] == 200 else 0)
        while True:
            seen = ask(url, {"type": "read", **place}).get("value")
            if str(seen).lower() == str(value).lower() or time.monotonic() >= until:
                break
            time.sleep(0.1)
        error = str(told.get("error_type")).replace("NumberFormat", "IllegalArgument")  # a kind of the other
        found.append((kind, name, value, told["status"], error, seen))
    return found


def seen(url: str, family: str) -> Seen:
    return Seen(settled(url, family), writable(url, family), written(url, family))


def settled(url: str, family: str) -> dict[str, dict[str, Any]]:
    """Read when the message of the topic is with its reader."""
    until = time.monotonic() + 30
    while True:
        found = read(url, family)
        done = family != "classic" or found["durable"].get("DispatchedCounter") == 1
        if done or time.monotonic() > until:
            return found
        time.sleep(0.1)


@pytest.fixture(params=jolokias.FAMILIES, scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Seen, Seen]:
    """Have what both told: the family, ours, the real one."""
    family, home = request.param, tmp_path_factory.mktemp(request.param)
    with jolokias.own(family, home / "ours") as (place, url), jolokias.talking(url):
        ours = seen(place, family)
    with (
        pytest.MonkeyPatch.context() as patch,
        jolokias.real(family, home / "real", patch) as (place, url),
        jolokias.talking(url),
    ):
        real = seen(place, family)
    folder = os.environ.get("ENTREPOT_TABLES")
    if folder:
        (Path(folder) / f"jolokia-{family}.md").write_text(table(family, ours, real, home))
    return family, ours, real


def test_attributes_are_those_of_the_real_one(pair: tuple[str, Seen, Seen]) -> None:
    family, ours, real = pair[0], pair[1].attributes, pair[2].attributes
    for kind in BEANS[family]:
        for name in SAME[family, kind]:
            assert (kind, name, ours[kind].get(name)) == (kind, name, real[kind].get(name))
        assert not set(ours[kind]) - set(real[kind]), "attributes that a real one has not"


def test_writes_do_what_they_do_at_the_real_one(pair: tuple[str, Seen, Seen]) -> None:
    family, ours, real = pair
    for kind in BEANS[family]:
        assert ours.writable[kind] <= real.writable[kind], "what cannot be written there"
    assert ours.written == real.written
    assert [one[3] for one in real.written].count(200) >= 2, "it was done there"


def table(family: str, seen: Seen, there: Seen, home: Path) -> str:
    title = "ActiveMQ Classic " + NEWER if family == "classic" else "Artemis " + artemis.VERSION
    lines = [
        f"<!-- Written by tests/interop/test_jolokia_beside.py with ENTREPOT_TABLES. -->\n# Jolokia beside {title}\n",
        "Both held the same: three messages in a queue, one delivered to a durable subscription. *Absent* is what is\n"
        "not measured or does not exist here. *Different* is what depends on the machine, the program or defaults;\n"
        "the console's own connection and queue for answers are counted here, advisories not. *Writable* is what a\n"
        "`write` sets; what is *writable there alone* is read alone here, or absent.",
    ]
    ours, real = seen.attributes, there.attributes
    for kind, values in real.items():
        same = [name for name in values if name in ours[kind] and ours[kind][name] == values[name]]
        other = [name for name in values if name in ours[kind] and name not in same]
        absent = [name for name in values if name not in ours[kind]]
        lines.append(f"\n## {kind}: {len(same)} equal, {len(other)} different, {len(absent)} absent of {len(values)}\n")
        alone = there.writable[kind] - seen.writable[kind]
        rows = {"Equal": same, "Absent": absent, "Writable": seen.writable[kind], "Writable there alone": alone}
        for word, names in rows.items():
            lines.append(f"{word}: " + (", ".join(f"`{name}`" for name in sorted(names)) or "none") + ".\n")
        if other:
            lines.append("| Different | There | Here |\n|---|---|---|")
            lines += [
                f"| `{name}` | {cell(values[name], home, 60)} | {cell(ours[kind][name], home, 60)} |"
                for name in sorted(other)
            ]
    return "\n".join(lines) + "\n"
