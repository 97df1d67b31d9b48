"""Addresses of an upstream are read through a queue of their own there, while something is bound to them here."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.cluster.federation.options import ANY_HOPS, AddressPolicy, Match
from entrepot.cluster.federation.policies import can_pass_on, queue_for, takes_address
from entrepot.core.addressing.diversion import divert
from entrepot.model.address import UNTYPED, Destination
from entrepot.protocols.artemis.headers import properties_in
from kit import Rig

from .federated import MULTICAST, Pair, send, texts, waiting

QUEUE = "federated.F.U.A.MULTICAST"


def pair(policy: AddressPolicy | None = None, **options: Any) -> Pair:
    """Return two brokers. Nothing is bound anywhere."""
    return Pair(addresses=(AddressPolicy(name="P") if policy is None else policy,), **options)


def publish(both: Pair, *bodies: str, rig: Rig | None = None, **properties: Any) -> None:
    """Send to the address A of the upstream."""
    send(both.far if rig is None else rig, "A", *bodies, routing=MULTICAST, **properties)
    both.run()


def test_the_queue_there_is_made_for_a_binding_here() -> None:
    both = pair()
    publish(both, "before")
    assert waiting(both.far, QUEUE) == -1
    reader = both.near.reader("A", routing=MULTICAST)
    both.run()
    definition = both.far.queue(QUEUE).definition
    assert (definition.address, definition.durable) == ("A", True)
    assert definition.selector == "_AMQ_Hops IS NULL OR _AMQ_Hops < 0"
    assert (definition.auto_delete, definition.auto_delete_delay_ms, definition.auto_delete_messages) == (
        True,
        3_600_000,
        -1,
    )
    publish(both, "a", "b")
    assert texts(reader) == ["a", "b"]
    assert waiting(both.far, QUEUE) == 0
    assert queue_for("F", "U", "A") == QUEUE


def test_it_is_gone_after_the_last_binding_when_its_time_is_over() -> None:
    both = pair(AddressPolicy(name="P", auto_delete_delay_ms=5_000))
    reader = both.near.reader("A", routing=MULTICAST)
    both.run()
    reader.close()
    both.run()
    assert (both.upstream.everyone(), both.far.queue(QUEUE).roster.consumers) == ([], [])
    publish(both, "nobody here wants it")
    both.pass_ms(4_000)
    assert waiting(both.far, QUEUE) == 1
    for _ in range(12):
        both.pass_ms(5_000)
    assert waiting(both.far, QUEUE) == -1


def test_one_that_is_not_deleted_keeps_what_comes() -> None:
    both = pair(AddressPolicy(name="P", auto_delete=False))
    both.near.reader("A", routing=MULTICAST)
    both.run()
    both.connector.leave(both.near.now)
    both.run()
    publish(both, "a")
    both.pass_ms(60_000)
    assert waiting(both.far, QUEUE) == 1


def test_a_cut_link_loses_nothing() -> None:
    both = pair()
    reader = both.near.reader("A", routing=MULTICAST)
    both.run()
    both.mute()
    publish(both, "a")
    both.reachable = False
    both.cut()
    publish(both, "b", "c")
    assert waiting(both.far, QUEUE) == 3
    both.reachable = True
    both.pass_ms(4_000)
    assert (texts(reader), waiting(both.far, QUEUE)) == (["a", "b", "c"], 0)


def test_hops_are_counted_and_shown_to_nobody_else() -> None:
    both = pair(AddressPolicy(name="P", max_hops=3))
    reader = both.near.reader("A", routing=MULTICAST)
    both.run()
    publish(both, "a")
    publish(both, "b", _AMQ_Hops=b"\0\0\0\2")
    publish(both, "c", _AMQ_Hops=b"\0\0\0\3")
    assert texts(reader) == ["a", "b"]
    assert [properties_in(one.message.raw)["_AMQ_Hops"] for one in reader.deliveries] == [b"\0\0\0\1", b"\0\0\0\3"]
    assert [one.message.common().properties for one in reader.deliveries] == [{}, {}]


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("", True),
        ("_AMQ_Hops IS NULL OR _AMQ_Hops<0", False),
        ("_AMQ_Hops IS NULL OR _AMQ_Hops<1", False),
        ("_AMQ_Hops IS NULL OR _AMQ_Hops<2", True),
        ("color = 'red'", True),
    ],
)
def test_what_another_federation_takes_makes_wanted_what_it_would_take(condition: str, passes: bool) -> None:
    assert can_pass_on(condition) is passes


@pytest.mark.parametrize(("hops", "wanted"), [(0, False), (1, False), (2, True), (ANY_HOPS, True)])
def test_two_that_are_upstreams_of_each_other_do_not_want_for_ever(hops: int, wanted: bool) -> None:
    near, far = Rig(seed=1), Rig(seed=2)
    policy = AddressPolicy(name="P", max_hops=hops)
    there = pair(policy, near=near, far=far)
    back = pair(policy, near=far, far=near, name="G")

    def run() -> None:
        for _ in range(4):
            there.run()
            back.run()

    reader = near.reader("A", routing=MULTICAST)
    run()
    assert (len(there.upstream.readers), len(back.upstream.readers)) == (1, int(wanted))
    publish(there, "a")
    run()
    assert texts(reader) == ["a"] if hops != ANY_HOPS else texts(reader)[:1] == ["a"]
    reader.close()
    run()
    if not wanted:
        assert (there.upstream.everyone(), back.upstream.everyone()) == ([], [])


def test_a_chain_brings_it_as_far_as_hops_reach() -> None:
    one, two, three = Rig(seed=1), Rig(seed=2), Rig(seed=3)
    policy = AddressPolicy(name="P", max_hops=2)
    first = pair(policy, near=two, far=one)
    second = pair(policy, near=three, far=two, name="G")
    reader = three.reader("A", routing=MULTICAST)
    for _ in range(4):
        second.run()
        first.run()
    publish(first, "a", rig=one)
    second.run()
    assert texts(reader) == ["a"]
    assert properties_in(reader.deliveries[0].message.raw)["_AMQ_Hops"] == b"\0\0\0\2"


def test_policies_say_which_and_never_what_is_about_one_broker() -> None:
    policy = AddressPolicy(name="P", includes=(Match(address="news.#"),), excludes=(Match(address="news.sport.*"),))
    assert [takes_address(policy, one) for one in ("news.eu", "news.sport.ski", "other")] == [True, False, False]
    everything = AddressPolicy(name="P", includes=(Match(address="#"),))
    own = ("activemq.notifications", "$.artemis.internal.sf.c.x", "ActiveMQ.Advisory.Connection")
    assert not any(takes_address(everything, one) for one in own)


def test_a_queue_of_anycast_makes_no_address_wanted() -> None:
    both = pair()
    both.near.reader("A")
    both.run()
    assert both.upstream.readers == {}


@pytest.mark.parametrize("diverts", [False, True])
def test_a_divert_makes_its_address_wanted_while_its_target_is(diverts: bool) -> None:
    both = pair(AddressPolicy(name="P", diverts=diverts, includes=(Match(address="A"),)))
    near = both.near.broker
    near.queues.follow(divert("D", "A", [Destination("B", UNTYPED)], passes=True))
    both.run()
    assert both.upstream.readers == {}
    reader = both.near.reader("B", routing=MULTICAST)
    both.run()
    assert len(both.upstream.readers) == int(diverts)
    publish(both, "a")
    assert texts(reader) == (["a"] if diverts else [])
    near.queues.forget("D")
    both.run()
    assert both.upstream.readers == {}


def test_the_queue_there_was_made_by_somebody_else_meanwhile() -> None:
    both = pair(start=False)
    both.far.reader("A::" + QUEUE, routing=MULTICAST)
    both.start()
    reader = both.near.reader("A", routing=MULTICAST)
    both.run()
    assert both.reader.state.value == "reading"
    assert texts(reader) == []


def test_it_is_explained() -> None:
    both = pair()
    rows = both.connector.outlook("A", topic=True, now=both.near.now)
    assert [row["code"] for row in rows] == ["unwanted"]
    assert "no queue is bound to it here" in str(rows[0]["text"])
    both.near.reader("A", routing=MULTICAST)
    both.run()
    rows = both.connector.outlook("A", topic=True, now=both.near.now)
    assert [row["code"] for row in rows] == ["reading"]
    assert QUEUE in str(rows[0]["text"])
