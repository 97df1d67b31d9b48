"""Plugins of one ``activemq.xml``, at ActiveMQ Classic and here: what an unmodified Java client sees of them."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import classic
import java_clients
import ours
import pytest

from entrepot.client.connection import connect

KEEPS: Final = """\
<plugins>
  <forcePersistencyModeBrokerPlugin persistenceFlag="true"/><statisticsBrokerPlugin/><traceBrokerPathPlugin/>
</plugins>
"""
KEEPS_NOTHING: Final = """\
<plugins>
  <forcePersistencyModeBrokerPlugin/><destinationPathSeparatorPlugin/><traceBrokerPathPlugin stampProperty="route"/>
</plugins>
"""

pytestmark = pytest.mark.skipif(bool(java_clients.unavailable()), reason=f"Java clients: {java_clients.unavailable()}")


@pytest.fixture(scope="module")
def program() -> java_clients.Program:
    return java_clients.Program()


class Both:
    """ActiveMQ and this broker, with the same plugins."""

    def __init__(self, home: Path, plugins: str) -> None:
        theirs = classic.Classic(home / "classic", plugins=plugins)
        file = theirs.home / "activemq.xml"
        file.write_text(file.read_text().replace('useJmx="false"', 'useJmx="true"'))  # its statistics look there
        self.brokers: list[classic.Classic | ours.Entrepot] = [theirs, ours.configured(home / "ours", plugins=plugins)]

    def transcripts(self, program: java_clients.Program, *parts: str) -> list[list[str]]:
        """Return what the program prints with each of them, which run side by side."""

        def run(broker: classic.Classic | ours.Entrepot) -> list[str]:
            broker.start().await_ready()
            return program.run("Plugged", broker.url, *parts).splitlines()

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(run, self.brokers))

    def end(self) -> None:
        for broker in self.brokers:
            broker.kill()


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path, KEEPS)
    yield made
    made.end()


@pytest.fixture
def forgetting(tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path, KEEPS_NOTHING)
    yield made
    made.end()


def test_persistence_path_and_statistics(program: java_clients.Program, keeping: Both) -> None:
    wanted, seen = keeping.transcripts(program, "stamps", "statistics", "leave")
    assert seen == wanted, "\n".join(difflib.unified_diff(wanted, seen, "ActiveMQ", "entrepot", lineterm=""))
    assert "ActiveMQQueue passed on: mode 2 {BrokerPath=elsewhere,test}" in seen

    async def left(url: str) -> None:
        async with connect(url) as connection, connection.session() as session, session.consumer("left") as consumer:
            assert await consumer.receive(5) is not None, "what was sent as not persistent is gone"

    for broker in keeping.brokers:
        broker.kill()
        broker.start().await_ready()
        asyncio.run(left(broker.url))


def test_nothing_is_kept_and_names_have_slashes(program: java_clients.Program, forgetting: Both) -> None:
    wanted, seen = forgetting.transcripts(program, "stamps", "separator")
    assert seen == wanted, "\n".join(difflib.unified_diff(wanted, seen, "ActiveMQ", "entrepot", lineterm=""))
    assert "wild: topic://way.to.end" in seen
    assert "selected: nothing" in seen
