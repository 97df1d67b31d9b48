"""A federation of real processes: fetched while wanted, killed on either side, changed by its file, seen by people."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from entrepot import Acknowledge, blocking
from pairs import free_port
from promises import never
from shell.test_cli import Running
from shell.test_managing import done

PATIENCE_S: Final = 30.0
FILE: Final = """\
<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <name>{name}</name>
  <security-enabled>false</security-enabled>
  <journal-directory>journal</journal-directory>
  <configuration-file-refresh-period>200</configuration-file-refresh-period>
  <addresses>
    <address name="orders"><anycast><queue name="orders"/></anycast></address>
  </addresses>
  {more}
</core></configuration>
"""
FEDERATION: Final = """
<connectors><connector name="far">tcp://127.0.0.1:{port}</connector></connectors>
<federations><federation name="F"><upstream name="U">
  <retry-interval>100</retry-interval>
  <static-connectors><connector-ref>far</connector-ref></static-connectors><policy ref="P"/></upstream>
  <queue-policy name="P"><include queue-match="{match}"/></queue-policy>
</federation></federations>
"""


class Pair:
    """``near`` has the federation. Each may be killed and started again; its store and port stay."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = {"far": free_port(), "near": free_port()}
        self.running: dict[str, Running] = {}
        for name in self.ports:
            (home / name / "etc").mkdir(parents=True)
        self.write("far")
        self.write("near")
        self.start("far")
        self.start("near")

    def write(self, name: str, match: str = "orders") -> None:
        more = FEDERATION.format(port=self.ports["far"], match=match) if name == "near" else ""
        text = FILE.format(name=name, more=more)
        (self.home / name / "etc" / "broker.xml").write_text(text)

    def start(self, name: str) -> None:
        home = self.home / name
        (home / "ports.json").unlink(missing_ok=True)
        place = f"auto://127.0.0.1:{self.ports[name]}"
        self.running[name] = Running(home, "--listen", place, str(home / "etc" / "broker.xml"))

    def kill(self, name: str) -> None:
        process = self.running[name].process
        process.kill()
        process.communicate()

    def url(self, name: str) -> str:
        return f"core://127.0.0.1:{self.ports[name]}"

    def send(self, *bodies: str, name: str = "far") -> None:
        with (
            blocking.connect(self.url(name)) as connection,
            connection.session() as session,
            session.producer("orders") as producer,
        ):
            for body in bodies:
                producer.send(body)

    def read(self, most: int, name: str = "near", patience: float = PATIENCE_S) -> list[str]:
        """Return what a queue has, and settle it."""
        found: list[str] = []
        with (
            blocking.connect(self.url(name)) as connection,
            connection.session() as session,
            session.consumer("orders") as consumer,
        ):
            while True:
                message = consumer.receive(patience if len(found) < most else 1.0)
                if message is None:
                    return found
                found.append(str(message.body))

    def row(self) -> dict[str, Any]:
        (row,) = done(self.running["near"], "bridge", "list")
        return row

    def until(self, **wanted: object) -> None:
        end = time.monotonic() + PATIENCE_S
        while any(self.row().get(key) != value for key, value in wanted.items()):
            assert time.monotonic() < end, self.row()
            time.sleep(0.1)

    def waiting(self, name: str) -> int:
        rows = done(self.running[name], "queue", "list")
        return next(int(row["messages"]) for row in rows if row["name"] == "orders")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for one in made.running.values():
        if one.process.poll() is None:
            one.stop()


def test_it_is_fetched_while_somebody_reads_and_an_operator_sees_why(pair: Pair) -> None:
    pair.until(state="open", demands=0)
    pair.send("a", "b")
    near = pair.running["near"]
    told = near.do("explain", "orders", "--alone").stdout
    assert "[unwanted]" in told
    assert "nobody reads it here" in told
    with (
        blocking.connect(pair.url("near")) as connection,
        connection.session(Acknowledge.CLIENT) as session,
        session.consumer("orders") as consumer,
    ):
        assert [str(consumer.receive(PATIENCE_S).body) for _ in "ab"] == ["a", "b"]  # type: ignore[union-attr]
        assert "its queue orders is reading" in near.do("explain", "orders", "--alone").stdout
        assert (pair.row()["received"], pair.row()["demand"]) == (2, ["orders"])
        assert near.do("bridge", "list").stdout.splitlines()[1].split()[:3] == [
            "F/U",
            f"127.0.0.1:{pair.ports['far']}",
            "<",
        ]
    pair.until(demands=0)
    pair.send("c")
    time.sleep(0.5)
    assert (pair.waiting("far"), pair.waiting("near")) == (1, 2)
    assert near.do("bridge", "stop", "F/U").returncode == 0
    pair.until(state="stopped")
    assert near.do("bridge", "start", "F/U").returncode == 0
    pair.until(state="open")


