"""Internal annotations of a message: kept over paging and restarts, and said by no protocol."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.openwire.commands import ActiveMQQueue, ActiveMQTextMessage
from entrepot.protocols.openwire.convert import message_of, presented
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from journals import Confirmed
from kit import Rig

from .stomp.test_server import Client

SOURCE = Path(__file__).resolve().parents[3] / "src" / "entrepot"
ROUTE = "_AMQ_HELD_FOR$.artemis.internal.sf.west"
BRIDGE = "_AMQ_BRIDGE_DUP"
USES = re.compile(r"\.internal\b(?!\.)|\.(un)?mark(ed)?\(")


def marked(message: Message) -> Message:
    message.durable = True
    message.annotate("shown", "to all")
    message.mark(ROUTE, (7).to_bytes(8, "big"))
    message.mark(BRIDGE, "a text")
    message.mark("AMQ_INTERNAL_ID", 1 << 40)
    return message


def stomp() -> Message:
    message = Message(STOMP_LANGUAGE, "q", b"colour:red\n\nbody\0")
    message.body_at = len(b"colour:red\n\n")
    return marked(message)


def openwire() -> Message:
    command = ActiveMQTextMessage(destination=ActiveMQQueue("q"))
    return marked(message_of(command, "q"))


def kept(rig: Rig) -> Message:
    (reference,) = rig.queue("q").stock.walk().step(10)
    return rig.journal.reading.load(reference.message.number)


@pytest.mark.parametrize("make", [stomp, openwire])
@pytest.mark.parametrize("stop", ["close", "kill", "crash"])
def test_they_outlive_a_restart_and_paging(make, stop):
    rig = Rig(max_octets="1")
    target = rig.broker.target(names.parse("q"))
    rig.broker.send(make(), target)
    rig.journal.confirm(Confirmed(), b"")
    rig.turn()
    for _ in range(2):
        assert kept(rig).marked(ROUTE) == (7).to_bytes(8, "big")
        assert kept(rig).marked(BRIDGE) == "a text"
        assert kept(rig).marked("AMQ_INTERNAL_ID") == 1 << 40
        rig.restart(stop)


@pytest.mark.parametrize("make", [stomp, openwire])
@pytest.mark.parametrize("version", ["1.0", "1.2"])
def test_a_consumer_of_stomp_does_not_see_them(make, version):
    rig = Rig()
    client = Client(rig, version)
    client.subscribe(ack="client")
    rig.broker.send(make(), rig.broker.target(names.parse("q")))
    rig.turn()
    (frame,) = client.hear()
    assert frame.headers["shown"] == "to all"
    assert not [name for name in frame.headers if "_AMQ" in name or "INTERNAL" in name]
    assert b"sf.west" not in client.raw
    assert b"a text" not in client.raw


@pytest.mark.parametrize("make", [stomp, openwire])
def test_a_consumer_of_openwire_does_not_see_them(make):
    shown = message_of(presented(make(), ActiveMQQueue("q"), "ID:n:1", "n", None), "q")
    assert shown.common().properties == {"shown": "to all", **({"colour": "red"} if make is stomp else {})}
    assert b"sf.west" not in shown.raw
    assert b"a text" not in shown.raw


BETWEEN_NODES = {
    *(f"protocols/artemis/{name}.py" for name in ("arriving", "linking/crossing", "sending")),
    "protocols/drawing.py",
}
"""Nodes of a cluster say over CORE which queues of the other one a message is for; what is drawn loses it."""
OWN = {
    *(f"protocols/mqtt/{name}.py" for name in ("convert", "delivery", "figures", "house", "retained")),
    *(f"protocols/amqp/{name}.py" for name in ("convert", "incoming", "large")),
}
"""What a protocol keeps with a message for itself: that it is retained, its footer, what was made of its octets."""
MIRRORS = {"protocols/amqp/mirroring.py", "protocols/amqp/calling/mirroring.py"}
"""Brokers that mirror each other say over AMQP which queues a message is for."""


def test_no_protocol_and_no_bridge_knows_of_them():
    found = [
        path.relative_to(SOURCE).as_posix()
        for folder in ("protocols", "cluster/networks", "client", "pipeline", "management")
        for path in (SOURCE / folder).rglob("*.py")
        if USES.search(path.read_text())
    ]
    assert set(found) == BETWEEN_NODES | OWN | MIRRORS
