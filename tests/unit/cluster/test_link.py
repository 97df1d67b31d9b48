"""LinkCore alone: a port that records, a broker core, and time as an argument."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Fault, Inexpressible
from entrepot.base.uri import Endpoint
from entrepot.cluster.link import TRANSITIONS, Feed, LinkCore, LinkOptions, LinkPort, Signal, State
from entrepot.cluster.networks.options import ReconnectOptions
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.failover import Dial, Drop, GiveUp, Warn
from kit import SECOND, Rig

PLACES = [Endpoint("tcp", "a", 1), Endpoint("tcp", "b", 1)]


class Port(LinkPort):
    def __init__(self) -> None:
        self.sent: list[tuple[int, str, bool]] = []
        self.number = 0
        self.confirms = True
        self.refuses = False
        self.endings: list[str] = []
        self.buried: list[str] = []

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        if self.refuses:
            raise Inexpressible("too large")
        self.number += 1
        self.sent.append((self.number, message.raw.decode(), doubtful))
        return self.number if self.confirms else 0

    def probe(self) -> int:
        self.number += 1
        return self.number

    def lost(self, why: str) -> None:
        self.endings.append(why)

    def failed_forward(self, feed: Feed, message: Message, why: str) -> None:
        self.buried.append(why)


class Setup:
    def __init__(self, places: list[Endpoint] | None = None, **reconnect: int | bool) -> None:
        self.rig = Rig()
        options = LinkOptions(reconnect=ReconnectOptions(**reconnect), interval=SECOND)
        self.link = LinkCore("L", self.rig.broker, options, PLACES[:1] if places is None else places)
        self.port = Port()
        self.link.port = self.port

    @property
    def now(self) -> int:
        return self.rig.now

    def open(self) -> Setup:
        self.link.start(self.now)
        self.link.connected(self.link.attempt, self.now)
        self.link.opened(self.now)
        return self

    def feed(self, text: str = "Q", prefetch: int = 10) -> Feed:
        feed = Feed(self.link, names.parse(text), prefetch)
        self.link.add(feed)
        return feed

    def pass_time(self, ms: int) -> list[object]:
        effects: list[object] = []
        for _ in range(ms // 10):
            self.rig.wait(10)
            if self.link.deadline() <= self.now:
                effects += self.link.advance(self.now)
            self.link.check()
        return effects


def bodies(port: Port) -> list[str]:
    return [raw.split('"')[3] for _, raw, _ in port.sent]


def test_a_message_is_settled_when_the_peer_confirms_it_and_not_before() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", ["a", "b"])
    setup.feed()
    assert bodies(setup.port) == ["a", "b"]
    assert setup.rig.queue("Q").count == 2
    assert setup.link.confirmed(2, setup.now)
    assert setup.rig.queue("Q").count == 1
    assert setup.link.confirmed(1, setup.now)
    assert setup.rig.queue("Q").count == 0
    assert not setup.link.confirmed(1, setup.now)
    setup.link.check()


def test_what_the_peer_did_not_confirm_goes_again_in_order_and_marked() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", ["a", "b", "c"])
    setup.feed()
    setup.link.confirmed(2, setup.now)
    setup.link.failed(setup.link.attempt, "cut", setup.now)
    assert setup.link.state is State.WAITING
    assert setup.rig.queue("Q").count == 2
    setup.port.sent.clear()
    setup.pass_time(1000)
    setup.link.connected(setup.link.attempt, setup.now)
    setup.link.opened(setup.now)
    setup.rig.send("Q", "d")
    setup.feed()
    assert bodies(setup.port) == ["a", "c", "d"]
    assert [doubtful for _, _, doubtful in setup.port.sent] == [True, True, False]


def test_what_needs_no_confirmation_is_settled_when_it_is_sent() -> None:
    setup = Setup().open()
    setup.port.confirms = False
    setup.rig.send_all("Q", range(30))
    setup.feed(prefetch=5)
    setup.rig.wait(1)
    for _ in range(10):
        setup.rig.wait(1)
    assert bodies(setup.port) == [str(number) for number in range(30)]
    assert setup.rig.queue("Q").count == 0


def test_a_message_that_cannot_be_written_is_a_dead_letter_and_stops_nobody() -> None:
    setup = Setup().open()
    setup.port.refuses = True
    setup.feed()
    setup.rig.send("Q", "monster")
    setup.rig.wait(1)
    setup.port.refuses = False
    setup.rig.send("Q", "small")
    assert bodies(setup.port) == ["small"]
    assert setup.port.buried == ["too large"]
    assert setup.rig.bodies("ActiveMQ.DLQ") == ["monster"]


def test_the_window_bounds_what_is_under_way_and_back_pressure_stops_it() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", range(10))
    setup.feed(prefetch=3)
    assert len(setup.port.sent) == 3
    setup.link.writable(False)
    setup.link.confirmed(1, setup.now)
    assert len(setup.port.sent) == 3
    setup.link.writable(True)
    assert len(setup.port.sent) == 4


@pytest.mark.parametrize("cut", [False, True])
def test_who_is_removed_takes_nothing_more_for_what_is_settled_then(cut: bool) -> None:
    setup = Setup().open()
    setup.port.confirms = False
    setup.rig.send_all("Q", ["a", "b", "c", "d", "e"])
    feed = setup.feed(prefetch=2)
    setup.port.confirms = True
    if cut:
        setup.link.failed(setup.link.attempt, "cut", setup.now)
    else:
        setup.link.remove(feed)
    assert bodies(setup.port) == ["a", "b"], "more was written, and nobody waits for the answers"
    assert not setup.link.under_way
    setup.link.check()
    assert setup.rig.queue("Q").count == 3


def test_a_refusal_rebuilds_the_link_unless_it_is_about_one_message_for_good() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", ["a", "b"])
    setup.feed()
    setup.link.rejected(1, "the temporary queue is gone", for_good=True, now=setup.now)
    assert setup.link.state is State.OPEN
    assert setup.rig.bodies("ActiveMQ.DLQ") == ["a"]
    effects = setup.link.rejected(2, "no", for_good=False, now=setup.now)
    assert [type(effect) for effect in effects] == [Drop, Warn]
    assert setup.rig.bodies("Q") == ["b"]


def test_a_feed_that_retires_waits_for_what_is_under_way() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", ["a", "b"])
    feed = setup.feed(prefetch=1)
    assert not setup.link.retire(feed)
    setup.link.confirmed(1, setup.now)
    assert feed not in setup.link.feeds
    assert setup.rig.bodies("Q") == ["b"]


def test_a_feed_that_retires_is_gone_when_the_last_under_way_is_refused_for_good() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", ["a", "b"])
    feed = setup.feed(prefetch=1)
    assert not setup.link.retire(feed)
    setup.link.rejected(1, "the temporary topic is gone", for_good=True, now=setup.now)
    assert feed not in setup.link.feeds, "nothing is on its way any more, and it stayed for ever"
    assert setup.rig.bodies("Q") == ["b"]


@pytest.mark.parametrize("refused", ["for good", "forbidden"])
def test_a_link_that_drains_is_closed_when_the_last_under_way_is_refused(refused: str) -> None:
    setup = Setup().open()
    setup.rig.send("Q", "a")
    setup.feed(prefetch=1)
    setup.link.drain(setup.now)
    assert setup.link.deadline() > setup.now
    if refused == "forbidden":
        assert setup.link.forbidden(1, setup.now) is not None
    else:
        setup.link.rejected(1, "the temporary topic is gone", for_good=True, now=setup.now)
    assert setup.link.deadline() <= setup.now


def test_a_feed_that_retires_may_be_wanted_again_before_all_arrived() -> None:
    setup = Setup().open()
    feed = setup.feed()
    setup.rig.send("Q", "one")
    assert not setup.link.retire(feed)
    setup.rig.send("Q", "two")
    assert bodies(setup.port) == ["one"]
    assert setup.link.revive(feed)
    assert bodies(setup.port) == ["one", "two"]
    setup.link.confirmed(1, setup.now)
    setup.link.confirmed(2, setup.now)
    assert feed in setup.link.feeds
    assert setup.link.retire(feed)
    assert not setup.link.revive(feed)


def test_backoff_grows_to_its_limit_and_forgets_after_a_connection_that_lived() -> None:
    setup = Setup(initial_delay=SECOND, max_delay=4 * SECOND, min_connect_time=5 * SECOND)
    setup.link.start(setup.now)
    waits = []
    for _ in range(5):
        setup.link.failed(setup.link.attempt, "refused", setup.now)
        waits.append((setup.link.deadline() - setup.now) // SECOND)
        setup.rig.wait(waits[-1] * 1000)
        assert [type(effect) for effect in setup.link.advance(setup.now)] == [Dial]
    assert waits == [1, 2, 4, 4, 4]
    setup.link.connected(setup.link.attempt, setup.now)
    setup.link.opened(setup.now)
    setup.rig.wait(1000)
    setup.link.failed(setup.link.attempt, "too soon", setup.now)
    assert setup.link.deadline() - setup.now == 4 * SECOND
    setup.rig.wait(4000)
    setup.link.advance(setup.now)
    setup.link.connected(setup.link.attempt, setup.now)
    setup.link.opened(setup.now)
    setup.rig.wait(6000)
    setup.link.failed(setup.link.attempt, "it lived", setup.now)
    assert setup.link.deadline() - setup.now == SECOND


def test_it_gives_up_after_as_many_attempts_as_it_may_and_an_operator_may_start_it_again() -> None:
    setup = Setup(attempts_max=2, initial_delay=SECOND)
    setup.link.start(setup.now)
    setup.link.failed(1, "no", setup.now)
    setup.rig.wait(1000)
    setup.link.advance(setup.now)
    effects = setup.link.failed(2, "no", setup.now)
    assert [type(effect) for effect in effects] == [Drop, GiveUp]
    assert setup.link.state is State.FAILED
    assert [type(effect) for effect in setup.link.start(setup.now)] == [Dial]


def test_a_round_tries_every_place_before_it_waits() -> None:
    setup = Setup(PLACES)
    (first,) = setup.link.start(setup.now)
    assert isinstance(first, Dial)
    (second,) = setup.link.failed(1, "no", setup.now)
    assert isinstance(second, Dial)
    assert [first.place.host, second.place.host] == ["a", "b"]
    setup.link.failed(2, "no", setup.now)
    assert setup.link.state is State.WAITING


def test_what_an_old_attempt_reports_is_ignored() -> None:
    setup = Setup(PLACES)
    setup.link.start(setup.now)
    setup.link.failed(1, "no", setup.now)
    assert [type(effect) for effect in setup.link.connected(1, setup.now)] == [Drop]
    assert setup.link.failed(1, "again", setup.now) == []
    assert setup.link.state is State.DIALLING


@pytest.mark.parametrize("heard", [False, True])
def test_silence_is_found_within_three_intervals(heard: bool) -> None:
    """A peer whose socket lives and whose broker does not answer is as dead as one that is not heard."""
    setup = Setup().open()
    began = setup.now
    while setup.link.state is State.OPEN and setup.now - began < 10 * SECOND:
        setup.pass_time(100)
        if heard:
            setup.link.heard(setup.now)
    assert setup.link.state is State.WAITING
    assert setup.now - began <= 3 * SECOND + SECOND // 5
    assert setup.port.endings


def test_a_peer_that_is_full_is_told_from_a_dead_one() -> None:
    setup = Setup().open()
    setup.rig.send("Q", "a")
    setup.feed()
    for _ in range(100):
        setup.pass_time(100)
        setup.link.heard(setup.now)
    assert setup.link.state is State.OPEN
    assert setup.link.stalled_since
    setup.link.confirmed(1, setup.now)
    assert not setup.link.stalled_since


def test_a_link_that_drains_takes_no_more_and_ends_when_all_arrived() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", ["a", "b"])
    setup.feed(prefetch=1)
    setup.link.drain(setup.now)
    setup.link.confirmed(1, setup.now)
    assert len(setup.port.sent) == 1
    setup.link.advance(setup.now)
    assert setup.link.state is State.CLOSED
    assert setup.rig.bodies("Q") == ["b"]


def test_every_state_can_be_left_and_what_cannot_happen_says_so() -> None:
    for state in State:
        assert state is State.CLOSED or (state, Signal.CLOSE) in TRANSITIONS
    setup = Setup()
    with pytest.raises(Fault, match="cannot happen while idle"):
        setup.link.opened(setup.now)
