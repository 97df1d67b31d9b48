"""One data directory of several processes: a store for each below it, by number, and a note that says so.

The note is what keeps a broker that is started alone from serving an empty store beside full ones; and a start with
fewer processes from leaving out a store that has messages.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import StoreUnusable
from entrepot.io.lock import HELD, OWNER_DIRECTORY, OWNER_FILE

if TYPE_CHECKING:
    from entrepot.config.processes import ProcessPlan

NOTE: Final = "processes.json"
JOURNAL: Final = "journal"  # the folder that makes a directory a store
SOCKETS: Final = "sockets"
PLAN: Final = "plan.json"
LEFT: Final = (".sock", ".ask", ".json", ".tmp")
PASSING: Final = "entrepot-processes-"
"""How a meeting place in the directory for temporary files begins: nobody starts there again."""
TRIES: Final = 50
PAUSE: Final = 0.02  # s
PROCESSES_MAX: Final = 64
"""Each keeps a connection to each other, and a queue for it."""
SOCKET_PATH_MAX: Final = 107
"""Octets of the path of a unix socket (unix(7)), without the zero behind it."""


def refuse_parts(directory: Path) -> None:
    """Raise StoreUnusable where ``directory`` has the stores of several processes, and one broker was to use it."""
    if (directory / NOTE).exists():
        raise StoreUnusable(
            f"{directory} has the stores of {noted(directory)} processes, not that of one broker",
            remedy=f"start it with --processes {noted(directory)}, or give this broker another directory",
        )


def refuse_whole(directory: Path) -> None:
    """Raise StoreUnusable where ``directory`` is the store of one broker, and several were to have theirs below it."""
    if (directory / JOURNAL).is_dir():
        raise StoreUnusable(
            f"{directory} is the store of one broker, and --processes has a store for each process below it",
            remedy=f"stop that broker, and make it the first of them: mkdir {directory}/0 && mv {directory}/journal "
            f"{directory}/blobs {directory}/0",
        )


def noted(directory: Path) -> int:
    """Return with how many processes ``directory`` was last started; 0 where it never was."""
    try:
        return int(json.loads((directory / NOTE).read_text())["processes"])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreUnusable(
            f"{directory / NOTE} cannot be read: {error}",
            remedy='write {"processes": N} with the number of processes into it',
        ) from None


def note(directory: Path, count: int) -> None:
    """Note that ``directory`` has the stores of ``count`` processes. On disk when this returns."""
    directory.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
    write_private(directory / NOTE, json.dumps({"processes": count}) + "\n")


def beyond(directory: Path, count: int) -> list[int]:
    """Return the numbers of stores below ``directory`` that ``count`` processes would leave out."""
    if not directory.is_dir():
        return []
    found = (one.name for one in directory.iterdir() if (one / JOURNAL).is_dir())
    return sorted(int(name) for name in found if name.isascii() and name.isdigit() and int(name) >= count)


def meeting_place(directory: Path | None) -> Path:
    """Make and return the directory for the sockets of the processes: below ``directory``, unless its path is too long.

    The kernel limits the path of a socket. Nobody else may look into it.
    """
    place = None if directory is None else directory.resolve() / SOCKETS
    if place is None or len(os.fsencode(place / f"{PROCESSES_MAX}.sock")) > SOCKET_PATH_MAX:
        from tempfile import gettempdir, mkdtemp  # noqa: PLC0415 - a broker alone needs none

        sweep(Path(gettempdir()))
        return Path(mkdtemp(prefix=PASSING))
    place.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
    place.chmod(OWNER_DIRECTORY)
    return place


def clear(place: Path) -> None:
    """Remove what earlier processes left at the meeting ``place``."""
    for one in place.iterdir():
        if one.suffix in LEFT or one.name.startswith("."):  # the last: a draft that a kill left
            one.unlink(missing_ok=True)


def leave(place: Path) -> None:
    """Remove the meeting ``place``."""
    clear(place)
    place.rmdir()


@contextmanager
def held(place: Path) -> Iterator[None]:
    """Have the meeting ``place`` while its processes run: the kernel lets go of it when this one is killed."""
    descriptor = _locked(place)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def turn_off(place: Path) -> None:
    """Remove the meeting ``place`` if who made it is gone, and no process is there any more.

    For a process that ends because the first one did: call it when its own socket is gone. A place below a data
    directory stays: the next start clears it.
    """
    if not place.name.startswith(PASSING):
        return
    with suppress(OSError):  # another of the processes was quicker
        descriptor = _awaited(place)
        try:
            if descriptor is not None and not any(one.suffix == ".sock" for one in place.iterdir()):
                leave(place)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def sweep(directory: Path) -> None:
    """Remove meeting places of ours below ``directory`` whose processes were all killed at once."""
    for place in directory.glob(f"{PASSING}*"):
        with suppress(OSError):  # another user's, or somebody removes it beside us
            state = place.lstat()
            if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or not (place / PLAN).is_file():
                continue
            descriptor = _locked(place)
            if descriptor is None:
                continue
            try:
                if not any(_listens(one) for one in place.glob("*.sock")):
                    leave(place)
            finally:
                os.close(descriptor)


def _awaited(place: Path) -> int | None:
    """Return as `_locked`, after `TRIES` looks: another process that ends has it for a moment, a first one for long."""
    for _ in range(TRIES):
        descriptor = _locked(place)
        if descriptor is not None:
            return descriptor
        time.sleep(PAUSE)
    return None


def _locked(place: Path) -> int | None:
    """Return a descriptor that has the lock of ``place``, None where another has it. Raises OSError."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in HELD:
            return None
        raise
    return descriptor


def _listens(path: Path) -> bool:
    """Return whether a process listens at a socket: one that a kill left refuses."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:  # it has no time for us now
            return True
        return True


def keep(plan: ProcessPlan) -> Path:
    """Write ``plan`` where its processes read it, and return that file: no command line shows a password."""
    from msgspec.json import encode  # noqa: PLC0415 - a broker alone needs none

    file = Path(plan.sockets) / PLAN
    write_private(file, encode(plan).decode())
    return file


def kept(file: Path) -> ProcessPlan:
    """Return the plan in ``file``. Raises OSError; msgspec.DecodeError for what no process of ours wrote."""
    from msgspec.json import decode  # noqa: PLC0415 - as above

    from entrepot.config.processes import ProcessPlan  # noqa: PLC0415 - see `entrepot.artemis`

    return decode(file.read_bytes(), type=ProcessPlan)


def write_private(file: Path, text: str) -> None:
    """Write ``file`` whole or not at all, for its owner alone; on disk when this returns."""
    from entrepot.config.rewriting import rewrite  # noqa: PLC0415 - a broker alone needs none

    rewrite(file, text, OWNER_FILE)


def told(plan: ProcessPlan) -> Sequence[dict[str, object] | None]:
    """Return what each process said when it was ready, None for one that is not (any more)."""
    found: list[dict[str, object] | None] = []
    for number in range(plan.count):
        try:
            said = json.loads(Path(plan.ports_file(number)).read_text())
        except (OSError, ValueError):
            said = None
        found.append(said if isinstance(said, dict) else None)
    return found
