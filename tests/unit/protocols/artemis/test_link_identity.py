"""What a message of OpenWire keeps of itself when it crosses to another broker over CORE, and what comes back of it."""

from __future__ import annotations

from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.convert import (
    CORE_LANGUAGE,
    OPENWIRE_ID,
    OPENWIRE_ORIGINAL,
    OPENWIRE_USER,
    REPLY_TO,
    ROUTING_ANYCAST,
    presented,
)
from entrepot.protocols.artemis.headers import TYPE_TEXT, Headers, assembled, headers_at, properties_at
from entrepot.protocols.artemis.properties import read_properties
from entrepot.protocols.artemis.user_ids import identity_of, user_id_of
from entrepot.protocols.openwire import convert as openwire
from entrepot.protocols.openwire.bodies import pack_properties, text_message
from entrepot.protocols.openwire.commands import ActiveMQQueue, ActiveMQTempQueue, ActiveMQTopic, MessageId, ProducerId
from entrepot.protocols.openwire.ids import text_of
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE

QUEUE = ActiveMQQueue("orders")
PRODUCER = ProducerId("ID:host-40000-17-0:1", 1, 2)
IDENTITY = "ID:host-40000-17-0:1:2:1:9"


def sent() -> Message:
    """Return what came in over OpenWire with all that is to be kept."""
    made = text_message("hello")
    made.producer_id = PRODUCER
    made.message_id = MessageId(producer_id=PRODUCER, producer_sequence_id=9)
    made.destination = QUEUE
    made.original_destination = ActiveMQTopic("news")
    made.reply_to = ActiveMQTempQueue("ID:host:1:1")
    made.correlation_id = "request 7"
    made.jms_type = "invoice"
    made.user_id = "ann"
    made.group_id = "g"
    made.group_sequence = 3
    made.marshalled_properties = pack_properties({"number": 1})
    message = openwire.message_of(made, "orders")
    message.number = 6
    return message


def crossed(message: Message, identity: str = IDENTITY) -> Message:
    """Return ``message`` as the broker at the other end of a link has it."""
    came = message_of(presented(message, ROUTING_ANYCAST, identity), "")
    came.number = 77
    return came


def test_an_identity_and_all_that_goes_with_it_crosses() -> None:
    came = crossed(sent())
    assert came.language is CORE_LANGUAGE
    assert CORE_LANGUAGE.identity(came) == IDENTITY
    assert CORE_LANGUAGE.fact(came, "JMSMessageID") == IDENTITY
    heard = openwire.presented(came, QUEUE, CORE_LANGUAGE.identity(came), "node", None)
    assert heard.message_id is not None
    assert text_of(heard.message_id) == IDENTITY
    assert heard.original_destination == ActiveMQTopic("news")
    assert heard.reply_to == ActiveMQTempQueue("ID:host:1:1")
    assert (heard.correlation_id, heard.jms_type, heard.user_id) == ("request 7", "invoice", "ann")
    assert (heard.group_id, heard.group_sequence) == ("g", 3)
    assert came.common().properties == {"number": 1, "JMSXGroupID": "g", "JMSXGroupSeq": 3}


def test_it_crosses_a_second_link_as_it_came() -> None:
    first = crossed(sent())
    again = message_of(presented(first, ROUTING_ANYCAST, CORE_LANGUAGE.identity(first)), "")
    assert CORE_LANGUAGE.identity(again) == IDENTITY


def test_what_artemis_hands_on_is_read() -> None:
    """It gives such a message an id of CORE, too, which none but clients of CORE see."""
    headers = Headers()
    headers.address = "orders"
    headers.kind = TYPE_TEXT
    headers.user_id = bytes.fromhex("3d3a9eefeb5711f1a10b027c32b4bb9a")
    kept: dict[str, object] = {
        OPENWIRE_ID: IDENTITY,
        OPENWIRE_ORIGINAL: "topic://news",
        OPENWIRE_USER: "ann",
        "__HDR_ARRIVAL": 0,
        "__HDR_DROPPABLE": False,
        "number": 1,
    }
    came = message_of(assembled(text_body("hello"), headers, kept), "")
    assert CORE_LANGUAGE.identity(came) == IDENTITY
    assert CORE_LANGUAGE.fact(came, "AMQUserID") == "ID:3d3a9eef-eb57-11f1-a10b-027c32b4bb9a"
    heard = openwire.presented(came, QUEUE, IDENTITY, "node", None)
    assert heard.original_destination == ActiveMQTopic("news")
    assert heard.user_id == "ann"
    assert came.common().properties == {"number": 1}


def test_what_goes_to_artemis_is_in_its_words() -> None:
    octets = presented(sent(), ROUTING_ANYCAST, IDENTITY)
    said = read_properties(octets, properties_at(octets, headers_at(octets)))
    assert said[OPENWIRE_ID] == IDENTITY
    assert said[OPENWIRE_ORIGINAL] == "topic://news"
    assert said[REPLY_TO] == "temp-queue://ID:host:1:1"
    assert said[OPENWIRE_USER] == "ann"


def test_a_message_of_another_language_has_nothing_of_openwire() -> None:
    message = Message(STOMP_LANGUAGE, "orders", b"colour:red\n\nbody\0")
    octets = presented(message, ROUTING_ANYCAST, "ID:node:-1:1:5")
    said = read_properties(octets, properties_at(octets, headers_at(octets)))
    assert not [name for name in said if name.startswith("__HDR_")]


def test_a_message_that_crossed_before_this_was_kept_has_the_id_that_it_had() -> None:
    headers = Headers()
    headers.address = "orders"
    headers.user_id = user_id_of(IDENTITY)
    message = message_of(assembled(b"", headers, {}), "")
    assert CORE_LANGUAGE.identity(message) == identity_of(headers.user_id)


def test_the_name_of_the_property_in_a_value_is_no_id() -> None:
    headers = Headers()
    headers.address = "orders"
    headers.user_id = bytes(range(16))
    message = message_of(assembled(b"", headers, {"name": OPENWIRE_ID}), "")
    assert CORE_LANGUAGE.identity(message) == identity_of(headers.user_id)


def test_what_nobody_has_to_escape_is_what_stands_behind_its_beginning() -> None:
    assert CORE_LANGUAGE.digits(crossed(sent())) == b"", "it has an id of OpenWire"
    headers = Headers()
    headers.user_id = user_id_of(IDENTITY)
    message = message_of(assembled(b"", headers, {}), "")
    digits = CORE_LANGUAGE.digits(message)
    assert f"ID:{digits.decode()}" == CORE_LANGUAGE.identity(message)
    assert not set(digits) - set(b"0123456789abcdef-")
    headers.user_id = b""
    assert CORE_LANGUAGE.digits(message_of(assembled(b"", headers, {}), "")) == b""
    assert STOMP_LANGUAGE.digits(message) == b""
