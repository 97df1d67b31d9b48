"""Other brokers at the door: what they say before they are let in."""

from __future__ import annotations

import pytest

from entrepot.cluster.networks.advising import Advising
from entrepot.cluster.networks.neighbourhood import Neighbourhood
from entrepot.cluster.networks.reception import Reception
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.commands import (
    ActiveMQTopic,
    BrokerId,
    BrokerInfo,
    BrokerSubscriptionInfo,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    Response,
)
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.server import OpenWireSession
from entrepot.protocols.session import Shell
from kit import Rig

from ...protocols.openwire.wired import Client

PROPERTIES = "name=NC\nsyncDurableSubs=true\ndynamicallyIncludedDestinations=[topic\\://T]\n"


@pytest.mark.parametrize("duplex", [False, True])
def test_a_broker_may_list_its_durable_subscriptions_before_it_connects(duplex: bool) -> None:
    """ActiveMQ does so with ``syncDurableSubs``; only the other end of a duplex bridge needs the list."""
    rig = Rig()
    neighbourhood = Neighbourhood(Advising(Acceptor(rig.broker)))
    session = OpenWireSession(Shell(), neighbourhood.acceptor, OpenWireOptions(), 1, "peer", Reception(neighbourhood))
    client = Client(rig, session, "near", WireFormatOptions())
    client.exchange()
    client.post(
        BrokerInfo(
            broker_id=BrokerId("near-1"),
            broker_name="near",
            network_connection=True,
            duplex_connection=duplex,
            network_properties=PROPERTIES,
        )
    )
    subscription = ConsumerInfo(
        consumer_id=ConsumerId("c:sub", 1, 0),
        destination=ActiveMQTopic("T"),
        client_id="c",
        subscription_name="sub",
    )
    client.post(
        BrokerSubscriptionInfo(broker_id=BrokerId("near-1"), broker_name="near", subscription_infos=[subscription])
    )
    answer = client.ask(ConnectionInfo(connection_id=ConnectionId("near:1"), client_id="NC_near_outbound"))
    assert isinstance(answer, Response)
    client.exchange()
    assert not any(isinstance(one, ConnectionError) for one in client.heard)
    durable = [
        queue.address
        for queue in rig.broker.table.queues.values()
        if "NC-DS_" in (queue.definition.subscription or ("", ""))[1]
    ]
    assert durable == (["T"] if duplex else [])
