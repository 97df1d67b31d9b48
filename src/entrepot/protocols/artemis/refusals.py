"""What a client of CORE is told of a refusal: one table from our errors to the codes of Artemis (artemis.md 5.2.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    BodyLost,
    DuplicateRejected,
    EntrepotError,
    InvalidDestination,
    InvalidSelector,
    Refused,
    ShuttingDown,
    StorageError,
    StorageFull,
    StoreLost,
    SubscriptionInUse,
    TimedOut,
    TransactionError,
    TransactionInDoubt,
    TransactionRolledBack,
)

INTERNAL: Final = 0
UNSUPPORTED: Final = 1
DISCONNECTED: Final = 4
IO_ERROR: Final = 6
NO_QUEUE: Final = 100
QUEUE_EXISTS: Final = 101
OBJECT_CLOSED: Final = 102
BAD_FILTER: Final = 103
ILLEGAL_STATE: Final = 104
SECURITY: Final = 105
NO_ADDRESS: Final = 106
INCOMPATIBLE: Final = 108
LARGE_BODY: Final = 110
ROLLED_BACK: Final = 111
SESSION_REJECTED: Final = 112
DUPLICATE_ID: Final = 113
DUPLICATE_METADATA: Final = 114
OUTCOME_UNKNOWN: Final = 115
OTHER_SUBSCRIPTION: Final = 118
REMOTE_DISCONNECT: Final = 119
ADDRESS_FULL: Final = 210
NOT_IMPLEMENTED: Final = 213
MAX_CONSUMERS: Final = 214
ROUTING_TYPE: Final = 215
BAD_CONFIGURATION: Final = 216
SHUT_DOWN: Final = 219
ROUTING: Final = 222
TIMED_OUT: Final = 223
GENERIC: Final = 999

XA_OK: Final = 0
XA_RMERR: Final = -3
XA_NOTA: Final = -4
XA_PROTO: Final = -6
XA_RMFAIL: Final = -7
XA_DUPID: Final = -8

CODES: Final[Mapping[type[EntrepotError], int]] = {
    InvalidSelector: BAD_FILTER,
    AccessDenied: SECURITY,
    InvalidDestination: NO_QUEUE,
    AddressFull: ADDRESS_FULL,
    SubscriptionInUse: MAX_CONSUMERS,
    DuplicateRejected: DUPLICATE_ID,
    TransactionInDoubt: OUTCOME_UNKNOWN,
    TransactionRolledBack: ROLLED_BACK,
    TransactionError: ILLEGAL_STATE,
    ShuttingDown: SHUT_DOWN,
    TimedOut: TIMED_OUT,
    BodyLost: LARGE_BODY,
    StorageFull: ADDRESS_FULL,
    StoreLost: DISCONNECTED,
    StorageError: IO_ERROR,
    Refused: GENERIC,
    EntrepotError: INTERNAL,
}
"""Error -> code; one that is not named has that of the nearest class above it."""


class CoreRefused(Refused):
    """A refusal for which Artemis has a code of its own; no other language hears of it."""

    code = "ENT-3029"

    def __init__(self, message: str, kind: int, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind


class BranchRefused(Refused):
    """A step of a distributed transaction that cannot be done; ``result`` is the code of the XA specification."""

    code = "ENT-3030"

    def __init__(self, message: str, result: int) -> None:
        super().__init__(message)
        self.result = result


def code_of(error: EntrepotError) -> int:
    """Return the code under which a client of CORE hears of ``error``."""
    if isinstance(error, CoreRefused):
        return error.kind
    for kind in type(error).__mro__:
        found = CODES.get(kind)
        if found is not None:
            return found
    return GENERIC
