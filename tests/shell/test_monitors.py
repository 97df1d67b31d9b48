"""What monitors ask a console for, and what they make of the answers: their requests, and their rules of reading.

Telegraf's inputs ``activemq`` and ``jolokia2_agent`` (with its example for ActiveMQ), Datadog's ``activemq_xml``, the
beans of Zabbix' template "Apache ActiveMQ by JMX" asked for by Jolokia, and two checks for Nagios
(predic8/activemq-nagios-plugin, KevinHonka/check_activeMQ). Nothing of theirs runs here.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote_plus
from xml.etree import ElementTree

import pytest

pytest.importorskip("uvicorn")

from entrepot import blocking
from shell.consoles import Console, until

BROKER: Final = "org.apache.activemq:type=Broker,brokerName=here"
STATS: Final = ("size", "consumerCount", "enqueueCount", "dequeueCount")
SUBSCRIBER: Final = ("clientId", "subscriptionName", "connectionId", "destinationName", "selector", "active")
COUNTERS: Final = (
    "pendingQueueSize",
    "dispatchedQueueSize",
    "dispatchedCounter",
    "enqueueCounter",
    "dequeueCounter",
)
QUEUE: Final = (
    "QueueSize",
    "EnqueueCount",
    "ConsumerCount",
    "DispatchCount",
    "DequeueCount",
    "ProducerCount",
    "InFlightCount",
)
TOPIC: Final = ("ProducerCount", "DequeueCount", "ConsumerCount", "QueueSize", "EnqueueCount")
TOTALS: Final = (
    "TotalConsumerCount",
    "TotalMessageCount",
    "TotalEnqueueCount",
    "TotalDequeueCount",
    "MemoryLimit",
    "MemoryPercentUsage",
    "StoreLimit",
    "StorePercentUsage",
    "TempPercentUsage",
    "TempLimit",
)
ZABBIX: Final = {
    "org.apache.activemq:type=Broker,brokerName=*": (
        "BrokerVersion",
        "UptimeMillis",
        "TotalProducerCount",
        *TOTALS,
    ),
    "org.apache.activemq:type=Broker,brokerName=*,destinationType=*,destinationName=*": (
        "ConsumerCount",
        "ProducerCount",
        "MemoryPercentUsage",
        "EnqueueCount",
        "DequeueCount",
        "QueueSize",
        "ExpiredCount",
    ),
}
"""Bean -> the attributes that are read of it."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    made = Console(tmp_path_factory.mktemp("monitors"))
    with blocking.connect(made.tcp, client_id="reader") as connection, connection.session() as session:
        producer = session.producer("queue://orders")
        for number in range(3):
            producer.send(f"m{number}")
        session.consumer("topic://news", durable="sub")
        session.producer("topic://news").send("hello")
        until(lambda: subscriber(made)["dispatchedCounter"], lambda count: count == "1")
        yield made
    made.stop()


def feed(console: Console, name: str) -> ElementTree.Element:
    """Return a feed of XML, asked for with a name and a password as monitors do."""
    login = {"Authorization": "Basic " + b64encode(b"admin:admin").decode()}
    answer = console.ask(f"/admin/xml/{name}.jsp", headers=login)
    assert answer.status == 200
    return ElementTree.fromstring(answer.text)


def subscriber(console: Console) -> dict[str, str]:
    found = feed(console, "subscribers").find("subscriber")
    if found is None:
        return {"dispatchedCounter": ""}
    stats = found.find("stats")
    assert stats is not None
    return {**found.attrib, **stats.attrib}


def test_telegraf_and_datadog_read_the_feeds(console: Console) -> None:
    read: dict[str, dict[str, list[int]]] = {}
    for kind in ("queue", "topic"):
        root = feed(console, f"{kind}s")
        assert root.tag == f"{kind}s"
        read[kind] = {}
        for one in root.findall(kind):
            stats = one.find("stats")
            assert stats is not None
            assert set(stats.attrib) == set(STATS)
            read[kind][one.attrib["name"].strip()] = [int(stats.attrib[name]) for name in STATS]
    assert read["queue"] == {"orders": [3, 0, 3, 0]}
    size, readers, entered, _ = read["topic"]["news"]
    assert (size, readers, entered) == (1, 1, 1)


