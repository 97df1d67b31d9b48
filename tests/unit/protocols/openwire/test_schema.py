from __future__ import annotations

import pytest

from entrepot.protocols.openwire import schema
from entrepot.protocols.openwire.schema import Kind, message_layout, type_named, type_numbered


def names(name: str, version: int) -> list[str]:
    return [field.name for field in type_named(name).fields if field.travels(version)]


def test_numbers_are_given_once_and_fit_an_octet() -> None:
    numbers = [each.number for each in schema.TYPES if each.number]
    assert len(numbers) == len(dict.fromkeys(numbers))
    assert all(0 < number < 128 for number in numbers)


def test_unused_numbers_have_no_type() -> None:
    for number in (13, 35, 36, 37, 38, 39, 51, 56, 57, 58, 59):
        with pytest.raises(KeyError):
            type_numbered(number)


@pytest.mark.parametrize("version", range(1, 13))
def test_no_version_has_an_attribute_twice(version: int) -> None:
    for each in schema.TYPES:
        assert len(names(each.name, version)) == len(dict.fromkeys(names(each.name, version)))


def test_every_nested_value_names_a_type() -> None:
    for each in schema.TYPES:
        for field in each.fields:
            assert (field.kind in (Kind.NESTED, Kind.CACHED, Kind.ARRAY)) == bool(field.holds)
            assert field.holds in ("", "Structure") or type_named(field.holds)


def test_fields_that_were_inserted_stand_where_they_were_inserted() -> None:
    assert names("MessageId", 9) == ["producer_id", "producer_sequence_id", "broker_sequence_id"]
    assert names("MessageId", 10)[0] == "text_view"
    assert names("ConsumerControl", 6)[2] == "destination"
    assert "destination" not in names("ConsumerControl", 5)
    consumer = names("ConsumerInfo", 10)
    assert consumer.index("client_id") + 1 == consumer.index("subscription_name")
    assert names("NetworkBridgeFilter", 9) == ["message_ttl", "network_broker_id"]
    assert names("NetworkBridgeFilter", 10) == ["network_broker_id", "message_ttl", "consumer_ttl"]


def test_identities_of_consumers_and_producers_differ_in_order() -> None:
    assert names("ConsumerId", 12) == ["connection_id", "session_id", "value"]
    assert names("ProducerId", 12) == ["connection_id", "value", "session_id"]


def test_messages_are_laid_out_in_four_ways() -> None:
    assert [message_layout(version) for version in range(1, 13)] == [1, 2, 3, 3, 3, 3, 3, 3, 3, 10, 10, 10]
