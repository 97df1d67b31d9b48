"""Brokers from ActiveMQ's own configurations: each starts, or is refused with its reason; what they say is obeyed."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon import PATIENCE, Wire

from entrepot.cli.configuration import load
from entrepot.cli.run import configured
from entrepot.config.findings import Severity
from entrepot.node import Node

pytest.importorskip("cryptography")
from certificates import Certificates

EXAMPLES = Path(__file__).parents[1] / "config" / "classic"
DEBIAN = Path("/etc/activemq/instances-available/main/activemq.xml")
SHIPPED = Path("/usr/share/doc/activemq/examples/conf")

REFUSED = {
    "jdbc": "messages are not kept in databases here",
    "jdbc-performance": "messages are not kept in databases here",
}
SHIPPED_REFUSED = {
    **{f"activemq-{name}": reason for name, reason in REFUSED.items()},
    "activemq": "ActiveMQ itself has dropped it",
}
LISTENS = re.compile(r'(<transportConnector\b[^>]*\buri="[\w+]+://)[\w.]+:\d+')


def placed(source: Path, tmp_path: Path, **replaced: str) -> Path:
    """Return a copy of a configuration in a ``conf`` of its own, with its ports free ones and its keys at hand."""
    conf = tmp_path / "conf"
    conf.mkdir(exist_ok=True)
    for properties in source.parent.glob("*.properties"):
        shutil.copy(properties, conf)
    made = Certificates(tmp_path)
    shutil.copy(made.server, conf / "broker.ks")
    shutil.copy(made.authority, conf / "broker.ts")
    text = LISTENS.sub(r"\g<1>127.0.0.1:0", source.read_text())
    for old, new in replaced.items():
        text = text.replace(f"<!--{old}-->", new)
    file = conf / source.name
    file.write_text(text)
    return file


def starts_or_is_refused(file: Path, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    config, findings = load(str(file), (), strict=False)
    errors = [finding.what for finding in findings.of(Severity.ERROR)]
    if reason:
        assert any(reason in what for what in errors), errors
        assert config is None
        return
    assert not errors
    assert config is not None

    async def start() -> None:
        node = Node(configured(str(file), (), strict=False))
        await node.start()
        try:
            assert len(node.uris) == len(config.connectors)
            assert all(not uri.endswith(":0") for uri in node.uris)
        finally:
            await node.stop()

    asyncio.run(start())
    told = capsys.readouterr().err
    assert all(finding.what in told for finding in findings)


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.xml")))
def test_each_example_starts_or_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACTIVEMQ_ENCRYPTION_PASSWORD", "activemq")
    file = placed(EXAMPLES / f"{name}.xml", tmp_path)
    monkeypatch.chdir(file.parent)
    starts_or_is_refused(file, REFUSED.get(name, ""), capsys)


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's package activemq is not installed")
def test_the_configuration_that_debian_installs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = placed(DEBIAN, tmp_path)
    monkeypatch.chdir(file.parent)
    starts_or_is_refused(file, "", capsys)


@pytest.mark.skipif(not SHIPPED.exists(), reason="ActiveMQ's examples are not installed")
@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.glob("activemq*.xml")) or ["none"])
def test_the_examples_as_activemq_ships_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACTIVEMQ_ENCRYPTION_PASSWORD", "activemq")
    file = placed(SHIPPED / f"{name}.xml", tmp_path)
    monkeypatch.chdir(file.parent)
    starts_or_is_refused(file, SHIPPED_REFUSED.get(name, ""), capsys)


# -- a broker from the file that ActiveMQ ships, as a process ---------------------------------------------------------

MORE = """
<policyEntry queue="small.>" memoryLimit="8 kb" sendFailIfNoSpace="true">
  <deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy>
</policyEntry></policyEntries>"""
PARTS = """
<destinations><queue physicalName="there.already"/></destinations>
<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
  <virtualTopic name="Orders.>" prefix="For.*."/>
  <compositeQueue name="both"><forwardTo><queue physicalName="one"/>
    <filteredDestination selector="colour = 'red'" queue="red"/></forwardTo></compositeQueue>
</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
<persistenceAdapter>"""


class Running:
    """`entrepot run FILE` in a directory of its own."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.ports = file.parent / "ports.json"
        command = [sys.executable, "-m", "entrepot", "run", str(file), "--ports-file", str(self.ports)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=file.parent)
        until = time.monotonic() + PATIENCE
        while not self.ports.exists():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.01)
        self.facts = json.loads(self.ports.read_text())
        self.port = int(self.facts["stomp"].rpartition(":")[2])

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        told = self.process.communicate(timeout=PATIENCE)[1]
        assert self.process.returncode == 0, told
        return told


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    file = placed(EXAMPLES / "default.xml", tmp_path)
    text = file.read_text()
    file.write_text(text.replace("</policyEntries>", MORE).replace("<persistenceAdapter>", PARTS))
    made = Running(file)
    yield made
    if made.process.poll() is None:
        made.stop()


