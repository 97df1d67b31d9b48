"""The driver's side of a staged commit against brokers that remember what docs/stages.md says they do."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver.stages import Author, Committed, part_name
from entrepot.pipeline import staging, wire
from entrepot.pipeline.options import WRITE, Options, read

QUERY = Author("query", "run", "7")


class Broker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.stages: dict[str, int] = {}
        self.decided: dict[str, str] = {}
        self.published: dict[str, tuple[str, int]] = {}
        self.visible = 0
        self.calls: list[str] = []
        self.dies_in = -1  # calls until it dies, behind the effect of the last


class Wire:
    def __init__(self, broker: Broker, place: Endpoint) -> None:
        self.broker = broker.name
        self.place = place
        self._broker = broker

    def ask(self, command: str, headers: Mapping[str, str]) -> dict[str, str]:
        broker, batch = self._broker, headers["batch"]
        broker.calls.append(command)
        answer: dict[str, str] = {}
        if command == "DECIDE":
            answer["parts"] = broker.decided.setdefault(batch, headers["parts"])
            assert "decider" not in headers
        elif command == "PUBLISH":
            if batch not in broker.published:
                count = sum(broker.stages.pop(part) for part in headers["parts"].split(",") if part)
                broker.published[batch] = (headers["parts"], count)
                broker.visible += count
            assert broker.published[batch][0] == headers["parts"], "other parts than were published"
            answer["count"] = str(broker.published[batch][1])
        elif "forget" in headers:
            broker.decided.clear()
        else:
            for part in headers["parts"].split(","):
                broker.stages.pop(part, None)
        broker.dies_in -= 1
        if broker.dies_in == 0:
            raise Unreachable("it died behind this")
        return answer

    def close(self) -> None: ...


def options(url: str) -> Options:
    return read({"url": url, "queue": "q", "failoverTimeout": "0"}, WRITE)


def use(patch: pytest.MonkeyPatch, brokers: dict[int, Broker]) -> None:
    def made(place: Endpoint, options: Options) -> Wire:
        if place.port not in brokers:
            raise Unreachable("nobody there")
        return Wire(brokers[place.port], place)

    patch.setattr(wire, "Wire", made)
    patch.setattr(staging, "Wire", made)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from("AB")), max_size=6))
def test_a_batch_is_seen_once_wherever_drivers_die(deaths: list[tuple[int, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        a, b = Broker("A"), Broker("B")
        use(patch, {1: a, 2: b})
        for attempt in range(len(deaths) + 1):
            parts = [part_name("A", f"{attempt}"), part_name("B", f"{attempt}")]
            a.stages[parts[0]] = b.stages[parts[1]] = 10
            a.dies_in = b.dies_in = -1
            if attempt < len(deaths):
                calls, which = deaths[attempt]
                (a if which == "A" else b).dies_in = calls
            try:
                staging.Coordination(options("h:1,h:2")).commit("s", 7, parts, QUERY)
            except Unreachable:
                continue
        assert (a.visible, b.visible) == (10, 10)
        assert b.decided == {}


def test_losers_are_dropped_where_nobody_publishes_and_a_sink_that_ends_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = Broker("A"), Broker("B")
    use(monkeypatch, {1: a, 2: b})
    a.decided["7"] = won = part_name("A", "first")
    lost = part_name("B", "second")
    a.stages, b.stages = {won: 3}, {lost: 3}
    assert staging.Coordination(options("h:1,h:2")).commit("s", 7, [lost], Author(), forget=True) == Committed(
        3, ours=False
    )
    assert b.stages == {}
    assert a.calls[-1] == "ABANDON"
    assert a.decided == {}


def test_a_batch_without_rows_is_decided_too(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Broker("A")
    use(monkeypatch, {1: a})
    staging.Coordination(options("h:1")).commit("s", 7, [], QUERY)
    a.stages["A~late"] = 5
    staging.Coordination(options("h:1")).commit("s", 7, ["A~late"], QUERY)
    assert a.visible == 0


def test_the_broker_that_decides_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {1: Broker("A"), 2: Broker("B")})
    with pytest.raises(InvalidOption, match="different brokers"):
        staging.Coordination(options("failover:(stomp://h:1,stomp://h:2)")).commit("s", 7, [], QUERY)
    with pytest.raises(Unreachable):
        staging.Coordination(options("h:3,h:1")).commit("s", 7, [], QUERY)


def test_the_broker_that_decides_publishes_last_also_what_it_has_nothing_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it knows when a batch is done everywhere."""
    a, b = Broker("A"), Broker("B")
    use(monkeypatch, {1: a, 2: b})
    b.stages = {"B~only": 3}
    b.dies_in = 1
    for _ in range(2):
        with contextlib.suppress(Unreachable):
            assert staging.Coordination(options("h:1,h:2")).commit("s", 7, ["B~only"], QUERY) == Committed(3, ours=True)
    assert a.calls == ["DECIDE", "DECIDE", "PUBLISH"]
    staging.Coordination(options("h:1,h:2")).commit("s", 8, [], QUERY)
    assert a.calls[3:] == ["DECIDE"]
