"""The client side of CORE without sockets: what it says to a server that follows a script, and what it makes of it."""

from __future__ import annotations

import pytest

from entrepot.base.environment import SECOND, Entropy
from entrepot.base.errors import (
    EntrepotError,
    Refused,
    TransactionInDoubt,
    TransactionRolledBack,
    Unreachable,
)
from entrepot.base.uri import Endpoint
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.codec import Decoder, Encoder
from entrepot.protocols.artemis.conversation.core import CoreConversation, DialledWire, place_of
from entrepot.protocols.artemis.conversation.identity import Windows
from entrepot.protocols.artemis.conversation.places import filter_of, subscription_queue
from entrepot.protocols.artemis.conversation.streaming import Stream
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    BindingQuery,
    BindingQueryReply,
    Close,
    CloseConsumer,
    ClusterTopology,
    Commit,
    CreateConsumer,
    CreateProducer,
    CreateQueue,
    CreateSession,
    CreateSessionReply,
    Credits,
    DeleteQueue,
    ExceptionReply,
    FlowToken,
    NullReply,
    Packet,
    Ping,
    QueueQueryReply,
    Receive,
    RemoveProducer,
    RequestCredits,
    Rollback,
    Send,
    SendContinuation,
    SendLarge,
    Start,
    Stop,
)
from entrepot.protocols.artemis.primitives import Connector, Parameter
from entrepot.protocols.conversing.content import Outgoing, Wish
from entrepot.protocols.conversing.modes import Acknowledge as Mode
from entrepot.protocols.conversing.modes import RedeliveryPolicy
from entrepot.protocols.conversing.port import ConversationEvents, SessionPort, WireEvents
from entrepot.protocols.session import Shell

PLACE = Endpoint("tcp", "there", 61616)


class Chance(Entropy):
    """Tokens that differ."""

    def __init__(self) -> None:
        self.given = 0

    def token(self, size: int) -> bytes:
        self.given += 1
        return self.given.to_bytes(size, "big")


class Heard(ConversationEvents):
    """What a conversation tells its owner."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def introduced(self, first: bool) -> None:
        self.said.append("introduced" if first else "introduced again")

    def rejected(self, error: EntrepotError, first: bool) -> None:
        self.said.append(type(error).__name__)

    def lost(self, why: str) -> None:
        self.said.append("lost")

    def directed(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        self.said.append(brokers)


class Dialled(WireEvents):
    """What a wire tells who dialled it."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def opened(self) -> None:
        self.heard.said.append("opened")


class Pair:
    """A conversation and a server that answers everything as Artemis does, unless ``withheld``."""

    def __init__(self, windows: Windows | None = None) -> None:
        self.heard = Heard()
        self.core = CoreConversation("c", "me", "u", "p", self.heard, Chance(), reconnects=True, windows=windows)
        self.withheld: tuple[type[Packet], ...] = ()
        self.refused: dict[type[Packet], int] = {}
        self.took: list[Packet] = []
        self.dial()

    def dial(self) -> None:
        wire = self.core.dial(PLACE, Shell(), 0, Dialled(self.heard))
        assert isinstance(wire, DialledWire)
        self.client = wire.client
        self.decoder, self.encoder = Decoder(preface=True), Encoder()
        for codec in (self.decoder, self.encoder):
            codec.speak(136)
        self.turn()
        wire.use()
        self.turn()

    def turn(self) -> list[Packet]:
        """Let both talk until nothing is left to say; return what the client said."""
        said: list[Packet] = []
        while data := self.client.outgoing():
            for packet in self.decoder.feed(data):
                said.append(packet)
                for reply in self.replies(packet):
                    self.say(reply, packet.channel)
        self.took += said
        return said

    def say(self, packet: Packet, channel: int) -> None:
        packet.channel = channel
        self.client.receive(self.encoder.encode(packet), 0)

    def replies(self, packet: Packet) -> list[Packet]:
        if isinstance(packet, self.withheld):
            return []
        if type(packet) in self.refused:
            return [ExceptionReply(code=self.refused[type(packet)], text="no")]
        if isinstance(packet, Ping):
            return [Ping(ttl=packet.ttl)]
        if packet.channel == 0:
            return [ClusterTopology(node="n", last=True, server_version=136)]
        if isinstance(packet, CreateSession):
            return [CreateSessionReply(server_version=136)]
        if isinstance(packet, BindingQuery):
            return [BindingQueryReply(exists=True, queues=[], auto_create_queues=True, auto_create_addresses=True)]
        if isinstance(packet, CreateConsumer):
            return [QueueQueryReply(exists=True)]
        if isinstance(packet, RequestCredits):
            return [Credits(credits=packet.credits, address=packet.address)]
        wanted = getattr(packet, "require_response", isinstance(packet, (Stop, Rollback, Commit, Close)))
        if not wanted:
            return []
        correlation = getattr(packet, "correlation", None)
        return [NullReply(correlation=-1 if correlation is None else correlation)]

    def lose(self) -> None:
        self.client.detach("cut", 0)


