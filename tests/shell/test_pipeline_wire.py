"""The pipeline's own connection to brokers, over real sockets and without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.base.errors import InvalidOption, LeaseError, Refused, Unreachable
from entrepot.driver.shard import Piece, Subject
from entrepot.pipeline import claims, staging
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.browsing import browse
from entrepot.pipeline.leases import read_range
from entrepot.pipeline.options import READ, WRITE, Options, read
from shell.certificates import Certificates
from shell.daemon import Daemon, Wire
from shell.portions import BODY, bodies


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path).start().stay()
    yield running
    running.stop()


def options(daemon: Daemon, **more: str) -> Options:
    return read({"url": f"stomp://127.0.0.1:{daemon.port}", "queue": "q", **more}, READ)


def fill(daemon: Daemon, count: int) -> None:
    wire = Wire(daemon.port)
    for number in range(count):
        wire.say("SEND", {"destination": "/queue/q", "persistent": "true"}, b"%d" % number)
    wire.leave()


def test_a_range_is_read_on_behind_a_crash_of_the_broker(daemon: Daemon) -> None:
    fill(daemon, 3_000)
    held = claims.claim(url=f"stomp://127.0.0.1:{daemon.port}", queue="q", subscription="s")
    assert held.count == 3_000
    (broker,) = held.end
    given = options(daemon, subscription="s", range=held.range)
    portions = read_range(
        Brokers(given), given.subject(), Piece(broker, "", held.epochs[broker], 0, 3_000), 2_000, BODY
    )
    found = bodies(next(portions))
    daemon.kill()
    daemon.start()
    for portion in portions:
        found += bodies(portion)
    assert found == [b"%d" % number for number in range(3_000)]
    held.settle()
    with pytest.raises(LeaseError, match="outside of the ledger"):
        list(read_range(Brokers(given), given.subject(), Piece(broker, "", held.epochs[broker], 0, 5), 2_000, BODY))


def test_a_range_that_was_claimed_again_is_no_longer_ours(daemon: Daemon) -> None:
    fill(daemon, 10)
    url = f"stomp://127.0.0.1:{daemon.port}"
    first = claims.claim(url=url, queue="q", subscription="s", limit=4)
    second = claims.claim(url=url, queue="q", subscription="s", limit=6)
    assert (first.count, second.count) == (4, 6)
    with pytest.raises(LeaseError):
        first.settle()
    with pytest.raises(InvalidOption, match="the range is of"):
        claims.Held.parse(second.range, options(daemon, subscription="other", range="x"))
    second.settle()


def test_a_browse_shows_all_and_a_refusal_is_raised(daemon: Daemon) -> None:
    fill(daemon, 500)
    given = options(daemon)
    brokers = Brokers(given)
    (wire,) = brokers.everyone()
    found = [body for portion in browse(brokers, wire.broker, given.subject(), 1_000, BODY) for body in bodies(portion)]
    assert found == [b"%d" % number for number in range(500)]
    with pytest.raises(Refused):
        list(browse(brokers, wire.broker, Subject("/queue/q", "", "colour = "), 1_000, BODY))
    wire.close()


def test_a_broker_is_looked_for_elsewhere_and_not_mistaken_for_another(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Daemon(tmp_path / "other").start()
    try:
        url = f"failover:(stomp://127.0.0.1:1,stomp://127.0.0.1:{other.port},stomp://127.0.0.1:{daemon.port})"
        brokers = Brokers(read({"url": url, "queue": "q", "failoverTimeout": "200"}, READ))
        first, second = brokers.everyone()
        assert first.broker != second.broker
        again = brokers.open(second.broker)
        assert again.place.port == daemon.port
        with pytest.raises(Unreachable, match="none of the places"):
            brokers.open("somebody")
        for wire in (first, second, again):
            wire.close()
    finally:
        other.stop()


def test_messages_without_a_stage_are_confirmed_by_the_last(daemon: Daemon) -> None:
    given = read({"url": f"stomp://127.0.0.1:{daemon.port}", "queue": "q"}, WRITE)
    outlet = staging.Outlet(Brokers(given).one_of(0))
    frame = b"SEND\ndestination:/queue/q\npersistent:true\n\n" + b"x" * 1_000 + b"\0"
    outlet.send(frame for _ in range(10_000))
    outlet.confirm()
    daemon.kill()
    daemon.start()
    assert len(Wire(daemon.port).drain("/queue/q")) == 10_000


def test_what_the_broker_objects_to_ends_the_writing(daemon: Daemon) -> None:
    given = read({"url": f"stomp://127.0.0.1:{daemon.port}", "queue": "q"}, WRITE)
    outlet = staging.Outlet(Brokers(given).one_of(0))
    bad = b"SEND\ndestination:/queue/q\nexpires:never\n\n" + b"x" * 1_000 + b"\0"

    def write() -> None:
        outlet.send(bad for _ in range(20_000))
        outlet.confirm()

    with pytest.raises((Refused, Unreachable)):
        write()


def test_tls_is_spoken_with_whom_we_trust_and_with_nobody_else(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    daemon = Daemon(tmp_path, "--listen", f"stomp+ssl://127.0.0.1:0?keyStorePath={files.server}").start()
    try:
        (place,) = [uri for uri in json.loads(daemon.ports.read_text())["uris"] if "ssl" in uri]
        given = {"url": place, "queue": "q", "failoverTimeout": "0"}
        (wire,) = Brokers(read({**given, "tls.trustStorePath": str(files.authority)}, READ)).everyone()
        assert wire.broker
        wire.close()
        with pytest.raises(Unreachable, match="no TLS with"):
            Brokers(read(given, READ)).everyone()
    finally:
        daemon.stop()
