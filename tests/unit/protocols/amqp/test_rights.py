"""Every performative of AMQP, to every kind of address, without the right: refused, and nothing has happened.

A performative that is new to the protocol fails `test_every_performative_is_here` until there is a row for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.codec import header
from entrepot.protocols.amqp.performatives import Composite
from entrepot.protocols.amqp.primitives import Described

from ..guarded import KINDS, PASSWORD, REPLYING, STRANGERS, Scene, written
from .wired import Client, Hub, encoded

UNAUTHORIZED = "amqp:unauthorized-access"
PREFIXES = {
    "/queue/": "queue://",
    "/topic/": "topic://",
    "/remote-temp-queue/": "temp-queue://",
    "/remote-temp-topic/": "temp-topic://",
}
SPOKEN = tuple(kind for kind in KINDS if "composite" not in kind)  # an address of AMQP is one
ANSWERED = tuple(kind for kind in SPOKEN if kind in REPLYING or kind.endswith("plain name"))  # a reply-to has no prefix
SENDING = tuple(kind for kind in SPOKEN if kind not in ANSWERED)
WILDCARDS = tuple(kind for kind in SPOKEN if "wildcard" in kind)
NO_QUEUES = tuple(kind for kind in SPOKEN if "topic" in kind and "queue" not in kind)
SERVED = ("management", "management as a topic", "scheduler", "scheduler as a queue", "statistics", "statistics of all")
UNREAD = ("advisory", "queue of a durable subscription", "new topic", "virtual topic")


class World(Scene):
    """The scene, with AMQP in it: a durable subscription of boss's, and a delivery that he has not settled."""

    def __init__(self) -> None:
        super().__init__()
        self.amqp_hub = Hub(self.rig)
        kept = self.amqp("boss", "keeper")
        kept.receiver("topic://secret", name="kept", durable=2, expiry_policy="never")
        self.leave(kept)
        self.amqp_boss = self.amqp("boss", "reader")
        self.amqp_boss.receiver("queue://secret", credit=1)
        self.settle()

    def amqp(self, user: str, container: str = "", password: str = PASSWORD) -> Client:
        client = Client(self.amqp_hub, opens=False)
        client.feed(header(3))
        client.say(said.SaslInit(mechanism="PLAIN", initial_response=f"\0{user}\0{password}".encode()), kind=1)
        client.feed(header(0))
        client.say(said.Open(container_id=container or client.container))
        client.say(said.Begin(incoming_window=1 << 20, outgoing_window=1 << 20))
        return client

    def leave(self, client: Client) -> None:
        client.session.detach("lost", self.rig.now)
        self.amqp_hub.clients.remove(client)
        self.settle()

    def settle(self) -> None:
        super().settle()
        if hasattr(self, "amqp_hub"):
            self.amqp_hub.turn()

    def picture(self) -> dict[str, object]:
        boss = self.amqp_boss.session
        return {**super().picture(), "amqp": (boss.closing, boss.readers())}


def address(scene: Scene, kind: str) -> str:
    text = written(scene, kind)
    for prefix, other in PREFIXES.items():
        if text.startswith(prefix):
            return other + text.removeprefix(prefix)
    return text


Act = Callable[[World, Client, str], None]


class Row:
    """One way of using a performative; ``useless``: kinds where it is of no use to boss. ``container``: who one is."""

    def __init__(self, act: Act, kinds: tuple[str, ...] = ("",), useless: tuple[str, ...] = (), container: str = ""):
        self.act = act
        self.kinds = kinds
        self.useless = useless
        self.container = container


def attaching_to_send(scene: World, client: Client, text: str) -> None:
    client.sender(text)
    if 0 in client.session.channels[0].links and not client.take(said.Detach):
        client.send(encoded("x", durable=True, properties=said.Properties(reply_to="queue://open")))


def through_the_relay(scene: World, client: Client, text: str) -> None:
    client.sender(None)
    client.send(encoded("x", durable=True, properties=said.Properties(to=text, reply_to="queue://open")))