class Answers:
    """Collects answers."""

    def __init__(self) -> None:
        self.got: list[EntrepotError | None] = []

    def __call__(self, error: EntrepotError | None) -> None:
        self.got.append(error)


def only(said: list[Packet], *kinds: type[Packet]) -> list[Packet]:
    return [packet for packet in said if isinstance(packet, kinds)]


def consuming(pair: Pair, session: SessionPort, prefetch: int = 100):  # type: ignore[no-untyped-def]
    answers = Answers()
    consumer = session.open_consumer(Wish("orders", prefetch), RedeliveryPolicy(), lambda: None, answers)
    pair.turn()
    assert answers.got == [None]
    return consumer


def delivered(pair: Pair, channel: int, consumer: int, number: int, body: object = "x", expires_at: int = 0) -> int:
    """Have the server deliver a message like one that the client sends; return the octets of that frame."""
    source = Pair()
    producer = source.core.open_session(Mode.AUTO).open_producer("orders", 0, Answers())
    source.turn()
    producer.send(Outgoing(body, expiration=expires_at), None)
    (send,) = only(source.turn(), Send)
    assert isinstance(send, Send)
    octets = bytearray(send.message)
    at = message_of(send.message, "").body_at
    octets[at : at + 8] = number.to_bytes(8, "big")
    receive = Receive(message=bytes(octets), consumer=consumer)
    pair.say(receive, channel)
    return len(pair.encoder.encode(receive))


def test_it_introduces_itself() -> None:
    pair = Pair()
    assert pair.heard.said == ["opened", "introduced"]
    (create,) = only(pair.took, CreateSession)
    assert isinstance(create, CreateSession)
    assert (create.user, create.password, create.client_id, create.session_channel) == ("u", "p", "me", 10)
    assert (create.auto_commit_sends, create.auto_commit_acks, create.pre_ack) == (False, False, False)


@pytest.mark.parametrize(("code", "error"), [(105, "AccessDenied"), (112, "lost")])
def test_a_refusal_of_the_first_session(code: int, error: str) -> None:
    refused = {CreateSession: code}

    class Refusing(Pair):
        def replies(self, packet: Packet) -> list[Packet]:
            self.refused = dict(refused)
            return super().replies(packet)

    assert Refusing().heard.said[-1] == error


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        (Mode.AUTO, (True, True)),
        (Mode.DUPS_OK, (True, True)),
        (Mode.CLIENT, (True, False)),
        (Mode.INDIVIDUAL, (True, False)),
        (Mode.TRANSACTED, (False, False)),
    ],
)
def test_modes_are_flags_of_a_session(mode: Mode, flags: tuple[bool, bool]) -> None:
    pair = Pair()
    pair.core.open_session(mode)
    said = pair.turn()
    (create,) = only(said, CreateSession)
    assert isinstance(create, CreateSession)
    assert (create.auto_commit_sends, create.auto_commit_acks) == flags
    assert only(said, Start)


