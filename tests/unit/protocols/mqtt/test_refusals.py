"""Errors as reason codes of MQTT 5 (2.4): the nearest that the specification has."""

from __future__ import annotations

import pytest

from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    EntrepotError,
    InvalidDestination,
    LimitExceeded,
    MalformedFrame,
    ProtocolViolation,
    Refused,
    ShuttingDown,
    StorageError,
    UserUnknown,
)
from entrepot.protocols.mqtt.refusals import reason_of


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UserUnknown, 0x86),
        (AccessDenied, 0x87),
        (AddressFull, 0x97),
        (InvalidDestination, 0x8F),
        (ShuttingDown, 0x8B),
        (MalformedFrame, 0x81),
        (LimitExceeded, 0x95),
        (ProtocolViolation, 0x82),
        (StorageError, 0x88),
        (Refused, 0x80),
        (EntrepotError, 0x83),
    ],
)
def test_each_error_has_a_reason_code(kind: type[EntrepotError], code: int) -> None:
    assert reason_of(kind("x")) == code
