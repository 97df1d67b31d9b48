"""The broker's log of what happens: counts all facts, and writes those that an operator should see. [C]"""

from __future__ import annotations

import logging
from typing import Final

from entrepot.base.environment import SECOND, Clock, Instant
from entrepot.core.events.facts import (
    BINDING_ADDED,
    BINDING_REMOVED,
    CONSUMER_SLOW,
    EVERY_KIND,
    JOB_REFUSED,
    LISTENER_FAILED,
    MESSAGE_DEAD,
    MESSAGE_DROPPED,
    MESSAGE_DUPLICATE,
    SPACE_FREE,
    SPACE_SHORT,
    Fact,
    Listener,
    ListenerFailed,
)

AGAIN_EVERY: Final = 10 * SECOND  # a producer that floods a full queue causes thousands of facts a second
LEVELS: Final = {
    CONSUMER_SLOW: logging.WARNING,
    JOB_REFUSED: logging.WARNING,
    SPACE_SHORT: logging.WARNING,
    SPACE_FREE: logging.INFO,
    MESSAGE_DEAD: logging.WARNING,
    MESSAGE_DROPPED: logging.WARNING,
    MESSAGE_DUPLICATE: logging.INFO,
    LISTENER_FAILED: logging.ERROR,
}
"""Kind -> level; all others are DEBUG."""
LINES_EACH: Final = {MESSAGE_DUPLICATE: 100}  # lines in `AGAIN_EVERY`, where each is about another message


class FactLog(Listener):
    """Logs at DEBUG all facts; at INFO and above each kind once in `AGAIN_EVERY`, with how many there were since."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(EVERY_KIND & ~(BINDING_ADDED | BINDING_REMOVED))  # they say what the queues' facts say
        self.counts: dict[str, int] = {}  # name of a kind -> how often it happened
        self.clock = clock
        self.log = logging.getLogger("entrepot.broker")
        self._written: dict[str, tuple[Instant, int]] = {}  # name -> when it was logged last, and the count then
        self._room: dict[str, int] = {}  # name -> lines that are left of `LINES_EACH`

    def heard(self, fact: Fact) -> None:
        """Count ``fact``, and log it at its level."""
        kind, name = int(fact.kind), fact.name
        count = self.counts.get(name, 0) + 1
        self.counts[name] = count
        level = LEVELS.get(kind, logging.DEBUG)
        if not self.log.isEnabledFor(level):
            return
        missed = 0
        if level > logging.DEBUG:
            now = self.clock.now()
            last, before = self._written.get(name, (now - AGAIN_EVERY, count - 1))
            if now - last < AGAIN_EVERY and not self._room.get(name, 0):
                return
            room = self._room.get(name, 0) if now - last < AGAIN_EVERY else LINES_EACH.get(kind, 1)
            self._room[name] = room - 1
            self._written[name] = (now, count)
            missed = count - before - 1
        told = " ".join(f"{key}={text}" for key, text in fact.details().items())
        if missed > 0:
            told += f" ({missed} more since it was said last)"
        error = fact.error if isinstance(fact, ListenerFailed) else None
        self.log.log(level, "%s %s %s", name, fact.subject(), told, exc_info=error)
