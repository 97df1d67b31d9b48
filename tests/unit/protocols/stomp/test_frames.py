from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame
from entrepot.protocols.stomp.frames import Frame, FrameParser, Limits, encode_frame

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
PLAIN = st.text(st.characters(exclude_characters="\0\r\n:", exclude_categories=["Cs"]), min_size=1, max_size=12)
COMMANDS = st.sampled_from(["MESSAGE", "RECEIPT", "ERROR", "SEND"])


def parse(data: bytes, version: str = "1.2", chunk: int = 0, limits: Limits | None = None) -> list[Frame]:
    parser = FrameParser(version, limits or Limits())
    frames = []
    for at in range(0, len(data), chunk or max(len(data), 1)):
        parser.feed(data[at : at + (chunk or len(data))])
        while (frame := parser.take()) is not None:
            frames.append(frame)
    assert parser.buffered <= len(data)
    return frames


def outcome(data: bytes, version: str, chunk: int) -> tuple[list[Frame], str]:
    """Frames until the first fault, and the fault."""
    parser = FrameParser(version, Limits(head=200, headers=5, body=100))
    frames: list[Frame] = []
    for at in range(0, len(data), chunk):
        parser.feed(data[at : at + chunk])
        try:
            while (frame := parser.take()) is not None:
                frames.append(frame)
        except (MalformedFrame, LimitExceeded) as fault:
            return frames, type(fault).__name__
    return frames, ""


@given(
    frames=st.lists(
        st.tuples(COMMANDS, st.dictionaries(NAMES, VALUES, max_size=5), st.binary(max_size=60)), max_size=4
    ),
    chunk=st.integers(1, 40),
)
def test_what_is_written_in_1_2_is_read_back(frames: list[tuple[str, dict[str, str], bytes]], chunk: int) -> None:
    written, expected = b"", []
    for command, headers, body in frames:
        headers = {**headers, "content-length": str(len(body))}
        written += encode_frame(command, headers, body) + b"\r\n"
        expected.append(Frame(command, headers, body))
    assert parse(written) == expected
    assert parse(written, chunk=chunk) == expected
    assert parse(written, chunk=1) == expected


@given(headers=st.dictionaries(PLAIN, PLAIN, max_size=5), version=st.sampled_from(["1.0", "1.1", "1.2"]))
def test_plain_headers_are_read_back_in_every_version(headers: dict[str, str], version: str) -> None:
    headers.pop("content-length", None)
    assert parse(encode_frame("MESSAGE", headers, b"x", version), version) == [Frame("MESSAGE", headers, b"x")]


@given(
    data=st.lists(
        st.sampled_from(
            [
                b"MESSAGE",
                b"\n",
                b"\r\n",
                b"a:b",
                b"\0",
                b"\\c",
                b"\\t",
                b"\\",
                b"content-length:3",
                b"xyz",
                b"\xff",
                b":",
            ]
        )
    ).map(b"".join),
    version=st.sampled_from(["1.0", "1.1", "1.2"]),
    chunk=st.integers(1, 30),
)
def test_how_it_is_cut_into_chunks_does_not_matter(data: bytes, version: str, chunk: int) -> None:
    whole = outcome(data, version, max(len(data), 1))
    assert outcome(data, version, chunk) == whole
    assert outcome(data, version, 1) == whole


