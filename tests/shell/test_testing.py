"""The plugin of pytest in a run of its own, and the real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from entrepot import InvalidOption, blocking
from entrepot.testing import Cluster

USES = """
import asyncio
import entrepot
from entrepot import blocking
from entrepot.testing import VirtualBroker, VirtualCluster


def test_real(broker):
    with blocking.connect(broker.url) as connection, connection.session() as session:
        session.producer("q").send("x")
    assert broker.queues.show("q").messages == 1


def test_each_test_has_its_own(broker):
    assert all(view.name != "q" for view in broker.queues.list())


def test_with_asyncio(broker):
    async def main():
        async with entrepot.connect(broker.url) as connection, connection.session() as session:
            await session.producer("q")
    asyncio.run(main())


def test_several(cluster):
    assert cluster.names == ["a", "b", "c"]


def test_virtual(virtual_broker, virtual_cluster):
    assert isinstance(virtual_broker, VirtualBroker)
    assert isinstance(virtual_cluster, VirtualCluster)
"""
COSTS_NOTHING = """
import sys

def test_nothing_is_loaded():
    loaded = [name for name in sys.modules if name.startswith("entrepot")]
    assert sorted(loaded) == ["entrepot", "entrepot.testing"], loaded
"""


def pytest_run(home: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (home / "test_it.py").write_text(text)
    # Where the package is installed pytest finds the plugin by itself, and will not have it twice.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "test_it.py"]
    return subprocess.run(command, cwd=home, env=alone, capture_output=True, text=True, timeout=60, check=False)


def test_the_fixtures(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, USES, "-p", "entrepot.testing")
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_who_uses_none_of_them_loads_no_broker(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, COSTS_NOTHING, "-p", "entrepot.testing")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_this_run_has_not_loaded_it(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.is_blocked("entrepot")
    assert not request.config.pluginmanager.has_plugin("entrepot")
    with pytest.raises(pytest.FixtureLookupError):
        request.getfixturevalue("virtual_cluster")


def test_three_brokers_are_ready_at_once() -> None:
    took = []
    for _ in range(5):
        began = time.monotonic()
        with Cluster() as cluster:
            took.append(time.monotonic() - began)
            assert cluster.names == ["a", "b", "c"]
    assert min(took) < 0.15, took  # the least of five: what the machine does otherwise is not theirs


def test_a_message_finds_its_consumer_and_a_client_another_broker(tmp_path: Path) -> None:
    with Cluster(("a", "b"), data=tmp_path) as cluster:
        with (
            blocking.connect(cluster["b"].url) as reading,
            reading.session() as session,
            session.consumer("orders") as consumer,
            blocking.connect(cluster["a"].url) as sending,
            sending.session() as other,
            other.producer("orders") as producer,
        ):
            producer.send("coffee")
            message = consumer.receive(timeout=10)
            assert message is not None
            assert message.body == "coffee"
        with blocking.connect(cluster["a"].url) as sending, sending.session() as session:
            session.producer("kept").send("tea")
        cluster.stop("a")
        with pytest.raises(InvalidOption, match="running: b"):
            cluster["a"]
        with blocking.connect(cluster.url) as connection:  # finds the other
            assert connection.connected
        cluster.start("a")
        assert cluster["a"].queues.show("kept").messages == 1
