"""Archives of the classes that Java loads: who starts with the same class path maps them, and reads and checks none.

A real broker is ready after half of the processor time. There is one archive for each class path in ``build/java``,
made by a process that ends in order. Java sees whether one fits (the same Java, the same jars) and goes without if not;
one that knows no such archives is asked once and never again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).resolve().parents[2] / "build" / "java"
QUIET: Final = "-Xlog:disable"  # what does not fit is said on standard output, which tests compare
AGENT: Final = "JAVA_TOOL_OPTIONS"  # with an agent in it Java makes no archive


def stamped(libraries: str) -> list[object]:
    """Return what stands for Java and for the jars of a class path: they change when one of them does."""
    found: list[object] = []
    for each in (shutil.which("java") or "", *libraries.split(":")):
        file = Path(each).resolve()  # what Maven fetched is a directory that is named by the versions in it
        found.append((str(file), file.is_file() and file.stat().st_mtime_ns))
    return found


def archive(class_path: str) -> Path:
    """Return where the archive for ``class_path`` is, or will be; an empty file says that there can be none."""
    return CACHE / f"{hashlib.sha256(repr(stamped(class_path)).encode()).hexdigest()[:16]}.jsa"


def taken(class_path: str) -> list[str]:
    """Return the options that take the archive: none, where there is none."""
    place = archive(class_path)
    return [QUIET, f"-XX:SharedArchiveFile={place}"] if place.is_file() and place.stat().st_size else []


@contextmanager
def made(class_path: str) -> Iterator[list[str]]:
    """Yield the options that make the archive, for a process that ends in order before this does.

    None are yielded where an archive is there, or is being made by somebody else.
    """
    place = archive(class_path)
    if place.exists() or AGENT in os.environ:
        yield []
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield []
            return
        if place.exists():
            yield []
            return
        work = place.with_suffix(f".{os.getpid()}")
        work.unlink(missing_ok=True)
        yield [QUIET, "-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={work}"]
        if not work.exists():
            work.touch()
        work.rename(place)
