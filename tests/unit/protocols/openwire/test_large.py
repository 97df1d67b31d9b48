"""Large bodies on their way out: what a reader gets is what the whole body would have given, in bounded memory."""

from __future__ import annotations

import tracemalloc

import pytest

from entrepot.base.environment import MIB
from entrepot.base.errors import BodyLost, LimitExceeded, StorageError
from entrepot.journal.overflow import STRETCH, Overflow
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import ActiveMQQueue, MessageId, ProducerId
from entrepot.protocols.openwire.convert import bytes_message, text_message
from entrepot.protocols.openwire.large import StreamedBody, StreamedText, body_of, is_large
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.openwire.streaming import begin
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from kit import Rig

TEXT = "grüße, 𝄞\0 und " * 40_000  # several stretches, cut within characters


def stored(rig: Rig, body: bytes, head: bytes) -> Message:
    overflow = rig.broker.journal.overflow
    blob = rig.broker.ids.next_number()
    overflow.create(blob)
    overflow.write(blob, body)
    overflow.seal(blob)
    return large(blob, len(body), head)


def large(blob: int, length: int, head: bytes) -> Message:
    message = Message(STOMP_LANGUAGE, "Q", head + b"\n")
    message.body_at = len(message.raw)
    rare = message.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = blob, length, True
    return message


def made(message: commands.Message) -> commands.Message:
    message.destination = ActiveMQQueue("Q")
    message.message_id = MessageId(producer_id=ProducerId("c", 1, 1), producer_sequence_id=1)
    return message


def poured(body: StreamedBody) -> bytes:
    pieces = [body.prefix]
    while not body.done:
        pieces.append(body.piece())
    return b"".join(pieces)


