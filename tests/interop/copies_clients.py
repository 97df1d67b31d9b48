"""Clients of a replicated pair under trouble: what each was told goes into one history (`promised.py`)."""
# ruff: noqa: SIM117  nested blocks say in which order things close

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Final, Protocol

from copies_site import Site

import entrepot
from entrepot.base.errors import Refused, TransactionInDoubt, TransactionRolledBack
from entrepot.client.connection import connect
from entrepot.protocols.conversing.modes import Acknowledge
from pairs import Producer, drain, until
from promised import CONFIRMED, DOUBTFUL, UNDONE, History
from spark.stand import QUICK

ENDING_S: Final = 240.0
ANSWER_S: Final = 120.0  # of a Java program: it may still be loading
BATCH: Final = 3


class Client(Protocol):
    """One that works until it is ended."""

    def going(self) -> int:
        """Return how much it has done: it rises."""
        ...

    def end(self, history: History) -> list[str]:
        """End; put what it was told into ``history``, and return what it has found by itself."""
        ...

    def close(self) -> None:
        """Leave nothing that runs."""
        ...


class Stomp:
    """Sends with receipts, each message with a duplicate id: what breaks off is sent again. Nobody consumes."""

    def __init__(self, site: Site, queue: str = "stomp.kept", label: str = "stomp-") -> None:
        self.site, self.queue = site, queue
        ports = [site.ports["stomp"]] * 2
        self.producer = Producer(
            ports, f"/queue/{queue}", hosts=site.hosts, rate=150.0, window=10, label=label, repeats=True
        )

    def going(self) -> int:
        return len(self.producer.promised)

    def told(self, history: History) -> None:
        self.producer.stop()
        for body in self.producer.promised:
            history.add(CONFIRMED, body)
        for body in self.producer.doubtful:
            history.add(DOUBTFUL, body)

    def end(self, history: History) -> list[str]:
        self.told(history)
        found = left(self.site, self.queue, list(self.producer.promised))
        return list(found.elements())

    def close(self) -> None:
        self.producer.stop()


def left(site: Site, queue: str, awaited: list[str]) -> Counter[str]:
    """Consume all that is in a queue."""
    host = site.machines.host(site.well())
    return Counter(drain(site.ports["stomp"], f"/queue/{queue}", host, awaited))


class Java:
    """A program that works until it is told to end, and says how much it has done when it is asked."""

    def __init__(self, command: list[str], first: str, log: Path) -> None:
        """``first``: what it says once it works."""
        self.log = log
        self.lines: Queue[str] = Queue()
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            assert self._line() == first, f"it does not begin: {self._last_words()}"
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def _line(self) -> str:
        """Return what it says next, "" where it says nothing."""
        try:
            return self.lines.get(timeout=ANSWER_S)
        except Empty:
            return ""

    def _last_words(self) -> str:
        return self.log.read_text()[-3000:]

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which the lack of an answer says
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def going(self) -> int:
        self._tell("at")
        word, _, number = self._line().partition(" ")
        assert word == "at", f"it answers no more: {self._last_words()}"
        return int(number)

    def said(self) -> list[str]:
        """Let it end, and return what it has to say."""
        self._tell("end")
        assert self.process.wait(ENDING_S) == 0, self._last_words()
        self.reader.join(ANSWER_S)
        return [self.lines.get_nowait() for _ in range(self.lines.qsize())]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join(ANSWER_S)
        for each in (self.process.stdin, self.process.stdout):
            assert each is not None
            with suppress(BrokenPipeError):
                each.close()


class JavaOpenWire(Java):
    """`java/Rounds.java`: a transacted producer and a transacted mover by ``failover:``."""

    FATES: Final = {"committed": CONFIRMED, "undone": UNDONE, "doubtful": DOUBTFUL}

    def end(self, history: History) -> list[str]:
        found: list[str] = []
        for line in self.said():
            word, *rest = line.split()
            if word in self.FATES:
                history.add(self.FATES[word], *(f"java-{rest[0]}:{part}" for part in range(5)))
            elif word in ("out", "left", "dead"):
                found.append(f"java-{rest[0]}")
        return found


class JavaCore(Java):
    """`java/core/Rounds.java`: a transacted producer and consumer by ``ha=true``; it reckons by itself."""

    def end(self, history: History) -> list[str]:
        said = self.said()[-1]
        assert said.endswith("stuck false"), f"{said}: {self._last_words()}"
        history.add(CONFIRMED, f"core: {WELL}")
        return [f"core: {said}"]


