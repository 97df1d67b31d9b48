"""Connection routers: keys and hashes as Artemis has them, the policies, quorums, caches, and what clients are told."""

from __future__ import annotations

import re

import pytest

from clustered import Cluster, Node, connector
from entrepot.cluster.routers.keys import NO_KEY, hash_of, key_of, reduced
from entrepot.cluster.routers.options import (
    CacheOptions,
    KeyType,
    PolicyKind,
    PolicyOptions,
    PoolOptions,
    RouterOptions,
)
from entrepot.cluster.routers.policies import Policy, by_hash
from entrepot.cluster.routers.router import CLIENT_ID, Router, Routers
from entrepot.core.guiding import HERE, LATER, REFUSED, THERE, UNREADY, Guidance, Guides, Visitor


def visitor(
    client_id: str = "", *, peer: str = "10.1.2.3:55", user: str = "", groups: str = "", name: str = ""
) -> Visitor:
    return Visitor(peer, name, client_id, user, groups.split(), 0)


def router(**given: object) -> RouterOptions:
    return RouterOptions(name="r", **given)  # type: ignore[arg-type]


class Broker:
    """A target with a fixed count."""

    def __init__(self, node: str, connections: int = 0) -> None:
        self.node = node
        self.connections = connections


# -- keys --------------------------------------------------------------------------------------------------------------


def test_keys_by_their_types() -> None:
    who = visitor("c1", user="ann", groups="dev ops", name="mq.example.org")
    assert key_of(router(key=KeyType.CLIENT_ID), who) == "c1"
    assert key_of(router(), who) == "10.1.2.3"
    assert key_of(router(), visitor(peer="[::1]:5")) == "[::1]"
    assert key_of(router(key=KeyType.USER_NAME), who) == "ann"
    assert key_of(router(key=KeyType.SNI_HOST), who) == "mq.example.org"
    assert key_of(router(key=KeyType.ROLE_NAME), who) == "dev"
    assert key_of(router(key=KeyType.ROLE_NAME, key_filter=re.compile("^o")), who) == "o"
    assert key_of(router(key=KeyType.CLIENT_ID, key_filter=re.compile("^.{3}")), visitor("EU-1")) == "EU-"
    assert key_of(router(key=KeyType.CLIENT_ID, key_filter=re.compile("x")), visitor("EU-1")) == NO_KEY
    assert key_of(router(key=KeyType.CLIENT_ID), visitor()) == NO_KEY


def test_the_hash_is_fnv_with_a_sign() -> None:
    assert hash_of("") == -2128831035
    assert hash_of("a") == -468965076  # 0xe40c292c, the published value
    assert hash_of("foobar") == -1080231576  # 0xbf9cf968
    assert reduced("a", 7) == str(-(468965076 % 7)), "the rest has the sign of the hash, as in Java"
    assert reduced(NO_KEY, 3) == NO_KEY


def test_a_hash_finds_the_greatest_that_is_not_above() -> None:
    targets = [Broker("a"), Broker("foobar"), Broker("")]  # hashes -468965076, -1080231576, -2128831035
    assert by_hash(targets, "a").node == "a"
    assert by_hash(targets, "foobar").node == "foobar"
    above = next(text for text in map(str, range(1000)) if hash_of(text) > 0)
    assert by_hash(targets, above).node == "a"
    assert by_hash(targets[:2], "").node == "foobar", "below all of them: the first of the circle"


def test_policies() -> None:
    targets = [Broker("a", 5), Broker("b", 2), Broker("c", 2)]

    def chosen(kind: PolicyKind, times: int = 3, **given: int) -> str:
        policy = Policy(PolicyOptions(kind=kind, **given))
        picked = [policy.choose(targets, "key") for _ in range(times)]
        return "".join("-" if one is None else one.node for one in picked)

    assert chosen(PolicyKind.FIRST_ELEMENT) == "aaa"
    assert chosen(PolicyKind.ROUND_ROBIN, 4) == "abca"
    assert chosen(PolicyKind.LEAST_CONNECTIONS) == "bcb"
    assert chosen(PolicyKind.LEAST_CONNECTIONS, 3, threshold=6) == "abc"
    assert chosen(PolicyKind.CONSISTENT_HASH_MODULO) == "---"
    assert len(set(chosen(PolicyKind.CONSISTENT_HASH))) == 1


# -- whole brokers -----------------------------------------------------------------------------------------------------