def test_what_is_processed_is_told_at_the_end_of_the_turn_once() -> None:
    pair = Pair()
    consumer = consuming(pair, pair.core.open_session(Mode.AUTO))
    for number in (5, 6, 7):
        delivered(pair, 11, consumer.number, number)
        taken = consumer.take(0)
        assert taken is not None
        assert taken.body() == "x"
        taken.done()
    pair.core.settle_turn(0)
    (ack,) = pair.turn()
    assert isinstance(ack, Acknowledge)
    assert (ack.consumer, ack.message, ack.require_response) == (consumer.number, 7, False)


def test_half_a_window_is_asked_for_again() -> None:
    pair = Pair(Windows(consumer=1000))
    consumer = consuming(pair, pair.core.open_session(Mode.AUTO))
    (first,) = only(pair.took, FlowToken)
    assert isinstance(first, FlowToken)
    assert first.credits == 1000
    delivered(pair, 11, consumer.number, 1, b"y" * 200)
    assert consumer.take(0) is not None
    assert only(pair.turn(), FlowToken) == []
    delivered(pair, 11, consumer.number, 2, b"y" * 200)
    assert consumer.take(0) is not None
    (again,) = only(pair.turn(), FlowToken)
    assert isinstance(again, FlowToken)
    assert 500 <= again.credits < 1000


def given(pair: Pair) -> list[int]:
    return [packet.credits for packet in only(pair.turn(), FlowToken) if isinstance(packet, FlowToken)]


def test_a_pull_makes_good_what_the_last_message_took_and_sets_nothing_anew() -> None:
    """A real Artemis takes a message off the credit when it is on its way: behind the next pull, if that is quick."""
    pair = Pair()
    consumer = consuming(pair, pair.core.open_session(Mode.AUTO), prefetch=0)
    credit, size = 0, 0
    for number in range(1, 4):
        consumer.pull(0)
        for more in given(pair):
            assert more > 0
            credit += more
        assert credit - size == 1  # one message more, and no second one behind it
        credit -= size  # late
        size = delivered(pair, 11, consumer.number, number, b"y" * 100 * number)
        assert consumer.take(0) is not None
        assert given(pair) == []


def test_pulls_that_overlap_ask_for_one_message() -> None:
    pair = Pair()
    consumer = consuming(pair, pair.core.open_session(Mode.AUTO), prefetch=0)
    consumer.pull(0)
    consumer.pull(0)
    assert given(pair) == [1]


def test_a_message_that_crossed_the_end_of_a_pull_leaves_the_credit_unknown() -> None:
    pair = Pair()
    consumer = consuming(pair, pair.core.open_session(Mode.AUTO), prefetch=0)
    consumer.pull(-1)
    assert given(pair) == [1]
    consumer.forcing, consumer.pulled_nothing = 0, False
    consumer.window.revoke()
    assert given(pair) == [0]
    delivered(pair, 11, consumer.number, 1)
    assert consumer.take(0) is not None
    consumer.pull(0)
    assert given(pair) == [0, 1]


def test_a_pull_whose_message_is_over_goes_on() -> None:
    pair = Pair()
    consumer = consuming(pair, pair.core.open_session(Mode.AUTO), prefetch=0)
    consumer.pull(0)
    assert given(pair) == [1]
    size = delivered(pair, 11, consumer.number, 1, expires_at=1)
    pair.core.identity.wall_time = 2
    assert consumer.take(0) is None
    assert given(pair) == [size]


@pytest.mark.parametrize("unseen", [False, True])
def test_a_pull_in_force_goes_on_at_another_wire(unseen: bool) -> None:
    pair = Pair()
    consumer = consuming(pair, pair.core.open_session(Mode.AUTO), prefetch=0)
    consumer.pull(0)
    if unseen:
        delivered(pair, 11, consumer.number, 1)
    pair.took.clear()
    pair.lose()
    pair.dial()
    assert [packet.credits for packet in only(pair.took, FlowToken) if isinstance(packet, FlowToken)] == [1]


