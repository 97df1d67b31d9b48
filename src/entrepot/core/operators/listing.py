"""What management reads and writes as JSON: arguments that are checked, rows of messages, pages of long lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from entrepot.base.errors import EntrepotError, Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.queue import Queue
from entrepot.core.security.directory import Subject
from entrepot.model.message import BODY_BYTES, BODY_MAP, BODY_OBJECT, BODY_STREAM, BODY_TEXT, Message
from entrepot.model.predicate import Predicate

BROWSE_STEP: Final = 200
SHOWN_CHARACTERS: Final = 256  # of a body or a property: management-message-attribute-size-limit of Artemis
TYPES: Final = {BODY_OBJECT: 2, BODY_TEXT: 3, BODY_BYTES: 4, BODY_MAP: 5, BODY_STREAM: 6}
"""Kind of a body -> the number that Artemis has for it; 0 is none of these."""
PAGE_MOST: Final = 1_000
ABSENT: Final = object()

Askers = Callable[[], list[Subject]]


class Arguments:
    """The arguments of one operation, by position. All readers raise Refused for what is not of their type."""

    def __init__(self, operation: str, values: list[Any], askers: Askers = lambda: []) -> None:
        """``askers``: returns for whom it is asked, nobody where that is not known."""
        self.operation = operation
        self.values = values
        self.askers = askers

    def __len__(self) -> int:
        return len(self.values)

    def text(self, at: int, default: str | None = None) -> str:
        """Return a text; null is none."""
        return str(self._read(at, default, str, "a text"))

    def secret(self, at: int, default: str | None = None) -> str:
        """Return a text that no refusal repeats; null is none."""
        value = self.values[at] if len(self.values) > at else None
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise Refused(f"argument {at + 1} of {self.operation} is no text", remedy="give a text")
        return value

    def number(self, at: int, default: int | None = None) -> int:
        """Return a whole number."""
        found = self._read(at, default, int, "a whole number")
        if isinstance(found, bool):
            raise self._wrong(at, "a whole number")
        return int(found)

    def flag(self, at: int, default: bool | None = None) -> bool:
        """Return true or false."""
        return bool(self._read(at, default, bool, "true or false"))

    def identity(self, at: int) -> str | int:
        """Return a message id: a text, or the broker's number for it."""
        return self.number(at) if self.is_number(at) else self.text(at)

    def no_more_than(self, most: int, remedy: str) -> None:
        """Refuse more arguments than ``most``, and say what to give."""
        if len(self.values) > most:
            raise Refused(f"{self.operation} has {len(self.values)} arguments", remedy=remedy)

    def texts(self, at: int) -> list[str]:
        """Return a list of texts."""
        found = self._read(at, None, list, "a list of texts")
        if not all(isinstance(one, str) for one in found):
            raise self._wrong(at, "a list of texts")
        return list(found)

    def fields(self, at: int) -> dict[str, Any]:
        """Return a text that holds a JSON object; an empty text holds an empty one."""
        text = self.text(at, "")
        if not text:
            return {}
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            raise self._wrong(at, "a JSON object") from None

    def mapping(self, at: int) -> dict[str, Any]:
        """Return a JSON object, or a text that holds one; null is an empty one."""
        given = self.values[at] if len(self.values) > at else None
        if isinstance(given, dict):
            return given
        return self.fields(at)

    def is_number(self, at: int) -> bool:
        """Return whether there is a whole number at ``at``."""
        return len(self.values) > at and isinstance(self.values[at], int) and not self.is_flag(at)

    def is_flag(self, at: int) -> bool:
        """Return whether there is true or false at ``at``."""
        return len(self.values) > at and isinstance(self.values[at], bool)

    def drop_leading_number(self) -> None:
        """Forget a first argument that is a number: Artemis' flush limit, which is ours to choose."""
        if self.is_number(0):
            self.values = self.values[1:]

    def _read(self, at: int, default: object, kind: type, wanted: str) -> Any:
        value = self.values[at] if len(self.values) > at else None
        if value is None:
            value = default
        if not isinstance(value, kind):
            raise self._wrong(at, wanted)
        return value

    def _wrong(self, at: int, wanted: str) -> Refused:
        given = f"is {str(self.values[at])[:40]!r}" if len(self.values) > at else "is missing"
        return Refused(f"argument {at + 1} of {self.operation} {given}", remedy=f"give {wanted}")


