"""Reading what catch-ups and comparisons ask for, away from the loop, and sending what came of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import EntrepotError
from entrepot.ha.catchup import CatchUp, Piece
from entrepot.ha.follower import Follower, Host, Stage
from entrepot.ha.mirror import Mirror
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import encode
from entrepot.journal.inspect import Damage

READING_MAX: Final = 4
"""Pieces that are read at a time for one replica: 1 MiB, so that the disk does not wait for the loop."""


class Pieces:
    """``then`` is told of each piece that was read for one of ``followers``, and why it cannot be, "" where it was."""

    def __init__(
        self,
        mirror: Mirror,
        host: Host,
        options: ReplicationOptions,
        followers: list[Follower],
        then: Callable[[Follower, str], None],
    ) -> None:
        self.mirror: Final = mirror
        self.host: Final = host
        self.options: Final = options
        self.followers: Final = followers
        self.then: Final = then

    @property
    def in_sync(self) -> list[Follower]:
        """Return the replicas that could take over."""
        return [each for each in self.followers if each.stage is Stage.IN_SYNC]

    def ask(self, follower: Follower, now: Instant) -> None:
        """Have pieces read, as many as are wanted under way, and files looked at that are in doubt."""
        catch_up = follower.catch_up
        for name in catch_up.to_examine(self.mirror.ends):
            self.host.examine(name, partial(self._examined, follower, catch_up, name))
        bandwidth = catch_up.bandwidth or self.options.bandwidth
        if bandwidth:
            follower.allowed = min(
                float(bandwidth), follower.allowed + bandwidth * (now - follower.allowed_at) / SECOND
            )
        follower.allowed_at = now
        while len(catch_up.reading) < READING_MAX and (not bandwidth or follower.allowed > 0):
            if follower.sent + catch_up.under_way() - follower.taken >= self.options.window:
                break
            piece = catch_up.next(self.mirror.ends)
            if piece is None:
                break
            if bandwidth:
                follower.allowed -= catch_up.price(piece)
            self.host.fetch(piece.name, piece.at, piece.length, partial(self._fetched, follower, piece))

    def _examined(self, follower: Follower, catch_up: CatchUp, name: str, damaged: list[Damage]) -> None:
        if follower in self.followers and follower.catch_up is catch_up:
            catch_up.examined(name, damaged)
            self.then(follower, "")

    def _fetched(self, follower: Follower, piece: Piece, found: bytes | EntrepotError) -> None:
        if follower not in self.followers:
            return
        catch_up, why = follower.catch_up, ""
        if isinstance(found, bytes):
            frame = catch_up.read(piece, found)
            if frame is not None:
                follower.send(encode(frame))
        elif not catch_up.missed(piece, no_file=isinstance(found.__cause__, FileNotFoundError)):
            why = f"what it lacks cannot be read: {found}"
        self.then(follower, why)
