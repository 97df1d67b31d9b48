"""Real clusters in a storm: brokers are killed, stopped and halted, links are cut and fall silent, and nothing is lost.

    python tests/shell/chaos.py --network ring --minutes 10 --audit off --seed 7

A network of broker processes on this machine, its bridges through relays. Producers send with receipts; consumers take
what comes, one acknowledgement each, and go on to another broker every few seconds; programs carry messages from one
queue to another in transactions; some messages belong to groups. Then every fault ends, and all is read out.

What must hold: everything that a producer had a receipt for is consumed (*lost*, *stuck* and *dead* are none), and
comes a second time only where something broke while it was under way. Each exception is named by its id. A send or a
commit whose answer never came is *in doubt*: it may have been done or not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import entrepot
from entrepot import Acknowledge, Message
from entrepot.base.errors import EntrepotError
from entrepot.cli.lab.brokers import Broker, Link, Network
from entrepot.cli.lab.relay import Relay
from entrepot.cli.managing import managing

DEFAULT: Final = "default"
AUDITS: Final = (DEFAULT, "on", "off")
SHAPES: Final = {"ring": 4, "hub": 6, "mesh": 5}  # brokers; a hub and five spokes
QUEUES: Final = ("chaos.a", "chaos.b", "chaos.c")
GROUPED: Final = "chaos.grouped"
INWARD: Final = "chaos.in"  # carried to `OUTWARD` in transactions
OUTWARD: Final = "chaos.out"
LETTERS: Final = "ActiveMQ.DLQ"
PRODUCERS: Final = 6
MOVERS: Final = 8
CARRIERS: Final = 3
GROUPS: Final = 10
PAUSE: Final = 0.004  # s between two sends of a producer: brokers share this machine with us
CLIENT: Final = (
    "initialReconnectDelay=50&maxReconnectDelay=500&jms.redeliveryPolicy.maximumRedeliveries=-1&jms.sendTimeout=20000"
)
DRAIN: Final = 180.0  # s for all to be read out when nothing breaks any more
NO_MORE: Final = 40.0  # s without anything new: the rest will not come
LOOKED_AT: Final = 5_000  # messages of a queue that are named when they stay
NAMED: Final = 20  # exceptions of a kind that are named on the terminal
SILENCE: Final = 6.0  # s: beyond three intervals of supervision
HALT_MAX: Final = 8.0


class Silence(Relay):
    """A relay that can take everything and pass nothing on, as a network does that lost its route."""

    def __init__(self, port: int, target: int) -> None:
        super().__init__(port, target)
        self.silent = False

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if self.silent:
                continue
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


class Ledger:
    """Who was promised what, and what came."""

    def __init__(self) -> None:
        self.promised: dict[str, str] = {}  # id -> its queue; a receipt came
        self.doubtful: dict[str, str] = {}  # the answer to its send never came
        self.came: Counter[str] = Counter()
        self.unmarked: dict[str, None] = {}  # came a second time as if it were the first
        self.marked: dict[str, None] = {}
        self.in_doubt: dict[str, None] = {}  # carried by a transaction whose commit was not answered
        self.last: float = time.monotonic()

    def took(self, identity: str, *, redelivered: bool) -> None:
        """A consumer got a message."""
        if identity not in self.came:
            self.last = time.monotonic()
        elif redelivered:
            self.marked[identity] = None
        else:
            self.unmarked[identity] = None
        self.came[identity] += 1

    def missing(self) -> list[str]:
        """Return what was promised and did not come yet."""
        return [identity for identity in self.promised if identity not in self.came]


class Storm:
    """One network, what is done with it, and what is done to it."""

    def __init__(self, directory: Path, shape: str, *, audit: str = DEFAULT, seed: int) -> None:
        """``audit``: whether ``auditNetworkProducers`` is on or off, or not said."""
        self.lots = random.Random(seed)
        self.shape = shape
        self.network = Network(directory, SHAPES[shape], shape)
        links = self.network.links
        links[:] = [Link(one.letter, one.near, one.far, Silence(one.relay.port, one.relay.target)) for one in links]
        for broker in self.network.brokers if audit != DEFAULT else ():
            file = broker.directory / "activemq.xml"
            spot = f'<transportConnector name="openwire" uri="{broker.tcp}"'
            text = file.read_text()
            assert spot in text
            file.write_text(text.replace(spot, f"{spot} auditNetworkProducers='{str(audit == 'on').lower()}'"))
        self.ledger = Ledger()
        self.befell: Counter[str] = Counter()
        self.sending = True
        self.patience = NO_MORE
        self.draining = False
        self.tasks: list[asyncio.Task[None]] = []
        self.busy: dict[object, None] = {}  # brokers and links to which something is being done
        self.halted: dict[int, None] = {}
        self.faults: list[str] = []

    def url(self) -> str:
        """Return where a client goes: to all brokers, any of them first."""
        return self.network.failover(self.lots.randrange(len(self.network.brokers)), CLIENT)

    # -- programs ------------------------------------------------------------------------------------------------------

    async def go_on(self, what: Callable[[], Awaitable[None]], lasts: Callable[[], bool]) -> None:
        """Do ``what`` over and over, whatever the broker says to it."""
        while lasts():
            try:
                await what()
            except (EntrepotError, OSError):
                await asyncio.sleep(0.1)

    async def produce(self, number: int) -> None:
        """Send until the storm is over; each message once."""
        sequence = 0
        targets = [*QUEUES, GROUPED, INWARD]

        async def one_connection() -> None:
            nonlocal sequence
            async with entrepot.connect(self.url()) as connection, connection.session() as session:
                producer = await session.producer()
                while self.sending:
                    sequence += 1
                    queue = targets[sequence % len(targets)]
                    identity = f"p{number}-{sequence}"
                    group = f"g{number}-{sequence % GROUPS}" if queue == GROUPED else None
                    try:
                        await producer.send(Message(identity, group=group), destination=f"queue://{queue}")
                    except (EntrepotError, OSError):
                        self.ledger.doubtful[identity] = queue
                        raise
                    self.ledger.promised[identity] = queue
                    await asyncio.sleep(PAUSE)

        await self.go_on(one_connection, lambda: self.sending)

    async def move(self) -> None:
        """Consume here for a while, then elsewhere."""

        async def one_place() -> None:
            queue = self.lots.choice([*QUEUES, GROUPED, OUTWARD])
            until = time.monotonic() + self.lots.uniform(1.0, 6.0)
            await self.consume(self.url(), queue, lambda: time.monotonic() < until and not self.draining)

        await self.go_on(one_place, lambda: not self.draining)

    async def stay(self, broker: Broker, queue: str, prefetch: int) -> None:
        """Consume at one broker to the end."""
        lasts = lambda: True  # noqa: E731 - until it is cancelled
        await self.go_on(lambda: self.consume(f"failover:({broker.tcp})?{CLIENT}", queue, lasts, prefetch), lasts)

    async def consume(self, url: str, queue: str, lasts: Callable[[], bool], prefetch: int = 50) -> None:
        """Take messages and settle each."""
        async with (
            entrepot.connect(url) as connection,
            connection.session(Acknowledge.INDIVIDUAL) as session,
            session.consumer(f"queue://{queue}?consumer.prefetchSize={prefetch}") as consumer,
        ):
            while lasts():
                received = await consumer.receive(0.5)
                if received is not None:
                    self.ledger.took(str(received.body), redelivered=received.redelivered)
                    received.acknowledge()

    async def carry(self) -> None:
        """Carry messages from one queue to another: both, or neither."""

        async def one_connection() -> None:
            until = time.monotonic() + self.lots.uniform(2.0, 8.0)
            async with (
                entrepot.connect(self.url()) as connection,
                connection.session(Acknowledge.TRANSACTED) as session,
                session.consumer(f"queue://{INWARD}?consumer.prefetchSize=20") as consumer,
                session.producer(f"queue://{OUTWARD}") as producer,
            ):
                while time.monotonic() < until:
                    carried: list[str] = []
                    while len(carried) < 5 and (received := await consumer.receive(0.3)) is not None:
                        carried.append(str(received.body))
                        await producer.send(str(received.body))
                    try:
                        await session.commit()
                    except (EntrepotError, OSError):
                        self.ledger.in_doubt.update(dict.fromkeys(carried))
                        raise

        await self.go_on(one_connection, lambda: True)

    # -- faults --------------------------------------------------------------------------------------------------------

    async def rage(self, seconds: float) -> None:
        """Let things happen, several at a time."""
        until = time.monotonic() + seconds
        running: set[asyncio.Task[None]] = set()
        while time.monotonic() < until:
            victim, what = self._choose()
            if victim is not None:
                self.busy[victim] = None
                task = asyncio.create_task(self._strike(victim, what))
                running.add(task)
                task.add_done_callback(running.discard)
            await asyncio.sleep(self.lots.uniform(0.3, 2.0))
        if running:
            await asyncio.wait(set(running))

    def _choose(self) -> tuple[Broker | Link | None, str]:
        if self.lots.random() < 0.4:
            links = [link for link in self.network.links if link not in self.busy]
            return (self.lots.choice(links), self.lots.choice(("cut", "cut", "silence"))) if links else (None, "")
        brokers = [broker for broker in self.network.brokers if broker not in self.busy]
        if 2 * len(brokers) <= len(self.network.brokers):  # half of them live
            return None, ""
        return self.lots.choice(brokers), self.lots.choice(("kill", "kill", "stop", "stop", "halt"))

    async def _strike(self, victim: Broker | Link, what: str) -> None:
        self.befell[what] += 1
        try:
            if isinstance(victim, Link):
                await self._break(victim, what)
            elif what == "halt":
                await self._halt(victim)
            else:
                await (victim.kill() if what == "kill" else self._stop(victim))
                await asyncio.sleep(self.lots.uniform(0.1, 3.0))
                await self._start(victim)
        except Exception as error:
            self.faults.append(f"{what}: {error!r}")
        finally:
            self.busy.pop(victim, None)

    async def _break(self, link: Link, what: str) -> None:
        relay = link.relay
        assert isinstance(relay, Silence)
        if what == "silence":
            relay.silent = True
            await asyncio.sleep(self.lots.uniform(1.0, SILENCE))
        await relay.cut()
        relay.silent = False
        await asyncio.sleep(self.lots.uniform(0.1, 3.0))
        await relay.heal()

    async def _halt(self, broker: Broker) -> None:
        os.kill(broker.process_id, signal.SIGSTOP)
        self.halted[broker.process_id] = None
        try:
            await asyncio.sleep(self.lots.uniform(0.5, HALT_MAX))
        finally:
            self.halted.pop(broker.process_id, None)
            os.kill(broker.process_id, signal.SIGCONT)

    async def _stop(self, broker: Broker) -> None:
        """SIGTERM; who does not end within the patience of a lab is a finding."""
        await broker.stop()
        process = broker.process
        if process is not None and process.returncode != 0 and not self._gave_up(broker):  # it was ending already
            self.faults.append(f"{broker.name} did not stop in order: {process.returncode}, {broker.last_words()}")

    async def _start(self, broker: Broker) -> None:
        process = broker.process
        if process is None or process.returncode is not None:
            await broker.start()

    @staticmethod
    def _gave_up(broker: Broker) -> bool:
        """Return whether it left its store to others: who stood still, or got no time, is not the master any more."""
        return any(words in broker.last_words() for words in ("not the master", "stood still for longer"))

    async def keep(self) -> None:
        """Start brokers again that ended by themselves."""
        while True:
            for broker in self.network.brokers:
                process = broker.process
                if broker not in self.busy and process is not None and process.returncode is not None:
                    if not self._gave_up(broker):
                        self.faults.append(f"{broker.name} ended: {process.returncode}, {broker.last_words()}")
                    self.befell["gave up"] += 1
                    self.busy[broker] = None
                    try:
                        await self._start(broker)
                    finally:
                        self.busy.pop(broker, None)
            await asyncio.sleep(0.2)

    # -- the course of a run -------------------------------------------------------------------------------------------

    async def run(self, seconds: float) -> list[str]:
        """Storm, calm, and the reckoning; return what is wrong."""
        tasks = self.tasks
        try:
            await self.network.start()
            producers = [asyncio.create_task(self.produce(number)) for number in range(PRODUCERS)]
            movers = [asyncio.create_task(self.move()) for _ in range(MOVERS)]
            tasks += [asyncio.create_task(self.keep()), *producers, *movers]
            tasks += [*(asyncio.create_task(self.carry()) for _ in range(CARRIERS))]
            await self.rage(seconds)
            self.sending = False
            await asyncio.wait(producers, timeout=60)
            self.draining = True
            await asyncio.wait(movers, timeout=60)
            tasks += [
                asyncio.create_task(self.stay(broker, queue, 500))
                for broker in self.network.brokers
                for queue in (*QUEUES, GROUPED, OUTWARD)
            ]
            await self._calm()
            return await self._reckon()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for process_id in list(self.halted):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGCONT)
            await self.network.stop()

    async def _calm(self) -> None:
        end = time.monotonic() + DRAIN
        self.ledger.last = time.monotonic()
        while time.monotonic() < end and time.monotonic() - self.ledger.last < self.patience:
            with contextlib.suppress(EntrepotError):  # one that stood still is not there again yet
                if not self.ledger.missing() and not await self._waiting():
                    return
            await asyncio.sleep(0.5)

    async def _waiting(self) -> dict[str, int]:
        """Return what is left in the queues of all brokers."""
        left: Counter[str] = Counter()
        for broker in self.network.brokers:
            async with managing(broker.url) as desk:
                for row in await desk.ask("broker", "describeQueues"):
                    if str(row["name"]).startswith("chaos.") or row["name"] == LETTERS:
                        left[f"{row['name']} at {broker.name}"] += int(row["messages"])
        return {name: count for name, count in left.items() if count}

    async def _named(self, broker: Broker, queue: str) -> list[str]:
        """Return the ids of what lies in a queue."""
        async with (
            entrepot.connect(broker.tcp) as connection,
            connection.session() as session,
            session.browser(f"queue://{queue}") as browser,
        ):
            found: list[str] = []
            async for received in browser:
                found.append(str(received.body))
                if len(found) == LOOKED_AT:
                    break
            return found

    async def _reckon(self) -> list[str]:
        ledger = self.ledger
        missing = dict.fromkeys(ledger.missing())
        where: dict[str, str] = {}
        dead: dict[str, str] = {}
        left = await self._waiting()
        for place in left:
            queue, _, name = place.partition(" at ")
            broker = next(one for one in self.network.brokers if one.name == name)
            for identity in await self._named(broker, queue):
                (dead if queue == LETTERS else where)[identity] = place
        wrong = [*self.faults, *self._failed()]
        for word, found in (
            ("lost", [one for one in missing if one not in where and one not in dead]),
            ("stuck", [f"{one} ({where[one]})" for one in where]),
            ("dead", [f"{one} ({dead[one]})" for one in dead]),
            ("never sent", [one for one in ledger.came if one not in ledger.promised and one not in ledger.doubtful]),
        ):
            if found:
                wrong.append(f"{len(found)} {word}: {', '.join(found[:NAMED])}")
        if left and not where and not dead:
            wrong.append(f"queues that count messages and show none: {left}")
        doubled = [one for one, count in ledger.came.items() if count > 1]
        if doubled and not self.befell:
            wrong.append(f"{len(doubled)} came twice although nothing broke: {', '.join(doubled[:NAMED])}")
        return wrong

    def _failed(self) -> list[str]:
        return [f"the programs of the test failed: {task!r}" for task in self.tasks if task.done() and _error(task)]

    def figures(self) -> str:
        """Return what happened, in a line."""
        ledger = self.ledger
        doubled = [one for one, count in ledger.came.items() if count > 1]
        befell = "/".join(str(self.befell[what]) for what in ("kill", "stop", "halt", "cut", "silence", "gave up"))
        return (
            f"{self.shape}: {len(ledger.promised)} confirmed, {len(ledger.doubtful)} sends and {len(ledger.in_doubt)} "
            f"carried messages in doubt, {len(doubled)} came twice ({len(ledger.unmarked)} of them unmarked), "
            f"kill/stop/halt/cut/silence/gave up {befell}"
        )


def _error(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def storm(shape: str, seconds: float, *, audit: str, seed: int, say: Callable[[str], None]) -> list[str]:
    """Run one storm in a directory of its own; return what is wrong."""
    logging.getLogger("entrepot").setLevel(logging.CRITICAL)  # clients report every attempt to reach who was killed
    with tempfile.TemporaryDirectory(prefix="entrepot-chaos-") as directory:
        made = Storm(Path(directory), shape, audit=audit, seed=seed)
        wrong = asyncio.run(made.run(seconds))
        say(f"{made.figures()}; audit {audit}, seed {seed}: {'WRONG' if wrong else 'ok'}")
        for one in wrong:
            say(f"  {one}")
        twice = [one for one, count in made.ledger.came.items() if count > 1]
        if twice:
            say(f"  came twice: {', '.join(twice[:NAMED])}{' ...' if len(twice) > NAMED else ''}")
    return wrong


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description="storms over networks of brokers")
    parser.add_argument("--network", choices=[*SHAPES, "all"], default="all")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--audit", choices=[*AUDITS, "all"], default=DEFAULT, help="auditNetworkProducers")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    wrong: list[str] = []
    for shape in SHAPES if options.network == "all" else [options.network]:
        for audit in AUDITS if options.audit == "all" else [options.audit]:
            wrong += storm(shape, options.minutes * 60, audit=audit, seed=options.seed, say=say)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
