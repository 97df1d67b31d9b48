"""AMQP on a whole broker: connections, links, credit, settlement, names, and what a hostile peer does to others."""

from __future__ import annotations

import pytest

from entrepot.base.environment import SECOND
from entrepot.base.scram import kept as kept_keys
from entrepot.base.scram import keys_of
from entrepot.core.guiding import HERE, LATER, REFUSED, THERE, Guidance, Guides, Visitor
from entrepot.core.security.access import Rule
from entrepot.core.security.directory import Directory, User
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.codec import header
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.primitives import Described
from entrepot.protocols.sasl import Proof
from kit import Rig

from .wired import Client, Hub, encoded

SELECTOR = "apache.org:selector-filter:string"


def both() -> tuple[Hub, Client]:
    hub = Hub()
    return hub, Client(hub)


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_connection_opens_and_closes() -> None:
    hub = Hub()
    client = Client(hub, opens=False)
    client.feed(header(0))
    client.say(said.Open(container_id="me", idle_time_out=10_000))
    (answer,) = client.take(said.Open)
    assert answer.idle_time_out == hub.options.idle_ms // 2
    assert "ANONYMOUS-RELAY" in answer.offered_capabilities
    client.say(said.Close())
    hub.turn()
    (closed,) = client.take(said.Close)
    assert closed.error is None
    assert client.session.closing


def test_each_session_of_a_connection_is_counted() -> None:
    hub, client = both()
    client.say(said.Begin(incoming_window=1 << 20, outgoing_window=1 << 20), channel=1)
    Client(hub)
    assert hub.rig.broker.access.counts.sessions == 3


