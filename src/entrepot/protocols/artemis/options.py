"""The limits and habits of one listener of CORE. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB, MIB

VERSION_OLDEST: Final = 129  # Artemis 2.0: from here on names and messages travel as they do today
VERSION_NEWEST: Final = 136  # 2.37 and all later ones


class CoreOptions:
    """Octets for sizes, ms for times."""

    def __init__(self) -> None:
        self.frame_octets_max: i64 = 100 * MIB  # CORE has no limit of its own; larger bodies come in pieces
        self.connect_timeout_ms: i64 = 30_000  # until the first packet that only a client of CORE sends
        self.ttl_ms: i64 = 60_000  # of a connection, until its first PING says another one (connectionTTL)
        self.ttl_ms_min: i64 = -1  # connectionTtlMin; -1: none
        self.ttl_ms_max: i64 = -1  # connectionTtlMax; -1: none
        self.ttl_ms_always: i64 = -1  # connection-ttl-override; -1: the client's counts
        self.sessions_max: i64 = 2_000  # of one connection
        self.consumers_max: i64 = 20_000  # of one session
        self.producers_max: i64 = 20_000  # of one session, as it names them
        self.metadata_max: i64 = 50  # pairs of one session
        self.metadata_octets_max: i64 = 4 * KIB  # of one pair
        self.branches_max: i64 = 10_000  # begun and not prepared, of one user
        self.unconfirmed_octets_max: i64 = 64 * MIB  # written, kept for a replay, and not confirmed by the peer
        self.write_high_octets: i64 = 1 * MIB  # what may wait for a slow reader before its consumers pause
        self.anycast_prefixes: list[str] = []  # of addresses: cut off, and the rest is meant as ANYCAST
        self.multicast_prefixes: list[str] = []
        self.router: str = ""  # the connection router that says who serves a client
