"""What a program sends and receives: a body, headers, properties. Opened when looked at, never before.

The body's Python type is the message's kind: see `protocols/conversing/bodies.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from entrepot.base.errors import EntrepotError
from entrepot.client.acknowledgement import Acknowledgement
from entrepot.client.base import ConnectionBase
from entrepot.client.portal import Portal
from entrepot.protocols.conversing.bodies import Body
from entrepot.protocols.conversing.content import Envelope, Headers
from entrepot.protocols.conversing.port import DeliveryPort

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
        """What it says; its type is the kind of the message (`protocols/conversing/bodies.py`)."""
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

    def own_properties(self) -> dict[str, object] | None:
        """Return the properties to send with it, None for none."""
        return self._properties if type(self) is Message else self.properties

    def headers(self) -> Headers:
        """Return what is said besides the body and the properties."""
        return Headers(self.correlation_id, self.reply_to, self.type, self.group, self.group_sequence)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.body!r})"


class Received(Message):
    """A message that came. In CLIENT and INDIVIDUAL mode `acknowledge` settles it; `reject` gives it up."""

    __slots__ = ("_connection", "_delivery", "_envelope", "_opened", "_portal", "destination")
    destination: str

    def __init__(self, delivery: DeliveryPort, connection: ConnectionBase | None = None) -> None:
        """``connection``: which it came from; None where nobody waits for an acknowledgement."""
        self._delivery = delivery
        self._opened = False
        self._envelope: Envelope | None = None
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
        said = self._delivery.headers()
        headers = {
            "correlation_id": said.correlation_id,
            "type": said.type,
            "group": said.group,
            "group_sequence": said.group_sequence,
            "reply_to": said.reply_to,
            "destination": self._way().destination,
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
            self._body = cast(Body, self._delivery.body())
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
            self._properties = self._delivery.properties()
        return self._properties

    def __repr__(self) -> str:
        try:
            return super().__repr__()
        except EntrepotError as error:  # it came in pieces, or is none of its kind
            return f"{type(self).__name__}({error})"

    def _way(self) -> Envelope:
        if self._envelope is None:
            self._envelope = self._delivery.envelope()
        return self._envelope

    @property
    def message_id(self) -> str:
        """The identity that the producer's connection gave it."""
        return self._way().message_id

    @property
    def persistent(self) -> bool:
        """Whether it survives the broker."""
        return self._way().persistent

    @property
    def priority(self) -> int:
        """0 to 9."""
        return self._way().priority

    @property
    def timestamp(self) -> int:
        """When it was sent, ms since 1970."""
        return self._way().timestamp

    @property
    def expiration(self) -> int:
        """When it expires, ms since 1970; 0: never."""
        return self._way().expiration

    @property
    def advice(self) -> object:
        """The command that an advisory is about, a ConsumerInfo for instance; None of any other message."""
        return self._delivery.advice()

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
        return self._way().first_of_group

    @property
    def user_id(self) -> str | None:
        """Who sent it, if the broker says so."""
        return self._way().user_id

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
        self._settle(lambda: self._delivery.reject(cause))

    def settled_through(self, portal: Portal) -> None:
        """Have it settled in the thread of ``portal``, because the program runs in another one."""
        self._portal = portal

    def _settle(self, action: Callable[[], None]) -> None:
        if self._portal is None:
            action()
        else:
            self._portal.post(action)