class _Guides(Guides):
    """Sends everybody elsewhere but who is called ``me``; who is called ``slow`` is to ask again."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.asked: list[str] = []

    def ask(self, name: str, visitor: Visitor) -> Guidance:
        self.asked.append(f"{name} {visitor.client_id}")
        if visitor.client_id == "slow" and len(self.asked) == 1:
            later = Guidance(LATER)
            later.again = self.hub.rig.now + SECOND
            return later
        found = Guidance({"me": HERE, "nobody": REFUSED}.get(visitor.client_id, THERE), "it is served at b")
        found.host, found.port = "b.example", 5673
        return found


@pytest.mark.parametrize("name", ["me", "you", "nobody", "slow"])
def test_a_router_says_who_is_served_where(name: str) -> None:
    options = AmqpOptions()
    options.router = "r"
    hub = Hub(options=options)
    guides = hub.rig.broker.guides = _Guides(hub)
    client = Client(hub, opens=False)
    client.feed(header(0))
    client.say(said.Open(container_id=name, hostname="front"))
    if name == "slow":
        assert client.take(said.Open) == []
        hub.rig.wait(1000)
        hub.turn()
    assert guides.asked == [f"r {name}"] * (1 + (name == "slow"))
    assert len(client.take(said.Open)) == 1
    closed = client.take(said.Close)
    if name == "me":
        assert closed == []
        return
    error = closed[0].error
    assert isinstance(error, said.Error)
    if name == "nobody":
        assert error.condition == "amqp:connection:forced"
    else:
        assert error.condition == "amqp:connection:redirect"
        assert error.info == {"network-host": "b.example", "port": 5673, "hostname": "front"}


def test_silence_is_answered_by_empty_frames_and_ends_a_connection() -> None:
    hub = Hub()
    client = Client(hub, idle_time_out=10_000)
    client.frames.clear()
    hub.rig.now += 5 * SECOND
    client.session.advance(hub.rig.now)
    client.read()
    assert [frame.performative for frame in client.frames] == [None]
    hub.rig.now += 60 * SECOND
    client.session.advance(hub.rig.now)
    client.read()
    (closed,) = client.take(said.Close)
    assert isinstance(closed.error, said.Error)
    assert client.session.closing


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [
        ("PLAIN", b"\0ann\0secret", 0),
        ("PLAIN", b"ann\0ann\0secret", 0),
        ("PLAIN", b"\0ann\0wrong", 1),
        ("PLAIN", b"bob\0ann\0secret", 1),
        ("PLAIN", b"secret", 1),
        ("PLAIN", b"\0\xff\0x", 1),
        ("ANONYMOUS", b"", 1),
        ("EXTERNAL", b"", 1),
        ("GSSAPI", b"", 1),
    ],
)
def test_sasl_lets_in_whom_the_directory_knows(mechanism: str, response: bytes, code: int) -> None:
    hub = Hub()
    hub.protect(Directory([User("ann", "plain:secret")]), [])
    client = Client(hub, opens=False)
    client.feed(header(3))
    (offered,) = client.take(said.SaslMechanisms)
    assert offered.sasl_server_mechanisms == ["PLAIN", "ANONYMOUS"]
    client.say(said.SaslInit(mechanism=mechanism, initial_response=response), kind=1)
    (outcome,) = client.take(said.SaslOutcome)
    assert outcome.code == code
    assert client.session.closing == (code != 0)
    if code == 0:
        client.feed(header(0))
        client.say(said.Open(container_id="me"))
        assert client.take(said.Open)
        assert client.session.subject.name == "ann"


def _proving(password: str, *, first: str = "ann", kept: str = "plain:secret") -> tuple[Client, Proof, bytes]:
    """Return a client that has been asked for its proof, and what it was asked."""
    options = AmqpOptions()
    options.mechanisms = ["SCRAM-SHA-256", "PLAIN"]
    hub = Hub(options=options)
    hub.protect(Directory([User("ann", kept)]), [])
    client = Client(hub, opens=False)
    client.feed(header(3))
    (offered,) = client.take(said.SaslMechanisms)
    assert offered.sasl_server_mechanisms == options.mechanisms
    proof = Proof("SHA-256", first, password, b"nonce")
    client.say(said.SaslInit(mechanism="SCRAM-SHA-256", initial_response=proof.first()), kind=1)
    (asked,) = client.take(said.SaslChallenge)
    return client, proof, asked.challenge


@pytest.mark.parametrize("kept", ["plain:secret", kept_keys([keys_of("SHA-256", "secret", b"salt", 50)])])
def test_who_proves_his_password_comes_in(kept: str) -> None:
    client, proof, challenge = _proving("secret", kept=kept)
    client.say(said.SaslResponse(response=proof.answer(challenge)), kind=1)
    (shown,) = client.take(said.SaslChallenge)
    proof.check(shown.challenge)
    assert not client.take(said.SaslOutcome)
    client.say(said.SaslResponse(), kind=1)
    (outcome,) = client.take(said.SaslOutcome)
    assert outcome.code == 0
    client.feed(header(0))
    client.say(said.Open(container_id="me"))
    assert client.take(said.Open)
    assert client.session.subject.name == "ann"


@pytest.mark.parametrize(
    ("name", "password", "kept"),
    [
        ("ann", "wrong", "plain:secret"), ("nobody", "secret", "plain:secret"),
        ("ann", "secret", "pbkdf2:1:00:" + "00" * 16),
        ("ann", "secret", kept_keys([keys_of("SHA-512", "secret", b"s", 5)])),
    ],
)  # fmt: skip
def test_who_does_not_prove_his_password_stays_out(name: str, password: str, kept: str) -> None:
    client, proof, challenge = _proving(password, first=name, kept=kept)
    client.say(said.SaslResponse(response=proof.answer(challenge)), kind=1)
    (outcome,) = client.take(said.SaslOutcome)
    assert outcome.code == 1
    assert client.session.closing
    assert not client.session.subject.name


def test_names_are_not_found_out_by_what_is_asked() -> None:
    hub = Hub()
    directory = Directory([User("ann", "plain:secret"), User("old", "pbkdf2:1:00:" + "00" * 16)])
    hub.protect(directory, [])
    draw = hub.rig.broker.entropy.token
    for name in ("ann", "old", "nobody"):
        keys, again = (directory.keys(name, "SHA-256", draw)[0] for _ in range(2))
        assert (keys.salt, keys.rounds, len(keys.salt)) == (again.salt, 4096, 32)


def test_a_proof_is_not_offered_where_nobody_has_a_password() -> None:
    options = AmqpOptions()
    options.mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
    client = Client(Hub(options=options), opens=False)
    client.feed(header(3))
    (offered,) = client.take(said.SaslMechanisms)
    assert offered.sasl_server_mechanisms == ["PLAIN"]


def test_a_proof_that_nobody_asked_for_ends_the_connection() -> None:
    hub = Hub()
    hub.protect(Directory([User("ann", "plain:secret")]), [])
    client = Client(hub, opens=False)
    client.feed(header(3))
    client.say(said.SaslResponse(response=b"c=biws,r=x,p=AAAA"), kind=1)
    assert client.session.closing


def test_without_sasl_nobody_comes_in_where_it_is_asked_for() -> None:
    options = AmqpOptions()
    options.plain_start = False
    client = Client(Hub(options=options), opens=False)
    client.feed(header(0))
    assert [frame.channel for frame in client.frames if frame.kind < 0] == [3]
    assert client.session.closing


def test_a_container_id_that_is_to_be_alone_is_refused_the_second_time() -> None:
    hub = Hub()
    Client(hub, container="one", desired_capabilities=["sole-connection-for-container"])
    second = Client(hub, opens=False)
    second.feed(header(0))
    second.say(said.Open(container_id="one", desired_capabilities=["sole-connection-for-container"]))
    (opened,) = second.take(said.Open)
    assert (opened.properties or {})["amqp:connection-establishment-failed"] is True
    (closed,) = second.take(said.Close)
    assert isinstance(closed.error, said.Error)
    assert (closed.error.condition, closed.error.info) == ("amqp:invalid-field", {"invalid-field": "container-id"})


@pytest.mark.parametrize(
    "wrong",
    [
        said.Open(container_id="again"),
        said.Begin(incoming_window=1, outgoing_window=1),
        said.SaslInit(mechanism="PLAIN"),
    ],
)
def test_what_may_not_come_now_closes_this_connection_and_no_other(wrong: said.Composite) -> None:
    hub = Hub()
    good, bad = Client(hub), Client(hub)
    bad.say(wrong)
    (closed,) = bad.take(said.Close)
    assert isinstance(closed.error, said.Error)
    assert bad.session.closing
    good.sender("orders")
    good.send(encoded("x"))
    assert good.outcomes() == [(0, 0, "Accepted", True)]


@pytest.mark.parametrize("channel", [1024, 65535])
def test_a_channel_above_what_was_agreed_is_refused(channel: int) -> None:
    client = Client(Hub())
    client.say(said.Begin(incoming_window=1, outgoing_window=1), channel=channel)
    assert client.take(said.Close)


# -- sending and receiving ---------------------------------------------------------------------------------------------


def test_a_message_comes_as_it_went_and_is_answered_when_it_is_stored() -> None:
    hub, client = both()
    client.sender("orders")
    octets = encoded("hello", durable=True, application={"n": 1}, annotations={"x-a": "b"})
    client.send(octets)
    assert client.outcomes() == [(0, 0, "Accepted", True)]
    client.receiver("orders")
    (message,) = client.messages()
    assert message.octets == octets
    client.settle(message.id)
    hub.turn()
    assert hub.rig.queue("orders").count == 0


def test_answers_are_gathered_to_ranges() -> None:
    _, client = both()
    client.sender("orders")
    flows = len(client.take(said.Flow))
    assert flows == 1
    for number in range(5):
        client.send(encoded(f"m{number}", durable=True))
    assert client.outcomes() in ([(0, 4, "Accepted", True)], [(n, n, "Accepted", True) for n in range(5)])


def test_credit_bounds_what_is_sent_and_drain_takes_it_back() -> None:
    hub, client = both()
    hub.fill("orders", *range(5))
    client.receiver("orders", credit=2)
    hub.turn()
    assert len(client.messages()) == 2
    client.credit(10, count=2, drain=True)
    hub.turn()
    assert len(client.messages()) == 3
    (flow,) = client.take(said.Flow)
    assert (flow.drain, flow.link_credit, flow.delivery_count) == (True, 0, 12)
    hub.fill("orders", "late")
    hub.turn()
    assert client.messages() == []


def test_an_echo_is_answered() -> None:
    _, client = both()
    client.receiver("orders", credit=0)
    client.credit(7, echo=True)
    (flow,) = client.take(said.Flow)
    assert (flow.handle, flow.link_credit) == (1, 7)


@pytest.mark.parametrize(
    ("state", "left", "deliveries"),
    [
        (said.Accepted(), 0, 0),
        (said.Rejected(error=said.Error(condition="a:b", description="no")), 0, 0),
        (said.Released(), 1, 0),
        (said.Modified(delivery_failed=True), 1, 1),
        (said.Modified(delivery_failed=False), 1, 0),
        (said.Modified(undeliverable_here=True), 0, 0),
    ],
)
def test_each_outcome_has_its_effect(state: said.Composite, left: int, deliveries: int) -> None:
    hub, client = both()
    client.sender("orders")
    client.send(encoded("x", durable=True))
    hub.turn()
    client.receiver("orders", credit=1)
    hub.turn()
    (message,) = client.messages()
    assert message.header.delivery_count == 0
    client.settle(message.id, state)
    hub.turn()
    assert hub.rig.queue("orders").count == left
    dead = isinstance(state, said.Rejected) or getattr(state, "undeliverable_here", False)
    assert any("DLQ" in name or "dead" in name.lower() for name in hub.rig.broker.table.queues) == dead
    if left:
        client.credit(1, count=1)
        hub.turn()
        (again,) = client.messages()
        assert again.header.delivery_count == deliveries
        assert again.body == "x"


def test_a_range_of_dispositions_settles_what_is_there_and_no_more() -> None:
    hub, client = both()
    hub.fill("orders", *range(10))
    client.receiver("orders")
    hub.turn()
    assert len(client.messages()) == 10
    client.settle(3, last=(1 << 32) - 1)
    hub.turn()
    assert hub.rig.queue("orders").count == 3
    client.settle((1 << 32) - 5, last=1)
    hub.turn()
    assert hub.rig.queue("orders").count == 1


def test_exactly_once_is_settled_by_us_when_it_is_stored() -> None:
    hub, client = both()
    hub.fill("orders", "x")
    client.receiver("orders", rcv_settle_mode=1)
    hub.turn()
    (message,) = client.messages()
    client.settle(message.id, settled=False)
    assert client.outcomes() == [(message.id, message.id, "Accepted", True)]
    assert hub.rig.queue("orders").count == 0


def test_a_sender_that_settles_last_is_heard_last() -> None:
    _, client = both()
    client.sender("orders", rcv_settle_mode=1)
    client.send(encoded("x", durable=True))
    assert client.outcomes() == [(0, 0, "Accepted", False)]
    client.say(said.Disposition(role=False, first=0, settled=True))
    assert client.outcomes() == []


def test_at_most_once_asks_for_nothing() -> None:
    hub, client = both()
    client.sender("orders")
    client.send(encoded("x"), settled=True)
    client.receiver("orders", snd_settle_mode=1)
    hub.turn()
    (message,) = client.messages()
    assert message.settled
    assert client.outcomes() == []
    assert hub.rig.queue("orders").count == 0


def test_parts_are_put_together_and_an_aborted_delivery_is_none() -> None:
    hub, client = both()
    client.sender("orders")
    octets = encoded("x" * 1000)
    client.send_parts([octets[:10], octets[10:500], octets[500:]])
    client.say(said.Transfer(handle=0, delivery_id=1, delivery_tag=b"1", more=True), octets[:20])
    client.say(said.Transfer(handle=0, aborted=True))
    client.next_delivery = 2
    client.send(encoded("y"))
    assert len(client.outcomes()) >= 1
    client.receiver("orders")
    hub.turn()
    assert client.bodies() == ["x" * 1000, "y"]


def test_a_message_is_cut_into_frames_as_the_peer_takes_them() -> None:
    hub = Hub()
    client = Client(hub, max_frame_size=512)
    client.sender("orders")
    client.send(encoded("x" * 5000))
    client.say(said.Attach(name="r", handle=1, role=True, source=said.Source(address="orders"), target=said.Target()))
    client.take(said.Attach)
    base = int(client.session.channels[0].next_outgoing)
    flow = said.Flow(next_incoming_id=base, incoming_window=3, next_outgoing_id=1, outgoing_window=9, handle=1)
    flow.delivery_count, flow.link_credit = 0, 5
    client.say(flow)
    hub.turn()
    came = [frame for frame in client.frames if isinstance(frame.performative, said.Transfer)]
    assert len(came) == 3
    assert all(len(frame.payload) <= 512 for frame in came)
    client.credit(5)
    hub.turn()
    assert client.bodies() == ["x" * 5000]


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "capability", "topic"),
    [
        ("a", "", False),
        ("a", "topic", True),
        ("a", "queue", False),
        ("queue://a", "", False),
        ("topic://a", "", True),
        ("q/a", "", False),
        ("t/a", "", True),
    ],
)
def test_an_address_is_a_queue_or_a_topic(address: str, capability: str, topic: bool) -> None:
    options = AmqpOptions()
    options.anycast_prefixes, options.multicast_prefixes = ["q/"], ["t/"]
    hub = Hub(options=options)
    client = Client(hub)
    capabilities = [capability] if capability else []
    client.receiver(address, 1, capabilities=capabilities)
    client.receiver(address, 2, capabilities=capabilities)
    client.sender(address, capabilities=capabilities)
    client.send(encoded("x"))
    hub.turn()
    assert client.bodies() == (["x", "x"] if topic else ["x"])


def test_the_anonymous_relay_sends_where_each_message_says() -> None:
    hub, client = both()
    client.sender(None)
    client.send(encoded("x", properties=said.Properties(to="orders")))
    client.send(encoded("y"))
    assert [state for _, _, state, _ in client.outcomes()] == ["Accepted", "Rejected"]
    client.receiver("orders")
    hub.turn()
    assert client.bodies() == ["x"]


def test_a_dynamic_node_is_its_connections_own_and_goes_with_its_link() -> None:
    hub, client = both()
    source = client.receiver(None, dynamic=True).source
    assert isinstance(source, said.Source)
    name = source.address
    assert isinstance(name, str)
    client.sender(name)
    client.send(encoded("answer"))
    hub.turn()
    assert client.bodies() == ["answer"]
    client.say(said.Detach(handle=1, closed=True))
    hub.turn()
    assert name not in hub.rig.broker.table.queues


def test_a_selector_and_no_local_are_obeyed_and_unknown_filters_not_kept() -> None:
    hub, client = both()
    filters = {"s": Described(SELECTOR, "n > 1"), "u": Described("some:other", "x")}
    source = client.receiver("orders", filter=filters).source
    assert isinstance(source, said.Source)
    assert source.filter == {"s": Described(SELECTOR, "n > 1")}
    client.receiver("news", 2, capabilities=["topic"], filter={"l": Described("apache.org:no-local-filter:list", [])})
    client.sender(None)
    for number in range(4):
        client.send(encoded(number, application={"n": number}, properties=said.Properties(to="orders")))
    client.send(encoded("own", properties=said.Properties(to="topic://news")))
    hub.turn()
    assert client.bodies() == [2, 3]


def test_a_selector_that_is_none_refuses_the_link_and_not_the_session() -> None:
    _, client = both()
    answer = client.receiver("orders", credit=0, filter={"s": Described(SELECTOR, "n >")})
    assert answer.source is None
    (detached,) = client.take(said.Detach)
    assert isinstance(detached.error, said.Error)
    assert (detached.closed, detached.error.condition) == (True, "amqp:invalid-field")
    client.say(said.Detach(handle=1, closed=True))
    assert client.receiver("orders").source is not None


def test_a_browser_takes_nothing() -> None:
    hub, client = both()
    hub.fill("orders", *range(3))
    client.receiver("orders", distribution_mode="copy", credit=0)
    client.credit(100, drain=True)
    hub.turn()
    assert len(client.messages()) == 3
    assert client.take(said.Flow)[-1].drain
    assert hub.rig.queue("orders").count == 3


def test_a_durable_subscription_outlives_its_link_until_it_is_closed() -> None:
    hub = Hub()
    client = Client(hub, container="me")
    sends = Client(hub)
    fields = {"durable": 2, "expiry_policy": "never", "capabilities": ["topic"]}
    client.receiver("news", name="sub", **fields)
    client.say(said.Detach(handle=1, closed=False))
    hub.turn()
    assert client.take(said.Detach)[-1].closed is False
    sends.sender("news", capabilities=["topic"])
    sends.send(encoded("while away", durable=True))
    hub.turn()
    client.receiver("news", name="sub", **fields)
    hub.turn()
    (message,) = client.messages()
    assert message.body == "while away"
    client.settle(message.id)
    client.say(said.Detach(handle=1, closed=False))
    hub.turn()
    looked = client.say(said.Attach(name="sub", handle=3, role=True, target=said.Target()))
    assert looked is None
    found = client.take(said.Attach)[-1].source
    assert isinstance(found, said.Source)
    assert found.address == "news"
    client.say(said.Detach(handle=3, closed=True))
    hub.turn()
    assert hub.rig.broker.reading.durable("me", "sub") is None
    client.say(said.Attach(name="sub", handle=4, role=True, target=said.Target()))
    (detached,) = [one for one in client.take(said.Detach) if one.error is not None]
    assert isinstance(detached.error, said.Error)
    assert detached.error.condition == "amqp:not-found"


def subscribing(client: Client, handle: int = 1) -> None:
    """Attach to a durable subscription and give credit, as Proton does, without waiting for an answer."""
    source = said.Source(address="news", durable=2, expiry_policy="never", capabilities=["topic"])
    client.say(said.Attach(name="sub", handle=handle, role=True, source=source, target=said.Target()))
    client.credit(10, handle, echo=True)
    client.credit(5, handle)


def kinds(client: Client) -> list[str]:
    """Return what came, in order."""
    return [type(one.performative).__name__ for one in client.frames if one.performative is not None]


def test_a_durable_subscription_is_answered_and_delivers_when_it_is_on_disk() -> None:
    hub = Hub()
    client, sends = Client(hub, container="me"), Client(hub)
    subscribing(client)
    sends.sender("news", capabilities=["topic"])
    for number in range(7):
        sends.send(encoded(f"n{number}", durable=True))
    assert kinds(client) == []
    hub.turn()
    assert kinds(client)[0] == "Attach"
    assert sorted(kinds(client)[1:]) == ["Flow", *["Transfer"] * 5]  # the first credit was replaced by the second
    hub.rig.restart("crash")
    assert hub.rig.broker.reading.durable("me", "sub") is not None


def test_who_detaches_before_the_answer_is_answered_both() -> None:
    hub = Hub()
    client = Client(hub, container="me")
    subscribing(client)
    client.say(said.Detach(handle=1, closed=False))
    hub.turn()
    assert kinds(client) == ["Attach", "Detach"]
    assert client.take(said.Attach)[0].source is not None


def test_a_link_that_ends_before_its_answer_is_attached_to_nothing() -> None:
    hub = Hub()
    client = Client(hub, container="me")
    subscribing(client)
    queue = hub.rig.broker.reading.durable("me", "sub")
    assert queue is not None
    hub.rig.broker.queues.delete(queue, "an operator")
    hub.turn()
    assert kinds(client) == ["Attach", "Detach"]
    assert client.take(said.Attach)[0].source is None
    assert client.take(said.Detach)[0].error is not None


@pytest.mark.parametrize("detaches", [False, True])
def test_a_durable_subscription_that_the_disk_does_not_take_is_refused(detaches: bool) -> None:
    hub = Hub()
    client = Client(hub, container="me")
    assert hub.rig.disk is not None
    hub.rig.disk.fail_writes = True
    subscribing(client)
    if detaches:
        client.say(said.Detach(handle=1, closed=False))
    hub.turn()
    assert kinds(client) == ["Attach", "Detach"]
    assert client.take(said.Attach)[0].source is None
    assert (client.take(said.Detach)[0].error is None) == detaches


@pytest.mark.parametrize("durable", [0, 2])
def test_a_shared_subscription_gives_each_message_to_one_of_its_readers(durable: int) -> None:
    hub = Hub()
    first, second, sends = Client(hub, container="me"), Client(hub, container="you"), Client(hub)
    for client in (first, second):
        client.receiver("news", name="sub|global", capabilities=["topic", "shared", "global"], durable=durable)
    sends.sender("news", capabilities=["topic"])
    for number in range(4):
        sends.send(encoded(number))
    hub.turn()
    one, other = first.bodies(), second.bodies()
    assert sorted([*one, *other], key=str) == [0, 1, 2, 3]
    assert one
    assert other


# -- transactions ------------------------------------------------------------------------------------------------------


class Transacted(Client):
    """A client with a link to the coordinator."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self.sender(None, 9, target=said.Coordinator())

    def declare(self) -> bytes:
        self.send(encoded(Described(0x31, [])), 9)
        (answer,) = [one.state for one in self.take(said.Disposition) if isinstance(one.state, said.Declared)]
        return answer.txn_id

    def discharge(self, name: bytes, *, fail: bool) -> str:
        self.send(encoded(Described(0x32, [name, fail])), 9)
        self.hub.turn()
        return type(self.take(said.Disposition)[-1].state).__name__


