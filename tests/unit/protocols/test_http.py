"""HTTP messages are cut the same however they arrive, and never at two places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import LimitExceeded, MalformedFrame, PeerError
from entrepot.protocols.http import (
    HEAD_OCTETS_MAX,
    Message,
    MessageReader,
    answer,
    deflate,
    inflate,
    read_head,
    request,
)

MOST = 1000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def reader(*, answers: bool = False) -> MessageReader:
    return MessageReader(lambda head: MOST, answers=answers)


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(1, 60))
def test_requests_arrive_in_any_pieces(sent: list[bytes], size: int) -> None:
    octets = b"".join(request("POST", "/a", "h", "clientID: x", body=body) for body in sent)
    read, found = reader(), []
    for at in range(0, len(octets), size):
        found += read.feed(octets[at : at + size])
    assert bodies(found) == sent
    assert all(message.method == b"POST" and message.fields[b"clientid"] == b"x" for message in found)
    assert not read.begun


@given(st.binary(max_size=100), st.integers(1, 30), st.integers(1, 9))
def test_a_body_in_chunks(body: bytes, size: int, step: int) -> None:
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    octets = CHUNKED + b"".join(b"%x;name=value\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    octets += b"0\r\nTrailer: ignored\r\n\r\n" + answer(200, b"next")
    read, found = reader(answers=True), []
    for at in range(0, len(octets), step):
        found += read.feed(octets[at : at + step])
    assert bodies(found) == [body, b"next"]


def test_an_answer_without_length_lasts_until_the_end() -> None:
    read = reader(answers=True)
    assert not read.feed(b"HTTP/1.0 200 OK\r\n\r\nbo")
    assert not read.feed(b"dy")
    last = read.end()
    assert last is not None
    assert last.body == b"body"
    assert not last.lasting
    assert read.end() is None


def test_what_has_no_body() -> None:
    read = reader(answers=True)
    read.bodiless = True
    (head,) = read.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n")
    assert head.status == 200
    (continued,) = read.feed(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    assert continued.status == 204
    assert bodies(reader().feed(b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")) == [b""]


@pytest.mark.parametrize(
    "octets",
    [
        b"GET / HTTP/2\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno field\r\n\r\n",
        b"GET / HTTP/1.1\r\nname : spaced\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    ],
)
def test_what_two_readers_could_take_differently_is_refused(octets: bytes) -> None:
    with pytest.raises(MalformedFrame):
        reader().feed(octets)


@pytest.mark.parametrize(
    "octets",
    [
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * HEAD_OCTETS_MAX,
        b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MOST + 1),
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (MOST + 1),
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 300,
    ],
)
def test_nothing_is_kept_beyond_its_bound(octets: bytes) -> None:
    with pytest.raises(LimitExceeded):
        reader().feed(octets)


def test_an_endless_answer_has_a_bound_too() -> None:
    read = reader(answers=True)
    with pytest.raises(LimitExceeded):
        read.feed(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MOST + 1))


@given(st.binary(max_size=200))
def test_what_was_packed_is_unpacked_within_bounds(octets: bytes) -> None:
    packed = deflate(octets)
    assert inflate(packed, 200) == octets
    with pytest.raises(PeerError):
        inflate(packed[:-1], 200)
    if octets:
        with pytest.raises(LimitExceeded):
            inflate(packed, len(octets) - 1)


def test_a_bomb_does_not_go_off() -> None:
    with pytest.raises(LimitExceeded):
        inflate(deflate(bytes(50_000_000)), 1000)
    with pytest.raises(MalformedFrame):
        inflate(b"not packed", 1000)


def test_connections_last_as_their_version_says() -> None:
    assert read_head(b"GET / HTTP/1.1").lasting
    assert not read_head(b"GET / HTTP/1.1\r\nConnection: close").lasting
    assert not read_head(b"GET / HTTP/1.0").lasting
    assert read_head(b"GET / HTTP/1.0\r\nConnection: Keep-Alive").lasting
    assert read_head(b"HTTP/1.1 abc").status == 0


@given(st.binary(max_size=300), st.booleans())
def test_any_octets_raise_nothing_else(octets: bytes, answers: bool) -> None:
    read = reader(answers=answers)
    try:
        read.feed(octets)
        read.feed(CHUNKED + octets)
        read.end()
    except (MalformedFrame, LimitExceeded):
        pass
