"""Bridges of real processes, as an operator sees and switches them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot import Acknowledge, blocking
from pairs import free_port
from shell.test_cli import Running
from shell.test_managing import done

PATIENCE_S = 20.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    """``near`` dials ``far``."""
    port = free_port()
    homes = tmp_path / "far", tmp_path / "near"
    for home in homes:
        home.mkdir()
    far = Running(homes[0], "--ephemeral", "--name", "far", "--listen", f"openwire://127.0.0.1:{port}")
    near = Running(
        homes[1], "--ephemeral", "--name", "near", "--connect", f"static:(tcp://127.0.0.1:{port})?name=toFar"
    )
    yield near, far
    for each in (near, far):
        each.stop()


def until_state(broker: Running, state: str) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE_S
    while True:
        rows = done(broker, "bridge", "list")
        if rows and rows[0]["state"] == state:
            return rows[0]
        assert time.monotonic() < until, rows
        time.sleep(0.05)


def test_a_bridge_is_seen_at_both_ends_stopped_and_started(pair: tuple[Running, Running]) -> None:
    near, far = pair
    row = until_state(near, "open")
    assert (row["connector"], row["peer"], row["initiator"]) == ("toFar", "far", True)
    (arrived,) = done(far, "bridge", "list")
    assert (arrived["connector"], arrived["peer"], arrived["initiator"]) == ("toFar", "near", False)
    assert "toFar" in near.do("bridge", "list").stdout
    assert "canary_us" in near.do("bridge", "show", "toFar").stdout
    assert near.do("bridge", "stop", "toFar").returncode == 0
    assert until_state(near, "stopped")["connector"] == "toFar"
    assert near.do("bridge", "start", "toFar").returncode == 0
    until_state(near, "open")
    refused = near.do("bridge", "stop", "other")
    assert refused.returncode == 2
    assert "no network connector 'other'" in refused.stderr


def test_a_broker_without_room_lets_a_bridge_wait_and_nothing_comes_twice(tmp_path: Path) -> None:
    port = free_port()
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    limits = "--memory-limit", "1mb", "--set", "#:full=BLOCK"
    far = Running(tmp_path / "far", "--ephemeral", *limits, "--listen", f"openwire://127.0.0.1:{port}")
    near = Running(
        tmp_path / "near",
        *("--ephemeral", "--listen", "openwire://127.0.0.1:0"),
        *("--connect", f"static:(tcp://127.0.0.1:{port})?name=toFar&supervisionInterval=300"),
    )
    try:
        place = next(uri for uri in near.facts["uris"] if uri.startswith("openwire")).replace("openwire", "tcp")
        with (
            blocking.connect(f"tcp://127.0.0.1:{port}") as there,
            there.session(Acknowledge.CLIENT) as session,
            blocking.connect(place) as here,
            here.session() as sending,
        ):
            consumer = session.consumer("queue://Q?consumer.prefetchSize=1")
            producer = sending.producer("queue://Q")
            for number in range(100):
                producer.send(f"{number:03d}" + "x" * 50_000)
            until_state(near, "stalled")  # it lives, and takes nothing for now
            came = []
            while len(came) < 100:
                message = consumer.receive(PATIENCE_S)
                assert message is not None
                came.append(str(message.body)[:3])
                session.acknowledge()
            assert consumer.receive(0.5) is None
        assert came == [f"{number:03d}" for number in range(100)]
        assert until_state(near, "open")["failures"] == 0
    finally:
        near.stop()
        far.stop()
