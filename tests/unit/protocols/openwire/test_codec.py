from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.base.errors import Fault, Inexpressible, LimitExceeded, MalformedFrame, PeerError, ProtocolViolation
from entrepot.protocols.openwire import schema
from entrepot.protocols.openwire.bodies import text_message, text_of_body
from entrepot.protocols.openwire.codec import FIRST_FRAME_OCTETS_MAX, Decoder, Encoder, decode_first
from entrepot.protocols.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQQueue,
    ActiveMQTextMessage,
    BrokerId,
    BrokerInfo,
    ConnectionControl,
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    ControlCommand,
    DataArrayResponse,
    DataResponse,
    DestinationInfo,
    ExceptionResponse,
    KeepAliveInfo,
    Message,
    MessageDispatch,
    MessageId,
    ProducerId,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    WireFormatInfo,
)
from entrepot.protocols.openwire.describe import describe
from entrepot.protocols.openwire.elements import ELEMENTS_MAX, THROWABLE_TEXT_MAX, Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.openwire.schema import Type

from .examples import VERSIONS, Filling, commands, formats, plain, travelling

LOOSE = WireFormat()
TIGHT = WireFormat(tight=True)
CACHED = WireFormat(cache_size=1024)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def one(data: bytes, wire_format: WireFormat = LOOSE) -> Structure:
    (command,) = Decoder(wire_format).feed(data)
    return command


# -- golden frames of section 5.8 ----------------------------------------------------------------------------------


def test_frames_that_java_writes() -> None:
    connection = "ID:host-40123-1700000000000-1:1"[:29]
    golden = {
        "0000000a1e" + "0000000000" + "00000001": Response(correlation_id=1),
        "0000001312" + "0000000000" + "0000000000" + "010000" + "010000" + "0000": ConnectionControl(
            connected_brokers="", reconnect_to=""
        ),
        "00000030040000000300017901001d" + connection.encode().hex() + "0000000000000001": SessionInfo(
            command_id=3, session_id=SessionId(connection, 1)
        ),
        "000000060a0000000500": KeepAliveInfo(command_id=5),
    }
    for octets, command in golden.items():
        assert Encoder(LOOSE).encode(command).hex() == octets
        assert describe(one(bytes.fromhex(octets))) == describe(command)
    assert Encoder(TIGHT).encode(KeepAliveInfo(command_id=5)).hex() == "000000070a010000000005"


# -- round trips ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size_prefix", [True, False])
@pytest.mark.parametrize("stack_traces", [True, False])
@pytest.mark.parametrize("cache_size", [0, 1024])
@pytest.mark.parametrize("tight", [False, True])
def test_every_type_of_every_version_comes_back(
    tight: bool, cache_size: int, stack_traces: bool, size_prefix: bool
) -> None:
    for version in VERSIONS:
        wire_format = WireFormat(
            version=version, tight=tight, cache_size=cache_size, stack_traces=stack_traces, size_prefix=size_prefix
        )
        encoder, decoder = Encoder(wire_format), Decoder(wire_format)
        filling = Filling(version, stack_traces=stack_traces)
        for each in travelling(version):
            command = filling.structure(each)
            for _ in range(2):  # the second time, cached values are references
                assert plain(decoder.feed(encoder.encode(command))) == [describe(command)], (version, each.name)


@given(st.data(), formats())
@settings(max_examples=200, deadline=None)
def test_any_commands_come_back(data: st.DataObject, wire_format: WireFormat) -> None:
    sent = data.draw(st.lists(commands(wire_format.version), min_size=1, max_size=4))
    encoder, decoder = Encoder(wire_format), Decoder(wire_format)
    received = [command for each in sent for command in decoder.feed(encoder.encode(each))]
    assert plain(received) == plain(sent)
    assert decoder.buffered() == 0


def outcome(decoder: Decoder, chunks: list[bytes]) -> tuple[list[object], str]:
    """Return what a decoder makes of chunks, and the code of the error that stopped it."""
    received: list[object] = []
    try:
        for chunk in chunks:
            received += plain(decoder.feed(chunk))
            decoder.check()
    except PeerError as error:
        return received, error.code
    return received, ""