def test_a_large_message_goes_in_pieces_of_which_the_last_is_answered() -> None:
    pair = Pair(Windows(large_from=1000))
    producer = pair.core.open_session(Mode.AUTO).open_producer("orders", 0, Answers())
    pair.turn()
    answers = Answers()
    producer.send(Outgoing(b"z" * 2500), answers)
    said = only(pair.turn(), SendLarge, SendContinuation)
    pieces = [packet for packet in said if isinstance(packet, SendContinuation)]
    assert [len(piece.body) for piece in pieces] == [1000, 1000, 500]
    assert [piece.require_response for piece in pieces] == [False, False, True]
    assert pieces[-1].body_size == 2500
    assert answers.got == [None]


def test_a_stream_waits_for_credit_and_ends_with_a_piece_that_is_answered() -> None:
    pair = Pair(Windows(large_from=1000, producer=4000))
    producer = pair.core.open_session(Mode.AUTO).open_producer("orders", 0, Answers())
    pair.withheld = (RequestCredits,)
    pair.turn()
    stream = producer.stream(Outgoing(b""))
    assert isinstance(stream, Stream)
    assert (stream.piece_octets(), stream.is_full()) == (1000, True)
    pair.say(Credits(credits=2000, address="orders"), 11)
    assert not stream.is_full()
    stream.write(b"a" * 1000)
    stream.write(b"b" * 1000)
    assert stream.is_full(), "more than was granted is on its way"
    answers = Answers()
    stream.end(b"c", answers)
    pieces = [packet for packet in pair.turn() if isinstance(packet, SendContinuation)]
    assert [(piece.body[:1], piece.continues, piece.require_response) for piece in pieces] == [
        (b"a", True, False), (b"b", True, False), (b"c", False, True),
    ]  # fmt: skip
    assert (pieces[-1].body_size, answers.got) == (2001, [None])


def test_a_stream_does_not_go_on_at_another_wire() -> None:
    pair = Pair(Windows(large_from=1000))
    producer = pair.core.open_session(Mode.AUTO).open_producer("orders", 0, Answers())
    pair.turn()
    stream = producer.stream(Outgoing(b""))
    stream.write(b"a")
    pair.lose()
    pair.dial()
    with pytest.raises(Unreachable, match="in pieces"):
        stream.write(b"b")


def test_a_send_without_credit_waits() -> None:
    pair = Pair(Windows(producer=200))
    producer = pair.core.open_session(Mode.AUTO).open_producer("orders", 0, Answers())
    pair.withheld = (RequestCredits,)
    pair.turn()
    answers = Answers()
    assert producer.is_full()
    producer.send(Outgoing("x"), answers)
    assert only(pair.turn(), Send) == []
    pair.say(Credits(credits=100, address="orders"), 11)
    assert len(only(pair.turn(), Send)) == 1
    assert answers.got == [None]


def test_what_has_no_answer_is_sent_again_with_the_same_mark() -> None:
    pair = Pair()
    producer = pair.core.open_session(Mode.AUTO).open_producer("orders", 0, Answers())
    pair.turn()
    pair.withheld = (Send,)
    answers = Answers()
    producer.send(Outgoing("x"), answers)
    (first,) = only(pair.turn(), Send)
    pair.lose()
    assert answers.got == []
    assert not producer.send(Outgoing("nobody waits"), None)
    pair.withheld = ()
    pair.took = []
    pair.dial()
    (second,) = only(pair.took, Send)
    assert isinstance(first, Send)
    assert isinstance(second, Send)
    one, two = message_of(first.message, ""), message_of(second.message, "")
    assert one.rare is not None
    assert two.rare is not None
    assert one.rare.duplicate_id == two.rare.duplicate_id != b""
    assert answers.got == [None]
    assert pair.heard.said[-2:] == ["opened", "introduced again"]


