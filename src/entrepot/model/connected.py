"""Who is connected, as operators see it: connections, and the sessions on them."""

from __future__ import annotations

import msgspec


class SessionView(msgspec.Struct, frozen=True):
    """One session of a connection; protocols without any have one that is called like the connection.

    ``producers``: the addresses of those that are open, "" for one that names none; by what its session calls it.
    """

    id: str
    connection: str
    user: str
    client_id: str
    consumers: int
    producers: dict[str, str]
    opened: int


class ConnectionView(msgspec.Struct, frozen=True):
    """One open connection: ``peer`` and ``local`` are its two ends. ``opened`` in ms since 1970."""

    id: str
    peer: str
    local: str
    protocol: str
    client_id: str
    users: str
    opened: int
    sessions: list[SessionView]
