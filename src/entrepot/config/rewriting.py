"""A file that people have, and that is written anew: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def rewrite(file: Path, text: str, mode: int) -> None:
    """Have ``text`` in ``file``, on disk, with the rights ``mode``; a crash leaves what was there. Raises OSError."""
    import tempfile  # noqa: PLC0415 - every broker has folders whose names are synced, and few rewrite a file

    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            target.write(text)
            target.flush()
            os.fsync(target.fileno())
        os.chmod(name, mode)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
    sync_name(file)


def sync_name(file: Path) -> None:
    """Have the name of ``file``, which is there, on disk. Raises OSError."""
    folder = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def mode_of(file: Path) -> int:
    """Return the rights on ``file``. Raises OSError."""
    return file.stat().st_mode & 0o777
