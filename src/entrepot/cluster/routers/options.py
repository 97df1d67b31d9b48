"""What a ``<connection-router>`` of Artemis may say, with its defaults (artemis.md 4.14)."""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.protocols.artemis.primitives import Connector


class KeyType(Enum):
    """What tells clients apart."""

    CLIENT_ID = "CLIENT_ID"
    SNI_HOST = "SNI_HOST"
    SOURCE_IP = "SOURCE_IP"
    USER_NAME = "USER_NAME"
    ROLE_NAME = "ROLE_NAME"


class PolicyKind(Enum):
    """How one of several brokers is chosen."""

    FIRST_ELEMENT = "FIRST_ELEMENT"
    ROUND_ROBIN = "ROUND_ROBIN"
    LEAST_CONNECTIONS = "LEAST_CONNECTIONS"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    CONSISTENT_HASH_MODULO = "CONSISTENT_HASH_MODULO"


class PolicyOptions(Struct, frozen=True, kw_only=True):
    """``modulo``: what hashes are taken by, 0 for none; ``threshold``: fewer connections than that count as none."""

    kind: PolicyKind
    modulo: int = 0
    threshold: int = 0


class CacheOptions(Struct, frozen=True, kw_only=True):
    """``timeout_ms``: since a key was last seen, 0 for ever; ``persisted``: over a restart."""

    persisted: bool = False
    timeout_ms: int = 0


class PoolOptions(Struct, frozen=True, kw_only=True):
    """The brokers to choose from: ``connectors``, who is heard in ``groups``, or the members of ``cluster``.

    ``local``: this broker is one of them. ``quorum``: with fewer that are ready nobody is served; ``quorum_ms``: how
    long a client waits for them.
    """

    user: str = ""
    password: str = ""
    check_ms: int = 5_000
    quorum: int = 1
    quorum_ms: int = 3_000
    local: bool = False
    connectors: tuple[Connector, ...] = ()
    groups: tuple[str, ...] = ()
    cluster: str = ""

    @property
    def period(self) -> Duration:
        """The time between two looks at a broker."""
        return max(self.check_ms, 1) * MILLISECOND


class RouterOptions(Struct, frozen=True, kw_only=True):
    """One router. ``key_filter``: what of a key counts; ``local_filter``: keys that are served here."""

    name: str
    key: KeyType = KeyType.SOURCE_IP
    key_filter: re.Pattern[str] | None = None
    local_filter: re.Pattern[str] | None = None
    policy: PolicyOptions | None = None
    cache: CacheOptions | None = None
    pool: PoolOptions | None = None
