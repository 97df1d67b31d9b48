"""What the far side wants, and which local subscriptions serve it: classic.md 1.5 to 1.10, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.cluster.networks.demand import AdvisoryDemand, Interests, StaticDemand
from entrepot.cluster.networks.lists import Included, Lists, Place
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.cluster.networks.wanted import (
    Demand,
    Drain,
    DurableGone,
    Effect,
    ForgetDurable,
    HandOver,
    LookAgain,
    MakeTemporary,
    Names,
    Reader,
    ReaderGone,
    ReaderId,
    Subscribe,
    TemporaryTold,
    Unsubscribe,
)

Q = Place("Q", topic=False)
T = Place("T", topic=True)
NAMES = Names("NC", "A", "id-A", "B", "id-B", "B->A:1")


def consumer(number: int, *where: Place, path: tuple[str, ...] = (), **fields: Any) -> Reader:
    parts = where or (Q,)
    whole = parts[0] if len(parts) == 1 else Place(",".join(one.name for one in parts), parts[0].topic)
    return Reader(whole, parts, ReaderId("far", 1, number), path, **fields)


def made(lists: Lists | None = None, interests: Interests | None = None, **options: Any) -> AdvisoryDemand:
    demand = AdvisoryDemand(NetworkConnectorOptions(**options), lists or Lists(), interests or Interests())
    demand.begin(NAMES)
    return demand


def only(effects: list[Effect]) -> Demand:
    (effect,) = effects
    assert isinstance(effect, Subscribe)
    return effect.demand


def test_a_demand_says_here_where_it_comes_from() -> None:
    info = only(made().heard(consumer(1, priority=3, selector="x = 1"))).reader
    assert info.network
    assert info.prefetch == 1000
    assert info.path == ("id-B",)
    assert info.served == (ReaderId("far", 1, 1),)
    assert info.selector is None  # the conduit is for all
    assert info.priority == 3  # it stands in one row with the consumers here


@pytest.mark.parametrize(
    ("options", "prefetch"),
    [
        ({"prefetch": 1}, 100),  # behind hundreds of others, a reader that left was once served for two more minutes
        ({"prefetch": 500}, 500),
        ({"prefetch": 500, "advisory_prefetch": 7}, 7),
    ],
)
def test_news_does_not_wait_for_the_prefetch_of_messages(options: dict[str, Any], prefetch: int) -> None:
    (effect,) = made(**options).subscribed(consumer(1, Place("ActiveMQ.Advisory.Consumer.>", topic=True)))
    assert isinstance(effect, Subscribe)
    assert effect.demand.reader.prefetch == prefetch
    assert NetworkConnectorOptions(**options).advisory_window == prefetch


@pytest.mark.parametrize(("hops", "priority"), [(1, -5), (2, -8), (3, -9), (4, -10)])
def test_priority_falls_with_every_hop(hops: int, priority: int) -> None:
    path = tuple(f"id-{number}" for number in range(hops - 1))
    assert only(made(consumer_ttl=9, decrease_priority=True).heard(consumer(1, path=path))).reader.priority == priority
    assert (
        only(made(consumer_ttl=9, decrease_priority=False).heard(consumer(1, path=path, priority=7))).reader.priority
        == 7
    )


@pytest.mark.parametrize(
    ("info", "options"),
    [
        (consumer(1, browser=True), {}),
        (Reader(Place("a,,b", topic=False), (), ReaderId("far", 1, 1)), {}),
        (consumer(1, path=("id-X",)), {"consumer_ttl": 1}),
        (consumer(1), {"consumer_ttl": 0}),
        (consumer(1, path=("id-X", "id-A")), {"consumer_ttl": -1}),
        (consumer(1, Place("t", topic=False, temporary=True)), {"bridge_temporary": False}),
        (consumer(1, Place("ActiveMQ.Advisory.>", topic=True)), {}),
    ],
)
def test_what_is_no_demand(info: Reader, options: dict[str, Any]) -> None:
    assert made(**options).heard(info) == []


def test_a_conduit_serves_all_readers_of_a_destination_and_ends_with_the_last() -> None:
    demand = made()
    only(demand.heard(consumer(1)))
    assert demand.heard(consumer(2)) == []
    assert demand.heard(ReaderGone(ReaderId("far", 1, 1))) == []
    assert [type(effect) for effect in demand.heard(ReaderGone(ReaderId("far", 1, 2)))] == [Unsubscribe]
    demand.check()


def test_a_wildcard_serves_the_names_that_it_covers() -> None:
    demand = made()
    only(demand.heard(consumer(1, Place("a.>", topic=True))))
    assert demand.heard(consumer(2, Place("a.b", topic=True))) == []
    only(demand.heard(consumer(3, Place("b", topic=True))))
    only(demand.heard(consumer(4, Place("a.b", topic=False))))


def test_without_a_conduit_each_reader_has_its_own_with_its_selector() -> None:
    demand = made(conduit_subscriptions=False)
    assert only(demand.heard(consumer(1, selector="x = 1"))).reader.selector == "x = 1"
    only(demand.heard(consumer(2)))
    assert demand.heard(consumer(2)) == []  # said twice


def test_bridges_of_others_share_a_queue_only_when_told_to() -> None:
    for shared, again in ((False, 1), (True, 0)):
        demand = made(conduit_network_queue_subscriptions=shared)
        only(demand.heard(consumer(1)))
        assert len(demand.heard(consumer(2, network=True))) == again
        only(demand.heard(consumer(3, T)))
        assert demand.heard(consumer(4, T, network=True)) == []


def test_a_composite_is_a_demand_for_each_part() -> None:
    effects = made().heard(consumer(1, Place("a", topic=False), Place("b", topic=True)))
    assert [effect.demand.where for effect in effects if isinstance(effect, Subscribe)] == [
        Place("a", topic=False),
        Place("b", topic=True),
    ]


def test_durable_readers_share_one_durable_name_that_a_restart_finds_again() -> None:
    demand = made()
    first = only(demand.heard(consumer(1, T, subscription_name="s", client_id="c")))
    assert first.durable_name == "NC-DS_A_T"
    assert first.reader.client_id == "NC_B_inbound_A"
    assert demand.heard(consumer(2, T, subscription_name="t", client_id="c")) == []
    assert demand.heard(ReaderGone(ReaderId("far", 1, 1))) == []
    assert demand.heard(ReaderGone(ReaderId("far", 1, 2))) == []  # offline, not gone
    assert demand.heard(DurableGone("c", "s")) == []
    (effect,) = demand.heard(DurableGone("c", "t"))
    assert isinstance(effect, Unsubscribe)
    assert effect.forget


def test_durable_subscriptions_of_before_are_taken_up_unless_only_live_demand_counts() -> None:
    known = [("T", "NC-DS_A_T"), ("U", "NC-DS_other_U")]
    assert only(made().restore(known)).durable_name == "NC-DS_A_T"
    assert made(dynamic_only=True).restore(known) == []


def test_without_a_conduit_a_durable_keeps_its_name_and_stays_while_its_reader_is_away() -> None:
    demand = made(conduit_subscriptions=False)
    assert only(demand.heard(consumer(1, T, subscription_name="s", client_id="c"))).durable_name == "s"
    (effect,) = demand.heard(ReaderGone(ReaderId("far", 1, 1)))
    assert isinstance(effect, Unsubscribe)
    assert not effect.forget
    assert demand.heard(DurableGone("c", "s")) == [ForgetDurable("s")]


def test_a_list_may_make_plain_readers_durable() -> None:
    lists = Lists(dynamic=(Included("T", topic=True, force_durable=True),))
    demand = made(lists)
    assert only(demand.heard(consumer(1, T))).durable_name == "NC-DS_A_T"


def test_static_destinations_are_served_unasked_and_for_ever() -> None:
    lists = Lists(static=(Included("Q", topic=False),))
    demand = StaticDemand(NetworkConnectorOptions(static=True), lists, Interests())
    assert only(demand.begin(NAMES)).static
    assert demand.heard(consumer(1, T)) == []
    both = AdvisoryDemand(NetworkConnectorOptions(), lists, Interests())
    both.begin(NAMES)
    assert both.heard(consumer(1)) == []
    assert both.heard(ReaderGone(ReaderId("far", 1, 1))) == []
    both.check()


def near_and_far(interests: Interests, **options: Any) -> tuple[AdvisoryDemand, AdvisoryDemand]:
    """Two bridges that see the same reader: one is next to it, the other has a broker between."""
    near = made(interests=interests, consumer_ttl=5, **options)
    far = AdvisoryDemand(NetworkConnectorOptions(consumer_ttl=5, **options), Lists(), interests)
    far.begin(Names("NC", "A", "id-A", "C", "id-C", "C->A:1"))
    return near, far


@pytest.mark.parametrize("decrease", [True, False])
def test_of_two_ways_to_a_reader_the_shorter_stays_and_the_longer_waits(decrease: bool) -> None:
    interests = Interests()
    near, far = near_and_far(interests, decrease_priority=decrease)
    reader = ReaderId("far", 1, 1)
    only(far.heard(consumer(9, T, path=("id-B",), served=(reader,))))
    only(near.heard(consumer(1, T)))
    assert [type(effect) for effect in far.pending] == [Unsubscribe]
    far.pending.clear()
    assert len(interests.demands) == 1
    near.end()
    assert [type(effect) for effect in far.pending] == [Subscribe]  # Classic would have no way at all now
    far.check()


def test_suppression_is_for_topics_unless_queues_ask_for_it() -> None:
    reader = ReaderId("far", 1, 1)
    for where, options, second in ((T, {}, 0), (Q, {}, 1), (Q, {"suppress_duplicate_queues": True}, 0)):
        near, far = near_and_far(Interests(), **options)
        only(near.heard(consumer(1, where)))
        assert len(far.heard(consumer(9, where, path=("id-B",), served=(reader,)))) == second


def test_a_reader_that_leaves_while_it_is_suppressed_is_forgotten() -> None:
    interests = Interests()
    near, far = near_and_far(interests)
    only(near.heard(consumer(1, T)))
    far.heard(consumer(9, T, path=("id-B",), served=(ReaderId("far", 1, 1),)))
    far.heard(ReaderGone(ReaderId("far", 1, 9)))
    near.end()
    assert far.pending == []
    assert not interests.suppressed


def test_temporary_destinations_come_and_go_with_their_readers() -> None:
    demand = made()
    where = Place("t", topic=False, temporary=True)
    (effect,) = demand.heard(TemporaryTold(where, (), there=True))
    assert isinstance(effect, MakeTemporary)
    assert effect.path == ("id-B",)
    only(demand.heard(consumer(1, where)))
    effects = demand.heard(TemporaryTold(where, (), there=False))
    assert [type(effect).__name__ for effect in effects] == ["DropTemporary"], "who reads it is told of by himself"
    assert demand.heard(TemporaryTold(where, ("id-A",), there=True)) == []


def test_one_consumer_may_want_several_destinations() -> None:
    demand = made(suppress_duplicate_queues=True)
    both = demand.heard(consumer(1, Place("t.1", topic=True), Place("t.2", topic=True)))
    assert [one.demand.name for one in both if isinstance(one, Subscribe)] == ["t.1", "t.2"]
    assert only(demand.heard(consumer(2, Q))).name == "Q"
    assert (
        only(demand.heard(consumer(2, Place("fills.Q", topic=False)))).name == "fills.Q"
    )  # it reads what that one fills
    gone = demand.heard(ReaderGone(ReaderId("far", 1, 2)))
    assert [one.demand.name for one in gone if isinstance(one, Unsubscribe)] == ["Q", "fills.Q"]


def test_a_durable_subscription_behind_a_queue_makes_no_durable_demand_for_the_queue() -> None:
    demand = made()
    far = {"subscription_name": "sub", "client_id": "c"}
    assert only(demand.heard(consumer(1, T, **far))).durable_name == "NC-DS_A_T"
    assert only(demand.heard(consumer(1, Q, **far))).durable_name == ""


def durable(number: int, client: str, path: tuple[str, ...] = ()) -> Reader:
    return consumer(number, T, path=path, client_id=client, subscription_name="s")


def test_a_durable_reader_that_is_suppressed_is_forgotten_when_it_is_unsubscribed() -> None:
    interests = Interests()
    near, far = made(interests=interests, consumer_ttl=-1), made(interests=interests, consumer_ttl=-1)
    near.heard(durable(1, "c"))
    far.heard(durable(1, "c", ("id-C",)))
    assert len(interests.suppressed) == 1
    far.heard(ReaderGone(ReaderId("far", 1, 1)))
    assert len(interests.suppressed) == 1, "it is only offline"
    far.heard(DurableGone("c", "s"))
    assert not interests.suppressed


def test_who_serves_a_durable_reader_gets_what_another_bridge_holds_for_it() -> None:
    interests = Interests()
    long, short = made(interests=interests, consumer_ttl=-1), made(interests=interests, consumer_ttl=-1)
    first = only(long.heard(durable(1, "c", ("id-C",))))
    second = only(short.heard(durable(1, "c")))
    assert long.pending == [Unsubscribe(first, instead=second)]
    third = made(interests=interests, consumer_ttl=-1)
    assert third.heard(durable(1, "c", ("id-D",))) == [LookAgain()]
    waiting = next(reversed(interests.suppressed))
    assert third.restore([("T", third.names.durable("T"))]) == [HandOver(waiting, (second,))]


def test_a_durable_demand_that_serves_others_too_stays_beside_a_shorter_way_to_one() -> None:
    interests = Interests()
    long, short = made(interests=interests, consumer_ttl=-1), made(interests=interests, consumer_ttl=-1)
    both = only(long.heard(durable(1, "c", ("id-C",))))
    long.heard(durable(2, "d", ("id-C",)))
    only(short.heard(durable(1, "c")))
    assert list(long.demands) == [both]
    assert not long.pending


def test_what_was_restored_is_made_anew_when_its_reader_is_heard_of() -> None:
    demand = made(consumer_ttl=-1)
    restored = only(demand.restore([("T", demand.names.durable("T"))]))
    effects = demand.heard(durable(1, "c", ("id-C",)))
    assert effects[0] == Unsubscribe(restored)
    assert only(effects[1:]).reader.path == ("id-C", "id-B")
    assert list(demand.demands) == [only(effects[1:])]


def test_a_subscription_that_another_reader_of_the_name_uses_is_not_forgotten() -> None:
    demand = made(conduit_subscriptions=False)
    demand.heard(durable(1, "c"))
    assert demand.heard(DurableGone("another", "s")) == []


def test_a_subscription_that_two_readers_share_goes_with_the_last() -> None:
    demand = made(conduit_subscriptions=False)
    first = only(demand.heard(durable(1, "c")))
    only(demand.heard(durable(2, "another")))  # the same name: one subscription here
    gone = DurableGone("c", "s")
    assert demand.heard(gone) == [Unsubscribe(first, forget=False)]
    (effect,) = demand.heard(DurableGone("another", "s"))
    assert isinstance(effect, Unsubscribe)
    assert effect.forget


def test_what_waits_for_a_reader_that_another_bridge_serves_elsewhere_is_drained_and_not_given_up() -> None:
    interests = Interests()
    near, far = near_and_far(interests, conduit_subscriptions=False)
    serving = only(near.heard(durable(1, "c")))
    way = (ReaderId("far", 1, 1),)
    longer = consumer(9, T, path=("id-B",), client_id="d", subscription_name="s", served=way)
    assert far.heard(longer) == [LookAgain()]
    (effect,) = far.restore([("T", "s"), ("U", "s")])
    assert effect == Drain(next(iter(interests.suppressed)), (serving,))


@pytest.mark.parametrize("where", [Q, T])
def test_readers_that_waited_for_another_way_share_one_demand_when_it_is_gone(where: Place) -> None:
    interests = Interests()
    options = {"interests": interests, "suppress_duplicate_queues": True}
    one, beside = made(**options), made(**options)
    for number in (1, 2):
        one.heard(consumer(number, where))
    for number in (1, 2):
        assert beside.heard(consumer(number, where)) == []
    one.end()
    (demand,) = beside.demands
    assert only(beside.pending) is demand, "each message would cross twice"
    assert list(demand.remote) == [ReaderId("far", 1, 1), ReaderId("far", 1, 2)]
    beside.pending.clear()
    assert beside.heard(ReaderGone(ReaderId("far", 1, 1))) == []
    assert beside.heard(ReaderGone(ReaderId("far", 1, 2))) == [Unsubscribe(demand)]


def test_durable_readers_that_waited_for_another_way_share_one_subscription_that_goes_with_the_last() -> None:
    interests = Interests()
    one, beside = made(interests=interests), made(interests=interests)
    for bridge in (one, beside):
        bridge.heard(durable(1, "c"))
        bridge.heard(durable(2, "d"))
    one.heard(ReaderGone(ReaderId("far", 1, 2)))  # the second is away, and served all the same
    one.end()
    demand = only(beside.pending)
    assert list(demand.durables) == [("c", "s"), ("d", "s")]
    assert not interests.suppressed
    assert beside.heard(DurableGone("c", "s")) == []
    last = DurableGone("d", "s")
    assert beside.heard(last) == [Unsubscribe(demand, forget=True)]


def test_what_was_held_before_goes_with_the_last_reader_that_another_way_serves() -> None:
    interests = Interests()
    one, beside = made(interests=interests), made(interests=interests)
    for bridge in (one, beside):
        bridge.heard(durable(1, "c"))
        bridge.heard(durable(2, "d"))
    for number, client in ((1, "c"), (2, "d")):
        beside.heard(ReaderGone(ReaderId("far", 1, number)))
        effects = beside.heard(DurableGone(client, "s"))
    assert effects == [ForgetDurable(NAMES.durable("T"))]
    assert not interests.suppressed


def elsewhere(demand: AdvisoryDemand) -> AdvisoryDemand:
    demand.begin(Names("NC", "A", "id-A", "C", "id-C", "C->A:1"))
    return demand


def beyond(number: int, client: str) -> Reader:
    """What the far broker tells of its own subscription for a reader of C's."""
    return durable(number, client, ("id-C",))


