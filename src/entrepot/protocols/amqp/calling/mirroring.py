"""The link over which this broker mirrors itself into another one: its messages say what they are called here. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.core.mirrors.identity import MIRROR, QUEUES, named
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.amqp.calling.port import CallerPort
from entrepot.protocols.amqp.calling.sending import Sending
from entrepot.protocols.amqp.mirroring import (
    ACKNOWLEDGED,
    ADDRESS,
    BROKER_ID,
    CAPABILITY,
    DESTINATION,
    DOER,
    EVENT,
    EVENT_NUMBER,
    MESSAGE_ID,
    PASSED,
    QUEUE,
    TARGET_QUEUES,
)
from entrepot.protocols.amqp.performatives import Attach, Header
from entrepot.protocols.amqp.primitives import symbol
from entrepot.protocols.amqp.sections import (
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    VALUE,
    put_descriptor,
    scan,
    write_header,
    write_table,
)
from entrepot.protocols.amqp.session import AmqpSession
from entrepot.protocols.amqp.writing import write_value

SEPARATOR: Final = "\n"  # between names in `QUEUES`; no name has one


class MirrorSending(Sending):
    """One of them."""

    def __init__(
        self, session: AmqpSession, name: str, handle: i64, port: CallerPort, under_way: dict[int, Sending]
    ) -> None:
        super().__init__(session, name, handle, port, under_way)
        self.own: str = session.connection.broker.ids.node.uuid_text

    def asked(self, said: Attach) -> None:
        """Ask for a mirror."""
        said.desired_capabilities = [CAPABILITY]
        said.properties = {BROKER_ID: self.own, EVENT_NUMBER: True}

    def objection(self, said: Attach) -> str:
        """Return why what the peer attached is no mirror."""
        remote = (said.properties or {}).get(BROKER_ID)
        if CAPABILITY not in said.offered_capabilities or not isinstance(remote, str) or not remote:
            return "the other side takes no mirror: is it an Artemis, or a broker of this program?"
        if remote == self.own:
            return "this broker would mirror itself into itself"
        self.remote = remote
        return ""

    def dressed(self, octets: bytes, message: Message) -> bytes:
        """Return the octets with what the message is called here before all that is for readers."""
        if message.address.startswith(MIRROR):
            return octets  # an event
        origin, number = named(message, self.own)
        said: dict[str, object] = {MESSAGE_ID: number, DESTINATION: message.address}
        if origin != self.own:
            said[BROKER_ID] = origin
        queues = message.marked(QUEUES)
        if isinstance(queues, str):
            said[TARGET_QUEUES] = queues.split(SEPARATOR)
        at = header_end(octets)
        out = BytesWriter()
        out.write(octets[:at])
        write_table(out, DELIVERY_ANNOTATIONS, said, True)
        out.write(octets[at:])
        return out.getvalue()

    def routing_of(self, message: Message) -> int:
        """Return how a message of another language is sent: the queue that is read here is of no message."""
        address = self.session.connection.broker.table.addresses.get(message.address)
        return MULTICAST if address is not None and not address.has(ANYCAST) else ANYCAST


def header_end(octets: bytes) -> i64:
    """Return where the header of a message ends; 0: it has none. A large body may be missing."""
    if not octets.startswith(b"\x00\x53\x70"):
        return 0
    code = octets[3]
    if code == 0xC0:
        return i64(5 + octets[4])
    if code == 0xD0:
        return i64(8 + int.from_bytes(octets[4:8], "big"))
    return i64(4) if code == 0x45 else scan(octets).header_end


def event_of(
    kind: str,
    address: str,
    queue: str,
    body: str | int,
    origin: str = "",
    doer: str = "",
    number: int = 0,
    passed: int = 0,
) -> bytes:
    """Return the octets of an event. ``origin``: of the message that it is about, "" for this broker.

    ``doer``: the broker where it happened, "" for this one; ``number``: tells it from others, 0: it may be done twice;
    ``passed``: brokers that told it on, and did not have what it is about.
    """
    out = BytesWriter()
    write_header(out, Header(durable=True))
    said: dict[str, object] = {EVENT: symbol(kind), ADDRESS: address}
    if queue:
        said[QUEUE] = queue
    if origin:
        said[BROKER_ID] = origin
    if doer:
        said[DOER] = doer
    if number:
        said[EVENT_NUMBER] = number
    if passed:
        said[PASSED] = passed
    write_table(out, MESSAGE_ANNOTATIONS, said, True)
    put_descriptor(out, VALUE)
    write_value(out, body)
    return out.getvalue()


def acknowledgement(address: str, queue: str, number: int, origin: str, doer: str = "", passed: int = 0) -> bytes:
    """Return the event that a message has left ``queue``; the rest as for `event_of`."""
    return event_of(ACKNOWLEDGED, address, queue, number, origin, doer, passed=passed)
