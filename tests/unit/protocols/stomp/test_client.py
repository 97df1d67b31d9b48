"""The client against a broker written by hand in frames, so that nothing of the server can hide a mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import SECOND
from entrepot.base.errors import Inexpressible, LeaseError, Refused
from entrepot.protocols.session import NEVER, Shell
from entrepot.protocols.stomp import client as module
from entrepot.protocols.stomp.client import (
    Connected,
    ConnectOptions,
    Disconnected,
    Error,
    Event,
    HeartbeatLost,
    Message,
    Receipt,
    State,
    StompClient,
    Writable,
    refused,
)
from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame


class CountingShell(Shell):
    def __init__(self) -> None:
        self.dirtied = 0
        self.resumptions = 0

    def dirty(self) -> None:
        self.dirtied += 1

    def resumed(self) -> None:
        self.resumptions += 1


def sent(client: StompClient) -> list[Frame]:
    """Take what the client wrote, as frames."""
    parser = FrameParser(client.version)
    parser.feed(client.outgoing())
    frames = []
    while (frame := parser.take()) is not None:
        frames.append(frame)
    return frames


def connected(version: str = "1.2", beats: str = "0,0", **options: object) -> StompClient:
    client = StompClient(CountingShell(), ConnectOptions(**options))  # type: ignore[arg-type]
    client.connect(0)
    client.outgoing()
    client.receive(encode_frame("CONNECTED", {"version": version, "heart-beat": beats}), 0)
    assert isinstance(client.events()[0], Connected)
    return client


def message(**headers: str) -> bytes:
    return encode_frame(
        "MESSAGE", {"subscription": "s1", "message-id": "m1", "destination": "/queue/a", **headers}, b"x"
    )


def test_it_introduces_itself() -> None:
    options = ConnectOptions(host="h", login="u", passcode="p", client_id="me", heartbeat_send=0)
    client = StompClient(CountingShell(), options)
    client.connect(0)
    (frame,) = sent(client)
    assert frame.command == "CONNECT"
    assert frame.headers == {
        "accept-version": "1.0,1.1,1.2",
        "host": "h",
        "heart-beat": "0,10000",
        "login": "u",
        "passcode": "p",
        "client-id": "me",
    }


def test_a_broker_of_1_0_names_no_version() -> None:
    client = StompClient(CountingShell())
    client.connect(0)
    client.receive(b"CONNECTED\nsession:s\n\n\0", 0)
    assert client.events() == [Connected("1.0", "s", "", {"session": "s"})]


def test_a_version_that_was_not_offered_ends_it() -> None:
    client = StompClient(CountingShell(), ConnectOptions(versions=("1.1",)))
    client.connect(0)
    client.receive(b"CONNECTED\nversion:1.2\n\n\0", 0)
    (event,) = client.events()
    assert isinstance(event, Disconnected)
    assert "did not offer" in event.why
    assert client.closing


def test_an_error_instead_of_connected_is_a_refusal() -> None:
    client = StompClient(CountingShell())
    client.connect(0)
    client.receive(b"ERROR\nmessage:bad credentials\n\ndetails\0", 0)
    error, end = client.events()
    assert isinstance(error, Error)
    assert error.message == "bad credentials"
    assert end == Disconnected("the broker refused the connection: bad credentials", False)


def test_no_answer_in_time() -> None:
    client = StompClient(CountingShell(), ConnectOptions(connect_timeout=3 * SECOND))
    client.connect(5)
    assert client.deadline() == 5 + 3 * SECOND
    client.advance(client.deadline() - 1)
    assert client.events() == []
    client.advance(client.deadline())
    assert isinstance(client.events()[0], Disconnected)


@pytest.mark.parametrize(
    ("body", "headers", "octets"),
    [
        (b"a\0b", {"destination": "q", "content-length": "3"}, b"a\0b"),
        ("text", {"destination": "q"}, b"text"),
        ("a\0b", {"destination": "q", "content-length": "3", "amq-msg-type": "text"}, b"a\0b"),
        ("", {"destination": "q"}, b""),
        ("ü", {"destination": "q"}, "ü".encode()),
    ],
)
def test_bodies(body: bytes | str, headers: dict[str, str], octets: bytes) -> None:
    client = connected()
    assert client.send("q", body) == ""
    assert sent(client) == [Frame("SEND", headers, octets)]


def test_send_takes_headers_transaction_and_receipt() -> None:
    client = connected()
    receipt = client.send("q", "x", {"priority": "9"}, receipt=True, transaction="t7")
    (frame,) = sent(client)
    assert frame.headers == {"destination": "q", "priority": "9", "transaction": "t7", "receipt": receipt}
    client.receive(encode_frame("RECEIPT", {"receipt-id": receipt}), 1)
    assert client.events() == [Receipt(receipt, {"receipt-id": receipt})]


def test_receipts_and_subscriptions_have_different_ids() -> None:
    client = connected()
    first, receipt = client.subscribe("a", receipt=True)
    second, none = client.subscribe("b", ack="client", selector="x > 1")
    third, _ = client.subscribe("c", subscription="mine", headers={"browser": "true"})
    assert len({first, second, receipt}) == 3
    assert (third, none) == ("mine", "")
    frames = sent(client)
    assert frames[1].headers == {"id": second, "destination": "b", "ack": "client", "selector": "x > 1"}
    assert frames[2].headers == {"id": "mine", "destination": "c", "ack": "auto", "browser": "true"}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0", {"message-id": "m1"}),
        ("1.1", {"message-id": "m1", "subscription": "s1"}),
        ("1.2", {"id": "ack-1"}),
    ],
)
def test_ack_is_worded_as_the_version_wants(version: str, expected: dict[str, str]) -> None:
    client = connected(version)
    client.receive(message(ack="ack-1"), 1)
    (event,) = client.events()
    assert isinstance(event, Message)
    client.ack(event, transaction="t")
    assert sent(client) == [Frame("ACK", {**expected, "transaction": "t"}, b"")]
    if version == "1.0":
        with pytest.raises(Inexpressible):
            client.nack(event)
    else:
        client.nack(event)
        assert sent(client) == [Frame("NACK", expected, b"")]


def test_transactions() -> None:
    client = connected()
    one, two = client.begin(), client.begin()
    receipt = client.commit(one)
    client.abort(two)
    assert [(frame.command, frame.headers["transaction"]) for frame in sent(client)] == [
        ("BEGIN", one),
        ("BEGIN", two),
        ("COMMIT", one),
        ("ABORT", two),
    ]
    assert receipt


def test_text_and_octets_are_told_apart_by_the_length() -> None:
    client = connected()
    client.receive(message() + message(**{"content-length": "1"}) + message(browser="end"), 1)
    text, octets, end = client.events()
    assert isinstance(text, Message)
    assert isinstance(octets, Message)
    assert isinstance(end, Message)
    assert (text.is_text, octets.is_text, end.ends_browse, text.ends_browse) == (True, False, True, False)


def test_leaving_is_clean_once_the_broker_confirms() -> None:
    client = connected()
    client.disconnect()
    client.disconnect()
    (frame,) = sent(client)
    client.receive(message(), 1)
    client.receive(encode_frame("RECEIPT", {"receipt-id": frame.headers["receipt"]}), 2)
    late, end = client.events()
    assert isinstance(late, Message)
    assert end == Disconnected("we left", True)
    assert client.closing
    client.detach("closed", 3)
    assert client.events() == []


@pytest.mark.parametrize("how", ["end", "detach", "garbage"])
def test_a_lost_connection_is_said_once(how: str) -> None:
    client = connected()
    if how == "end":
        client.receive(b"", 1)
    elif how == "garbage":
        client.receive(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n\0", 1)
    client.detach("reset by peer", 2)
    (event,) = client.events()
    assert isinstance(event, Disconnected)
    assert not event.clean
    with pytest.raises(Refused, match="closed"):
        client.send("q", "x")


def test_an_error_leaves_the_connection_open() -> None:
    client = connected()
    client.receive(b"ERROR\nreceipt-id:r1\nmessage:no such queue\n\n\0", 1)
    (error,) = client.events()
    assert isinstance(error, Error)
    assert (error.receipt_id, client.state) == ("r1", State.CONNECTED)


def test_an_error_without_a_message_header_is_told_by_its_body() -> None:
    client = connected()
    client.receive(b"ERROR\n\nfirst line\nsecond\0", 1)
    (error,) = client.events()
    assert isinstance(error, Error)
    assert error.message == "first line"


# -- heart-beats ------------------------------------------------------------------------------------------------------


def test_each_direction_beats_at_the_slower_of_both() -> None:
    # We: send every 10 s, want every 10 s. It: sends every 20 s, wants every 4 s.
    client = connected(beats="20000,4000")
    assert client.deadline() == 4 * SECOND
    now = 0
    for _ in range(9):  # 36 s: silence of 40 s is still bearable
        now = client.deadline()
        client.advance(now)
        assert client.outgoing() == b"\n"
    assert now == 36 * SECOND
    client.advance(client.deadline())
    lost, end = client.events()
    assert lost == HeartbeatLost(40 * SECOND)
    assert isinstance(end, Disconnected)
    assert client.deadline() == NEVER


def test_a_beat_of_the_broker_is_heard() -> None:
    client = connected(beats="10000,0")
    assert client.deadline() == 20 * SECOND
    client.receive(b"\n", 15 * SECOND)
    assert client.deadline() == 35 * SECOND
    client.advance(20 * SECOND)
    assert client.events() == []


@given(st.lists(st.integers(0, 200), max_size=40))
def test_the_silence_of_a_client_is_never_longer_than_it_promised(steps: list[int]) -> None:
    # Whenever it writes, on its own or for us, two writes are at most 10 s apart.
    client = connected(beats="0,10000")
    now, wrote_at = 0, 0
    client.outgoing()

    def write_at(instant: int) -> None:
        nonlocal wrote_at
        if client.outgoing():
            assert instant - wrote_at <= 10 * SECOND
            wrote_at = instant

    for step in [*steps, 200, 200]:
        until = now + step * SECOND // 10
        while client.deadline() <= until:
            now = client.deadline()
            client.advance(now)
            write_at(now)
        now = until
        client.send("q", "x")
        write_at(now)


def test_no_beats_when_one_side_wants_none() -> None:
    assert connected(beats="0,0").deadline() == NEVER
    assert connected(beats="5000,5000", heartbeat_send=0, heartbeat_receive=0).deadline() == NEVER


@pytest.mark.parametrize("beats", ["1", "a,b", "1,2,3", "-1,0", "9999999999999999,0"])
def test_a_heart_beat_that_is_not_two_numbers_ends_it(beats: str) -> None:
    client = StompClient(CountingShell())
    client.connect(0)
    client.receive(encode_frame("CONNECTED", {"version": "1.2", "heart-beat": beats}), 0)
    assert isinstance(client.events()[0], Disconnected)


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_unread_events_stop_the_reading() -> None:
    client = connected(beats="10000,0")
    client.receive(message() * module.INCOMING_EVENTS, 1)
    assert not client.readable
    client.advance(client.deadline())  # we do not read, so its silence proves nothing
    assert len(client.events()) == module.INCOMING_EVENTS
    assert client.readable
    assert isinstance(client.shell, CountingShell)
    assert client.shell.resumptions == 1


def test_large_bodies_stop_the_reading_too() -> None:
    client = connected()
    body = b"x" * module.INCOMING_OCTETS
    client.receive(encode_frame("MESSAGE", {"message-id": "1", "content-length": str(len(body))}, body), 1)
    assert not client.readable


def test_what_is_written_is_bounded() -> None:
    client = connected()
    assert client.ready
    client.send("q", b"x" * module.OUTGOING_OCTETS)
    assert not client.ready
    assert client.events() == []
    client.outgoing()
    assert client.events() == [Writable()]
    assert client.ready
    client.send("q", b"x" * module.OUTGOING_REFUSED)
    with pytest.raises(Refused, match="wait"):
        client.send("q", b"y")


def test_a_full_socket_is_not_ready() -> None:
    client = connected()
    client.writable(False, 1)
    assert not client.ready
    client.writable(True, 2)
    assert client.events() == [Writable()]


def test_the_listener_is_called_when_there_is_something_again() -> None:
    calls: list[int] = []
    client = StompClient(CountingShell(), listener=lambda: calls.append(1))
    client.connect(0)
    client.receive(encode_frame("CONNECTED", {"version": "1.2"}) + message(), 0)
    assert len(calls) == 1
    client.events()
    client.receive(message(), 0)
    assert len(calls) == 2


@given(chunk=st.integers(1, 60))
def test_chunks_do_not_matter(chunk: int) -> None:
    stream = encode_frame("CONNECTED", {"version": "1.2"}) + message(a="x:y\n") + b"\n\n"
    stream += encode_frame("RECEIPT", {"receipt-id": "r9"}) + b"ERROR\nmessage:m\n\nb\0" + b"NONSENSE\n\n\0"

    def run(size: int) -> list[Event]:
        client = StompClient(CountingShell())
        client.connect(0)
        for at in range(0, len(stream), size):
            client.receive(stream[at : at + size], at)
        return client.events()

    assert run(chunk) == run(len(stream))
    assert [type(event) for event in run(1)] == [Connected, Message, Receipt, Error, Disconnected]


def test_a_refusal_keeps_its_code_and_its_remedy() -> None:
    found = refused("b1", {"code": "ENT-3008"}, b"epoch 1 is over (attach again)")
    assert (type(found), found.remedy) == (LeaseError, "")  # without a header all of the line is the message
    found = refused("b1", {"code": "ENT-3008", "message": "epoch 1 is over"}, b"epoch 1 is over (attach again)")
    assert (type(found), found.message, found.remedy) == (LeaseError, "b1 refused: epoch 1 is over", "attach again")


def test_a_refusal_of_another_broker() -> None:
    found = refused("it", {}, b"java.lang.Boom\n\tat ...")
    assert (type(found), found.message, found.remedy) == (Refused, "it refused: java.lang.Boom", "")
