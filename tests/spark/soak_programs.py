"""Who runs the queries of the kill harness: a process that is killed with its Java, and started again."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Final

import pyarrow.dataset
import pyspark

import entrepot
from pairs import free_port
from spark.soak_places import Place
from spark.stand import QUICK

DRIVER: Final = Path(__file__).with_name("soak_driver.py")
SUPERVISOR: Final = Path(__file__).with_name("soak_supervisor.py")
PATIENCE: Final = 300.0  # s to end in order
GONE: Final = "is settled"  # what a query says whose batch the broker does not have any more: it never gets better
ROOT: Final = Path(__file__).resolve().parents[2]


def unpacked() -> Path:
    """Return a home of Spark whose Python is no archive.

    Python compiles what it finds in one each time that it starts: a second of work for each worker. Spark gives a
    worker of a source ten seconds, which is less than that takes on a machine that does much else.
    """
    package = Path(pyspark.__file__).parent
    home = ROOT / "build" / f"spark-{pyspark.__version__}-unpacked"
    if not home.exists():
        home.parent.mkdir(exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=home.parent))
        for one in package.iterdir():
            if one.name != "python":
                (made / one.name).symlink_to(one)
        library = made / "python" / "lib"
        library.mkdir(parents=True)
        for archive in (package / "python" / "lib").glob("*.zip"):
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(library / archive.name)
        compileall.compile_dir(library, quiet=2)
        try:
            made.rename(home)
        except OSError:  # another run was first
            shutil.rmtree(made)
    return home


class Program:
    """A process and its file of settings. ``place``: the brokers that its queries read."""

    def __init__(self, home: Path, place: Place, master: str, *, on_receipt: bool) -> None:
        """``on_receipt``: the source settles what a task has read, which the harness must find out."""
        self.home = home
        self.place = place
        self.master = master
        self.on_receipt = on_receipt
        self.process: subprocess.Popen[bytes] | None = None
        self.settings = {**QUICK, "spark__local__dir": str(home / "scratch"), "spark__network__timeout": "120s"}
        if master.startswith("spark://"):
            self.settings["spark__executor__memory"] = "768m"  # a worker has 1 GiB

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment["PYTHONPATH"] = str(Path(entrepot.__file__).resolve().parent.parent)  # it works in another folder
        environment["SPARK_HOME"] = str(unpacked())
        with (self.home / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.home
            )

    def kill(self) -> None:
        """Kill the process and its JVM; the Python workers find out by themselves."""
        if self.process is None:
            return
        pids = [pid for pid in descendants(self.process.pid) if "java" in command_of(pid)]
        for pid in [self.process.pid, *pids]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)
        self.process = None

    def goes_on(self) -> bool:
        return self.process is None or self.process.poll() is None

    def runs(self) -> bool:
        """Return whether the queries run."""
        raise NotImplementedError

    def finish(self) -> None:
        """Let it end in order. Raises AssertionError when it does not."""
        raise NotImplementedError

    def carried(self) -> list[str]:
        """Return what became of ``in``, once it has ended."""
        raise NotImplementedError

    def archived(self) -> list[str]:
        """Return what became of ``archive``, once it has ended."""
        raise NotImplementedError

    def told(self) -> str:
        # What workers say that were killed is long, and comes behind what the driver said.
        return (self.home / "driver.log").read_text(errors="replace")[-30_000:]


class Queries(Program):
    """`soak_driver.py`: ``in`` is carried to ``out``, ``archive`` is landed."""

    def command(self) -> list[str]:
        given = {
            "home": str(self.home),
            "url": self.place.url,
            "format": "entrepot-on-receipt" if self.on_receipt else "entrepot",
            "source": self.place.more,
            "settings": self.settings,
            "master": self.master,
        }
        file = self.home / "configuration.json"
        file.write_text(json.dumps(given))
        (self.home / "started").unlink(missing_ok=True)
        return [sys.executable, str(DRIVER), str(file)]

    def runs(self) -> bool:
        return (self.home / "started").exists()

    def finish(self) -> None:
        (self.home / "finish").touch()
        assert self.process is not None
        assert self.process.wait(PATIENCE) == 0, self.told()

    def carried(self) -> list[str]:
        return self.place.carried()

    def archived(self) -> list[str]:
        return (self.home / "ids").read_text().split("\n")


FILE: Final = """
checkpoints = "state"
master = "{master}"
memory = "600m"
metrics = "127.0.0.1:{metrics}"
[restart]
first = 0.2
longest = 2
[source]
url = "{url}"
failoverTimeout = 30000
connectTimeout = 2000
maxMessagesPerTrigger = 1000
minPartitions = 2
columns = "text,position"
{more}
[spark]
{settings}
"""
FLOW: Final = """
[[land]]
name = "{name}"
path = "data/{name}"
every = "0 seconds"
[land.source]
queue = "{name}"
"""


class Landing(Program):
    """`entrepot pipeline land`: ``in`` and ``archive`` are both landed."""

    def __init__(self, home: Path, place: Place, master: str, *, on_receipt: bool) -> None:
        super().__init__(home, place, master, on_receipt=on_receipt)
        self._metrics = free_port()

    def command(self) -> list[str]:
        settings = "\n".join(f'"{name.replace("__", ".")}" = "{value}"' for name, value in self.settings.items())
        more = "\n".join(f'{name} = "{value}"' for name, value in self.place.more.items())
        text = FILE.format(master=self.master, metrics=self._metrics, url=self.place.url, settings=settings, more=more)
        (self.home / "land.toml").write_text(text + "".join(FLOW.format(name=name) for name in ("in", "archive")))
        program = [str(SUPERVISOR)] if self.on_receipt else ["-m", "entrepot"]
        return [sys.executable, *program, "pipeline", "land", "land.toml"]

    def goes_on(self) -> bool:
        """Return whether it lives; it would try for ever what never gets better."""
        return super().goes_on() and GONE not in self.told()

    def runs(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/health/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def finish(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.told()

    def carried(self) -> list[str]:
        return landed(self.home / "data/in")

    def archived(self) -> list[str]:
        return landed(self.home / "data/archive")


def landed(place: Path) -> list[str]:
    """Return the texts of the files that Spark's log has: others belong to a batch that is not done."""
    log = (place / "_spark_metadata").glob("[0-9]*")
    said = {json.loads(line)["path"] for one in log for line in one.read_text().splitlines()[1:]}
    files = [path.removeprefix("file://") for path in sorted(said)]
    return [str(text) for text in pyarrow.dataset.dataset(files).to_table().column("text").to_pylist()]


def descendants(pid: int) -> list[int]:
    """Return all processes below ``pid``."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
