"""Bridges to and from brokers with users: who is let in, and what may cross."""

from __future__ import annotations

import pytest

from bridged import Network, SiteCensus
from entrepot.cluster.link import State, described
from entrepot.cluster.networks.outlook import across
from entrepot.core.operators.explaining import explained
from entrepot.core.operators.management import install
from entrepot.core.security.access import ADMIN, CONSUME, CREATE, EVERYTHING, READ, WRITE, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED

CREDENTIALS = "userName=bridge&password=secret"


def guarded(network: Network, name: str, *rules: Rule) -> None:
    """Give the broker of a site a user for the bridge, with ``rules`` and what every bridge needs (classic.md 7.3)."""
    broker = network.sites[name].broker
    assert broker is not None
    install(broker)
    needed = Rule("ActiveMQ.Advisory.>", MULTICAST, {"bridges": READ | WRITE | CREATE})
    users = [User("bridge", "plain:secret", ["bridges"])]
    broker.access.protect(Directory(users), [needed, *rules])


def network(seed: int, *, duplex: bool = False, options: str = "") -> Network:
    made = Network(seed, [("A", "B")], duplex=duplex, options=options)
    for site in made.sites.values():
        site.boot()
    return made


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize(
    "given",
    ["", "userName=bridge&password=guess", CREDENTIALS, "userName=x&remoteUserName=bridge&remotePassword=secret"],
)
def test_a_bridge_is_let_in_by_its_user(duplex: bool, given: str) -> None:
    made = network(1, duplex=duplex, options=given)
    guarded(made, "B", Rule(">", UNTYPED, {"bridges": EVERYTHING}))
    made.start()
    made.sites["B"].read("queue://Q")
    made.run(500)
    made.sites["A"].send("queue://Q", "m")
    made.run(2_000)
    known = given.endswith("secret")
    assert list(made.seen) == (["m"] if known else [])
    (bridge,) = made.sites["A"].bridges()
    if not known:
        assert "or password is invalid." in str(described(bridge.link)) + str(bridge.told)


def test_what_the_user_of_a_bridge_may_not_send_stays_here() -> None:
    made = network(2, options=CREDENTIALS)
    guarded(made, "B", Rule("open", ANYCAST, {"bridges": WRITE}))
    made.start()
    for name in ("open", "closed"):
        made.sites["B"].read(f"queue://{name}")
    made.run(500)
    for name in ("closed", "open"):
        made.sites["A"].send(f"queue://{name}", name)
    made.run(2_000)
    assert list(made.seen) == ["open"]
    site = made.sites["A"]
    assert site.broker is not None
    told = explained(site.broker, SiteCensus(site), "queue://closed")
    (reason,) = [one for one in across([told]) if one["code"] == "forbidden"]
    assert "not authorized to write to: queue://closed" in str(reason["text"])
    assert [one["code"] for one in across([explained(site.broker, SiteCensus(site), "queue://open")])] == []


def test_on_a_duplex_bridge_rights_hold_both_ways() -> None:
    made = network(3, duplex=True, options=CREDENTIALS)
    guarded(
        made,
        "B",
        Rule("in", ANYCAST, {"bridges": WRITE}),
        Rule("out", ANYCAST, {"bridges": CONSUME | ADMIN}),
        Rule("both", ANYCAST, {}),
    )
    made.start()
    a, b = made.sites["A"], made.sites["B"]
    for name in ("in", "both"):
        b.read(f"queue://{name}")
    for name in ("out", "closed"):
        b.send(f"queue://{name}", name)
    made.run(500)
    for name in ("out", "closed"):
        a.read(f"queue://{name}")
    made.run(500)
    for name in ("in", "both"):
        a.send(f"queue://{name}", name)
    made.run(2_000)
    assert sorted(made.seen) == ["in", "out"]
    (there,) = b.bridges()
    assert any("not authorized to read from: queue://closed" in what for what in there.told)
    assert any("not authorized to write to: queue://both" in what for what in there.told)
    (here,) = a.bridges()
    assert here.link.counts.connections == 1  # one destination that is forbidden breaks no bridge
    assert any("nothing more is forwarded for" in what for what in here.told)
    a.read("queue://both")
    made.run(500)
    assert sorted(made.seen) == ["both", "in", "out"]  # it waited here
    a.send("queue://in", "again")
    made.run(500)
    assert "again" in made.seen


def test_a_bridge_that_is_open_to_all_asks_nobody() -> None:
    made = network(4, duplex=True).start()
    made.sites["B"].read("queue://Q")
    made.run(500)
    made.sites["A"].send("queue://Q", "m")
    made.run(500)
    assert list(made.seen) == ["m"]
    (bridge,) = made.sites["A"].bridges()
    assert bridge.link.state is State.OPEN


def test_a_bridge_that_may_hear_of_no_consumer_says_so_and_is_not_open() -> None:
    made = network(5, options=CREDENTIALS)
    broker = made.sites["B"].broker
    assert broker is not None
    install(broker)
    rules = [Rule(">", UNTYPED, {"admins": EVERYTHING})]
    broker.access.protect(Directory([User("bridge", "plain:secret", ["bridges"])]), rules)
    made.start()
    made.run(2_000)
    (bridge,) = made.sites["A"].bridges()
    told = bridge.report(made.world.time)
    assert told["state"] != "open"
    assert "lets us hear of no consumers" in str(told["error"])
    assert "not authorized to read from" in str(told["error"])
    broker.access.protect(Directory([User("bridge", "plain:secret", ["admins"])]), rules)
    made.run(5_000)
    assert bridge.report(made.world.time)["state"] == "open"
