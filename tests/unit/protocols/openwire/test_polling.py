"""The broker's side of ActiveMQ's http: transport, request by request, with no socket and no clock."""

from __future__ import annotations

from typing import Final

import pytest

from entrepot.base.environment import SECOND
from entrepot.protocols.http import Answers, Message, deflate, inflate
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    BrokerInfo,
    ConnectionId,
    ConnectionInfo,
    KeepAliveInfo,
    Response,
    WireFormatInfo,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.openwire.polling import (
    HELD_OCTETS_MAX,
    IDLE_TIMEOUT,
    POLL_TIMEOUT,
    REQUEST_TIMEOUT,
    STRANGER_OCTETS_MAX,
    Exchange,
    Exchanges,
    Inner,
    PollSession,
)
from entrepot.protocols.openwire.xstream import decode, encode
from entrepot.protocols.session import NEVER, Shell

LARGE: Final = "x" * 3000


class Recorded(Inner):
    """An OpenWire session that notes what it was told."""

    def __init__(self, body_max: int = 10_000) -> None:
        self.exchange = Exchange(self, body_max=body_max, high=8_000, low=2_000)
        self.commands: list[Structure] = []
        self.ready: list[bool] = []
        self.ends: list[str] = []
        self.decoder = Decoder(WireFormat.before_agreement(offer_of(WireFormatOptions())))
        self.encoder = Encoder(WireFormat.before_agreement(offer_of(WireFormatOptions())))
        greeting = self.encoder.encode(offer_of(WireFormatOptions()))
        self.receive(self.exchange.relay.greeting)
        self.exchange.written(greeting, 0)
        self.encoder.switch(self.decoder.wire_format)

    def receive(self, data: bytes) -> None:
        self.commands += [one for one in self.decoder.feed(data) if not isinstance(one, WireFormatInfo)]

    def writable(self, ready: bool) -> None:
        self.ready.append(ready)

    def lost(self, why: str) -> None:
        self.ends.append(why)

    def write(self, command: Structure, now: int = 0) -> None:
        self.exchange.written(self.encoder.encode(command), now)


class Broker(Exchanges):
    """A listener, and connections to it."""

    def __init__(self) -> None:
        self.known: dict[bytes, Recorded] = {}
        self.full = False

    def open(self, client_id: bytes, peer: str, shell: Shell) -> str:
        if self.full:
            return "there are enough"
        if client_id in self.known:
            return "there is one"
        self.known[client_id] = Recorded()
        return ""

    def find(self, client_id: bytes) -> Exchange | None:
        made = self.known.get(client_id)
        return None if made is None or made.exchange.over else made.exchange


class Client:
    """One connection; `ask` returns the answers that are there."""

    def __init__(self, broker: Broker, client_id: str = "C") -> None:
        self.session = PollSession(Shell(), broker, 0, "peer")
        self.client_id = client_id
        self.asked: list[Answers] = []  # a reader for each answer that is still to come
        self.octets = b""

    def ask(self, method: str, body: bytes = b"", *fields: str, now: int = 0) -> list[Message]:
        self.session.receive(self.request(method, body, *fields), now)
        return self.answers()

    def request(self, method: str, body: bytes = b"", *fields: str) -> bytes:
        own = [("clientID", self.client_id)] if self.client_id else []
        more = [(name, value) for name, _, value in (field.partition(": ") for field in fields)]
        self.asked.append(Answers(lambda head: 1 << 20))
        return self.asked[-1].ask(method, "/", "h", own + more, body)

    def answers(self) -> list[Message]:
        self.octets += self.session.outgoing()
        found: list[Message] = []
        while self.asked and self.octets:
            reader = self.asked[0]
            reader.feed(self.octets)
            answer = reader.next()
            if answer is None:
                self.octets = b""
                break
            self.octets = reader.rest
            found.append(answer)
            del self.asked[0]
        return found

    def status(self, method: str, body: bytes = b"", *fields: str) -> int:
        (answer,) = self.ask(method, body, *fields)
        return answer.status


def command_of(answer: Message) -> Structure:
    assert answer.status == 200
    body = answer.body
    if answer.fields.get(b"content-encoding") == b"gzip":
        body = inflate(body, 1 << 20)
    assert int.from_bytes(body[:4], "big") == len(body) - 4
    return decode(body[4:])


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def inner(broker: Broker) -> Recorded:
    assert Client(broker).status("HEAD") == 200
    return broker.known[b"C"]


