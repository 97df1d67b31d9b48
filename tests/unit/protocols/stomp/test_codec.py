"""The server's reader against the client's codec, which shares nothing with it; limits; the cost of octets."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entrepot.base.errors import EntrepotError, MalformedFrame, PeerError
from entrepot.protocols.stomp import codec, commands
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.escapes import V10, V11, V12, octets_of, text_of
from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.passing import CONSUMED, READ_AND_PASSED

VERSIONS = {"1.0": V10, "1.1": V11, "1.2": V12}
CONNECT = b"CONNECT\naccept-version:1.0,1.1,1.2\n\n\0"
NAMES = {number: word.decode() for word, number in reversed(commands.COMMANDS.items())}

# Headers that every version can say: no line ends, no NUL; names without colons.
TEXT = st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), max_size=12)
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def options(**limits: int) -> StompOptions:
    made = StompOptions()
    for name, value in limits.items():
        setattr(made, name, value)
    return made


def reader(version: str = "1.2", **limits: int) -> Reader:
    """Return one that has agreed on ``version``."""
    made = Reader(options(**limits))
    made.version = VERSIONS[version]
    made.connected = True
    return made


class Seen:
    """One frame as the session would see it."""

    def __init__(self, made: Reader, command: int, body: bytes | None = None) -> None:
        self.command = NAMES.get(command, "LARGE")
        self.headers = made.headers()
        self.body = made.data[made.body_at : made.body_end] if body is None else body
        self.tail = made.head() if body is not None else made.tail() if command == commands.SEND else b""
        self.spans = (
            made.destination(),
            made.receipt(),
            made.data[made.id_at : made.id_end] if made.id_end else b"",
            made.data[made.message_id_at : made.message_id_end] if made.message_id_end else b"",
            made.data[made.subscription_at : made.subscription_end] if made.subscription_end else b"",
            made.persistent,
            made.escaped,
            made.special,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{vars(self)}"


def read(made: Reader, data: bytes, chunk: int = 0) -> list[Seen | str]:
    """Feed ``data`` in chunks; return the frames, and the complaint that ended them."""
    found: list[Seen | str] = []
    size = chunk or max(len(data), 1)
    try:
        for at in range(0, len(data), size):
            made.feed(data[at : at + size])
            while True:
                if made.large_left > 0:
                    last = found[-1]
                    assert isinstance(last, Seen)
                    last.body += made.large_piece()
                    if made.large_left > 0:
                        break
                    continue
                command = made.next()
                if command == commands.NEED_MORE:
                    break
                found.append(Seen(made, command, b"" if command == commands.LARGE else None))
    except PeerError as error:
        if made.endless and isinstance(found[-1], Seen):
            found[-1].body = b""  # it had no end: how much of it was passed on before that was clear nobody sees
        found.append(error.message)
    return found


def frames(made: Reader, data: bytes, chunk: int = 0) -> list[Seen]:
    found = read(made, data, chunk)
    assert all(isinstance(one, Seen) for one in found), found
    return [one for one in found if isinstance(one, Seen)]


# -- round trips ------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    version=st.sampled_from(sorted(VERSIONS)),
    headers=st.dictionaries(TEXT.filter(lambda name: name and ":" not in name), TEXT, max_size=6),
    body=st.binary(max_size=60),
    sized=st.booleans(),
    chunk=st.integers(0, 9),
)
def test_what_the_client_writes_is_read(
    version: str, headers: dict[str, str], body: bytes, sized: bool, chunk: int
) -> None:
    headers.pop("content-length", None)
    if sized or b"\0" in body:
        headers["content-length"] = str(len(body))
    (seen,) = frames(reader(version), encode_frame("SUBSCRIBE", headers, body, version), chunk)
    assert (seen.command, seen.headers, seen.body) == ("SUBSCRIBE", headers, body)


@settings(deadline=None)
@given(
    headers=st.dictionaries(ANY_TEXT.filter(bool), ANY_TEXT, max_size=6),
    body=st.binary(max_size=60).filter(lambda body: 0 not in body),
    returns=st.booleans(),
    chunk=st.integers(0, 9),
)
def test_version_1_2_says_everything_also_with_carriage_returns(
    headers: dict[str, str], body: bytes, returns: bool, chunk: int
) -> None:
    headers.pop("content-length", None)
    octets = encode_frame("SEND", headers, b"", "1.2")
    head = octets[:-1].replace(b"\n", b"\r\n") if returns else octets[:-1]
    (seen,) = frames(reader(), head + body + b"\0", chunk)
    assert (seen.headers, seen.body) == (headers, body)


SENDABLE = st.sampled_from([*CONSUMED, *READ_AND_PASSED, b"a", b"content-type", b"zz", b"type"])


@settings(deadline=None)
@given(
    names=st.lists(SENDABLE, max_size=12),
    body=st.binary(max_size=30).filter(lambda body: 0 not in body),
    sized=st.booleans(),
    returns=st.booleans(),
    chunk=st.integers(0, 9),
)
def test_a_tail_is_what_passes_in_its_order_whatever_stands_between(
    names: list[bytes], body: bytes, sized: bool, returns: bool, chunk: int
) -> None:
    lines = [b"%b:v%d" % (name, at) for at, name in enumerate(names)]
    kept = [line for name, line in zip(names, lines, strict=True) if name not in CONSUMED]
    if sized:
        lines.insert(len(lines) // 2, b"content-length:%d" % len(body))
        kept.insert(sum(name not in CONSUMED for name in names[: len(names) // 2]), lines[len(names) // 2])
    end = b"\r\n" if returns else b"\n"
    octets = b"SEND" + end + b"".join(line + end for line in lines) + end + body + b"\0"
    (seen,) = frames(reader(), octets, chunk)
    assert seen.tail == b"".join(line + b"\n" for line in kept) + b"\n" + body + b"\0"
    special = {} if seen.spans[-1] is None else seen.spans[-1]
    apart = (b"destination", b"receipt", b"persistent")
    wanted: dict[bytes, bytes] = {}
    for at, name in enumerate(names):
        if (name in CONSUMED or name in READ_AND_PASSED) and name not in apart:
            wanted.setdefault(name, b"v%d" % at)
    assert special == wanted
    for name, span in zip((b"destination", b"receipt"), seen.spans, strict=False):
        assert span == (b"v%d" % names.index(name) if name in names else b"")


def test_a_reply_to_a_temporary_destination_is_left_to_the_session() -> None:
    (seen,) = frames(reader(), b"SEND\nreply-to:/temp-queue/x\na:1\n\n\0")
    assert (seen.tail, seen.spans[-1]) == (b"a:1\n\n\0", {b"reply-to": b"/temp-queue/x"})


# -- cuts -------------------------------------------------------------------------------------------------------------

STREAMS = [
    b"\n\r\nSEND\ndestination:/queue/a\nreceipt:1\nx:1\n\nbody\0\n\nACK\nid:1-5\ntransaction:t\n\n\0",
    b"SEND\npersistent:true\ncontent-length:5\nreceipt:r\ndestination:d\n\na\0b\0c\0NACK\nmessage-id:m\nsubscription:s\n\n\0",
    b"SEND\r\ndestination:d\r\n\r\nbody\0\r\nBEGIN\r\ntransaction:t\r\n\r\n\0",
    b"SEND\nx\\cy:\\n\\\\\ndestination:d\n\n\0" * 3,
    b"SEND\ndestination:d\ncontent-length:40\n\n" + bytes(40) + b"\0SEND\n\nx\0",
    b"SEND\ndestination:d\ncontent-length:3\n\ntoolong\0",
    b"SUBSCRIBE\nid:1\nno colon here\n\n\0",
    b"HELLO\n\n\0",
    b"SEND\nx:\0\n\n\0",
    b"SEND\n" + b"h:1\n" * 30 + b"\n\0",
    b"SEND\nlong:" + b"x" * 200 + b"\n\n\0",
    b"x" * 100,
    b"SEND\n\n" + b"y" * 400 + b"\0",
    b"SEND\n\n" + b"y" * 200 + b"\0SEND\ndestination:d\n\n" + b"z" * 30 + b"\0SEND\n\nx\0",
    b"SEND\ntransaction:t\n\n" + b"y" * 200 + b"\0SEND\n\n" + b"z" * 29 + b"\0",
    b"SEND\ntransaction:t\n\n" + b"y" * 400 + b"\0",
]


@pytest.mark.parametrize("version", sorted(VERSIONS))
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 50])
def test_it_does_not_matter_how_octets_are_cut(version: str, stream: bytes, chunk: int) -> None:
    limits = {"line_octets_max": 100, "headers_max": 20, "frame_octets_max": 300, "command_octets_max": 40}
    limits["large_octets"] = 30
    assert read(reader(version, **limits), stream, chunk) == read(reader(version, **limits), stream)


PIECES = st.sampled_from(
    b"SEND\n|ACK\n|a:b\n|destination:d\n|content-length:3\n|id:1\n|receipt:r\n|\n|\r\n|\0|abc|x\\cy:z\n|\r|:|"
    b"message-id:m\n|transaction:t\n|persistent:true\n|\\".split(b"|")
)


@settings(deadline=None, max_examples=200)
@given(pieces=st.lists(PIECES, max_size=25), version=st.sampled_from(sorted(VERSIONS)), chunk=st.integers(1, 9))
@example(pieces=[b"SEND\n", b"a:b\n", b"\r\n", b"\0", b"SEND\n", b"\n", b"\0"], version="1.1", chunk=1)
def test_nor_what_they_are(pieces: list[bytes], version: str, chunk: int) -> None:
    data = b"".join(pieces)
    assert read(reader(version), data, chunk) == read(reader(version), data)


@settings(deadline=None)
@given(pieces=st.lists(PIECES, max_size=25), version=st.sampled_from(sorted(VERSIONS)))
def test_both_codecs_agree_on_what_is_a_frame(pieces: list[bytes], version: str) -> None:
    """Where the server takes a frame, the client reads the same headers and body from those octets."""
    data = b"".join(pieces)
    mine = [one for one in read(reader(version), data) if isinstance(one, Seen)]
    parser = FrameParser(version)
    parser.feed(data)
    theirs: list[Frame] = []
    try:
        while (frame := parser.take()) is not None:
            theirs.append(frame)
    except EntrepotError:
        pass
    for ours, frame in zip(mine, theirs, strict=False):
        assert (ours.headers, ours.body) == (frame.headers, frame.body)


# -- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "octets", "text"),
    [
        ("1.0", rb"a\nb\\c\c", r"a\nb\\c\c"),
        ("1.1", rb"a\nb\\c\c", "a\nb\\c:"),
        ("1.2", rb"a\nb\\c\c\r", "a\nb\\c:\r"),
    ],
)
def test_escapes_of_each_version(version: str, octets: bytes, text: str) -> None:
    assert text_of(octets, VERSIONS[version]) == text
    if version != "1.0":
        assert octets_of(text, VERSIONS[version]) == octets


@pytest.mark.parametrize(("version", "wrong"), [("1.1", rb"a\r"), ("1.1", b"a\\"), ("1.2", rb"a\t"), ("1.2", b"\\")])
def test_what_is_no_escape_is_refused(version: str, wrong: bytes) -> None:
    with pytest.raises(MalformedFrame):
        text_of(wrong, VERSIONS[version])


def test_connect_is_never_unescaped() -> None:
    made = Reader(options())
    (seen,) = frames(made, rb"CONNECT" + b"\r\n" + rb"passcode:a\tb" + b"\r\n\r\n\0")
    assert seen.headers == {"passcode": r"a\tb"}
    assert not made.escaped


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_carriage_return_is_part_of_the_header_before_1_2(version: str) -> None:
    made = reader(version)
    (seen,) = frames(made, b"SEND\nx:y\r\n\n\0")
    assert seen.headers == {"x": "y\r"}
    assert made.escaped, "the session must write it anew for consumers of 1.2"


def test_of_repeated_headers_the_first_counts_and_a_second_length_goes_no_further() -> None:
    octets = b"SEND\npersistent:true\npersistent:false\ncontent-length:2\ncontent-length:1\na:1\na:2\n\nok\0"
    made = reader()
    (seen,) = frames(made, octets)
    assert made.persistent
    assert (seen.headers["a"], seen.body) == ("1", b"ok")
    assert seen.tail == b"content-length:2\na:1\na:2\n\nok\0"
    (ack,) = frames(reader(), b"ACK\nid:1\nid:2\nmessage-id:3\nmessage-id:4\nsubscription:5\nsubscription:6\n\n\0")
    assert ack.spans[2:5] == (b"1", b"3", b"5")


def test_every_header_that_the_broker_reads_is_noticed() -> None:
    for name in [*CONSUMED, *READ_AND_PASSED]:
        assert codec._may_be_special(name[0], len(name)) or name in (b"destination", b"receipt", b"persistent"), name


@pytest.mark.parametrize("name", [b"content-length", b"destination", b"persistent", b"transaction", b"receipt"])
def test_a_header_that_differs_from_a_known_one_in_one_octet_is_another(name: bytes) -> None:
    for at in range(len(name)):
        other = name[:at] + b"~" + name[at + 1 :]
        (seen,) = frames(reader(), b"SEND\n%s:true\nz:1\n\n\0" % other)
        assert seen.tail == b"%s:true\nz:1\n\n\0" % other, other
        assert seen.spans[:2] == (b"", b""), other
        assert not seen.spans[5], other


@pytest.mark.parametrize("length", [b"", b"x", b"-1", b"1.5", b"0x10", b"9" * 19, b"1 2", "²".encode()])
def test_a_length_that_is_none_is_refused(length: bytes) -> None:
    (told,) = read(reader(), b"SEND\ncontent-length:" + length + b"\n\nx\0")
    assert isinstance(told, str)
    assert "content-length" in told


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [0, 1, 5])
@pytest.mark.parametrize(
    ("octets", "word"),
    [
        (b"S" * 50, "command line"),
        (b"SUBSCRIBE" + b"S" * 50 + b"\n\n\0", "command line"),
        (b"SEND\na:" + b"x" * 101, "header line"),
        (b"SEND\n" + b"a:b\n" * 21, "more than 20 headers"),
        (b"SEND\n" + (b"a:" + b"x" * 90 + b"\n") * 18, "headers of a frame"),
        (b"SEND\n\n" + b"x" * 301, "without content-length"),
        (b"SEND\ncontent-length:301\n\n", "takes 300"),
    ],
)
def test_limits_hold_before_a_frame_is_complete(octets: bytes, word: str, chunk: int) -> None:
    made = reader(line_octets_max=100, headers_max=20, frame_octets_max=300, command_octets_max=40)
    (told,) = read(made, octets, chunk)
    assert isinstance(told, str)
    assert word in told
    assert made.waiting() <= len(octets)


class Counted(bytes):
    """Octets that count how many of them were copied when they were cut or joined."""

    copied = 0

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        got = bytes.__getitem__(self, key)
        if isinstance(got, bytes):
            Counted.copied += len(got)
            return Counted(got)
        Counted.copied += 1
        return got

    def __add__(self, other):  # type: ignore[no-untyped-def]
        Counted.copied += len(self) + len(other)
        return Counted(bytes.__add__(self, other))


@pytest.mark.parametrize(
    "octets",
    [
        b"SEND\n" + b"a:" + b"x" * 9_000 + b"\n\n\0",
        b"SEND\n" + (b"a:" + b"x" * 900 + b"\n") * 100 + b"\n\0",
        b"SEND\n\n" + b"x" * 90_000 + b"\0",
        b"SEND\ncontent-length:90000\n\n" + b"x" * 90_000 + b"\0",
        b"SUBSCRIBE\nid:" + b"\\\\" * 4_000 + b"\n\n\0",
        b"\n" * 90_000,
    ],
    ids=["a long line", "many lines", "up to NUL", "sized", "escapes", "line ends"],
)
def test_single_octets_cost_as_much_as_a_chunk(octets: bytes) -> None:
    """The number of octets looked at or copied is linear, not quadratic, in what was sent."""
    made = reader()
    Counted.copied = 0
    made.feed(Counted(octets[:1]))
    for at in range(1, len(octets)):
        made.next()
        made.feed(Counted(octets[at : at + 1]))
        if not isinstance(made.data, Counted):
            made.data = Counted(made.data)
    while made.next() != commands.NEED_MORE:
        pass
    lines = octets.count(b"\n") + 2
    assert Counted.copied < 8 * len(octets) + lines * len(octets), Counted.copied
    assert made.waiting() == 0


def test_an_idle_reader_holds_nothing() -> None:
    made = reader()
    frames(made, b"SEND\n\n" + b"x" * 10_000 + b"\0\n")
    assert (made.waiting(), made.data) == (0, b"")
