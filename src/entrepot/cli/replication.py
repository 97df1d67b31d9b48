"""The options of `entrepot run --ha replication`, read together: what they mean, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import InvalidOption
from entrepot.ha.lease import BACKUP, DURATION, EITHER, PRIMARY, LeaseOptions
from entrepot.ha.options import FILE_LOCKER, SharedStoreOptions
from entrepot.ha.replication_options import PATIENCE, ReplicationOptions
from entrepot.ha.standing import SYNCED
from entrepot.io.copying import lock_directory
from entrepot.io.replica_wire import check_places
from entrepot.io.secret_file import read_secret

if TYPE_CHECKING:
    from entrepot.cli.backups import Slot
    from entrepot.config.model import Colocation, Copying, Sharing

KEPT: Final = 2


def replicated(
    given: Mapping[str, Any],
    locker: str | None,
    lease_duration: float | None,
    status: str | None,
    sharing: Sharing | None = None,
    connectors: Mapping[str, str] | None = None,
) -> SharedStoreOptions:
    """Return how the store is replicated. ``given``: option -> value, None or empty where it was not given.

    ``sharing``: what a file says; options win. ``connectors``: as in `SharedStoreOptions`.

    Raises InvalidOption.
    """
    for option in ("--replication", "--peer"):
        if not given[option]:
            raise InvalidOption(
                f"--ha replication needs {option}",
                remedy="say where replicas of this broker connect (--replication HOST:PORT), and where the other "
                "brokers of the store are (--peer HOST:PORT, for each)",
            )
    copies = None if sharing is None else sharing.copies
    if sharing is not None and copies is None:
        raise InvalidOption(
            "the file says that the store is shared, and the command line that it is replicated",
            remedy="write <replication> in the file, or leave --ha out",
        )
    locker = locker or (FILE_LOCKER if sharing is None else sharing.locker)
    lock_directory(locker)
    part, failback, restart = _part(given, sharing)
    options = ReplicationOptions(
        listen=given["--replication"],
        peers=tuple(given["--peer"]),
        confirm=given["--confirm"] or SYNCED,
        copies_min=2 if given["--copies"] is None else given["--copies"],
        bandwidth=given["--copy-limit"] or 0,
        secret=_secret(given["--replication-secret"]),
        certificate=str(given["--replication-certificate"] or ""),
        key=str(given["--replication-key"] or ""),
        trust=str(given["--replication-trust"] or ""),
        verify_host=not given["--replication-any-host"],
        by_lock=bool(given.get("--replication-by-lock")),
        **_written(copies, part),
    )
    if copies is not None:
        _refuse_votes(copies.quorum, locker)
    if options.copies_min > 1 + len(options.peers):
        raise InvalidOption(
            f"{options.copies_min} copies cannot be had from {1 + len(options.peers)} brokers",
            remedy="name more of them with --peer, or ask for fewer with --copies",
        )
    check_places(options)
    duration = DURATION if lease_duration is None else int(lease_duration * SECOND)
    return SharedStoreOptions(
        locker=locker,
        lease=LeaseOptions(duration),
        status=status or "",
        part=part,
        allow_failback=failback,
        restart_backup=restart,
        drains=gives_away(options, sharing, part),
        replication=options,
        connectors=connectors,
    )


def of_cluster(
    given: Mapping[str, Any],
    locker: str | None,
    lease_duration: float | None,
    status: str | None,
    sharing: Sharing | None,
    connectors: Mapping[str, str],
    *,
    hosting: Colocation | None,
    name: str,
    slot: Slot | None,
) -> SharedStoreOptions:
    """Return what `replicated` does, for a node that hosts copies of others as ``hosting`` says; None for no such node.

    ``name``: of this broker; ``slot``: which of those copies it is itself, None for the node.
    Raises InvalidOption.
    """
    if hosting is not None:
        from entrepot.cli.backups import colocated  # noqa: PLC0415 - few brokers need it

        given, locker = colocated(given, locker, sharing, hosting, name, slot)
    return replicated(given, locker, lease_duration, status, sharing, connectors)


def _written(copies: Copying | None, part: str) -> dict[str, Any]:
    """Return what a file says of copies, by the names of `ReplicationOptions`."""
    if copies is None:
        return {"kept": KEPT, "owns": part == PRIMARY}
    owns = part == PRIMARY and not copies.peers
    return {"kept": copies.kept, "patience": copies.patience or PATIENCE, "group": copies.group, "owns": owns}


def _refuse_votes(quorum: int, locker: str) -> None:
    """Raise InvalidOption where ``quorum`` votes can never be had from the voters of ``locker``."""
    if quorum <= 0 or not locker.startswith("quorum:"):
        return
    from entrepot.io.quorum import Place  # noqa: PLC0415 - few brokers have voters

    voters = len(Place(locker).addresses)
    if quorum > voters:
        raise InvalidOption(
            f"quorum-size asks for {quorum} votes, and --locker names {voters} voters: nobody could become primary",
            remedy="take quorum-size out (a majority of them decides), or name more voters",
        )


def _part(given: Mapping[str, Any], sharing: Sharing | None) -> tuple[str, bool, bool]:
    """Return what this broker is to others, whether it gives its store back, and then waits. Raises InvalidOption."""
    part = given["--part"] or (EITHER if sharing is None else sharing.part)
    failback = given["--failback"]
    if failback is None:
        failback = sharing is not None and sharing.allow_failback and part == BACKUP
    if failback and part != BACKUP:
        raise InvalidOption(
            f"--failback is of a backup, and this broker is {part}: it has nobody to give its store back to",
            remedy="say --part backup here, and --part primary on the broker that is to have the store",
        )
    return part, failback, sharing is None or sharing.restart_backup


def gives_away(options: ReplicationOptions, sharing: Sharing | None, part: str) -> bool:
    """Return whether this broker gives away what it takes over. Raises InvalidOption where it never could."""
    drains = sharing is not None and sharing.drains and part == BACKUP
    if drains and options.copies_min > len(options.peers):
        raise InvalidOption(
            f"<scale-down> gives nothing away while fewer than {options.copies_min} copies know of it, and without the "
            f"primary there are {len(options.peers)}",
            remedy="say --copies 1 (then this one may go alone), or add a replica, or take <scale-down> out",
        )
    return drains


def _secret(path: Path | None) -> str:
    try:
        return read_secret("" if path is None else str(path)).decode()
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"the secret in {path} is no text: {error}", remedy=f"openssl rand -hex 32 > {path}"
        ) from None