def test_its_file_is_read_again(pair: Pair) -> None:
    pair.until(state="open")
    pair.write("near", match="others.#")
    pair.send("a")
    end = time.monotonic() + PATIENCE_S
    while "the policy P" in pair.running["near"].do("explain", "orders", "--alone").stdout:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert pair.read(1, patience=1.0) == []
    pair.write("near")
    while "the policy P" not in pair.running["near"].do("explain", "orders", "--alone").stdout:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert pair.read(1) == ["a"]


def test_killed_on_either_side_nothing_is_lost_and_nothing_comes_twice(pair: Pair) -> None:
    sent: list[str] = []

    def send(count: int) -> None:
        more = [f"{len(sent) + number}" for number in range(count)]
        pair.send(*more)
        sent.extend(more)

    for name in ("far", "near", "far", "near"):
        with (
            blocking.connect(pair.url("near")) as connection,
            connection.session(Acknowledge.CLIENT) as session,
            session.consumer("orders"),
        ):
            pair.until(demands=1)
            send(60)
            if name == "far":
                pair.kill("far")
                pair.start("far")
                send(40)
                pair.until(state="open")
        if name == "near":
            pair.kill("near")
            pair.start("near")
    came = pair.read(len(sent))
    with never():
        assert sorted(came, key=int) == sent, f"lost {set(sent) - set(came)}, {len(came) - len(set(came))} twice"


DOWNSTREAM: Final = """
<connectors><connector name="near">tcp://127.0.0.1:{near}</connector>
<connector name="back">tcp://127.0.0.1:{far}</connector></connectors>
<federations><federation name="F"><downstream name="D">
  <retry-interval>100</retry-interval>
  <static-connectors><connector-ref>near</connector-ref></static-connectors><policy ref="P"/>
  <upstream-connector-ref>back</upstream-connector-ref></downstream>
  <queue-policy name="P"><include queue-match="orders"/></queue-policy>
</federation></federations>
"""


class Told(Pair):
    """``far`` has the messages, and tells ``near`` to fetch them."""

    def write(self, name: str, match: str = "orders") -> None:
        more = DOWNSTREAM.format(**self.ports) if name == "far" else ""
        (self.home / name / "etc" / "broker.xml").write_text(FILE.format(name=name, more=more))


def test_what_is_deployed_is_seen_on_both_sides_and_comes_back_after_kill_9(tmp_path: Path) -> None:
    pair = Told(tmp_path)
    sent = [f"{number}" for number in range(40)]
    try:
        pair.until(state="open", demands=0)
        row = pair.row()
        assert row["connector"] == f"F-upstream/D-upstream@127.0.0.1:{pair.ports['far']}"
        (deploying,) = done(pair.running["far"], "bridge", "list")
        assert (deploying["connector"], deploying["state"], deploying["deployed"]) == ("F/downstream/D", "open", ["P"])
        told = pair.running["near"].do("explain", "orders", "--alone").stdout
        assert row["connector"] in told
        for name in ("near", "far"):
            with (
                blocking.connect(pair.url("near")) as connection,
                connection.session(Acknowledge.CLIENT) as session,
                session.consumer("orders"),
            ):
                pair.until(demands=1)
                pair.send(*sent[:20])
                pair.kill(name)
            pair.start(name)
            end = time.monotonic() + PATIENCE_S
            while not any(one["state"] == "open" for one in done(pair.running["near"], "bridge", "list")):
                assert time.monotonic() < end
                time.sleep(0.1)
            del sent[:20]
        came = pair.read(40)
        with never():
            assert sorted(came, key=int) == [f"{number}" for number in range(40)]
        assert pair.running["far"].do("bridge", "stop", "F/downstream/D").returncode == 0
        end = time.monotonic() + PATIENCE_S
        while done(pair.running["near"], "bridge", "list"):
            assert time.monotonic() < end, "what it deployed ends with it"
            time.sleep(0.1)
    finally:
        for one in pair.running.values():
            if one.process.poll() is None:
                one.stop()
