"""A broker's files that a task reads itself: the same rows as those that are sent, whatever is in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from buffered import octets
from entrepot.base.errors import ProtocolViolation
from entrepot.driver.shard import Piece
from entrepot.pipeline import claims, leases
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.leases import read_range
from entrepot.pipeline.options import READ, Options, read
from entrepot.pipeline.schema import COLUMNS
from entrepot.protocols.stomp import located as located_form
from entrepot.protocols.stomp.buffers import Column, Scattered
from entrepot.protocols.stomp.frames import Frame
from entrepot.protocols.stomp.located import Located, Locations
from shell.daemon import Daemon, Wire

ALL = [column.name for column in COLUMNS]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path).start().stay()
    yield running
    running.stop()


def located(daemon: Daemon) -> int:
    """Return how many messages the reader of the only lease was told the places of."""
    address = f"stomp://127.0.0.1:{daemon.port}"
    said = subprocess.run(
        [sys.executable, "-m", "entrepot", "lease", "list", "--url", address, "-o", "json"],
        check=True,
        capture_output=True,
        text=True,
    )
    (row,) = (json.loads(line) for line in said.stdout.splitlines())
    return int(row["located"])


def mixed(daemon: Daemon, count: int) -> None:
    """Send what is plain, what is not, and what is longer than a frame is."""
    wire = Wire(daemon.port)
    large = b"z" * 300_000
    for number in range(count):
        headers = {
            "destination": "/queue/q",
            "persistent": "true" if number % 3 else "false",
            "colour": f"c{number % 5}",
        }
        if number % 7 == 0:
            headers["amq-msg-type"] = "text"
        if number % 50 == 11:
            headers["JMSXGroupID"] = "g"
        wire.say("SEND", headers, large if number == count // 2 else b"%d." % number * 40)
    wire.leave()


def parts(column: Column) -> tuple[object, ...]:
    held = octets(column) if isinstance(column, Scattered) else column.data
    return column.nulls, column.valid, column.offsets, held, [parts(child) for child in column.children]


def rows(given: Options, piece: Piece, *, direct: bool, octets: int = 1 << 26) -> list[object]:
    found: list[object] = []
    for portion in read_range(Brokers(given), given.subject(), piece, octets, ALL, direct=direct):
        found.append({name: parts(column) for name, column in portion.take().items()})
    return found


@pytest.fixture
def claimed(daemon: Daemon) -> tuple[Options, Piece]:
    mixed(daemon, 1_200)
    held = claims.claim(url=f"stomp://127.0.0.1:{daemon.port}", queue="q", subscription="s")
    (broker,) = held.end
    given = read(
        {"url": f"stomp://127.0.0.1:{daemon.port}", "queue": "q", "subscription": "s", "range": held.range}, READ
    )
    return given, Piece(broker, "", held.epochs[broker], 0, held.count)


def test_what_a_task_reads_itself_is_what_it_would_have_been_sent(
    daemon: Daemon, claimed: tuple[Options, Piece]
) -> None:
    given, piece = claimed
    sent = rows(given, piece, direct=False)
    assert located(daemon) == 0
    assert rows(given, piece, direct=True) == sent
    assert located(daemon) > 600
    daemon.kill()
    daemon.start()
    assert rows(given, piece, direct=True) == sent
    assert len(rows(given, piece, direct=True, octets=20_000)) > 10


def test_a_portion_is_what_one_read_had(daemon: Daemon) -> None:
    wire = Wire(daemon.port)
    for number in range(3_000):
        wire.send("/queue/q", b"%4d" % number * 250, persistent="true")
    wire.leave()
    url = f"stomp://127.0.0.1:{daemon.port}"
    held = claims.claim(url=url, queue="q", subscription="s")
    (broker,) = held.end
    given = read({"url": url, "queue": "q", "subscription": "s", "range": held.range}, READ)
    piece = Piece(broker, "", held.epochs[broker], 0, held.count)
    counts, pieces = [], []
    for portion in read_range(Brokers(given), given.subject(), piece, 200_000, ["body"]):
        counts.append(int(portion.count))
        column = portion.take()["body"]
        assert isinstance(column, Scattered)
        pieces.append(len(column.pieces))
    assert sum(counts) == 3_000
    assert set(pieces) == {1}
    assert len(set(counts[6:-1])) == 1, "memory of one size is used again"


def test_who_may_not_read_the_files_is_sent_the_messages(daemon: Daemon, claimed: tuple[Options, Piece]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else for a while")
    given, piece = claimed
    sent = rows(given, piece, direct=False)
    os.seteuid(65_534)
    try:
        assert rows(given, piece, direct=True) == sent
    finally:
        os.seteuid(0)


def test_files_that_are_gone_or_another_are_not_read(daemon: Daemon, claimed: tuple[Options, Piece]) -> None:
    given, piece = claimed
    sent = rows(given, piece, direct=False)  # the broker has the files open now
    home = daemon.data / "journal"
    for path in home.glob("*.seg"):
        content = path.read_bytes()
        path.rename(path.with_suffix(".away"))
        path.write_bytes(content[:64] + b"\0" * len(content))
    try:
        assert rows(given, piece, direct=True) == sent
    finally:
        for path in home.glob("*.away"):
            path.rename(path.with_suffix(".seg"))


def test_a_broker_that_does_not_know_the_form_is_asked_for_the_messages(
    daemon: Daemon, claimed: tuple[Options, Piece], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, piece = claimed
    sent = rows(given, piece, direct=False)
    monkeypatch.setattr(located_form, "FORM", "of the future")
    assert rows(given, piece, direct=True) == sent
    assert located(daemon) == 0


@pytest.mark.parametrize("count", [0, 11])
def test_places_of_what_was_not_asked_for_are_refused(
    daemon: Daemon, claimed: tuple[Options, Piece], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    given, piece = claimed
    answer = leases._Reading._answer

    def another(self: leases._Reading, receipt: str) -> Frame | None:
        told = answer(self, receipt)
        assert told is not None
        rows = Locations(told.body)
        made = Located()
        for each in rows.files:
            made.name(each)
        for row in (each % 10 for each in range(count)):
            made.add(rows.file(row), rows.number(row), rows.offset(row), rows.length(row), 0)
        return Frame(told.command, told.headers, made.body())

    monkeypatch.setattr(leases._Reading, "_answer", another)
    with pytest.raises(ProtocolViolation, match=f"told the places of {count} messages; 10 are left"):
        rows(given, Piece(piece.broker, "", piece.epoch, 0, 10), direct=True)
