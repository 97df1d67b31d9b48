"""What a process and all below it take: processor time, and the most memory that one of each kind had."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

JAVA: Final = "java"
WORKER: Final = "worker"  # of Spark, in Python
PYTHON: Final = "python"  # any other


def family(root: int | None = None) -> dict[int, float]:
    """Return ``root`` (this process) and all below it, with the processor seconds that each used so far."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        parents[int(path.parent.name)] = int(fields[1])
        used[int(path.parent.name)] = sum(int(fields[at]) for at in range(11, 15)) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid() if root is None else root}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {process: used[process] for process in ours if process in used}


def processor_seconds(root: int | None = None) -> float:
    """Return what ``root`` (this process) and all below it used so far."""
    return sum(family(root).values())


def peak_mb(root: int | None = None) -> dict[str, int]:
    """Return the most memory that one process of each kind had, of those at or below ``root`` that are there now."""
    found = {JAVA: 0, WORKER: 0, PYTHON: 0}
    for process in family(root):
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            program = Path(f"/proc/{process}/exe").readlink().name  # a thread of Java that forks has a name of its own
        except OSError:
            continue  # it ended meanwhile
        said = dict(line.split(":", 1) for line in lines if ":" in line)
        kind = JAVA if program == "java" else WORKER if b"pyspark" in command else PYTHON
        found[kind] = max(found[kind], int(said.get("VmHWM", "0").split()[0]) // 1024)
    return found
