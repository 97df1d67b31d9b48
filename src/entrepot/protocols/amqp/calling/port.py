"""Who hears what happens on a connection of AMQP that this broker dialled. [C]"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class CallerPort:
    """Called while a chunk is being read. Nothing comes after `lost`."""

    def opened(self) -> None:
        """The connection and its session are open: links may be attached."""

    def heard(self) -> None:
        """The peer said something."""

    def waits(self, busy: bool) -> None:
        """The session takes no frames of messages (True), or does again."""

    def streams(self, busy: bool) -> None:
        """A message goes out part by part (True), and nothing may come between; its last part went (False)."""

    def writable(self, ready: bool) -> None:
        """The peer does not read fast enough (False), or does again."""

    def accepted(self, number: i64) -> None:
        """The peer has the message of confirmation ``number``."""

    def rejected(self, number: i64, condition: str, why: str) -> None:
        """The peer does not take this message; ``condition``: a word of the standard, "" where it has none to say."""

    def returned(self, number: i64, failed: bool) -> None:
        """The peer gives it back; ``failed``: it tried to deliver it."""

    def lost(self, why: str) -> None:
        """The connection is gone, or of no use any more. Comes once."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkOwner:
    """Who hears what happens to one link."""

    def attached(self) -> None:
        """The peer has the other end of it."""

    def granted(self, credit: i64) -> None:
        """The peer takes so many messages over it now."""

    def ended(self, why: str) -> None:
        """It is gone; "" when that was asked for here. Comes once, unless the connection is lost before."""
