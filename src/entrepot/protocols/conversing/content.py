"""What a message says and how it travels, between a program and the wire that carries it. [C]

A body is a ``Body`` of `bodies`; here it is an ``object``: programs give what they like, and the wire refuses it.
"""

from __future__ import annotations


class Headers:
    """What a program may say about a message, besides its properties. Destinations are texts, ``queue://A``."""

    def __init__(
        self,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        group: str | None = None,
        group_sequence: int = 0,
    ) -> None:
        """``group_sequence``: -1 ends the group (classic.md 4.4)."""
        self.correlation_id: str | None = correlation_id
        self.reply_to: str | None = reply_to
        self.type: str | None = type
        self.group: str | None = group
        self.group_sequence: int = group_sequence


class Outgoing:
    """A message to send. ``timestamp`` and ``expiration`` are ms since 1970, 0 for none."""

    def __init__(
        self,
        body: object,
        properties: dict[str, object] | None = None,
        headers: Headers | None = None,
        destination: str = "",
        persistent: bool = True,
        priority: int = 4,
        timestamp: int = 0,
        expiration: int = 0,
        compress: bool = False,
    ) -> None:
        """``destination``: as programs write it, checked; "" is that of the producer."""
        self.body: object = body
        self.properties: dict[str, object] | None = properties
        self.headers: Headers | None = headers
        self.destination: str = destination
        self.persistent: bool = persistent
        self.priority: int = priority
        self.timestamp: int = timestamp
        self.expiration: int = expiration
        self.compress: bool = compress


class Envelope:
    """What the way of a message left on it. ``timestamp`` and ``expiration`` are ms since 1970, 0 for none."""

    def __init__(
        self,
        message_id: str,
        destination: str,
        persistent: bool,
        priority: int,
        timestamp: int,
        expiration: int,
        first_of_group: bool,
        user_id: str | None,
    ) -> None:
        """``destination``: with its kind, "" for none; ``user_id``: who sent it, if the broker says so."""
        self.message_id: str = message_id
        self.destination: str = destination
        self.persistent: bool = persistent
        self.priority: int = priority
        self.timestamp: int = timestamp
        self.expiration: int = expiration
        self.first_of_group: bool = first_of_group
        self.user_id: str | None = user_id


class Wish:
    """What a program wants of a consumer. ``prefetch``: messages under way, 0 to fetch each."""

    def __init__(
        self,
        destination: str,
        prefetch: int,
        *,
        browser: bool = False,
        selector: str | None = None,
        durable: str | None = None,
        no_local: bool = False,
        exclusive: bool = False,
        retroactive: bool = False,
        priority: int = 0,
        dispatch_async: bool = True,
        pending_max: int = 0,
        in_pieces: bool = False,
    ) -> None:
        """``durable``: name of a subscription to a topic; ``pending_max``: messages kept for one that is slow.

        ``in_pieces``: large bodies are handed out as they come, where the wire has them so.
        """
        self.destination: str = destination
        self.prefetch: int = prefetch
        self.browser: bool = browser
        self.selector: str | None = selector
        self.durable: str | None = durable
        self.no_local: bool = no_local
        self.exclusive: bool = exclusive
        self.retroactive: bool = retroactive
        self.priority: int = priority
        self.dispatch_async: bool = dispatch_async
        self.pending_max: int = pending_max
        self.in_pieces: bool = in_pieces
