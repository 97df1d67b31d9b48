"""How each broker under measurement is launched, found ready, weighed and ended: one small class per broker.

A recipe says whether its broker can run here and with which command; `Running` is one process of it. Only processes
started here are ended, by their process id. Nothing listens anywhere but on 127.0.0.1, on ports that were free a moment
before. Every broker gets the same treatment: own empty directory, log in a file, and "ready" means that a STOMP CONNECT
was answered with CONNECTED.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
READY_POLL_S: Final = 0.002  # a refused connect on loopback costs 50 us: 2.5 % of one core while a broker starts
STOP_PATIENCE_S: Final = 30.0
LOG_TAIL_LINES: Final = 15
CLASSIC_JARS: Final = (
    "/usr/share/activemq/lib/*.jar",
    "/usr/share/activemq/lib/optional/*.jar",
    "/usr/share/java/activemq-spring.jar",  # the package links it into no directory of its own
)
CLASSIC_MEMORY: Final = ("-Xms64M", "-Xmx1G")  # what the start script of ActiveMQ itself gives the machine

CPUCLOCK_SCHED: Final = 2
"""The clock of what a process has run, as clock_getcpuclockid(3) makes its number."""


class BenchError(Exception):
    """A measurement that cannot be made; the text says what happened and what to do."""


@dataclass(frozen=True)
class Weight:
    """Memory of one process in bytes, from /proc: resident, proportional, and the highest resident so far."""

    rss: int
    pss: int
    peak: int


@dataclass(frozen=True)
class Ports:
    """Where one broker listens; 0 where it does not."""

    stomp: int
    openwire: int = 0

    @classmethod
    def free(cls, *, openwire: bool = False) -> Ports:
        """Ports of loopback that nothing listens on now."""
        return cls(free_port(), free_port() if openwire else 0)


def processor_s(pid: int) -> float:
    """Return s of processor that all threads of a process have had since exec; /proc/PID/stat knows only hundredths."""
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


class Running:
    """One broker process; owns it from start to end."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], ports: Ports, log: Path, started: float) -> None:
        self.name = name
        self.pid = process.pid
        self.port = ports.stomp
        self.openwire = f"tcp://{HOST}:{ports.openwire}"  # nobody listens there when it was not asked for
        self.ready_after_s = 0.0
        self._process = process
        self._log = log
        self._started = started

    def await_ready(self, patience_s: float) -> None:
        """Wait for CONNECTED and note the seconds since exec. Raises BenchError when it ends or takes longer."""
        while not answers_stomp(self.port):
            if self._process.poll() is not None:
                raise BenchError(f"{self.name} ended with status {self._process.returncode}:\n{self.log_tail()}")
            if time.monotonic() - self._started > patience_s:
                raise BenchError(f"{self.name} did not accept STOMP within {patience_s:.0f} s:\n{self.log_tail()}")
            time.sleep(READY_POLL_S)
        self.ready_after_s = time.monotonic() - self._started

    def weigh(self) -> Weight:
        """Memory now."""
        rollup = _proc_fields(Path(f"/proc/{self.pid}/smaps_rollup"))
        return Weight(rollup["Rss"], rollup["Pss"], _proc_fields(Path(f"/proc/{self.pid}/status"))["VmHWM"])

    def cpu_s(self) -> float:
        """Processor seconds of all threads since exec."""
        return processor_s(self.pid)

    def stop(self, patience_s: float = STOP_PATIENCE_S) -> None:
        """End the process: asked first, killed after ``patience_s``."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Kill -9, and wait until the process is gone."""
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-LOG_TAIL_LINES:]) or "    (it printed nothing)"


class Broker(ABC):
    """A recipe; holds no process."""

    name: str
    title: str

    @abstractmethod
    def unavailable(self) -> str | None:
        """Why this broker cannot run here, or None when it can."""

    @abstractmethod
    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        """What to execute for a broker that keeps its files under `home` and listens on `ports`.

        The one for STOMP must open last: it tells that the broker is ready.
        `fast_fill` permits durable writes without a sync, where filling a store is not what is measured.
        `bridge_to` is the OpenWire port of another broker of the same kind, to be bridged to with default options.
        """

    def describe(self) -> dict[str, str]:
        """Versions and settings for the record."""
        return {}

    @contextmanager
    def running(
        self,
        home: Path,
        *,
        patience_s: float = 60.0,
        fast_fill: bool = False,
        ports: Ports | None = None,
        bridge_to: int = 0,
    ) -> Iterator[Running]:
        """A ready broker on `home`, which may hold an earlier run's files; stopped at the end whatever happens.

        Without `ports` it gets a free one, and speaks STOMP only.
        """
        home.mkdir(parents=True, exist_ok=True)
        ports = ports or Ports.free()
        command = self.command(home, ports, fast_fill=fast_fill, bridge_to=bridge_to)
        log = home / "broker.log"
        with log.open("ab") as output:
            started = time.monotonic()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        broker = Running(self.title, process, ports, log, started)
        try:
            broker.await_ready(patience_s)
            yield broker
        finally:
            broker.stop()


