"""Programs in Go that use what others wrote, built once into ``build/go`` and taken from there afterwards."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

AMQP: Final = Path(__file__).with_name("go")
TELEGRAF: Final = Path(__file__).with_name("go_telegraf")
CACHE: Final = Path(__file__).resolve().parents[2] / "build" / "go"
PATIENCE_S: Final = 120
TELEGRAF_S: Final = 540  # a hundred modules of others, on a machine that does other things


class Unavailable(Exception):
    """Why there is no program."""


def program(sources: Path = AMQP, patience_s: float = PATIENCE_S) -> Path:
    """Return the program that is made of ``sources``. Raises Unavailable."""
    files = sorted(sources.iterdir())
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
            cwd=sources,
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"go did not build {sources.name} within {patience_s:.0f} s") from None
    if made.returncode:
        raise Unavailable(f"go cannot build the program: {made.stderr[-400:]}")
    return place


def module(sources: Path, name: str) -> Path:
    """Return where the files of a module that ``sources`` need are. Raises Unavailable."""
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", name]
    told = subprocess.run(asked, cwd=sources, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if told.returncode or not told.stdout.strip():
        raise Unavailable(f"go has no files of {name}: {told.stderr[-400:]}")
    return Path(told.stdout.strip())
