"""What the other broker is told with a message, however that came in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base import primitive
from entrepot.base.primitive import Primitive
from entrepot.core.addressing.binding import ONWARD_ID, ROUTE_TO
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.headers import TYPE_TEXT, Headers, assembled, headers_at, properties_in, read_headers
from entrepot.protocols.artemis.linking.crossing import DATED, Crossing
from entrepot.protocols.artemis.user_ids import user_id_of
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from kit import Rig

ROUTING = "_AMQ_ROUTING_TYPE"
DUPLICATE = "_AMQ_BRIDGE_DUP"
DATE = "_AMQ_SCHED_DELIVERY"
BYTE = primitive.BYTE


def over_stomp() -> Message:
    """Return a body alone."""
    message = Message(STOMP_LANGUAGE, "orders", b"\nhello\0")
    message.body_at = 1
    return message


def with_headers() -> Message:
    """Return one with headers, of which one has the name of a property between brokers."""
    head = b"_AMQ_ROUTING_TYPE:7\ncolour:red\n"
    message = Message(STOMP_LANGUAGE, "orders", head + b"\nhello\0")
    message.body_at = len(head) + 1
    return message


def over_core() -> Message:
    """Return one that goes on as it came."""
    headers = Headers()
    headers.address = "orders"
    headers.kind = TYPE_TEXT
    said: dict[str, object] = {ROUTING: Primitive(BYTE, 0), "colour": "red", DATE: Primitive(primitive.LONG, 5)}
    return message_of(assembled(text_body("hello"), headers, said), "")


def changed() -> Message:
    """Return one of CORE that is written anew."""
    message = over_core()
    message.language.changed(message)
    return message


MAKERS: list[Callable[[], Message]] = [over_stomp, with_headers, over_core, changed]
"""All ways in which the octets of a message come about."""


def found(broker: BrokerCore) -> Queue:
    """Return the queue in which it waits."""
    return broker.queues.need(Destination("orders", ANYCAST))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("routing", ["PASS", "STRIP", "ANYCAST", "MULTICAST"])
@pytest.mark.parametrize("deduplicates", [True, False])
@pytest.mark.parametrize("forwards", ["", "elsewhere"])
def test_a_bridge_says_the_routing_type_and_the_id_once(
    make: Callable[[], Message], routing: str, deduplicates: bool, forwards: str
) -> None:
    broker = Rig().broker
    message = make()
    message.number = 9
    crossing = Crossing(broker, forwards, routing, deduplicates=deduplicates, mark=b"m")
    octets = crossing.octets(message, found(broker))
    said = properties_in(octets)
    own = 0 if make in (over_core, changed) else 1  # of the queue, where the message says nothing
    wanted = {"PASS": own, "STRIP": None, "ANYCAST": 1, "MULTICAST": 0}[routing]
    assert said.get(ROUTING) == wanted
    assert said.get(DUPLICATE) == (broker.ids.node.uuid + (9).to_bytes(8, "big") + b"m" if deduplicates else None)
    for name in (ROUTING, DUPLICATE):
        key = name.encode("utf-16-le")
        assert octets.count(key) == (0 if said.get(name) is None else 1), "of two values others may read the first"
    assert said.get("colour") == (None if make is over_stomp else "red")
    assert crossing.duplicate_id(message) == broker.ids.node.uuid + (9).to_bytes(8, "big") + b"m"
    headers = read_headers(octets, headers_at(octets))
    assert headers.address == (forwards or "orders")
    if make in (over_stomp, with_headers):
        assert headers.user_id == user_id_of(broker.ids.identity_of(message))


@pytest.mark.parametrize("make", MAKERS)
def test_a_node_says_where_it_goes_and_one_message_says_nothing_of_another(make: Callable[[], Message]) -> None:
    broker = Rig().broker
    key = ROUTE_TO + "store"
    crossing = Crossing(broker, "", "PASS", deduplicates=True, mark=b"", route_key=key)
    message = make()
    for number, ids in ((1, b"queue-01"), (2, b"queue-02queue-03")):
        message.number = number
        message.mark(key, ids)
        said = properties_in(crossing.octets(message, found(broker)))
        assert said[ROUTE_TO] == ids
        assert said[DUPLICATE] == broker.ids.node.uuid + number.to_bytes(8, "big")
    known = bytes(24)
    message.mark(ONWARD_ID, known + b"and where from")
    assert properties_in(crossing.octets(message, found(broker)))[DUPLICATE] == known
    assert crossing.duplicate_id(message) == known


@pytest.mark.parametrize("make", MAKERS)
def test_a_date_is_said_as_the_broker_knows_it(make: Callable[[], Message]) -> None:
    broker = Rig().broker
    crossing = Crossing(broker, "", "PASS", deduplicates=True, mark=b"", route=DATED)
    message = make()
    message.need_rare().deliver_at = 0
    assert DATE not in properties_in(crossing.octets(message, found(broker)))
    message.need_rare().deliver_at = 77
    octets = crossing.octets(message, found(broker))
    assert properties_in(octets)[DATE] == 77
    assert octets.count(DATE.encode("utf-16-le")) == 1


@pytest.mark.parametrize("make", MAKERS)
def test_a_message_alone_says_nothing_more(make: Callable[[], Message]) -> None:
    broker = Rig().broker
    crossing = Crossing(broker, "", "PASS", deduplicates=False, mark=b"")
    message = make()
    octets = crossing.octets(message, found(broker))
    if make is over_core:
        assert octets == message.raw
    assert properties_in(octets).keys() - {ROUTING, "colour", DATE} == set()