class Routed:
    """A broker with a router, and others that it may send clients to."""

    def __init__(self, count: int = 2, **given: object) -> None:
        self.world = Cluster()
        self.targets = [self.world.node(number, []) for number in range(1, count + 1)]
        self.front: Node = self.world.node(0, [])
        pool = given.pop("pool", {})
        assert isinstance(pool, dict)
        pool.setdefault("connectors", tuple(connector(number) for number in range(1, count + 1)))
        self.options = router(pool=PoolOptions(user="u", password="p", check_ms=100, **pool), **given)
        self.router: Router
        self.begin()

    def begin(self) -> None:
        broker = self.front.rig.broker
        self.router = Router(broker, self.options, lambda: 7, lambda who, what: None)
        broker.guides = Routers([self.router])
        pool = self.router.pool
        assert pool is not None
        self.front.act(lambda: pool.start(self.front._perform))  # type: ignore[arg-type]

    def ask(self, client_id: str = "") -> Guidance:
        who = Visitor("10.1.2.3:55", "", client_id, "", [], self.front.rig.now)
        found: list[Guidance] = []
        self.front.act(lambda: found.append(self.router.ask(who)))
        return found[0]


def least(**given: object) -> Routed:
    return Routed(policy=PolicyOptions(kind=PolicyKind.ROUND_ROBIN), **given)


def test_targets_are_ready_when_they_answer_and_not_when_they_are_gone() -> None:
    it = least()
    assert it.ask().verdict == LATER, "nobody has answered yet"
    it.world.wait(300)
    assert [it.ask().port for _ in range(4)] == [7001, 7002, 7001, 7002]
    assert it.ask().node == it.targets[0].uuid
    assert [row["connections"] for row in it.router.report()["targets"]] == [0, 0]  # type: ignore[attr-defined]
    it.targets[0].leave(orderly=False)
    it.world.wait(300)
    assert {it.ask().port for _ in range(4)} == {7002}


def test_with_too_few_a_client_waits_and_is_refused() -> None:
    it = least(pool={"quorum": 3, "quorum_ms": 500})
    it.world.wait(300)
    who = Visitor("h:1", "", "", "", [], it.front.rig.now)
    assert it.router.ask(who).verdict == LATER
    it.world.wait(600)
    assert it.router.ask(who).verdict == UNREADY


def test_this_broker_may_be_one_of_them() -> None:
    it = least(pool={"local": True})
    it.world.wait(300)
    assert [it.ask().verdict for _ in range(3)] == [HERE, THERE, THERE]


def test_a_filter_keeps_clients_here_and_probes_are_always_served() -> None:
    it = Routed(
        key=KeyType.CLIENT_ID,
        policy=PolicyOptions(kind=PolicyKind.FIRST_ELEMENT),
        local_filter=re.compile("EU.*"),
    )
    it.world.wait(300)
    assert it.ask("EU-1").verdict == HERE
    assert it.ask("xEU-1").verdict == THERE
    assert it.ask(CLIENT_ID + "1").verdict == HERE


@pytest.mark.parametrize("persisted", [False, True])
def test_a_cached_key_goes_where_it_went(persisted: bool) -> None:
    it = least(key=KeyType.CLIENT_ID, cache=CacheOptions(persisted=persisted, timeout_ms=5_000))
    it.world.wait(300)
    first = it.ask("c1").port
    assert [it.ask("c1").port for _ in range(3)] == [first] * 3
    assert it.ask("c2").port != first
    it.front.rig.restart("kill")
    it.front._boot()
    it.begin()
    it.world.wait(300)
    again = [it.ask("c2").port, it.ask("c1").port]
    other = 7001 if first == 7002 else 7002
    assert again == ([other, first] if persisted else [7001, 7002])
    it.world.wait(6_000)
    it.ask("c3")
    it.ask("c4")
    assert it.router.cache is not None
    it.router.cache.get("c1")
    assert "c1" not in it.router.cache.nodes, "its time is over"


def test_modulo_keeps_the_keys_of_one_rest_here_and_chooses_nobody() -> None:
    it = Routed(
        key=KeyType.CLIENT_ID,
        policy=PolicyOptions(kind=PolicyKind.CONSISTENT_HASH_MODULO, modulo=2),
        local_filter=re.compile("0"),
        pool={"quorum_ms": 0},
    )
    it.world.wait(300)
    verdicts = {reduced(key, 2): it.ask(key).verdict for key in map(str, range(20))}
    assert verdicts == {"0": HERE, "1": UNREADY}


def test_a_router_without_a_pool_refuses_whom_its_filter_leaves() -> None:
    it = Router(Cluster().node(0, []).rig.broker, router(), lambda: 0, lambda who, what: None)
    assert it.ask(visitor("c")).verdict == REFUSED
    assert Guides().ask("nobody", visitor("c")).verdict == REFUSED
    assert it.ask(visitor(CLIENT_ID)).verdict == HERE
