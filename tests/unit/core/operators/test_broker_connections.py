"""Connections over AMQP, as operations of management list and switch them."""

from __future__ import annotations

import json

import pytest

from entrepot.base.errors import InvalidDestination
from entrepot.core.operators.broker_connections import listed, switch
from entrepot.core.operators.census import Census, Component


class One(Census):
    """A broker with one connection."""

    def __init__(self) -> None:
        self.started = False

    def components(self, kind: str) -> list[str]:
        return ["far"] if kind == "brokerconnection" else []

    def component(self, kind: str, name: str) -> Component | None:
        if name not in self.components(kind):
            return None
        told = {"name": "far", "protocol": "AMQP", "uri": "tcp://far:5672", "connected": False, "user": None}
        attributes = {word: (lambda value=value: value) for word, value in told.items()}
        return Component({**attributes, "started": lambda: self.started}, lambda start: setattr(self, "started", start))


def test_each_is_listed_and_switched_by_its_name() -> None:
    census = One()
    switch(census, "far", start=True)
    assert json.loads(listed(census)) == [
        {"name": "far", "protocol": "AMQP", "started": True, "connected": False, "uri": "tcp://far:5672"}
    ]
    switch(census, "far", start=False)
    assert json.loads(listed(census))[0]["started"] is False
    assert listed(Census()) == "[]"


def test_one_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidDestination) as caught:
        switch(One(), "near", start=True)
    assert caught.value.remedy == "there are: far"
