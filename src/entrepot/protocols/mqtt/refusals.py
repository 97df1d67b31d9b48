"""How MQTT says no: the reason of what went wrong, and the connection that says it. [C]"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    EntrepotError,
    InvalidDestination,
    LimitExceeded,
    MalformedFrame,
    ProtocolViolation,
    ShuttingDown,
    StorageError,
    UserUnknown,
)
from entrepot.core.broker import BrokerCore
from entrepot.protocols.mqtt.schema import (
    IMPLEMENTATION,
    MALFORMED,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    QUOTA,
    SHUTTING_DOWN,
    TOO_LARGE,
    UNAVAILABLE,
    UNSPECIFIED,
    WRONG_FILTER,
    WRONG_PASSWORD,
)
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.session import Shell


@mypyc_attr(allow_interpreted_subclasses=True)
class Connected(ServerSession):
    """A connection of MQTT as its parts know it. ``reason``: the code that `fail` is about to say; 0: its error's.

    ``explains``: it wants to be told why. ``packet_max``: the octets of the longest packet that it takes.
    """

    def __init__(
        self, shell: Shell, broker: BrokerCore, number: i64, peer: str, high: i64, connect_timeout_ms: i64
    ) -> None:
        super().__init__(shell, broker, number, peer, high, connect_timeout_ms)
        self.reason: i64 = 0
        self.explains: bool = True  # Request Problem Information
        self.packet_max: i64 = 1 << 40  # Maximum Packet Size; no packet is as long as that

    def say_why(self, bare: bytes, explained: bytes) -> None:
        """Write a packet, with its reason if that is wanted and has room (5: 3.1.2.11.4, 3.1.2.11.7)."""
        self.say(explained if self.explains and len(explained) <= self.packet_max else bare)

    def say(self, octets: bytes) -> None:
        """Write a packet."""
        self.outlet.out.write(octets)
        self.outlet.note()


def broken(session: Connected, reason: i64, text: str) -> ProtocolViolation:
    """Return the error to raise for a packet that breaks a rule which has a reason code of its own."""
    session.reason = reason
    return ProtocolViolation(text)


def reason_of(error: EntrepotError) -> i64:
    """Return the reason code of ``error`` (5: 2.4)."""
    if isinstance(error, UserUnknown):
        return WRONG_PASSWORD
    if isinstance(error, AccessDenied):
        return NOT_AUTHORIZED
    if isinstance(error, AddressFull):
        return QUOTA
    if isinstance(error, InvalidDestination):
        return WRONG_FILTER
    if isinstance(error, ShuttingDown):
        return SHUTTING_DOWN
    if isinstance(error, MalformedFrame):
        return MALFORMED
    if isinstance(error, LimitExceeded):
        return TOO_LARGE
    if isinstance(error, ProtocolViolation):
        return PROTOCOL_ERROR
    if isinstance(error, StorageError):
        return UNAVAILABLE
    return IMPLEMENTATION if type(error) is EntrepotError else UNSPECIFIED
