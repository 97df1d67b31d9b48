"""What a client of AMQP is told of a refusal: one table from our errors to conditions (parts 2.8.15 to 2.8.18). [C]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    EntrepotError,
    Fault,
    InvalidDestination,
    InvalidSelector,
    LimitExceeded,
    MalformedFrame,
    ProtocolViolation,
    Refused,
    ShuttingDown,
    StorageError,
    StorageFull,
    SubscriptionInUse,
    TransactionError,
    TransactionRolledBack,
)
from entrepot.protocols.amqp.performatives import Error

INTERNAL: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED: Final = "amqp:unauthorized-access"
DECODE: Final = "amqp:decode-error"
LIMIT: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
LOCKED: Final = "amqp:resource-locked"
FAILED: Final = "amqp:precondition-failed"
DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_TOO_SMALL: Final = "amqp:frame-size-too-small"
REDIRECT: Final = "amqp:connection:redirect"
FORCED: Final = "amqp:connection:forced"
FRAMING: Final = "amqp:connection:framing-error"
UNATTACHED: Final = "amqp:session:unattached-handle"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
WINDOW: Final = "amqp:session:window-violation"
DETACH_FORCED: Final = "amqp:link:detach-forced"
TRANSFER_LIMIT: Final = "amqp:link:transfer-limit-exceeded"
SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
UNKNOWN_TRANSACTION: Final = "amqp:transaction:unknown-id"
ROLLED_BACK: Final = "amqp:transaction:rollback"

CONDITIONS: Final[Mapping[type[EntrepotError], str]] = {
    AccessDenied: UNAUTHORIZED,
    InvalidDestination: NOT_FOUND,
    InvalidSelector: INVALID_FIELD,
    AddressFull: LIMIT,
    SubscriptionInUse: LOCKED,
    TransactionRolledBack: ROLLED_BACK,
    TransactionError: ROLLED_BACK,
    ShuttingDown: FORCED,
    StorageFull: LIMIT,
    StorageError: INTERNAL,
    MalformedFrame: DECODE,
    LimitExceeded: LIMIT,
    ProtocolViolation: NOT_ALLOWED,
    Refused: FAILED,
    Fault: INTERNAL,
    EntrepotError: INTERNAL,
}
"""Error -> condition; one that is not named has that of the nearest class above it."""


class AmqpRefused(Refused):
    """A refusal for which AMQP has a condition of its own; no other language hears of it."""

    code = "ENT-3031"

    def __init__(self, message: str, condition: str, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.condition = condition
        self.info: dict[str, object] | None = None  # what else the peer is told


def condition_of(error: EntrepotError) -> str:
    """Return the condition under which a client hears of ``error``."""
    if isinstance(error, AmqpRefused):
        return error.condition
    for kind in type(error).__mro__:
        found = CONDITIONS.get(kind)
        if found is not None:
            return found
    return INTERNAL


def error_of(error: EntrepotError) -> Error:
    """Return what a client is told of ``error``."""
    said = Error(condition=condition_of(error), description=str(error))
    if isinstance(error, AmqpRefused):
        said.info = error.info
    return said