def test_a_transaction_does_all_at_its_commit_and_nothing_before() -> None:
    hub = Hub()
    client = Transacted(hub)
    hub.fill("asked", "q")
    client.sender("orders")
    client.receiver("asked")
    hub.turn()
    (question,) = client.messages()
    name = client.declare()
    state = said.TransactionalState(txn_id=name)
    client.send(encoded("in it", durable=True), state=state)
    client.settle(question.id, said.TransactionalState(txn_id=name, outcome=said.Accepted()))
    hub.turn()
    (answer,) = client.take(said.Disposition)
    assert isinstance(answer.state, said.TransactionalState)
    assert hub.rig.queue("asked").count == 1
    assert client.discharge(name, fail=False) == "Accepted"
    assert hub.rig.queue("asked").count == 0
    assert hub.rig.queue("orders").count == 1


def test_a_rollback_gives_back_what_was_settled_in_it_and_counts() -> None:
    hub = Hub()
    client = Transacted(hub)
    hub.fill("asked", "q")
    client.sender("orders")
    client.receiver("asked")
    hub.turn()
    (question,) = client.messages()
    name = client.declare()
    client.send(encoded("in it"), state=said.TransactionalState(txn_id=name))
    client.settle(question.id, said.TransactionalState(txn_id=name, outcome=said.Accepted()))
    assert client.discharge(name, fail=True) == "Accepted"
    (again,) = client.messages()
    assert again.header.delivery_count == 1
    assert "orders" not in hub.rig.broker.table.queues or hub.rig.queue("orders").count == 0


