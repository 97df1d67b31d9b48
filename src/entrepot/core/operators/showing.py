"""One message, whole: its headers, properties, the brokers that it came through, and its body as far as it is shown."""

from __future__ import annotations

import base64
from itertools import islice
from typing import Any, Final

from entrepot.base.environment import KIB
from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import BROWSE_STEP, message_row
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.queue import Queue
from entrepot.model.message import BODY_BYTES, BODY_EMPTY, BODY_MAP, BODY_OBJECT, BODY_STREAM, BODY_TEXT, Message

BODY_SHOWN: Final = 256 * KIB  # characters, or octets, of a body
ENTRIES_SHOWN: Final = 1_000  # of a map or stream
KINDS: Final = {
    BODY_TEXT: "text",
    BODY_BYTES: "bytes",
    BODY_MAP: "map",
    BODY_STREAM: "stream",
    BODY_OBJECT: "object",
    BODY_EMPTY: "empty",
}


class Shown:
    """A `Work` that looks for a message that waits in ``queue`` and shows all of it. Raises InvalidDestination."""

    def __init__(self, broker: BrokerCore, census: Census, queue: Queue, identity: str | int) -> None:
        self.broker: Final = broker
        self.census: Final = census
        self.queue: Final = queue
        self.identity: Final = identity
        self.browser: Final = Browser([queue], None)
        self.found: dict[str, Any] | None = None

    def step(self) -> bool:
        """Look at some."""
        for message in self.browser.next(BROWSE_STEP):
            if self._is_it(message):
                self.found = message_shown(self.broker, self.census, message)
                return True
        if self.browser.done:
            told = f"there is no message {self.identity!r} in {self.queue.name}"
            raise InvalidDestination(told, remedy="it may be consumed by now; `entrepot where` finds it")
        return False

    def result(self) -> object:
        """Return it."""
        return self.found

    def _is_it(self, message: Message) -> bool:
        if isinstance(self.identity, int):
            return message.number == self.identity
        return self.broker.ids.identity_of(message) == self.identity


def message_shown(broker: BrokerCore, census: Census, message: Message) -> dict[str, Any]:
    """Return a row of `message_row` with ``kind``, ``body``, ``cut``, ``path`` and the headers.

    ``body`` is a text; octets are in base64; a map or stream is one.
    """
    row = message_row(broker, message)
    row["path"] = census.path(message)
    rare = message.rare
    if rare is not None and rare.large_id:
        row |= {"kind": "large", "body": None, "cut": True}
        return row
    try:
        said = message.common()
    except EntrepotError as error:
        return row | {"kind": "unreadable", "body": error.message, "cut": False}
    row["kind"] = KINDS.get(said.body_kind, "bytes")
    row["correlation_id"], row["reply_to"] = said.correlation_id, said.reply_to
    row["type"], row["content_type"] = said.type, said.content_type
    row["body"], row["cut"] = _body(said.body)
    return row


def _body(body: object) -> tuple[object, bool]:
    if isinstance(body, str):
        return body[:BODY_SHOWN], len(body) > BODY_SHOWN
    if isinstance(body, bytes | bytearray):
        return base64.b64encode(bytes(body[:BODY_SHOWN])).decode(), len(body) > BODY_SHOWN
    if isinstance(body, dict):
        some = {str(name): _plain(value) for name, value in islice(body.items(), ENTRIES_SHOWN)}
        return some, len(body) > ENTRIES_SHOWN
    if isinstance(body, list):
        return [_plain(value) for value in body[:ENTRIES_SHOWN]], len(body) > ENTRIES_SHOWN
    return None, False


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(bytes(value[:BODY_SHOWN])).decode()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)
