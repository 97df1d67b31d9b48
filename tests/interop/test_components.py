"""Acceptors and bridges as resources, and what the notifying plugin has told: compared with a real Artemis."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from classic import HOST, free_port
from managing import Broker, Manager
from ours import like_artemis

from entrepot import Message

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

PATIENCE_S: Final = 15.0
PLUGIN: Final = """
<broker-plugins>
  <broker-plugin class-name="org.apache.activemq.artemis.core.server.plugin.impl.NotificationActiveMQServerPlugin">
    <property key="SEND_DELIVERED_NOTIFICATIONS" value="true"/>
    <property key="SEND_ADDRESS_NOTIFICATIONS" value="true"/>
    <property key="SEND_EXPIRED_NOTIFICATIONS" value="true"/>
  </broker-plugin>
</broker-plugins>
<bridges><bridge name="over"><queue-name>from</queue-name><forwarding-address>there</forwarding-address>
<filter string="a = 1"/><retry-interval>700</retry-interval><reconnect-attempts>7</reconnect-attempts>
<static-connectors><connector-ref>nowhere</connector-ref></static-connectors></bridge></bridges>
"""
ATTRIBUTES: Final = (
    "Name", "QueueName", "ForwardingAddress", "FilterString", "RetryInterval", "RetryIntervalMultiplier",
    "MaxRetryInterval", "ReconnectAttempts", "UseDuplicateDetection", "DiscoveryGroupName", "HA", "Started",
    "TransformerClassName", "MessagesPendingAcknowledgement", "MessagesAcknowledged",
)  # fmt: skip
TOLD: Final = ("MESSAGE_DELIVERED", "MESSAGE_EXPIRED", "ADDRESS_ADDED", "ADDRESS_REMOVED")


def answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as link:
            return bool(link.getsockname() != link.getpeername())
    except OSError:
        return False


def await_that(port: int, open_: bool) -> bool:
    until = time.monotonic() + PATIENCE_S
    while answers(port) != open_:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def notified(manager: Manager) -> list[tuple[str, dict[str, Any]]]:
    """Return what is told of a message that is read, of one that expires, and of an address that comes and goes."""
    session = manager.session
    consumer = session.consumer("topic://activemq.notifications")
    manager.ask("broker", "createQueue", "note", "note", "ANYCAST")
    session.producer("queue://note").send(Message("read me"))
    reader = session.consumer("queue://note")
    message = reader.receive(PATIENCE_S)
    assert message is not None
    reader.close()
    session.producer("queue://note").send(Message("too late"), time_to_live=0.05)
    time.sleep(0.2)
    manager.ask("queue.note", "expireMessages", "")
    late = session.consumer("queue://note")
    late.receive(0.3)
    late.close()
    manager.ask("broker", "createAddress", "note.bare", "MULTICAST")
    manager.ask("broker", "deleteAddress", "note.bare")
    found: list[tuple[str, dict[str, Any]]] = []
    while (told := consumer.receive(1.0)) is not None:
        kind = str(told.properties["_AMQ_NotifType"])
        place = str(told.properties.get("_AMQ_Address", ""))
        if kind in TOLD and place.startswith("note"):
            shown = {
                name: type(value).__name__ if name in ("_AMQ_Message_ID", "_AMQ_ConsumerName") else value
                for name, value in sorted(told.properties.items())
                if name not in ("_AMQ_NotifTimestamp", "_AMQ_NotifType") and name.startswith("_AMQ")
            }
            found.append((kind, shown))
    return sorted(found, key=str)


def scenario(broker: Broker, second: int) -> dict[str, Any]:
    broker.start().await_ready()
    manager = Manager(broker)
    seen: dict[str, Any] = {name: manager.read("bridge.over", name) for name in ATTRIBUTES}
    seen["acceptor"] = [manager.read("acceptor.second", name) for name in ("Name", "FactoryClassName", "Started")]
    seen["open"] = answers(second)
    manager.ask("acceptor.second", "stop")
    seen["stopped"] = await_that(second, False), manager.read("acceptor.second", "Started")
    manager.ask("acceptor.second", "start")
    seen["again"] = await_that(second, True), manager.read("acceptor.second", "Started")
    manager.ask("bridge.over", "stop")
    seen["bridge stopped"] = manager.ask("bridge.over", "isStarted")
    manager.ask("bridge.over", "start")
    seen["bridge again"] = manager.ask("bridge.over", "isStarted")
    seen["names"] = manager.ask("broker", "getBridgeNames")
    seen["told"] = notified(manager)
    manager.close()
    return seen


def test_acceptors_bridges_and_what_the_plugin_tells(tmp_path: Path) -> None:
    addresses = '<address name="from"><anycast><queue name="from"/></anycast></address>'
    theirs = Artemis(tmp_path / "theirs", core=PLUGIN, addresses=addresses)
    mine = like_artemis(tmp_path / "ours", theirs)
    ports = [free_port(), free_port()]
    for broker, port in zip((theirs, mine), ports, strict=True):
        file = broker.home / "broker.xml"
        text = file.read_text().replace(
            "</connectors>", f'<connector name="nowhere">tcp://{HOST}:1</connector></connectors>'
        )
        acceptor = f'<acceptor name="second">tcp://{HOST}:{port}?protocols=CORE</acceptor>'
        file.write_text(text.replace("</acceptors>", acceptor + "</acceptors>"))
    try:
        with ThreadPoolExecutor() as both:
            one, other = both.map(scenario, (theirs, mine), ports)
    finally:
        theirs.kill()
        mine.kill()
    for name, expected in one.items():
        assert other[name] == expected, name
    assert {kind for kind, _ in one["told"]} == set(TOLD)
