"""Our client and our server against one another: two codecs that share nothing must mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.base.environment import SECOND, Entropy
from entrepot.core.addressing.policy import Policies
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import Hub
from entrepot.core.options import BrokerOptions
from entrepot.core.recovery import recover
from entrepot.journal.memory import MemoryJournal
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.client import (
    Connected,
    ConnectOptions,
    Disconnected,
    Error,
    Event,
    Message,
    Receipt,
    StompClient,
)
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from pair import Pair

WALL = 1_700_000_000_000
CHUNKS = [0, 1, 7]
VERSIONS = ["1.0", "1.1", "1.2"]


class Numbers(Entropy):
    """The same randomness each time."""

    def token(self, octets: int) -> bytes:
        return bytes(octets)

    def fraction(self) -> float:
        return 0.5


class Bench:
    """A broker in memory and one client of it."""

    def __init__(self, version: str = "1.2", chunk: int = 0, beat: int = 0) -> None:
        self.broker = BrokerCore(MemoryJournal(), BrokerOptions(), Policies(), Numbers(), Hub())
        self.broker.tick(0, WALL)
        recover(self.broker)
        server = StompSession(Shell(), self.broker, StompOptions(), 1, "test")
        self.client = StompClient(
            Shell(), ConnectOptions(versions=(version,), heartbeat_send=beat, heartbeat_receive=beat)
        )
        self.pair = Pair(self.client, server, chunk=chunk, settle=self.settle)
        self.client.connect(0)
        self.pair.run()
        (event,) = self.client.events()
        assert isinstance(event, Connected)
        assert event.version == version

    def settle(self, now: int) -> None:
        self.broker.tick(now, WALL + now // 1_000_000)
        self.broker.flow.space_changed()
        self.broker.journal.flush()

    def events(self) -> list[Event]:
        self.pair.run()
        return self.client.events()

    def messages(self) -> list[Message]:
        events = self.events()
        assert all(isinstance(event, Message) for event in events), events
        return [event for event in events if isinstance(event, Message)]


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("version", VERSIONS)
def test_messages_go_through_in_order_with_their_headers(version: str, chunk: int) -> None:
    bench = Bench(version, chunk)
    receipt = bench.client.send("/queue/a", "first", {"colour": "red", "priority": "7"}, receipt=True)
    bench.client.send("/queue/a", b"sec\0ond", {"persistent": "true"})
    assert bench.events() == [Receipt(receipt, {"receipt-id": receipt})]
    bench.client.subscribe("/queue/a", subscription="s")
    first, second = bench.messages()
    assert (first.body, first.is_text, first.headers["colour"], first.headers["priority"]) == (
        b"first",
        True,
        "red",
        "7",
    )
    assert (second.body, second.is_text, second.headers["persistent"]) == (b"sec\0ond", False, "true")
    assert first.subscription == "s"
    assert first.destination == "/queue/a"


@settings(deadline=None)
@given(
    headers=st.dictionaries(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8).map(
            "x".__add__
        ),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
        max_size=4,
    ),
    body=st.binary(max_size=40),
    chunk=st.integers(0, 9),
)
def test_any_header_and_any_body_come_back_as_they_went(headers: dict[str, str], body: bytes, chunk: int) -> None:
    bench = Bench(chunk=chunk)
    bench.client.subscribe("/queue/a")
    bench.client.send("/queue/a", body, headers)
    (message,) = bench.messages()
    assert message.body == body
    assert {name: message.headers.get(name) for name in headers} == headers


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("version", VERSIONS)
def test_acknowledged_is_gone_and_the_rest_comes_again(version: str, chunk: int) -> None:
    bench = Bench(version, chunk)
    for text in ("1", "2", "3"):
        bench.client.send("/queue/a", text)
    subscription, _ = bench.client.subscribe("/queue/a", ack="client-individual")
    one, _, three = bench.messages()
    bench.client.ack(one)
    bench.client.ack(three)
    bench.client.unsubscribe(subscription)
    bench.client.subscribe("/queue/a")
    (two,) = bench.messages()
    assert (two.body, two.headers["redelivered"]) == (b"2", "true")


def test_a_transaction_is_all_or_nothing() -> None:
    bench = Bench()
    bench.client.subscribe("/queue/a")
    kept, dropped = bench.client.begin(), bench.client.begin()
    bench.client.send("/queue/a", "kept", transaction=kept)
    bench.client.send("/queue/a", "dropped", transaction=dropped)
    assert bench.events() == []
    bench.client.abort(dropped)
    receipt = bench.client.commit(kept)
    events = bench.events()
    assert Receipt(receipt, {"receipt-id": receipt}) in events
    assert [event.body for event in events if isinstance(event, Message)] == [b"kept"]


def test_browsing_leaves_everything_and_says_where_it_ends() -> None:
    bench = Bench()
    bench.client.send("/queue/a", "1")
    bench.client.send("/queue/a", "2")
    for _ in range(2):
        bench.client.subscribe("/queue/a", headers={"browser": "true"})
        *shown, end = bench.messages()
        assert [message.body for message in shown] == [b"1", b"2"]
        assert end.ends_browse


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_refusal_names_the_receipt_and_the_connection_goes_on(chunk: int) -> None:
    bench = Bench(chunk=chunk)
    receipt = bench.client.send("/queue/", "x", receipt=True)
    (error,) = bench.events()
    assert isinstance(error, Error)
    assert error.receipt_id == receipt
    assert error.headers["code"] == "ENT-3002"
    again = bench.client.send("/queue/a", "x", receipt=True)
    assert bench.events() == [Receipt(again, {"receipt-id": again})]


@pytest.mark.parametrize("version", VERSIONS)
def test_leaving_is_confirmed_after_everything_else(version: str) -> None:
    bench = Bench(version)
    receipt = bench.client.send("/queue/a", "x", receipt=True)
    bench.client.disconnect()
    assert bench.events() == [Receipt(receipt, {"receipt-id": receipt}), Disconnected("we left", True)]


def test_heart_beats_keep_an_idle_connection_and_a_cut_ends_it() -> None:
    bench = Bench(beat=2 * SECOND)
    bench.pair.advance(60 * SECOND)
    assert bench.events() == []
    assert bench.pair.sent[bench.client].endswith(b"\n\n")
    bench.pair.cut()
    (end,) = bench.events()
    assert isinstance(end, Disconnected)
    assert end.why == "the cable was cut"


def test_a_lease_can_be_read_again_until_it_is_settled() -> None:
    bench = Bench()
    for text in ("1", "2", "3"):
        bench.client.send("/queue/a", text)

    def ask(command: str, **headers: str) -> tuple[dict[str, str], list[bytes]]:
        receipt = bench.client.request(command, {"queue": "/queue/a", "group": "g", **headers})
        events = bench.events()
        (answer,) = [event for event in events if isinstance(event, Receipt)]
        assert answer.receipt_id == receipt
        return answer.headers, [event.body for event in events if isinstance(event, Message)]

    epoch = ask("ATTACH")[0]["epoch"]
    assert ask("CLAIM", epoch=epoch, max="2")[0]["end"] == "2"
    assert ask("READ", epoch=epoch)[1] == [b"1", b"2"]
    assert ask("READ", epoch=epoch)[1] == [b"1", b"2"]
    assert ask("SETTLE", epoch=epoch, end="1")[0]["settled"] == "1"
    assert ask("READ", epoch=epoch)[1] == [b"2"]
    bench.client.subscribe("/queue/a")
    assert [message.body for message in bench.messages()] == [b"3"]
