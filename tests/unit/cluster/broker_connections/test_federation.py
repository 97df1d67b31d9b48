"""When the links of a federation may be asked for: behind the one that says that the connection is one."""

from __future__ import annotations

from entrepot.cluster.broker_connections.wanted import ControlWish, FetchWish, Wish

from .test_obeying import World, queues


def test_nothing_is_fetched_before_the_control_link_is_there_nor_when_it_is_gone() -> None:
    world = World(local=(queues(),), start=False)
    world.reachable = False
    world.start()
    world.read(world.near)
    federation = world.connection.federation
    assert federation is not None
    control, fetch = world.connection.wanted.wishes.values()
    assert isinstance(control, ControlWish)
    assert isinstance(fetch, FetchWish)
    assert federation.may_be(control)
    assert not federation.may_be(fetch)
    assert federation.may_be(Wish("A", 0, "Q", False)), "other links wait for nothing"
    world.reachable = True
    world.pass_ms(5_000)
    assert not federation.may_be(control), "it is there"
    assert federation.may_be(fetch)
    world.reachable = False
    world.cut()
    assert not federation.may_be(fetch)
