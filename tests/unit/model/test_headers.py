"""Properties that a transformer sets, as each protocol shows them."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from entrepot.base.errors import Refused
from entrepot.model import address as names
from entrepot.model.headers import ADD_HEADERS, added, headers_of, set_headers
from entrepot.model.message import Message
from entrepot.protocols.amqp.convert import message_of
from entrepot.protocols.amqp.presenting import passes, presented
from entrepot.protocols.amqp.sections import APPLICATION_PROPERTIES, map_in, scan, write_table
from entrepot.protocols.artemis.arriving import message_of as of_core
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.headers import Headers, assembled

HEADERS = headers_of(ADD_HEADERS, {"colour": "red", "new": "1"})
VALUE = b"\x00\x53\x77\xa1\x01x"


def of_amqp(head: bytes = b"") -> Message:
    return message_of(b"\x00\x53\x70\x45" + head + VALUE, 0).message


def application(properties: dict[str, object]) -> bytes:
    out = BytesWriter()
    write_table(out, APPLICATION_PROPERTIES, properties, False)
    return bytes(out.getvalue())


def shown(message: Message) -> tuple[dict[object, object], dict[object, object], bytes]:
    """Return annotations, properties and body of a message as AMQP shows it."""
    octets = presented(message, 0, names.ANYCAST, "id", 0)
    found = scan(octets)
    return map_in(octets, found.annotations_at), map_in(octets, found.application_at), octets[found.body_start :]


def test_amqp_has_them_among_the_properties_of_the_program() -> None:
    for head, had in ((b"", {}), (application({"colour": "blue", "n": 7}), {"n": 7})):
        message = of_amqp(head)
        set_headers(message, HEADERS)
        assert not passes(message, 0)
        annotations, properties, body = shown(message)
        assert annotations == {}
        assert properties == {**had, "colour": "red", "new": "1"}
        assert body == VALUE
        assert message.fact("colour") == "red"


def test_a_message_of_another_language_has_them_in_amqp() -> None:
    octets = assembled(text_body("x"), Headers(), {"colour": "blue", "n": "7"})
    message = of_core(octets, "Q")
    set_headers(message, HEADERS)
    message.annotate("other", "said by the broker")
    annotations, properties, _ = shown(message)
    assert (properties["colour"], properties["new"], properties["n"]) == ("red", "1", "7")
    assert "x-opt-colour" not in annotations
    assert annotations["x-opt-other"] == "said by the broker"


def test_two_transformers_after_one_another_both_count() -> None:
    message = of_amqp()
    set_headers(message, HEADERS)
    set_headers(message, (("colour", "green"), ("third", "")))
    assert added(message.need_rare()) == ["colour", "new", "third"]
    assert shown(message)[1] == {"colour": "green", "new": "1", "third": ""}


@pytest.mark.parametrize(
    ("name", "properties", "why"),
    [
        ("x.Y", {}, "the transformer x.Y cannot run"),
        (ADD_HEADERS, {"": "x"}, "cannot set the property ''"),
        (ADD_HEADERS, {"a\nb": "x"}, "cannot set the property"),
        (ADD_HEADERS, {"JMSXGroupID": "x"}, "cannot set the property 'JMSXGroupID'"),
        (ADD_HEADERS, {f"{number}": "" for number in range(101)}, "sets 101 properties"),
        (ADD_HEADERS, {"a": "x" * 70_000}, "70001 octets"),
    ],
)
def test_what_cannot_be_is_refused(name: str, properties: dict[str, str], why: str) -> None:
    with pytest.raises(Refused, match=why):
        headers_of(name, properties)
