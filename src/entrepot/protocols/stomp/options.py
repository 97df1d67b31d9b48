"""The limits and habits of one STOMP connector. [C]

Defaults are Classic's (classic.md 6.3) unless a comment says why not. Compiled because a reader looks at its limits for
every header line.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB, MIB

SERVER_MIN_HEARTBEAT_MS: Final = 500  # Artemis' floor: faster beats only burn both sides (artemis.md 5.3)


class StompOptions:
    """Octets for sizes, ms for times."""

    def __init__(self) -> None:
        self.frame_octets_max: i64 = 100 * MIB  # maxDataLength; a larger body needs wireFormat.maxFrameSize raised
        self.command_octets_max: i64 = 1024
        self.line_octets_max: i64 = 10 * KIB
        self.headers_max: i64 = 1000
        self.large_octets: i64 = 1 * MIB  # bodies from here on are streamed to and from disk
        self.heartbeat_send_ms: i64 = 0  # what the client may ask us to send; 0: as often as it likes, within the floor
        self.heartbeat_receive_ms: i64 = 0
        self.heartbeat_default: str = "0,0"  # taken for a client that does not say
        self.heartbeat_grace: float = 2.0  # hbGracePeriodMultiplier; Classic's 1.0 cuts off honest peers
        self.ttl_ms: i64 = 0  # connection-ttl-override: of silence, where no heart-beats are agreed on; 0: any
        self.connect_timeout_ms: i64 = 30_000
        self.transactions_max: i64 = 1000  # open at once on one connection
        self.link_stealing: bool = False  # allowLinkStealing: who comes with a client id in use takes it over
        self.router: str = ""  # the connection router that says who serves a client
        self.subscriptions_max: i64 = 100_000
        self.write_high_octets: i64 = 1 * MIB  # what may wait for a slow reader before its subscriptions pause
