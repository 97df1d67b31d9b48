"""OpenWire as XML: what Java wrote is read to the same values as its frames, and nothing that is hostile is."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame
from entrepot.protocols.openwire.codec import Decoder
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTextMessage,
    BrokerInfo,
    ExceptionResponse,
    KeepAliveInfo,
    MessageAck,
    ProducerInfo,
)
from entrepot.protocols.openwire.describe import describe
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.markup import DEPTH_MAX, ELEMENTS_MAX, escape, parse, unescape
from entrepot.protocols.openwire.negotiation import WireFormat
from entrepot.protocols.openwire.xstream import PACKAGE, decode, encode

from .examples import commands, texts

VECTORS: Final = Path(__file__).parents[3] / "vectors" / "xstream-5.17.6.jsonl.gz"
NOT_IN_JAVA: Final = ("network_subscription", "network_consumer_path", "received_by_df_bridge")


def lines() -> list[dict[str, str]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


LINES: Final = lines()


def compared(value: Any, *, java: bool = False) -> Any:
    """Return plain data without what the XML does not carry. ``java``: nor what Java alone leaves out."""
    if isinstance(value, Structure):
        return compared(describe(value), java=java)
    if isinstance(value, list):
        return [compared(each, java=java) for each in value]
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if not isinstance(value, dict):
        return value
    kept = {name: compared(each, java=java) for name, each in value.items() if not java or name not in NOT_IN_JAVA}
    if kept["type"] == "Throwable":
        kept["stack"] = []
        kept["class_name"] = kept["class_name"] or "java.lang.Exception"
    kept.pop("poison_cause", None)
    return kept


def framed(line: dict[str, str]) -> Structure:
    (command,) = Decoder(WireFormat()).feed(bytes.fromhex(line["hex"]))
    return command


def test_the_vectors_hold_every_kind_of_command_twice() -> None:
    names = [line["cls"] for line in LINES]
    assert len(names) == 114
    assert {names.count(name) for name in names} == {2}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["cls"])
def test_what_java_wrote_is_what_its_frame_says(line: dict[str, str]) -> None:
    read = decode(line["xml"].encode())
    assert compared(read, java=True) == compared(framed(line), java=True)
    if not line["cls"].startswith("Journal"):
        assert compared(decode(encode(read))) == compared(read)


def test_java_says_why_a_message_was_given_up_and_where_an_exception_was_thrown() -> None:
    line = next(line for line in LINES if line["cls"] == "MessageAck")
    read, expected = decode(line["xml"].encode()), framed(line)
    assert isinstance(read, MessageAck)
    assert isinstance(expected, MessageAck)
    assert read.poison_cause == expected.poison_cause
    assert read.poison_cause is not None
    assert read.poison_cause.stack[0].line == 3


@given(commands(12))
def test_what_is_written_is_read_again(command: Structure) -> None:
    try:
        octets = encode(command)
    except Inexpressible:  # a destination without a name: Java cannot write one either
        return
    assert compared(decode(octets)) == compared(command)


@given(texts)
def test_any_text_survives(text: str) -> None:
    same = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert unescape(escape(text)) == same
    octets = encode(ProducerInfo(destination=ActiveMQQueue(text)))
    read = decode(octets)
    assert isinstance(read, ProducerInfo)
    assert read.destination == ActiveMQQueue(same)


def test_an_exception_is_one_that_java_may_read_and_keeps_its_name_for_us() -> None:
    command = ExceptionResponse(exception=Throwable("javax.jms.InvalidDestinationException", "no <such> thing"))
    octets = encode(command)
    assert b'<exception class="java.lang.Exception" of="javax.jms.InvalidDestinationException">' in octets
    read = decode(octets)
    assert isinstance(read, ExceptionResponse)
    assert read.exception == command.exception
    kept = encode(ExceptionResponse(exception=Throwable("java.lang.SecurityException", "no")))
    assert b'<exception class="java.lang.SecurityException"><' in kept


def test_a_producer_has_what_java_takes_for_granted() -> None:
    assert b"<sentCount>0</sentCount>" in encode(ProducerInfo())
    assert b"<readOnlyBody>true</readOnlyBody>" in encode(ActiveMQTextMessage())


# -- what others may write --------------------------------------------------------------------------------------------


def command(name: str, inner: str) -> bytes:
    return f"<{PACKAGE}{name}>{inner}</{PACKAGE}{name}>".encode()


def test_references_are_followed_by_name_and_by_number() -> None:
    name = f"{PACKAGE}BrokerInfo"
    peers = [f"<{name}><brokerId><value>P{number}</value></brokerId></{name}>" for number in (1, 2)]
    path = f"../peerBrokerInfos/{name}[2]/brokerId"
    # an element that names no field is passed over
    inner = f"<peerBrokerInfos>{''.join(peers)}</peerBrokerInfos><more><than/></more>"
    info = decode(command("BrokerInfo", inner + f'<brokerId reference="{path}"/>'))
    assert isinstance(info, BrokerInfo)
    assert info.broker_id is not None
    assert info.broker_id.value == "P2"


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"   ",
        b"text",
        b"\xff",
        b"<a>",
        b"</a>",
        b"<a></b>",
        b"<a/><a/>",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        b"<!-- no --><a/>",
        b"<a><![CDATA[x]]></a>",
        b"<?xml version='1.0'?><?php 1?><a/>",
        b"<java.lang.ProcessBuilder><command><string>true</string></command></java.lang.ProcessBuilder>",
        b"<org.apache.activemq.command.Message/>",
        b"<org.apache.activemq.command.Nothing/>",
        b"<org.apache.activemq.broker.BrokerService/>",
        command("KeepAliveInfo", "text<commandId>1</commandId>"),
        command("KeepAliveInfo", "<commandId>x</commandId>"),
        command("KeepAliveInfo", "<commandId>2147483648</commandId>"),
        command("KeepAliveInfo", "<commandId><a/></commandId>"),
        command("KeepAliveInfo", "<commandId>1</commandId"),
        command("KeepAliveInfo", "<responseRequired>maybe</responseRequired>"),
        command("ConnectionInfo", "<clientId>a & b</clientId>"),
        command("ConnectionInfo", "<clientId>&nbsp;</clientId>"),
        command("ConnectionInfo", "<clientId>&#x110000;</clientId>"),
        command("ConnectionInfo", '<connectionId class="org.apache.activemq.command.BrokerId"/>'),
        command("ConnectionInfo", '<connectionId class="javax.script.ScriptEngineManager"/>'),
        command("ConnectionInfo", '<connectionId reference="../nowhere"/>'),
        command("ConnectionInfo", '<connectionId reference="."/>'),
        command("ConnectionInfo", '<connectionId reference="../connectionId"/>'),
        command("ConnectionInfo", '<connectionId reference="../../../.."/>'),
        command("WireFormatInfo", "<magic>TVE=</magic>"),
        command("ConnectionControl", "<token>***</token>"),
        command("ActiveMQMessage", "<content><data>AAAA</data><offset>2</offset><length>2</length></content>"),
        command("ActiveMQMessage", "<content><data>AAAA</data><offset>-1</offset></content>"),
        command("ActiveMQMessage", "<destination><null/></destination>"),
        command("ProducerInfo", '<destination class="org.apache.activemq.command.ActiveMQQueue"/>'),
    ],
)
def test_what_is_not_ours_is_refused(octets: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode(octets)


def test_a_class_that_may_not_be_here_is_named() -> None:
    with pytest.raises(MalformedFrame, match=r"java\.lang\.ProcessBuilder"):
        decode(command("DataResponse", '<data class="java.lang.ProcessBuilder"><command/></data>'))


def test_depth_number_and_expansion_have_bounds() -> None:
    with pytest.raises(LimitExceeded):
        decode(command("KeepAliveInfo", "<a>" * (DEPTH_MAX + 1) + "</a>" * (DEPTH_MAX + 1)))
    with pytest.raises(LimitExceeded):
        parse("<a>" + "<b/>" * ELEMENTS_MAX + "</a>")
    with pytest.raises(LimitExceeded):
        parse("<a " + " ".join(f"a{number}='1'" for number in range(9)) + "/>")
    name = f"{PACKAGE}BrokerInfo"
    inner = f"<peerBrokerInfos><{name}/></peerBrokerInfos>"
    for _ in range(12):  # each doubles the one before
        inner = f"<peerBrokerInfos><{name}>{inner}</{name}><{name} reference='../{name}'/></peerBrokerInfos>"
    with pytest.raises(LimitExceeded):
        decode(command("BrokerInfo", inner))
    endless = f"<peerBrokerInfos><{name}><peerBrokerInfos reference='../..'/></{name}></peerBrokerInfos>"
    with pytest.raises((LimitExceeded, MalformedFrame)):
        decode(command("BrokerInfo", endless))


def test_the_prolog_and_white_space_between_elements_mean_nothing() -> None:
    octets = b"<?xml version='1.0'?>\n<org.apache.activemq.command.KeepAliveInfo>\n  <commandId> 7 </commandId>\n\n"
    read = decode(octets + b"</org.apache.activemq.command.KeepAliveInfo>\n")
    assert isinstance(read, KeepAliveInfo)
    assert read.command_id == 7


@given(st.binary(max_size=300) | st.sampled_from(LINES).map(lambda line: line["xml"].encode()), st.data())
def test_whatever_comes_nothing_else_is_raised(octets: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(octets)))
    changed = octets[:at] + data.draw(st.binary(max_size=4)) + octets[at + data.draw(st.integers(0, 8)) :]
    with contextlib.suppress(MalformedFrame, LimitExceeded):
        decode(changed)
