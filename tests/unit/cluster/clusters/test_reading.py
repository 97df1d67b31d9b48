"""A session that reads a temporary queue of its peer: in which order it is made, and what it passes over."""

from __future__ import annotations

from typing import cast

from entrepot.cluster.clusters.asking import Asking
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.headers import Headers, assembled
from entrepot.protocols.artemis.packets import (
    CreateConsumer,
    CreateProducer,
    CreateQueue,
    CreateSession,
    CreateSessionReply,
    ExceptionReply,
    FlowToken,
    Packet,
    QueueQueryReply,
    Receive,
    Send,
    Start,
)
from unit.protocols.artemis.test_conversation import Chance

ASKED_AT, SESSIONS = 20, 1


class Said:
    """A client that keeps what it is to send."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []

    def send(self, packet: Packet) -> None:
        self.packets.append(packet)

    def kinds(self) -> list[type[Packet]]:
        """Return what was said since the last call."""
        packets, self.packets = self.packets, []
        return [type(packet) for packet in packets]


def asking(said: Said, refusals: list[str]) -> Asking:
    return Asking(cast("CoreClient", said), "", "", Chance(), refusals.append)


def on(channel: int, packet: Packet) -> Packet:
    packet.channel = channel
    return packet


def answer(text: str, succeeded: bool = True) -> Receive:
    headers = Headers()
    headers.address = "answers"
    octets = assembled(text_body(text), headers, {"_AMQ_OperationSucceeded": succeeded})
    return cast("Receive", on(ASKED_AT, Receive(message=octets)))


def test_it_asks_when_its_queue_is_read_and_one_question_after_the_other() -> None:
    said, told = Said(), []  # type: ignore[var-annotated]
    session = asking(said, [])
    session.attribute("queue.q", "ID", lambda done, value: told.append((done, value)))
    session.operation("broker", "do", [1], lambda done, value: told.append((done, value)))
    (create,) = said.packets
    assert isinstance(create, CreateSession)
    assert (create.user, create.password, create.session_channel) == (None, None, ASKED_AT)
    said.kinds()
    session.told(on(SESSIONS, CreateSessionReply()))
    session.told(on(SESSIONS, CreateSessionReply()))  # of another session of this connection
    assert said.kinds() == [CreateQueue, CreateConsumer]
    session.told(on(10, QueueQueryReply()))  # as above
    assert said.kinds() == []
    session.told(on(ASKED_AT, QueueQueryReply()))
    assert said.kinds() == [FlowToken, Start, CreateProducer, Send]
    session.told(answer("[7]"))
    assert told == [(True, 7)]
    assert said.kinds() == [Send]
    session.told(answer("no JSON"))
    assert told[1:] == [(False, "its answer cannot be read")]


def test_what_is_refused_is_told_wherever_it_concerns_this_session() -> None:
    refusals: list[str] = []
    session = asking(Said(), refusals)
    session.told(on(10, ExceptionReply(code=105, text="of another")))
    session.told(on(SESSIONS, ExceptionReply(code=105, text="no")))
    session.told(on(ASKED_AT, ExceptionReply(code=100, text="")))
    assert refusals == ["no", "error 100"]
