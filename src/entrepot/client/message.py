"""What a program sends and receives: a body, headers, properties. Opened when looked at, never before.

The body's Python type is the message's kind:

====================  ===========================================
``str``               text
``bytes``             bytes
``dict``              map: text to bool, int, float, str, bytes, None
``list``              stream: a row of the same
`SerializedObject`    an object that Java serialised; never opened
``None``              no body
====================  ===========================================
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import Inexpressible
from entrepot.client.acknowledgement import Acknowledgement
from entrepot.protocols.openwire.bodies import (
    bytes_message,
    map_message,
    map_of_body,
    object_message,
    octets_of,
    pack_properties,
    properties_of,
    row_of_body,
    stream_message,
    text_message,
    text_of_body,
)
from entrepot.protocols.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from entrepot.protocols.openwire.commands import Message as Command
from entrepot.protocols.openwire.consumption import Delivery
from entrepot.protocols.openwire.ids import parse_destination, qualified_name, text_of

if TYPE_CHECKING:
    from entrepot.client.connection import Connection
    from entrepot.client.portal import Portal


class SerializedObject(bytes):
    """The octets of an object that Java serialised. They are passed on and never opened."""


Body = str | bytes | dict[str, object] | list[object] | None

DEFAULT_PRIORITY: Final = 4
HEADERS: Final = ("correlation_id", "destination", "group", "group_sequence", "reply_to", "type")


class Message:
    """A message to send; `Received` is one that came. ``properties`` are the program's own, headers are attributes.

    ``group`` keeps the messages of one name in order at one consumer; ``group_sequence`` -1 ends that (classic.md 4.4).
    """

    __slots__ = ("_body", "_properties", "correlation_id", "group", "group_sequence", "reply_to", "type")

    def __init__(
        self,
        body: Body = None,
        *,
        properties: dict[str, object] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        group: str | None = None,
        group_sequence: int = 0,
    ) -> None:
        self._body: Body = body
        self._properties: dict[str, object] | None = properties
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.type = type
        self.group = group
        self.group_sequence = group_sequence

    @property
    def body(self) -> Body:
        """What it says; see the table at the head of this module."""
        return self._body

    @body.setter
    def body(self, body: Body) -> None:
        self._body = body

    @property
    def properties(self) -> dict[str, object]:
        """The program's own, by name."""
        if self._properties is None:
            self._properties = {}
        return self._properties

    def command(self, *, compress: bool = False) -> Command:
        """Return it as OpenWire has it. Raises Inexpressible for a value that has no form there."""
        command = compose(self.body)
        properties = self._properties if type(self) is Message else self.properties
        if properties:
            command.marshalled_properties = pack_properties(properties)
        command.correlation_id = self.correlation_id
        command.jms_type = self.type
        command.group_id = self.group
        command.group_sequence = self.group_sequence
        if self.reply_to is not None:
            command.reply_to = parse_destination(self.reply_to)
        if compress and command.content:
            _deflate(command)
        return command

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.body!r})"


