"""Lists of Artemis, and whom a new connection goes to."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from entrepot.base.environment import SECOND
from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.uri import Endpoint
from entrepot.client.balancing import FirstElement, Locator, Random, RandomSticky, RoundRobin, policy_of
from entrepot.client.options import FOR_EVER, Reach, read_target

PLACES = tuple(Endpoint("tcp", name, 61616) for name in "abc")


def first(locator: Locator) -> str:
    return locator.order(PLACES)[0].host


def test_round_robin_gives_each_its_turn() -> None:
    locator = Locator(RoundRobin())
    chosen = [first(locator) for _ in range(30)]
    assert Counter(chosen) == {"a": 10, "b": 10, "c": 10}
    assert {name: "abc"["abc".index(name) - 2] for name in "abc"} == dict(pairwise(chosen))


def test_random_sticky_and_first() -> None:
    assert set(Counter(first(Locator(Random())) for _ in range(300))) == set("abc")
    sticky = Locator(RandomSticky())
    assert len({first(sticky) for _ in range(20)}) == 1
    assert {first(Locator(FirstElement())) for _ in range(5)} == {"a"}


def test_a_policy_of_ones_own_and_the_order_behind_its_choice() -> None:
    class Last:
        def select(self, count: int) -> int:
            return count - 1

    assert [place.host for place in Locator(Last()).order(PLACES)] == ["c", "a", "b"]

    class Nobody:
        def select(self, count: int) -> int:
            return count

    with pytest.raises(InvalidOption, match="chose 3 of 3"):
        Locator(Nobody()).order(PLACES)


def test_members_come_before_the_list_once_they_are_known() -> None:
    members = (Endpoint("tcp", "x", 1), Endpoint("tcp", "a", 61616))
    locator = Locator(FirstElement())
    locator.learn(members)
    assert [place.host for place in locator.order(PLACES)] == ["x", "a", "b", "c"]
    locator.learn(())
    assert locator.members == members
    without = Locator(FirstElement(), topology=False)
    without.learn(members)
    assert [place.host for place in without.order(PLACES)] == ["a", "b", "c"]


def test_policies_by_the_names_of_artemis() -> None:
    package = "org.apache.activemq.artemis.api.core.client.loadbalance."
    assert isinstance(policy_of(f"{package}FirstElementConnectionLoadBalancingPolicy"), FirstElement)
    assert isinstance(policy_of("RandomSticky"), RandomSticky)
    with pytest.raises(InvalidOption, match="is no policy"):
        policy_of("com.example.Mine")


def test_a_bare_list_is_artemis_and_has_its_defaults() -> None:
    url = "(tcp://a:1,tcp://b:2?sslEnabled=true&trustStorePath=ca.pem)?consumerWindowSize=5&user=me&password=secret"
    target = read_target(url, {})
    assert target.core is not None
    assert target.core.consumer_window_size == 5
    assert [place.scheme for place in target.places] == ["tcp", "ssl"]
    assert target.places[1].options == {"transport.trustStorePath": "ca.pem"}
    assert (target.client.user_name, target.client.password) == ("me", "secret")
    failover = target.failover
    assert (failover.max_reconnect_attempts, failover.startup_max_reconnect_attempts) == (0, 1)
    assert (failover.randomize, failover.update_uris_supported) == (False, False)
    assert read_target(url, {}).locator is target.locator, "connections to one URL are balanced together"


def test_how_it_reconnects() -> None:
    failover = read_target(
        "(tcp://a:1)?ha=true&reconnectAttempts=-1&initialConnectAttempts=-1&retryInterval=100"
        "&retryIntervalMultiplier=2&maxRetryInterval=5000",
        {},
    ).failover
    assert (failover.max_reconnect_attempts, failover.startup_max_reconnect_attempts) == (-1, FOR_EVER)
    assert failover.update_uris_supported
    assert (failover.initial_reconnect_delay, failover.max_reconnect_delay) == (SECOND // 10, 5 * SECOND)
    assert failover.use_exponential_back_off


def test_a_group_of_artemis() -> None:
    target = read_target("udp://231.7.7.7:9876?refreshTimeout=3000&initialWaitTimeout=500&localBindPort=-1", {})
    assert target.reach is Reach.GROUP
    assert target.group is not None
    assert (target.group.refresh_timeout, target.group.initial_wait_timeout) == (3 * SECOND, SECOND // 2)
    with pytest.raises(InvalidURI, match="port of the group"):
        read_target("udp://231.7.7.7", {})


@pytest.mark.parametrize(
    "url", ["(tcp://a:1)?reconectAttempts=1", "(tcp://a:1)?refreshTimeout=1", "udp://231.7.7.7:1?randomize=true"]
)
def test_what_is_no_option_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption):
        read_target(url, {})


def test_own_policies_want_several_brokers() -> None:
    with pytest.raises(InvalidOption, match="among several"):
        read_target("core://a:1", {}, FirstElement())
    target = read_target("(tcp://a:1,tcp://b:1)", {}, FirstElement())
    assert target.locator is not None
    assert isinstance(target.locator.policy, FirstElement)