def test_octets_come_as_they_are() -> None:
    rig = Rig()
    octets = bytes(range(256)) * (3 * STRETCH // 256) + b"rest"
    message = stored(rig, octets, b"content-length:1\n")
    assert is_large(rig.broker, message, 100 * MIB)
    body = body_of(rig.broker, message, bytes_message(b""))
    assert body is not None
    assert poured(body) == octets
    assert body.length == len(octets)
    body.finish(True)


def test_text_comes_as_java_writes_it() -> None:
    rig = Rig()
    message = stored(rig, TEXT.encode(), b"")
    body = body_of(rig.broker, message, text_message(""))
    assert isinstance(body, StreamedText)
    whole = text_message(TEXT).content
    assert poured(body) == whole
    assert body.length == len(whole or b"")


def test_what_cannot_be_sent_is_refused_before_anything_is_written() -> None:
    rig = Rig()
    message = stored(rig, b"x" * 1000, b"content-length:1\n")
    with pytest.raises(LimitExceeded, match="1000 octets is larger than a frame may be"):
        is_large(rig.broker, message, 999)
    with pytest.raises(StorageError):
        is_large(rig.broker, large(4711, 1000, b""), 10_000)
    message.need_rare().large_length = 2000
    with pytest.raises(BodyLost):
        is_large(rig.broker, message, 10_000)


def test_the_body_is_held_until_it_is_written() -> None:
    rig = Rig()
    message = stored(rig, b"x" * 1000, b"content-length:1\n")
    written: list[bool] = []
    body = body_of(rig.broker, message, bytes_message(b""), lambda: written.append(True))
    assert body is not None
    rig.broker.journal.overflow.release(message.need_rare().large_id)
    assert poured(body) == b"x" * 1000
    body.finish(True)
    assert written == [True]
    assert message.need_rare().large_id not in rig.broker.journal.overflow.sizes


class Told(ClientPort):
    def __init__(self) -> None:
        self.live = False
        self.why = ""

    def agreed(self, client: OpenWireClient) -> None:
        self.live = True

    def lost(self, client: OpenWireClient, why: str) -> None:
        self.why = why


FORMATS = {
    "loose": WireFormatOptions(tight_encoding_enabled=False, cache_enabled=False),
    "tight": WireFormatOptions(tight_encoding_enabled=True, cache_enabled=True),
}


def met(form: str, told: Told) -> tuple[OpenWireClient, Decoder]:
    """Return a client that agreed with a peer, and what the peer decodes with."""
    client = OpenWireClient(Shell(), FORMATS[form], told, 0)
    offer = offer_of(FORMATS[form])
    wire_format = WireFormat.before_agreement(offer)
    decoder = Decoder(wire_format, keep_encodings=False)
    encoder = Encoder(wire_format)
    decoder.feed(client.outgoing())
    client.receive(encoder.encode(offer), 0)
    assert told.live
    return client, decoder


@pytest.mark.parametrize("form", FORMATS)
def test_a_peer_decodes_a_streamed_message_and_what_came_behind_it(form: str) -> None:
    rig = Rig()
    told = Told()
    client, decoder = met(form, told)
    first = body_of(rig.broker, stored(rig, TEXT.encode(), b""), text_message(""))
    second = body_of(rig.broker, stored(rig, b"x" * 700_000, b"content-length:1\n"), bytes_message(b""))
    assert first is not None
    assert second is not None
    number = client.stream(made(text_message("")), first, answered=True)
    client.post(made(text_message("between")))
    client.stream(made(bytes_message(b"")), second, answered=False)
    client.post(made(text_message("behind")))
    got: list[commands.Message] = []
    while data := client.outgoing():
        assert len(data) <= 2 * STRETCH + 200_000, "a piece at a time"
        got += [one for one in decoder.feed(data) if isinstance(one, commands.Message)]
    assert [one.content for one in got] == [
        text_message(TEXT).content,
        text_message("between").content,
        b"x" * 700_000,
        text_message("behind").content,
    ]
    assert got[0].command_id == number
    assert [one.response_required for one in got] == [True, False, False, False]


def test_while_the_socket_is_full_nothing_is_read_from_disk() -> None:
    rig = Rig()
    client, _ = met("loose", Told())
    body = body_of(rig.broker, stored(rig, b"x" * 700_000, b"content-length:1\n"), bytes_message(b""))
    assert body is not None
    client.stream(made(bytes_message(b"")), body, answered=True)
    client.outgoing()
    client.writable(False, 0)
    at = body.body.at
    assert client.outgoing() == b""
    assert body.body.at == at
    client.writable(True, 0)
    assert client.outgoing()


def test_a_connection_that_ends_lets_go_of_the_bodies() -> None:
    rig = Rig()
    client, _ = met("loose", Told())
    message = stored(rig, b"x" * 700_000, b"content-length:1\n")
    body = body_of(rig.broker, message, bytes_message(b""))
    assert body is not None
    client.stream(made(bytes_message(b"")), body, answered=True)
    rig.broker.journal.overflow.release(message.need_rare().large_id)
    assert rig.broker.journal.overflow.sizes
    client.detach("cut", 0)
    assert not rig.broker.journal.overflow.sizes


def test_a_frame_that_is_too_large_leaves_no_trace() -> None:
    rig = Rig()
    client, decoder = met("loose", Told())
    message = stored(rig, b"x" * 1000, b"content-length:1\n")
    body = body_of(rig.broker, message, bytes_message(b""))
    assert body is not None
    client.frame_max = 900
    with pytest.raises(LimitExceeded):
        client.stream(made(bytes_message(b"")), body, answered=True)
    client.post(made(text_message("small")))
    assert len(decoder.feed(client.outgoing())) == 1


class Endless(Overflow):
    """Bodies that take no memory: what is read is made then."""

    def hold(self, blob_id: int) -> None:
        pass

    def release(self, blob_id: int) -> None:
        pass

    def read(self, message: Message, at: int) -> bytes:
        return bytes(max(0, min(STRETCH, int(message.need_rare().large_length) - int(at))))


def test_64_mib_cross_in_the_memory_of_a_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    try:
        monkeypatch.setattr(rig.broker.journal, "overflow", Endless(rig.broker.journal.overflow._port))
    except (AttributeError, TypeError):
        pytest.skip("a compiled journal takes no other overflow")
    client, _ = met("loose", Told())
    length = 64 * MIB
    tracemalloc.start()
    try:
        body = body_of(rig.broker, large(1, length, b"content-length:1\n"), bytes_message(b""))
        assert body is not None
        client.stream(made(bytes_message(b"")), body, answered=True)
        written = 0
        while data := client.outgoing():
            written += len(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert written > length
    assert peak < 4 * MIB


def test_head_and_tail_are_those_of_the_whole_frame() -> None:
    rig = Rig()
    body = body_of(rig.broker, stored(rig, b"x" * 1000, b"content-length:1\n"), bytes_message(b""))
    assert body is not None
    _, decoder = met("loose", Told())
    encoder = Encoder(decoder.wire_format)
    message = made(bytes_message(b""))
    head = begin(encoder, message, message, body, 100 * MIB)
    whole = made(bytes_message(b"x" * 1000))
    assert head + b"x" * 1000 + body.tail == encoder.encode(whole)
