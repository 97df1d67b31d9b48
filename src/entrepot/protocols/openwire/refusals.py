"""How refusals are said in Java: the class that a JMS client expects, and the codes of distributed transactions.

The names are those of ``javax.jms``: clients of ActiveMQ 5 load them, those of 6 translate them (classic.md 5.3).
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    EntrepotError,
    InvalidDestination,
    InvalidSelector,
    PeerError,
    Refused,
    StorageFull,
    TransactionError,
    TransactionRolledBack,
)
from entrepot.core.security.access import ADVISORIES
from entrepot.model.address import Destination as Address
from entrepot.protocols.openwire.commands import Destination, XATransactionId
from entrepot.protocols.openwire.elements import Throwable

XA_NOTA: Final = -4  # no such branch
XA_PROTO: Final = -6  # not in this state
XA_DUPID: Final = -8  # another one has this id
XA_RMFAIL: Final = -7  # nobody knows, or it is as it was: ask again
XA_RETRY: Final = 4  # it is prepared still: try to commit again
XA_ROLLED_BACK: Final = 101  # XA_RBCOMMFAIL: it was rolled back when it was to be committed


class BranchRefused(TransactionError):
    """A step of a distributed transaction that cannot be done; ``code`` of javax.transaction.xa.XAException."""

    code = "ENT-3014"

    def __init__(self, message: str, xa_code: int) -> None:
        super().__init__(message)
        self.xa_code: int = xa_code


class ClientIdInUse(TransactionError):
    """Another connection has this client id."""

    code = "ENT-3015"


class DestinationGone(InvalidDestination):
    """A temporary destination that is no more, or never was; ``name``: which one."""

    code = "ENT-3017"

    def __init__(self, name: str) -> None:
        super().__init__(f"the destination {name} does not exist")
        self.name: str = name


def throwable_of(error: EntrepotError) -> Throwable:
    """Return ``error`` as Java says it. ActiveMQ's client reads the code of an XAException from its text."""
    if isinstance(error, BranchRefused):
        return Throwable("javax.transaction.xa.XAException", f"{error.message} xaErrorCode:{error.xa_code}")
    if isinstance(error, DestinationGone):
        return Throwable(_class_of(error), error.name)  # Java makes a sentence of the name
    return Throwable(_class_of(error), str(error))


def _class_of(error: EntrepotError) -> str:
    if isinstance(error, ClientIdInUse):
        return "javax.jms.InvalidClientIDException"
    if isinstance(error, AccessDenied):
        return "java.lang.SecurityException"  # the client makes a JMSSecurityException of it, with this as its cause
    if isinstance(error, DestinationGone):
        return "org.apache.activemq.DestinationDoesNotExistException"
    if isinstance(error, InvalidDestination):
        return "javax.jms.InvalidDestinationException"
    if isinstance(error, InvalidSelector):
        return "javax.jms.InvalidSelectorException"
    if isinstance(error, (AddressFull, StorageFull)):
        return "javax.jms.ResourceAllocationException"
    if isinstance(error, TransactionRolledBack):
        return "javax.jms.TransactionRolledBackException"
    if isinstance(error, PeerError):
        return "java.io.IOException"
    return "javax.jms.JMSException"


def branch_key(identity: XATransactionId) -> bytes:
    """Return the octets that name a branch: format, length of the global id, global id, branch qualifier."""
    global_id = identity.global_transaction_id or b""
    head = int(identity.format_id).to_bytes(4, "big", signed=True) + len(global_id).to_bytes(4, "big")
    return head + global_id + (identity.branch_qualifier or b"")


def shown(destination: Destination, addresses: list[Address]) -> str:
    """Return how a refusal calls ``destination``: a composite as it was written, as in ActiveMQ."""
    return (destination.physical_name or "") if len(addresses) > 1 else ""


def check_count(kind: str, known: list[Destination | None], new: Destination | None, allowed: int) -> None:
    """Raise Refused when a connection may have no further ``kind``; advisories do not count (classic.md 8.2)."""
    if not _counts(new):
        return
    count = 0
    for one in known:
        if _counts(one):
            count += 1
    if count >= allowed:
        raise Refused(f"Can't add {kind} on connection: at maximum limit: {allowed}")


def _counts(where: Destination | None) -> bool:
    return where is None or not (where.physical_name or "").startswith(ADVISORIES)
