"""Which of the checkout's two builds may run: the compiled copy while it matches the sources, else the sources.

A ``.so`` beside a ``.py`` shadows it, so compiled modules never land in ``src/``. They live in ``build/compiled/``, a
complete copy of the package, and a stamp there says from which bytes it was made. This module only compares; it is on
the way of every start of the development ``entrepot`` command and imports little. ``compiled_build`` does the work.

``python tools/source_tree.py`` prints the folder, for ``PYTHONPATH``.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Final, TypedDict

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src"
COMPILED: Final = ROOT / "build" / "compiled"
STAMP: Final = COMPILED / "build.json"


class FileMark(TypedDict):
    """What a file was: its size and time decide quickly, its hash decides for certain."""

    size: int
    mtime_ns: int
    sha256: str


class Stamp(TypedDict):
    """What ``build/compiled`` holds. ``compiled`` is False, with a reason, where there is no C compiler."""

    key: str
    compiled: bool
    reason: str
    files: dict[str, FileMark]


def read_stamp() -> Stamp | None:
    """Return what the compiled copy says of itself, or None when there is none."""
    try:
        stamp: Stamp = json.loads(STAMP.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return stamp


def package_files(tree: Path) -> dict[str, Path]:
    """Return the files of the package under ``tree``, by path from there, without caches and compiled modules."""
    found: dict[str, Path] = {}
    for folder, folders, names in os.walk(tree / "entrepot"):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix not in {".so", ".pyc"}:
                found[str(path.relative_to(tree))] = path
    return found


def mark(path: Path) -> FileMark:
    """Read a file and return its mark."""
    status = path.stat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return FileMark(size=status.st_size, mtime_ns=status.st_mtime_ns, sha256=digest)


def unchanged(path: Path, was: FileMark) -> bool:
    """Return whether a file still has the bytes that its mark describes; reads it only when its time moved."""
    status = path.stat()
    if status.st_size != was["size"]:
        return False
    return status.st_mtime_ns == was["mtime_ns"] or mark(path)["sha256"] == was["sha256"]


def compiled_is_fresh() -> bool:
    """Return whether ``build/compiled`` was made from exactly the sources that are there now, and is compiled."""
    stamp = read_stamp()
    if stamp is None or not stamp["compiled"]:
        return False
    files = package_files(SOURCE)
    return files.keys() == stamp["files"].keys() and all(
        unchanged(path, stamp["files"][name]) for name, path in files.items()
    )


def import_root() -> Path:
    """Return the folder to import entrepot from: the compiled copy if it is fresh and not declined, else ``src``."""
    declined = os.environ.get("ENTREPOT_PURE", "").lower() not in {"", "0", "no", "false"}
    return SOURCE if declined or not compiled_is_fresh() else COMPILED


if __name__ == "__main__":
    print(import_root())
