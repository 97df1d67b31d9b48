"""What a process is that a node with ``<colocated>`` starts, and where the copies of such nodes find one another."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, urlencode

from entrepot.base.errors import InvalidOption
from entrepot.base.places import host_and_port
from entrepot.ha.options import FILE_LOCKER

if TYPE_CHECKING:
    from entrepot.config.model import Colocation, Sharing
    from entrepot.io.colocated import Housing
    from entrepot.io.standby import Standby
    from entrepot.node_options import NodeOptions

WILDCARDS: Final = ("", "0.0.0.0", "::", "[::]")
BY_LOCK: Final = "--replication-by-lock"
"""Not an option that anybody gives: places where copies of several stores answer are dialled, so the lock decides."""
DEFAULT: Final = "entrepot"  # the name of a lock that has none

log: Final = logging.getLogger("entrepot.ha")


class Slot(NamedTuple):
    """Which backup of its host a process is. ``owner``, ``place``: whose store it copies, from where; "" for none."""

    directory: Path
    number: int
    owner: str = ""
    place: str = ""


def slot_of(directory: Path | None, number: int) -> Slot | None:
    """Return what a process is that waits for the store in ``directory``; None for one that is no hosted backup."""
    if directory is None:
        return None
    from entrepot.io.hosted_copies import noted  # noqa: PLC0415 - few brokers are one

    found = noted(directory)
    return Slot(directory, number) if found is None else Slot(directory, number, found[0].owner, found[0].place)


def housing(colocation: Colocation | None, written: NodeOptions | None, standby: Standby) -> Housing | None:
    """Return what goes on with the copies that this broker hosted, while it waits for its own store; None: it has none.

    Without it two nodes could wait for one another for ever, each with the last copy of the other's store.
    """
    peering = None if written is None or written.config is None else written.config.peering
    copy = standby.copy
    if colocation is None or copy is None or peering is None or not peering.clusters:
        return None
    if peering.masked:
        log.warning(
            "%s goes on with no copies that it hosts: the cluster-password is masked, which is not read",
            standby.mine.name,
        )
        return None
    from entrepot.io.colocated import Housing, closed_by  # noqa: PLC0415 - few brokers need it

    own, command = str(standby.directory.resolve()), [sys.executable, *sys.orig_argv[1:]]
    closed = closed_by(peering.cluster_password)
    made = Housing(colocation.backups_max, command, own, store=lambda: copy.standing.store, closed=closed)
    standby.more["colocated"] = made.facts
    made.go_on()
    return made


def shifted_place(text: str, offset: int) -> str:
    """Return ``text``, HOST:PORT, with a port that is ``offset`` higher. Raises InvalidOption."""
    host, port = host_and_port(text, "10.0.0.1:61620")
    if not 0 < port + offset < 65_536 or not port:
        raise InvalidOption(
            f"{text} with a port {offset} higher is no place", remedy="lower backup-port-offset or max-backups"
        )
    return f"[{host}]:{port + offset}" if ":" in host else f"{host}:{port + offset}"


def lock_of(locker: str, owner: str) -> str:
    """Return the lock of the store of ``owner``, where all nodes of a cluster say the same ``locker``."""
    scheme, _, rest = locker.partition(":")
    if scheme == "file":
        return f"{locker.rstrip('/')}/{owner}" if rest else locker
    where, mark, query = locker.partition("?")
    said = parse_qs(query, keep_blank_values=True) if mark else {}
    said["name"] = [f"{said.get('name', [DEFAULT])[0]}-{owner}"]
    return f"{where}?{urlencode(said, doseq=True)}"


def colocated(
    given: Mapping[str, Any],
    locker: str | None,
    sharing: Sharing | None,
    colocation: Colocation,
    name: str,
    slot: Slot | None,
) -> tuple[dict[str, Any], str]:
    """Return the options of replication and the locker of one store, where nodes host one another's copies.

    ``given``: what is said of all stores of the cluster: ``--replication`` is where this node's own replicas connect,
    ``--peer`` where those of each other node do. A backup is as much higher as its other ports are.

    Raises InvalidOption.
    """
    for option in ("--part", "--failback"):
        if given[option] is not None:
            raise InvalidOption(f"{option} is said by <colocated> of the file", remedy=f"leave {option} out")
    for option in ("--replication", "--peer"):
        if not given[option]:
            return dict(given), locker or FILE_LOCKER  # whoever reads them says what is missing
    from entrepot.io.copying import lock_directory  # noqa: PLC0415 - few brokers need it

    own = given["--replication"]
    host, port = host_and_port(own, "10.0.0.1:61620")
    if host in WILDCARDS or not port:
        raise InvalidOption(
            f"--replication {own} is where the node that hosts this one's copy connects, and nobody can go there",
            remedy="say an address that the other nodes reach, and a port",
        )
    owner = name if slot is None else slot.owner
    _refuse_name(owner)
    locker = lock_of(locker or (FILE_LOCKER if sharing is None else sharing.locker), owner)
    _make(lock_directory(locker))
    copies = 2 if given["--copies"] is None else given["--copies"]
    if colocation.backup.drains and copies > 1:
        raise InvalidOption(
            f"a copy that is hosted gives nothing away while fewer than {copies} copies know of it, and without its "
            "primary there is one",
            remedy="say --copies 1, or take <scale-down> out of the <backup> of <colocated>",
        )
    spans = range(1, colocation.backups_max + 1)
    others = [shifted_place(peer, colocation.port_offset * each) for peer in given["--peer"] for each in spans]
    if slot is None:
        return {**given, "--peer": others, BY_LOCK: True}, locker
    listen = shifted_place(own, colocation.port_offset * slot.number)
    return {**given, "--replication": listen, "--peer": [slot.place, *others], BY_LOCK: True}, locker


def _make(folder: Path | None) -> None:
    """Have the directory of a lock that is a file, where that of all of them is there. Raises InvalidOption."""
    if folder is None or not folder.parent.is_dir():
        return  # whoever opens the lock says what is wrong
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InvalidOption(f"{folder} cannot be made: {error.strerror}", remedy="check --locker") from error


def _refuse_name(name: str) -> None:
    from entrepot.cluster.clusters.copied import NAME  # noqa: PLC0415 - few brokers need it

    if not NAME.fullmatch(name):
        raise InvalidOption(
            f"{name!r} cannot be in the name of a lock: letters, digits, '.', '_' and '-', 64 at most",
            remedy="give the node another name",
        )
