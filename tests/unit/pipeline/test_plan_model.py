"""The model of demand forwarding, by hand-made networks. No Spark."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install entrepot[spark]")

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.jobs.forecast import FOLLOW, GONE, Network, Place, headroom, predict, recommend
from entrepot.pipeline.jobs.plan import FIT, WELL_PLACED, Plan, advice, first_to_break, page_of, text_of, warnings
from entrepot.pipeline.jobs.rotation import MESSAGES


def near(rate: float) -> object:
    """Messages are played through: a rate is right to some percent."""
    return pytest.approx(rate, rel=0.03)


def mesh(**places: tuple[float, float, float]) -> Network:
    network = Network(list(places))
    network.edges = {(a, b) for a in places for b in places if a != b}
    for name, (produced, consumers, capacity) in places.items():
        network.places[name, "q"] = Place(produced, consumers, capacity)
    return network


def test_bridges_in_one_row_with_consumers_get_their_share() -> None:
    made = predict(mesh(A=(300, 1, 1000), B=(0, 1, 1000), C=(0, 1, 1000)))
    assert made.edge("A", "B") == near(100)
    assert made.edge("A", "C") == near(100)
    assert made.load("A") == 300
    assert made.load("B") == near(100)


def test_bridges_behind_consumers_get_what_is_too_much() -> None:
    network = mesh(A=(300, 1, 200), B=(0, 1, 200))
    network.bridges_last = True
    made = predict(network)
    assert made.edge("A", "B") == near(100)
    assert made.utilisation("A") == near(1.0)
    assert made.utilisation("B") == near(0.5)


def test_what_nobody_can_take_waits_and_what_nobody_reaches_is_stranded() -> None:
    made = predict(mesh(A=(500, 1, 200), B=(0, 1, 200)))
    assert made.waiting == {("B", "q"): near(100)}  # it went there while it was B's turn
    alone = mesh(A=(500, 0, 0), B=(0, 1, 200))
    alone.edges = {("B", "A")}
    assert predict(alone).stranded == {("A", "q"): 500}


def test_a_broker_is_lost() -> None:
    network = mesh(A=(300, 0, 0), B=(60, 1, 1000), C=(0, 1, 1000))
    gone = predict(network.changed(1.0, "C", GONE))
    assert gone.edge("A", "B") == near(300)
    followed = network.changed(2.0, "B", FOLLOW)
    assert followed.place("A", "q").produced == pytest.approx(600 + 60)
    assert followed.place("A", "q").consumers == pytest.approx(0.5)
    with pytest.raises(InvalidOption):
        mesh(A=(1, 1, 1)).changed(1.0, "A", FOLLOW)


def test_the_order_is_measured_where_both_stand_in_a_row() -> None:
    network = mesh(A=(300, 2, 1000), B=(0, 1, 1000))
    network.forwarded["A", "B", "q"] = 100  # a third: as one of three
    network.find_order()
    assert not network.bridges_last
    assert network.order_measured


def test_headroom_and_placement() -> None:
    network = mesh(A=(300, 0, 0), B=(0, 4, 200))
    assert headroom(network) == {"q": pytest.approx(800 / 300)}
    (said,) = recommend(network)
    assert said == (
        "q: A, where 300 a second are produced, has 0 of the 3 consumers that it needs for it: move 3 there from B"
    )
    assert recommend(mesh(A=(100, 2, 200))) == []
    (said,) = recommend(mesh(A=(1000, 1, 100), B=(0, 1, 100)))
    assert said.endswith("move 1 there from B, add 13 there")


def chain(*places: tuple[float, float, float], queue: str = "q", reach: int = 5) -> Network:
    names = [chr(ord("A") + at) for at in range(len(places))]
    network = Network(names)
    network.edges = {edge for a, b in pairwise(names) for edge in ((a, b), (b, a))}
    network.reach = reach
    for name, (produced, consumers, capacity) in zip(names, places, strict=True):
        network.places[name, queue] = Place(produced, consumers, capacity)
    return network


def test_what_came_over_a_bridge_is_shared_again_and_never_goes_back() -> None:
    made = predict(chain((300, 0, 0), (0, 1, 1000), (60, 2, 1000)))
    assert made.edge("A", "B") == near(300)
    # B's consumer must take what came from C, and so the bridge has its turn more often for what came from A
    assert 150 < made.edge("B", "C") < 170
    # and in the same way C's bridge for what is produced there: most of it crosses
    assert 20 < made.edge("C", "B") < 55
    assert made.edge("B", "A") == 0
    # every broker behind a bridge has asked for itself, so all that have one consumer get the same
    even = predict(chain((300, 0, 0), (0, 1, 1000), (0, 1, 1000), (0, 1, 1000)))
    assert [even.consumed[name, "q"] for name in "BCD"] == [near(100)] * 3
    # three bridges away, and nobody in between
    far = predict(chain((300, 0, 0), (0, 0, 0), (0, 0, 0), (0, 1, 1000)))
    assert far.edge("A", "B") == far.edge("C", "D") == near(300)


def test_a_message_crosses_no_more_bridges_than_demand_reaches() -> None:
    network = chain((300, 0, 0), (0, 0, 0), (0, 1, 1000), reach=1)
    assert predict(network).stranded == {("A", "q"): 300}
    network.wanted = {("B", "C", "q")}  # C asked B, but B never asked A
    network.find_reach()
    assert network.reach == 1
    network.wanted.add(("A", "B", "q"))
    network.find_reach()
    assert network.reach == 2
    assert predict(network).stranded == {}


def test_the_order_counts_what_came_over_bridges_too() -> None:
    network = chain((300, 0, 0), (0, 1, 1000), (0, 1, 1000))
    network.forwarded = {("A", "B", "q"): 300, ("B", "C", "q"): 150}
    network.find_order()
    assert not network.bridges_last
    assert network.order_measured


def test_too_much_for_the_next_broker_goes_on_to_those_behind_it() -> None:
    network = chain((300, 0, 0), (0, 1, 50), (0, 5, 50))
    network.bridges_last = True
    made = predict(network)
    assert made.consumed == {("B", "q"): near(50), ("C", "q"): near(250)}
    assert made.edge("B", "C") == near(250)


def test_of_a_topic_everybody_gets_a_copy_and_every_bridge_one() -> None:
    topic = "/topic/t"
    network = chain((100, 1, 0), (0, 0, 0), (0, 3, 0), queue=topic)
    made = predict(network)
    assert made.consumed == {("A", topic): 100, ("C", topic): 300}
    assert made.edge("A", "B") == made.edge("B", "C") == 100
    assert (made.edge("B", "A"), made.stranded) == (0, {})
    slow = predict(chain((100, 0, 0), (0, 2, 60), queue=topic))
    assert slow.waiting == {("B", topic): pytest.approx(80)}
    assert headroom(slow.network) == {topic: pytest.approx(0.6)}
    assert recommend(slow.network) == []
    assert predict(chain((100, 0, 0), (0, 0, 0), queue=topic)).stranded == {}  # nobody reads it: that is all


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 3), st.integers(1, 500)), min_size=1, max_size=4),
    st.booleans(),
    st.integers(1, 3),
    st.booleans(),
)
def test_nothing_is_made_or_lost(places: list[tuple[int, int, int]], last: bool, reach: int, in_a_row: bool) -> None:
    network = chain(*places) if in_a_row else mesh(**{f"N{at}": place for at, place in enumerate(places)})
    network.bridges_last = last
    network.reach = reach
    made = predict(network)
    produced = sum(place.produced for place in network.places.values())
    ends = sum(made.consumed.values()) + sum(made.waiting.values()) + sum(made.stranded.values())
    assert ends == pytest.approx(produced, abs=1e-6)
    for (name, queue), taken in made.consumed.items():
        begun = 2 * produced / MESSAGES  # the first that a consumer takes, he has not done yet
        roughly = 1.3 * network.capacity(queue)  # few messages stand for a producer that is slow beside others
        assert taken <= network.place(name, queue).consumers * (roughly + begun)


def test_a_full_mesh_of_three_that_two_bridges_may_be_crossed_in() -> None:
    """What a run of real brokers did (networkTTL=2; a second: north 200, east 100; consumers 1, 1 and 2)."""
    network = mesh(north=(200, 1, 0), east=(100, 1, 0), south=(0, 2, 0))
    network.reach = 2
    network.forwarded = {
        ("north", "east", "q"): 102, ("north", "south", "q"): 123, ("east", "north", "q"): 80.5,
        ("east", "south", "q"): 98.8, ("south", "east", "q"): 56.7, ("south", "north", "q"): 10.4,
    }  # fmt: skip
    network.find_order()
    assert network.order_measured
    assert not network.bridges_last
    said = predict(network).forwarded
    assert {edge: abs(rate - said.get(edge, 0.0)) < 15 for edge, rate in network.forwarded.items()} == dict.fromkeys(
        network.forwarded, True
    )
    # and without south the real brokers forwarded 114 and 90
    gone = predict(network.changed(1.0, "south", GONE))
    assert gone.edge("north", "east") == pytest.approx(114, rel=0.2)
    assert gone.edge("east", "north") == pytest.approx(90, rel=0.2)
    assert gone.waiting == {}


def test_what_no_consumer_had_to_show_is_not_its_limit() -> None:
    network = mesh(A=(300, 1, 0))
    network.places["A", "q"] = Place(300, 1, 53, limited=False)
    made = predict(network)
    assert (made.waiting, made.utilisation("A")) == ({}, None)
    assert headroom(network) == {"q": pytest.approx(53 / 300)}
    assert recommend(network) == []
    network.places["B", "q"] = Place(0, 1, 60)  # another was seen at its limit
    assert predict(network).waiting == {("A", "q"): near(240)}


def test_a_broker_that_produces_little_is_not_left_out() -> None:
    made = predict(mesh(A=(1000, 0, 0), B=(0.01, 0, 0), C=(0, 1, 0)))
    assert made.edge("B", "C") == pytest.approx(0.01)


def planned(measured: float) -> Plan:
    """Return the plan of a network of which ``measured`` a second were seen to cross, where the model says 300."""
    network = mesh(A=(300, 0, 0), B=(0, 4, 200))
    network.forwarded["A", "B", "q"] = measured
    return Plan(network, [], "1 times the load", predict(network))


@pytest.mark.parametrize("off", [-1, 1])
def test_a_model_that_fits_advises_and_one_that_does_not_says_so_instead(off: int) -> None:
    near_enough, too_far = planned(300 + off * 300 * (FIT - 0.03)), planned(300 + off * 300 * (FIT + 0.03))
    assert near_enough.misfit() == []
    (said,) = advice(near_enough)
    assert said.endswith("move 3 there from B")
    (wrong,) = too_far.misfit()
    crossed = f"{300 * (1 + off * (FIT + 0.03)):.3g} a second crossed from A to B"
    assert wrong == f"the model does not fit: {crossed}, it says 300"
    assert wrong in warnings(too_far)
    assert advice(too_far) == ["no advice: the model does not say what was measured (see Attention)"]
    for shown in (text_of(too_far), page_of(too_far)):
        assert "no advice: the model does not" in shown
        assert "move 3 there from B" not in shown
        assert "the model does not fit" in shown
    assert f"Attention: {wrong}" in text_of(too_far)
    assert "the model does not fit" not in text_of(near_enough)


def test_where_consumers_are_well_placed_nothing_is_advised() -> None:
    network = mesh(A=(100, 2, 200))
    made = Plan(network, [], "1 times the load", predict(network))
    assert (made.misfit(), advice(made)) == ([], [])
    assert text_of(made).rstrip().endswith("every broker has the consumers that it needs for what is produced there")
    assert WELL_PLACED in page_of(made)


def broken(queues: dict[str, Place], *, crossed: float = 0.0) -> str:
    network = Network(["a", "b"])
    network.edges = {("a", "b")}
    for queue, place in queues.items():
        network.places["a", queue] = place
    if crossed:
        network.forwarded["a", "b", "q"] = crossed
    made = Plan(network, [], "1 times the load", predict(network))
    said = first_to_break(made)
    assert (said in text_of(made)) is (said in page_of(made)) is True
    assert ("First to break" in text_of(made)) is bool(said)
    return said


def test_what_breaks_first_is_what_has_the_least_room_of_what_is_known() -> None:
    wide, narrow = Place(100, 2, 100), Place(100, 1, 150)
    assert broken({"wide": wide, "narrow": narrow}) == "narrow breaks first, at 1.5 times this load"
    unseen = Place(100, 1, 120, limited=False)
    assert broken({"wide": wide, "far": unseen}).endswith(", unless it is far, whose limit was not seen")
    assert broken({"wide": wide, "far": Place(100, 9, 120, limited=False)}) == "wide breaks first, at 2 times this load"
    assert broken({"q": Place(100, 1, 50)}) == "q breaks now: its consumers take 0.5 times this load"


def test_where_no_limit_was_seen_or_nobody_consumes_it_says_that() -> None:
    said = broken({"q": Place(100, 1, 120, limited=False), "r": Place(10, 1, 120, limited=False)})
    assert said.startswith("nothing is known to break")
    assert "at least 1.2 times this load, q the least" in said
    assert broken({"q": Place(100, 1, 200), "lost": Place(50)}).startswith("lost at a breaks at any load")


def test_a_model_that_does_not_fit_says_nothing_of_what_breaks() -> None:
    assert broken({"q": Place(100, 1, 150)}, crossed=90.0) == ""


def test_nodes_of_a_cluster_get_messages_in_turn_however_many_consumers_they_have() -> None:
    network = mesh(A=(300, 3, 100), B=(0, 1, 100), C=(30, 0, 0))
    network.balanced = True
    made = predict(network)
    assert made.edge("A", "B") == 150
    assert made.edge("A", "C") == 0
    assert made.edge("C", "A") == made.edge("C", "B") == 15
    assert made.consumed == {("A", "q"): 165, ("B", "q"): 100}  # all together could take more: none goes round again
    assert made.waiting == {("B", "q"): 65}
    alone = predict(network.changed(1.0, "B", GONE))
    assert (alone.consumed, alone.waiting) == ({("A", "q"): 300}, {("A", "q"): 30})
    nobody = mesh(A=(300, 0, 0), B=(0, 0, 0))
    nobody.balanced = True
    assert predict(nobody).stranded == {("A", "q"): 300}


def test_in_a_cluster_the_node_with_the_least_room_breaks_first_and_no_other_helps_it() -> None:
    network = mesh(A=(24, 1, 10), B=(0, 2, 10), C=(0, 1, 10))
    network.balanced = True
    network.forwarded |= {("A", "B", "q"): 8.0, ("A", "C", "q"): 8.0}
    assert headroom(network) == {"q": near(10 / 8)}  # all together have room for 40 / 24
    after = network.changed(1.0, "C", GONE)
    assert headroom(after) == {"q": near(10 / 12)}
    made = Plan(network, [], "without C", predict(after))
    assert first_to_break(made) == "q at A breaks now: its consumers take 0.833 times this load"
    assert made.after.waiting == {("A", "q"): near(2)}
    assert recommend(after) == [
        "q: A, which gets 12 a second, has 1 of the 2 consumers that it needs for it: add 1 there"
    ]
    assert first_to_break(Plan(network, [], "", predict(network))) == "q at A breaks first, at 1.25 times this load"
    network.places["A", "q"].consumers = 0  # then it gets none
    assert headroom(network) == {"q": near(10 / 12)}


def test_a_limit_holds_for_all_unless_one_took_clearly_more() -> None:
    network = mesh(A=(24, 1, 9.7), B=(0, 2, 10))
    network.places["B", "q"].limited = False  # a second in which it took one more
    assert network.limit("q") == 10
    network.places["B", "q"].capacity = 12
    assert network.limit("q") == float("inf")
