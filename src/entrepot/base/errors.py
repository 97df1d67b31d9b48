"""Every exception of entrepot, in one tree that says whose fault it is, with codes that never change.

The shell needs to know only the branch: tell the peer and close (`PeerError`), tell the peer and go on (`Refused`),
tell the operator (`OperatorError`), or it is our own bug (`Fault`).
Codes are ``ENT-`` and four digits: 1xxx peers, 2xxx operators, 3xxx refusals, 4xxx storage, 9xxx faults.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

E = TypeVar("E", bound="EntrepotError")


class EntrepotError(Exception):
    """Root of the tree. ``code`` is stable; ``remedy`` says what to do next, for people."""

    code: ClassVar[str] = "ENT-9000"

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


def kinds(kind: type[E]) -> dict[str, type[E]]:
    """Return code -> class of ``kind`` and all below it: for who is told a code and raises what it stands for."""
    found = {kind.code: kind}
    for child in kind.__subclasses__():
        found.update(kinds(child))
    return found


class PeerError(EntrepotError):
    """The peer broke its protocol. Answer with the message, then close this connection and no other."""

    code = "ENT-1000"


class MalformedFrame(PeerError):
    """Bytes that are not a frame of this protocol."""

    code = "ENT-1001"


class LimitExceeded(PeerError):
    """A frame, header or count larger than this connector permits."""

    code = "ENT-1002"


class ProtocolViolation(PeerError):
    """A frame that is well formed but may not come now."""

    code = "ENT-1003"


class Refused(EntrepotError):
    """A request that is understood and not granted; the connection lives on. ``retriable``: the same may work later."""

    code = "ENT-3000"
    retriable: ClassVar[bool] = False


class InvalidSelector(Refused):
    """The text of a selector is not in the grammar."""

    code = "ENT-3001"


class InvalidDestination(Refused):
    """The name cannot be used as a destination, or does not exist and may not be created."""

    code = "ENT-3002"


class AccessDenied(Refused):
    """This subject may not do that there."""

    code = "ENT-3003"


class AddressFull(Refused):
    """A memory or store limit was reached and the policy says to fail rather than to wait."""

    code = "ENT-3004"
    retriable = True


class SubscriptionInUse(Refused):
    """A durable subscription, client id or exclusive resource that another connection holds."""

    code = "ENT-3005"


class TransactionError(Refused):
    """No such transaction, or it can no longer commit."""

    code = "ENT-3006"


class DuplicateRejected(Refused):
    """A duplicate id inside a transaction: the transaction rolls back."""

    code = "ENT-3007"


class LeaseError(Refused):
    """A lease operation out of turn: stale epoch, range below the base or beyond the ledger, no such lease."""

    code = "ENT-3008"


class LeaseOver(LeaseError):
    """The epoch is not the current one, because another reader attached; or the lease went with its queue."""

    code = "ENT-3028"


class Inexpressible(Refused):
    """A message or value that the protocol of the receiver has no form for, or none that is long enough."""

    code = "ENT-3009"


class InvalidSchedule(Refused):
    """A cron text that is not in the grammar, or names a day that never comes."""

    code = "ENT-3010"


class TransactionRolledBack(TransactionError):
    """The transaction did not commit: what it consumed comes again, repeat the rest. See `TransactionInDoubt`, too."""

    code = "ENT-3011"


class TransactionInDoubt(TransactionRolledBack):
    """Nobody can say whether the transaction committed: the broker was lost while it was asked to.

    Most often it did. Who repeats it without looking may do its work twice; what it consumed comes again only if it did
    not. A `TransactionRolledBack`, because programs written before there was this class take it for that.
    """

    code = "ENT-3027"


class TimedOut(Refused):
    """The time that the caller gave was not enough; the same may work later."""

    code = "ENT-3012"
    retriable = True


class ShuttingDown(Refused):
    """The broker stops, or an operator ends the connection."""

    code = "ENT-3013"
    retriable = True


class StageError(Refused):
    """A staged commit out of turn: a part that is not here or was decided against, a batch older than is remembered."""

    code = "ENT-3026"


class UserUnknown(AccessDenied):
    """Who this claims to be is not known, or the password is wrong."""

    code = "ENT-3016"


class ForeignRequest(AccessDenied):
    """A request over HTTP that another site's page made with the name of who looks at it."""

    code = "ENT-3037"


class OperatorError(EntrepotError):
    """A configuration or an environment that cannot work; ``file`` and ``line`` say where when it came from a file."""

    code = "ENT-2000"

    def __init__(self, message: str, *, remedy: str = "", file: str = "", line: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.file = file
        self.line = line

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return where + super().__str__()


class InvalidOption(OperatorError):
    """An option that does not exist or a value outside its range."""

    code = "ENT-2001"


class InvalidURI(OperatorError):
    """A URI that cannot be read."""

    code = "ENT-2002"


class AddressInUse(OperatorError):
    """A port that something else listens on."""

    code = "ENT-2003"


class StoreLocked(OperatorError):
    """The data directory belongs to a running broker."""

    code = "ENT-2004"


class StoreUnusable(OperatorError):
    """The data directory cannot be read or written."""

    code = "ENT-2005"


class Unreachable(OperatorError):
    """Nobody answers where a broker should be, or the connection to it broke."""

    code = "ENT-2006"


class InvalidConfiguration(OperatorError):
    """A configuration file that cannot be read, or that asks for what this broker cannot do."""

    code = "ENT-2007"


class StorageError(EntrepotError):
    """The journal could not do what was promised."""

    code = "ENT-4000"


class CorruptJournal(StorageError):
    """A record in the middle of the journal fails its checksum. Never skipped: the operator decides."""

    code = "ENT-4001"


class StorageFull(StorageError):
    """No space left: nothing is confirmed. What was under way to the disk may be stored once there is some."""

    code = "ENT-4002"


class BodyLost(StorageError):
    """A large body is missing, too short, fails a checksum or cannot be read: its message can never be whole again."""

    code = "ENT-4004"


class StoreLost(StorageError):
    """This broker is no longer the master of its store: whoever asked must ask the one that is now."""

    code = "ENT-4003"


class Fault(EntrepotError):
    """Our own bug: an invariant does not hold."""

    code = "ENT-9001"
