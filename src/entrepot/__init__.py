"""entrepot: a message broker cluster that does what ActiveMQ Classic and Artemis do, in one program.

``import entrepot`` is cheap: what it offers is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entrepot.base.errors import (
        AccessDenied,
        AddressFull,
        EntrepotError,
        Inexpressible,
        InvalidDestination,
        InvalidOption,
        InvalidSelector,
        InvalidURI,
        Refused,
        SubscriptionInUse,
        TimedOut,
        TransactionError,
        TransactionInDoubt,
        TransactionRolledBack,
        Unreachable,
    )
    from entrepot.client import blocking
    from entrepot.client.connection import Connection, connect
    from entrepot.client.message import Message, Received
    from entrepot.embedded import Broker
    from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
    from entrepot.protocols.conversing.xid import Xid

__all__ = [
    "AccessDenied",
    "Acknowledge",
    "AddressFull",
    "Broker",
    "Connection",
    "EntrepotError",
    "Inexpressible",
    "InvalidDestination",
    "InvalidOption",
    "InvalidSelector",
    "InvalidURI",
    "Message",
    "Received",
    "RedeliveryPolicy",
    "Refused",
    "SubscriptionInUse",
    "TimedOut",
    "TransactionError",
    "TransactionInDoubt",
    "TransactionRolledBack",
    "Unreachable",
    "Xid",
    "__version__",
    "blocking",
    "connect",
]

__version__ = "0.1.0"

_HOMES = {
    "Acknowledge": "entrepot.protocols.conversing.modes",
    "Broker": "entrepot.embedded",
    "Connection": "entrepot.client.connection",
    "Message": "entrepot.client.message",
    "Received": "entrepot.client.message",
    "RedeliveryPolicy": "entrepot.protocols.conversing.modes",
    "Xid": "entrepot.protocols.conversing.xid",
    "blocking": "entrepot.client.blocking",
    "connect": "entrepot.client.connection",
}
_HOMES.update(
    dict.fromkeys(
        (
            "AccessDenied",
            "AddressFull",
            "EntrepotError",
            "Inexpressible",
            "InvalidDestination",
            "InvalidOption",
            "InvalidSelector",
            "InvalidURI",
            "Refused",
            "SubscriptionInUse",
            "TimedOut",
            "TransactionError",
            "TransactionInDoubt",
            "TransactionRolledBack",
            "Unreachable",
        ),
        "entrepot.base.errors",
    )
)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'entrepot' has no attribute {name!r}")
    module = importlib.import_module(home)
    value: object = module if home.endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
