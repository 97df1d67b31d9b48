"""A query's hold on the brokers of a real network, without Spark: they join, leave in order, or are behind TLS."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot.driver.offsets import Offsets
from entrepot.pipeline import claims
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.leases import read_range
from entrepot.pipeline.options import STREAM, read
from entrepot.pipeline.subscription import Subscription
from promises import never
from shell.certificates import Certificates
from shell.daemon import PATIENCE, Daemon, Wire
from shell.portions import BODY, bodies


class Member:
    """A broker with a bridge, both ways, to one that is there already."""

    def __init__(self, home: Path, name: str, peer: Member | None = None, *arguments: str) -> None:
        (home / name).mkdir()
        given = ["--name", name, "--listen", "openwire://127.0.0.1:0", *arguments]
        if peer is not None:
            given += ["--connect", f"static:({peer.openwire})?initialReconnectDelay=50", "--duplex"]
        self.daemon = Daemon(home / name, *given).start()
        self.openwire = self.uri("openwire").replace("openwire:", "tcp:")

    def uri(self, scheme: str) -> str:
        """Where it speaks that."""
        uris: list[str] = json.loads(self.daemon.ports.read_text())["uris"]
        return next(uri for uri in uris if uri.startswith(f"{scheme}:"))

    def send(self, *bodies: str) -> list[str]:
        wire = Wire(self.daemon.port)
        for body in bodies:
            wire.send("/queue/q", body.encode(), persistent="true")
        wire.leave()
        return [*bodies]


class Query:
    """What Spark's driver and its tasks do, batch by batch."""

    def __init__(self, **given: str) -> None:
        self.options = read({"queue": "q", "subscription": "s", "pollWait": "50", **given}, STREAM)
        self.hold = Subscription(self.options)
        self.at: Offsets = self.hold.initial()
        self.found: list[str] = []

    def until(self, holds: Callable[[], bool]) -> None:
        """Run batches until ``holds``."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.found
            after = self.hold.latest(self.at, 100)
            for piece in self.hold.plan(self.at, after, 0, 1):
                for portion in read_range(Brokers(self.options), self.options.subject(), piece, 1 << 20, BODY):
                    self.found += [body.decode() for body in bodies(portion)]
            self.at = after


@pytest.fixture
def members() -> Iterator[list[Member]]:
    made: list[Member] = []
    yield made
    for member in made:
        member.daemon.stop()


def test_brokers_join_and_leave_in_order_and_nothing_is_lost(members: list[Member], tmp_path: Path) -> None:
    one = Member(tmp_path, "one")
    members.append(one)
    two = Member(tmp_path, "two", one)
    members.append(two)
    sent = one.send("at one") + two.send("at two")
    query = Query(url=one.uri("stomp"))
    query.until(lambda: sorted(query.found) == sorted(sent))
    three = Member(tmp_path, "three", two)  # two bridges away from the one that is named
    members.append(three)
    sent += three.send(*(f"at three {number}" for number in range(50)))
    query.until(lambda: sorted(query.found) == sorted(sent))
    assert len(query.hold.epochs) == 3

    sent += three.send("it leaves", "and takes these along")
    assert three.daemon.stop() == 0
    sent += two.send("meanwhile")
    query.until(lambda: "meanwhile" in query.found)
    three.daemon.start()  # at other ports, which the others learn from it
    sent += three.send("it is back")
    query.until(lambda: len(query.found) >= len(sent))
    with never():
        assert sorted(query.found) == sorted(sent)
    query.hold.close()

    # a batch that is claimed knows all of them at once, and settles where none of them is named
    one.daemon.stop()
    later = two.send("claimed") + three.send("claimed, too")
    held = claims.claim(url=two.uri("stomp"), queue="q", subscription="s")
    assert len(held.end) == 2
    held.settle()
    assert held.count >= len(later)
    assert claims.claim(url=three.uri("stomp"), queue="q", subscription="s").count == 0


def test_over_tls_only_places_with_tls_are_gone_to(members: list[Member], tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    secure = ("--listen", f"stomp+ssl://127.0.0.1:0?keyStorePath={files.server}")
    one = Member(tmp_path, "one", None, *secure)
    members.append(one)
    members.append(Member(tmp_path, "two", one, *secure))
    members.append(Member(tmp_path, "three", one))  # without TLS: credentials do not go there
    sent = members[0].send("at one") + members[1].send("at two")
    members[2].send("out of reach")
    query = Query(url=one.uri("stomp+ssl"), **{"tls.trustStorePath": str(files.authority)})
    query.until(lambda: sorted(query.found) == sorted(sent))
    assert all(place.secure for place in query.hold.places.values())
    plain = Query(url=one.uri("stomp"), subscription="plain")
    plain.until(lambda: plain.found == ["out of reach"])  # what the other query holds is hidden
    assert len(plain.hold.epochs) == 3
    for each in (query, plain):
        each.hold.close()