def test_an_unknown_transaction_ends_nothing_but_what_names_it() -> None:
    hub = Hub()
    client = Transacted(hub)
    client.sender("orders")
    client.send(encoded("x"), state=said.TransactionalState(txn_id=b"no"))
    hub.turn()
    (answer,) = client.take(said.Disposition)
    assert isinstance(answer.state, said.Rejected)
    assert isinstance(answer.state.error, said.Error)
    assert answer.state.error.condition == "amqp:transaction:unknown-id"
    assert client.discharge(b"no", fail=False) == "Rejected"


def test_what_a_transaction_holds_goes_back_when_its_connection_is_lost() -> None:
    hub = Hub()
    client = Transacted(hub)
    hub.fill("asked", "q")
    client.receiver("asked")
    hub.turn()
    (question,) = client.messages()
    name = client.declare()
    client.settle(question.id, said.TransactionalState(txn_id=name, outcome=said.Accepted()))
    client.session.detach("cut", hub.rig.now)
    hub.clients.remove(client)
    hub.turn()
    assert hub.rig.reader("asked").bodies == ["q"]


# -- rights, limits, hostility -----------------------------------------------------------------------------------------


def test_who_may_not_is_told_so_by_his_link() -> None:
    hub = Hub()
    hub.protect(Directory([User("ann", "plain:secret")]), [Rule("open.>", 0, {"all": 255})])
    client = Client(hub, opens=False)
    client.feed(header(3))
    client.say(said.SaslInit(mechanism="PLAIN", initial_response=b"\0ann\0secret"), kind=1)
    client.feed(header(0))
    client.say(said.Open(container_id="me"))
    client.say(said.Begin(incoming_window=100, outgoing_window=100))
    client.take(said.Begin)
    for attach in (lambda: client.sender("closed.q"), lambda: client.receiver("closed.q", credit=0)):
        attach()
        (detached,) = client.take(said.Detach)
        assert isinstance(detached.error, said.Error)
        assert detached.error.condition == "amqp:unauthorized-access"


