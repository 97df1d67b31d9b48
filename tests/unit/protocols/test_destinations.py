"""What a program writes as a destination, in whatever protocol it speaks."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidDestination
from entrepot.protocols.conversing.destinations import Kind, full_name, is_queue, kind_and_name


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("A", Kind.QUEUE, "A"),
        ("queue://A", Kind.QUEUE, "A"),
        ("topic://A.B", Kind.TOPIC, "A.B"),
        ("temp-queue://ID:x:1", Kind.TEMPORARY_QUEUE, "ID:x:1"),
        ("temp-topic://t", Kind.TEMPORARY_TOPIC, "t"),
    ],
)
def test_a_kind_stands_before_the_name_and_a_queue_is_meant_without(text: str, kind: Kind, name: str) -> None:
    assert kind_and_name(text) == (kind, name)
    assert is_queue(text) == (kind in (Kind.QUEUE, Kind.TEMPORARY_QUEUE))
    assert kind_and_name(full_name(text)) == (kind, name)


@pytest.mark.parametrize("text", ["", "  ", "queue://", "topic:// ", "que://A", "queue://topic://A", "Topic://A"])
def test_what_names_nothing_or_only_looks_like_a_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidDestination):
        kind_and_name(text)
