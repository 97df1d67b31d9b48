"""Octets tell the protocol; what is not spoken is refused in its own language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import SECOND
from entrepot.protocols.detection import DETECTION_OCTETS_MAX, DetectingSession, refusal
from entrepot.protocols.session import AMQP, HTTP, MQTT, NEVER, OPENWIRE, STOMP, UNKNOWN, Session, Shell, detect

STARTS = {
    STOMP: b"\n\r\nCONNECT\naccept-version:1.2\n\n\0",
    OPENWIRE: b"\x00\x00\x01\x00\x01ActiveMQ\x00\x00\x00\x0c",
    AMQP: b"AMQP\x00\x01\x00\x00",
    MQTT: b"\x10\x80\x01\x00\x04MQTT\x04\x02",
    HTTP: b"GET / HTTP/1.1\r\n\r\n",
}


class Recorder(Session):
    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self.got = b""

    def receive(self, data: bytes, now: int) -> None:
        self.got += data


class Driver(Shell):
    """Drives a detecting session as the shell does."""

    def __init__(self, *spoken: str, refusal: str = "") -> None:
        self.made: list[str] = []
        makers = {name: self.maker(name) for name in spoken}
        self.session: Session = DetectingSession(self, makers, 0, timeout=30 * SECOND, refusal=refusal)

    def maker(self, name: str):
        def make(shell: Shell) -> Session:
            self.made.append(name)
            return Recorder(shell)

        return make

    def become(self, session: Session) -> None:
        self.session = session


@pytest.mark.parametrize("protocol", STARTS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_protocol_is_found_however_its_octets_arrive(protocol: str, step: int) -> None:
    driver = Driver(*STARTS)
    start = STARTS[protocol]
    for at in range(0, len(start), step):
        driver.session.receive(start[at : at + step], 1)
    assert driver.made == [protocol]
    assert isinstance(driver.session, Recorder)
    assert driver.session.got == start


@pytest.mark.parametrize(
    ("protocol", "answer"),
    [(STOMP, b"ERROR\n"), (HTTP, b"HTTP/1.1 503"), (MQTT, b"\x20\x02"), (AMQP, b"AMQP"), (OPENWIRE, b"")],
)
def test_what_is_not_spoken_is_refused_in_its_language(protocol: str, answer: bytes) -> None:
    other = AMQP if protocol == STOMP else STOMP
    driver = Driver(other)
    driver.session.receive(STARTS[protocol], 1)
    assert driver.session.closing
    assert driver.made == []
    assert driver.session.outgoing().startswith(answer) or not answer
    assert "is not spoken here" in driver.session.describe()["refused"]


def test_everybody_is_refused_when_there_is_a_reason() -> None:
    driver = Driver(STOMP, refusal="no room")
    driver.session.receive(STARTS[STOMP], 1)
    assert driver.session.closing
    assert b"no room" in driver.session.outgoing()


def test_unknown_octets_end_the_connection_with_a_reason() -> None:
    driver = Driver(STOMP)
    driver.session.receive(b"\x16\x03\x01\x02\x00\x01\x00", 1)  # a TLS client
    assert driver.session.closing
    assert driver.session.outgoing() == b""
    assert "this port speaks STOMP" in driver.session.describe()["refused"]


def test_line_ends_alone_do_not_keep_a_connection_for_ever() -> None:
    driver = Driver(STOMP)
    driver.session.receive(b"\n" * DETECTION_OCTETS_MAX, 1)
    assert not driver.session.closing
    driver.session.receive(b"\n", 1)
    assert driver.session.closing


def test_a_silent_peer_is_sent_away_at_its_time_and_not_before() -> None:
    driver = Driver(STOMP)
    assert driver.session.deadline() == 30 * SECOND
    driver.session.receive(b"CON", 1)
    driver.session.advance(30 * SECOND - 1)
    assert not driver.session.closing
    driver.session.advance(30 * SECOND)
    assert driver.session.closing
    assert driver.session.deadline() == NEVER
    assert "3 octets" in driver.session.describe()["refused"]


def test_a_peer_that_leaves_without_a_word_is_no_event() -> None:
    driver = Driver(STOMP)
    driver.session.receive(b"", 1)
    assert driver.session.closing
    assert driver.session.describe()["refused"] == ""


def test_the_refusal_of_stomp_is_one_whole_frame() -> None:
    frame = refusal(STOMP, "no: \n café")
    head, _, body = frame.partition(b"\n\n")
    length = int(head.split(b"content-length:")[1])
    assert body[:length].decode() == "no: \n café"
    assert body[length:] == b"\0\n"


@given(st.binary(max_size=64), st.integers(1, 8))
def test_no_octets_break_it_and_the_verdict_does_not_depend_on_their_chunks(start: bytes, step: int) -> None:
    whole, parts = Driver(*STARTS), Driver(*STARTS)
    if start:
        whole.session.receive(start, 1)
    for at in range(0, len(start), step):
        parts.session.receive(start[at : at + step], 1)
    assert (whole.made, whole.session.closing) == (parts.made, parts.session.closing)


def test_detection_says_unknown_only_when_nothing_can_follow() -> None:
    for start in STARTS.values():
        for end in range(len(start)):
            assert detect(start[:end]) != UNKNOWN