def test_a_sender_without_credit_loses_its_link() -> None:
    options = AmqpOptions()
    options.credit, options.credit_low = 3, 0
    hub = Hub(options=options)
    client = Client(hub)
    client.sender("orders")
    link = client.session.channels[0].links[0]
    link.withheld = True  # type: ignore[attr-defined]
    for number in range(4):
        client.send(encoded(number))
    (detached,) = client.take(said.Detach)
    assert isinstance(detached.error, said.Error)
    assert detached.error.condition == "amqp:link:transfer-limit-exceeded"


@pytest.mark.parametrize(
    "octets", [b"", b"\x00", b"\x00\x53\x99\x45", b"\x00\x53\x77", b"\x00\x53\x77\x40\x00\x53\x70\x45", b"junk"]
)
def test_octets_that_are_no_message_are_rejected(octets: bytes) -> None:
    _, client = both()
    client.sender("orders")
    client.send(octets)
    ((_, _, state, settled),) = client.outcomes()
    assert settled
    assert state == ("Accepted" if octets == b"" else "Rejected")


@pytest.mark.parametrize(
    "wrong",
    [
        said.Transfer(handle=7, delivery_id=0, delivery_tag=b""),
        said.Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1, handle=7),
        said.Detach(handle=7),
        said.Attach(name="again", handle=0, role=False, target=said.Target(address="x")),
        said.Attach(name="high", handle=1 << 20, role=False, target=said.Target(address="x")),
    ],
)
def test_what_is_wrong_in_a_session_ends_that_alone(wrong: said.Composite) -> None:
    _, client = both()
    client.say(said.Begin(incoming_window=10, outgoing_window=10), channel=1)
    client.sender("orders")
    client.say(wrong)
    ended = client.take(said.End)
    detached = client.take(said.Detach)
    assert len(ended) == 1 or detached
    assert not client.session.closing
    assert 1 in client.session.channels


