"""A core bridge between two brokers: nothing lost, nothing twice, and settled only when the other broker has it."""

from __future__ import annotations

import pytest

from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.options import RoutingType
from entrepot.cluster.clusters.options import connector_of
from entrepot.cluster.link import State
from entrepot.core.operators.census import Census
from entrepot.core.operators.explain import explain
from entrepot.protocols.artemis.packets import ClusterTopology
from entrepot.protocols.artemis.primitives import Connector
from kit import SECOND

from .crossed import PLACE, Crossed, properties


def test_messages_cross_and_are_settled() -> None:
    crossed = Crossed()
    crossed.send("a", "b", "c")
    assert crossed.there() == ["a", "b", "c"]
    assert crossed.waiting() == 0
    report = crossed.bridge.report(crossed.near.now)
    assert (report["state"], report["sent"], report["confirmed"], report["under_way"]) == ("open", 3, 3, 0)


def test_nothing_between_brokers_is_shown_to_clients() -> None:
    crossed = Crossed()
    crossed.send("a", color="red")
    (message,) = crossed.messages()
    assert properties(message) == {"color": "red"}


def test_a_forwarding_address_and_a_routing_type() -> None:
    crossed = Crossed(forwards="F", routing=RoutingType.ANYCAST)
    crossed.send("a")
    (message,) = crossed.messages("F")
    assert (message.address, properties(message)) == ("F", {"_AMQ_ROUTING_TYPE": 1})


def test_strip_takes_the_routing_type_off() -> None:
    crossed = Crossed(routing=RoutingType.STRIP)
    crossed.send("a", _AMQ_ROUTING_TYPE=1, kept="x")
    (message,) = crossed.messages()
    assert properties(message) == {"kept": "x"}


def test_a_filter_leaves_what_it_does_not_match() -> None:
    crossed = Crossed(selector="color = 'red'")
    crossed.send("a", color="red")
    crossed.send("b", color="blue")
    assert crossed.there() == ["a"]
    assert crossed.waiting() == 1


@pytest.mark.parametrize("window", [1 << 20, -1])
def test_a_lost_answer_is_no_second_message(window: int) -> None:
    crossed = Crossed(confirmation_window=window)
    crossed.send("a")
    crossed.deafen()
    crossed.send("b", "c")
    assert crossed.waiting() == 2, "settled without an answer"
    crossed.cut()
    crossed.send("d")
    crossed.pass_ms(3_000)
    assert crossed.there() == ["a", "b", "c", "d"]
    assert crossed.waiting() == 0


def test_a_session_is_brought_back_where_nobody_can_tell_a_repetition() -> None:
    crossed = Crossed(deduplicates=False)
    crossed.deafen()
    crossed.send("a", "b")
    crossed.cut()
    crossed.pass_ms(3_000)
    crossed.send("c")
    assert crossed.there() == ["a", "b", "c"]
    assert crossed.bridge.link.counts.requeued == 0


def test_without_either_it_may_come_twice() -> None:
    crossed = Crossed(deduplicates=False, confirmation_window=-1)
    crossed.deafen()
    crossed.send("a")
    crossed.cut()
    crossed.pass_ms(3_000)
    assert crossed.there() == ["a", "a"]


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_the_far_broker_dies(how: str) -> None:
    crossed = Crossed()
    crossed.deafen()
    crossed.send("a", "b")
    crossed.cut()
    crossed.far.restart(how)
    crossed.acceptor = type(crossed.acceptor)(crossed.far.broker)
    crossed.send("c")
    crossed.pass_ms(3_000)
    assert crossed.there() == ["a", "b", "c"]
    assert crossed.waiting() == 0


def test_the_near_broker_dies() -> None:
    crossed = Crossed()
    crossed.deafen()
    crossed.send("a", "b")
    crossed.cut()
    crossed.near.restart("kill")
    crossed.connector = type(crossed.connector)(crossed.entry)
    crossed.start()
    crossed.pass_ms(1_000)
    assert crossed.there() == ["a", "b"]
    assert crossed.waiting() == 0


def test_the_far_broker_is_not_there_at_first() -> None:
    crossed = Crossed(start=False)
    crossed.reachable = False
    crossed.start()
    crossed.send("a")
    crossed.pass_ms(5_000)
    assert crossed.waiting() == 1
    crossed.reachable = True
    crossed.pass_ms(3_000)
    assert crossed.there() == ["a"]
    crossed.reachable = False
    crossed.cut()
    crossed.pass_ms(5_000)
    assert crossed.said == ["the bridge to tcp://far:61616 is open", "the bridge ended: cut"]


def test_attempts_end() -> None:
    crossed = Crossed(start=False, attempts_first=2)
    crossed.reachable = False
    crossed.start()
    crossed.pass_ms(10_000)
    assert crossed.bridge.link.state is State.FAILED
    assert crossed.bridge.link.attempt == 2


def test_a_silent_broker_is_given_up() -> None:
    crossed = Crossed(check_period=3 * SECOND)
    crossed.send("a")
    crossed.deafen()
    crossed.pass_ms(4_000)
    assert crossed.bridge.link.counts.failures >= 1
    crossed.cut()
    crossed.pass_ms(5_000)
    crossed.send("b")
    assert crossed.there() == ["a", "b"]


def test_a_full_address_stops_the_bridge_until_there_is_room() -> None:
    crossed = Crossed(far={"max-size-bytes": "20000", "address-full-policy": "BLOCK"}, producer_window=4_000)
    crossed.send(*(f"{number:05} {'x' * 500}" for number in range(200)))
    assert 0 < crossed.waiting() < 200
    came: list[str] = []
    for _ in range(100):
        came += crossed.there()
        crossed.run()
    assert [text[:5] for text in came] == [f"{number:05}" for number in range(200)]
    assert crossed.waiting() == 0