def in_a_transaction(scene: World, client: Client, text: str) -> None:
    client.sender(None)
    client.sender(None, 9, target=said.Coordinator())
    client.send(encoded(Described(0x31, [])), 9)
    (answer,) = [one.state for one in client.take(said.Disposition) if isinstance(one.state, said.Declared)]
    state = said.TransactionalState(txn_id=answer.txn_id)
    client.send(encoded("good", durable=True, properties=said.Properties(to="queue://open")), state=state)
    client.send(encoded("bad", durable=True, properties=said.Properties(to=text)), state=state)
    client.send(encoded(Described(0x32, [answer.txn_id, False])), 9)


def reading(**fields: object) -> Act:
    def act(scene: World, client: Client, text: str) -> None:
        client.receiver(text, **fields)  # type: ignore[arg-type]

    return act


def with_capability(word: str) -> Act:
    def act(scene: World, client: Client, text: str) -> None:
        client.receiver("secret", capabilities=[word])

    return act


def closing_a_subscription(scene: World, client: Client, text: str) -> None:
    asked = said.Attach(name="kept", handle=3, role=True, source=None, target=said.Target())
    client.say(asked)
    client.say(said.Detach(handle=3, closed=True))


def taking_a_subscription(scene: World, client: Client, text: str) -> None:
    client.receiver("topic://secret", 3, name="kept", durable=2, expiry_policy="never")


def moving_a_subscription(scene: World, client: Client, text: str) -> None:
    client.receiver("topic://open", 3, name="kept", durable=2, expiry_policy="never")


def settling(state: Composite) -> Act:
    return lambda scene, client, text: client.settle(0, state, last=5)


def flowing(scene: World, client: Client, text: str) -> None:
    client.say(said.Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1, handle=1, link_credit=100))


def transferring(scene: World, client: Client, text: str) -> None:
    client.send(encoded("x"), 5)


def detaching(scene: World, client: Client, text: str) -> None:
    client.say(said.Detach(handle=1, closed=True))


def discharging(scene: World, client: Client, text: str) -> None:
    client.sender(None, 9, target=said.Coordinator())
    for name in (b"\0", b"\0\0\0\1", b"1"):
        client.send(encoded(Described(0x32, [name, False])), 9)


ROWS: dict[str, Row] = {
    "Attach to send": Row(attaching_to_send, SENDING, (*WILDCARDS, *SERVED, *UNREAD)),
    "Transfer through the relay": Row(through_the_relay, SENDING, (*WILDCARDS, *SERVED, *UNREAD)),
    "Transfer in a transaction": Row(in_a_transaction, SENDING, (*WILDCARDS, *SERVED, *UNREAD)),
    "Attach to read": Row(reading(), SPOKEN, ANSWERED),
    "Attach to browse": Row(reading(distribution_mode="copy"), SPOKEN, (*NO_QUEUES, *WILDCARDS, *ANSWERED, *SERVED)),
    "Attach durably": Row(
        reading(durable=2, expiry_policy="never", name="mine"), SPOKEN, (*ANSWERED, *WILDCARDS), "durable"
    ),
    "Attach to read a queue by capability": Row(with_capability("queue")),
    "Attach to read a topic by capability": Row(with_capability("topic")),
    "Attach to another's durable subscription": Row(taking_a_subscription, container="keeper"),
    "Attach to move another's durable subscription": Row(moving_a_subscription, container="keeper"),
    "Detach for ever from another's durable subscription": Row(closing_a_subscription, container="keeper"),
}
ALIEN: dict[str, Act] = {
    "Disposition": settling(said.Accepted()),
    "Disposition, released": settling(said.Released()),
    "Flow": flowing,
    "Transfer": transferring,
    "Detach": detaching,
    "Discharge": discharging,
}
"""What is said of a session's own: without effect on anybody else, whatever it names."""

HARMLESS = {"Open", "Begin", "End", "Close", "Declare", "SaslInit", "SaslResponse"}
OF_THE_SERVER = {"SaslMechanisms", "SaslChallenge", "SaslOutcome", "Declared"}


