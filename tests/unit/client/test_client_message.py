"""Messages of programs, to OpenWire and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import Entropy
from entrepot.base.errors import Inexpressible
from entrepot.client.message import Message, Received
from entrepot.client.portal import Portal
from entrepot.protocols.conversing.bodies import Body, SerializedObject
from entrepot.protocols.conversing.content import Outgoing
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.openwire.commands import ConsumerInfo, MessageId, ProducerId
from entrepot.protocols.openwire.conversation.inbox import Delivery, Inbox, InboxPort
from entrepot.protocols.openwire.conversation.messages import compose
from entrepot.protocols.openwire.ids import parse_destination

SIMPLE = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(), st.binary(), st.none())


class Even(Entropy):
    def token(self, octets: int) -> bytes:
        return bytes(octets)

    def fraction(self) -> float:
        return 0.5


def received(message: Message, *, compress: bool = False, redeliveries: int = 0) -> Received:
    outgoing = Outgoing(message.body, message.own_properties(), message.headers(), compress=compress)
    command = compose(outgoing, parse_destination("Q"))
    command.message_id = MessageId(producer_id=ProducerId("c", 1, 2), producer_sequence_id=3)
    inbox = Inbox(ConsumerInfo(), Acknowledge.AUTO, RedeliveryPolicy(), InboxPort(), Even(), False)
    return Received(Delivery(inbox, command, redeliveries))


@given(
    body=st.one_of(
        st.text(),
        st.binary(),
        st.none(),
        st.dictionaries(st.text(), SIMPLE),
        st.lists(SIMPLE),
        st.binary().map(SerializedObject),
    ),
    compress=st.booleans(),
)
def test_a_body_comes_back_as_it_went(body: Body, compress: bool) -> None:
    back = received(Message(body), compress=compress)
    assert back.body == body
    assert type(back.body) is type(body)


def test_headers_and_properties_come_back() -> None:
    sent = Message(
        "x", properties={"n": 1}, correlation_id="c", reply_to="topic://R", type="t", group="g", group_sequence=2
    )
    back = received(sent, redeliveries=2)
    assert back.properties == {"n": 1}
    assert (back.correlation_id, back.reply_to, back.type, back.group, back.group_sequence) == (
        "c",
        "topic://R",
        "t",
        "g",
        2,
    )
    assert (back.destination, back.delivery_count, back.redelivered) == ("queue://Q", 3, True)
    assert back.message_id == "c:2:1:3"


def test_what_was_received_can_be_sent_on() -> None:
    back = received(Message("x", properties={"n": 1}))
    back.body = "y"
    again = received(back)
    assert (again.body, again.properties) == ("y", {"n": 1})


@pytest.mark.parametrize("body", [1.5, object(), {1: "x"}, {"x": object()}])
def test_what_has_no_form_is_refused(body: object) -> None:
    with pytest.raises((Inexpressible, TypeError)):
        compose(Outgoing(body), None)


def test_settling_goes_through_another_thread_if_asked_to() -> None:
    class Elsewhere(Portal):
        def __init__(self) -> None:
            self.done: list[object] = []

        def post(self, action: Callable[[], object]) -> None:
            self.done.append(action)

    back = received(Message("x"))
    elsewhere = Elsewhere()
    back.settled_through(elsewhere)
    back.acknowledge()
    back.reject()
    assert len(elsewhere.done) == 2


def test_headers_are_opened_when_looked_at_and_what_was_set_stays() -> None:
    message = received(Message("b", correlation_id="c", group="g", group_sequence=3, type="t", reply_to="topic://r"))
    message.correlation_id = "mine"
    assert (message.group, message.group_sequence, message.type) == ("g", 3, "t")
    assert message.reply_to == "topic://r"
    assert message.correlation_id == "mine"
    again = received(message)
    assert (again.correlation_id, again.group, again.body) == ("mine", "g", "b")
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = message.nothing_of_that_name  # type: ignore[attr-defined]
