"""Clients of AMQP in Go: the program of `go/`, built once into ``build/go`` and taken from there afterwards."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).with_name("go")
CACHE: Final = Path(__file__).resolve().parents[2] / "build" / "go"
PATIENCE_S: Final = 120


class Unavailable(Exception):
    """Why there is no program."""


def program() -> Path:
    """Return the program. Raises Unavailable."""
    files = sorted(SOURCES.iterdir())
    place = CACHE / hashlib.sha256(b"\0".join(each.read_bytes() for each in files)).hexdigest()[:16]
    if place.is_file():
        return place
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no go on the PATH")
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        made = subprocess.run(
            [go, "build", "-o", place, "."],
            cwd=SOURCES,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable("go did not bring go-amqp in time") from None
    if made.returncode:
        raise Unavailable(f"go cannot build the program: {made.stderr[-400:]}")
    return place
