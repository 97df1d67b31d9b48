"""Who serves a client that comes: this broker, or another one. The question of connections, and what they are told. [C]

A listener may name a *guide* (the connection routers of Artemis, artemis.md 4.14): it is asked once of each connection,
when it is known who comes, and before anything is done for him.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

HERE: Final = 0  # this broker serves him
THERE: Final = 1  # another one does
REFUSED: Final = 2  # nobody does: another broker may
UNREADY: Final = 3  # nobody does now: too few brokers are there
LATER: Final = 4  # it is not known yet: ask again at ``again``


class Visitor:
    """Somebody who comes. ``peer``: where from, ``host:port``; ``since``: when he was asked about first, ns."""

    def __init__(self, peer: str, server_name: str, client_id: str, user: str, groups: list[str], since: i64) -> None:
        self.peer: str = peer
        self.server_name: str = server_name
        self.client_id: str = client_id
        self.user: str = user
        self.groups: list[str] = groups
        self.since: i64 = since


class Guidance:
    """Where a visitor is served. ``node``, ``host``, ``port`` and ``options`` of the other broker, for THERE."""

    def __init__(self, verdict: int, why: str = "") -> None:
        self.verdict: int = verdict
        self.why: str = why
        self.again: i64 = 0
        self.node: str = ""
        self.host: str = ""
        self.port: int = 0
        self.options: dict[str, str] = {}


@mypyc_attr(allow_interpreted_subclasses=True)
class Guides:
    """The guides of one broker, by name; this one has none."""

    def ask(self, name: str, visitor: Visitor) -> Guidance:
        """Return who serves ``visitor``. A guide that is not there refuses: a client must not come in by a mistake."""
        return Guidance(REFUSED, f"this broker has no connection router {name!r}")
