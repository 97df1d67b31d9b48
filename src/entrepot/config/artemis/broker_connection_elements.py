"""The elements of ``broker.xml`` about connections over AMQP, and what becomes of them here (artemis.md 2.8)."""

from __future__ import annotations

from typing import Final

from entrepot.base.settings import Dialect
from entrepot.cluster.broker_connections.options import AmqpConnectionOptions
from entrepot.config.vocabulary import Does, Kind, Slot, obeyed, of_options

LATER: Final = "it is not built yet"

BROKER_CONNECTIONS: Final = Slot("broker-connections", ("broker-connections",))
BROKER_CONNECTION_KINDS: Final = [
    Kind(
        "broker-connections",
        Slot("amqp-connection", ("amqp-connection",), many=True),
        about="brokers and routers to which this one connects over AMQP; docs/amqp-connections.md",
    ),
    Kind(
        "amqp-connection",
        obeyed("uri:text"),
        of_options(AmqpConnectionOptions, dialect=Dialect.ARTEMIS),
        Slot("sender", ("amqp-link",), many=True),
        Slot("receiver", ("amqp-link",), many=True),
        Slot("peer", ("amqp-link",), many=True),
        Slot("mirror", does=Does.REFUSED, why=LATER, remedy="replicate the store: docs/replication.md"),
        Slot("federation", does=Does.REFUSED, why=LATER, remedy="write a <federation> over CORE: docs/federation.md"),
        Slot("bridge", does=Does.REFUSED, why=LATER, remedy="write <sender> and <receiver>, or a <bridge> over CORE"),
        about="a place that is dialled, and the links that it has",
    ),
    Kind(
        "amqp-link",
        obeyed("address-match:text queue-name:text"),
        about="a `sender`, a `receiver` or a `peer`: the queue that it means, or a pattern of addresses",
    ),
]
