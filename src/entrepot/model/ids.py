"""Identities: of nodes, messages, connections. Those that clients see are text that a person can read in a log.

A message id is ``ID:<node>:-1:1:<number>``: the number is unique in its broker for ever (the journal reserves blocks of
numbers), the node id is unique among brokers. Between them stand a session and a producer, as in the ids of Java's
clients: ActiveMQ reads ids of that form alone when its STOMP clients acknowledge, and closes the connection of who
names another (5.17). Nobody may parse an id here: foreign ones have other forms (classic.md 5.7).

Beside its id a node has a UUID of 16 octets, which cluster connections of Artemis use: members of a topology are told
apart by it, and a bridge makes duplicate ids of it (artemis.md).
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Entropy

NODE_TOKEN_OCTETS: Final = 5  # 40 bits: a clash among 10,000 nodes of one name is below 1 in 10,000

UUID_OCTETS: Final = 16
NUMBERED_OCTETS: Final = UUID_OCTETS + 8
"""Of an id by which nodes know what another one sends: its UUID, and the number that the message has there."""

# The session and the producer that stand for all who send over protocols that name none.
FOREIGN_SESSION: Final = -1
FOREIGN_PRODUCER: Final = 1


class NodeIdentity:
    """Who a broker is, for good: the id that clients see, the UUID, and what begins the ids of its messages.

    ``uuid`` is 16 octets, or empty before the journal said or got one.
    """

    def __init__(self, node_id: str = "", uuid: bytes = b"") -> None:
        self.node_id: Final = node_id
        self.uuid: Final = uuid
        self.message_prefix: Final = message_id_prefix(node_id) if node_id else ""

    @property
    def uuid_text(self) -> str:
        """The UUID as people write it: 32 hexadecimal digits in five groups; "" when there is none yet."""
        return uuid_text(self.uuid) if self.uuid else ""


def uuid_text(octets: bytes) -> str:
    """Return 16 octets as people write a UUID: 32 hexadecimal digits in five groups."""
    digits = octets.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def fresh_uuid(entropy: Entropy) -> bytes:
    """Return the 16 octets of a random UUID (RFC 9562, version 4)."""
    octets = bytearray(entropy.token(UUID_OCTETS))
    octets[6] = 0x40 | octets[6] & 0x0F
    octets[8] = 0x80 | octets[8] & 0x3F
    return bytes(octets)


def fresh_node_id(name: str, entropy: Entropy) -> str:
    """Return a new node id: the broker's name (letters, digits, ``.-_`` kept) and a random tail."""
    plain = "".join(character if character.isalnum() or character in ".-_" else "-" for character in name)
    return f"{plain or 'broker'}-{entropy.token(NODE_TOKEN_OCTETS).hex()}"


def message_id_prefix(node_id: str) -> str:
    """Return what stands before the number in the ids of messages that ``node_id`` accepted."""
    return f"ID:{node_id}:{FOREIGN_SESSION}:{FOREIGN_PRODUCER}:"


def connection_id(node_id: str, number: int) -> str:
    """Return the id of the ``number``-th connection that ``node_id`` accepted in this run."""
    return f"ID:{node_id}-c{number}"