def test_the_shipped_configuration_serves_stomp_and_reports_every_line(running: Running, tmp_path: Path) -> None:
    wire = Wire(running.port)
    assert wire.send("/queue/a", b"kept", persistent="true").command == "RECEIPT"
    wire.leave()
    told = running.stop()
    assert (tmp_path / "data" / "kahadb" / "entrepot").is_dir()
    assert "this build does not speak" not in told, "STOMP, OpenWire, AMQP, MQTT and WebSocket are in that file"
    assert "storeUsage/@limit" not in told, "it is obeyed"
    for place in ("beans/import", "broker/shutdownHooks"):
        assert place in told
    again = Running(running.file)
    wire = Wire(again.port)
    assert [frame.body for frame in wire.drain("/queue/a")] == [b"kept"]
    wire.cut()
    again.stop()


def test_a_slow_subscriber_of_a_topic_keeps_a_thousand_messages_as_the_file_says(running: Running) -> None:
    reader, writer = Wire(running.port), Wire(running.port)
    reader.subscribe("/topic/news", ack="client-individual", **{"activemq.prefetchSize": "1"})
    for number in range(1200):
        writer.say("SEND", {"destination": "/topic/news"}, b"%d" % number)
    writer.send("/topic/other", b"")  # its receipt says that the others are in
    numbers = []
    for _ in range(1001):
        frame = reader.message()
        numbers.append(int(frame.body))
        reader.say("ACK", {"id": frame.headers["ack"]})
    assert numbers == [0, *range(200, 1200)]
    reader.cut()
    writer.cut()


def test_limits_dead_letters_and_destinations_of_the_file_hold(running: Running) -> None:
    wire = Wire(running.port)
    answers = [wire.send("/queue/small.a", b"x" * 4096, persistent="true").command for _ in range(4)]
    assert answers[0] == "RECEIPT"
    assert answers[-1] == "ERROR"
    assert wire.send("/queue/large.a", b"x" * 65_536, persistent="true").command == "RECEIPT"
    wire.subscribe("/queue/small.a", ack="client-individual")
    frame = wire.message()
    wire.ask("NACK", {"id": frame.headers["ack"]})
    wire.cut()  # the other message goes back
    wire = Wire(running.port)
    assert [len(frame.body) for frame in wire.drain("/queue/DLQ.small.a")] == [4096]
    for body, colour in ((b"1", "red"), (b"2", "blue")):
        wire.send("/queue/both", body, colour=colour)
    assert [frame.body for frame in wire.drain("/queue/one")] == [b"1", b"2"]
    assert [frame.body for frame in wire.drain("/queue/red")] == [b"1"]
    wire.cut()


def test_the_virtual_topic_of_the_file_replaces_the_default(running: Running) -> None:
    wire = Wire(running.port)
    for queue in ("/queue/For.A.Orders.eu", "/queue/Consumer.A.VirtualTopic.eu"):
        wire.drain(queue)
    wire.send("/topic/Orders.eu", b"mine")
    wire.send("/topic/VirtualTopic.eu", b"nobody's")
    assert [frame.body for frame in wire.drain("/queue/For.A.Orders.eu")] == [b"mine"]
    assert wire.drain("/queue/Consumer.A.VirtualTopic.eu") == []
    wire.cut()


def test_store_usage_lets_producers_wait_until_there_is_room(tmp_path: Path) -> None:
    limits = '<systemUsage><systemUsage><storeUsage><storeUsage limit="1 mb"/></storeUsage></systemUsage></systemUsage>'
    file = tmp_path / "activemq.xml"
    file.write_text(
        '<beans xmlns="http://www.springframework.org/schema/beans">'
        f'<broker xmlns="http://activemq.apache.org/schema/core" dataDirectory="{tmp_path}/data">{limits}'
        '<transportConnectors><transportConnector name="s" uri="stomp://127.0.0.1:0"/></transportConnectors>'
        "</broker></beans>"
    )

    persistent = {"destination": "/queue/q", "persistent": "true"}

    async def scenario() -> None:
        node = Node(configured(str(file), (), strict=False))
        await node.start()
        try:
            producer = await asyncio.to_thread(Wire, node.listeners[0].port)
            sent = 0
            while not node.broker.journal.space.limits.full:
                assert sent < 400, "3 MB are above the limit"
                await asyncio.to_thread(producer.ask, "SEND", persistent, b"x" * 8192)
                sent += 1
                await asyncio.sleep(0.02)
            assert 100 < sent < 300
            await asyncio.to_thread(producer.say, "SEND", persistent, b"last")
            later = asyncio.ensure_future(asyncio.to_thread(producer.ask, "SEND", persistent, b"later"))
            await asyncio.sleep(1)
            assert not later.done(), "it waits"
            queue = node.broker.table.queues["q"]
            node.turn.run(queue.taking.purge)
            assert (await asyncio.wait_for(later, PATIENCE)).command == "RECEIPT"
            assert queue.count == 1
            producer.cut()
        finally:
            await node.stop()

    asyncio.run(scenario())
