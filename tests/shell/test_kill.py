"""Kill the real process while it works, again and again, and count what is left.

After each kill: the journal is whole; every message whose receipt came is there exactly once and in order; nothing
whose acknowledgement was confirmed comes again; of a transaction there is all or nothing, and all if its COMMIT was
confirmed. `make kill ROUNDS=200` goes on for longer.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from entrepot.cli.data import check
from promises import never
from shell.daemon import PATIENCE, AsyncWire, Daemon, Wire

ROUNDS = int(os.environ.get("ENTREPOT_KILL_ROUNDS", "20"))
SEED = int(os.environ.get("ENTREPOT_KILL_SEED", "1"))
IN_FLIGHT = 20  # sends of one producer whose receipt has not come
IN_TRANSACTION = 5
FILLER = b"x" * 300
LARGE = b"x" * 1_200_000  # streamed to a file of its own


class Ledger:
    """What one round knows. Bodies are ``producer-number``, or ``transaction-number`` on the queue of transactions."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sent: dict[str, list[str]] = {"kept": [], "worked": [], "large": []}
        self.receipted: dict[str, set[str]] = {"kept": set(), "worked": set(), "large": set()}
        self.tried: set[str] = set()
        self.committed: set[str] = set()
        self.taken: set[str] = set()  # an ACK was sent
        self.settled: set[str] = set()  # and confirmed

    async def produce(self, port: int, name: str, queue: str) -> None:
        wire = await AsyncWire.open(port)
        filler = LARGE if queue == "large" else FILLER
        window = asyncio.Semaphore(2 if queue == "large" else IN_FLIGHT)

        async def listen() -> None:
            try:
                async for frame in wire.frames():
                    assert frame.command == "RECEIPT", frame
                    self.receipted[queue].add(frame.headers["receipt-id"])
                    window.release()
            finally:
                window.release()

        listener = asyncio.create_task(listen())
        for number in range(1_000_000):
            await window.acquire()
            if listener.done():
                return await listener
            body = f"{name}-{number}"
            self.sent[queue].append(body)
            headers = {"destination": f"/queue/{queue}", "persistent": "true", "receipt": body}
            octets = b"%b %b" % (body.encode(), filler)
            wire.say("SEND", {**headers, "content-length": str(len(octets))}, octets)
            await asyncio.sleep(0)

    async def transact(self, port: int, name: str) -> None:
        wire = await AsyncWire.open(port)
        for number in range(1_000_000):
            transaction = f"{name}-{number}"
            wire.say("BEGIN", {"transaction": transaction})
            headers = {"destination": "/queue/torn", "persistent": "true", "transaction": transaction}
            for part in range(IN_TRANSACTION):
                wire.say("SEND", headers, b"%b %d %b" % (transaction.encode(), part, FILLER))
            self.tried.add(transaction)
            wire.say("COMMIT", {"transaction": transaction, "receipt": transaction})
            frame = await wire.hear()
            if frame is None:
                return
            assert frame.command == "RECEIPT", frame
            self.committed.add(transaction)

    async def consume(self, port: int) -> None:
        wire = await AsyncWire.open(port)
        wire.say(
            "SUBSCRIBE",
            {"destination": "/queue/worked", "id": "1", "ack": "client-individual", "activemq.prefetchSize": "50"},
        )
        async for frame in wire.frames():
            if frame.command == "RECEIPT":
                self.settled.add(frame.headers["receipt-id"])
                continue
            assert frame.command == "MESSAGE", frame
            body = frame.body.split()[0].decode()
            assert body not in self.settled, f"{body} came again after its acknowledgement was confirmed"
            self.taken.add(body)
            wire.say("ACK", {"id": frame.headers["ack"], "receipt": body})

    async def load(self, daemon: Daemon, seconds: float) -> None:
        """Work until the broker is killed."""
        port = daemon.port
        tasks = [self.produce(port, f"{self.number}.{each}", "kept") for each in range(2)]
        tasks += [self.produce(port, f"{self.number}.{each}", "worked") for each in range(2, 4)]
        if self.number % 4 == 0:  # not always: they keep the disk busy
            tasks.append(self.produce(port, f"{self.number}.4", "large"))
        tasks += [self.transact(port, f"{self.number}.{each}") for each in range(2)]
        tasks += [self.consume(port) for _ in range(2)]
        working = [asyncio.create_task(task) for task in tasks]
        await asyncio.sleep(seconds)
        daemon.kill()
        async with asyncio.timeout(PATIENCE):
            for error in await asyncio.gather(*working, return_exceptions=True):
                if error is not None and not isinstance(error, ConnectionError):
                    raise error

    def check(self, found: dict[str, list[str]]) -> None:
        """Compare with what a restarted broker had. Raises PromiseBroken."""
        with never():
            self.compare(found)

    def compare(self, found: dict[str, list[str]]) -> None:
        self.check_queue("kept", found["kept"], set())
        self.check_queue("large", found["large"], set())
        self.check_queue("worked", found["worked"], self.taken)
        assert not self.settled & set(found["worked"]), "confirmed acknowledgements were forgotten"
        parts: dict[str, int] = {}
        for transaction in found["torn"]:
            parts[transaction] = parts.get(transaction, 0) + 1
        assert set(parts.values()) <= {IN_TRANSACTION}, f"torn: {parts}"
        assert self.committed <= set(parts) <= self.tried

    def check_queue(self, queue: str, found: list[str], taken: set[str]) -> None:
        there = set(found)
        assert len(there) == len(found), "a message is there twice"
        lost = self.receipted[queue] - there - taken
        assert not lost, f"{len(lost)} receipted messages are lost, {sorted(lost)[:5]} among them"
        assert there <= set(self.sent[queue])
        for name in {body.split("-")[0] for body in found}:
            mine = [int(body.split("-")[1]) for body in found if body.split("-")[0] == name]
            assert mine == sorted(mine), f"the messages of {name} are out of order"


