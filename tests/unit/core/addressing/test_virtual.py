"""The topic that fills a queue, and the queues that virtual topics fill as operators see them."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.routing import VirtualTopic
from entrepot.core.addressing.virtual import virtual_source
from entrepot.core.operators import virtual_queues
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from kit import Rig
from unit.core.operators.test_describing import done


@pytest.mark.parametrize(
    ("queue", "topic"),
    [
        ("Consumer.a.VirtualTopic.orders", "VirtualTopic.orders"),
        ("Consumer.a.VirtualTopic.eu.orders", "VirtualTopic.eu.orders"),
        ("Consumer.a.orders", ""),
        ("Consumer.a", ""),
        ("VirtualTopic.orders", ""),
        ("Other.a.VirtualTopic.orders", ""),
    ],
)
def test_the_topic_of_a_queue(queue: str, topic: str) -> None:
    assert virtual_source(VirtualTopic(), queue) == topic


def test_what_stands_behind_a_name_is_taken_off() -> None:
    rule = VirtualTopic("shop.>", "in.*.", ".q")
    assert virtual_source(rule, "in.eu.shop.tea.q") == "shop.tea"
    assert virtual_source(rule, "in.eu.shop.tea") == ""


def look(rig: Rig) -> tuple[Any, int]:
    told, steps = done(control(rig.broker, Census(), "broker").call("describeVirtualTopics", []))
    return told, int(steps)


def test_the_queues_that_are_told_are_those_that_get_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.broker.table.virtual_topics = [VirtualTopic(), VirtualTopic("shop.>", "in.*.", ".q", selective=True)]
    names = ["Consumer.a.VirtualTopic.x", "Consumer.b.VirtualTopic.x", "in.eu.shop.tea.q", "Consumer.a.plain"]
    for name in names:
        rig.broker.queues.create(QueueDefinition(name=name, address=name))
    rig.send("/topic/VirtualTopic.x", "x")
    told, _ = look(rig)
    assert [(row["topic"], row["queue"], row["messages"]) for row in told["rows"][:2]] == [
        ("VirtualTopic.x", "Consumer.a.VirtualTopic.x", 1),
        ("VirtualTopic.x", "Consumer.b.VirtualTopic.x", 1),
    ]
    filled = {name for name in names if int(rig.broker.table.queues[name].count)}
    assert {row["queue"] for row in told["rows"] if row["topic"] == "VirtualTopic.x"} == filled
    assert (told["count"], told["rows"][2]["selective"], len(told["rules"])) == (3, True, 2)
    monkeypatch.setattr(virtual_queues, "DESCRIBED_MOST", 1)
    told, _ = look(rig)
    assert (told["count"], len(told["rows"])) == (3, 1)


def test_many_queues_are_looked_at_in_steps() -> None:
    rig = Rig()
    rig.thorough = False
    for number in range(2_500):
        rig.broker.queues.create(QueueDefinition(name=f"q.{number}", address=f"q.{number}"))
    told, steps = look(rig)
    assert (told["count"], steps >= 3) == (0, True)
