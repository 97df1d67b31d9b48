"""Messages are drawn from another broker: only for who reads, on disk before they are acknowledged, and once."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.draw_outlook import outlook
from entrepot.cluster.clusters.options import connector_of
from entrepot.cluster.link import State
from entrepot.model import address as names
from entrepot.protocols.artemis.linking.places import beside
from entrepot.protocols.artemis.packets import ClusterTopology
from entrepot.protocols.artemis.primitives import Connector
from entrepot.protocols.drawing import OPEN
from entrepot.protocols.serving.confirmations import Confirmation

from .drawn import KINDS, PLACE, Drawn


def drawn(language: str = "artemis", **options: Any) -> Drawn:
    made = KINDS[language](**options)
    made.create("Q")
    return made


@pytest.fixture(params=sorted(KINDS))
def language(request: pytest.FixtureRequest) -> str:
    """Return how the other broker is spoken to: the same holds in each."""
    return str(request.param)


def test_nothing_is_drawn_unless_somebody_reads(language: str) -> None:
    one = drawn(language)
    one.send("a", "b")
    assert one.kept() == 2
    one.read()
    assert one.came() == ["a", "b"]
    assert one.kept() == 0
    one.send("c")
    assert one.came() == ["a", "b", "c"]
    one.leave()
    one.send("d")
    assert one.kept() == 1


def test_a_lease_is_demand_while_its_connection_lives(language: str) -> None:
    one = drawn(language)
    one.lease()
    one.send("a", "b")
    one.release()
    one.send("c")
    assert one.there() == ["a", "b"]
    assert one.kept() == 1


def test_a_lost_acknowledgement_is_no_second_message(language: str) -> None:
    one = drawn(language)
    one.read()
    one.send("a")
    one.deaf = True
    one.send("b", "c")
    assert one.kept() == 2, "acknowledged, though nothing was heard"
    one.cut()
    one.pass_ms(3_000)
    one.send("d")
    assert one.came() == ["a", "b", "c", "d"]
    assert one.kept() == 0
    assert one.bridge.report(one.near.now)["duplicates"] == 2


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_the_far_broker_dies(language: str, how: str) -> None:
    one = drawn(language)
    one.read()
    one.deaf = True
    one.send("a", "b")
    one.restart_far(how)
    one.pass_ms(3_000)
    one.send("c")
    assert one.came() == ["a", "b", "c"]
    assert one.kept() == 0


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_the_near_broker_dies_and_knows_what_it_has(language: str, how: str) -> None:
    one = drawn(language)
    one.lease()
    one.deaf = True
    one.send("a", "b")
    one.restart_near(how)
    one.lease()
    one.send("c")
    one.release()
    assert one.there() == ["a", "b", "c"]
    assert one.kept() == 0


def crashed_before_the_disk_answered(one: Drawn) -> list[str]:
    """Return what is there in the end when ``near`` loses power with messages that its disk did not have."""
    one.lease()
    one.send("a")
    one.stalled = True
    one.send("b", "c")
    one.restart_near("crash")
    one.lease()
    one.send("d")
    one.release()
    return one.there()


def test_nothing_is_acknowledged_before_it_is_on_disk(language: str) -> None:
    one = drawn(language)
    assert crashed_before_the_disk_answered(one) == ["a", "b", "c", "d"]
    assert one.kept() == 0


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
def test_who_acknowledges_early_is_found(language: str) -> None:
    """The planted bug: so the test above can fail."""
    one = drawn(language)
    confirmations = one.bridge.drawer.intake.confirmations

    def early(confirmation: Confirmation) -> None:
        confirmations.waiting += 1
        confirmation.stored(b"")

    confirmations.ask = early  # type: ignore[method-assign]
    assert "b" not in crashed_before_the_disk_answered(one)
    assert one.kept() == 0


def test_what_is_not_durable_there_is_durable_here(language: str) -> None:
    one = drawn(language)
    one.lease()
    one.deaf = True
    one.send("a", durable=False)
    one.cut()
    one.restart_near("crash")
    one.lease()
    one.release()
    assert one.there() == ["a"]


def test_large_bodies_come_whole_through_a_small_window() -> None:
    one = drawn(window=4_096)
    one.send_large(300_000)
    one.send("a")
    one.read()
    large, small = one.messages()
    assert large.rare is not None
    assert large.rare.large_length == 300_000
    assert small.rare is not None
    assert one.kept() == 0


def test_a_large_body_that_is_cut_off_comes_again() -> None:
    one = drawn(window=4_096)
    one.send_large(300_000)
    taker = one.read("other")
    one.deaf = True
    one.read()
    one.cut()
    assert taker.messages == []
    one.pass_ms(3_000)
    assert [message.rare.large_length for message in one.messages() if message.rare] == [300_000]
    assert one.kept() == 0


def test_the_window_bounds_what_is_on_its_way() -> None:
    one = drawn(window=2_048)
    one.read()
    one.deaf = True
    one.send(*(f"{number}" * 100 for number in range(200)))
    assert 0 < len(one.messages()) < 20
    one.cut()
    one.pass_ms(3_000)
    assert len(one.messages()) == 200
    assert one.kept() == 0


def test_credit_is_not_used_up() -> None:
    one = drawn(window=1_024)
    one.read()
    for number in range(500):
        one.send(f"{number}")
    assert one.came() == [f"{number}" for number in range(500)]


def test_a_topic_is_kept_there_while_nobody_reads_here(language: str) -> None:
    one = drawn(language)
    one.send("before", address="T", routing=names.MULTICAST)
    one.lease("mine", topic="T")
    one.send("a", address="T", routing=names.MULTICAST)
    one.release("mine")
    one.send("b", address="T", routing=names.MULTICAST)
    assert one.kept(one.kept_topic) == 1
    one.lease("mine", topic="T")
    assert one.kept(one.kept_topic) == 0
    one.release("mine")
    assert one.there("T::mine") == ["a", "b"]


def test_a_queue_of_theirs_behind_a_topic_is_read_by_its_name() -> None:
    one = drawn()
    one.create("client.sub", "T", names.MULTICAST)
    one.lease("T::client.sub")
    one.send("a", address="T", routing=names.MULTICAST)
    one.release("T::client.sub")
    assert one.there("T::client.sub") == ["a"]
    assert one.kept("client.sub") == 0


def test_a_queue_that_is_not_there_is_waited_for() -> None:
    one = Drawn()
    one.read()
    assert [said for said in one.said if "no such queue" in said] == ["Q: there is no such queue"]
    one.pass_ms(3_000)
    assert len([said for said in one.said if "no such queue" in said]) == 1
    one.create("Q")
    one.send("a")
    one.pass_ms(2_000)
    assert one.came() == ["a"]


def test_a_queue_that_is_deleted_there_is_waited_for() -> None:
    one = drawn()
    one.read()
    one.far.broker.queues.delete(one.far.queue("Q"), "an operator")
    one.run()
    assert one.bridge.drawing == {}
    one.create("Q")
    one.send("a")
    one.pass_ms(2_000)
    assert one.came() == ["a"]


def test_only_what_is_named_is_drawn_and_never_what_goes_back(language: str) -> None:
    one = drawn(language, only=("Q", "A.>"), back=("A.results",))
    one.create("A.x")
    one.create("A.results")
    one.create("B")
    for name in ("Q", "A.x", "A.results", "B"):
        one.send(name, address=name)
        one.read(name)
    assert [one.came(name) for name in ("Q", "A.x", "A.results", "B")] == [["Q"], ["A.x"], [], []]


def test_a_reader_that_leaves_at_once_leaves_nothing_in_doubt(language: str) -> None:
    """What was taken is acknowledged before the consumer is closed: else somebody else gets it there."""
    one = drawn(language)
    one.lease()
    one.stalled = True
    one.send("a", "b")
    one.release()
    assert one.kept() == 2
    assert list(one.bridge.drawing)
    one.stalled = False
    one.run()
    assert one.bridge.drawing == {}
    assert one.kept() == 0
    assert one.there() == ["a", "b"]


def test_a_full_broker_takes_no_more_than_the_window() -> None:
    one = Drawn(near={"policies": {"Q": {"max-size-bytes": "20000", "address-full-policy": "BLOCK"}}}, window=8_192)
    one.create("Q")
    one.lease()
    one.send(*("x" * 1_000 for _ in range(200)))
    assert one.kept() > 100
    assert one.bridge.link.flow.reasons
    ((code, received),) = explained(one)
    assert code == "full"
    assert 0 < int(str(received)) < 100
    one.release()
    one.read()
    one.pass_ms(1_000)
    assert len(one.messages()) == 200
    assert one.kept() == 0
    assert not one.bridge.link.flow.reasons


def test_a_refused_message_stays_there(language: str) -> None:
    one = KINDS[language](near={"policies": {"Q": {"max-size-bytes": "2000", "address-full-policy": "FAIL"}}})
    one.create("Q")
    one.lease()
    one.send(*("x" * 500 for _ in range(20)))
    here = int(one.near.queue("Q").count)
    assert 0 < here < 20
    assert one.kept() == 20 - here
    assert any("refused" in said for said in one.said)
    (row,) = outlook(one.connector, "Q", topic=False, now=one.near.now)
    assert row["code"] == "not-drawn"
    assert "a message was refused here" in str(row["text"])
    one.release()
    taken = len(one.there())
    one.read()
    one.pass_ms(2_000)
    assert taken + len(one.messages()) == 20


def test_a_stop_in_order_acknowledges_what_was_taken(language: str) -> None:
    one = drawn(language)
    one.lease()
    one.stalled = True
    one.send("a")
    assert not one.connector.drain(one.near.now)
    one.run()
    assert one.kept() == 1
    one.stalled = False
    one.run()
    assert one.connector.drain(one.near.now)
    assert one.kept() == 0
    assert one.connector.report(one.near.now)["state"] == "stopped"
    one.release()
    one.send("b")
    one.start()
    one.read()
    assert one.came() == ["a", "b"]


def test_a_stop_while_nobody_answers(language: str) -> None:
    one = drawn(language)
    one.reachable = False
    one.cut()
    one.run()
    one.connector.leave(one.near.now)
    assert one.connector.drain(one.near.now)


def test_a_silent_broker_is_given_up(language: str) -> None:
    one = drawn(language, silence=3_000_000_000)
    one.read()
    one.deaf = True
    one.pass_ms(8_000)
    assert one.bridge.link.counts.failures > 0


def test_the_backup_of_the_other_broker_is_dialled_too() -> None:
    one = drawn()

    def at(host: str) -> Connector:
        return connector_of(host, Endpoint("tcp", host, 61616))

    packet = ClusterTopology(node="other", primary=at("elsewhere"), backup=at("e2"))
    one.bridge.located(beside(packet, PLACE, ()))
    assert [place.host for place in one.bridge.link.places] == ["far"]
    packet = ClusterTopology(node="this", primary=at("far"), backup=at("backup"))
    one.bridge.located(beside(packet, PLACE, ()))
    assert [place.host for place in one.bridge.link.places] == ["far", "backup"]


def test_what_an_operator_sees(language: str) -> None:
    one = drawn(language)
    one.read()
    one.send("a", "b")
    report = one.bridge.report(one.near.now)
    assert {key: report[key] for key in ("connector", "kind", "state", "demand", "received", "duplicates")} == {
        "connector": language,
        "kind": language,
        "state": "open",
        "demand": ["Q"],
        "received": 2,
        "duplicates": 0,
    }
    assert one.bridge.link.state is State.OPEN
    assert [int(draw.state) for draw in one.bridge.drawing.values()] == [OPEN]


def explained(one: Drawn, name: str = "Q", *, topic: bool = False) -> list[tuple[object, object]]:
    rows = outlook(one.connector, name, topic=topic, now=one.near.now)
    assert all(row["text"] for row in rows)
    return [(row["code"], row["received"]) for row in rows]


def test_it_is_explained(language: str) -> None:
    one = drawn(language, back=("results",), only=("Q", "T", "later", "results"))
    assert explained(one) == [("unwanted", 0)]
    assert explained(one, "other") == []
    assert explained(one, "results") == []
    one.lease()
    one.send("a", "b")
    assert explained(one) == [("reading", 2)]
    assert explained(one, "Q", topic=True) == [("unwanted", 0)]
    one.lease("mine", topic="T")
    assert explained(one, "T", topic=True) == [("reading", 0)]
    one.reachable = False
    one.cut()
    one.run()
    assert explained(one) == [("down", 0)]
    one.connector.stop(one.near.now)
    assert explained(one) == [("stopped", 0)]


def test_what_is_not_there_is_explained_with_when_it_is_asked_for_again() -> None:
    one = drawn()
    one.read("later")
    (row,) = outlook(one.connector, "later", topic=False, now=one.near.now)
    assert row["code"] == "not-drawn"
    assert "again in 1000 ms" in str(row["text"])


def test_why_nothing_comes_is_told_who_waits_for_it(language: str) -> None:
    one = drawn(language)
    assert one.connector.hindrance("Q", topic=False) == ""
    one.lease()
    assert one.connector.hindrance("Q", topic=False) == ""
    one.reachable = False
    one.cut()
    one.run()
    assert one.connector.hindrance("Q", topic=False) == language


def test_a_refusal_is_told_with_what_it_says_and_only_who_waits_for_that_queue(language: str) -> None:
    policy = {"max-size-bytes": "2000", "address-full-policy": "FAIL"}
    one = KINDS[language](near={"policies": {"Q": policy}})
    one.create("Q")
    one.lease()
    one.lease("other")
    one.send(*("x" * 500 for _ in range(20)))
    assert one.connector.hindrance("Q", topic=False).startswith(f"{language} (a message was refused here: ")
    assert one.connector.hindrance("other", topic=False) == ""
    assert one.connector.hindrance("Q", topic=True) == ""


def test_a_queue_that_is_not_there_yet_is_no_refusal() -> None:
    one = Drawn()
    one.lease("later")
    assert one.connector.hindrance("later", topic=False) == ""


@pytest.mark.parametrize("disk", [True, False])
def test_a_broker_without_a_disk_warns(disk: bool) -> None:
    one = Drawn(near={"disk": disk})
    assert any("has no disk" in said for said in one.said) is not disk
