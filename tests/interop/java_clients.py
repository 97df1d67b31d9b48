"""Unmodified Java clients: the programs of `java/`, compiled against the client of Debian's ``activemq`` package."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import classic
import shared_classes

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
    """The programs, compiled; `run` returns what one printed."""

    def __init__(self, jars: Path | None = None) -> None:
        """``jars``: a directory with ``activemq-client`` 6, instead of Debian's 5; there JMS is ``jakarta.jms``."""
        self.options: list[str] = []  # of the virtual machine
        libraries = ":".join(f"/usr/share/java/{name}" for name in NEEDED) if jars is None else f"{jars}/*"
        sources = {each.name: each.read_text() for each in sorted(SOURCES.glob("*.java"))}
        if jars is not None:
            sources = {name: text.replace("javax.jms", "jakarta.jms") for name, text in sources.items()}
        self.path = f"{compiled(sources, libraries)}:{libraries}"

    def command(self, name: str, *arguments: str) -> list[str]:
        return ["java", "-XX:TieredStopAtLevel=1", *self.options, "-cp", self.path, name, *arguments]

    def run(self, name: str, *arguments: str) -> str:
        return run(self.command(name, *arguments))


def run(command: list[str], env: dict[str, str] | None = None) -> str:
    """Return what a program printed that ended well; ``env``: more of its environment."""
    environment = {**os.environ, **(env or {})}
    done = finished(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def finished(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself, as `subprocess.run` does, with the classes that one before it loaded."""
    java, *arguments = command
    if "-cp" not in arguments:  # a program of another language
        return subprocess.run(command, **how)
    class_path = command[command.index("-cp") + 1]
    with shared_classes.made(class_path) as making:
        return subprocess.run([java, *(making or shared_classes.taken(class_path)), *arguments], **how)


def compiled(sources: dict[str, str], libraries: str) -> Path:
    """Return a jar with the classes of ``sources``: compiled once (3 s), then taken from ``build/java``."""
    made_of = [sources, *shared_classes.stamped(libraries)]
    key = hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    place = shared_classes.CACHE / f"{key}.jar"
    if place.is_file():
        return place
    work = shared_classes.CACHE / f"{key}.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    (work / "classes").mkdir(parents=True)
    for name, text in sources.items():
        (work / name).write_text(text)
    command = ["javac", "-nowarn", "-cp", libraries, "-d", str(work / "classes")]
    subprocess.run([*command, *(str(work / name) for name in sources)], check=True, timeout=120)
    made = shutil.make_archive(str(work / "classes"), "zip", work / "classes")  # Java archives no classes of folders
    Path(made).rename(place)  # as good as that of another worker, if one was quicker
    shutil.rmtree(work)
    return place
