"""What may cross: paths, lists, what may go back, and what the two ends tell each other about it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.compiled import is_compiled
from entrepot.cluster.networks.admission import (
    TURN_AFTER,
    TURN_TOGETHER,
    TURNED,
    All,
    BrokerPath,
    Interpreted,
    Replay,
    is_out_of_reach,
)
from entrepot.cluster.networks.lists import Included, Lists, Place, destination_filter
from entrepot.cluster.networks.options import BridgeFilterOptions, NetworkConnectorOptions
from entrepot.cluster.networks.properties import read_properties, write_properties
from entrepot.core.queue.queue import Queue
from entrepot.model.message import Message
from entrepot.protocols.openwire.bodies import text_message
from entrepot.protocols.openwire.commands import (
    ActiveMQMessage,
    ActiveMQQueue,
    BrokerId,
    ConsumerInfo,
    MessageId,
    ProducerId,
)
from entrepot.protocols.openwire.convert import OPENWIRE_LANGUAGE, message_of
from entrepot.protocols.openwire.ids import path_through
from kit import SECOND, Rig


def message(*path: str, came: int = 0, address: str = "Q", about: ConsumerInfo | None = None) -> Message:
    command = text_message("x") if about is None else ActiveMQMessage(data_structure=about)
    command.message_id = MessageId(producer_id=ProducerId("c", 1, 1), producer_sequence_id=1)
    command.destination = ActiveMQQueue(address)
    command.broker_path = [BrokerId(one) for one in path] or None
    command.broker_out_time = came
    return message_of(command, address)


@pytest.mark.parametrize(
    ("path", "ttl", "passes"),
    [((), 1, True), (("X",), 1, False), (("X",), 2, True), (("B",), 5, False), ((), 0, False), (("X", "Y"), -1, True)],
)
def test_a_message_goes_nowhere_twice_and_only_so_far(path: tuple[str, ...], ttl: int, passes: bool) -> None:
    assert (not BrokerPath("B", ttl).refusal(message(*path), None)) == passes


@pytest.mark.parametrize(
    ("path", "ttl", "passes"),
    [
        (("A", "X"), 1, True),  # sent from here, and back
        (("X", "A"), 1, False),  # was one broker away when it came here first
        (("X", "A", "X", "A", "X"), 2, True),  # a Classic broker repeats what it came through
        (("X", "Y", "X", "Y"), 3, True),
        (("X", "Y", "X", "Y"), 2, False),
    ],
)
def test_a_message_that_came_back_is_as_far_as_it_was(path: tuple[str, ...], ttl: int, passes: bool) -> None:
    assert (not BrokerPath("B", ttl, "A").refusal(message(*path), None)) == passes


@pytest.mark.parametrize(
    ("path", "ttl", "out"),
    [((), -1, False), ((), 0, True), ((), 1, False), (("X",), 1, True), (("X",), 2, False), (("X", "A"), -1, True)],
)
def test_a_consumer_counts_only_so_far_and_never_where_it_came_through(
    path: tuple[str, ...], ttl: int, out: bool
) -> None:
    assert is_out_of_reach(path, ttl, "A") is out


def test_a_path_names_every_broker_once() -> None:
    def through(*path: str) -> list[str | None]:
        return [one.value for one in path_through(BrokerId("A"), [BrokerId(one) for one in path])]

    assert through() == ["A"]
    assert through("X", "Y") == ["X", "Y", "A"]
    assert through("X", "A", "Y") == ["X", "A", "Y"]
    assert through("X", "A", "X", "A", "X") == ["X", "A"]
    assert [one.value for one in path_through(BrokerId("A"), None)] == ["A"]


def test_advisories_that_bridges_act_on_do_not_cross_for_bridges() -> None:
    name = "ActiveMQ.Advisory.Consumer.Queue.Q"
    assert Interpreted("B", 1, for_network=True).refusal(message(address=name), None)
    assert not Interpreted("B", 1, for_network=False).refusal(message(address=name), None)
    far = ConsumerInfo(broker_path=[BrokerId("X")])
    assert Interpreted("B", 1, for_network=False).refusal(message(address=name, about=far), None)
    assert not Interpreted("B", 2, for_network=False).refusal(message(address=name, about=far), None)
    assert Interpreted("X", 2, for_network=False).refusal(message(address=name, about=far), None)


def test_rules_are_joined_with_and() -> None:
    both = All([BrokerPath("B", 5), BrokerPath("C", 5)])
    assert not both.refusal(message("X"), None)
    assert "C" in both.refusal(message("C"), None)


class Back:
    """A queue at A whose message came from B."""

    def __init__(self, **options: Any) -> None:
        self.rig = Rig()
        self.rig.send("Q")
        self.queue = self.rig.queue("Q")
        self.rig.bodies("Q")
        self.rule = Replay(BrokerPath("B", 1, "A"), BridgeFilterOptions(**options))

    def refusal(self, came: int = 1, *path: str) -> str:
        return self.rule.crossing(message(*(path or ("B",)), came=came), self.queue)

    def asked(self, came: int) -> str:
        return self.rule.refusal(message("B", came=came), self.queue)


def test_nothing_goes_back_unless_the_policy_says_so() -> None:
    assert Back().refusal()
    back = Back(replay_when_no_consumers=True)
    assert not back.refusal()
    assert back.refusal(1, "X")  # that is no return: the TTL holds
    back.rig.reader("Q")
    assert "a consumer here wants it" in back.refusal()


def test_a_local_reader_whose_selector_excludes_the_message_does_not_count_if_that_is_wanted() -> None:
    for aware, goes in ((False, False), (True, True)):
        back = Back(replay_when_no_consumers=True, selector_aware=aware)
        back.rig.reader("Q", selector="never = 1")
        assert (not back.refusal()) == goes


@pytest.mark.skipif(is_compiled(), reason="replaces a method, which native callers do not see")
def test_a_message_that_may_go_back_later_is_looked_at_again_without_any_other_occasion() -> None:
    back = Back(replay_when_no_consumers=True, replay_delay=2 * SECOND)
    looked = []
    back.rule.look_again = lambda queue: looked.append(back.rig.now)  # type: ignore[method-assign]
    began = back.rig.now
    assert "replayDelay" in back.refusal(came=back.rig.wall)
    back.rig.wait(3000)
    assert [at - began for at in looked] == [2 * SECOND]


def test_who_asks_between_the_millisecond_and_the_look_is_told_that_it_comes() -> None:
    """The wall clock counts milliseconds, the look is set in nanoseconds: explain said "report this: a bug" between."""
    back = Back(replay_when_no_consumers=True, replay_delay=2 * SECOND)
    broker = back.rig.broker
    came = back.rig.wall
    broker.tick(back.rig.now + 400_000, back.rig.wall)  # 0.4 ms later it is the same millisecond
    assert "2000 ms (replayDelay)" in back.refusal(came)
    broker.tick(back.rig.now + 2 * SECOND, back.rig.wall + 2000)
    assert "within a millisecond (replayDelay)" in back.asked(came)
    assert not back.refusal(came), "who would send it does"


@pytest.mark.skipif(is_compiled(), reason="replaces a method, which native callers do not see")
def test_a_message_that_runs_to_and_fro_takes_its_time() -> None:
    """Two brokers without a reader once passed such messages to each other as fast as they could, for ever."""
    back = Back(replay_when_no_consumers=True)
    looked = []
    back.rule.look_again = lambda queue: looked.append(back.rig.now)  # type: ignore[method-assign]
    came = back.rig.wall
    assert not back.refusal(came, "B"), "it is here for the first time"
    assert TURNED in back.refusal(came, "A", "B")
    found = back.rule.objection(message("A", "B", came=came), back.queue)
    assert found is not None
    assert (found.code, "messageTTL" in found.remedy) == ("replay-waits", True)
    began = back.rig.now
    back.rig.wait(3000)
    assert [TURN_AFTER <= at - began <= TURN_AFTER + TURN_TOGETHER for at in looked] == [True]
    assert not back.refusal(came, "A", "B")
    slow = Back(replay_when_no_consumers=True, replay_delay=5 * SECOND)
    assert "4900 ms (replayDelay)" in slow.refusal(slow.rig.wall - 100, "A", "B")


@pytest.mark.skipif(is_compiled(), reason="replaces a method, which native callers do not see")
def test_a_queue_is_looked_through_once_for_each_time_that_comes() -> None:
    """Each look once rang for every message that was to wait longer, and each of these looks did so again."""
    back = Back(replay_when_no_consumers=True, replay_delay=2 * SECOND)
    began = back.rig.wall
    looked = []

    def look(queue: Queue) -> None:
        genuine(queue)
        looked.append(back.rig.wall - began)
        for came in range(began + 900, began, -100):  # the last one came first
            back.refusal(came)

    genuine, back.rule.look_again = back.rule.look_again, look  # type: ignore[method-assign]
    look(back.queue)
    back.rig.wait(5000)
    assert looked == [0, *range(2100, 3000, 100)]


@pytest.mark.parametrize("ahead_ms", [3_600_000, 86_400_000])
def test_what_another_clock_dates_into_the_future_waits_no_longer_than_twice_the_delay(ahead_ms: int) -> None:
    """The clock of the last broker is ahead of ours, or ours was put back: messages were held for all that time."""
    back = Back(replay_when_no_consumers=True, replay_delay=2 * SECOND)
    rig = back.rig

    def left(number: int) -> str:
        one = message("B", came=rig.wall + ahead_ms)
        one.number = number
        return back.rule.crossing(one, back.queue)

    first = int(rig.broker.ids.number)
    assert "2000 ms (replayDelay)" in left(first)
    rig.send("Q")
    assert "4000 ms" in left(int(rig.broker.ids.number)), "it came behind the first"
    rig.wait(2000)
    assert not left(first)
    assert left(int(rig.broker.ids.number))
    rig.wait(2000)
    assert not left(int(rig.broker.ids.number))
    assert not left(first)


def test_returns_are_limited_in_a_window() -> None:
    back = Back(replay_when_no_consumers=True, rate_limit=2, rate_duration=SECOND)
    assert [bool(back.refusal()) for _ in range(3)] == [False, False, True]
    back.rig.wait(1100)
    assert not back.refusal()


LISTS = Lists(
    excluded=(Included("secret.>", topic=False),),
    dynamic=(Included("in.>", topic=False), Included("news", topic=True, force_durable=True)),
    static=(Included("secret.static", topic=False), Included("always", topic=False)),
)


@pytest.mark.parametrize(
    ("where", "permitted"),
    [
        (Place("in.a", topic=False), True),
        (Place("in.a", topic=True), False),
        (Place("out", topic=False), False),
        (Place("always", topic=False), True),
        (Place("secret.static", topic=False), False),  # excluded comes before static
        (Place("t", topic=False, temporary=True), True),
    ],
)
def test_lists_are_asked_in_their_order(where: Place, permitted: bool) -> None:
    assert LISTS.permits(where, temporary=True) == permitted


def test_the_advisories_to_listen_to_follow_from_the_lists() -> None:
    plain = NetworkConnectorOptions()
    temporary = ",ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"
    assert destination_filter(plain, Lists()) == "ActiveMQ.Advisory.Consumer.>" + temporary
    assert destination_filter(plain.replaced(bridge_temporary=False), LISTS) == (
        "ActiveMQ.Advisory.Consumer.Queue.in.>,ActiveMQ.Advisory.Consumer.Topic.news"
    )
    named = plain.replaced(destination_filter="Queue.X", bridge_temporary=False)
    assert destination_filter(named, LISTS) == "ActiveMQ.Advisory.Consumer.Queue.X"


def test_the_far_end_of_a_duplex_bridge_learns_how_the_bridge_is_and_signs_in_there() -> None:
    options = NetworkConnectorOptions(
        name="N: =#1", duplex=True, prefetch=7, message_ttl=3, user="u", password="own", remote_password="p:w=1"
    )
    text = write_properties(options, LISTS)
    assert "own" not in text, "what holds at home is not for others"
    read, lists = read_properties(text)
    assert (read.name, read.duplex, read.prefetch, read.message_ttl) == ("N: =#1", True, 7, 3)
    assert (read.user, read.password) == ("u", "p:w=1")
    assert lists == LISTS


def test_a_bridge_that_is_not_duplex_tells_no_password() -> None:
    assert "own" not in write_properties(NetworkConnectorOptions(user="u", password="own"), LISTS)


def test_what_classic_writes_is_understood() -> None:
    text = (
        "#\n#Sat Nov 21 12:00:00 UTC 2026\nname=NC\nprefetchSize=5\nstarted=true\nuseVirtualDestSus=false\n"
        "localUri=vm\\://A\\#1\nexcludedDestinations=[queue\\://a.>, topic\\://b]\nprefetchSize2=x\nconsumerTTL=many\n"
    )
    options, lists = read_properties(text)
    assert (options.name, options.prefetch, options.consumer_ttl) == ("NC", 5, 1)
    assert lists.excluded == (Included("a.>", topic=False), Included("b", topic=True))


@given(st.text(max_size=200))
def test_no_text_of_a_peer_does_harm(text: str) -> None:
    options, _ = read_properties(text)
    assert options.prefetch >= 1


@given(
    path=st.none() | st.lists(st.text(min_size=1, max_size=3).map(BrokerId), max_size=3),
    cluster=st.none() | st.lists(st.text(max_size=3).map(BrokerId), max_size=2),
    user=st.none() | st.text(max_size=5),
    arrival=st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**41),
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_the_path_is_found_whatever_stands_around_it(
    path: Any, cluster: Any, user: str | None, arrival: int, flags: tuple[bool, bool]
) -> None:
    command = text_message("x" * 30)
    command.message_id = MessageId(producer_id=ProducerId("c", 1, 1), producer_sequence_id=1)
    command.destination = ActiveMQQueue("Q")
    command.broker_path = path
    command.cluster = cluster
    command.user_id = user
    command.arrival = arrival
    command.received_by_df_bridge, command.droppable = flags
    assert OPENWIRE_LANGUAGE.path(message_of(command, "Q")) == tuple(one.value for one in path or ())