def test_every_performative_is_here() -> None:
    words = {name.partition(" ")[0].rstrip(",") for name in (*ROWS, *ALIEN)} | HARMLESS | OF_THE_SERVER
    spoken = {
        name
        for name, kind in inspect.getmembers(said, inspect.isclass)
        if issubclass(kind, Composite)
        and kind not in (Composite, said.Unknown)
        and (
            kind().descriptor() in range(0x10, 0x19) or kind().descriptor() in (*range(0x31, 0x34), *range(0x40, 0x50))
        )
    }
    assert len(spoken) > 12
    assert not spoken - words, f"no row of this test is about {spoken - words}"


def refusals(client: Client) -> list[str]:
    """Return the conditions that came: of links, sessions, and single messages."""
    found = [one.error for kind in (said.Detach, said.End, said.Close) for one in client.take(kind)]
    states = [one.state for one in client.take(said.Disposition)]
    states = [one.outcome if isinstance(one, said.TransactionalState) else one for one in states]
    found += [one.error for one in states if isinstance(one, said.Rejected)]
    return [one.condition for one in found if isinstance(one, said.Error)]


@pytest.mark.parametrize("verb", ROWS)
def test_without_the_right_nothing_happens(verb: str) -> None:
    row = ROWS[verb]
    scene = World()
    before = scene.picture()
    for user in STRANGERS:
        for kind in row.kinds:
            client = scene.amqp(user, row.container and (row.container if row.kinds == ("",) else f"{user}{kind}"))
            row.act(scene, client, address(scene, kind) if kind else "")
            scene.settle()
            told = refusals(client)
            context = f"{user}: {verb} {kind}: {told}"
            assert client.messages() == [], context
            assert UNAUTHORIZED in told, context
            assert not client.session.closing, context
            scene.leave(client)
            assert scene.picture() == before, context


@pytest.mark.parametrize("verb", ALIEN)
def test_what_is_another_sessions_stays(verb: str) -> None:
    scene = World()
    before = scene.picture()
    for user in (*STRANGERS, "boss"):
        client = scene.amqp(user)
        ALIEN[verb](scene, client, "")
        scene.settle()
        assert client.messages() == []
        scene.leave(client)
        assert scene.picture() == before, f"{user}: {verb}"


@pytest.mark.parametrize(
    ("verb", "kind"), [(verb, kind) for verb, row in ROWS.items() for kind in row.kinds if kind not in row.useless]
)
def test_with_the_right_it_happens(verb: str, kind: str) -> None:
    """Else a refusal proves nothing: what was said might be wrong."""
    row = ROWS[verb]
    scene = World()
    client = scene.amqp("boss", row.container)
    before = scene.picture()
    row.act(scene, client, address(scene, kind) if kind else "")
    scene.settle()
    assert UNAUTHORIZED not in refusals(client)
    assert client.messages() or scene.picture() != before, "nothing has happened"


def test_who_may_not_come_in() -> None:
    scene = World()
    before = scene.picture()
    for user, password in (("boss", "wrong"), ("nobody", PASSWORD), ("", ""), ("boss ", PASSWORD)):
        client = scene.amqp(user, password=password)
        client.say(said.Attach(name="r", handle=0, role=True, source=said.Source(address="queue://secret")))
        client.say(said.Attach(name="s", handle=1, role=False, target=said.Target(address="queue://secret")))
        scene.settle()
        assert client.take(said.Attach) == []
        assert client.session.closing
        scene.leave(client)
        assert scene.picture() == before


def test_nothing_is_done_before_it_is_known_who_speaks() -> None:
    scene = World()
    before = scene.picture()
    for sasl in (False, True):
        client = Client(scene.amqp_hub, opens=False)
        client.feed(header(3 if sasl else 0))
        client.say(said.Open(container_id="x"))
        client.say(said.Begin(incoming_window=100, outgoing_window=100))
        client.say(said.Attach(name="r", handle=0, role=True, source=said.Source(address="queue://secret")))
        scene.settle()
        assert client.take(said.Attach) == []
        scene.leave(client)
        assert scene.picture() == before
