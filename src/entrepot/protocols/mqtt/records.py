"""Sessions of MQTT as the journal keeps them. Not compiled: msgspec reads the types of fields from the source."""

from __future__ import annotations

import msgspec


class WillRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A will as the journal keeps it; ``raw`` and ``body_at`` as of a message."""

    topic: str
    raw: bytes
    body_at: int
    qos: int
    retain: bool
    expiry: int = 0  # s, 0: never
    delay: int = 0  # s


class SessionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A session as the journal keeps it. ``filters``: filter, options, identifier; ``ended``: ms, 0: connected."""

    user: str
    version: int
    expiry: int
    ended: int = 0
    filters: tuple[tuple[str, int, int], ...] = ()
    will: WillRecord | None = None
    virtual: bool = False  # names as those of Classic's virtual topics
