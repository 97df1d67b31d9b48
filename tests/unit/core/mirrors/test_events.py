"""Addresses and queues of a mirrored broker, made and deleted: by Artemis' words, and as often as they come."""

from __future__ import annotations

import json

import pytest

from entrepot.base.errors import Refused
from entrepot.core.mirrors.events import carry_out
from entrepot.model.address import ANYCAST, MULTICAST
from kit import Rig

# As an Artemis 2.42 says it.
QUEUE = {
    "id": 7, "name": "S", "address": "T", "routing-type": "MULTICAST", "filter-string": "kind = 'a'", "durable": True,
    "max-consumers": 3, "exclusive": False, "group-rebalance": False, "group-buckets": -1, "last-value": False,
    "non-destructive": False, "purge-on-no-consumers": False, "enabled": True, "consumers-before-dispatch": 0,
    "delay-before-dispatch": -1, "auto-delete": False, "auto-delete-delay": 0, "auto-delete-message-count": 0,
    "ring-size": -1, "configuration-managed": False, "temporary": False, "auto-create-address": True,
    "internal": False, "transient": False, "auto-created": False, "fqqn": False,
}  # fmt: skip
ADDRESS = {"id": 6, "name": "T", "auto-created": False, "temporary": False, "internal": False, "routingTypes": [0]}


def test_they_come_and_go_however_often_it_is_said() -> None:
    rig = Rig()
    table = rig.broker.table
    for _ in range(2):
        carry_out(rig.broker, "addAddress", "T", "", json.dumps(ADDRESS))
        carry_out(rig.broker, "createQueue", "T", "S", json.dumps(QUEUE))
    queue = rig.queue("S")
    assert (queue.address, queue.routing, queue.traits.max_consumers, table.declared["T"]) == ("T", MULTICAST, 3, 1)
    for _ in range(2):
        carry_out(rig.broker, "deleteQueue", "T", "S", "S")
        carry_out(rig.broker, "deleteAddress", "T", "", json.dumps(ADDRESS))
    assert "S" not in table.queues
    assert "T" not in table.addresses


def test_a_queue_that_is_here_stays_as_it_is() -> None:
    rig = Rig()
    rig.send("queue://Q", "a")
    carry_out(rig.broker, "createQueue", "Q", "Q", json.dumps({**QUEUE, "name": "Q", "address": "Q"}))
    assert (rig.queue("Q").routing, rig.queue("Q").count) == (ANYCAST, 1)


def test_an_address_that_made_itself_is_made_by_its_queue() -> None:
    rig = Rig()
    carry_out(rig.broker, "addAddress", "T", "", json.dumps({**ADDRESS, "auto-created": True}))
    assert "T" not in rig.broker.table.addresses


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ("createQueue", "{"),
        ("createQueue", "[]"),
        ("createQueue", 7),
        ("createQueue", "{}"),
        ("createQueue", json.dumps({**QUEUE, "something-new": True})),
        ("addAddress", None),
        ("somethingNew", "{}"),
    ],
)
def test_what_cannot_be_understood_is_refused(event: str, body: object) -> None:
    with pytest.raises(Refused):
        carry_out(Rig().broker, event, "T", "S", body)
