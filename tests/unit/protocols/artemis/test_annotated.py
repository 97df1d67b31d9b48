"""What the broker adds to a message, as a client of Artemis reads it."""

from __future__ import annotations

from entrepot.base.primitive import BYTE, LONG, TEXT, Primitive
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.convert import presented
from entrepot.protocols.artemis.headers import headers_at, read_headers
from entrepot.protocols.artemis.properties import read_properties

from .wired import message


def test_a_dead_letter_has_the_properties_of_artemis_and_none_of_classic() -> None:
    kept = message_of(message("q", "x"), "")
    kept.annotate("_AMQ_ORIG_ADDRESS", "a")
    kept.annotate("_AMQ_ORIG_ROUTING_TYPE", "1")
    kept.annotate("_AMQ_ACTUAL_EXPIRY", "1700000000000")
    for name in ("originalExpiration", "deliveryCount"):
        kept.annotate(name, "3")
    kept.annotate("JMSXGroupFirstForConsumer", "true")
    kept.annotate("dlqDeliveryFailureCause", "why")
    octets = presented(kept, 1, "ID:1")
    found = read_properties(octets, read_headers(octets, headers_at(octets)).properties_at, typed=True)
    assert {name: value for name, value in found.items() if name != "_AMQ_ROUTING_TYPE"} == {
        "_AMQ_ORIG_ADDRESS": Primitive(TEXT, "a"),
        "_AMQ_ORIG_ROUTING_TYPE": Primitive(BYTE, 1),
        "_AMQ_ACTUAL_EXPIRY": Primitive(LONG, 1_700_000_000_000),
    }
