"""Where a node keeps the copies that it hosts for others, and what it remembers of them.

::

    DIR/hosted/STORE/               a data directory: of the process that is the backup
    DIR/hosted/STORE/hosted.json    whose copy it is, and which number it has here
    DIR/hosted/STORE/replica.json   made with the store's identity, so that it never becomes a copy of another one

A copy that counts may be the last one. So a node that begins anew goes on with those that it hosted, whether anybody
asks or not. Nothing here is deleted but by an operator, with the node stopped.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.cluster.clusters.copied import Copy, read_copy
from entrepot.config.rewriting import rewrite, sync_name
from entrepot.ha.lease import BACKUP
from entrepot.ha.standing import Standing, read_standing
from entrepot.io.copying import STANDING
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE

FOLDER: Final = "hosted"
NOTE: Final = "hosted.json"

log: Final = logging.getLogger("entrepot.ha")


def folder_of(own: Path, copy: Copy) -> Path:
    """Return the data directory of a copy at the broker whose own is ``own``."""
    return own / FOLDER / copy.store


def prepared(own: Path, store: str, copy: Copy, node: str, number: int) -> str:
    """Have a directory for a copy; return why there can be none, "" if it is there. ``store``: of this broker."""
    if copy.store == store:
        return "it is the store of this broker"
    folder = folder_of(own, copy)
    try:
        folder.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
        for name in (folder, folder.parent):  # else a power cut takes the directory, and what was confirmed, with it
            sync_name(name)
        rewrite(folder / NOTE, json.dumps({"copy": copy.text(), "node": node, "number": number}) + "\n", OWNER_FILE)
        try:
            standing = read_standing((folder / STANDING).read_bytes(), part=BACKUP, boot="")
        except FileNotFoundError:
            rewrite(folder / STANDING, Standing(os.urandom(8).hex(), store=copy.store).encode().decode(), OWNER_FILE)
        else:
            if standing.store != copy.store:
                return f"{folder} is a copy of another store, {standing.store}"
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"
    except EntrepotError as error:
        return f"{folder}: {error.message}"
    return ""


def noted(folder: Path) -> tuple[Copy, str, int] | None:
    """Return whose copy a directory is, at which node, with which number; None where it is no copy that is hosted."""
    try:
        facts = json.loads((folder / NOTE).read_bytes())
        copy = read_copy(str(facts["copy"]))
        return None if copy is None else (copy, str(facts["node"]), int(facts["number"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s does not say whose copy it is: %r", folder / NOTE, error)
        return None


def remembered(own: Path) -> list[tuple[Copy, str, int]]:
    """Return what was hosted at the broker whose directory is ``own``, in the order of its numbers."""
    try:
        folders = sorted((own / FOLDER).iterdir())
    except OSError:
        return []
    found = [one for each in folders if (one := noted(each)) is not None and each == folder_of(own, one[0])]
    return sorted(found, key=lambda one: one[2])
