"""The octets that a consumer may still be sent (artemis.md 5.2.8). [C]

With a window, half of it is asked for again whenever half of it was handed out. Without one, a pull asks for one
message: by one octet, because a server sends as long as there is some credit and then takes off all that it sent. That
is made good with the next pull, to the octet and without setting the credit anew in between: a real server takes off
what it sent only when that is on its way, and would take it off the new credit.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.protocols.artemis.conversation.owner import Owner
from entrepot.protocols.artemis.packets import FlowToken


class Window:
    """The credit of one consumer. ``octets``: its window; 0: pulls; -1: no limit."""

    def __init__(self, session: Owner, consumer: i64, octets: i64) -> None:
        self.session: Owner = session
        self.consumer: i64 = consumer
        self.octets: i64 = octets
        self.owed: i64 = 0  # to be given again: half a window, or with the next pull
        self.opened: bool = False  # the server has the consumer
        self.pulled: bool = False  # a pull is in force
        self.unknown: bool = False  # what the server has left of pulls is not known

    def open(self) -> None:
        """The server has the consumer, without any credit."""
        self.opened = True
        if self.octets != 0:
            self._give(self.octets)
        elif self.pulled:
            self._give(1)

    def lost(self, unseen: bool) -> None:
        """The server forgot the credit. A pull in force, or whose message nobody saw (``unseen``), is said again."""
        self.opened = False
        self.owed = 0
        self.unknown = False
        self.pulled = self.pulled or (unseen and self.octets == 0)

    def handed(self, octets: i64) -> None:
        """A message of so many octets was handed out or dropped; without a window `came` has counted it."""
        if self.octets <= 0 or octets == 0:
            return
        self.owed += octets
        if 2 * self.owed >= self.octets:
            self._give(self.owed)
            self.owed = 0

    def piece(self, octets: i64) -> None:
        """A part of a large message came, and not the last: the next one could be above the window."""
        if self.octets == 0:
            self._give(octets)
        else:
            self.handed(octets)

    def came(self, octets: i64) -> bool:
        """A message is complete, whose last frame has ``octets``; return whether it answers a pull."""
        if self.octets != 0:
            return False
        if not self.pulled:
            self.unknown = True  # it was on its way when the pull was revoked: taken off before that, or behind it
            return False
        self.pulled = False
        self.owed += octets - 1
        return True

    def cut(self) -> None:
        """A large message ended before its last part."""
        if self.octets == 0:
            self.pulled = False
            self.unknown = True

    def pull(self) -> None:
        """Let the server send one message, whatever the size of the last one was."""
        if self.pulled:
            return
        self.pulled = True
        if self.unknown:
            self.unknown = False
            self.owed = 0
            self._give(0)
        self._give(self.owed + 1)
        self.owed = 0

    def revoke(self) -> None:
        """The pull is over, and nothing came."""
        self.pulled = False
        self._give(0)

    def _give(self, octets: i64) -> None:
        if self.opened:
            self.session.requests.post(FlowToken(consumer=self.consumer, credits=octets))
