"""A connection over AMQP: what it sends and fetches, and what cuts, refusals and stops do to it."""

from __future__ import annotations

from entrepot.cluster.link import State

from .called import FROM_Q, TO_Q, Called, octets_of


def test_what_waits_here_goes_there_and_is_settled_when_it_was_accepted() -> None:
    called = Called(TO_Q, start=False)
    called.send("a", "b")
    called.start()
    called.send("c")
    assert called.there() == ["a", "b", "c"]
    assert called.waiting() == 0
    assert called.connection.link.counts.confirmed == 3


def test_nothing_is_settled_that_was_not_accepted() -> None:
    called = Called(TO_Q)
    called.deafen()
    called.send("a")
    assert called.waiting() == 1
    called.cut()
    called.run()
    assert called.waiting() == 1
    called.pass_ms(1_500)
    assert called.waiting() == 0
    first, second = called.messages()
    assert (first.redelivered, second.redelivered) == (False, True)
    assert called.connection.link.counts.requeued == 1


def test_order_is_kept_over_a_cut() -> None:
    called = Called(TO_Q)
    for cable in called.cables.values():
        cable.heard = False
    called.send(*[str(number) for number in range(20)])
    called.cut()
    called.run()
    called.pass_ms(1_500)
    assert called.there() == [str(number) for number in range(20)]


def test_what_is_there_comes_here() -> None:
    called = Called(FROM_Q, start=False)
    called.send("a", "b", rig=called.far)
    called.start()
    called.send("c", rig=called.far)
    assert called.there(called.near) == ["a", "b", "c"]
    assert called.waiting(rig=called.far) == 0
    assert called.connection.report(called.near.now)["received"] == 3


def test_what_came_and_was_not_answered_comes_again() -> None:
    called = Called(FROM_Q)
    for cable in called.cables.values():
        cable.heard = False
    called.send("a", rig=called.far)
    called.cut()
    called.run()
    assert called.waiting(rig=called.far) == 1
    called.pass_ms(1_500)
    assert called.there(called.near) == ["a", "a"]


def test_large_messages_cross_both_ways() -> None:
    text = "x" * 400_000
    called = Called(TO_Q)
    called.send("a", text, "z")
    assert called.waiting() == 0
    assert called.waiting(rig=called.far) == 3
    back = Called(FROM_Q)
    back.send(text, "z", rig=back.far)
    assert back.waiting(rig=back.far) == 0
    assert back.waiting() == 2


def test_a_queue_that_is_made_later_is_served_and_one_that_goes_is_not() -> None:
    called = Called(TO_Q, queues=())
    assert not called.connection.feeds
    called.make("Q")
    called.pass_ms(10)
    called.send("a")
    assert called.there() == ["a"]
    called.near.broker.queues.delete(called.near.queue("Q"), "an operator says so")
    called.pass_ms(10)
    assert not called.connection.feeds
    called.make("Q")
    called.pass_ms(10)
    called.send("b")
    assert called.there() == ["b"]


def test_stopped_in_order_nothing_comes_twice() -> None:
    called = Called(TO_Q)
    called.send("a")
    called.connector.leave(called.near.now)
    called.run()
    assert called.connector.connection is None
    called.send("b")
    assert called.there() == ["a"]
    called.start()
    assert called.there() == ["b"]


def test_a_connection_to_itself_is_given_up() -> None:
    called = Called(TO_Q)
    called.far = called.near
    called.cut()
    called.pass_ms(1_500)
    assert called.connection.link.state is State.FAILED
    assert called.given_up == ["this connection leads to this broker itself"]


def test_what_the_other_side_has_no_room_for_waits_here() -> None:
    called = Called(TO_Q, far={"Q": {"max-size-bytes": "1", "address-full-policy": "FAIL"}})
    called.send("a", "b")
    assert called.waiting() > 0
    assert called.connection.link.counts.dead == 0


def test_the_octets_of_a_message_are_not_changed() -> None:
    called = Called(TO_Q)
    called.send("a")
    assert [message.raw for message in called.messages()] == [octets_of("a")]
