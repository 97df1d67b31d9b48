"""Whose a queue is: with what it goes, and who alone may have it."""

from __future__ import annotations

import msgspec


class SubscriptionOwner(msgspec.Struct, frozen=True, tag="subscription"):
    """A durable subscription; ``shared`` says that several consumers may read it at a time."""

    client_id: str
    name: str
    shared: bool = False


class ConnectionOwner(msgspec.Struct, frozen=True, tag="connection"):
    """The connection that made a temporary queue; the queue is its own, and goes with it."""

    connection: str


class ReaderOwner(msgspec.Struct, frozen=True, tag="reader"):
    """The reader by lease for which alone a subscription was made; it goes when the reader gives its lease back."""

    group: str
    topic: str


Owner = SubscriptionOwner | ConnectionOwner | ReaderOwner


def connection_of(owner: Owner | None) -> str:
    """Return the connection that ``owner`` is; "" when it is none."""
    return owner.connection if isinstance(owner, ConnectionOwner) else ""