def test_a_fresh_subscription_whose_other_reader_is_served_elsewhere_hands_over_what_it_holds() -> None:
    interests = Interests()
    short, long = elsewhere(made(interests=interests)), made(interests=interests, consumer_ttl=-1)
    direct = only(short.heard(durable(1, "c")))
    assert long.heard(beyond(1, "B-for-c")) == [LookAgain()]
    demand = only(long.heard(durable(2, "d")))
    effects = long.heard(DurableGone("d", "s"))
    assert effects == [Unsubscribe(demand), LookAgain()], "it would fill for nobody"
    name = NAMES.durable("T")
    (waiting,) = interests.suppressed
    assert long.restore([("T", name)], fresh=[name]) == [HandOver(waiting, (direct,))]


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_old_subscription_is_served_as_it_was_when_one_of_its_readers_is_heard_of(dynamic: bool) -> None:
    interests = Interests()
    short, long = elsewhere(made(interests=interests)), made(interests=interests, consumer_ttl=-1, dynamic_only=dynamic)
    short.heard(durable(1, "c"))
    assert long.heard(beyond(1, "B-for-c")) == [LookAgain()]
    assert only(long.restore([("T", NAMES.durable("T"))])).restored, "another may be away that is reached this way only"


def test_a_reader_that_has_waited_for_another_way_takes_over_what_was_restored() -> None:
    interests = Interests()
    one, beside = elsewhere(made(interests=interests)), made(interests=interests, consumer_ttl=-1)
    one.heard(durable(1, "c"))
    beside.heard(beyond(1, "B-for-c"))
    restored = only(beside.restore([("T", NAMES.durable("T"))]))
    one.end()
    first, *rest = beside.pending
    assert first == Unsubscribe(restored), "two demands cannot read one subscription"
    assert list(beside.demands) == [only(rest)]


def test_a_durable_reader_that_comes_back_stays_with_the_way_that_serves_it_whoever_hears_of_it_first() -> None:
    interests = Interests()
    one, beside = made(interests=interests), made(interests=interests)
    serving = only(one.heard(durable(1, "c")))
    assert beside.heard(durable(1, "c")) == [LookAgain()]
    for bridge in (beside, one):
        bridge.heard(ReaderGone(ReaderId("far", 1, 1)))
    assert beside.heard(durable(2, "c")) == [LookAgain()], "all would cross twice"
    (waiting,) = interests.suppressed  # and not one more each time
    assert list(waiting.remote) == [ReaderId("far", 1, 2)]
    assert beside.restore([("T", NAMES.durable("T"))]) == [HandOver(waiting, (serving,))], "it is known who has it"
    assert one.heard(durable(2, "c")) == []
    assert list(serving.remote) == [ReaderId("far", 1, 2)]