def transacted(pair: Pair) -> SessionPort:
    session = pair.core.open_session(Mode.TRANSACTED)
    pair.turn()
    return session


def test_a_transaction_that_only_sent_goes_on_after_a_loss() -> None:
    pair = Pair()
    session = transacted(pair)
    producer = session.open_producer("orders", 0, Answers())
    pair.turn()
    producer.send(Outgoing("x"), None)
    pair.turn()
    pair.lose()
    producer.send(Outgoing("y"), None)
    answers = Answers()
    session.commit(answers)
    pair.took = []
    pair.dial()
    assert [type(packet) for packet in only(pair.took, Send, Commit)] == [Send, Send, Commit]
    assert answers.got == [None]


def test_a_transaction_that_consumed_is_rolled_back_by_a_loss() -> None:
    pair = Pair()
    session = transacted(pair)
    consumer = consuming(pair, session)
    delivered(pair, 11, consumer.number, 3)
    taken = consumer.take(0)
    assert taken is not None
    pair.lose()
    assert taken.is_lost()
    pair.dial()
    answers = Answers()
    session.commit(answers)
    said = pair.turn()
    assert only(said, Commit) == []
    assert len(only(said, Rollback)) == 1
    assert [type(error) for error in answers.got] == [TransactionRolledBack]


def test_a_commit_without_an_answer_is_in_doubt() -> None:
    pair = Pair()
    session = transacted(pair)
    pair.withheld = (Commit,)
    answers = Answers()
    session.commit(answers)
    pair.turn()
    pair.lose()
    assert [type(error) for error in answers.got] == [TransactionInDoubt]


def test_a_commit_for_which_there_was_no_room_is_in_doubt() -> None:
    pair = Pair()
    session = transacted(pair)
    pair.refused = {Commit: 210}
    answers = Answers()
    session.commit(answers)
    pair.turn()
    assert [type(error) for error in answers.got] == [TransactionInDoubt], "it may be written once there is some"


def test_a_rollback_drops_what_comes_before_its_answer() -> None:
    pair = Pair()
    session = transacted(pair)
    consumer = consuming(pair, session)
    delivered(pair, 11, consumer.number, 3)
    assert consumer.take(0) is not None
    pair.withheld = (Rollback,)
    answers = Answers()
    session.roll_back(0, answers)
    said = pair.turn()
    assert [type(packet) for packet in only(said, Stop, Acknowledge, Rollback, Start)] == [Stop, Acknowledge, Rollback]
    delivered(pair, 11, consumer.number, 4)
    assert consumer.take(0) is None
    pair.say(NullReply(correlation=-1), 11)
    assert len(only(pair.turn(), Start)) == 1
    assert answers.got == [None]
    delivered(pair, 11, consumer.number, 3)
    assert consumer.take(0) is not None


def test_every_answer_comes_at_the_end_at_the_latest() -> None:
    pair = Pair()
    producer = pair.core.open_session(Mode.AUTO).open_producer("orders", 0, Answers())
    pair.turn()
    pair.withheld = (Send,)
    answers = Answers()
    producer.send(Outgoing("x"), answers)
    pair.turn()
    pair.core.end(Unreachable("over"))
    assert [type(error) for error in answers.got] == [Unreachable]


@pytest.mark.parametrize(
    ("destination", "withheld", "undone"),
    [
        ("orders", BindingQuery, []),
        ("orders", CreateConsumer, [CloseConsumer]),
        ("topic://news", CreateQueue, [DeleteQueue]),
        ("topic://news", CreateConsumer, [CloseConsumer, DeleteQueue]),
    ],
)
def test_what_was_being_made_for_a_consumer_that_is_closed_is_undone(
    destination: str, withheld: type[Packet], undone: list[type[Packet]]
) -> None:
    pair = Pair()
    session = pair.core.open_session(Mode.AUTO)
    pair.turn()
    pair.withheld = (withheld,)
    answers = Answers()
    consumer = session.open_consumer(Wish(destination, 100), RedeliveryPolicy(), lambda: None, answers)
    (asked,) = only(pair.turn(), withheld)
    assert answers.got == []
    consumer.close()
    assert [type(error) for error in answers.got] == [Refused]
    pair.withheld = ()
    for reply in pair.replies(asked):
        pair.say(reply, 11)
    said = pair.turn()
    assert [type(one) for one in only(said, CloseConsumer, DeleteQueue)] == undone
    assert not only(said, CreateConsumer, FlowToken)
    assert len(answers.got) == 1