class Listing:
    """A `Work` that lists messages that wait and that a selector wants, without taking them; in steps."""

    def __init__(
        self,
        broker: BrokerCore,
        queue: Queue,
        selector: Predicate | None,
        *,
        skip: int = 0,
        most: int,
        as_text: bool = False,
    ) -> None:
        self.broker = broker
        self.browser = Browser([queue], selector, waiting=True)
        self.skip = skip
        self.most = most
        self.as_text = as_text
        self.rows: list[dict[str, Any]] = []

    def step(self) -> bool:
        """Look on; return whether the list is complete."""
        for message in self.browser.next(min(BROWSE_STEP, self.skip + self.most - len(self.rows))):
            if self.skip > 0:
                self.skip -= 1
            else:
                self.rows.append(message_row(self.broker, message))
        return self.browser.done or len(self.rows) >= self.most

    def result(self) -> object:
        """Return the rows, or their JSON text."""
        return msgspec.json.encode(self.rows).decode() if self.as_text else self.rows


def message_row(broker: BrokerCore, message: Message) -> dict[str, Any]:
    """Return ``message`` as management shows it, names as Artemis has them; long texts are cut.

    ``type`` is the kind of its body, a number of `TYPES`; ``preview`` the first octets of one of bytes, in hexadecimal.
    """
    row: dict[str, Any] = {
        "messageID": int(message.number),
        "userID": broker.ids.identity_of(message),
        "address": message.address,
        "timestamp": int(message.timestamp),
        "expiration": int(message.expiration),
        "priority": int(message.priority),
        "durable": message.durable,
        "redelivered": message.redelivered,
        "protocol": message.language.name,
        "size": len(message.raw),
        "type": 0,
        "largeMessage": message.rare is not None and message.rare.large_id != 0,
    }
    properties: dict[str, Any] = {} if message.rare is None else dict(message.rare.annotations)
    try:
        said = message.common()
    except EntrepotError as error:  # what its sender wrote badly can still be listed
        row["unreadable"] = error.message
    else:
        properties.update(said.properties)
        row["type"] = TYPES.get(said.body_kind, 0)
        if isinstance(said.body, str):
            row["text"] = _cut(said.body)
        elif said.body_kind == BODY_BYTES and isinstance(said.body, bytes):
            row["preview"] = said.body[:SHOWN_CHARACTERS].hex()
    row["properties"] = {name: _shown(value) for name, value in properties.items()}
    return row


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return _cut(value.hex())
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def comparison(operation: str, wanted: str) -> Callable[[str], bool]:
    """Return what compares a text with ``wanted``. Raises Refused for an ``operation`` that is none."""
    known: dict[str, Callable[[str], bool]] = {
        "CONTAINS": lambda text: wanted in text,
        "NOT_CONTAINS": lambda text: wanted not in text,
        "EQUALS": lambda text: text == wanted,
        "NOT_EQUALS": lambda text: text != wanted,
        "GREATER_THAN": lambda text: ranked(text) > ranked(wanted),
        "LESS_THAN": lambda text: ranked(text) < ranked(wanted),
    }
    found = known.get(operation)
    if found is None:
        raise Refused(f"there is no operation {operation!r}", remedy="use one of " + ", ".join(known))
    return found


def ranked(value: object) -> tuple[float, str]:
    """Order numbers by size, before all texts, which go by their letters."""
    text = written(value)
    try:
        return float(text), ""
    except ValueError:
        return float("inf"), text


def written(value: object) -> str:
    """Return a value as text; null is an empty one."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