class Received(Message):
    """A message that came. In CLIENT and INDIVIDUAL mode `acknowledge` settles it; `reject` gives it up."""

    __slots__ = ("_command", "_connection", "_delivery", "_opened", "_portal", "destination")
    destination: str

    def __init__(self, delivery: Delivery, connection: Connection | None = None) -> None:
        """``connection``: which it came from; None where nobody waits for an acknowledgement."""
        command = delivery.message
        self._delivery = delivery
        self._command: Final = command
        self._opened = False
        self._connection: Final = connection
        self._portal: Portal | None = None
        self._body = None
        self._properties = None

    if not TYPE_CHECKING:  # checkers know the attributes from `Message`; a typed __getattr__ would allow any name

        def __getattr__(self, name):
            """Open the headers when the first of them is looked at: many programs look at the body alone."""
            if name not in HEADERS:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            self._open_headers()
            return getattr(self, name)

    def _open_headers(self) -> None:
        """Fill what was neither read nor set before."""
        command = self._command
        where, reply_to = command.destination, command.reply_to
        headers = {
            "correlation_id": command.correlation_id,
            "type": command.jms_type,
            "group": command.group_id,
            "group_sequence": int(command.group_sequence),
            "reply_to": None if reply_to is None else qualified_name(reply_to),
            "destination": "" if where is None else qualified_name(where),
        }
        for name, value in headers.items():
            try:
                object.__getattribute__(self, name)
            except AttributeError:
                setattr(self, name, value)

    @property
    def body(self) -> Body:
        """What it says. Raises MalformedFrame, LimitExceeded when its octets are no body of its kind."""
        if not self._opened:
            self._body = body_of(self._command)
            self._opened = True
        return self._body

    @body.setter
    def body(self, body: Body) -> None:
        self._opened = True
        self._body = body

    @property
    def properties(self) -> dict[str, object]:
        """The sender's own. Raises MalformedFrame."""
        if self._properties is None:
            self._properties = properties_of(self._command)
        return self._properties

    @property
    def message_id(self) -> str:
        """The identity that the producer's connection gave it."""
        return "" if self._command.message_id is None else text_of(self._command.message_id)

    @property
    def persistent(self) -> bool:
        """Whether it survives the broker."""
        return bool(self._command.persistent)

    @property
    def priority(self) -> int:
        """0 to 9."""
        return int(self._command.priority)

    @property
    def timestamp(self) -> int:
        """When it was sent, ms since 1970."""
        return int(self._command.timestamp)

    @property
    def expiration(self) -> int:
        """When it expires, ms since 1970; 0: never."""
        return int(self._command.expiration)

    @property
    def advice(self) -> object:
        """The command that an advisory is about, a ConsumerInfo for instance; None of any other message."""
        return self._command.data_structure

    @property
    def redelivered(self) -> bool:
        """Whether it was handed to a consumer before."""
        return self._delivery.redeliveries > 0

    @property
    def delivery_count(self) -> int:
        """How often it was handed out, this time included."""
        return self._delivery.redeliveries + 1

    @property
    def first_of_group(self) -> bool:
        """Whether this consumer just became the one of the message's group."""
        return bool(self._command.jmsx_group_first_for_consumer)

    @property
    def user_id(self) -> str | None:
        """Who sent it, if the broker says so."""
        return self._command.user_id

    def acknowledge(self) -> Acknowledgement:
        """Settle: it alone in INDIVIDUAL, all that the session was handed before it too in CLIENT; else nothing.

        It does not wait: ``await`` what it returns, in the blocking client call `Acknowledgement.wait` of it, to know
        that the broker has stored it. Nothing happens when its connection was lost meanwhile: the broker delivers it
        again, and who waits is told.
        """
        acknowledgement = Acknowledgement(self._delivery, self._connection, self._portal)
        self._settle(acknowledgement.begin)
        return acknowledgement

    def reject(self, cause: str = "the consumer rejected it") -> None:
        """Give it up: the broker moves it to the dead letter queue. Not in a transaction."""
        self._settle(lambda: self._delivery.inbox.reject(self._delivery, cause))

    def settled_through(self, portal: Portal) -> None:
        """Have it settled in the thread of ``portal``, because the program runs in another one."""
        self._portal = portal

    def _settle(self, action: Callable[[], None]) -> None:
        if self._portal is None:
            action()
        else:
            self._portal.post(action)


def compose(body: Body) -> Command:
    """Return a command with ``body``. Raises Inexpressible."""
    if isinstance(body, str):
        return text_message(body)
    if isinstance(body, SerializedObject):
        return object_message(bytes(body))
    if isinstance(body, bytes):
        return bytes_message(body)
    if body is None:
        return ActiveMQMessage()
    if isinstance(body, dict):
        return map_message(body)
    if isinstance(body, list):
        return stream_message(body)
    if isinstance(body, bytearray | memoryview):
        return bytes_message(bytes(body))
    raise Inexpressible(f"a {type(body).__name__} is no body", remedy="send str, bytes, dict, list or None")


def body_of(command: Command) -> Body:
    """Return what ``command`` says, as its kind. Raises MalformedFrame, LimitExceeded."""
    if isinstance(command, ActiveMQTextMessage):
        return text_of_body(command)
    if isinstance(command, ActiveMQBytesMessage):
        return octets_of(command) or b""
    if isinstance(command, ActiveMQMapMessage):
        return map_of_body(command)
    if isinstance(command, ActiveMQStreamMessage):
        return row_of_body(command)
    if isinstance(command, ActiveMQObjectMessage):
        return SerializedObject(octets_of(command) or b"")
    return None


def _deflate(command: Command) -> None:
    """Compress the body as Java does (classic.md 5.6)."""
    content = command.content or b""
    packed = zlib.compress(content)
    if isinstance(command, ActiveMQBytesMessage):
        packed = len(content).to_bytes(4, "big") + packed
    command.content = packed
    command.compressed = True