def test_a_refusal_is_tried_again() -> None:
    crossed = Crossed(far={"max-size-bytes": "2000", "address-full-policy": "FAIL"})
    crossed.send(*(f"{number:05} {'x' * 500}" for number in range(20)))
    came: list[str] = []
    for _ in range(60):
        came += crossed.there()
        crossed.pass_ms(1_000)
    assert [text[:5] for text in came] == [f"{number:05}" for number in range(20)]
    assert crossed.waiting() == 0


def test_a_stop_lets_arrive_what_is_on_its_way() -> None:
    crossed = Crossed()
    crossed.send("a")
    crossed.connector.leave(crossed.near.now)
    crossed.run()
    assert not crossed.connector.bridges
    crossed.send("b")
    assert crossed.there() == ["a"]
    crossed.start()
    assert crossed.there() == ["b"]


def test_a_queue_that_is_made_later() -> None:
    crossed = Crossed(start=False, queue="LATER")
    crossed.start()
    assert crossed.said[0] == "there is no queue 'LATER' yet"
    crossed.send("a", address="LATER")
    crossed.pass_ms(3_000)
    assert crossed.there("LATER") == ["a"]


def test_two_queues_may_each_send_one_message() -> None:
    one, two = Crossed(), Crossed(queue="R")
    (first,), (second,) = [list(each.connector.bridges.values()) for each in (one, two)]
    one.send("a")
    message = one.messages()[0]
    assert first.crossing.duplicate_id(message) != second.crossing.duplicate_id(message)


def test_what_waits_is_explained() -> None:
    crossed = Crossed(start=False)
    crossed.reachable = False
    crossed.start()
    crossed.send("a")
    (reason,) = explain(crossed.near.broker, crossed.near.queue("Q"), Census()).reasons
    assert reason.code == "bridge-down"
    assert reason.text.endswith("the bridge B to far:61616 is not open, it is waiting: nobody answers"), reason.text
    (row,) = crossed.connector.outlook("Q", topic=False, now=crossed.near.now)
    assert (row["connector"], row["state"], row["error"]) == ("B", "waiting", "nobody answers")
    assert crossed.connector.outlook("R", topic=False, now=crossed.near.now) == []


def test_a_full_address_is_explained() -> None:
    crossed = Crossed(far={"max-size-bytes": "20000", "address-full-policy": "BLOCK"}, producer_window=4_000)
    crossed.send(*("x" * 500 for _ in range(200)))
    codes = [reason.code for reason in explain(crossed.near.broker, crossed.near.queue("Q"), Census()).reasons]
    texts = [reason.text for reason in explain(crossed.near.broker, crossed.near.queue("Q"), Census()).reasons]
    assert "bridge-busy" in codes
    assert any("the address there has no room" in text for text in texts), texts


def test_a_broker_that_is_heard_in_a_group() -> None:
    crossed = Crossed(group="g")
    crossed.send("a")
    crossed.pass_ms(3_000)
    assert (crossed.waiting(), crossed.bridge.link.state) == (1, State.IDLE)
    crossed.connector.located([PLACE], crossed.near.now)
    crossed.run()
    assert crossed.there() == ["a"]
    crossed.connector.located([], crossed.near.now)
    crossed.send("b")
    assert crossed.there() == ["b"], "what is open stays"
    crossed.cut()
    crossed.pass_ms(3_000)
    assert crossed.bridge.link.state is State.WAITING
    crossed.connector.located([PLACE], crossed.near.now)
    crossed.send("c")
    assert crossed.there() == ["c"]


def refuse(crossed: Crossed, code: int, times: int) -> None:
    """The far broker refuses the first message that is on its way, and so it does when that comes again."""
    crossed.mute = True
    crossed.send("bad", "good")
    for _ in range(times):
        assert crossed.waiting() == 2
        crossed.bridge.refused(next(iter(crossed.bridge.link.under_way)), code, "it is not wanted")
        crossed.pass_ms(1_500)


def test_a_message_that_is_refused_again_and_again_lets_the_others_pass() -> None:
    crossed = Crossed(letters="DLQ")
    refuse(crossed, 215, 3)
    assert (crossed.bridge.link.counts.dead, crossed.waiting()) == (1, 1)
    assert crossed.near.queue("DLQ").count == 1
    assert any("it is not wanted" in text for text in crossed.said)


@pytest.mark.parametrize(
    ("code", "options"),
    [(210, {"letters": "DLQ"}), (215, {"letters": "DLQ", "forwards": "F"}), (215, {})],
    ids=["full", "one address", "nothing keeps dead letters"],
)
def test_what_is_no_fault_of_a_message_or_cannot_be_kept_is_tried_again(code: int, options: dict[str, str]) -> None:
    crossed = Crossed(**options)
    refuse(crossed, code, 5)
    assert (crossed.bridge.link.counts.dead, crossed.waiting()) == (0, 2)


def member(node: str, primary: str, backup: str) -> ClusterTopology:
    def at(host: str) -> Connector:
        return connector_of(host, Endpoint("tcp", host, 61616))

    return ClusterTopology(node=node, primary=at(primary), backup=at(backup), last=True)


@pytest.mark.parametrize("ha", [True, False])
def test_with_ha_the_backup_is_dialled_too(ha: bool) -> None:
    crossed = Crossed(ha=ha)
    link = crossed.bridge.link
    crossed.bridge.located(member("other", "elsewhere", "its-backup"))
    assert [place.host for place in link.places] == ["far"], (
        "another member's backup has not what is meant for this one"
    )
    crossed.bridge.located(member("this", "far", "backup"))
    crossed.bridge.located(member("this", "far", "backup"))
    assert [place.host for place in link.places] == (["far", "backup"] if ha else ["far"])
