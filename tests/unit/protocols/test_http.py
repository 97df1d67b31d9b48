"""HTTP messages are cut the same however they arrive, and never at two places."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import LimitExceeded, MalformedFrame, PeerError
from entrepot.protocols.http import HEAD_OCTETS_MAX, Answers, Message, Requests, deflate, inflate

MOST = 1000
HEAD = b"POST / HTTP/1.1\r\nHost: h\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def requests() -> Requests:
    return Requests(lambda head: MOST)


def asked(method: str = "GET") -> Answers:
    client = Answers(lambda head: MOST)
    client.ask(method, "/a", "h")
    return client


def pieces(octets: bytes, size: int) -> Iterator[bytes]:
    return (octets[at : at + size] for at in range(0, len(octets), size))


def read(octets: bytes) -> Message | None:
    server = requests()
    server.feed(octets)
    return server.next()


@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(1, 60))
def test_requests_arrive_in_any_pieces_and_are_answered_in_order(sent: list[bytes], size: int) -> None:
    client, server = Answers(lambda head: MOST), requests()
    found, echoed = [], []
    for body in sent:
        for piece in pieces(client.ask("POST", "/a", "h", [("clientID", "x")], body), size):
            server.feed(piece)
            message = server.next()
            if message is not None:
                found.append(message)
        for piece in pieces(server.answer(200, body), size):
            client.feed(piece)
            answer = client.next()
            if answer is not None:
                echoed.append(answer)
        assert client.ready()
    assert [message.body for message in found] == [answer.body for answer in echoed] == sent
    assert all(message.method == b"POST" and message.fields[b"clientid"] == b"x" for message in found)
    assert server.lasting
    assert not server.begun


def test_a_request_behind_another_waits_for_the_answer() -> None:
    server = requests()
    server.feed(b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
    first = server.next()
    assert first is not None
    assert first.target == b"/1"
    assert server.next() is None
    server.answer(200)
    second = server.next()
    assert second is not None
    assert second.target == b"/2"


@given(st.binary(max_size=100), st.integers(1, 30), st.integers(1, 9))
def test_a_body_in_chunks(body: bytes, size: int, step: int) -> None:
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    octets = CHUNKED + b"".join(b"%x;name=value\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    octets += b"0\r\nTrailer: ignored\r\n\r\n"
    client, found = asked(), []
    for piece in pieces(octets, step):
        client.feed(piece)
        answer = client.next()
        if answer is not None:
            found.append(answer.body)
    assert found == [body]
    assert client.ready()


def test_an_answer_without_length_lasts_until_the_end() -> None:
    client = asked()
    client.feed(b"HTTP/1.0 200 OK\r\n\r\nbo")
    assert client.next() is None
    client.feed(b"dy")
    assert client.next() is None
    client.feed(b"")
    last = client.next()
    assert last is not None
    assert (last.body, last.status, last.reason) == (b"body", 200, b"OK")
    assert not client.ready()


def test_what_has_no_body() -> None:
    client = asked("HEAD")
    client.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n")
    head = client.next()
    assert head is not None
    assert (head.status, head.body) == (200, b"")
    client = asked()
    client.feed(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    continued = client.next()
    assert continued is not None
    assert continued.status == 204
    request = read(b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert request is not None
    assert request.body == b""


def test_an_answer_to_head_tells_the_length_and_has_no_body() -> None:
    server = requests()
    server.feed(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert server.next() is not None
    octets = server.answer(404, b"nothing here")
    assert b"Content-Length: 12" in octets
    assert octets.endswith(b"\r\n\r\n")


def test_what_comes_behind_an_answer_ends_the_use_of_the_connection() -> None:
    client = asked()
    client.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert client.next() is not None
    assert not client.ready()


def test_who_waits_to_be_asked_for_a_body_is_asked_once() -> None:
    server = requests()
    server.feed(HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert server.next() is None
    assert server.encouragement().startswith(b"HTTP/1.1 100 ")
    assert server.encouragement() == b""
    server.feed(b"ab")
    request = server.next()
    assert request is not None
    assert request.body == b"ab"


def test_an_upgrade_gives_the_rest_to_the_other_protocol() -> None:
    client, server = Answers(lambda head: 0), Requests(lambda head: 0)
    server.feed(client.ask("GET", "/x", "h", [("Connection", "Upgrade"), ("Upgrade", "openwire")]) + b"from client")
    request = server.next()
    assert request is not None
    assert request.fields[b"upgrade"] == b"openwire"
    client.feed(server.switch("openwire") + b"from server")
    answer = client.next()
    assert answer is not None
    assert (answer.status, client.rest, server.rest) == (101, b"from server", b"from client")


@pytest.mark.parametrize(
    "octets",
    [
        b"GET / HTTP/2\r\nHost: h\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nno field\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nname : spaced\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\na: b\x00c\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Content-Length: 1, 2\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n",
        HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: +1\r\n\r\n",
        HEAD + b"Content-Length: 1e3\r\n\r\n",
        HEAD + b"Content-Length: " + b"1" * 5000 + b"\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 30 + b"\r\n",
    ],
)
def test_what_two_readers_could_take_differently_is_refused(octets: bytes) -> None:
    server = requests()
    server.feed(octets)
    with pytest.raises(MalformedFrame):
        server.next()
    assert server.answer(400, b"no").startswith(b"HTTP/1.1 400 ")
    assert not server.lasting


@pytest.mark.parametrize(
    "octets",
    [
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * HEAD_OCTETS_MAX,
        HEAD + b"Content-Length: %d\r\n\r\n" % (MOST + 1),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (MOST + 1) + bytes(MOST + 1),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * HEAD_OCTETS_MAX,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * HEAD_OCTETS_MAX,
    ],
)
def test_nothing_is_kept_beyond_its_bound(octets: bytes) -> None:
    with pytest.raises(LimitExceeded):
        read(octets)


def test_an_endless_answer_has_a_bound_too() -> None:
    client = asked()
    client.feed(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MOST + 1))
    with pytest.raises(LimitExceeded):
        client.next()


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


@pytest.mark.parametrize(
    ("head", "lasting"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
    ],
)
def test_connections_last_as_their_version_says(head: bytes, lasting: bool) -> None:
    server = requests()
    server.feed(head)
    assert server.next() is not None
    server.answer(200)
    assert server.lasting is lasting


@pytest.mark.parametrize(("target", "written"), [("", b"/"), ("/a b", b"/a%20b"), ("/ü", b"/%C3%BC"), ("h:1", b"h:1")])
def test_a_target_is_written_so_that_it_is_one_word(target: str, written: bytes) -> None:
    assert asked().ready() is False
    assert Answers(lambda head: 0).ask("GET", target, "h").startswith(b"GET " + written + b" HTTP/1.1\r\n")


def test_a_host_cannot_smuggle_a_field() -> None:
    with pytest.raises(MalformedFrame):
        Answers(lambda head: 0).ask("GET", "/", "h\r\nEvil: 1")


@given(st.binary(max_size=300), st.booleans())
def test_any_octets_raise_nothing_else(octets: bytes, answers: bool) -> None:
    stream = asked() if answers else requests()
    try:
        for part in (octets or b"x", CHUNKED + octets, b""):
            stream.feed(part)
            while stream.next() is not None:
                pass
    except PeerError:
        pass