@given(st.data(), formats())
@settings(max_examples=150, deadline=None)
def test_chunks_make_no_difference(data: st.DataObject, wire_format: WireFormat) -> None:
    encoder = Encoder(wire_format)
    sent = data.draw(st.lists(commands(wire_format.version), min_size=1, max_size=3))
    stream = bytearray(b"".join(encoder.encode(command) for command in sent))
    if data.draw(st.booleans()):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= data.draw(st.integers(1, 255))
    octets = bytes(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=5)))
    pieces = [octets[start:end] for start, end in zip([0, *cuts], [*cuts, len(octets)], strict=True)]
    small = WireFormat(
        version=wire_format.version,
        tight=wire_format.tight,
        cache_size=wire_format.cache_size,
        size_prefix=wire_format.size_prefix,
        max_frame_size=4096,
    )
    whole = outcome(Decoder(small), [octets])
    assert outcome(Decoder(small), pieces) == whole
    assert outcome(Decoder(small), [octets[at : at + 1] for at in range(len(octets))]) == whole


def test_an_open_frame_that_is_cut_leaves_the_cache_as_it_was() -> None:
    wire_format = WireFormat(cache_size=16, size_prefix=False)
    encoder, decoder = Encoder(wire_format), Decoder(wire_format)
    for number in range(40):  # the indexes go round more than twice
        command = DestinationInfo(connection_id=ConnectionId(f"c{number % 3}"), destination=ActiveMQQueue(f"q{number}"))
        octets = encoder.encode(command)
        received: list[Structure] = []
        for at in range(len(octets)):
            received += decoder.feed(octets[at : at + 1])
        assert plain(received) == [describe(command)]


# -- the cache -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tight", [False, True])
def test_more_values_than_the_cache_holds_go_round(tight: bool) -> None:
    wire_format = WireFormat(tight=tight, cache_size=1024)
    encoder, decoder = Encoder(wire_format), Decoder(wire_format)
    for number in [*range(3000), *range(2990, 3000), 5, 1500]:
        command = MessageDispatch(consumer_id=ConsumerId("c", 1, 1), destination=ActiveMQQueue(f"Q.{number}"))
        assert describe(one_of(decoder.feed(encoder.encode(command)))) == describe(command)


def one_of(commands: list[Structure]) -> Structure:
    (command,) = commands
    return command


def test_a_value_that_went_before_is_a_reference() -> None:
    encoder = Encoder(CACHED)
    command = SessionInfo(session_id=SessionId("connection", 1))
    assert len(encoder.encode(command)) > len(encoder.encode(command)) == 4 + 1 + 5 + 3


def test_null_is_cached_too() -> None:
    encoder, decoder = Encoder(CACHED), Decoder(CACHED)
    first, second = encoder.encode(RemoveInfo()), encoder.encode(RemoveInfo())
    assert len(first) == len(second) + 1
    assert plain(decoder.feed(first + second)) == plain([RemoveInfo(), RemoveInfo()])


def test_queue_and_topic_of_one_name_are_two_values() -> None:
    encoder, decoder = Encoder(CACHED), Decoder(CACHED)
    for kind in ("ActiveMQQueue", "ActiveMQTopic", "ActiveMQQueue"):
        where = Filling(12).structure(schema.type_named(kind))
        assert isinstance(where, (ActiveMQQueue, type(where)))
        where.physical_name = "SAME"
        (received,) = decoder.feed(encoder.encode(DestinationInfo(destination=where)))
        assert describe(received) == describe(DestinationInfo(destination=where))


def test_a_command_that_failed_leaves_no_reference_behind() -> None:
    encoder, decoder = Encoder(CACHED), Decoder(CACHED)
    target = BytesWriter()
    encoder.encode_into(target, KeepAliveInfo())
    where = ActiveMQQueue("ORDERS")
    with pytest.raises(Inexpressible):
        encoder.encode_into(target, DestinationInfo(destination=where, connection_id=ConnectionId("x" * 70_000)))
    too_late = MessageDispatch(destination=where, message=ActiveMQTextMessage(user_id="x" * 70_000))
    with pytest.raises(Inexpressible):
        encoder.encode_into(target, too_late)
    encoder.encode_into(target, DestinationInfo(destination=where))
    received = decoder.feed(target.getvalue())
    assert plain(received) == plain([KeepAliveInfo(), DestinationInfo(destination=where)])


# -- a message keeps its first encoding ----------------------------------------------------------------------------


def message(version: int, each: str = "ActiveMQTextMessage") -> Message:
    """Return a message that was read from a loose frame of ``version``, with every field filled."""
    made = Filling(version).structure(schema.type_named(each))
    assert isinstance(made, Message)
    made.data_structure = None
    wire_format = WireFormat(version=version)
    received = one(Encoder(wire_format).encode(made), wire_format)
    assert isinstance(received, Message)
    return received


@pytest.mark.parametrize("kind", ["ActiveMQTextMessage", "ActiveMQBlobMessage"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_passed_on_is_octet_by_octet_what_encoding_it_gives(version: int, kind: str) -> None:
    if schema.type_named(kind).since > version:
        return
    passed = message(version, kind)
    assert passed.first is not None
    assert passed.message_id is not None
    dispatch = MessageDispatch(
        command_id=9,
        response_required=True,
        consumer_id=ConsumerId("consumer", 1, 2),
        destination=ActiveMQQueue("Q"),
        message=passed,
        redelivery_counter=3,
    )
    passed.message_id.broker_sequence_id = 2**40 + 1
    passed.broker_in_time = 2**41 + 2
    passed.broker_out_time = 2**42 + 3
    passed.jmsx_group_first_for_consumer = not passed.jmsx_group_first_for_consumer
    encoder = Encoder(WireFormat(version=version))
    assert encoder.passes(passed.first)
    around = encoder.encode(dispatch)
    first, passed.first = passed.first, None
    assert encoder.encode(dispatch) == around
    assert first.octets in Encoder(WireFormat(version=version)).encode(decode_first(first))


def test_octets_go_where_the_layout_is_the_same_and_nowhere_else() -> None:
    first = message(12).first
    assert first is not None
    assert [Encoder(WireFormat(version=version)).passes(first) for version in VERSIONS] == [False] * 9 + [True] * 3
    assert not Encoder(TIGHT).passes(first)
    assert not Encoder(CACHED).passes(first)
    with pytest.raises(Fault):
        Encoder(TIGHT).dispatch_into(
            BytesWriter(), None, None, first, 0,
            broker_sequence_id=0, broker_in_time=0, broker_out_time=0, group_first=False,
        )  # fmt: skip


@pytest.mark.parametrize("target", [WireFormat(version=11), WireFormat(version=9), TIGHT, CACHED])
def test_a_message_reaches_a_connection_of_any_format(target: WireFormat) -> None:
    passed = message(12)
    received = one(Encoder(target).encode(MessageDispatch(message=passed)), target)
    assert isinstance(received, MessageDispatch)
    assert received.message is not None
    for field in schema.type_named("Message").fields:
        if field.travels(target.version) and field.name != "message_id":
            assert describe(getattr(received.message, field.name)) == describe(getattr(passed, field.name))
    assert received.message.message_id == passed.message_id


def test_a_message_keeps_nothing_where_octets_depend_on_the_connection() -> None:
    text = text_message("hello")
    text.message_id = MessageId(producer_id=ProducerId("c", 1, 1))
    kept = one(Encoder(LOOSE).encode(text))
    assert isinstance(kept, ActiveMQTextMessage)
    assert kept.first is not None
    assert text_of_body(kept) == "hello"
    for wire_format in (TIGHT, CACHED):
        other = one(Encoder(wire_format).encode(text), wire_format)
        assert isinstance(other, Message)
        assert other.first is None
    text.data_structure = ConnectionId("c")
    advisory = one(Encoder(LOOSE).encode(text))
    assert isinstance(advisory, Message)
    assert advisory.first is None
    (unwanted,) = Decoder(LOOSE, keep_encodings=False).feed(Encoder(LOOSE).encode(text_message("x")))
    assert isinstance(unwanted, Message)
    assert unwanted.first is None


# -- agreement -----------------------------------------------------------------------------------------------------


def test_the_format_switches_right_behind_the_offer() -> None:
    ours = offer_of(WireFormatOptions(tight_encoding_enabled=True, cache_enabled=True))
    theirs = offer_of(WireFormatOptions(tight_encoding_enabled=True, cache_enabled=True, version=9))
    decoder = Decoder(WireFormat.before_agreement(ours))
    peer = Encoder(WireFormat.before_agreement(theirs))
    octets = peer.encode(theirs)
    peer.switch(WireFormat(version=9, tight=True, cache_size=1024))
    octets += peer.encode(KeepAliveInfo(command_id=3)) + peer.encode(SessionInfo(session_id=SessionId("c", 2)))
    for chunks in ([octets], [octets[at : at + 1] for at in range(len(octets))]):
        decoder = Decoder(WireFormat.before_agreement(ours))
        received = [command for chunk in chunks for command in decoder.feed(chunk)]
        assert [type(command) for command in received] == [WireFormatInfo, KeepAliveInfo, SessionInfo]
        agreed = decoder.wire_format
        assert (agreed.version, agreed.tight, agreed.cache_size, agreed.offer) == (9, True, 1024, None)


def test_agreeing_on_no_size_prefix_holds_from_the_second_frame_on() -> None:
    offer = offer_of(WireFormatOptions(size_prefix_disabled=True))
    decoder, peer = Decoder(WireFormat.before_agreement(offer)), Encoder(WireFormat.before_agreement(offer))
    octets = peer.encode(offer)
    peer.switch(WireFormat(size_prefix=False))
    octets += peer.encode(KeepAliveInfo()) + peer.encode(Response(correlation_id=2))
    received = [command for at in range(len(octets)) for command in decoder.feed(octets[at : at + 1])]
    assert plain(received[1:]) == plain([KeepAliveInfo(), Response(correlation_id=2)])


def test_only_an_offer_may_come_first_and_only_once() -> None:
    offer = offer_of(WireFormatOptions())
    with pytest.raises(ProtocolViolation):
        Decoder(WireFormat.before_agreement(offer)).feed(Encoder(LOOSE).encode(KeepAliveInfo()))
    decoder = Decoder(WireFormat.before_agreement(offer))
    octets = Encoder(LOOSE).encode(offer)
    assert len(decoder.feed(octets + octets)) == 1
    with pytest.raises(ProtocolViolation):
        decoder.check()


def test_nothing_but_the_offer_is_written_before_the_agreement() -> None:
    offer = offer_of(WireFormatOptions())
    encoder = Encoder(WireFormat.before_agreement(offer))
    first = message(12).first
    assert first is not None
    assert not encoder.passes(first)
    with pytest.raises(Fault):
        encoder.encode(KeepAliveInfo())
    encoder.encode(offer)
    encoder.switch(WireFormat())
    encoder.encode(KeepAliveInfo())


def test_a_stranger_gets_little_memory() -> None:
    decoder = Decoder(WireFormat.before_agreement(offer_of(WireFormatOptions())))
    with pytest.raises(LimitExceeded):
        decoder.feed((FIRST_FRAME_OCTETS_MAX + 1).to_bytes(4, "big"))


# -- what a peer may not send --------------------------------------------------------------------------------------

HEADER = "00000000 00"  # command id, response required
HOSTILE: dict[str, tuple[WireFormat, str, type[PeerError]]] = {
    "an unknown type": (LOOSE, "0d" + HEADER, MalformedFrame),
    "a type above all": (LOOSE, "ff" + HEADER, MalformedFrame),
    "a type of a later version": (WireFormat(version=2), "13" + HEADER + "00 00000000", MalformedFrame),
    "octets left over": (LOOSE, "0a" + HEADER + "00", MalformedFrame),
    "an octet too few": (LOOSE, "0a 00000000", MalformedFrame),
    "a null frame with a body": (LOOSE, "00 00", MalformedFrame),
    "bits left over": (TIGHT, "0a 02 0000 00000000", MalformedFrame),
    "bits too few": (TIGHT, "0a 00 00000000", MalformedFrame),
    "bits longer than the frame": (TIGHT, "0a c0ff 00 00000000", MalformedFrame),
    "a length of bits in no form": (TIGHT, "0a 41 00 00000000", MalformedFrame),
    "bits of negative length": (TIGHT, "0a 80ffff 00 00000000", MalformedFrame),
    "a text longer than the frame": (LOOSE, "0e" + HEADER + "01 ffff 41", MalformedFrame),
    "a text that is none": (LOOSE, "0e" + HEADER + "01 0002 c0ff", MalformedFrame),
    "octets of negative length": (LOOSE, "70 00000000 01 ffffffff 00", MalformedFrame),
    "octets longer than the frame": (LOOSE, "70 00000000 01 7fffffff 00", MalformedFrame),
    "an array of negative length": (LOOSE, "21" + HEADER + "00000000 01 ffff", MalformedFrame),
    "an array longer than the frame": (LOOSE, "21" + HEADER + "00000000 01 7fff", MalformedFrame),
    "a null in an array": (LOOSE, "21" + HEADER + "00000000 01 0001 00", MalformedFrame),
    "a queue where a session id belongs": (LOOSE, "04" + HEADER + "01 64 01 0001 41", MalformedFrame),
    "a broker id array of connection ids": (
        LOOSE, "06" + HEADER + "00 00 01 0001 01 78 00" + "00 00000000", MalformedFrame,
    ),
    "a cache index above the cache": (CACHED, "04" + HEADER + "00 0400", MalformedFrame),
    "a new value above the cache": (CACHED, "04" + HEADER + "01 0400 00", MalformedFrame),
    "a cache index that was never filled": (CACHED, "04" + HEADER + "00 0000", MalformedFrame),
    "a wrong magic": (LOOSE, "01 4163746976654d50 0000000c 00", MalformedFrame),
    "a message marshalled apart": (TIGHT, "20 01 06 00000000 00000001 17", MalformedFrame),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_frames_are_refused(case: str) -> None:
    wire_format, octets, expected = HOSTILE[case]
    with pytest.raises(expected):
        Decoder(wire_format).feed(frame(bytes.fromhex(octets)))


@pytest.mark.parametrize("size", [0, -1, -(2**31)])
def test_a_frame_without_a_type_is_refused(size: int) -> None:
    with pytest.raises(MalformedFrame):
        Decoder(LOOSE).feed(size.to_bytes(4, "big", signed=True))


def test_a_null_frame_is_skipped() -> None:
    octets = frame(b"\0") + Encoder(LOOSE).encode(KeepAliveInfo())
    assert plain(Decoder(LOOSE).feed(octets)) == plain([KeepAliveInfo()])


def test_a_frame_may_be_as_large_as_the_limit_and_no_larger() -> None:
    octets = Encoder(LOOSE).encode(ControlCommand(command="x" * 100))
    size = len(octets) - 4
    assert one(octets, WireFormat(max_frame_size=size))
    with pytest.raises(LimitExceeded):  # as soon as the size is known
        Decoder(WireFormat(max_frame_size=size - 1)).feed(octets[:4])
    open_frame = octets[4:]
    assert one(open_frame, WireFormat(size_prefix=False, max_frame_size=size))
    with pytest.raises(LimitExceeded):
        Decoder(WireFormat(size_prefix=False, max_frame_size=size - 1)).feed(open_frame[:-1])


def test_deep_nesting_is_refused() -> None:
    nested: Structure = KeepAliveInfo()
    for _ in range(20):
        nested = DataResponse(data=nested)
    assert describe(one(Encoder(LOOSE).encode(nested))) == describe(nested)
    for _ in range(20):
        nested = DataResponse(data=nested)
    with pytest.raises(LimitExceeded):
        one(Encoder(LOOSE).encode(nested))


def test_deep_causes_are_refused() -> None:
    cause = Throwable("E", "m")
    for _ in range(50):
        cause = Throwable("E", "m", cause=cause)
    with pytest.raises(LimitExceeded):
        one(Encoder(LOOSE).encode(ExceptionResponse(exception=cause)))


def test_too_many_parts_are_refused() -> None:
    ids: list[Structure] = [ConnectionId("")] * 32_767
    one(Encoder(LOOSE).encode(DataArrayResponse(data=ids)))
    crowd = DataArrayResponse(data=[BrokerInfo(peer_broker_infos=[]) for _ in range(3)])
    inner: list[Structure] = list(ids)
    crowd.data = [DataArrayResponse(data=inner) for _ in range(ELEMENTS_MAX // 65_534 + 1)]
    with pytest.raises(LimitExceeded):
        one(Encoder(LOOSE).encode(crowd))


@pytest.mark.parametrize(
    "octets", ["70 00000000 01 06000000", "0e" + HEADER + "01 ffff", "21" + HEADER + "00000000 01 7fff"]
)
def test_lengths_that_lie_allocate_nothing(octets: str) -> None:
    tracemalloc.start()
    try:
        decoder = Decoder(WireFormat(size_prefix=False))
        decoder.feed(bytes.fromhex(octets))  # more may come: nothing is wrong yet
        with pytest.raises(MalformedFrame):
            Decoder(LOOSE).feed(frame(bytes.fromhex(octets)))
        big = Decoder(WireFormat(max_frame_size=2**30))
        big.feed((2**30).to_bytes(4, "big"))
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_commands_before_a_bad_frame_are_handed_out_first() -> None:
    decoder = Decoder(LOOSE)
    good = Encoder(LOOSE).encode(KeepAliveInfo())
    assert len(decoder.feed(good + good + frame(b"\x0d") + good)) == 2
    assert isinstance(decoder.failure, MalformedFrame)
    with pytest.raises(MalformedFrame):
        decoder.check()
    with pytest.raises(MalformedFrame):
        decoder.feed(good)


# -- what cannot be written ----------------------------------------------------------------------------------------


def test_a_frame_larger_than_agreed_is_not_sent() -> None:
    encoder = Encoder(WireFormat(max_frame_size=1000))
    target = BytesWriter()
    with pytest.raises(Inexpressible):
        encoder.encode_into(target, text_message("x" * 1000))
    assert len(target) == 0
    first = message(12).first
    assert first is not None
    with pytest.raises(Inexpressible):
        Encoder(WireFormat(max_frame_size=50)).encode(MessageDispatch(message=decode_first(first)))


@pytest.mark.parametrize(("wire_format", "longest"), [(LOOSE, 65_535), (TIGHT, 32_766)], ids=["loose", "tight"])
def test_a_text_has_the_length_that_its_prefix_can_say(wire_format: WireFormat, longest: int) -> None:
    command = ControlCommand(command="x" * longest)
    assert describe(one(Encoder(wire_format).encode(command), wire_format)) == describe(command)
    with pytest.raises(Inexpressible):
        Encoder(wire_format).encode(ControlCommand(command="x" * (longest + 1)))


def ids_with_bits(octets: int) -> DataArrayResponse:
    """Return a command whose tight frame has so many octets of bits: 2 bits, and 2 for each element."""
    return DataArrayResponse(data=[ConnectionId()] * (4 * octets - 1))


@pytest.mark.parametrize(
    ("octets", "marker"), [(1, "01"), (63, "3f"), (64, "c040"), (255, "c0ff"), (256, "800100"), (8192, "802000")]
)
def test_the_length_of_the_bits_has_three_forms(octets: int, marker: str) -> None:
    command = ids_with_bits(octets)
    written = Encoder(TIGHT).encode(command)
    assert written.hex()[10:].startswith(marker)
    assert describe(one(written, TIGHT)) == describe(command)


def test_more_bits_than_java_can_count_are_not_written() -> None:
    crowd = DataArrayResponse(data=[ids_with_bits(8192) for _ in range(5)])
    encoder = Encoder(TIGHT)
    with pytest.raises(Inexpressible):
        encoder.encode(crowd)
    assert describe(one(encoder.encode(KeepAliveInfo()), TIGHT)) == describe(KeepAliveInfo())


def test_version_1_cuts_the_messages_of_throwables() -> None:
    refusal = ExceptionResponse(exception=Throwable("E", "m" * 3000))
    for version, length in ((1, 1024), (2, 3000)):
        wire_format = WireFormat(version=version)
        received = one(Encoder(wire_format).encode(refusal), wire_format)
        assert isinstance(received, ExceptionResponse)
        assert received.exception is not None
        assert received.exception.message == "m" * length


def test_a_number_that_does_not_fit_its_octet_is_not_written() -> None:
    assert one(Encoder(LOOSE).encode(ConsumerInfo(priority=-128)))
    for priority in (128, -129):
        with pytest.raises(Inexpressible):
            Encoder(LOOSE).encode(ConsumerInfo(priority=priority))


@pytest.mark.parametrize("wire_format", [LOOSE, TIGHT], ids=["loose", "tight"])
def test_an_error_can_always_be_told(wire_format: WireFormat) -> None:
    refusal = ExceptionResponse(exception=Throwable("E", "\U0001f600" * 100_000))
    received = one(Encoder(wire_format).encode(refusal), wire_format)
    assert isinstance(received, ExceptionResponse)
    assert received.exception is not None
    assert received.exception.message == "\U0001f600" * THROWABLE_TEXT_MAX


def test_a_class_named_by_a_peer_stays_text() -> None:
    refusal = ExceptionResponse(exception=Throwable("os.system", "x"))
    received = one(Encoder(LOOSE).encode(refusal))
    assert isinstance(received, ExceptionResponse)
    assert received.exception == Throwable("os.system", "x")


@pytest.mark.parametrize("each", travelling(12), ids=lambda each: each.name)
def test_an_empty_one_of_each_type_comes_back_tight_and_loose(each: Type) -> None:
    for wire_format in (LOOSE, TIGHT, CACHED):
        octets = Encoder(wire_format).encode(Filling(12).structure(each, depth=9))
        assert describe(one(octets, wire_format)) == describe(Filling(12).structure(each, depth=9))


def test_a_blob_keeps_its_own_fields_behind_the_message() -> None:
    blob = ActiveMQBlobMessage(remote_blob_url="http://x/y", mime_type="a/b", deleted_by_broker=True)
    blob.broker_path = [BrokerId("b1"), BrokerId("b2")]
    assert describe(one(Encoder(LOOSE).encode(blob))) == describe(blob)
