"""LinkCore alone: a port that records, a broker core, and time as an argument."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from entrepot.base.errors import Fault, Inexpressible
from entrepot.base.uri import Endpoint
from entrepot.cluster.backoff import Reconnection
from entrepot.cluster.link import DOUBTS_KEPT, TRANSITIONS, LinkCore, LinkOptions, Signal, State
from entrepot.cluster.source import Feed, LinkPort
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
    def __init__(self, places: list[Endpoint] | None = None, reattach: int = 0, **reconnect: Any) -> None:
        self.rig = Rig()
        options = LinkOptions(reconnect=Reconnection(**reconnect), interval=SECOND, reattach=reattach)
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

    def feed(self, text: str = "Q", prefetch: int = 10, *, stays: bool = False) -> Feed:
        feed = Feed(self.link, names.parse(text), prefetch)
        feed.stays = stays
        self.link.add(feed)
        return feed

    def lose(self) -> list[object]:
        return list(self.link.failed(self.link.attempt, "cut", self.now))

    def come_back(self) -> None:
        """Dial again, until the brokers introduce themselves."""
        for _ in range(100):
            if self.link.state is State.DIALLING:
                break
            self.pass_time(100)
        self.link.connected(self.link.attempt, self.now)

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


def test_what_a_feed_had_on_its_way_is_known_as_one_of_the_last_10_000() -> None:
    setup = Setup().open()
    setup.link.doubts.update(dict.fromkeys(range(-DOUBTS_KEPT, 0)))
    setup.rig.send("Q", "a")
    feed = setup.feed()
    setup.link.remove(feed)
    assert len(setup.link.doubts) == DOUBTS_KEPT
    setup.feed()
    assert [doubtful for _, _, doubtful in setup.port.sent] == [False, True]


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
    setup.link.flow.writable(False)
    setup.link.confirmed(1, setup.now)
    assert len(setup.port.sent) == 3
    setup.link.flow.writable(True)
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
            setup.link.supervision.heard(setup.now)
    assert setup.link.state is State.WAITING
    assert setup.now - began <= 3 * SECOND + SECOND // 5
    assert setup.port.endings


def test_a_peer_that_is_full_is_told_from_a_dead_one() -> None:
    setup = Setup().open()
    setup.rig.send("Q", "a")
    setup.feed()
    for _ in range(100):
        setup.pass_time(100)
        setup.link.supervision.heard(setup.now)
    assert setup.link.state is State.OPEN
    assert setup.link.supervision.stalled_since
    setup.link.confirmed(1, setup.now)
    assert not setup.link.supervision.stalled_since


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


def test_a_peer_may_confirm_all_up_to_a_number() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", range(6))
    setup.feed(prefetch=4)
    assert setup.link.confirmed_up_to(3, setup.now) == 3
    assert bodies(setup.port) == [str(number) for number in range(6)]
    assert sorted(setup.link.under_way) == [4, 5, 6]
    assert setup.link.confirmed_up_to(3, setup.now) == 0
    assert setup.link.confirmed_up_to(100, setup.now) == 3
    assert setup.rig.queue("Q").count == 0
    setup.link.check()


def test_a_cumulative_confirmation_answers_the_canary_too() -> None:
    setup = Setup().open()
    setup.pass_time(1000)
    assert setup.link.supervision.probe == 1
    setup.link.confirmed_up_to(1, setup.now)
    assert setup.link.supervision.round_trip_at == setup.now
    assert not setup.link.supervision.probe


def test_a_peer_that_counts_octets_gets_no_more_than_it_grants() -> None:
    setup = Setup().open()
    setup.link.flow.limited(0)
    setup.rig.send_all("Q", range(5))
    setup.feed()
    assert bodies(setup.port) == []
    setup.link.flow.granted(1)
    assert bodies(setup.port) == ["0"], "one message may be larger than the credit, or it would wait for ever"
    setup.link.confirmed(1, setup.now)
    assert bodies(setup.port) == ["0"], "a confirmation is no credit"
    setup.link.flow.granted(-int(setup.link.flow.credit) + 1)
    assert bodies(setup.port) == ["0", "1"]
    setup.link.flow.granted(1 << 30)
    assert bodies(setup.port) == ["0", "1", "2", "3", "4"]
    setup.link.flow.withheld()
    setup.rig.send("Q", "5")
    assert len(setup.port.sent) == 5


def test_credit_is_of_one_connection() -> None:
    setup = Setup().open()
    setup.link.flow.limited(0)
    setup.lose()
    setup.come_back()
    setup.link.opened(setup.now)
    setup.rig.send("Q", "a")
    setup.feed()
    assert bodies(setup.port) == ["a"], "this peer counts no octets"


def test_a_peer_that_grants_no_credit_is_full_and_not_dead() -> None:
    setup = Setup().open()
    setup.link.flow.limited(0)
    for _ in range(100):
        setup.pass_time(100)
        setup.link.supervision.heard(setup.now)
    assert setup.link.state is State.OPEN
    assert setup.link.supervision.stalled_since


def test_while_a_large_message_streams_nothing_comes_between() -> None:
    setup = Setup().open()
    genuine = setup.port.forward

    def forward(feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        setup.link.flow.streaming(True)
        return genuine(feed, message, deliveries, doubtful)

    setup.port.forward = forward  # type: ignore[method-assign]
    setup.rig.send_all("Q", ["large", "next"])
    setup.rig.send_all("R", ["other"])
    setup.feed("Q")
    setup.feed("R")
    assert bodies(setup.port) == ["large"]
    setup.link.flow.writable(False)
    setup.link.flow.writable(True)
    assert bodies(setup.port) == ["large"], "the socket has room, and the last part has not gone"
    setup.link.flow.streaming(False)
    assert len(setup.port.sent) == 2
    setup.lose()
    assert setup.rig.queue("Q").count + setup.rig.queue("R").count == 3
    setup.come_back()
    setup.link.opened(setup.now)
    assert not setup.link.flow.reasons


def test_a_link_that_waits_dials_a_new_place_at_once() -> None:
    setup = Setup(PLACES[:1])
    setup.link.start(setup.now)
    setup.link.failed(1, "no", setup.now)
    assert setup.link.state is State.WAITING
    assert setup.link.moved(PLACES[:1], setup.now) == []
    (dial,) = setup.link.moved([PLACES[1]], setup.now)
    assert isinstance(dial, Dial)
    assert dial.place.host == "b"
    setup.link.connected(setup.link.attempt, setup.now)
    setup.link.opened(setup.now)
    assert setup.link.moved(PLACES[:1], setup.now) == [], "a connection that is there stays"
    assert setup.link.state is State.OPEN


def test_a_round_goes_on_over_the_places_that_came_meanwhile_and_not_over_those_that_went() -> None:
    third = Endpoint("tcp", "c", 1)
    setup = Setup(PLACES)
    setup.link.start(setup.now)
    setup.link.moved([PLACES[0], third], setup.now)
    (dial,) = setup.link.failed(1, "no", setup.now)
    assert isinstance(dial, Dial)
    assert dial.place.host == "c"


def test_a_link_whose_peer_nobody_knows_waits_for_a_place() -> None:
    setup = Setup(PLACES)
    setup.link.start(setup.now)
    setup.link.moved([], setup.now)
    setup.link.failed(1, "no", setup.now)
    setup.pass_time(5000)
    assert setup.link.state is State.WAITING
    assert [type(effect) for effect in setup.link.moved(PLACES, setup.now)] == [Dial]


def test_what_is_unconfirmed_waits_on_the_link_and_the_peer_says_what_it_has() -> None:
    setup = Setup(reattach=10 * SECOND).open()
    setup.rig.send_all("Q", ["a", "b", "c", "d"])
    feed = setup.feed(prefetch=3)
    setup.lose()
    assert feed in setup.link.feeds
    assert list(setup.link.under_way) == [1, 2, 3]
    setup.link.check()
    other = setup.rig.reader("Q")
    assert other.bodies == ["d"], "others get nothing of what may be there already"
    other.close()
    setup.come_back()
    setup.port.sent.clear()
    setup.link.reattached(2, setup.now)
    setup.link.check()
    assert bodies(setup.port) == ["c", "d"]
    assert [doubtful for _, _, doubtful in setup.port.sent] == [False, False], "the peer said that it has not got them"
    assert setup.link.counts.requeued == 0
    assert setup.rig.queue("Q").count == 2


def test_a_peer_that_knows_the_session_no_more_gets_all_again_and_marked() -> None:
    setup = Setup(reattach=10 * SECOND).open()
    setup.rig.send_all("Q", ["a", "b"])
    setup.feed()
    setup.lose()
    setup.come_back()
    setup.link.opened(setup.now)
    assert not setup.link.feeds
    setup.port.sent.clear()
    setup.feed()
    assert bodies(setup.port) == ["a", "b"]
    assert [doubtful for _, _, doubtful in setup.port.sent] == [True, True]


def test_what_is_kept_goes_back_when_the_peer_stays_away() -> None:
    setup = Setup(reattach=2 * SECOND).open()
    setup.rig.send("Q", "a")
    setup.feed()
    setup.lose()
    setup.pass_time(1500)
    assert setup.link.under_way
    setup.pass_time(1000)
    assert not setup.link.under_way
    assert not setup.link.feeds
    assert setup.rig.reader("Q").bodies == ["a"]


@pytest.mark.parametrize("end", ["close", "give up", "last attempt"])
def test_what_is_kept_goes_back_when_the_link_ends(end: str) -> None:
    setup = Setup(reattach=100 * SECOND, attempts_max=2).open()
    setup.rig.wait(6000)
    setup.rig.send("Q", "a")
    setup.feed()
    setup.lose()
    assert setup.link.under_way
    if end == "close":
        setup.link.close("over", setup.now)
    elif end == "give up":
        setup.link.give_up("ourselves", setup.now)
    else:
        setup.come_back()
        setup.lose()
        assert setup.link.state is State.FAILED
    setup.link.check()
    assert setup.rig.reader("Q").bodies == ["a"]


def test_a_source_that_stays_survives_the_loss_and_goes_on_in_order() -> None:
    setup = Setup().open()
    setup.rig.send_all("Q", ["a", "b", "c"])
    feed = setup.feed(prefetch=2, stays=True)
    setup.lose()
    assert feed in setup.link.feeds
    assert not setup.link.under_way
    assert setup.rig.queue("Q").count == 3
    setup.rig.send("Q", "d")
    setup.port.sent.clear()
    setup.come_back()
    setup.link.opened(setup.now)
    setup.link.confirmed_up_to(4, setup.now)
    assert bodies(setup.port) == ["a", "b", "c", "d"]
    assert [doubtful for _, _, doubtful in setup.port.sent] == [True, True, False, False]
    setup.link.close("over", setup.now)
    assert not setup.link.feeds


def test_a_source_that_stays_may_come_before_the_connection() -> None:
    setup = Setup()
    setup.link.start(setup.now)
    setup.feed(stays=True)
    setup.rig.send("Q", "a")
    assert bodies(setup.port) == []
    setup.link.connected(1, setup.now)
    setup.link.opened(setup.now)
    assert bodies(setup.port) == ["a"]


class Peer(Port):
    """A peer with a memory: what it has, and up to which number."""

    def __init__(self) -> None:
        super().__init__()
        self.has: list[tuple[str, bool]] = []
        self.cable: list[tuple[int, str, bool]] = []  # written, not arrived

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        number = super().forward(feed, message, deliveries, doubtful)
        _, raw, _ = self.sent[-1]
        self.cable.append((number, raw.split('"')[3], doubtful))
        return number

    def lost(self, why: str) -> None:
        super().lost(why)
        self.cable.clear()

    def read(self, count: int) -> int:
        """Take ``count`` messages off the cable; return the number of the last one, 0 for none."""
        taken, self.cable = self.cable[:count], self.cable[count:]
        self.has += [(body, doubtful) for _, body, doubtful in taken]
        return taken[-1][0] if taken else 0


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_nothing_is_lost_and_what_came_twice_is_marked(seed: int) -> None:
    lots = Random(seed)
    setup = Setup(reattach=lots.choice([0, 3 * SECOND]), initial_delay=SECOND // 10, max_delay=SECOND)
    peer = Peer()
    setup.link.port = peer
    setup.open()
    stays = lots.random() < 0.5
    link = setup.link
    if stays:
        setup.feed(prefetch=4, stays=True)
    sent = 0
    last = 0  # that the peer has on this session, and whether it said so or not
    for step in range(150):
        what = lots.randrange(9) if step < 140 else 8
        if what < 2:
            setup.rig.send("Q", str(sent))
            sent += 1
        elif what == 2 and link.state is State.OPEN:
            last = peer.read(lots.randrange(4)) or last
        elif what == 3 and link.state is State.OPEN:
            link.confirmed_up_to(last, setup.now)
        elif what == 4 and link.state is State.OPEN:
            link.flow.limited(lots.choice([0, 50, 1 << 20]))
        elif what == 5 and link.state is State.OPEN:
            link.flow.streaming(lots.random() < 0.5)
        elif what == 6 and lots.random() < 0.5:
            setup.lose()
        elif what == 7:
            setup.pass_time(lots.choice([50, 500, 4000]))
        if what == 8:
            if link.state is State.WAITING:
                setup.pass_time(1000)
            if link.state is State.DIALLING:
                link.connected(link.attempt, setup.now)
            if link.state is State.OPENING and link.under_way and lots.random() < 0.7:
                link.reattached(last, setup.now)
            elif link.state is State.OPENING:
                link.opened(setup.now)
                last = 0 if not link.under_way else last
        if link.state is State.OPEN and not link.feeds:
            setup.feed(prefetch=4)
        if link.state is State.OPEN:
            link.supervision.heard(setup.now)
            link.supervision.confirmed_at = setup.now
        link.check()
    while link.state is not State.OPEN:
        setup.pass_time(1000)
        link.connected(link.attempt, setup.now)
        link.opened(setup.now)
        if not link.feeds:
            setup.feed(prefetch=4)
    link.flow.streaming(False)
    link.flow.limited(1 << 40)
    while link.under_way:
        link.confirmed_up_to(peer.read(10), setup.now)
    assert setup.rig.queue("Q").count == 0
    seen: dict[str, bool] = {}
    for body, doubtful in peer.has:
        assert body not in seen or doubtful, f"{body} came twice, and the second one is not marked"
        seen[body] = doubtful
    assert sorted(seen, key=int) == [str(number) for number in range(sent)]
