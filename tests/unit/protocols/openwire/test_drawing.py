"""The session that draws over OpenWire: what it says there, and what becomes of what the other broker does."""

from __future__ import annotations

from typing import cast

import pytest

from entrepot.base.uri import Endpoint
from entrepot.model import address as names
from entrepot.protocols.drawing import GONE, OPEN, Draw, DrawerPort
from entrepot.protocols.openwire.bodies import pack_properties, text_message
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    BrokerInfo,
    Command,
    ConnectionError,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    ExceptionResponse,
    FlushCommand,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    ProducerId,
    RemoveInfo,
    Response,
    SessionInfo,
)
from entrepot.protocols.openwire.drawing import BEYOND, OpenWireDraw, OpenWireDrawer
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import parse_destination
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.session import Shell
from kit import Rig

PREFETCH = 10
SENDER = ProducerId("ID:somebody", 1, 1)


class Heard(DrawerPort):
    def __init__(self) -> None:
        self.events: list[str] = []

    def opened(self) -> None:
        self.events.append("opened")

    def arrived(self, number: int) -> None:
        self.events.append("arrived")

    def ended(self, draw: Draw) -> None:
        self.events.append(f"ended {draw.source}: {draw.why}")

    def lost(self, why: str) -> None:
        self.events.append(f"lost: {why}")


class Talk:
    """A drawer, and an ActiveMQ that says what a test wants."""

    def __init__(
        self,
        *,
        user: str = "",
        enters: bool = True,
        program: str = "ActiveMQ",
        prefetch: int = PREFETCH,
        policies: dict[str, dict[str, str]] | None = None,
    ) -> None:
        self.rig = Rig(policies=policies)
        self.heard = Heard()
        self.drawer = OpenWireDrawer(
            self.rig.broker,
            self.heard,
            self.rig.lots,
            origin=-7,
            user=user,
            password="it",
            client_id="entrepot-here",
            prefetch=prefetch,
            inactivity_ms=30_000,
        )
        place = Endpoint("tcp", "far", 61616)
        self.client = cast("OpenWireClient", self.drawer.dial(Shell(), place, self.rig.now))
        offer = offer_of(WireFormatOptions(provider_name=program))
        self._decoder = Decoder(WireFormat.before_agreement(offer))
        self._encoder = Encoder(WireFormat.before_agreement(offer))
        said = self._encoder.encode(offer)
        self._decoder.feed(self.client.outgoing())
        self._encoder.switch(self._decoder.wire_format)
        self.client.receive(said, self.rig.now)
        (self.introduction,) = self.told()
        if enters:
            self.answer(self.introduction)
            self.session = self.told()

    def told(self, *, stored: bool = True) -> list[Command]:
        """Return what the drawer said since. ``stored``: the disk answers."""
        if stored:
            self.rig.turn()
        return [each for each in self._decoder.feed(self.client.outgoing()) if isinstance(each, Command)]

    def say(self, *commands: Command) -> None:
        """Let all arrive in one chunk."""
        self.client.receive(b"".join(self._encoder.encode(each) for each in commands), self.rig.now)

    def answer(self, command: Command, refusal: str = "") -> None:
        if refusal:
            what = Throwable("java.lang.SecurityException", refusal)
            self.say(ExceptionResponse(correlation_id=command.command_id, exception=what))
        else:
            self.say(Response(correlation_id=command.command_id))

    def draw(self, name: str = "Q", topic: str = "", *, granted: bool = True) -> OpenWireDraw:
        routing = names.MULTICAST if topic else names.ANYCAST
        made = self.drawer.draw(name, topic, names.parse_one(topic or name, routing))
        assert isinstance(made, OpenWireDraw)
        self.drawer.begin(made)
        (self.consumer,) = self.told()
        assert isinstance(self.consumer, ConsumerInfo)
        if granted:
            self.answer(self.consumer)
            self.started = self.told()
        return made

    def dispatch(
        self, draw: OpenWireDraw, number: int, *, stored: int = 1, at: int = 1_000, properties: bytes = b""
    ) -> MessageDispatch:
        """Return the message ``number`` of a producer, which has the number ``stored`` there and came in ``at``."""
        message = text_message(f"{number}")
        message.message_id = MessageId(producer_id=SENDER, producer_sequence_id=number, broker_sequence_id=stored)
        message.producer_id = SENDER
        message.destination = parse_destination("Q")
        message.persistent = True
        message.broker_in_time = at
        if properties:
            message.marshalled_properties = properties
        return MessageDispatch(consumer_id=draw.consumer, destination=message.destination, message=message)


