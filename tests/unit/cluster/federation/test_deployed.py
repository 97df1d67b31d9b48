"""Upstreams that another broker deploys: who may, what comes of it, and what becomes of it when its connection goes."""

from __future__ import annotations

import pytest

from entrepot.base.uri import Endpoint
from entrepot.cluster.dialled import Dialled
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.deployed import DEPLOYED_MAX, Deployments
from entrepot.cluster.federation.description import described
from entrepot.cluster.federation.downstream import DownstreamConnector
from entrepot.cluster.federation.options import AddressPolicy, DownstreamEntry, QueuePolicy, UpstreamOptions
from entrepot.cluster.federation.peer import LOOP
from entrepot.cluster.link import Effect, State
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.security.access import Rule
from entrepot.core.security.directory import Directory, User
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.codec import PREFACE, Encoder
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.packets import FederationDownstreamConnect
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.failover import Dial, Drop
from kit import SECOND, Rig

from ..cables import End
from .federated import MULTICAST, made, send, texts, waiting


class Wire:
    """A connection between two brokers, by whom dialled."""

    def __init__(self, end: Dialled, attempt: int, one: End, other: End) -> None:
        self.end = end
        self.attempt = attempt
        self.one = one
        self.other = other


class Hub:
    """``hub`` deploys to ``leaf``, which dials back. Both dial, and each serves."""

    def __init__(self, *, queues: tuple[QueuePolicy, ...] = (QueuePolicy(name="P"),),
                 addresses: tuple[AddressPolicy, ...] = (), roles: tuple[str, ...] = ()) -> None:  # fmt: skip
        self.hub, self.leaf = Rig(seed=1), Rig(seed=2)
        self.roles = roles
        self.wires: list[Wire] = []
        self.dials: list[tuple[Dialled, Dial]] = []
        self.said: list[str] = []
        self.number = 0
        self.entry = DownstreamEntry(
            federation="F",
            options=UpstreamOptions(name="D", user="u", password="p", retry_interval=SECOND),
            places=(Endpoint("tcp", "leaf", 1),),
            queues=queues,
            addresses=addresses,
            back=Endpoint("tcp", "hub", 1),
            connector="self",
        )
        self.begin()

    def begin(self) -> None:
        self.acceptors = {"hub": CoreAcceptor(self.hub.broker), "leaf": CoreAcceptor(self.leaf.broker)}
        self.deployed: list[FederationConnector] = []
        self.acceptors["leaf"].federating = Deployments(
            self.leaf.broker, self.deployed, lambda: self.roles, self.dial_back, self.say
        )
        self.connector = DownstreamConnector(self.entry)

    def start(self) -> None:
        self.connector.start(self.hub.broker, self.perform, self.say, self.hub.now)
        self.run()

    def say(self, who: str, what: str) -> None:
        self.said.append(what)

    def dial_back(self, upstream: FederationConnector) -> None:
        upstream.start(self.leaf.broker, self.perform, self.say, self.leaf.now)

    def perform(self, end: Dialled, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Dial):
                self.dials.append((end, effect))
            elif isinstance(effect, Drop):
                for wire in [one for one in self.wires if one.end is end and one.attempt == effect.attempt]:
                    assert wire.one.session is not None
                    wire.one.session.shut("dropped", wire.one.rig.now)

    def run(self) -> None:
        for _ in range(400):
            if not self.step():
                return
        raise AssertionError("the brokers are never at rest")

    def step(self) -> bool:
        moved = False
        for rig in (self.hub, self.leaf):
            rig.broker.tick(rig.now, rig.wall)
            rig.broker.advance()
            rig.turn()
        dials, self.dials = self.dials, []
        for end, dial in dials:
            moved = True
            here, there = (self.hub, self.leaf) if end.broker is self.hub.broker else (self.leaf, self.hub)
            if dial.place.host == "hub":
                there = self.hub
            one, other = End(here), End(there)
            self.number += 1
            wire = Wire(end, dial.attempt, one, other)
            self.wires.append(wire)
            one.session = end.greet(one, dial.attempt, dial.place, here.now)
            acceptor = self.acceptors["hub" if there is self.hub else "leaf"]
            other.session = CoreServerSession(other, acceptor, CoreOptions(), self.number, "peer")
        for wire in list(self.wires):
            for source, target in ((wire.one, wire.other), (wire.other, wire.one)):
                assert source.session is not None
                assert target.session is not None
                data = source.session.outgoing()
                if data and not target.session.closing:
                    target.rig.now += 1_000
                    target.rig.broker.tick(target.rig.now, target.rig.wall)
                    target.session.receive(data, target.rig.now)
                    moved = True
            ends = [end.session for end in (wire.one, wire.other)]
            if any(session is not None and session.closing for session in ends):
                self.part(wire)
                moved = True
        return moved

    def part(self, wire: Wire) -> None:
        if wire in self.wires:
            self.wires.remove(wire)
            for end in (wire.one, wire.other):
                assert end.session is not None
                end.session.detach("cut", end.rig.now)

    def cut(self, *, by: Rig | None = None) -> None:
        """Cut what ``by`` dialled, or everything."""
        for wire in list(self.wires):
            if by is None or wire.end.broker is by.broker:
                self.part(wire)

    def fell(self, rig: Rig) -> None:
        """A broker falls, and is started again from its disk."""
        wires, self.wires, self.dials = self.wires, [], []
        rig.restart("kill")
        for wire in wires:
            for end in (wire.one, wire.other):
                if end.rig is not rig and end.session is not None:
                    end.session.detach("cut", end.rig.now)
        self.dials = [one for one in self.dials if one[0].broker in (self.hub.broker, self.leaf.broker)]
        name = "hub" if rig is self.hub else "leaf"
        self.acceptors[name] = CoreAcceptor(rig.broker)
        if rig is self.leaf:
            self.deployed = []
            self.acceptors["leaf"].federating = Deployments(
                rig.broker, self.deployed, lambda: self.roles, self.dial_back, self.say
            )
        else:
            self.connector = DownstreamConnector(self.entry)
            self.start()

    def pass_ms(self, ms: int) -> None:
        for _ in range(10):
            for rig in (self.hub, self.leaf):
                rig.wait(ms // 10)
            self.run()


def guard(rig: Rig, *groups: str) -> None:
    users = [User("u", "plain:p", groups=groups)]
    rig.broker.access.protect(Directory(users), [Rule("#", -1, {"*": -1})])


def queues() -> Hub:
    found = Hub()
    made(found.hub, "Q")
    made(found.leaf, "Q")
    return found


def test_what_is_deployed_fetches_while_somebody_reads() -> None:
    hub = queues()
    hub.start()
    assert [one.name for one in hub.deployed] == ["F-upstream/D-upstream@hub:1"]
    send(hub.hub, "Q", "a")
    hub.run()
    assert waiting(hub.hub, "Q") == 1, "nobody reads there"
    reader = hub.leaf.reader("Q")
    hub.pass_ms(1_000)
    assert (texts(reader), waiting(hub.hub, "Q")) == (["a"], 0)
    row = hub.connector.report(hub.hub.now)
    assert (row["kind"], row["state"], row["deployed"], row["back"]) == ("downstream", "open", ["P"], "hub:1")
    (up,) = hub.deployed
    assert (up.report(hub.leaf.now)["brought"], up.report(hub.leaf.now)["received"]) == ("hub:1", 1)


def test_an_address_has_its_queue_at_the_broker_that_deployed() -> None:
    hub = Hub(queues=(), addresses=(AddressPolicy(name="A"),))
    hub.leaf.broker.queues.create(QueueDefinition(name="S", address="A", routing=MULTICAST))
    hub.start()
    assert waiting(hub.hub, "federated.F-upstream.D-upstream.A.MULTICAST") == 0
    send(hub.hub, "A", "a", routing=MULTICAST)
    hub.pass_ms(1_000)
    assert waiting(hub.leaf, "S") == 1


def test_it_ends_with_the_connection_that_brought_it_and_comes_back_with_the_next() -> None:
    hub = queues()
    hub.start()
    reader = hub.leaf.reader("Q")
    hub.pass_ms(500)
    (first,) = hub.deployed
    hub.cut(by=hub.hub)
    assert (hub.deployed, first.started) == ([], False)
    send(hub.hub, "Q", "a")
    hub.run()
    assert (waiting(hub.hub, "Q"), texts(reader)) == (1, []), "it fetches no more"
    hub.pass_ms(3_000)
    assert (texts(reader), len(hub.deployed)) == (["a"], 1)
    assert hub.deployed[0] is not first


def test_a_link_back_that_breaks_alone_is_dialled_anew() -> None:
    hub = queues()
    hub.start()
    reader = hub.leaf.reader("Q")
    hub.pass_ms(500)
    before = hub.deployed[0]
    hub.cut(by=hub.leaf)
    send(hub.hub, "Q", "a")
    hub.pass_ms(3_000)
    assert (texts(reader), hub.deployed) == (["a"], [before])


@pytest.mark.parametrize("who", ["hub", "leaf"])
def test_either_broker_falls_and_it_is_deployed_again(who: str) -> None:
    hub = queues()
    hub.start()
    send(hub.hub, "Q", "a")
    hub.leaf.reader("Q", prefetch=1)
    hub.pass_ms(500)
    hub.fell(hub.hub if who == "hub" else hub.leaf)
    hub.pass_ms(4_000)
    assert len(hub.deployed) == 1
    send(hub.hub, "Q", "b")
    reader = hub.leaf.reader("Q")
    hub.pass_ms(4_000)
    came = texts(reader) + [text for one in hub.leaf.readers if one is not reader for text in texts(one)]
    assert sorted(came) == ["a", "b"]
    assert waiting(hub.hub, "Q") == 0


def test_who_has_no_role_may_not_and_tries_again_until_he_has() -> None:
    hub = queues()
    guard(hub.leaf, "others")
    hub.start()
    assert (hub.deployed, hub.connector.downstream is not None) == ([], True)
    assert any("u may not deploy a federation" in one for one in hub.said)
    row = hub.connector.report(hub.hub.now)
    assert (row["state"], "may not deploy" in str(row["error"])) == ("waiting", True)
    hub.roles = ("links", "others")
    hub.pass_ms(3_000)
    assert len(hub.deployed) == 1
    assert len([one for one in hub.said if "the other broker refuses" in one]) == 1, "it is told once"


def test_who_opened_no_session_may_not() -> None:
    hub = Hub(roles=("*",))
    guard(hub.leaf, "links")
    end = End(hub.leaf)
    session = CoreServerSession(end, hub.acceptors["leaf"], CoreOptions(), 1, "peer")
    packet = FederationDownstreamConnect(description=described(hub.entry), channel=4)
    session.receive(PREFACE + Encoder().encode(packet), hub.leaf.now)
    assert (hub.deployed, session.closing) == ([], False)
    assert any("opens a session first" in one for one in hub.said)


def test_a_second_copy_changes_nothing_and_another_connection_takes_its_place() -> None:
    hub = queues()
    hub.start()
    (first,) = hub.deployed
    server = next(wire.other.session for wire in hub.wires if wire.end.broker is hub.hub.broker)
    assert isinstance(server, CoreServerSession)
    federating = hub.acceptors["leaf"].federating
    federating.deploy(server.look(), described(hub.entry))
    assert hub.deployed == [first]
    other = DownstreamConnector(hub.entry)
    other.start(hub.hub.broker, hub.perform, hub.say, hub.hub.now)
    hub.run()
    (second,) = hub.deployed
    assert (second is first, first.started, second.started) == (False, False, True)
    hub.connector.leave(hub.hub.now)
    hub.run()
    assert hub.deployed == [second], "the connection before is gone, and what took its place stays"
    other.leave(hub.hub.now)
    hub.run()
    assert hub.deployed == []


def test_there_are_so_many_at_the_most() -> None:
    hub = Hub()
    for number in range(DEPLOYED_MAX + 1):
        options = UpstreamOptions(name=f"D{number}", retry_interval=SECOND)
        entry = DownstreamEntry(
            federation="F",
            options=options,
            places=(Endpoint("tcp", "leaf", 1),),
            back=Endpoint("tcp", "hub", 1),
            connector="self",
        )
        DownstreamConnector(entry).start(hub.hub.broker, hub.perform, hub.say, hub.hub.now)
    hub.run()
    assert len(hub.deployed) == DEPLOYED_MAX
    assert any("are deployed to this broker already" in one for one in hub.said)


def test_a_broker_that_is_told_to_fetch_from_itself_does_not() -> None:
    hub = Hub()
    hub.entry = DownstreamEntry(
        federation="F",
        options=hub.entry.options,
        places=(Endpoint("tcp", "hub", 1),),
        back=Endpoint("tcp", "hub", 1),
        connector="self",
    )
    hub.connector = DownstreamConnector(hub.entry)
    hub.start()
    assert hub.connector.downstream is not None
    assert hub.connector.downstream.link.state is State.FAILED
    assert LOOP.format("downstream") in hub.said