def test_a_session_is_opened_once(broker: Broker, inner: Recorded) -> None:
    assert Client(broker).status("HEAD") == 400
    assert Client(broker, "D").status("HEAD") == 200
    broker.full = True
    assert Client(broker, "E").status("HEAD") == 400
    assert Client(broker, "").status("HEAD") == 400
    assert Client(broker, "x" * 600).status("HEAD") == 400


def test_options_tell_of_gzip_and_other_methods_are_none(broker: Broker) -> None:
    (answer,) = Client(broker, "").ask("OPTIONS")
    assert (answer.status, answer.fields[b"accepts-encoding"]) == (200, b"gzip")
    assert Client(broker).status("PUT", b"x") == 405
    assert Client(broker).status("GET") == 404
    assert Client(broker).status("POST", b"x") == 404
    (strange,) = Client(broker, "").ask("GET")
    assert (strange.status, b"speaks OpenWire" in strange.body) == (400, True)


def test_commands_go_both_ways(broker: Broker, inner: Recorded) -> None:
    client = Client(broker)
    info = ConnectionInfo(connection_id=ConnectionId("c1"), client_id="me")
    assert client.status("POST", encode(info)) == 200
    assert client.status("POST", deflate(encode(KeepAliveInfo())), "Content-Type: application/x-gzip") == 200
    first, second = inner.commands
    assert isinstance(first, ConnectionInfo)
    assert first.client_id == "me"
    assert isinstance(second, KeepAliveInfo)
    inner.write(Response(correlation_id=7))
    inner.write(BrokerInfo(broker_name=LARGE))
    one = command_of(client.ask("GET")[0])
    assert isinstance(one, Response)
    assert one.correlation_id == 7
    (large,) = client.ask("GET", b"", "Accept-Encoding: gzip,deflate")
    assert large.fields[b"content-encoding"] == b"gzip"
    two = command_of(large)
    assert isinstance(two, BrokerInfo)
    assert two.broker_name == LARGE
    assert client.status("POST", encode(offer_of(WireFormatOptions()))) == 200  # read, and no more
    assert len(inner.commands) == 2


def test_a_poll_waits_for_a_command_and_for_no_longer_than_it_may(broker: Broker, inner: Recorded) -> None:
    client = Client(broker)
    assert not client.ask("GET")
    inner.write(Response(correlation_id=1))
    assert isinstance(command_of(client.answers()[0]), Response)
    assert not client.ask("GET", now=5)
    assert client.session.deadline() == 5 + POLL_TIMEOUT
    client.session.advance(5 + POLL_TIMEOUT)
    assert [answer.status for answer in client.answers()] == [408]
    inner.write(Response(correlation_id=2))
    assert isinstance(command_of(client.ask("GET")[0]), Response)
    assert not inner.ends


def test_a_later_poll_takes_the_place_of_an_earlier_one(broker: Broker, inner: Recorded) -> None:
    one, two = Client(broker), Client(broker)
    assert not one.ask("GET")
    assert not two.ask("GET")
    assert [answer.status for answer in one.answers()] == [409]
    inner.write(Response())
    assert isinstance(command_of(two.answers()[0]), Response)
    one.session.detach("gone", 0)
    assert not inner.ends


def test_requests_behind_a_poll_are_served_after_it(broker: Broker, inner: Recorded) -> None:
    client = Client(broker)
    client.session.receive(client.request("GET") + client.request("GET"), 0)
    ask = client.request("POST", encode(KeepAliveInfo())) + client.request("GET")
    client.session.receive(ask[:-10], 0)
    assert not client.answers()
    inner.write(Response(correlation_id=1))
    inner.write(Response(correlation_id=2))
    assert [answer.status for answer in client.answers()] == [200, 200, 200]
    assert len(inner.commands) == 1
    client.session.receive(ask[-10:], 0)
    inner.write(Response(correlation_id=3))
    assert isinstance(command_of(client.answers()[0]), Response)
    assert not client.ask("GET")
    client.session.receive(b"x" * (HELD_OCTETS_MAX + 1), 0)
    assert client.session.closing


def test_the_session_ends_with_the_connection_on_which_it_waits(broker: Broker, inner: Recorded) -> None:
    poster, poller = Client(broker), Client(broker)
    poster.ask("POST", encode(KeepAliveInfo()))
    poster.session.detach("gone", 0)
    assert not inner.ends
    poller.ask("GET")
    poller.session.receive(b"", 0)
    assert poller.session.closing
    poller.session.detach("gone", 0)
    assert len(inner.ends) == 1
    assert Client(broker).status("GET") == 404


