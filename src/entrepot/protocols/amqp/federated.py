"""What both sides of a federation over AMQP know of it: the words of its links, and which names are waited for. [C]

The words are those of Artemis (artemis.md 4.13): capabilities and properties of links, and what stands in the messages
over the links of commands and of events.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Refused
from entrepot.model.address import Destination
from entrepot.protocols.amqp.refusals import INVALID_FIELD, AmqpRefused
from entrepot.protocols.amqp.sections import MESSAGE_ANNOTATIONS, VALUE, map_in, put_descriptor, scan, write_table
from entrepot.protocols.amqp.writing import write_value

BASE: Final = "$ACTIVEMQ_ARTEMIS_FEDERATION"
"""Who may send to this address may federate."""
CONTROL: Final = "AMQ_FEDERATION_CONTROL_LINK"
EVENTS: Final = "AMQ_FEDERATION_EVENT_LINK"
QUEUES: Final = "AMQ_FEDERATION_QUEUE_RECEIVER"
ADDRESSES: Final = "AMQ_FEDERATION_ADDRESS_RECEIVER"
VERSION: Final = "federation_version"
NAME: Final = "federationName"
POLICY: Final = "federationPolicyName"
PRIORITY: Final = "priority"
SPOKEN: Final = 2
"""The version of this side: from the second one on, a link says by what queue it reads an address."""
OPERATION: Final = "x-opt-amq-federation-op-type"
EVENT: Final = "x-opt-amq-federation-ev-type"
QUEUE_MADE: Final = "REQUESTED_QUEUE_ADDED_EVENT"
ADDRESS_MADE: Final = "REQUESTED_ADDRESS_ADDED_EVENT"
ADDRESS_NAME: Final = "REQUESTED_ADDRESS_NAME"
QUEUE_NAME: Final = "REQUESTED_QUEUE_NAME"
SOURCE: Final = "federated-address-source-properties"
HOPS: Final = "x-opt-amq-fed-hops"
HOPS_OF_CORE: Final = "_AMQ_Fed_Hops"
"""The property that has them where a message crossed as one of CORE."""
CAME_FROM: Final = "x-opt-entrepot-fed-from"
"""The broker that a message was fetched from last: it does not get it back. Artemis keeps that beside the message."""
MISSING_MOST: Final = 10_000
"""Names of one connection that are waited for; of others it is not told."""
MISSING_CHARACTERS: Final = 1 << 20
"""Of them together."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Federated:
    """A federation on one session. ``peer``: who the other broker is.

    ``missing``, ``addresses``: queues, and addresses, that it asked for in vain; ``characters``: of their names.
    """

    def __init__(self, name: str, peer: str) -> None:
        self.name: str = name
        self.peer: str = peer
        self.missing: dict[str, None] = {}
        self.addresses: dict[str, None] = {}
        self.characters: i64 = 0
        self.told: bool = False  # there is a link of events to the other side

    def admit(self, where: Destination, policy: str) -> None:
        """Raise Refused where the other side may not read ``where``, which its policy ``policy`` means."""
        raise Refused(f"{where.name} is not read by a federation")

    def admit_making(self, where: Destination) -> None:
        """Raise Refused where the other side may not have the queue ``where`` made, to read an address by it."""

    def lacks(self, queue: str) -> None:
        """Tell of ``queue`` when it is made."""
        if queue not in self.missing and self._has_room(queue):
            self.missing[queue] = None

    def lacks_address(self, address: str) -> None:
        """Tell of ``address`` when it is made."""
        if address not in self.addresses and self._has_room(address):
            self.addresses[address] = None

    def _has_room(self, name: str) -> bool:
        characters = self.characters + len(name)
        if len(self.missing) + len(self.addresses) >= MISSING_MOST or characters > MISSING_CHARACTERS:
            return False
        self.characters = characters
        return True

    def has_queue_now(self, queue: str) -> bool:
        """``queue`` was made; return whether it is to be told."""
        return self._found(self.missing, queue)

    def has_address_now(self, address: str) -> bool:
        """``address`` was made; return whether it is to be told."""
        return self._found(self.addresses, address)

    def _found(self, names: dict[str, None], name: str) -> bool:
        if name not in names:
            return False
        del names[name]
        self.characters -= len(name)
        return True

    def forget(self) -> None:
        """The federation is over."""
        self.missing.clear()
        self.addresses.clear()
        self.characters = 0


def control_message(key: str, kind: str, body: dict[str, object]) -> bytes:
    """Return the octets of a command, or of an event: ``kind`` is its annotation ``key``."""
    out = BytesWriter()
    write_table(out, MESSAGE_ANNOTATIONS, {key: kind}, True)  # Artemis knows no symbol there
    put_descriptor(out, VALUE)
    write_value(out, body)
    return out.getvalue()


def event_of(queue: str, address: str) -> bytes:
    """Return the octets that tell that ``queue`` was made; "": that ``address`` was."""
    if queue:
        return control_message(EVENT, QUEUE_MADE, {ADDRESS_NAME: address, QUEUE_NAME: queue})
    return control_message(EVENT, ADDRESS_MADE, {ADDRESS_NAME: address})


def understood(octets: bytes, key: str) -> tuple[str, dict[str, object]]:
    """Return what a command, or an event, is, and what it says. Raises AmqpRefused, MalformedFrame, LimitExceeded."""
    sections = scan(octets)
    kind = map_in(octets, sections.annotations_at).get(key)
    if not isinstance(kind, str) or sections.body_kind != VALUE:
        raise AmqpRefused(
            f"a message over this link has no annotation {key}, or a body that is no value", INVALID_FIELD
        )
    said = map_in(octets, sections.bodies[0])
    return kind, {str(name): value for name, value in said.items()}