@given(
    frames=st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=6),
    chunks=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    least=st.integers(1, 30),
)
def test_long_bodies_are_put_together_from_chunks(
    frames: list[tuple[bytes, bool]], chunks: list[int], least: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("entrepot.protocols.stomp.frames.GATHERED_LEAST", least)
        data = b""
        wanted: list[bytes] = []
        for body, has_length in frames:
            wanted.append(body if has_length else body.replace(b"\0", b"."))
            headers = {"content-length": str(len(body))} if has_length else {}
            data += encode_frame("MESSAGE", headers, wanted[-1]) + b"\n"
        parser = FrameParser("1.2")
        found: list[bytes] = []
        at = 0
        for size in itertools.cycle(chunks):
            if at >= len(data):
                break
            parser.feed(data[at : at + size])
            at += size
            while (frame := parser.take()) is not None:
                found.append(frame.body)
        assert found == wanted
        assert parser.buffered <= 1, "the line end behind the last"


def test_the_end_of_a_long_body_is_looked_at() -> None:
    parser = FrameParser("1.2")
    parser.feed(b"MESSAGE\ncontent-length:40000\n\n" + b"x" * 20_000)
    assert parser.take() is None
    assert parser.buffered == 20_000
    parser.feed(b"x" * 20_000)
    assert parser.take() is None
    assert parser.buffered == 40_000
    parser.feed(b"x\0")
    with pytest.raises(MalformedFrame):
        parser.take()


def test_1_2_lines_may_end_with_cr_lf_and_1_1_lines_may_not() -> None:
    octets = b"MESSAGE\r\na:b\r\n\r\nbody\0"
    assert parse(octets) == [Frame("MESSAGE", {"a": "b"}, b"body")]
    assert parse(octets, "1.1") == [Frame("MESSAGE", {"a": "b\r"}, b"body")]


def test_connected_is_read_with_cr_lf_before_the_version_is_known() -> None:
    assert parse(b"CONNECTED\r\nversion:1.2\r\n\r\n\0", "1.0") == [Frame("CONNECTED", {"version": "1.2"}, b"")]


@pytest.mark.parametrize(
    ("version", "octets"),
    [("1.0", b"SEND\na:x\\ny\n\n\0"), ("1.1", b"SEND\na:x\\\\ny\n\n\0"), ("1.2", b"SEND\na:x\\\\ny\n\n\0")],
)
def test_a_backslash_is_escaped_from_1_1_on(version: str, octets: bytes) -> None:
    assert encode_frame("SEND", {"a": "x\\ny"}, version=version) == octets


def test_connect_escapes_nothing() -> None:
    assert encode_frame("CONNECT", {"passcode": "a:b\\c"}) == b"CONNECT\npasscode:a:b\\c\n\n\0"
    with pytest.raises(Inexpressible):
        encode_frame("CONNECT", {"passcode": "a\nb"})


def test_1_0_has_no_form_for_a_line_end() -> None:
    with pytest.raises(Inexpressible, match="needs escapes"):
        encode_frame("SEND", {"note": "a\nb"}, version="1.0")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_nul_and_lone_surrogates_have_no_form(version: str) -> None:
    with pytest.raises(Inexpressible):
        encode_frame("SEND", {"note": "a\0b"}, version=version)
    with pytest.raises(Inexpressible):
        encode_frame("SEND", {"note": "\ud800"}, version=version)


def test_the_first_of_repeated_headers_counts() -> None:
    assert parse(b"MESSAGE\nfoo:World\nfoo:Hello\n\n\0")[0].headers == {"foo": "World"}


def test_a_body_with_a_length_may_hold_nul() -> None:
    assert parse(b"MESSAGE\ncontent-length:3\n\na\0b\0\n\n")[0].body == b"a\0b"


@pytest.mark.parametrize(
    "octets",
    [
        b"MESSAGE\nno colon\n\n\0",
        b"MESSAGE\na:\\t\n\n\0",
        b"MESSAGE\na:x\\\n\n\0",
        b"MESSAGE\na:\xff\n\n\0",
        b"MESSAGE\ncontent-length:-1\n\n\0",
        b"MESSAGE\ncontent-length:1_0\n\n0123456789\0",
        b"MESSAGE\ncontent-length:\xd9\xa3\n\nabc\0",
        b"MESSAGE\ncontent-length:2\n\nabc\0",
    ],
)
def test_what_is_no_frame_is_malformed(octets: bytes) -> None:
    with pytest.raises(MalformedFrame):
        parse(octets)


@pytest.mark.parametrize(
    "octets",
    [
        b"MESSAGE\n" + b"a:" + b"x" * 300,
        b"MESSAGE\n" + b"a:b\n" * 6 + b"\n\0",
        b"MESSAGE\n\n" + b"x" * 101,
        b"MESSAGE\ncontent-length:101\n\n",
        b"MESSAGE\ncontent-length:" + b"9" * 17 + b"\n\n",
    ],
)
@pytest.mark.parametrize("chunk", [0, 1])
def test_limits_hold_before_the_frame_is_complete(octets: bytes, chunk: int) -> None:
    with pytest.raises(LimitExceeded):
        parse(octets, chunk=chunk, limits=Limits(head=200, headers=5, body=100))


@pytest.mark.parametrize("chunk", [0, 1])
def test_the_first_of_two_blank_lines_ends_the_headers(chunk: int) -> None:
    assert parse(b"MESSAGE\r\n\r\n\nbody\0", chunk=chunk)[0].body == b"\nbody"


def test_a_change_of_version_holds_for_the_next_frame() -> None:
    parser = FrameParser("1.0")
    parser.feed(b"MESSAGE\na:x\\cy\n\n\0MESSAGE\na:x\\cy\n\n\0")
    first = parser.take()
    parser.version = "1.1"
    second = parser.take()
    assert first is not None
    assert second is not None
    assert (first.headers["a"], second.headers["a"]) == ("x\\cy", "x:y")


def test_a_long_body_that_comes_octet_by_octet_takes_no_more_room_than_one_that_comes_at_once() -> None:
    body = bytes(range(256)) * 256
    octets = b"MESSAGE\ncontent-length:%d\n\n%b\0" % (len(body), body)
    parser = FrameParser("1.2")
    tracemalloc.start()
    try:
        for at in range(len(octets) - 1):
            parser.feed(octets[at : at + 1])
            assert parser.take() is None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * len(body)
    parser.feed(octets[-1:])
    frame = parser.take()
    assert frame is not None
    assert frame.body == body
