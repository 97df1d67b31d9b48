"""The commands that a STOMP client can send, as numbers: those of the standard, and those for ranges and stages. [C]"""

from __future__ import annotations

from typing import Final

NEED_MORE: Final = 0
SEND: Final = 1
ACK: Final = 2
NACK: Final = 3
SUBSCRIBE: Final = 4
UNSUBSCRIBE: Final = 5
BEGIN: Final = 6
COMMIT: Final = 7
ABORT: Final = 8
DISCONNECT: Final = 9
CONNECT: Final = 10
ATTACH: Final = 11
CLAIM: Final = 12
READ: Final = 13
SETTLE: Final = 14
RELEASE: Final = 15
STAGE: Final = 17
STAGED: Final = 18
DECIDE: Final = 19
PUBLISH: Final = 20
ABANDON: Final = 21
BROKERS: Final = 22
QUEUES: Final = 23
LARGE: Final = 16  # a SEND whose body is too long to hold: its headers are complete, its body follows in pieces

COMMANDS: Final[dict[bytes, int]] = {
    b"SEND": SEND,
    b"ACK": ACK,
    b"NACK": NACK,
    b"SUBSCRIBE": SUBSCRIBE,
    b"SUB": SUBSCRIBE,  # Classic matches these two by their beginning (classic.md 6.3)
    b"UNSUBSCRIBE": UNSUBSCRIBE,
    b"UNSUB": UNSUBSCRIBE,
    b"BEGIN": BEGIN,
    b"COMMIT": COMMIT,
    b"ABORT": ABORT,
    b"DISCONNECT": DISCONNECT,
    b"CONNECT": CONNECT,
    b"STOMP": CONNECT,
    b"ATTACH": ATTACH,
    b"CLAIM": CLAIM,
    b"READ": READ,
    b"SETTLE": SETTLE,
    b"RELEASE": RELEASE,
    b"STAGE": STAGE,
    b"STAGED": STAGED,
    b"DECIDE": DECIDE,
    b"PUBLISH": PUBLISH,
    b"ABANDON": ABANDON,
    b"BROKERS": BROKERS,
    b"QUEUES": QUEUES,
}
