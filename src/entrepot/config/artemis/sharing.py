"""Who stands in for whom, from ``<ha-policy>`` of a ``broker.xml`` (artemis.md 2.2 to 2.5)."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from entrepot.base.environment import MILLISECOND
from entrepot.config.artemis.peering import peering
from entrepot.config.artemis.reading import PartReader
from entrepot.config.hosted import port_of
from entrepot.config.model import Colocation, Copying, Sharing
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
BACKUPS_MAX: Final = 32  # each is a process of 45 MB and more
PORT_MAX: Final = 65_535
SYNC_MS: Final = 30_000  # initial-replication-sync-timeout


def sharing(reader: PartReader, core: Bean) -> Sharing | None:
    """Return how the store is shared, or replicated; None for a broker that stands alone."""
    policy = core.one("ha-policy")
    if policy is None:
        return None
    shared, copied = policy.one("shared-store"), policy.one("replication")
    for kind in (shared, copied):
        colocated = None if kind is None else kind.one("colocated")
        if kind is not None and colocated is not None:
            if kind.many("primary", "master", "backup", "slave"):
                reader.error(colocated, "it stands beside <primary> or <backup>", "write those inside it")
                return None
            return _colocated(reader, core, colocated, copies=kind is copied)
    if shared is not None:
        part = _part(reader, shared)
        return None if part is None else _shared(reader, core, part)
    if copied is not None:
        part = _part(reader, copied)
        return None if part is None else _copied(reader, core, part)
    return None


def _part(reader: PartReader, policy: Bean) -> Bean | None:
    parts = policy.many("primary", "master", "backup", "slave")
    if len(parts) != 1:
        reader.error(policy, "a broker is a primary or a backup", "write <primary> or <backup>, not both")
        return None
    return parts[0]


def _shared(reader: PartReader, core: Bean, part: Bean) -> Sharing:
    backup = part.kind.name == "backup"
    return Sharing(
        part=BACKUP if backup else PRIMARY,
        failover_on_shutdown=bool(part.get("failover-on-shutdown", False)),
        allow_failback=bool(part.get("allow-failback", True)) if backup else False,
        restart_backup=bool(part.get("restart-backup", True)) if backup else True,
        drains=backup and _drains(reader, core, part),
    )


def _drains(reader: PartReader, core: Bean, part: Bean) -> bool:
    """Return whether a backup gives away what it takes over."""
    given = part.one("scale-down")
    if given is None or not given.get("enabled", True):
        return False
    if not peering(core.element, reader.sources).clusters:
        what = "there is no cluster: nobody could take what this backup took over"
        reader.error(given, what, "add a <cluster-connection> with another broker, or take it out: the backup serves")
    return True


def _colocated(reader: PartReader, core: Bean, bean: Bean, *, copies: bool) -> Sharing:
    """A primary that hosts backups of other nodes, and has its own hosted. ``copies``: each has a store of its own."""
    primaries, backups = bean.many("primary", "master"), bean.many("backup", "slave")
    for named in (primaries, backups):
        if len(named) > 1:
            reader.error(named[1], "it is there twice", "take one out")
    offset, most = int(bean.get("backup-port-offset", 100)), int(bean.get("max-backups", 1))
    if not 0 <= most <= BACKUPS_MAX:
        reader.error(bean, f"{most} is no number of backups", f"use 0 to {BACKUPS_MAX}", "max-backups")
        most = 0
    if not 1 <= offset <= PORT_MAX:
        reader.error(bean, f"{offset} moves no port to a free one", "use 1 to 65535", "backup-port-offset")
        offset = 1
    retry_ms = int(bean.get("backup-request-retry-interval", 5_000))
    if retry_ms <= 0:
        reader.error(bean, f"{retry_ms} is no time, in ms", "use 1 and more", "backup-request-retry-interval")
        retry_ms = 5_000
    listed = bean.one("excludes")
    excluded = [] if listed is None else listed.many("connector-ref")
    _check_ports(reader, core, bean, {each.text("content"): each for each in excluded}, offset * most)
    made = _copied if copies else _shared
    alone, backup = _unsaid(copies=copies)
    return replace(
        made(reader, core, primaries[0]) if primaries else alone,
        colocation=Colocation(
            backup=made(reader, core, backups[0]) if backups else backup,
            requests=bool(bean.get("request-backup", False)),
            backups_max=most,
            retries=int(bean.get("backup-request-retries", -1)),
            retry_ms=retry_ms,
            port_offset=offset,
            excludes=tuple(each.text("content") for each in excluded),
        ),
    )


def _unsaid(*, copies: bool) -> tuple[Sharing, Sharing]:
    """Return what a primary and a backup are that the file says nothing about."""
    if copies:
        copying = Copying(patience=SYNC_MS * MILLISECOND)
        return Sharing(part=PRIMARY, copies=copying), Sharing(part=BACKUP, copies=copying)
    alone = Sharing(part=PRIMARY, failover_on_shutdown=False)
    return alone, Sharing(part=BACKUP, failover_on_shutdown=False, allow_failback=True)


def _check_ports(reader: PartReader, core: Bean, bean: Bean, excluded: dict[str, Bean], shift: int) -> None:
    """Say which ports a hosted backup cannot have, and which it would take for those of others.

    ``excluded``: connectors by name; ``shift``: how far the ports of the last one are moved.
    """
    others = peering(core.element, reader.sources)
    known = {one.name: one.uri for one in others.places}
    for name, each in excluded.items():
        if name not in known:
            reader.error(each, f"there is no connector {name!r}", "name one of <connectors>, or take it out")
    if not others.clusters:
        reader.warn(bean, "there is no cluster: nobody asks for a backup, or is asked", "add a <cluster-connection>")
    elif not others.cluster_password:
        what = "the cluster-password is the default, which everybody knows: no backup is hosted"
        reader.warn(bean, what, "set cluster-user and cluster-password, the same on every node")
    for one in others.clusters:
        if one.connector in excluded:
            what = f"a hosted backup would say that it is at {one.connector!r}, where this broker is"
            reader.error(excluded[one.connector], what, "exclude only connectors that lead to other brokers")
        for reference in one.connectors or ():
            if reference.name in known and reference.name not in excluded and reference.name != one.connector:
                what = f"a hosted backup dials {reference.name!r} at its port + backup-port-offset"
                reader.warn(bean, what, f"add <excludes><connector-ref>{reference.name}</connector-ref></excludes>")
    for listener in others.listeners:
        port = port_of(listener.uri)
        if port + shift > PORT_MAX:
            what = f"the acceptor {listener.name!r} would listen on {port + shift}, which is no port"
            reader.error(bean, what, "lower backup-port-offset or max-backups")


def _copied(reader: PartReader, core: Bean, part: Bean) -> Sharing:
    """A store of its own. Its stop hands over to whoever is in sync, whatever its part (artemis.md 2.3)."""
    backup, others = part.kind.name == "replicated-backup", peering(core.element, reader.sources)
    said = others.part
    if said is not None and said.cluster and said.cluster not in [one.name for one in others.clusters]:
        what = f"there is no cluster connection {said.cluster!r}"
        reader.warn(part, what, "name one, or take it out: it has no effect here", "cluster-name")
    _check_copied(reader, part)
    return Sharing(
        locker=_locker(reader, part),
        part=BACKUP if backup else PRIMARY,
        allow_failback=bool(part.get("allow-failback", False)) if backup else False,
        restart_backup=bool(part.get("restart-backup", True)) if backup else True,
        drains=backup and _drains(reader, core, part),
        copies=Copying(
            kept=int(part.get("max-saved-replicated-journals-size", 2)),
            patience=max(1, int(part.get("initial-replication-sync-timeout", SYNC_MS))) * MILLISECOND,
            group=part.text("group-name"),
            peers=bool(part.text("coordination-id")),
            quorum=-1 if said is None else said.quorum,
        ),
    )


def _check_copied(reader: PartReader, part: Bean) -> None:
    """Say what is wrong with the elements of a copy, or leads to something else than it looks."""
    timeout = int(part.get("initial-replication-sync-timeout", SYNC_MS))
    if timeout <= 0:
        reader.error(part, f"{timeout} is no time, in ms", "use 1 and more", "initial-replication-sync-timeout")
    if part.text("coordination-id") and part.one("manager") is None:
        what = "there is no <manager>: Artemis ignores the id then, and here --locker says which lock the peers have"
        reader.warn(part, what, "start both with the same --locker, or add <manager>", "coordination-id")


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
