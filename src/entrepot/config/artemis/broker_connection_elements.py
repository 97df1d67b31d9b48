"""The elements of ``broker.xml`` about connections over AMQP, and what becomes of them here (artemis.md 2.8)."""

from __future__ import annotations

from typing import Final

from entrepot.base.settings import Dialect
from entrepot.cluster.broker_connections.options import AmqpConnectionOptions, MirrorOptions
from entrepot.config.artemis.transformer_elements import TRANSFORMER
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
        Slot("mirror", ("amqp-mirror",)),
        Slot("federation", ("amqp-federation",)),
        Slot("bridge", does=Does.REFUSED, why=LATER, remedy="write <sender> and <receiver>, or a <bridge> over CORE"),
        about="a place that is dialled, and the links that it has",
    ),
    Kind(
        "amqp-mirror",
        of_options(MirrorOptions, dialect=Dialect.ARTEMIS),
        Slot("property", ("amqp-property",), many=True),
        about="this broker mirrored into the other one: what is sent, what leaves its queues, and which there are",
    ),
    Kind(
        "amqp-federation",
        obeyed("name:text"),
        Slot("local-queue-policy", ("amqp-queue-policy",), many=True),
        Slot("remote-queue-policy", ("amqp-queue-policy",), many=True),
        Slot("local-address-policy", ("amqp-address-policy",), many=True),
        Slot("remote-address-policy", ("amqp-address-policy",), many=True),
        Slot("property", ("amqp-property",), many=True),
        about="what is fetched over the connection: `local` policies fetch from there to here, `remote` ones back",
    ),
    Kind(
        "amqp-queue-policy",
        obeyed("name:text priority-adjustment:number=-1 include-federated:flag=false"),
        obeyed("transformer-class-name:text"),
        Slot("include", ("federation-match",), many=True),
        Slot("exclude", ("federation-match",), many=True),
        Slot("property", ("amqp-property",), many=True),
        TRANSFORMER,
        about="a `local-queue-policy` or a `remote-queue-policy`: queues that are fetched from while they are read",
    ),
    Kind(
        "amqp-address-policy",
        obeyed("name:text auto-delete:flag=false auto-delete-delay:ms=0 auto-delete-message-count:number=0"),
        obeyed("max-hops:number=0 enable-divert-bindings:flag=false"),
        obeyed("transformer-class-name:text"),
        Slot("include", ("federation-match",), many=True),
        Slot("exclude", ("federation-match",), many=True),
        Slot("property", ("amqp-property",), many=True),
        TRANSFORMER,
        about="a `local-address-policy` or a `remote-address-policy`: addresses fetched from while a queue is bound",
    ),
    Kind(
        "amqp-property",
        obeyed("key:text value:text"),
        about="a property of a policy, of all, or of a mirror; docs/amqp-connections.md says which there are",
    ),
    Kind(
        "amqp-link",
        obeyed("address-match:text queue-name:text"),
        about="a `sender`, a `receiver` or a `peer`: the queue that it means, or a pattern of addresses",
    ),
]
