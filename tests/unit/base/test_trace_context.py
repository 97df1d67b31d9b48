"""W3C Trace Context: what is well-formed is read, what is not says nothing; octets are asked without opening them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.trace_context import (
    ABSENT,
    KEY,
    LENGTH,
    STATE_OCTETS_MAX,
    UNASKED,
    UNCLEAR,
    UNSAMPLED,
    WINDOW,
    parse,
    peek,
    said,
    state_of,
)
from entrepot.model.message import Message
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.headers import TYPE_TEXT
from entrepot.protocols.mqtt.convert import MQTT_LANGUAGE, packed
from entrepot.protocols.mqtt.schema import USER_PROPERTY
from entrepot.protocols.openwire.bodies import text_message
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from unit.protocols.amqp.test_convert import arrived
from unit.protocols.amqp.wired import encoded
from unit.protocols.artemis.test_convert import taken
from unit.protocols.openwire.test_convert import message as openwire

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
SAMPLED = said(TRACE, SPAN)
UNRECORDED = said(TRACE, SPAN, False)
MALFORMED = [
    "",
    "00",
    SAMPLED[:-1],
    SAMPLED + "0",
    SAMPLED + "-more",  # version 0 has no more
    SAMPLED.upper(),
    "ff" + SAMPLED[2:],
    said("0" * 32, SPAN),
    said(TRACE, "0" * 16),
    SAMPLED.replace("-", "_"),
    said("g" + TRACE[1:], SPAN),
    said("\N{ARABIC-INDIC DIGIT ONE}" * 32, SPAN),
    " " + SAMPLED,
    SAMPLED[:53] + "+1",
    "\0" * 55,
    "-" * 55,
    "a" * 1_000_000,
]


def test_what_is_well_formed_is_read() -> None:
    context = parse(SAMPLED)
    assert context is not None
    assert (context.trace, context.span, context.sampled, context.text()) == (TRACE, SPAN, True, SAMPLED)
    later = parse("cc" + SAMPLED[2:] + "-what-may-come")
    assert later is not None
    assert later.span == SPAN


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_the_flag_of_sampling_is_one_of_eight(flags: str, sampled: bool) -> None:
    context = parse(SAMPLED[:53] + flags)
    assert context is not None
    assert context.sampled is sampled


@pytest.mark.parametrize("text", [*MALFORMED, None, 7, b"00"])
def test_what_is_malformed_says_nothing(text: object) -> None:
    assert parse(text) is None


@given(st.text(alphabet="0123456789abcdef-gA\N{SNOWMAN}", min_size=50, max_size=60))
def test_no_text_is_read_that_could_not_be_written(text: str) -> None:
    context = parse(text)
    assert context is None or text.startswith(("00-" + context.trace, text[:3] + context.trace))


def test_a_tracestate_is_passed_on_if_it_can_be() -> None:
    assert state_of("vendor=a,other=b") == "vendor=a,other=b"
    assert [state_of(text) for text in ("a" * (STATE_OCTETS_MAX + 1), "a=\n", "ä=b", None, 5)] == [""] * 5


def stomp(headers: str, body: str = "hello") -> Message:
    head = f"{headers}\n".encode()
    made = Message(STOMP_LANGUAGE, "q", head + body.encode() + b"\0")
    made.body_at = len(head)
    return made


def mqtt(value: str) -> Message:
    raw, at = packed({USER_PROPERTY: [("k", "v"), ("traceparent", value)]}, b"body")
    made = Message(MQTT_LANGUAGE, "q", raw)
    made.body_at = at
    return made


def in_each_language(value: str) -> list[Message]:
    """Return a message of each protocol whose property is ``value``."""
    return [
        stomp(f"a:b\ntraceparent:{value}\n"),
        openwire(text_message("x" * 9000), k="v", traceparent=value, n=1),
        taken(TYPE_TEXT, text_body("x"), {"k": "v", "traceparent": value}),
        arrived(encoded("x", application={"k": "v", "traceparent": value})),
        arrived(encoded("x", annotations={"traceparent": value})),
        mqtt(value),
    ]


@pytest.mark.parametrize("which", range(6))
def test_each_language_tells_without_opening_the_message(which: int) -> None:
    def asked(value: str) -> int:
        return int(in_each_language(value)[which].language.context(in_each_language(value)[which]))

    assert asked(SAMPLED) == UNCLEAR
    assert asked(UNRECORDED) == UNSAMPLED
    digits = {digit: asked(SAMPLED[:-1] + digit) for digit in "0123456789abcdef"}
    assert digits == {digit: UNCLEAR if int(digit, 16) & 1 else UNSAMPLED for digit in digits}
    assert asked("too short") in (UNCLEAR, ABSENT)


@pytest.mark.parametrize("which", range(6))
def test_hostile_values_in_each_language_are_only_read_to_no_end(which: int) -> None:
    for text in MALFORMED:
        if len(text) < 60_000 and "\0" not in text and text.isascii():
            message = in_each_language(text)[which]
            assert message.language.context(message) in (UNCLEAR, UNSAMPLED, ABSENT)
            assert parse(message.fact("traceparent")) is None


def test_what_is_no_header_is_not_looked_at() -> None:
    assert stomp("a:b\n", f"traceparent:{SAMPLED}\n" * 9).language.context(stomp("a:b\n")) == ABSENT
    plain = Message(MQTT_LANGUAGE, "q", f"traceparent {SAMPLED}".encode())
    assert MQTT_LANGUAGE.context(plain) == ABSENT
    far = stomp("x:" + "y" * WINDOW + f"\ntraceparent:{SAMPLED}\n")
    assert far.language.context(far) == ABSENT, "what lies far behind many other headers is not looked for"


@given(st.binary(max_size=200), st.integers(0, 5))
def test_octets_of_any_kind_are_looked_through(octets: bytes, gap: int) -> None:
    assert peek(octets, 0, len(octets), gap) in (ABSENT, UNCLEAR, UNSAMPLED)
    assert peek(octets + b"traceparent" + octets, 0, 1 << 20, gap) in (UNCLEAR, UNSAMPLED)
    assert peek(b"traceparent" + b"-" * LENGTH, 0, 1 << 20, gap) in (UNCLEAR, UNSAMPLED)


@given(
    st.lists(
        st.one_of(
            st.just(KEY), st.just(KEY[:-1]), st.binary(max_size=9), st.text("tracepn", max_size=20).map(str.encode)
        )
    ),
    st.integers(0, 40),
    st.integers(0, 200),
)
def test_the_name_is_found_where_it_is(parts: list[bytes], start: int, end: int) -> None:
    octets = b"".join(parts)
    assert (peek(octets, start, end, 1) == ABSENT) is (octets.find(KEY, start, end) < 0)


@pytest.mark.parametrize("at", range(20))
def test_the_name_is_found_wherever_the_search_begins(at: int) -> None:
    assert peek(b"x" * at + KEY, 0, at + len(KEY), 1) == UNCLEAR
    assert peek(b"x" * at + KEY, 0, at + len(KEY) - 1, 1) == ABSENT
    assert peek(b"x" * at + KEY, 1, at + len(KEY), 1) == (UNCLEAR if at else ABSENT)


@pytest.mark.parametrize("which", range(1, 5))
def test_what_is_noted_when_a_message_comes_is_what_its_octets_say(which: int) -> None:
    for value in (SAMPLED, UNRECORDED, "nonsense"):
        message = in_each_language(value)[which]
        assert message.context in (UNASKED, message.language.context(message))


def test_a_message_of_each_protocol_without_a_context_says_so_when_it_comes() -> None:
    assert openwire(text_message("traceparent")).context == ABSENT
    assert taken(TYPE_TEXT, text_body("x"), {"k": "v", "temperature": 7, "transparent": "x"}).context == ABSENT
    assert arrived(encoded("traceparent")).context == ABSENT
    assert arrived(encoded("x", annotations={"k": "traceparent"})).context == ABSENT
