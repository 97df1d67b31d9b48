"""The session that draws: whose store it reads, and what becomes of what the other broker refuses."""

from __future__ import annotations

from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters.options import connector_of
from entrepot.model import address as names
from entrepot.protocols.artemis.linking.drawer import CHANNEL, SESSIONS, CoreDrawer
from entrepot.protocols.artemis.linking.intake import CoreIntake
from entrepot.protocols.artemis.packets import (
    ClusterTopology,
    CreateSessionReply,
    DisconnectConsumer,
    ExceptionReply,
    NullReply,
    QueueQueryReply,
)
from entrepot.protocols.drawing import GONE, OPEN, Draw, DrawerPort
from entrepot.protocols.session import Shell
from kit import Rig

NO_QUEUE = 100
DENIED = 105


class Heard(DrawerPort):
    def __init__(self) -> None:
        self.events: list[str] = []

    def opened(self) -> None:
        self.events.append("opened")

    def ended(self, draw: Draw) -> None:
        self.events.append(f"ended {draw.source}: {draw.why}")

    def lost(self, why: str) -> None:
        self.events.append(f"lost: {why}")


class Talk:
    """A drawer that hears what a test says."""

    def __init__(self, host: str = "far") -> None:
        self.rig = Rig()
        self.heard = Heard()
        self.drawer = CoreDrawer(
            self.rig.broker,
            self.heard,
            self.rig.lots,
            origin=-7,
            user="",
            password="",
            client_id="",
            window=1_000,
            ttl_ms=60_000,
        )
        self.client = self.drawer.dial(Shell(), Endpoint("tcp", host, 61616), self.rig.now)

    def member(self, node: str, host: str = "", backup: str = "", *, exit: bool = False) -> None:
        self.drawer.told(
            self.client,
            ClusterTopology(
                node=node,
                exit=exit,
                primary=connector_of(host, Endpoint("tcp", host, 61616)) if host else None,
                backup=connector_of(backup, Endpoint("tcp", backup, 61616)) if backup else None,
            ),
        )

    def enter(self) -> None:
        self.drawer.told(self.client, CreateSessionReply(server_version=135, channel=SESSIONS))

    def draw(self, name: str = "Q") -> Draw:
        made = self.drawer.draw(name, "", names.parse_one(name, names.ANYCAST))
        self.drawer.begin(made)
        return made

    def answers(self, packet: QueueQueryReply | NullReply | ExceptionReply | DisconnectConsumer) -> None:
        packet.channel = CHANNEL
        self.drawer.told(self.client, packet)


def test_a_broker_alone_is_whoever_it_says() -> None:
    talk = Talk()
    talk.member("n1", "some.other.name")
    talk.enter()
    assert talk.drawer.taking.node == "n1"
    assert talk.heard.events == ["opened"]


def test_of_a_cluster_it_is_the_one_whose_place_was_dialled() -> None:
    for host, node in (("a", "n1"), ("b", "n2"), ("b2", "n2")):
        talk = Talk(host)
        talk.member("n1", "a")
        talk.member("n2", "b", "b2")
        talk.enter()
        assert talk.drawer.taking.node == node


def test_of_a_cluster_that_says_nothing_of_our_place_nothing_is_drawn() -> None:
    """Its numbers would mean another message when the next connection leads to another member."""
    talk = Talk("alias")
    talk.member("n1", "a")
    talk.member("n2", "b")
    talk.enter()
    (event,) = talk.heard.events
    assert event.startswith("lost: 2 brokers are in its cluster")
    assert "<connector>" in event


def test_who_left_is_no_member() -> None:
    talk = Talk("alias")
    talk.member("n1", "a")
    talk.member("n2", "b")
    talk.member("n1", exit=True)
    talk.enter()
    assert talk.drawer.taking.node == "n2"


def test_a_session_that_is_refused() -> None:
    talk = Talk()
    talk.member("n1")
    refusal = ExceptionReply(code=DENIED, text="no such user", channel=SESSIONS)
    talk.drawer.told(talk.client, refusal)
    assert talk.heard.events == ["lost: the other broker opens no session: no such user"]


def test_answers_are_in_the_order_of_requests() -> None:
    talk = Talk()
    talk.member("n1")
    talk.enter()
    one, two = talk.draw("one"), talk.draw("two")
    talk.answers(ExceptionReply(code=NO_QUEUE, text="AMQ229017"))
    talk.answers(QueueQueryReply(name="two"))
    assert (one.state, two.state) == (GONE, OPEN)
    assert talk.heard.events == ["opened", "ended one: there is no such queue"]


def test_a_right_that_is_missing_is_said_in_their_words() -> None:
    talk = Talk()
    talk.member("n1")
    talk.enter()
    talk.draw()
    talk.answers(ExceptionReply(code=DENIED, text="User: me does not have permission='CONSUME'"))
    assert talk.heard.events[-1] == "ended Q: User: me does not have permission='CONSUME'"


def test_nobody_wants_it_any_more_before_it_is_there() -> None:
    talk = Talk()
    talk.member("n1")
    talk.enter()
    draw = talk.draw()
    talk.drawer.end(draw, "nobody")
    talk.answers(QueueQueryReply(name="Q"))
    talk.answers(NullReply())
    assert draw.state == GONE
    assert talk.heard.events[-1] == "ended Q: nobody"


def test_an_operator_there_closes_the_consumer() -> None:
    talk = Talk()
    talk.member("n1")
    talk.enter()
    draw = talk.draw()
    talk.answers(QueueQueryReply(name="Q"))
    talk.answers(DisconnectConsumer(consumer=draw.number))
    assert draw.state == GONE
    assert "closed the consumer" in talk.heard.events[-1]


def test_a_refusal_of_nothing_ends_the_connection() -> None:
    talk = Talk()
    talk.member("n1")
    talk.enter()
    talk.answers(ExceptionReply(code=1, text="something is wrong"))
    assert talk.heard.events[-1] == "lost: the other broker says: something is wrong"


def test_the_id_of_a_message_is_of_one_store_and_one_queue() -> None:
    talk = Talk()
    talk.member("n1")
    talk.enter()
    one, two = talk.draw("one"), talk.draw("two")
    intake: CoreIntake = talk.drawer.taking
    ids = {intake.identity(one, 5), intake.identity(one, 6), intake.identity(two, 5)}
    intake.node = "n2"
    ids.add(intake.identity(one, 5))
    assert len(ids) == 4