def test_telegraf_and_datadog_read_the_durable_subscriptions(console: Console) -> None:
    told = subscriber(console)
    assert set(told) == {*SUBSCRIBER, *COUNTERS}
    assert [told[name] for name in SUBSCRIBER] == ["reader", "sub", told["connectionId"], "news", "", "true"]
    assert [int(told[name]) for name in COUNTERS] == [0, 1, 1, 1, 0]


def test_telegraf_reads_jolokia_with_one_post(console: Console) -> None:
    """Its tags are properties of the names; what is 404 it passes over, as beans of a JVM are here."""
    asked = [
        ("java.lang:type=Memory", ("HeapMemoryUsage", "NonHeapMemoryUsage")),
        ("org.apache.activemq:brokerName=*,destinationName=*,destinationType=Queue,type=Broker", QUEUE),
        ("org.apache.activemq:brokerName=*,destinationName=*,destinationType=Topic,type=Broker", TOPIC),
        ("org.apache.activemq:brokerName=*,type=Broker", TOTALS),
    ]
    body = [{"type": "read", "mbean": mbean, "attribute": list(names)} for mbean, names in asked]
    java, queues, topics, brokers = console.ask("/api/jolokia/read", body=body).json
    assert java["status"] == 404
    assert [one["request"]["mbean"] for one in (queues, topics, brokers)] == [mbean for mbean, _ in asked[1:]]
    found = {destination(name): values for name, values in queues["value"].items()}
    assert found["orders"] == dict(zip(QUEUE, (3, 3, 0, 0, 0, 1, 0), strict=True))
    found = {destination(name): values for name, values in topics["value"].items()}
    assert set(found["news"]) == set(TOPIC)
    (totals,) = brokers["value"].values()
    assert set(totals) == set(TOTALS)
    assert (totals["StoreLimit"], totals["TempLimit"]) == (0, 0), "what is kept in memory has no limit of a disk"
    assert all(isinstance(value, int) for value in totals.values())


def destination(name: str) -> str:
    """Return the tag ``destinationName`` of a name."""
    return dict(part.split("=") for part in name.partition(":")[2].split(","))["destinationName"]


def test_what_zabbix_reads_over_jmx_is_there_by_the_same_names(console: Console) -> None:
    for pattern, names in ZABBIX.items():
        beans = console.ask("/api/jolokia", body={"type": "search", "mbean": pattern}).json["value"]
        assert beans
        for bean in beans:
            asked = [{"type": "read", "mbean": bean, "attribute": name} for name in names]
            answers = console.ask("/api/jolokia", body=asked).json
            assert [one["request"]["attribute"] for one in answers if one["status"] != 200] == []


def read(console: Console, tail: str) -> Any:
    return console.ask(f"/api/jolokia/read/{BROKER}{tail}").json


def test_the_check_of_predic8_finds_queues_health_and_subscribers(console: Console) -> None:
    queues = [one["objectName"] for one in read(console, "")["value"]["Queues"]]
    sizes = {}
    for name in queues:
        value = console.ask(f"/api/jolokia/read/{name}").json["value"]
        sizes[value["Name"]] = value["QueueSize"]
    assert sizes["orders"] == 3
    assert read(console, ",service=Health")["value"]["CurrentStatus"] == "Getting Worried"  # nobody reads orders
    topic = read(console, ",destinationType=Topic,destinationName=" + quote_plus("news"))
    (subscription,) = topic["value"]["Subscriptions"]
    value = console.ask(f"/api/jolokia/read/{subscription['objectName']}").json["value"]
    assert (value["DestinationName"], value["ClientId"], value["Active"]) == ("news", "reader", True)
    assert read(console, ",destinationType=Queue,destinationName=none")["status"] != 200


def test_the_check_of_kevinhonka_finds_a_queue_and_the_health(console: Console) -> None:
    value = read(console, ",destinationType=Queue,destinationName=orders")["value"]
    assert [value[name] for name in ("Name", "QueueSize", "ProducerCount")] == ["orders", 3, 1]
    health = read(console, "")["value"]
    names = ("Uptime", "BrokerVersion", "StorePercentUsage", "MemoryPercentUsage")
    assert {*names, "TotalDequeueCount", "TotalEnqueueCount"} <= set(health)
