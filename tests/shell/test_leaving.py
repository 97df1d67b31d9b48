"""A broker that is asked to stop: order holds to the end, and what was handed out is nobody else's."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from shell.daemon import Daemon, Wire

CONSUMERS = 6
GROUPS = 12
MESSAGES = 1200
STOPS = 3


class Reader(threading.Thread):
    """Takes all that it is given until the broker hangs up, and acknowledges none of it."""

    def __init__(self, port: int, destination: str, **headers: str) -> None:
        super().__init__()
        self.wire = Wire(port)
        self.wire.subscribe(destination, ack="client-individual", **{"activemq.prefetchSize": "5000"}, **headers)
        self.groups: list[str] = []
        self.got = 0

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while (frame := self.wire.hear()).command != "ERROR":
                if frame.command == "MESSAGE":
                    self.got += 1
                    self.groups.append(frame.headers.get("JMSXGroupID", ""))
        self.wire.cut()


def stopped(home: Path, destination: str, **headers: str) -> list[Reader]:
    """Return the readers of a broker that was stopped while each held what it had got."""
    daemon = Daemon(home).start()
    try:
        readers = [Reader(daemon.port, destination, **headers) for _ in range(CONSUMERS)]
        for reader in readers:
            reader.start()
        sender = Wire(daemon.port)
        for number in range(MESSAGES):
            given = {"destination": destination, "persistent": "true", "JMSXGroupID": f"g{number % GROUPS}"}
            sender.say("SEND", given, str(number).encode())
        sender.send(destination, b"last", persistent="true", JMSXGroupID="g0")
        assert daemon.stop() == 0
        for reader in readers:
            reader.join()
        return readers
    finally:
        daemon.kill()


@pytest.mark.parametrize("attempt", range(STOPS))
def test_a_group_stays_with_its_consumer_until_the_end(attempt: int, tmp_path: Path) -> None:
    owners: dict[str, set[int]] = defaultdict(set)
    for at, reader in enumerate(stopped(tmp_path, "/queue/grouped")):
        for group in reader.groups:
            owners[group].add(at)
    assert len(owners) == GROUPS
    assert {group: sorted(readers) for group, readers in owners.items() if len(readers) > 1} == {}


def test_an_exclusive_queue_has_no_heir_when_the_broker_stops(tmp_path: Path) -> None:
    got = [reader.got for reader in stopped(tmp_path, "/queue/alone", **{"activemq.exclusive": "true"})]
    assert sorted(got)[:-1] == [0] * (CONSUMERS - 1)
    assert sum(got) > 0