class Entrepot(Broker):
    """This project's broker, from the interpreter that runs the bench unless told otherwise."""

    name = "entrepot"
    title = "entrepot"

    def __init__(self, command: str | None = None) -> None:
        self._command = shlex.split(command) if command else [sys.executable, "-m", "entrepot"]

    def unavailable(self) -> str | None:
        try:
            asked = subprocess.run(
                [*self._command, "run", "--help"], capture_output=True, text=True, timeout=30, check=False
            )
        except OSError as problem:
            return f"{self._command[0]}: {problem.strerror}"
        if asked.returncode == 0:
            return None
        return (asked.stderr.strip().splitlines() or [f"exit status {asked.returncode}"])[-1]

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        listen = ["--listen", f"openwire://{HOST}:{ports.openwire}"] if ports.openwire else []
        listen += ["--listen", f"stomp://{HOST}:{ports.stomp}"]
        if bridge_to:
            listen += ["--name", "a", "--connect", f"static:(tcp://{HOST}:{bridge_to})?initialReconnectDelay=100"]
        return [*self._command, "run", *listen, "--data", str(home / "data")]

    def describe(self) -> dict[str, str]:
        question = "from entrepot.base.compiled import build_name; print(build_name())"
        asked = subprocess.run(
            [self._command[0], "-c", question], capture_output=True, text=True, timeout=30, check=False
        )
        return {"command": shlex.join(self._command), "build": asked.stdout.strip() or "unknown"}


class Before(Entrepot):
    """Another build of this project's broker, to compare with."""

    name = "before"
    title = "before"


class ActiveMQ(Broker):
    """ActiveMQ Classic as Debian packages it, started as `java` with a configuration written for the purpose.

    Defaults of the product wherever a default exists; no JMX, as in the package's own configuration. Heap as in the
    product's start script.
    """

    name = "activemq"
    title = "ActiveMQ Classic"

    def unavailable(self) -> str | None:
        if not shutil.which("java"):
            return "no java on the PATH; Debian: apt install activemq"
        if not self.jars():
            return "no /usr/share/activemq/lib; Debian: apt install activemq"
        return None

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        configuration = home / "activemq.xml"
        sync = "never" if fast_fill else "always"
        agent = f"static:(tcp://{HOST}:{bridge_to})?initialReconnectDelay=100"
        networks = f'<networkConnectors><networkConnector name="NC" uri="{agent}"/></networkConnectors>'
        configuration.write_text(f"""\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
                           http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
                           http://activemq.apache.org/schema/core
                           http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="{"a" if bridge_to else "bench"}" useJmx="false"
          dataDirectory="{home}/data">
    <persistenceAdapter><kahaDB directory="{home}/kahadb" journalDiskSyncStrategy="{sync}"/></persistenceAdapter>
    {networks if bridge_to else ""}
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://{HOST}:{ports.openwire or free_port()}"/>
      <transportConnector name="stomp" uri="stomp://{HOST}:{ports.stomp}"/>
    </transportConnectors>
  </broker>
</beans>
""")
        places = [f"-Dactivemq.{place}={home}" for place in ("home", "base", "conf", "data")]
        return [
            "java", *CLASSIC_MEMORY, "-cp", ":".join(self.jars()), *places,
            "org.apache.activemq.console.Main", "start", f"xbean:{configuration.as_uri()}",
        ]  # fmt: skip

    def describe(self) -> dict[str, str]:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
        versions = sorted(jar.stem for jar in Path("/usr/share/java").glob("activemq-broker-*.jar"))
        return {
            "version": versions[-1].removeprefix("activemq-broker-") if versions else "unknown",
            "java": java.splitlines()[0] if java else "unknown",
            "heap": " ".join(CLASSIC_MEMORY),
            "store": "KahaDB, journalDiskSyncStrategy=always",
        }

    @staticmethod
    def jars() -> list[str]:
        """The product, as Debian installs it."""
        root = Path("/")
        return [str(jar) for pattern in CLASSIC_JARS for jar in sorted(root.glob(pattern.removeprefix("/")))]


def free_port() -> int:
    """A port of loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers_stomp(port: int) -> bool:
    """Whether a CONNECT sent to this port is answered with CONNECTED (within two seconds)."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as link:
            if link.getsockname() == link.getpeername():  # the kernel joined a connecting port to itself
                return False
            link.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n\n\0")
            return link.recv(64).lstrip().startswith(b"CONNECTED")
    except OSError:
        return False


def _proc_fields(path: Path) -> dict[str, int]:
    fields = {}
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            fields[name] = int(value.split()[0]) * 1024
    return fields
