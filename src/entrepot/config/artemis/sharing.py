"""Who stands in for whom, from ``<ha-policy>`` of a ``broker.xml`` (artemis.md 2.2 to 2.4)."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from entrepot.base.environment import MILLISECOND
from entrepot.config.artemis.reading import PartReader
from entrepot.config.model import Copying, Sharing
from entrepot.config.reading import Bean
from entrepot.ha.lease import BACKUP, PRIMARY
from entrepot.ha.options import FILE_LOCKER

ZOOKEEPER: Final = "CuratorDistributedLockManager"
FILES: Final = "FileBasedLockManager"
FOLDER: Final = "locks-folder"
SERVERS: Final = "connect-string"
NAMESPACE: Final = "namespace"
TIMERS: Final = ("session-ms", "session-percent", "connection-ms", "retries", "retries-ms")
"""Of the session with ZooKeeper: here the lease decides, not the session."""


def sharing(reader: PartReader, core: Bean) -> Sharing | None:
    """Return how the store is shared, or replicated; None for a broker that stands alone."""
    policy = core.one("ha-policy")
    if policy is None:
        return None
    shared, copied = policy.one("shared-store"), policy.one("replication")
    if shared is not None:
        part = _part(reader, shared)
        return None if part is None else _shared(part)
    if copied is not None:
        part = _part(reader, copied)
        return None if part is None else _copied(reader, part)
    return None


def _part(reader: PartReader, policy: Bean) -> Bean | None:
    parts = policy.many("primary", "master", "backup", "slave")
    if len(parts) != 1:
        reader.error(policy, "a broker is a primary or a backup", "write <primary> or <backup>, not both")
        return None
    return parts[0]


def _shared(part: Bean) -> Sharing:
    backup = part.kind.name == "backup"
    return Sharing(
        part=BACKUP if backup else PRIMARY,
        failover_on_shutdown=bool(part.get("failover-on-shutdown", False)),
        allow_failback=bool(part.get("allow-failback", True)) if backup else False,
        restart_backup=bool(part.get("restart-backup", True)) if backup else True,
    )


def _copied(reader: PartReader, part: Bean) -> Sharing:
    """A store of its own. Its stop hands over to whoever is in sync, whatever its part (artemis.md 2.3)."""
    backup = part.kind.name == "replicated-backup"
    return Sharing(
        locker=_locker(reader, part),
        part=BACKUP if backup else PRIMARY,
        allow_failback=bool(part.get("allow-failback", False)) if backup else False,
        restart_backup=bool(part.get("restart-backup", True)) if backup else True,
        copies=Copying(
            kept=int(part.get("max-saved-replicated-journals-size", 2)),
            patience=int(part.get("initial-replication-sync-timeout", 30_000)) * MILLISECOND,
        ),
    )


def _locker(reader: PartReader, part: Bean) -> str:
    """Return the locker that stands for the ``<manager>``, `FILE_LOCKER` where the command line must say it."""
    manager = part.one("manager")
    name = quote(part.text("coordination-id"), safe="")
    if manager is None:
        return FILE_LOCKER
    kind = manager.text("class-name").rpartition(".")[2] or ZOOKEEPER
    held = manager.one("properties")
    told = {each.text("key"): each.text("value") for each in ([] if held is None else held.many("property"))}
    query = f"?name={name}" if name else ""
    if kind == ZOOKEEPER and told.get(SERVERS):
        _say_unused(reader, manager, [each for each in told if each not in (SERVERS, NAMESPACE)])
        return f"zookeeper://{told[SERVERS]}/{told.get(NAMESPACE) or 'entrepot'}{query}"
    if kind == FILES and told.get(FOLDER):
        _say_unused(reader, manager, [each for each in told if each != FOLDER])
        return f"file:{told[FOLDER].rstrip('/')}/{name or 'entrepot'}"
    if kind in (ZOOKEEPER, FILES):
        needed = SERVERS if kind == ZOOKEEPER else FOLDER
        reader.error(manager, f"{kind} is not told its {needed}", f'add <property key="{needed}" value="..."/>')
    else:
        remedy = "let voters of entrepot decide: leave <manager> out, and start it with --locker quorum:(...)"
        reader.error(manager, f"{kind!r} is a class of Java, and no locker is known for it", remedy)
    return FILE_LOCKER


def _say_unused(reader: PartReader, manager: Bean, names: list[str]) -> None:
    for name in names:
        if name in TIMERS:
            reader.warn(manager, f"{name} has no effect: the lease decides, not the session", "use --lease-duration")
        else:
            reader.error(manager, f"the lock manager has no property {name!r}", "take it out")