def test_what_cannot_be_read_ends_the_session_that_it_was_for(broker: Broker, inner: Recorded) -> None:
    other, waiting, bad = Client(broker, "D"), Client(broker), Client(broker)
    other.ask("HEAD")
    waiting.ask("GET")
    assert bad.status("POST", b"<java.lang.ProcessBuilder/>") == 400
    assert bad.session.closing
    assert "ProcessBuilder" in bad.session.describe()["refused"]
    assert [(answer.status, answer.body) for answer in waiting.answers()] == [(200, b"")]
    assert len(inner.ends) == 1
    assert not broker.known[b"D"].ends
    assert Client(broker, "D").status("POST", encode(ActiveMQQueue("no command"))) == 400
    long = ConnectionInfo(client_id="x" * 70_000)
    broker.known[b"E"] = Recorded(body_max=100_000)  # 70,000 octets are XML enough, and too long for a frame
    assert Client(broker, "E").status("POST", deflate(encode(long)), "Content-Type: application/x-gzip") == 400
    assert len(broker.known[b"E"].ends) == 1


def test_bodies_have_bounds(broker: Broker, inner: Recorded) -> None:
    assert Client(broker).status("POST", b"x" * 10_001) == 413
    assert Client(broker, "stranger").status("POST", b"x" * (STRANGER_OCTETS_MAX + 1)) == 413
    assert not inner.ends
    client = Client(broker)
    client.session.receive(b"nonsense\r\n\r\n", 0)
    assert client.session.outgoing().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert client.session.closing


def test_a_session_that_takes_no_more_holds_its_posts_back(broker: Broker, inner: Recorded) -> None:
    client = Client(broker)
    inner.exchange.hold(True, 0)
    assert not client.ask("POST", encode(KeepAliveInfo()))
    assert len(inner.commands) == 1
    client.session.advance(client.session.deadline())
    assert not client.answers()
    assert client.session.deadline() == NEVER
    inner.exchange.hold(False, 1)
    assert [answer.status for answer in client.answers()] == [200]


def test_a_client_that_does_not_ask_stops_its_session(broker: Broker, inner: Recorded) -> None:
    for _ in range(4):
        inner.write(BrokerInfo(broker_name=LARGE))
    assert inner.ready == [False]
    client = Client(broker)
    for _ in range(4):
        client.ask("GET")
    assert inner.ready == [False, True]


def test_last_words_are_fetched_before_the_end(broker: Broker, inner: Recorded) -> None:
    inner.write(Response())
    inner.exchange.close(0)
    assert not inner.ends
    client = Client(broker)
    assert isinstance(command_of(client.ask("GET")[0]), Response)
    assert len(inner.ends) == 1
    inner.write(Response())
    assert inner.exchange.octets == 0


def test_connections_do_not_wait_for_ever(broker: Broker, inner: Recorded) -> None:
    idle = Client(broker)
    idle.ask("POST", encode(KeepAliveInfo()), now=SECOND)
    assert idle.session.deadline() == SECOND + IDLE_TIMEOUT
    idle.session.advance(SECOND + IDLE_TIMEOUT)
    assert idle.session.closing
    slow = Client(broker)
    slow.session.receive(b"POST / HTTP/1.1\r\n", SECOND)
    assert slow.session.deadline() == SECOND + REQUEST_TIMEOUT
    slow.session.advance(SECOND + REQUEST_TIMEOUT)
    assert slow.session.describe()["refused"] == "it did not finish its request in time"
    closing = Client(broker)
    closing.ask("POST", encode(KeepAliveInfo()), "Connection: close")
    assert closing.session.closing
    stopped = Client(broker)
    stopped.ask("GET")
    stopped.session.shut("the broker stops", 0)
    assert [answer.status for answer in stopped.answers()] == [503]


def test_who_expects_to_be_told_to_go_on_is(broker: Broker, inner: Recorded) -> None:
    client = Client(broker)
    octets = client.request("POST", encode(KeepAliveInfo()), "Expect: 100-continue")
    head, _, body = octets.partition(b"\r\n\r\n")
    client.session.receive(head + b"\r\n\r\n", 0)
    assert client.session.outgoing() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.session.receive(body, 0)
    assert client.answers()[0].status == 200


def test_a_session_serves_the_machine_that_opened_it(broker: Broker, inner: Recorded) -> None:
    """The clientID is made from the same parts as connection ids, which are told to everybody."""
    inner.exchange.machine = "192.0.2.1"
    inner.write(KeepAliveInfo())
    for peer, status in (("198.51.100.7:80", 404), ("192.0.2.1:9999", 200)):
        client = Client(broker)
        client.session.peer = peer
        assert client.status("POST", encode(KeepAliveInfo())) == status
        assert client.status("GET") == status
    assert len(inner.commands) == 1
