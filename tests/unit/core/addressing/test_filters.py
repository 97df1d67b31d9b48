"""Names of Artemis' filters mean the same for a message of any protocol, on queues and on diverts."""

from __future__ import annotations

import pytest

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import divert
from entrepot.model.address import UNTYPED, Destination
from entrepot.model.predicate import compile_selector
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from kit import Rig

SENT = (
    b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
    b"SEND\ndestination:a\npriority:7\npersistent:true\nJMSXGroupID:g\ncolour:red\n\nhello world\0"
)


@pytest.mark.parametrize(
    ("selector", "passes"),
    [
        ("AMQPriority = 7", True),
        ("AMQPriority < 7", False),
        ("AMQDurable = 'DURABLE'", True),
        ("AMQDurable = 'NON_DURABLE'", False),
        ("AMQSize > 10", True),
        ("AMQTimestamp > 0 AND AMQExpiration = 0", True),
        ("AMQAddress = 'a'", True),
        ("AMQAddress = 'b'", False),
        ("AMQGroupID = 'g' AND colour = 'red'", True),
        ("AMQGroupID = 'h'", False),
    ],
)
def test_a_message_of_stomp_by_a_filter_of_artemis(selector: str, passes: bool) -> None:
    rig = Rig(disk=False)
    queue = rig.broker.queues.create(QueueDefinition(name="q", address="a", selector=selector))
    rig.broker.queues.create(QueueDefinition(name="copy", address="copy"))
    rig.broker.queues.follow(divert("d", "a", [Destination("copy", UNTYPED)], False, compile_selector(selector)))
    session = StompSession(Shell(), rig.broker, StompOptions(), 1, "peer")
    session.receive(SENT, rig.now)
    rig.turn()
    assert (int(queue.count), int(rig.queue("copy").count)) == (int(passes), int(passes))
