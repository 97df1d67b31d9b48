"""Durable subscriptions and virtual topics as tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette")

from entrepot.console.subscription_pages import _filled, _lasting, _rules, parts
from entrepot.core.operators.views import QueueView
from unit.console.test_jolokia import queue


def view(name: str, **changes: Any) -> QueueView:
    return msgspec.convert(queue(name, 3) | {"routing": "MULTICAST", "durable": True} | changes, QueueView)


def test_a_subscription_is_told_with_its_backlog_selector_and_reader() -> None:
    away = view("app.audit", address="prices", selector="region = 'eu'", consumers=0)
    table = _lasting("here", [away, view("shared", address="prices", consumers=2)])
    first, second = table.rows
    assert (first["client"], first["name"], first["topic"]) == ("app", "audit", "prices")
    assert (first["selector"], first["state"], first["messages"]) == ("region = 'eu'", "not connected", "3")
    assert (second["client"], second["name"], second["state"]) == ("", "shared", "2 connected")
    assert table.buttons is not None
    assert table.buttons(dict(first)) == [("delete", {"broker": "here", "action": "destroy", "queue": "app.audit"})]
    assert parts(view("a.b.c")) == ("a", "b.c")


def test_virtual_topics_of_several_brokers_stand_together() -> None:
    row = {"topic": "t", "queue": "q", "rule": "r", "selective": False, "messages": 1, "consumers": 0}
    rule = {"name": "VirtualTopic.>", "prefix": "Consumer.*.", "postfix": "", "selective": False}
    told = {
        "b": {"rows": [row, {**row, "topic": "s", "selective": True}], "rules": [rule], "count": 2, "mirror": ""},
        "a": {"rows": [row], "rules": [], "count": 1, "mirror": ""},
    }
    table = _filled(told)
    assert [(one["topic"], one["broker"], one["takes"]) for one in table.rows] == [
        ("s", "b", "what its readers want"),
        ("t", "a", "all"),
        ("t", "b", "all"),
    ]
    assert [one["broker"] for one in _rules(told).rows] == ["b"]
