"""When a compaction and a replica that copies get in one another's way: asked by worlds that are drawn for it.

A file gets its name while it is read once in thousands of worlds, where chance alone decides. So in some a broker
compacts much while a replica copies, goes on with it when the replica has come to the new file, and ends it then.
"""

from __future__ import annotations

from entrepot.ha.follower import Stage
from entrepot.ha.replication import Replication
from entrepot.journal.ports import SCRATCH


def is_copied(replication: Replication) -> bool:
    """Say whether a replica copies."""
    return any(each.stage is Stage.COPYING for each in replication.followers)


def is_read_soon(replication: Replication) -> bool:
    """Say whether a replica that copies has still to be sent what compaction writes, and nobody reads that yet."""
    for each in replication.followers:
        catch_up = each.catch_up
        if each.stage is Stage.COPYING and any(name.endswith(SCRATCH) for name in catch_up.ranges):
            return not any(piece.name.endswith(SCRATCH) for piece in catch_up.reading)
    return False