WELL: Final = "sent true lost 0 doubled 0 stuck false"


class Python:
    """Our client: a transacted producer, and one that moves messages in transactions."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.url = f"{site.openwire}&jms.redeliveryPolicy.maximumRedeliveries=-1"
        self.told: list[tuple[str, list[str]]] = []
        self.ending = self.produced = False
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def going(self) -> int:
        if self.failure is not None:
            raise self.failure
        return len(self.told)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self.failure = error

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._produce())
            tasks.create_task(self._move())

    async def _produce(self) -> None:
        number = 0
        async with connect(self.url) as connection, connection.session(Acknowledge.TRANSACTED) as session:
            async with session.producer("python.source") as producer:
                while not self.ending:
                    bodies = [f"python-{number}.{part}" for part in range(BATCH)]
                    number += 1
                    self.told.append((await self._batch(session, producer, bodies), bodies))
                    await asyncio.sleep(0.02)
        self.produced = True

    async def _batch(self, session: entrepot.Session, producer: entrepot.Producer, bodies: list[str]) -> str:
        try:
            for body in bodies:
                await producer.send(body)
            await session.commit()
        except TransactionInDoubt:
            return DOUBTFUL
        except TransactionRolledBack:
            return UNDONE
        except Refused:  # its disk is full
            await session.rollback()
            return UNDONE
        return CONFIRMED

    async def _move(self) -> None:
        idle = 0
        async with connect(self.url) as connection, connection.session(Acknowledge.TRANSACTED) as session:
            async with session.consumer("python.source") as consumer, session.producer("python.target") as producer:
                while idle < 3:
                    try:
                        batch = await consumer.receive_many(4, timeout=0.5)
                        for message in batch:
                            await producer.send(message.body)
                        await session.commit()
                        idle = idle + 1 if self.produced and not batch and connection.connected else 0
                    except TransactionRolledBack:
                        idle = 0
                    except Refused:  # its disk is full
                        await session.rollback()
                        await asyncio.sleep(0.02)
                        idle = 0

    def end(self, history: History) -> list[str]:
        self.ending = True
        self.thread.join(ENDING_S)
        if self.failure is not None:
            raise self.failure
        assert not self.thread.is_alive(), "the Python client is stuck"
        awaited = []
        for fate, bodies in self.told:
            history.add(fate, *bodies)
            awaited += bodies if fate == CONFIRMED else []
        target = left(self.site, "python.target", awaited)
        return [*target.elements(), *left(self.site, "python.source", []).elements()]

    def close(self) -> None:
        self.ending = True
        self.thread.join(10)


class Spark:
    """A query that lands what a STOMP producer sends (`copies_query.py`)."""

    def __init__(self, site: Site) -> None:
        self.home = site.place / "spark"
        self.home.mkdir()
        self.feed = Stomp(site, "spark.landed", "spark-")
        settings = {**QUICK, "spark__local__dir": str(self.home / "scratch"), "spark__driver__memory": "512m"}
        given = {"home": str(self.home), "url": site.stomp, "queue": "spark.landed", "settings": settings}
        file = self.home / "query.json"
        file.write_text(json.dumps(given))
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment["PYTHONPATH"] = str(Path(entrepot.__file__).resolve().parents[1])
        program = Path(__file__).with_name("copies_query.py")
        with (self.home / "driver.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(program), str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.home,
                start_new_session=True,
            )
        until((self.home / "started").exists, "Spark runs", ENDING_S)

    def going(self) -> int:
        return self.feed.going() if self.process.poll() is None else 0

    def landed(self) -> set[str]:
        """Return what is in its files, those of attempts that failed included."""
        import pyarrow.parquet

        found: set[str] = set()
        for each in (self.home / "parquet").glob("*.parquet"):
            try:
                found.update(pyarrow.parquet.read_table(each, columns=["text"])["text"].to_pylist())
            except (OSError, ValueError):  # it is being written
                continue
        return found

    def end(self, history: History) -> list[str]:
        self.feed.told(history)
        awaited = set(self.feed.producer.promised)
        end = time.monotonic() + ENDING_S
        while not awaited <= self.landed() and time.monotonic() < end:
            time.sleep(2.0)
        (self.home / "finish").touch()
        assert self.process.wait(ENDING_S) == 0, (self.home / "driver.log").read_text()[-3000:]
        return (self.home / "ids").read_text().split("\n")

    def close(self) -> None:
        self.feed.close()
        if self.process.poll() is None:
            (self.home / "finish").touch()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
