"""What nodes of a cluster call each other's queues: ids that mean the same queue after every restart. [C]

A message that is on its way between two nodes says with such ids where it goes (artemis.md 1.14), and may arrive long
after the queue has gone, or after its broker was started again. The number of a queue would not do: the next run of the
broker gives it to another one. So an id is made of the name. A temporary queue may have the name of an earlier one, and
is not that: when it was made is in its id, too. What kind of queue it is decides what becomes of a message whose queue
is gone, and is in the id as well.

Bits, from the highest: 62 always set, 61 multicast, 60 temporary, 59 of another node, which is told on; then 59 of a
digest.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` would load OpenSSL into every broker
from typing import Final

from mypy_extensions import i64

from entrepot.model.address import MULTICAST

TOLD: Final = 1 << 62
TOLD_MULTICAST: Final = 1 << 61
TOLD_TEMPORARY: Final = 1 << 60
TOLD_REMOTE: Final = 1 << 59
DIGEST: Final = TOLD_REMOTE - 1


def told_as(name: str, routing: i64, temporary: bool, began: i64) -> int:
    """Return what the queue ``name`` of this broker is called elsewhere. ``began``: as `QueueHead` has it."""
    return TOLD | _kind(routing, temporary) | _digest(f"{name}\n{began}" if temporary else name)


def remote_as(cluster_name: str, routing: i64, far: i64) -> int:
    """Return what a queue of another node is called here and told on as. ``cluster_name``: unique among all nodes.

    ``far``: what the next node calls it. Only ours say whether it is temporary; one of Artemis is taken for one that
    lasts.
    """
    return TOLD | TOLD_REMOTE | _kind(routing, is_temporary(far)) | _digest(cluster_name)


def is_temporary(identity: i64) -> bool:
    """Return whether ``identity`` says of its queue that it is temporary."""
    return int(identity) & (TOLD | TOLD_TEMPORARY) == TOLD | TOLD_TEMPORARY


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") & DIGEST


def _kind(routing: i64, temporary: bool) -> int:
    kind = TOLD_MULTICAST if routing == MULTICAST else 0
    return kind | TOLD_TEMPORARY if temporary else kind
