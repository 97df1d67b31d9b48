"""How a connection over AMQP is entered: mechanisms, proofs, refusals, and what a strange peer says."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from entrepot.base.uri import Endpoint
from entrepot.cluster.broker_connections.options import Element, Way
from entrepot.cluster.broker_connections.outlook import outlook
from entrepot.cluster.carrying.parking import PARKED
from entrepot.cluster.link import State
from entrepot.protocols.amqp.calling.session import AmqpCaller
from entrepot.protocols.amqp.codec import PROTOCOL_AMQP, PROTOCOL_SASL, Decoder, Encoder, header
from entrepot.protocols.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Composite,
    Detach,
    Disposition,
    Error,
    Flow,
    Modified,
    Open,
    Rejected,
    Released,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
)

from ..cables import End
from .called import FROM_Q, TO_Q, Called

PEER_Q = Element(way=Way.PEER, queue="Q")
HANDLE = 7  # the peer's own


class Strange:
    """A peer that says what a test says, and notes what this broker says."""

    def __init__(self, *elements: Element, start: bool = True, **options: object) -> None:
        self.called = Called(*elements, start=False, **options)  # type: ignore[arg-type]
        called = self.called
        called._dial = lambda connection, dial: None  # type: ignore[method-assign]
        called.start()
        self.end = End(called.near)
        session = called.connection.greet(self.end, 1, Endpoint("tcp", "far", 5672), called.near.now)
        assert isinstance(session, AmqpCaller)
        self.session = session
        self.end.session = session
        self.said: list[Composite] = []
        self.carried: list[bytes] = []
        self.decoder = Decoder(1 << 20)
        if start:
            self.let_in()

    def say(self, *performatives: Composite, sasl: bool = False, channel: int = 3) -> None:
        out = BytesWriter()
        for performative in performatives:
            Encoder().write(out, 0 if sasl else channel, performative, 1 if sasl else 0)
        self.octets(out.getvalue())

    def octets(self, data: bytes) -> None:
        near = self.called.near
        self.session.receive(data, near.now)
        near.turn()
        self.listen()

    def listen(self) -> None:
        for frame in self.decoder.feed(self.session.outgoing()):
            if frame.performative is not None:
                self.said.append(frame.performative)
                if frame.payload:
                    self.carried.append(frame.payload)

    def heard(self, kind: type[Composite]) -> list[Composite]:
        return [one for one in self.said if isinstance(one, kind)]

    def let_in(self) -> None:
        self.octets(header(PROTOCOL_SASL))
        self.say(SaslMechanisms(sasl_server_mechanisms=["PLAIN", "ANONYMOUS"]), sasl=True)
        self.say(SaslOutcome(code=0), sasl=True)
        self.octets(header(PROTOCOL_AMQP))
        self.say(Open(container_id="strange"), channel=0)
        self.say(Begin(remote_channel=0, incoming_window=1000, outgoing_window=1000))

    def attach(self, credit: int = 10, target: bool = True, most: int = -1) -> Attach:
        """Answer the attach of a sender, under another handle, and grant credit. ``most``: octets of a message."""
        asked = next(one for one in self.heard(Attach) if isinstance(one, Attach) and not one.role)
        where = Target(address="Q") if target else None
        answer = Attach(name=asked.name, handle=HANDLE, role=True, source=Source(address="Q"), target=where)
        answer.max_message_size = most
        self.say(answer)
        if target:
            self.say(
                Flow(
                    next_incoming_id=0, incoming_window=1000, next_outgoing_id=0, outgoing_window=1000,
                    handle=HANDLE, delivery_count=0, link_credit=credit,
                )
            )  # fmt: skip
        return asked

    def settle(self, state: Composite | None, first: int, last: int = -1, settled: bool = True) -> None:
        self.say(Disposition(role=True, first=first, last=last, settled=settled, state=state))


def why(strange: Strange) -> str:
    return strange.called.connection.link.why


def test_it_says_who_it_is_by_the_best_mechanism() -> None:
    for offered, chosen in (
        (["PLAIN", "ANONYMOUS"], "PLAIN"),
        (["PLAIN", "SCRAM-SHA-256"], "SCRAM-SHA-256"),
        (["SCRAM-SHA-256", "SCRAM-SHA-512", "EXTERNAL"], "SCRAM-SHA-512"),
    ):
        strange = Strange(TO_Q, start=False, user="u", password="p")
        strange.octets(header(PROTOCOL_SASL))
        strange.say(SaslMechanisms(sasl_server_mechanisms=offered), sasl=True)
        assert [getattr(one, "mechanism", "") for one in strange.said] == [chosen]


def test_the_uri_may_name_the_mechanisms() -> None:
    strange = Strange(TO_Q, start=False, wire=(("saslMechanisms", "PLAIN"),), user="u", password="p")
    strange.octets(header(PROTOCOL_SASL))
    strange.say(SaslMechanisms(sasl_server_mechanisms=["SCRAM-SHA-256", "PLAIN"]), sasl=True)
    assert [getattr(one, "mechanism", "") for one in strange.said] == ["PLAIN"]


def test_the_uri_says_how_much_may_come() -> None:
    wire = (("amqpCredits", "7"), ("amqpIdleTimeout", "9000"), ("maxAmqpFrameSize", "4096"))
    strange = Strange(FROM_Q, wire=wire)
    (opened,) = [one for one in strange.said if isinstance(one, Open)]
    assert (opened.idle_time_out, opened.max_frame_size) == (4_500, 4_096)
    (asked,) = [one for one in strange.said if isinstance(one, Attach)]
    strange.say(Attach(name=asked.name, handle=HANDLE, source=Source(address="Q"), target=Target(address="Q")))
    assert [one.link_credit for one in strange.said if isinstance(one, Flow) and one.handle >= 0] == [7]


@pytest.mark.parametrize(
    ("user", "offered", "said"),
    [
        ("u", ["ANONYMOUS"], "the peer lets in by ANONYMOUS; asked for is SCRAM-SHA-512 or SCRAM-SHA-256 or PLAIN"),
        ("", ["PLAIN"], "the peer lets in by PLAIN; asked for is ANONYMOUS"),
        ("", [], "the peer lets in by nothing; asked for is ANONYMOUS"),
    ],
)
def test_a_peer_that_has_no_mechanism_for_it_is_told_of(user: str, offered: list[str], said: str) -> None:
    strange = Strange(TO_Q, start=False, user=user)
    strange.octets(header(PROTOCOL_SASL))
    strange.say(SaslMechanisms(sasl_server_mechanisms=offered), sasl=True)
    assert why(strange) == said
    assert strange.called.connection.link.state is State.WAITING


def test_a_wrong_password_is_told_of() -> None:
    strange = Strange(TO_Q, start=False, user="u", password="p")
    strange.octets(header(PROTOCOL_SASL))
    strange.say(SaslMechanisms(sasl_server_mechanisms=["PLAIN"]), sasl=True)
    strange.say(SaslOutcome(code=1), sasl=True)
    assert why(strange) == "the peer does not let in the user 'u'"


def test_a_peer_that_closes_at_once_says_why() -> None:
    strange = Strange(TO_Q)
    strange.say(Close(error=Error(condition="amqp:connection:forced", description="go away")), channel=0)
    assert why(strange) == "the peer closes the connection: go away"
    assert strange.heard(Close), "it is answered"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"\xff" * 64, header(2)])
def test_what_is_no_amqp_ends_the_connection_and_nothing_else(data: bytes) -> None:
    strange = Strange(TO_Q, start=False)
    strange.octets(data)
    assert strange.called.connection.link.state is State.WAITING
    assert strange.session.closing


def test_messages_go_as_far_as_there_is_credit_and_each_is_settled_as_it_is_answered() -> None:
    strange = Strange(TO_Q)
    strange.attach(credit=2)
    strange.called.send("a", "b", "c")
    strange.listen()
    assert len(strange.carried) == 2
    assert strange.called.waiting() == 3
    strange.settle(Accepted(), 0, 1)
    assert strange.called.waiting() == 1


def test_a_peer_that_settles_second_is_answered() -> None:
    strange = Strange(TO_Q)
    strange.attach()
    strange.called.send("a")
    strange.listen()
    strange.settle(Accepted(), 0, settled=False)
    assert strange.called.waiting() == 0
    (answer,) = strange.heard(Disposition)
    assert isinstance(answer, Disposition)
    assert answer.settled
    assert not answer.role


@pytest.mark.parametrize("state", [Released(), Modified(delivery_failed=True), None])
def test_what_is_given_back_goes_again_a_while_later(state: Composite | None) -> None:
    strange = Strange(TO_Q)
    strange.attach()
    strange.called.send("a")
    strange.listen()
    strange.settle(state, 0)
    strange.listen()
    assert len(strange.carried) == 1
    assert strange.called.waiting() == 1
    strange.called.near.wait(1_100)
    strange.listen()
    assert len(strange.carried) == 2
    strange.settle(Accepted(), 1)
    assert strange.called.waiting() == 0


def test_a_refusal_that_is_about_the_place_never_makes_a_dead_letter() -> None:
    strange = Strange(TO_Q, near={"Q": {"dead-letter-address": "DLQ"}})
    strange.attach(credit=100)
    strange.called.send("a")
    for number in range(6):
        strange.listen()
        strange.settle(Rejected(error=Error(condition="amqp:resource-limit-exceeded")), number)
        strange.called.near.wait(1_100)
    assert strange.called.waiting() == 1
    assert strange.called.connection.link.counts.dead == 0


def test_a_message_that_is_refused_again_and_again_for_what_it_is_becomes_a_dead_letter() -> None:
    strange = Strange(TO_Q, near={"Q": {"dead-letter-address": "DLQ"}})
    strange.attach(credit=100)
    strange.called.send("a", "b")
    for number in (0, 2, 3):
        strange.listen()
        strange.settle(Rejected(error=Error(condition="amqp:decode-error", description="no")), number)
        if number == 0:
            strange.settle(Accepted(), 1)
        strange.called.near.wait(1_100)
    assert strange.called.connection.link.counts.dead == 1
    assert strange.called.there(strange.called.near, "DLQ") == ["a"]


def test_a_link_that_is_refused_is_asked_for_again_and_says_why() -> None:
    strange = Strange(TO_Q)
    strange.attach(target=False)
    error = Error(condition="amqp:not-found", description="there is no Q here")
    strange.say(Detach(handle=HANDLE, closed=True, error=error))
    connection = strange.called.connection
    assert connection.refusals.why("to Q") == "the other side has closed the link: there is no Q here"
    assert connection.link.state is State.OPEN
    objection = connection.feeds["to Q"].halted()
    assert objection is not None
    assert "there is no Q here" in objection.text
    strange.called.near.wait(1_100)
    strange.listen()
    assert len(strange.heard(Attach)) == 2


def test_a_router_is_told_that_this_is_a_waypoint_on_both_links() -> None:
    strange = Strange(PEER_Q)
    sends, takes = sorted((one for one in strange.heard(Attach) if isinstance(one, Attach)), key=lambda one: one.role)
    assert isinstance(sends.target, Target)
    assert isinstance(takes.source, Source)
    assert (sends.target.address, sends.target.capabilities) == ("Q", ["qpid.waypoint"])
    assert (takes.source.address, takes.source.capabilities) == ("Q", ["qpid.waypoint"])


def test_a_peer_that_has_no_room_for_frames_is_waited_for() -> None:
    strange = Strange(TO_Q)
    strange.attach(credit=1_000)
    flow = Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1000)
    strange.say(flow)
    strange.called.send("a", "b")
    strange.listen()
    assert len(strange.carried) == 1
    flow.next_incoming_id, flow.incoming_window = 1, 5
    strange.say(flow)
    assert len(strange.carried) == 2


def test_it_answers_when_all_is_drained() -> None:
    strange = Strange(TO_Q)
    strange.attach(credit=0)
    strange.say(
        Flow(
            next_incoming_id=0, incoming_window=1000, next_outgoing_id=0, outgoing_window=1000,
            handle=HANDLE, delivery_count=0, link_credit=5, drain=True,
        )
    )  # fmt: skip
    flows = [one for one in strange.heard(Flow) if isinstance(one, Flow) and one.drain]
    assert [(int(one.delivery_count), int(one.link_credit)) for one in flows] == [(5, 0)]


@pytest.mark.parametrize("letters", ["DLQ", ""])
def test_what_is_larger_than_the_peer_takes_is_set_aside_and_others_go(letters: str) -> None:
    strange = Strange(TO_Q, near={"#": {"dead_letter_address": letters}})
    strange.attach(most=100)
    strange.called.send("x" * 200, "small")
    strange.listen()
    strange.called.pass_ms(10)
    assert len(strange.carried) == 1
    assert b"small" in strange.carried[0]
    assert strange.called.waiting() == 1, "the small one, which is not answered"
    assert strange.called.waiting(letters or PARKED) == 1
    assert "the other side takes no more than 100" in " ".join(strange.called.said)
    now = strange.called.near.now
    told = [str(row["text"]) for name in ("Q", PARKED) for row in outlook(strange.called.connector, name, now=now)]
    assert [PARKED in text and "no more than 100" in text for text in told] == ([] if letters else [True, True])


def test_a_link_that_is_never_answered_ends_the_connection_which_is_dialled_again() -> None:
    strange = Strange(TO_Q)
    assert strange.heard(Attach)
    strange.called.pass_ms(29_000)
    assert strange.called.connection.link.state is State.OPEN
    strange.called.pass_ms(2_000)
    assert why(strange) == "the link to Q was not answered within 30 s"
    assert strange.called.connection.link.state is not State.OPEN


def test_what_a_link_had_on_its_way_goes_again_when_the_peer_closes_it() -> None:
    strange = Strange(TO_Q)
    strange.attach()
    strange.called.send("a")
    strange.listen()
    assert len(strange.called.connection.link.under_way) == 1
    strange.say(Detach(handle=HANDLE, closed=True))
    assert not strange.called.connection.link.under_way
    assert strange.called.waiting() == 1
    assert strange.called.connection.link.doubts
