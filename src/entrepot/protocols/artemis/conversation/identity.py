"""Who a connection is, what it was told to want, and its time. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB, MIB, Entropy, Instant, WallTime
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.client import TTL_MS

CONSUMER_WINDOW: Final = MIB  # of Artemis' clients, octets
PRODUCER_WINDOW: Final = 64 * KIB
LARGE_FROM: Final = 100 * KIB  # minLargeMessageSize


class Windows:
    """The options of a URL that are CORE's own; octets and ms."""

    def __init__(
        self,
        consumer: int = CONSUMER_WINDOW,
        producer: int = PRODUCER_WINDOW,
        large_from: int = LARGE_FROM,
        ttl_ms: int = TTL_MS,
        confirmation: int = -1,
    ) -> None:
        """``consumer`` -1: without bound; ``producer`` -1: send without asking; ``confirmation`` -1: no reattaching."""
        self.consumer: i64 = consumer
        self.producer: i64 = producer
        self.large_from: i64 = large_from
        self.ttl_ms: i64 = ttl_ms
        self.confirmation: i64 = confirmation


class Identity:
    """What the parts of a conversation share."""

    def __init__(
        self,
        name: str,
        client_id: str,
        user: str | None,
        password: str | None,
        entropy: Entropy,
        windows: Windows,
        *,
        reconnects: bool,
    ) -> None:
        self.name: str = name
        self.client_id: str = client_id
        self.user: str | None = user
        self.password: str | None = password
        self.windows: Windows = windows
        self.reconnects: bool = reconnects
        self.instant: Instant = 0
        self.wall_time: WallTime = 0
        self._entropy: Entropy = entropy
        self._start: bytes = entropy.token(8)
        self._messages: i64 = 0

    def now(self) -> Instant:
        """Return the time of this turn."""
        return self.instant

    def wall(self) -> WallTime:
        """Return the time of this turn, ms since 1970."""
        return self.wall_time

    def unique(self) -> str:
        """Return a name that nobody has."""
        return uuid_text(self._entropy.token(UUID_OCTETS))

    def user_id(self) -> bytes:
        """Return the id of the next message, 16 octets."""
        self._messages += 1
        return self._start + int(self._messages).to_bytes(8, "big")