def acknowledged(told: list[Command]) -> list[tuple[int, int]]:
    """Return how many messages each acknowledgement is about, and up to which."""
    found = []
    for each in told:
        assert isinstance(each, MessageAck)
        assert (each.ack_type, each.first_message_id) == (2, None)
        assert each.last_message_id is not None
        found.append((each.message_count, each.last_message_id.producer_sequence_id))
    return found


def test_it_is_a_consumer_as_any_other() -> None:
    talk = Talk(user="me")
    assert isinstance(talk.introduction, ConnectionInfo)
    assert (talk.introduction.user_name, talk.introduction.password) == ("me", "it")
    assert talk.introduction.client_id == "entrepot-here"
    assert [type(each) for each in talk.session] == [SessionInfo]
    talk.draw()
    consumer = talk.consumer
    assert isinstance(consumer, ConsumerInfo)
    assert (consumer.network_subscription, consumer.browser, consumer.subscription_name) == (False, False, None)


def prefetches(told: list[Command]) -> list[int]:
    assert all(isinstance(each, ConsumerControl) for each in told)
    return [each.prefetch for each in told if isinstance(each, ConsumerControl)]


def test_nothing_comes_from_a_queue_before_its_consumer_is_granted() -> None:
    """An ActiveMQ that refuses it may keep it, with what it was given."""
    talk = Talk()
    talk.draw()
    assert isinstance(talk.consumer, ConsumerInfo)
    assert talk.consumer.prefetch_size == 0
    assert prefetches(talk.started) == [PREFETCH]


def test_no_more_is_asked_for_than_half_of_what_is_remembered() -> None:
    talk = Talk(prefetch=100_000)
    talk.draw()
    assert prefetches(talk.started) == [10_000]


def test_a_topic_has_a_durable_subscription() -> None:
    talk = Talk()
    talk.draw("entrepot.here.T", "T")
    consumer = talk.consumer
    assert isinstance(consumer, ConsumerInfo)
    assert consumer.subscription_name == "entrepot.here.T"
    assert consumer.destination == parse_destination("topic://T")
    assert consumer.prefetch_size == PREFETCH
    assert talk.started == []


def test_a_chunk_is_acknowledged_in_one_range_when_it_is_on_disk() -> None:
    talk = Talk()
    draw = talk.draw()
    talk.say(*(talk.dispatch(draw, number) for number in (1, 2, 3)))
    assert talk.client.outgoing() == b""
    assert acknowledged(talk.told()) == [(3, 3)]
    talk.say(talk.dispatch(draw, 4))
    talk.say(talk.dispatch(draw, 5))
    assert acknowledged(talk.told()) == [(1, 4), (1, 5)]


def test_messages_may_come_before_the_answer() -> None:
    talk = Talk()
    draw = talk.draw(granted=False)
    talk.say(talk.dispatch(draw, 1))
    assert acknowledged(talk.told()) == [(1, 1)]
    talk.answer(talk.consumer)
    assert draw.state == OPEN


def test_what_comes_again_is_dropped_and_acknowledged() -> None:
    talk = Talk()
    draw = talk.draw()
    talk.say(talk.dispatch(draw, 1), talk.dispatch(draw, 2), talk.dispatch(draw, 1))
    assert acknowledged(talk.told()) == [(3, 1)]
    assert talk.drawer.taking.duplicates == 1
    assert int(talk.rig.queue("Q").count) == 2


def test_a_message_that_an_operator_sends_again_is_another_one() -> None:
    """It has the id that it had, and was taken in at another time."""
    talk = Talk()
    draw = talk.draw()
    talk.say(talk.dispatch(draw, 1))
    talk.say(talk.dispatch(draw, 1, at=1_001))
    assert int(talk.rig.queue("Q").count) == 2