def test_a_producer_that_is_closed_before_it_is_open_is_not_made() -> None:
    pair = Pair()
    pair.withheld = (BindingQuery,)
    answers = Answers()
    session = pair.core.open_session(Mode.AUTO)
    producer = session.open_producer("orders", 0, answers)
    (asked,) = only(pair.turn(), BindingQuery)
    producer.close()
    pair.withheld = ()
    for reply in pair.replies(asked):
        pair.say(reply, 11)
    assert not only(pair.turn(), CreateProducer, RemoveProducer)
    assert answers.got == [None]


def test_leaving_closes_every_session_ours_last() -> None:
    pair = Pair()
    pair.core.open_session(Mode.AUTO)
    pair.core.open_session(Mode.CLIENT)
    pair.turn()
    answers = Answers()
    pair.core.leave(answers)
    assert [packet.channel for packet in only(pair.turn(), Close)] == [11, 12, 10]
    assert answers.got == [None]


def test_a_server_that_is_silent_is_given_up() -> None:
    pair = Pair(Windows(ttl_ms=3000))
    pair.client.advance(1 * SECOND)
    assert len(only(pair.turn(), Ping)) == 1  # the answer says that it lives
    pair.client.advance(4 * SECOND)
    assert pair.client.closing
    assert pair.heard.said[-1] == "lost"


def test_members_of_the_cluster_are_places_to_go() -> None:
    port = [Parameter("host", 3, "b"), Parameter("port", 1, 61617), Parameter("sslEnabled", 0, True)]
    assert place_of(Connector("x", "f", port)) == "ssl://b:61617"
    assert place_of(Connector("x", "f", [Parameter("serverId", 1, 0)])) == ""
    pair = Pair()
    pair.say(ClusterTopology(node="m", primary=Connector("x", "f", port), last=True, server_version=136), 0)
    assert pair.heard.said[-1] == "ssl://b:61617"


def test_all_members_are_told_and_who_leaves_is_none_any_more() -> None:
    def member(node: str, **fields: bool) -> ClusterTopology:
        found = Connector("x", "f", [Parameter("host", 3, node), Parameter("port", 3, "1")])
        return ClusterTopology(node=node, primary=found, server_version=136, **fields)

    pair = Pair()
    pair.say(member("b"), 0)
    pair.say(member("a"), 0)
    pair.say(member("c", last=True), 0)
    assert pair.heard.said[-1] == "tcp://a:1,tcp://b:1,tcp://c:1"
    pair.say(ClusterTopology(exit=True, node="b"), 0)
    assert pair.heard.said[-1] == "tcp://a:1,tcp://c:1"


@pytest.mark.parametrize(
    ("selector", "written"),
    [
        ("JMSPriority > 4 AND JMSType = 'JMSPriority'", "AMQPriority > 4 AND JMSType = 'JMSPriority'"),
        ("JMSDeliveryMode = 'PERSISTENT'", "AMQDurable = 'DURABLE'"),
        ("colour = 'it''s JMSTimestamp'", "colour = 'it''s JMSTimestamp'"),
    ],
)
def test_selectors_are_written_as_filters(selector: str, written: str) -> None:
    assert filter_of(selector) == written


def test_names_of_subscriptions_are_escaped() -> None:
    assert subscription_queue("a.b", "c\\d") == "a\\.b.c\\\\d"
    assert subscription_queue("", "n") == "n"
