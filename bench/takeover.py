"""How long clients wait when the master of a pair dies, or stops in good order; beside ActiveMQ Classic.

    python bench/takeover.py [--messages 100000] [--rate 5000] [--rounds 5] [--only entrepot]

Two brokers share a directory that holds ``--messages`` messages of 1 KiB; a producer sends ``--rate`` persistent ones a
second with 50 in flight, a receipt for each. Each round ends the master and measures from that moment until the other
one has acknowledged a new send. Classic runs with its defaults, and with ``lockAcquireSleepInterval=1000``; settings
take turns, round by round. Prints milliseconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from brokers import CLASSIC_MEMORY, ActiveMQ, answers_stomp, free_port

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from pairs import BrokerProcess, Connection, Producer, until  # noqa: E402 - the line above must come first

PATIENCE = 120.0  # s: a Java process on a machine that is busy
Begin = Callable[[str], BrokerProcess]

CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
                           http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
                           http://activemq.apache.org/schema/core
                           http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="pair" useJmx="false" dataDirectory="{home}/{name}">
    <persistenceAdapter><kahaDB directory="{home}/shared">{locker}</kahaDB></persistenceAdapter>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
    </transportConnectors>
  </broker>
</beans>
"""

LOGGING = """\
log4j.rootLogger=WARN, out
log4j.logger.org.apache.activemq.store=INFO
log4j.logger.org.apache.activemq.broker=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.SimpleLayout
"""
"""What Classic says when it waits for the lock is how one sees that it does."""


class ClassicProcess(BrokerProcess):
    """One ActiveMQ Classic of a pair with a shared file system, seen as one of ours."""

    def __init__(self, home: Path, name: str, retry_ms: int) -> None:
        """``retry_ms``: how often the lock is tried; 0 leaves it to the product (10 s)."""
        self.name = name
        self.port = free_port()
        self.log = home / f"{name}.log"
        locker = f'<locker><shared-file-locker lockAcquireSleepInterval="{retry_ms}"/></locker>' if retry_ms else ""
        file = home / f"{name}.xml"
        file.write_text(CONFIGURATION.format(home=home, name=name, locker=locker, port=self.port))
        place = home / name
        place.mkdir()
        (place / "log4j.properties").write_text(LOGGING)
        command = ["java", *CLASSIC_MEMORY, "-cp", ":".join(ActiveMQ.jars())]
        command += [f"-Dactivemq.{each}={place}" for each in ("home", "base", "conf", "data")]
        command += [f"-Dlog4j.configuration={(place / 'log4j.properties').as_uri()}"]
        command += ["org.apache.activemq.console.Main", "start", f"xbean:{file.as_uri()}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place)

    def serves(self) -> bool:
        return answers_stomp(self.port)

    def waits(self) -> bool:
        return "slave mode" in self.text()


class Contest:
    """One setting: its pair, its store, and what was measured."""

    def __init__(self, title: str, begin: Begin, how: str) -> None:
        self.title = title
        self.how = how
        self.gaps: list[float] = []  # ms
        self.idle: list[int] = []  # octets
        self.begin = begin
        self.made: list[BrokerProcess] = []

    def prepare(self, messages: int) -> None:
        """Start the first master and fill its store."""
        self._start()
        until(self.made[0].serves, f"{self.title}: the first serves", PATIENCE)
        fill(self.made[0].port, messages)

    def round(self, rate: float) -> None:
        """Start a backup, put load on, end the master, wait for an acknowledgement by the backup."""
        master, backup = self.made[-1], self._start()
        until(backup.waits, f"{self.title}: the second waits", PATIENCE)
        producer = Producer([master.port, backup.port], "/queue/load", rate=rate)
        producer.flow(2000)
        time.sleep(1.0)
        self.idle.append(backup.resident())
        ended = time.monotonic()
        if self.how == "kill -9":
            master.kill()
        else:
            master.process.terminate()
        until(backup.serves, f"{self.title}: the second takes over", PATIENCE)
        producer.flow(1)
        producer.stop()
        late = sorted(at for at in producer.promised.values() if at > ended)
        # A master that stops in good order still answers what it took: the wait is the longest gap, not the first.
        self.gaps.append(1000 * max(after - before for before, after in zip([ended, *late], late, strict=False)))
        master.stop()

    def clear(self) -> None:
        for broker in self.made:
            broker.clear()

    def line(self) -> str:
        gaps = self.gaps
        if not gaps:
            return f"{self.title:40} {self.how:14} not measured"
        return (
            f"{self.title:40} {self.how:14} median {statistics.median(gaps):6.0f} ms  min {min(gaps):6.0f}  "
            f"max {max(gaps):6.0f}  idle backup {max(self.idle) / 1e6:6.1f} MB  ({len(gaps)} rounds)"
        )

    def _start(self) -> BrokerProcess:
        self.made.append(self.begin(f"b{len(self.made)}"))
        return self.made[-1]


def fill(port: int, count: int) -> None:
    connection = Connection(port, 60.0)
    body = b"x" * 1024
    frame = b"SEND\ndestination:/queue/stored\npersistent:true\ncontent-length:1024\n\n" + body + b"\0"
    for start in range(0, count, 500):
        connection.socket.sendall(frame * min(500, count - start))
        connection.send("/queue/last", [f"filled{start}"])
        connection.receipts(1)
    connection.close()


def contests(place: Path, only: str) -> list[Contest]:
    """Return what is to be measured: ours by both ways to end, Classic by kill -9 with both settings."""

    def ours(number: int) -> Begin:
        home = place / f"ours{number}"
        home.mkdir()
        return lambda name: BrokerProcess(home / "data", name, home)

    def theirs(retry_ms: int) -> Begin:
        home = place / f"classic{retry_ms}"
        home.mkdir()
        return lambda name: ClassicProcess(home, name, retry_ms)

    found = [Contest("entrepot", ours(1), "kill -9"), Contest("entrepot", ours(2), "graceful stop")]
    why_not = ActiveMQ().unavailable()
    if only == "entrepot":
        return found
    if why_not is not None:
        print(f"ActiveMQ Classic is left out: {why_not}")
        return found
    found.append(Contest("ActiveMQ Classic, defaults", theirs(0), "kill -9"))
    found.append(Contest("ActiveMQ Classic, lock retry 1000 ms", theirs(1000), "kill -9"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=5000.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["all", "entrepot"], default="all")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        begun: list[Contest] = []
        try:
            for contest in contests(Path(place), chosen.only):
                begun.append(contest)
                contest.prepare(chosen.messages)
            for _ in range(chosen.rounds):
                for contest in begun:
                    contest.round(chosen.rate)
        finally:
            for contest in begun:
                contest.clear()
            print(
                f"{chosen.messages} messages of 1 KiB stored, {chosen.rate:.0f} persistent messages a second; load of"
            )
            print(f"the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
            for contest in begun:
                print(contest.line())


if __name__ == "__main__":
    main()
