"""The classes are what the table says; the generator, run again, writes the same file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from entrepot.protocols.openwire import commands, schema
from entrepot.protocols.openwire.commands import (
    PROTOTYPES,
    ActiveMQQueue,
    ActiveMQTopic,
    ConsumerId,
    Message,
    MessageId,
    NetworkBridgeFilter,
    ProducerId,
    Response,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.schema import Kind, Type

ROOT = Path(__file__).parents[4]
GENERATOR = ROOT / "tools" / "openwire_commands.py"


def test_the_file_is_what_the_generator_writes() -> None:
    spec = importlib.util.spec_from_file_location("openwire_generator", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.TARGET.read_text() == generator.source(), "run tools/openwire_commands.py"


@pytest.mark.parametrize("each", schema.TYPES, ids=lambda each: each.name)
def test_a_class_agrees_with_its_row(each: Type) -> None:
    made = getattr(commands, each.name)
    parent = getattr(commands, each.parent)
    assert parent in made.__mro__[1:]
    if not each.number:
        return
    one = made()
    assert isinstance(one, Structure)
    assert one.type_id == each.number
    assert one.padded() == each.padded
    assert type(one.fresh()) is made
    for field in each.fields:
        value = getattr(one, field.name)
        if field.kind in (Kind.BOOLEAN, Kind.BYTE, Kind.INT, Kind.LONG):
            assert value == field.default
        else:
            assert value is None or field.kind is Kind.MAGIC
        setattr(one, field.name, value)


def test_there_is_one_prototype_of_each() -> None:
    assert [prototype.type_id for prototype in PROTOTYPES] == [each.number for each in schema.TYPES if each.number]


def test_destinations_compare_by_kind_and_name() -> None:
    assert ActiveMQQueue("A") == ActiveMQQueue("A")
    assert hash(ActiveMQQueue("A")) == hash(ActiveMQQueue("A"))
    assert ActiveMQQueue("A") != ActiveMQTopic("A")
    assert ActiveMQQueue("A") != ActiveMQQueue("B")
    assert len({ActiveMQQueue("A"): 1, ActiveMQTopic("A"): 2, ActiveMQQueue("A"): 3}) == 2


def test_a_message_id_is_its_producer_and_sequence() -> None:
    producer = ProducerId("c", 1, 2)
    one = MessageId(producer_id=producer, producer_sequence_id=3, broker_sequence_id=4)
    assert one == MessageId(producer_id=ProducerId("c", 1, 2), producer_sequence_id=3, broker_sequence_id=5)
    assert one != MessageId(producer_id=producer, producer_sequence_id=4)


def test_producer_and_consumer_are_never_equal() -> None:
    assert ProducerId("c", 1, 1) != ConsumerId("c", 1, 1)


def test_commands_take_keywords() -> None:
    answer = Response(command_id=1, correlation_id=7)
    assert (answer.command_id, answer.correlation_id, answer.response_required) == (1, 7, False)
    assert NetworkBridgeFilter(consumer_ttl=2).consumer_ttl == 2
    assert issubclass(commands.ActiveMQBlobMessage, Message)
