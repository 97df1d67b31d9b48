"""What a node answers an Artemis whose replicated pair asks the cluster who is primary (artemis.md 1.23, 5.2.5).

A backup that lost its primary asks whether that is gone; a primary that lost its backup asks whether it is still where
all believe it to be. Both are answered with what is seen from here (`sight.py`), as Artemis' own nodes judge by their
connections. The primary compares the text of its connector with what it is told, so that text is made as a Java program
makes it: parameters in the order in which a ``HashMap`` of their names hands them out.
"""

from __future__ import annotations

from typing import Final

from entrepot.cluster.clusters.sight import Seen
from entrepot.protocols.artemis.packets import QuorumVote, QuorumVoteReply
from entrepot.protocols.artemis.primitives import Connector, Parameter

BUCKETS: Final = 16  # of a HashMap that nobody gave a size
SECRET: Final = "****"


def voted(asked: QuorumVote, primary: Connector | None, seen: Seen) -> QuorumVoteReply:
    """Return the answer: what was asked, or the opposite where that node is gone. ``primary``: where it is, if known.

    A primary that may stay counts the answer only if it says where.
    """
    if seen is Seen.GONE:
        return QuorumVoteReply(handler=asked.handler, vote=not asked.vote, node=asked.node)
    where = None if primary is None else text_of(primary)
    return QuorumVoteReply(handler=asked.handler, vote=asked.vote, node=asked.node, connector=where)


def text_of(connector: Connector) -> str:
    """Return a connector as Artemis writes it for people, dots as dashes and passwords hidden."""
    known = {one.key: one for one in connector.parameters if not one.extra}
    said = [f"{_dashed(key)}={_dashed(_value(known[key]))}" for key in as_hashed(list(known))]
    said += [f"{_dashed(one.key)}={_dashed(_word(one.value))}" for one in connector.parameters if one.extra]
    head = f"TransportConfiguration(name={connector.name}, factory={_dashed(connector.factory)})"
    return head + ("?" if known else "") + "&".join(said)


def as_hashed(keys: list[str]) -> list[str]:
    """Return ``keys``, which differ, in the order of a Java ``HashMap`` to which they were added one by one."""
    buckets = BUCKETS
    while len(keys) > buckets * 3 // 4:
        buckets *= 2
    return sorted(keys, key=lambda key: _spread(key) & (buckets - 1))


def _spread(key: str) -> int:
    """Return what a ``HashMap`` makes of the hash of a string, of 16-bit units."""
    units = key.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return hashed ^ (hashed >> 16)


def _value(parameter: Parameter) -> str:
    return SECRET if "password" in parameter.key.lower() else _word(parameter.value)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dashed(text: str) -> str:
    return text.replace(".", "-")
