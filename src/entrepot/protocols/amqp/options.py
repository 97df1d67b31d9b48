"""The limits and habits of one listener of AMQP. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB, MIB

ANONYMOUS: Final = "ANONYMOUS"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
MECHANISMS: Final = (PLAIN, ANONYMOUS)


class AmqpOptions:
    """Octets for sizes, ms for times."""

    def __init__(self) -> None:
        self.frame_octets_max: i64 = 128 * KIB  # maxFrameSize: of a frame, as the peer is told
        self.message_octets_max: i64 = 100 * MIB  # of one that cannot be streamed to disk
        self.large_octets: i64 = 100 * KIB  # amqpMinLargeMessageSize; -1: bodies are not streamed
        self.connect_timeout_ms: i64 = 30_000  # until OPEN
        self.idle_ms: i64 = 60_000  # amqpIdleTimeout: of silence; the peer is told half of it; 0: any
        self.channel_max: i64 = 1_023
        self.handle_max: i64 = 4_095  # links of one session
        self.credit: i64 = 1_000  # amqpCredits: messages that a peer may send before it hears more
        self.credit_low: i64 = 300  # amqpLowCredits: at which it hears more
        self.readers_max: i64 = 20_000  # links by which one connection reads
        self.transformer: str = "jms"  # how others are shown what came here; Classic's transport.transformer
        self.transactions_max: i64 = 1_000  # of one connection
        self.write_high_octets: i64 = 1 * MIB  # what may wait for a slow reader before its links pause
        self.plain_start: bool = True  # a client may do without SASL (allowNonSaslConnections)
        self.mechanisms: list[str] = list(MECHANISMS)  # saslMechanisms
        self.router: str = ""  # the connection router that says who serves a client
        self.anycast_prefixes: list[str] = []
        self.multicast_prefixes: list[str] = []
