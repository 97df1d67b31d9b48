"""What a SEND carries, walked through once, compared with what the readers of headers and properties find in it."""

from __future__ import annotations

import random

import pytest

from entrepot.base import primitive
from entrepot.base.errors import MalformedFrame
from entrepot.base.primitive import Primitive
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import Arriving, message_of
from entrepot.protocols.artemis.convert import routing_of
from entrepot.protocols.artemis.headers import (
    TYPE_BYTES,
    Headers,
    assembled,
    headers_at,
    kind_before,
    number_at,
    properties_at,
    properties_in,
    read_headers,
)

USER = bytes(range(16))
BETWEEN_NODES = {
    "_AMQ_BRIDGE_DUP": b"once",
    "_AMQ_ROUTE_TO": b"queue-id",
    "_AMQ_SCALEDOWN_TO": b"further",
    "_AMQ_ACK_ROUTE_TO": b"taken-id",
}
OF_CLIENTS: dict[str, object] = {
    "_AMQ_ROUTING_TYPE": Primitive(primitive.BYTE, 1),
    "_AMQ_GROUP_ID": "g",
    "__AMQ_CID": "c-1",
    "": "no name",
    "x": None,
    "colour": "red",
    "count": 7,
    "ratio": 0.5,
    "flag": True,
    "octets": b"\0\1",
}


def octets_of(properties: dict[str, object], address: str | None = "orders", user: bytes = USER) -> bytes:
    headers = Headers()
    headers.number = 77
    headers.address = address
    headers.user_id = user
    headers.kind = TYPE_BYTES
    headers.durable = True
    headers.expiration = 5
    headers.timestamp = 6
    headers.priority = 3
    return assembled(b"body", headers, properties)


@pytest.mark.parametrize("seed", range(60))
def test_what_nodes_tell_each_other_goes_wherever_it_stands_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    names = chance.sample([*BETWEEN_NODES, *OF_CLIENTS], chance.randrange(15))
    if seed % 2:
        names.sort(key=BETWEEN_NODES.__contains__)  # where a bridge appends it
    said = {**OF_CLIENTS, **BETWEEN_NODES}
    message = message_of(octets_of({name: said[name] for name in names}), "")
    kept = {name: said[name] for name in names if name not in BETWEEN_NODES}
    assert message.raw == octets_of(kept)
    rare = message.rare
    internal = {name for name in names if name in BETWEEN_NODES and name != "_AMQ_BRIDGE_DUP"}
    assert (set() if rare is None else set(rare.internal or {})) == internal
    assert (rare is not None and rare.bridged) == ("_AMQ_BRIDGE_DUP" in names)


def test_one_reader_tells_addresses_and_routing_types_apart() -> None:
    arriving = Arriving()
    for address, routing in (("a", 1), ("a", 0), ("ab", 1), (None, 0), ("a", 1), ("", -1), ("\udc80", 1)):
        said = {} if routing < 0 else {"_AMQ_ROUTING_TYPE": Primitive(primitive.BYTE, routing)}
        for user in (USER, b""):
            message = arriving.message(octets_of(said, address, user), "default")
            assert message.address == ("default" if address is None else address)
            assert (arriving.routing, routing_of(message)) == (routing, routing)
            assert (message.durable, message.expiration, message.timestamp, message.priority) == (True, 5, 6, 3)


def test_the_short_ways_find_what_the_whole_headers_say() -> None:
    for address in ("orders", None):
        for user in (USER, b""):
            octets = octets_of(OF_CLIENTS, address, user)
            at = headers_at(octets)
            whole = read_headers(octets, at)
            behind = properties_at(octets, at)
            assert (number_at(octets, at), behind, kind_before(octets, behind)) == (
                whole.number,
                whole.properties_at,
                whole.kind,
            )


def test_a_message_that_ends_anywhere_is_refused_in_words() -> None:
    whole = octets_of({**OF_CLIENTS, **BETWEEN_NODES})
    for length in range(len(whole)):
        with pytest.raises(MalformedFrame):
            message_of(whole[:length], "")


@pytest.mark.parametrize("seed", range(300))
def test_octets_that_were_changed_are_read_as_before_or_refused(seed: int) -> None:
    """Whoever takes a message can read it later: what the walk lets in, the readers of properties read."""
    chance = random.Random(seed)
    octets = bytearray(octets_of({**OF_CLIENTS, **BETWEEN_NODES}))
    for _ in range(chance.randrange(1, 4)):
        octets[chance.randrange(len(octets))] = chance.choice((0, 1, 4, 10, 11, 12, 127, 128, 255))
    try:
        message = message_of(bytes(octets), "")
    except MalformedFrame:
        return
    why = objection(message.raw)
    assert not why or "16-bit units" in why, "texts are looked at by who reads them"


def objection(octets: bytes) -> str:
    """Return why the properties of a message cannot be read, "" if they can."""
    try:
        properties_in(octets)
    except MalformedFrame as error:
        return error.message
    return ""


def test_one_reader_is_not_misled_by_what_the_last_message_said_in_which_order() -> None:
    arriving = Arriving()
    chance = random.Random(7)
    known = {"_AMQ_GROUP_ID": "g", "_AMQ_DUPL_ID": b"of its sender", "_AMQ_OTHER": 5, **BETWEEN_NODES}
    for _ in range(200):
        said = {name: known[name] for name in chance.sample(list(known), chance.randrange(len(known) + 1))}
        octets = octets_of(said)
        one, other = arriving.message(octets, ""), message_of(octets, "")
        assert (one.raw, rare_of(one)) == (other.raw, rare_of(other))


def rare_of(message: Message) -> object:
    """Return what the broker itself knows of ``message``."""
    rare = message.rare
    return rare and (rare.group, rare.duplicate_id, rare.bridged, rare.internal)
