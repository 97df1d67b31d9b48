"""Connections over AMQP between real processes: seen, stopped and started, changed by a file, killed on either side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from promises import never
from shell.test_federation import FILE, PATIENCE_S, Pair

CONNECTION: Final = """
<broker-connections>
  <amqp-connection uri="tcp://127.0.0.1:{port}" name="A" retry-interval="100" auto-start="{auto}">
    {links}
  </amqp-connection>
</broker-connections>
"""
SENDER: Final = '<sender queue-name="orders"/>'
RECEIVER: Final = '<receiver address-match="orders"/>'


class Called(Pair):
    """``near`` dials ``far``."""

    def write(self, name: str, match: str = SENDER, *, auto: str = "true") -> None:
        more = CONNECTION.format(port=self.ports["far"], links=match, auto=auto) if name == "near" else ""
        (self.home / name / "etc" / "broker.xml").write_text(FILE.format(name=name, more=more))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Called]:
    made = Called(tmp_path)
    yield made
    for one in made.running.values():
        if one.process.poll() is None:
            one.stop()


def test_it_is_seen_stopped_started_and_follows_its_file(pair: Called) -> None:
    near = pair.running["near"]
    pair.until(state="open", demands=1)
    pair.send("a", "b", name="near")
    assert pair.read(2, "far") == ["a", "b"]
    row = pair.row()
    assert (row["connector"], row["kind"], row["sent"]) == ("A", "amqp", 2)
    assert near.do("bridge", "stop", "A").returncode == 0
    pair.until(state="stopped")
    pair.send("c", name="near")
    assert pair.read(1, "far", 1.0) == []
    assert near.do("bridge", "start", "A").returncode == 0
    assert pair.read(1, "far") == ["c"]
    pair.write("near", RECEIVER)
    pair.until(demand=["from orders"])
    pair.send("d")
    assert pair.read(1) == ["d"]
    assert "fills it from the address of that name there" in near.do("explain", "orders", "--alone").stdout
    pair.kill("far")
    pair.until(state="waiting")
    assert "[down]" in near.do("explain", "orders", "--alone").stdout


def test_one_that_does_not_start_by_itself_is_started_by_an_operator(tmp_path: Path) -> None:
    class Waiting(Called):
        def write(self, name: str, match: str = SENDER, *, auto: str = "false") -> None:
            super().write(name, match, auto=auto)

    pair = Waiting(tmp_path)
    try:
        pair.until(state="stopped")
        pair.send("a", name="near")
        assert pair.read(1, "far", 1.0) == []
        assert pair.running["near"].do("bridge", "start", "A").returncode == 0
        assert pair.read(1, "far") == ["a"]
    finally:
        for one in pair.running.values():
            one.stop()


@pytest.mark.parametrize(("link", "sends", "reads"), [(SENDER, "near", "far"), (RECEIVER, "far", "near")])
def test_killed_on_either_side_nothing_is_lost(tmp_path: Path, link: str, sends: str, reads: str) -> None:
    class Linked(Called):
        def write(self, name: str, match: str = link, *, auto: str = "true") -> None:
            super().write(name, match, auto=auto)

    pair = Linked(tmp_path)
    sent: list[str] = []
    try:
        for name in ("far", "near"):
            more = [f"{len(sent) + number}" for number in range(60)]
            pair.send(*more, name=sends)
            sent += more
            pair.kill(name)
            pair.start(name)
        came: list[str] = []
        end = time.monotonic() + PATIENCE_S
        while not set(sent) <= set(came) and time.monotonic() < end:
            came += pair.read(1, reads, 1.0)
        with never():
            assert set(came) == set(sent), f"lost {set(sent) - set(came)}"
        assert pair.waiting(sends) == 0
    finally:
        for one in pair.running.values():
            one.stop()
