"""Java clients for the bench: whether they can run here, compiling them, starting them.

The programs are `java/*.java`, compiled against the client of Debian's ``activemq`` package, unmodified.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from brokers import BenchError

SOURCES: Final = Path(__file__).with_name("java")
JARS: Final = Path("/usr/share/java")
NEEDED: Final = (
    "activemq-client.jar",
    "activemq-openwire-legacy.jar",
    "geronimo-jms_1.1_spec.jar",
    "geronimo-j2ee-management-1.1-spec.jar",
    "geronimo-jta-1.2-spec.jar",
    "hawtbuf.jar",
    "slf4j-api.jar",
    "slf4j-nop.jar",  # the client's log lines are of no use here
)
MEMORY: Final = ("-Xms128M", "-Xmx512M")


def unavailable() -> str | None:
    """Why Java clients cannot run here, or None when they can."""
    for program in ("java", "javac"):
        if not shutil.which(program):
            return f"no {program} on the PATH; Debian: apt install default-jdk-headless"
    missing = [name for name in NEEDED if not (JARS / name).exists()]
    return f"no {', '.join(missing)} under {JARS}; Debian: apt install activemq" if missing else None


class JavaClients:
    """The compiled programs."""

    def __init__(self, build: Path) -> None:
        """`build`: where the classes are put, in a directory of their own."""
        self._classes = build / "bench-java"

    def build(self) -> None:
        """Compile when a class is older than its source. Raises BenchError when that fails."""
        sources = sorted(SOURCES.glob("*.java"))
        if all(self._is_fresh(source) for source in sources):
            return
        self._classes.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-nowarn", "-cp", self._path(), "-d", str(self._classes), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise BenchError(f"{' '.join(command)}:\n{done.stderr}")

    def command(self, name: str, *arguments: str) -> list[str]:
        """What to execute to run one of them."""
        return ["java", *MEMORY, "-cp", self._path(), name, *arguments]

    def _is_fresh(self, source: Path) -> bool:
        made = self._classes / f"{source.stem}.class"
        return made.exists() and made.stat().st_mtime >= source.stat().st_mtime

    def _path(self) -> str:
        return ":".join([str(self._classes), *(str(JARS / name) for name in NEEDED)])