def test_the_number_that_an_activemq_gives_is_another_one_when_it_comes_again() -> None:
    """A JDBC store puts its own in its place."""
    talk = Talk()
    draw = talk.draw()
    talk.say(talk.dispatch(draw, 1, stored=5))
    talk.say(talk.dispatch(draw, 1, stored=77))
    assert int(talk.rig.queue("Q").count) == 1


def test_a_broker_of_ours_keeps_its_numbers() -> None:
    talk = Talk(program="entrepot")
    draw = talk.draw()
    talk.say(talk.dispatch(draw, 1, stored=5, at=1_000))
    talk.say(talk.dispatch(draw, 1, stored=5, at=2_000))
    talk.say(talk.dispatch(draw, 1, stored=6, at=1_000))
    assert int(talk.rig.queue("Q").count) == 2


def test_two_ids_that_senders_chose_are_told_apart_by_their_connections() -> None:
    talk = Talk()
    draw = talk.draw()
    for connection in ("ID:one", "ID:two", "ID:two"):
        dispatch = talk.dispatch(draw, 1)
        assert dispatch.message is not None
        producer = ProducerId(connection, 1, 1)
        dispatch.message.message_id = MessageId(text_view="order-1", producer_id=producer, producer_sequence_id=1)
        talk.say(dispatch)
    assert int(talk.rig.queue("Q").count) == 2


def test_where_a_policy_leaves_no_prefetch_each_message_is_pulled() -> None:
    talk = Talk()
    draw = talk.draw()
    talk.say(ConsumerControl(consumer_id=draw.consumer, prefetch=0))
    assert [type(each) for each in talk.told()] == [MessagePull]
    talk.say(ConsumerControl(consumer_id=draw.consumer, prefetch=0))
    assert talk.told() == []
    talk.say(talk.dispatch(draw, 1))
    assert [type(each) for each in talk.told()] == [MessageAck, MessagePull]
    talk.say(ConsumerControl(consumer_id=draw.consumer, prefetch=5))
    talk.say(talk.dispatch(draw, 2))
    assert [type(each) for each in talk.told()] == [MessageAck]


def test_the_next_connection_insists_on_a_prefetch_that_no_policy_changes() -> None:
    talk = Talk(prefetch=1_000)
    assert talk.drawer.asked_for == 1_000
    talk.drawer.insists = True
    assert talk.drawer.asked_for == 1_001
    talk = Talk(prefetch=1_002)
    talk.drawer.insists = True
    assert talk.drawer.asked_for == 1_002


def test_what_was_scheduled_there_was_delivered_and_is_not_scheduled_here() -> None:
    talk = Talk()
    draw = talk.draw()
    properties = pack_properties({"AMQ_SCHEDULED_DELAY": 60_000})
    assert properties is not None
    talk.say(talk.dispatch(draw, 1, properties=properties))
    assert acknowledged(talk.told()) == [(1, 1)]
    assert int(talk.rig.queue("Q").count) == 1


def test_who_sends_far_beyond_the_prefetch_is_given_up() -> None:
    talk = Talk()
    draw = talk.draw()
    talk.say(*(talk.dispatch(draw, number) for number in range(1, BEYOND * PREFETCH + 1)))
    assert talk.heard.events == ["opened"]
    talk.say(talk.dispatch(draw, BEYOND * PREFETCH + 1))
    assert talk.heard.events[-1] == f"lost: {BEYOND} times the prefetch of {PREFETCH} messages came unacknowledged"
    assert talk.drawer.insists
    assert draw.state == GONE


def test_no_more_comes_than_is_remembered_whatever_a_policy_there_says() -> None:
    """What came beyond that would be doubled when the connection is lost."""
    talk = Talk(policies={"Q": {"id_cache": "6"}})
    draw = talk.draw()
    assert prefetches(talk.started) == [3]
    talk.say(*(talk.dispatch(draw, number) for number in range(1, 7)))
    assert talk.heard.events == ["opened"]
    talk.say(talk.dispatch(draw, 7))
    assert talk.heard.events[-1] == "lost: 2 times the prefetch of 3 messages came unacknowledged"


