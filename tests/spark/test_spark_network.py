"""Where a query begins, and which brokers it reads: also those that its url does not name, and one that joins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.daemon import Daemon
from spark.stand import Stand


class Member:
    """A broker with a bridge, both ways, to one that is there already. It keeps its ports when it is started again."""

    def __init__(self, home: Path, name: str, peer: Member | None = None) -> None:
        (home / name).mkdir()
        arguments = ["--name", name, "--listen", "openwire://127.0.0.1:0"]
        if peer is not None:
            arguments += ["--connect", f"static:({peer.openwire})?initialReconnectDelay=50", "--duplex"]
        self.daemon = Daemon(home / name, *arguments).start()
        self.openwire = json.loads(self.daemon.ports.read_text())["uris"][1].replace("openwire:", "tcp:")

    @property
    def url(self) -> str:
        return f"stomp://127.0.0.1:{self.daemon.port}"


@pytest.fixture
def pair(tmp_path: Path, stand: Stand) -> Iterator[list[Member]]:
    """Two brokers; tests add a third."""
    members: list[Member] = []
    try:
        members.append(Member(tmp_path, "one"))
        members.append(Member(tmp_path, "two", members[0]))
        yield members
    finally:
        stand.close()
        for member in members:
            member.daemon.stop()


def test_a_broker_that_joins_while_a_query_runs(stand: Stand, pair: list[Member], tmp_path: Path) -> None:
    one, two = pair
    sent = stand.produce(["at-one"], one.daemon) + stand.produce(["at-two"], two.daemon)
    stand.start(stand.stream(url=one.url).select("text", "broker"), processingTime="0 seconds")
    stand.until(lambda: sorted(stand.texts()) == sorted(sent))
    three = Member(tmp_path, "three", two)  # two bridges away from what the url names
    pair.append(three)
    sent += stand.produce([f"at-three-{number}" for number in range(200)], three.daemon)
    stand.until(lambda: sorted(stand.texts()) == sorted(sent))
    assert len({row["broker"] for rows in stand.batches.values() for row in rows}) == 3


def test_a_batch_a_claim_and_available_now_know_all_of_the_network_too(stand: Stand, pair: list[Member]) -> None:
    one, two = pair
    sent = stand.produce(["first"], one.daemon) + stand.produce(["second"], two.daemon)
    stand.url = one.url
    stand.until(lambda: stand.browse().count() == 2)  # the bridge may not be open yet
    assert stand.browse(discover="false").count() == 1
    stand.run(stand.stream(subscription="s").select("text"))
    assert sorted(stand.texts()) == sorted(sent)


def test_a_query_from_now_on_and_one_from_a_time_on(stand: Stand) -> None:
    old = stand.produce(["old", "older"], timestamp="1700000000000")
    latest = {"subscription": "new-ones", "startingPosition": "latest"}
    stand.run(stand.stream(**latest).select("text"))
    assert stand.texts() == []
    new = stand.produce(["new"], timestamp="1800000000000")
    stand.run(stand.stream(**latest).select("text"))
    assert stand.texts() == new
    newer = stand.produce(["newer"], timestamp="1900000000000")
    since = {"subscription": "since", "startingPosition": "2027-01-15T08:00:00Z"}  # 1800000000
    stand.batches.clear()
    stand.run(stand.stream(**since).select("text"), checkpoint="since")
    assert stand.texts() == newer
    assert stand.left() == old
