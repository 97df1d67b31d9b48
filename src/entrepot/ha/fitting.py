"""Whether a replica that greets belongs to this primary: one layout, one store, one pair. No I/O.

Each refusal says what is wrong and what to do; the replica logs it once, and dials again until it is mended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrepot.base.errors import Refused
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import LAYOUT


def identity(options: ReplicationOptions) -> dict[str, Any]:
    """Return what the configuration says of a broker's pair. One that does not say it fits everybody."""
    return {"group": None if options.by_lock else options.group, "owns": options.owns}


def refuse_pair(facts: Mapping[str, Any], options: ReplicationOptions, name: str) -> None:
    """Raise Refused where ``facts`` are of a broker that its configuration puts into another pair, or in our place."""
    other = str(facts.get("name", ""))
    group = facts.get("group")
    if group is not None and not options.by_lock and group != options.group:
        raise Refused(
            f"{other} is of {_called(str(group))}, {name} of {_called(options.group)}: they are no pair",
            remedy="give both the same group-name, or each the --peer of its own pair",
        )
    if options.owns and facts.get("owns"):
        raise Refused(
            f"{name} and {other} are both configured as the primary of this store, which has one",
            remedy="say --part backup (or <backup>) on one, or give neither a part (peers: one coordination-id)",
        )


def refuse_store(facts: Mapping[str, Any], *, name: str, copy: str, store: str, epoch: int) -> None:
    """Raise Refused where ``facts`` are of what cannot become a copy of ``store``. ``copy``: the primary's own."""
    other = str(facts.get("name", ""))
    theirs = facts.get("files")
    if facts.get("layout") != LAYOUT or not facts.get("copy") or not isinstance(theirs, dict):
        raise Refused(
            f"{name} speaks layout {LAYOUT} of replication, {other or 'the other'} {facts.get('layout')}",
            remedy="update the broker that is older; both may run while one is updated",
        )
    if str(facts["copy"]) == copy:
        raise Refused(
            f"the data directory of {other} is a copy of that of {name}, made by hand",
            remedy="remove replica.json there, or start with an empty directory",
        )
    held = str(facts.get("store", ""))
    if held != store and (held or theirs):
        raise Refused(
            f"{other} has a store of its own, {held or 'never replicated'}; {name} has {store}",
            remedy="give it an empty data directory, or the right peers",
        )
    if int(facts.get("seen", 0)) > epoch:
        raise Refused(
            f"{other} has seen epoch {facts.get('seen')}, {name} is primary of {epoch} only",
            remedy="this primary is out of date, or its lock is another one: all brokers need the same --locker",
        )


def _called(group: str) -> str:
    return f"the group {group!r}" if group else "no group"
