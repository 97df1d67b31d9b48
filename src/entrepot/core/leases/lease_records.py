"""What the journal keeps of leases (`core/leases/lease.py`): one document for each lease, one for each claim.

A third kind says what of a claim is lost (`core/leases/lost.py`).
"""

from __future__ import annotations

from typing import Final

import msgspec

LOST_BLOCK: Final = 1024
"""Positions of one document of those that are lost: 128 octets of bits, written anew for each READ that finds some."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """What the journal keeps of a lease itself."""

    queue: int
    group: str
    epoch: int
    base: int
    selector: str = ""
    after: int = 0
    since: int = 0
    fresh: bool = False
    until: int = 0


class ClaimRecord(msgspec.Struct, frozen=True):
    """What the journal keeps of one claim: the numbers of the messages at positions ``start``, ``start`` + 1, ...

    ``made``: when, ms since 1970; 0 in records of brokers that did not note it.
    """

    queue: int
    group: str
    start: int
    numbers: list[int]
    made: int = 0


class LostRecord(msgspec.Struct, frozen=True):
    """Which of the `LOST_BLOCK` positions from ``start`` on a reader was shown without a body.

    ``bits``: the lowest bit of the last octet is ``start``.
    """

    queue: int
    group: str
    start: int
    bits: bytes


def encode(record: LeaseRecord | ClaimRecord | LostRecord) -> bytes:
    """Return the octets of a document."""
    return msgspec.msgpack.encode(record)


def decode_lease(value: bytes) -> LeaseRecord:
    """Read a document of KIND_LEASE."""
    return msgspec.msgpack.decode(value, type=LeaseRecord)


def decode_claim(value: bytes) -> ClaimRecord:
    """Read a document of KIND_CLAIM."""
    return msgspec.msgpack.decode(value, type=ClaimRecord)


def decode_lost(value: bytes) -> LostRecord:
    """Read a document of KIND_LOST."""
    return msgspec.msgpack.decode(value, type=LostRecord)


def lease_key(queue: int, group: str) -> bytes:
    """Return the key of a lease on the queue with this identity."""
    return queue.to_bytes(4, "big") + group.encode()


def claim_key(queue: int, group: str, start: int) -> bytes:
    """Return the key of one claim."""
    return lease_key(queue, group) + b"\0" + start.to_bytes(8, "big")


def lost_key(queue: int, group: str, start: int) -> bytes:
    """Return the key of what is lost among the positions from ``start`` on."""
    return claim_key(queue, group, start)