def journal_is_whole(data: Path) -> None:
    checked = CliRunner().invoke(check, [str(data)])
    assert checked.exit_code == 0, (checked.output, checked.exception)


@pytest.mark.timeout(60 + 10 * ROUNDS)
def test_nothing_that_was_promised_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    daemon = Daemon(tmp_path)
    totals = [0, 0, 0]
    ledger: Ledger | None = None
    for number in range(ROUNDS + 1):
        daemon.start()
        try:
            wire = Wire(daemon.port)
            found = {name: [each.body.split()[0].decode() for each in wire.drain(f"/queue/{name}")] for name in QUEUES}
            wire.leave()
            if ledger is not None:
                ledger.check(found)
                totals[0] += sum(len(each) for each in ledger.receipted.values())
                totals[1] += len(ledger.committed)
                totals[2] += len(ledger.settled)
            if number == ROUNDS:
                break
            ledger = Ledger(number)
            asyncio.run(ledger.load(daemon, chance.uniform(0.03, 0.3)))
            journal_is_whole(daemon.data)
        except BaseException:
            print(f"round {number}, seed {SEED}\n{daemon.told()}")
            raise
        finally:
            assert daemon.process is not None
            if daemon.process.poll() is None and number < ROUNDS:
                daemon.kill()
    assert list((daemon.data / "blobs").glob("*.blob")) == [], "bodies of messages that are gone"
    assert daemon.stop() == 0
    print(f"{ROUNDS} kills: {totals[0]} receipts, {totals[1]} commits and {totals[2]} acknowledgements were kept")
    assert min(totals) > ROUNDS, f"hardly anything was tried: {totals}"


QUEUES = ("kept", "worked", "torn", "large")


@pytest.mark.parametrize("marks", [False, True])
def test_what_a_consumer_had_when_the_broker_was_killed_is_marked_where_the_policy_says_so(
    tmp_path: Path, marks: bool
) -> None:
    """README says when: unmarked unless deliveries are noted; and no number of kills makes a dead letter of it."""
    daemon = Daemon(tmp_path, "--set", f"#:mark_delivered={str(marks).lower()},max_deliveries=3").start()
    try:
        wire = Wire(daemon.port)
        for number in range(50):
            wire.send("/queue/q", f"{number}".encode(), persistent="true")
        for kills in range(5):  # more than max_deliveries
            consumer = Wire(daemon.port)
            consumer.subscribe("/queue/q", ack="client-individual")
            got = [consumer.message() for _ in range(50)]
            assert [frame.body for frame in got] == [f"{number}".encode() for number in range(50)]
            marked = sum(frame.headers.get("redelivered") == "true" for frame in got)
            assert marked == (50 if marks and kills else 0)
            wire.send("/queue/other", b"a turn later", persistent="true")
            daemon.kill()
            daemon.start()
            wire = Wire(daemon.port)
    finally:
        daemon.stop()
