"""JavaScript libraries from npm, installed once into ``build/npm`` and taken from there afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).resolve().parents[2] / "build" / "npm"
PATIENCE_S: Final = 180
OPTIONS: Final = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-save")


class Unavailable(Exception):
    """Why there are no libraries."""


def modules(*wanted: str) -> Path:
    """Return a directory whose ``node_modules`` hold ``wanted`` (``name@version``). Raises Unavailable."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Unavailable(f"no {program} on the PATH; Debian: apt install npm")
    place = CACHE / hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]
    if place.is_dir():
        return place
    work = CACHE / f"{place.name}.{os.getpid()}"
    work.mkdir(parents=True)
    command = ["npm", "install", "--prefix", str(work), *OPTIONS, *wanted]
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        shutil.rmtree(work, ignore_errors=True)
        raise Unavailable(f"npm did not bring {', '.join(wanted)} within {PATIENCE_S} s") from None
    if done.returncode:
        shutil.rmtree(work)
        raise Unavailable(f"no npm registry has {', '.join(wanted)}: {done.stderr[-300:]}")
    try:
        work.rename(place)
    except OSError:  # another test run was quicker
        assert place.is_dir()
        shutil.rmtree(work)
    return place


def link(home: Path, *wanted: str) -> None:
    """Let programs in ``home`` find ``wanted``. Raises Unavailable."""
    (home / "node_modules").symlink_to(modules(*wanted) / "node_modules")