def test_a_message_without_an_id_ends_the_connection() -> None:
    talk = Talk()
    draw = talk.draw()
    dispatch = talk.dispatch(draw, 1)
    assert dispatch.message is not None
    dispatch.message.message_id = None
    talk.say(dispatch)
    assert talk.heard.events[-1] == "lost: a message came without an id"


def test_who_is_not_let_in() -> None:
    talk = Talk(user="me", enters=False)
    talk.answer(talk.introduction, "User name [me] or password is invalid.")
    assert talk.heard.events == ["lost: it does not let in me: User name [me] or password is invalid."]
    talk = Talk(enters=False)
    talk.answer(talk.introduction, "no")
    assert talk.heard.events == ["lost: it does not let in who gives no userName: no"]


def test_a_right_that_is_missing_is_said_in_their_words_and_ends_no_other() -> None:
    talk = Talk()
    other = talk.draw("other")
    talk.draw(granted=False)
    talk.answer(talk.consumer, "User me is not authorized to read from: queue://Q")
    assert talk.heard.events[-1] == "ended Q: User me is not authorized to read from: queue://Q"
    assert other.state == OPEN


@pytest.mark.parametrize("granted", [True, False])
def test_what_was_taken_is_acknowledged_before_its_consumer_is_closed(granted: bool) -> None:
    talk = Talk()
    draw = talk.draw(granted=granted)
    talk.say(talk.dispatch(draw, 1), talk.dispatch(draw, 2))
    talk.drawer.end(draw, "nobody")
    talk.say(talk.dispatch(draw, 3))  # it goes back
    told = talk.told()
    if not granted:
        talk.answer(talk.consumer)
    told += talk.told()
    assert [type(each) for each in told] == [MessageAck, RemoveInfo]
    assert acknowledged(told[:1]) == [(2, 2)]
    assert isinstance(told[1], RemoveInfo)
    assert told[1].object_id == draw.consumer
    assert told[1].last_delivered_sequence_id == -1
    assert draw.state != GONE
    talk.answer(told[1])
    assert draw.state == GONE
    assert talk.heard.events[-1] == "ended Q: nobody"
    assert int(talk.rig.queue("Q").count) == 2


def test_nobody_wants_it_any_more_before_it_is_refused() -> None:
    talk = Talk()
    draw = talk.draw(granted=False)
    talk.drawer.end(draw, "nobody")
    talk.answer(talk.consumer, "no")
    assert draw.state == GONE
    assert talk.heard.events[-1] == "ended Q: nobody"


def test_a_consumer_that_is_closed_there() -> None:
    talk = Talk()
    draw = talk.draw()
    talk.say(ConsumerControl(consumer_id=draw.consumer, close=True))
    (told,) = talk.told()
    talk.answer(told)
    assert draw.state == GONE
    assert "closed the consumer" in talk.heard.events[-1]
    talk.say(ConsumerControl(consumer_id=ConsumerId("ID:x", 1, 99), close=True))
    assert talk.told() == []


def test_a_refusal_of_nothing_ends_the_connection() -> None:
    talk = Talk()
    talk.draw()
    talk.say(ConnectionError(exception=Throwable("javax.jms.JMSException", "Unmatched acknowledge")))
    assert talk.heard.events[-1] == "lost: the other broker says: Unmatched acknowledge"


def test_a_sign_of_life() -> None:
    talk = Talk()
    assert talk.drawer.query() > 0
    (flush,) = talk.told()
    assert isinstance(flush, FlushCommand)
    talk.answer(flush)
    assert talk.heard.events == ["opened", "arrived"]
    talk.say(Response(correlation_id=99_999))
    assert talk.heard.events == ["opened", "arrived"]
    talk.drawer.close("enough")
    assert talk.drawer.query() == 0


def test_it_takes_leave_and_nothing_counts_as_delivered() -> None:
    talk = Talk()
    talk.say(BrokerInfo(broker_name="theirs"))
    assert talk.drawer.peer == "theirs"
    draw = talk.draw()
    talk.say(talk.dispatch(draw, 1))
    talk.drawer.close("enough")
    removed, *_ = talk.told(stored=False)
    assert isinstance(removed, RemoveInfo)
    assert removed.last_delivered_sequence_id == -1
    assert talk.drawer.peer == ""
    assert draw.state == GONE