def test_resuming_is_refused_by_name() -> None:
    _, client = both()
    client.sender("orders", unsettled={"a": 1})
    (detached,) = client.take(said.Detach)
    assert isinstance(detached.error, said.Error)
    assert detached.error.condition == "amqp:not-implemented"


def test_a_full_broker_gives_no_more_credit_until_there_is_room() -> None:
    options = AmqpOptions()
    options.credit, options.credit_low = 4, 3
    hub = Hub(Rig({"orders": {"full": "BLOCK", "max_messages": "5"}}), options)
    client, reader = Client(hub), Client(hub)
    client.sender("orders")
    for number in range(7):
        client.send(encoded(number, durable=True))
    hub.turn()
    granted = client.take(said.Flow)
    assert granted[-1].delivery_count + granted[-1].link_credit <= 10
    client.take(said.Disposition)
    reader.receiver("orders")
    hub.turn()
    for message in reader.messages():
        reader.settle(message.id)
    hub.turn()
    assert client.take(said.Flow)[-1].link_credit == 4


def test_a_blocked_address_gives_no_more_credit_until_it_is_unblocked() -> None:
    options = AmqpOptions()
    options.credit, options.credit_low = 4, 3
    hub = Hub(options=options)
    client = Client(hub)
    client.sender("orders")
    hub.turn()
    client.take(said.Flow)
    hub.rig.broker.flow.block("orders")
    for number in range(4):
        client.send(encoded(number, durable=True))
    hub.turn()
    assert client.take(said.Flow) == []
    hub.rig.broker.flow.unblock("orders")
    hub.turn()
    assert client.take(said.Flow)[-1].link_credit == 4
    assert hub.rig.queue("orders").count == 4


