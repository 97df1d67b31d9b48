"""Reasons that are no exceptions: why a message died, was dropped or was not taken. [C]

A reason has a code, a word that never changes its meaning, and a text for people. Programs and the broker itself decide
by the code; the text may be reworded at any time. `ABOUT` is the register: each code once, listed in
docs/reference/errors.md. A code that was in a release stays in it.
"""

from __future__ import annotations

from typing import Final

EXPIRED: Final = "expired"
TRIES_USED_UP: Final = "tries-used-up"
REJECTED: Final = "rejected"
POISON: Final = "poison"
UNSENDABLE: Final = "unsendable"
PEER_REFUSED: Final = "peer-refused"
GIVEN_UP: Final = "given-up"
BODY_LOST: Final = "body-lost"
FULL: Final = "full"
READER_BEHIND: Final = "reader-behind"
TOO_MANY_REQUESTS: Final = "too-many-requests"
SAME_DUPLICATE_ID: Final = "same-duplicate-id"
SENT_AGAIN: Final = "sent-again"
SAME_ID: Final = "same-id"
SAME_COPY: Final = "same-copy"

ABOUT: Final = {
    EXPIRED: "its time to live is over",
    TRIES_USED_UP: "it was delivered as often as the policy permits and never acknowledged",
    REJECTED: "a consumer rejected it (STOMP NACK)",
    POISON: "a consumer cannot process it (OpenWire poison acknowledgement)",
    UNSENDABLE: "it cannot be written in the protocol of its consumer",
    PEER_REFUSED: "another broker refused it for good",
    GIVEN_UP: "an operator gave it up",
    BODY_LOST: "its large body is missing or damaged",
    FULL: "its queue is full and the policy says to drop",
    READER_BEHIND: "its topic subscriber is too far behind",
    TOO_MANY_REQUESTS: "more requests wait to be answered than are kept",
    SAME_DUPLICATE_ID: "its sender gave it a duplicate id that came before",
    SENT_AGAIN: "its producer sent it again after a failover",
    SAME_ID: "another broker sent a message with this id again (auditNetworkProducers)",
    SAME_COPY: "another broker sent the same copy again",
}
"""Code -> what it says, for people."""

OBJECTIONS: Final = {
    "bridge-busy": "a bridge has as much under way as it may, or its broker does not read",
    "bridge-down": "the bridge is not connected to its broker",
    "bridge-rule": "a rule of a bridge does not let it cross",
    "no-credit": "the consumer gave no credit",
    "drained": "a drain may have given it to another node of the cluster already, and does not know it",
    "lease": "the consumer reads by lease: it claims, nothing is dispatched to it",
    "no-local": "the consumer wants no messages of its own connection",
    "not-moved": "a consumer here would take it, or none of another node of the cluster would",
    "not-reading": "the consumer does not read from its connection",
    "path": "it was at that broker already",
    "prefetch": "the consumer holds as many unsettled messages as its prefetch",
    "replay-waits": "it may go back over a bridge later",
    "replay-wanted-here": "it may not go back over a bridge because a consumer here wants it",
    "selector": "the selector of the consumer does not match",
    "served-elsewhere": "another bridge serves the readers on the other side",
    "ttl": "it came through as many brokers as it may",
}
"""Code -> why a consumer does not take a message (`core/queue/consumer.py`), as `entrepot explain` shows it."""


class Reason:
    """Why something happened to a message."""

    def __init__(self, code: str, text: str = "") -> None:
        self.code: str = code
        self.text: str = text or ABOUT[code]


def tries_used_up(deliveries: int) -> Reason:
    """Return the reason of a message that was delivered ``deliveries`` times, as often as its policy permits."""
    return Reason(TRIES_USED_UP, f"delivered {deliveries} times without acknowledgement")
