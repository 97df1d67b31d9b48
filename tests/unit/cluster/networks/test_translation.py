"""Readers and temporary destinations, in OpenWire's words and in those of bridges: there and back."""

from __future__ import annotations

import pytest

from entrepot.cluster.networks.lists import Place
from entrepot.cluster.networks.translation import (
    destination_of,
    info_of,
    listed,
    listing,
    place_of,
    reader_of,
    refusal_of,
    temporary_info,
    told_of,
)
from entrepot.cluster.networks.wanted import DurableGone, Reader, ReaderGone, ReaderId, TemporaryTold
from entrepot.protocols.openwire.codec import Encoder
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    BrokerId,
    BrokerInfo,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    ProducerId,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
)
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.negotiation import WireFormat
from kit import Rig


def whole() -> ConsumerInfo:
    """A consumer all whose fields that brokers pass on are set."""
    return ConsumerInfo(
        consumer_id=ConsumerId("c", -1, 7),
        browser=True,
        destination=ActiveMQQueue("a,topic://b"),
        prefetch_size=32766,
        maximum_pending_message_limit=5,
        dispatch_async=True,
        selector="x = 1",
        client_id="client",
        subscription_name="s",
        exclusive=True,
        retroactive=True,
        priority=-127,
        broker_path=[BrokerId("A"), BrokerId("B")],
        network_subscription=True,
        network_consumer_path=[ConsumerId("c", 1, 1), ConsumerId("d", 1, 2)],
    )


@pytest.mark.parametrize("info", [whole(), ConsumerInfo(destination=ActiveMQTopic("T"))])
def test_a_consumer_is_the_same_after_both_ways(info: ConsumerInfo) -> None:
    assert Encoder(WireFormat()).encode(info_of(reader_of(info))) == Encoder(WireFormat()).encode(info)


def test_each_part_of_a_composite_is_a_place() -> None:
    reader = reader_of(whole())
    assert reader.parts == (Place("a", topic=False), Place("b", topic=True))
    assert (reader.id, reader.path) == (ReaderId("c", -1, 7), ("A", "B"))


@pytest.mark.parametrize("where", [None, ActiveMQQueue(""), ActiveMQQueue(None), ActiveMQQueue("a,,b")])
def test_a_destination_without_a_name_or_with_an_empty_part_is_no_place(where: Destination | None) -> None:
    assert reader_of(ConsumerInfo(destination=where)).parts == ()


@pytest.mark.parametrize("kind", [ActiveMQQueue, ActiveMQTopic, ActiveMQTempQueue, ActiveMQTempTopic])
def test_places_are_destinations_of_four_kinds(kind: type[Destination]) -> None:
    assert destination_of(place_of(kind("n"))) == kind("n")


def test_what_an_advisory_tells() -> None:
    temporary = ActiveMQTempQueue("t")
    there = DestinationInfo(destination=temporary, broker_path=[BrokerId("A")])
    told: list[tuple[Structure | None, object]] = [
        (whole(), reader_of(whole())),
        (RemoveInfo(object_id=ConsumerId("c", 1, 1)), ReaderGone(ReaderId("c", 1, 1))),
        (RemoveInfo(object_id=ProducerId("c", 1, 1)), None),
        (RemoveSubscriptionInfo(client_id="c"), DurableGone("c", "")),
        (there, TemporaryTold(place_of(temporary), ("A",), there=True)),
        (DestinationInfo(destination=temporary, operation_type=1), TemporaryTold(place_of(temporary), (), there=False)),
        (DestinationInfo(destination=ActiveMQQueue("q")), None),
        (DestinationInfo(), None),
        (BrokerInfo(), None),
        (None, None),
    ]
    for said, expected in told:
        assert told_of(said) == expected
    assert told_of(temporary_info(place_of(temporary), ("A",), "c")) == told_of(there)


def test_a_list_of_durable_subscriptions_is_read_as_it_was_written() -> None:
    where = Place("T", topic=True)
    readers = [Reader(where, (where,), ReaderId("c:s", 1, 0), client_id="c", subscription_name="s")]
    assert listed(listing(Rig().broker, readers)) == readers


def test_a_refusal_is_told_from_an_answer() -> None:
    assert refusal_of(Response()) is None
    assert refusal_of(ExceptionResponse()) == ""
    assert refusal_of(ExceptionResponse(exception=Throwable("java.X", "no"))) == "java.X: no"
