"""Identities: of nodes, messages, connections. All are text that a person can read in a log.

A message id is ``ID:<node>:<number>``: the number is unique in its broker for ever (the journal reserves blocks of
numbers), the node id is unique among brokers. Nobody may parse an id: foreign ones have other forms (classic.md 5.7).
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Entropy

NODE_TOKEN_OCTETS: Final = 5  # 40 bits: a clash among 10,000 nodes of one name is below 1 in 10,000


def fresh_node_id(name: str, entropy: Entropy) -> str:
    """Return a new node id: the broker's name (letters, digits, ``.-_`` kept) and a random tail."""
    plain = "".join(character if character.isalnum() or character in ".-_" else "-" for character in name)
    return f"{plain or 'broker'}-{entropy.token(NODE_TOKEN_OCTETS).hex()}"


def message_id_prefix(node_id: str) -> str:
    """Return what stands before the number in the ids of messages that ``node_id`` accepted."""
    return f"ID:{node_id}:"


def connection_id(node_id: str, number: int) -> str:
    """Return the id of the ``number``-th connection that ``node_id`` accepted in this run."""
    return f"ID:{node_id}-c{number}"