def test_a_transaction_for_a_blocked_address_gets_no_more_credit_either() -> None:
    options = AmqpOptions()
    options.credit, options.credit_low = 4, 3
    hub = Hub(options=options)
    client = Transacted(hub)
    client.sender("orders")
    hub.turn()
    client.take(said.Flow)
    hub.rig.broker.flow.block("orders")
    name = client.declare()
    for _ in range(4):
        client.send(encoded("x", durable=True), 0, state=said.TransactionalState(txn_id=name))
    hub.turn()
    assert [one for one in client.take(said.Flow) if one.handle == 0] == []
    hub.rig.broker.flow.unblock("orders")
    hub.turn()
    assert [one.link_credit for one in client.take(said.Flow) if one.handle == 0][-1] == 4


def test_what_is_held_of_incomplete_messages_is_counted() -> None:
    _, client = both()
    client.sender("orders")
    client.say(said.Transfer(handle=0, delivery_id=0, delivery_tag=b"0", more=True), b"x" * 50_000)
    assert client.session.work(b"") >= 50_000


def test_everything_is_given_back_when_the_connection_is_gone() -> None:
    hub, client = both()
    hub.fill("orders", *range(3))
    client.receiver("orders", credit=2)
    hub.turn()
    assert len(client.messages()) == 2
    client.session.detach("cut", hub.rig.now)
    hub.clients.remove(client)
    hub.turn()
    assert hub.rig.reader("orders").bodies == ["0", "1", "2"]


def test_what_was_on_its_way_to_a_link_that_is_gone_harms_no_other_link() -> None:
    """Delivery-ids are the session's: those of a link that our side ended count, and the next one is in order."""
    options = AmqpOptions()
    options.credit, options.credit_low = 3, 0
    client = Client(Hub(options=options))
    client.sender("held", 0)
    client.sender("other", 1)
    client.session.channels[0].links[0].withheld = True  # type: ignore[attr-defined]
    for number in range(6):  # the fourth is one too many; two more were on their way when the link ended
        client.send(encoded(number), 0)
    assert len(client.take(said.Detach)) == 1
    client.outcomes()
    client.send(encoded("y"), 1)
    assert client.outcomes() == [(6, 6, "Accepted", True)]
    assert client.take(said.Detach) == []
