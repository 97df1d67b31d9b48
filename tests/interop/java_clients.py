"""Unmodified Java clients: the programs of `java/`, compiled against the client of Debian's ``activemq`` package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import classic

SOURCES: Final = Path(__file__).with_name("java")
NEEDED: Final = (
    "activemq-client.jar",
    "activemq-openwire-legacy.jar",
    "geronimo-jms_1.1_spec.jar",
    "slf4j-api.jar",
    "hawtbuf.jar",
    "geronimo-j2ee-management-1.1-spec.jar",
    "geronimo-jta-1.2-spec.jar",
)
NEWER: Final = "6.1.6"
PATIENCE_S: Final = 300


def unavailable() -> str:
    """Return why Java clients cannot run here, or nothing."""
    if not shutil.which("javac"):
        return "no javac on the PATH; Debian: apt install default-jdk-headless"
    missing = [name for name in NEEDED if not (Path("/usr/share/java") / name).exists()]
    if missing:
        return f"no {', '.join(missing)} under /usr/share/java; Debian: apt install activemq"
    return classic.unavailable()


class Program:
    """The programs, compiled into ``classes``; `run` returns what one printed."""

    def __init__(self, classes: Path, jars: Path | None = None) -> None:
        """``jars``: a directory with ``activemq-client`` 6, instead of Debian's 5; there JMS is ``jakarta.jms``."""
        self.options: list[str] = []  # of the virtual machine
        sources = sorted(SOURCES.glob("*.java"))
        if jars is None:
            self.path = ":".join([str(classes), *(f"/usr/share/java/{name}" for name in NEEDED)])
        else:
            self.path = f"{classes}:{jars}/*"
            for source in sources:
                (classes / source.name).write_text(source.read_text().replace("javax.jms", "jakarta.jms"))
            sources = [classes / source.name for source in sources]
        command = ["javac", "-nowarn", "-cp", self.path, "-d", str(classes), *map(str, sources)]
        subprocess.run(command, check=True, timeout=120)

    def command(self, name: str, *arguments: str) -> list[str]:
        return ["java", "-XX:TieredStopAtLevel=1", *self.options, "-cp", self.path, name, *arguments]

    def run(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            self.command(name, *arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout
