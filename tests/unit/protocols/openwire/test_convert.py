"""What OpenWire and STOMP make of one another's messages (classic.md 6.3)."""

from __future__ import annotations

import json

import pytest

from entrepot.base.primitive import SHORT, TEXT, Primitive
from entrepot.model.message import BODY_BYTES, BODY_TEXT, Common, Message
from entrepot.model.predicate import compile_selector
from entrepot.protocols.openwire.bodies import (
    bytes_message,
    map_message,
    map_of_body,
    object_message,
    pack_properties,
    properties_of,
    stream_message,
    text_message,
    text_of_body,
)
from entrepot.protocols.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTextMessage,
    ActiveMQTopic,
    BrokerId,
    MessageId,
    ProducerId,
)
from entrepot.protocols.openwire.commands import Message as Command
from entrepot.protocols.openwire.convert import OPENWIRE_LANGUAGE, decode, message_of, presented, times_mark
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE, tail_of

PRODUCER = ProducerId("ID:c", 1, 1)


def message(command: Command, **properties: object) -> Message:
    command.message_id = MessageId(producer_id=PRODUCER, producer_sequence_id=5)
    command.producer_id = PRODUCER
    command.destination = ActiveMQQueue("q")
    if properties:
        command.marshalled_properties = pack_properties(properties)
    return message_of(command, "q")


def stomp(head: bytes, body: bytes) -> Message:
    made = Message(STOMP_LANGUAGE, "q", head + b"\n" + body + b"\0")
    made.body_at = len(head) + 1
    made.number = 9
    return made


def said(command: Command, **properties: object) -> Common:
    return message(command, **properties).common()


def test_texts_stay_texts_and_octets_octets() -> None:
    text = said(text_message("a\0é😀"), colour="red", size=Primitive(SHORT, 3), on=True)
    assert (text.body_kind, text.body) == (BODY_TEXT, "a\0é😀")
    assert text.properties == {"colour": "red", "size": 3, "on": True}
    octets = said(bytes_message(b"\0\xff"))
    assert (octets.body_kind, octets.body) == (BODY_BYTES, b"\0\xff")
    assert b"content-length:2\n" in tail_of(message(bytes_message(b"\0\xff")))[0]
    assert b"content-length" not in tail_of(message(text_message("plain")))[0]


def test_maps_are_json_over_stomp() -> None:
    tail, at = tail_of(message(map_message({"name": "x", "number": 7, "real": 1.5})))
    assert json.loads(tail[at:-1]) == {"name": "x", "number": 7, "real": 1.5}
    tail, at = tail_of(message(stream_message([1, "two"])))
    assert json.loads(tail[at:-1]) == [1, "two"]


def test_who_asks_for_a_form_of_activemq_gets_it() -> None:
    sent = message(map_message({"n": Primitive(SHORT, 5)}), colour="red")
    tail, at = tail_of(sent)
    assert b"transformation" not in tail[:at]
    assert b"content-type:application/json\n" in tail[:at]
    tail, at = tail_of(sent, "jms-json")
    assert tail[at:-1] == b'{"map":{"entry":{"string":"n","short":5}}}'
    assert {b"transformation:jms-map-json", b"colour:red"} <= set(tail[:at].split(b"\n"))
    tail, at = tail_of(sent, "jms-map-xml")
    assert tail[at:-1].startswith(b"<map>\n  <entry>\n    <string>n</string>\n    <short>5</short>")
    tail, at = tail_of(message(object_message(b"\xac\xed\0\5t\0\1xy")), "jms-json")
    assert (b"transformation:jms-object-json\n" in tail[:at], tail[at:-1]) == (True, b'{"string":"x"}')
    tail, at = tail_of(message(text_message("x")), "jms-json")
    assert (b"transformation:jms-json\n" in tail[:at], tail[at:-1]) == (True, b"x")


def test_what_has_no_form_comes_as_if_nobody_had_asked() -> None:
    for command, asked, body in (
        (stream_message([1, "two"]), "jms-json", b'[1, "two"]'),
        (object_message(b"\xac\xed\0\5sr"), "jms-json", b"\xac\xed\0\5sr"),
        (map_message({"a": 1}), "jms-strange", b'{"a": 1}'),
    ):
        tail, at = tail_of(message(command), asked)
        assert tail[at:-1] == body
        assert b"transformation-error:" in tail[:at]
        assert b"transformation:" not in tail[:at]
    tail, at = tail_of(message(bytes_message(b"x")), "jms-json")
    assert (b"transformation" in tail[:at], tail[at:-1]) == (False, b"x")


def test_what_stomp_says_in_a_form_is_a_map_to_java() -> None:
    text = b'{"map":{"entry":[{"string":"n","short":5},{"string":["name","x"]}]}}'
    made = presented(stomp(b"transformation:jms-map-json\n", text), ActiveMQQueue("q"), "ID:node:9", "node", None)
    assert isinstance(made, ActiveMQMapMessage)
    assert map_of_body(made, typed=True) == {"n": Primitive(SHORT, 5), "name": Primitive(TEXT, "x")}
    assert properties_of(made) == {"transformation": "jms-map-json"}
    as_text = b"<string>x</string>"
    made = presented(stomp(b"transformation:jms-object-xml\n", as_text), ActiveMQQueue("q"), "i", "n", None)
    assert isinstance(made, ActiveMQObjectMessage)
    assert made.content == b"\xac\xed\0\5t\0\1x"
    made = presented(stomp(b"transformation:jms-map-json\n", b"none"), ActiveMQQueue("q"), "i", "n", None)
    assert isinstance(made, ActiveMQTextMessage)
    assert text_of_body(made) == "none"
    assert set(properties_of(made)) == {"transformation", "transformation-error"}
    sized = b"transformation:jms-map-json\ncontent-length:4\n"
    assert isinstance(presented(stomp(sized, b"none"), ActiveMQQueue("q"), "i", "n", None), ActiveMQBytesMessage)


def test_stomp_readers_ask_for_what_stomp_said_in_another_form() -> None:
    sent = stomp(b"transformation:jms-map-json\ncolour:red\n", b'{"map":{"entry":{"string":"n","short":5}}}')
    tail, at = tail_of(sent, "jms-xml")
    assert b"<short>5</short>" in tail[at:]
    assert sorted(tail[:at].split()) == [b"colour:red", b"transformation:jms-map-xml"]


def test_a_body_that_cannot_be_read_is_octets_to_others() -> None:
    sent = message(ActiveMQTextMessage(content=b"\x7f\xff\xff\xffabc"), colour="red")
    assert sent.common().body == b"\x7f\xff\xff\xffabc"
    assert sent.common().properties == {"unreadable": "a text body ends too early", "colour": "red"}
    tail, at = tail_of(sent, "jms-json")
    assert {b"unreadable:a text body ends too early", b"content-length:7"} <= set(tail[:at].split(b"\n"))
    assert tail[at:-1] == b"\x7f\xff\xff\xffabc"


def test_headers_cross_with_their_meaning() -> None:
    command = text_message("x")
    command.correlation_id = "c"
    command.jms_type = "t"
    command.reply_to = ActiveMQTempQueue("ID:c:1")
    tail, _ = tail_of(message(command))
    assert {b"correlation-id:c", b"type:t", b"reply-to:/remote-temp-queue/ID\\cc\\c1"} <= set(tail.split(b"\n"))


def test_the_path_through_a_network_is_shown_to_readers() -> None:
    command = text_message("x")
    assert message(command).common().path == []
    command.broker_path = [BrokerId("A"), BrokerId("B")]
    crossed = message(command)
    assert crossed.common().path == ["A", "B"]
    assert b"broker-path:A,B" in tail_of(crossed)[0].split(b"\n")


def test_what_stomp_says_java_reads() -> None:
    head = b"correlation-id:c\nreply-to:/topic/answers\ntype:t\ncolour:red\n"
    made = presented(stomp(head, "é".encode()), ActiveMQQueue("q"), "ID:node:9", "node", None)
    assert isinstance(made, ActiveMQTextMessage)
    assert text_of_body(made) == "é"
    assert (made.correlation_id, made.jms_type, made.reply_to) == ("c", "t", ActiveMQTopic("answers"))
    assert properties_of(made) == {"colour": "red"}
    assert made.message_id is not None
    assert (made.message_id.text_view, made.message_id.broker_sequence_id) == ("ID:node:9", 9)
    octets = presented(stomp(b"content-length:3\n", b"\0\1\2"), ActiveMQQueue("q"), "ID:node:9", "node", None)
    assert isinstance(octets, ActiveMQBytesMessage)
    assert octets.content == b"\0\1\2"


def test_a_reply_to_that_is_no_destination_stays_a_property() -> None:
    made = presented(stomp(b"reply-to:somebody\n", b"x"), ActiveMQQueue("q"), "ID:node:9", "node", None)
    assert made.reply_to is None
    assert properties_of(made) == {"reply-to": "somebody"}


@pytest.mark.parametrize(
    ("selector", "verdict"),
    [
        ("size = 3 AND on", True),
        ("JMSMessageID = 'ID:c:1:1:5'", True),
        ("JMSType = 't' AND JMSCorrelationID IS NULL", True),
        ("JMSDestination = 'queue://q'", True),
        ("JMSXGroupID = 'g' AND JMSXGroupSeq = 2", True),
        ("colour = 'blue'", False),
    ],
)
def test_selectors_ask_the_first_encoding(selector: str, verdict: bool) -> None:
    command = text_message("x")
    command.jms_type = "t"
    command.group_id = "g"
    command.group_sequence = 2
    assert compile_selector(selector).matches(message(command, size=3, on=True, colour="red")) is verdict


def test_a_copy_shows_where_it_was_and_what_was_added() -> None:
    kept = message(text_message("x"), number=Primitive(SHORT, 3))
    copy = kept.twin("ActiveMQ.DLQ")
    copy.annotate("dlqDeliveryFailureCause", "why")
    copy.annotate("originalExpiration", "123")
    made = presented(copy, ActiveMQQueue("ActiveMQ.DLQ"), "id", "node", None)
    assert (made.destination, made.original_destination) == (ActiveMQQueue("ActiveMQ.DLQ"), ActiveMQQueue("q"))
    typed = properties_of(made, typed=True)
    assert typed["number"] == Primitive(SHORT, 3)
    assert properties_of(made)["dlqDeliveryFailureCause"] == "why"
    assert properties_of(made)["originalExpiration"] == 123


def test_what_is_kept_can_be_read_again_whatever_it_carries() -> None:
    blob = ActiveMQBlobMessage(remote_blob_url="http://x", mime_type="text/plain")
    kept = message(blob)
    found = decode(kept.raw)
    assert isinstance(found, ActiveMQBlobMessage)
    assert found.remote_blob_url == "http://x"
    assert times_mark(kept.raw) == found.mark_times
    advisory = ActiveMQMessage(data_structure=ActiveMQTopic("about"))
    kept = message(advisory)
    assert kept.escaped
    assert decode(kept.raw).data_structure == ActiveMQTopic("about")
    assert OPENWIRE_LANGUAGE.identity(kept) == "ID:c:1:1:5"


def test_the_identity_is_that_of_each_message_whoever_sent_the_one_before() -> None:
    def identity(of: MessageId) -> str:
        command = ActiveMQMessage(message_id=of, producer_id=of.producer_id, destination=ActiveMQQueue("q"))
        kept = message_of(command, "q")
        prefix = OPENWIRE_LANGUAGE.prefix(kept)
        given = OPENWIRE_LANGUAGE.identity(kept)
        split = of.text_view is None and of.producer_sequence_id >= 0
        assert (prefix + str(OPENWIRE_LANGUAGE.sequence(kept)) if split else "") == (given if split else prefix)
        return given

    producers = [("ID:c:1", 1, 1), ("ID:c:1", 2, 1), ("ID:c:1", 2, 3), ("ID:d:1", 2, 3), ("", 0, 0), ("ID:c:1", 1, 1)]
    for connection, session, value in producers:
        producer = ProducerId(connection_id=connection, session_id=session, value=value)
        for sequence in (9, 10, -1):
            given = identity(MessageId(producer_id=producer, producer_sequence_id=sequence))
            assert given == f"{connection}:{session}:{value}:{sequence}"
            named = MessageId(producer_id=producer, producer_sequence_id=sequence, text_view="ID:mine")
            assert identity(named) == "ID:mine"
