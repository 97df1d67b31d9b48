"""Addresses that stay without queues, and addresses that are not made by themselves."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidDestination
from entrepot.core.addressing import lingering
from entrepot.core.addressing.definition import QueueDefinition, durable_subscription
from entrepot.core.addressing.policy import Policies
from entrepot.core.owners import SubscriptionOwner
from kit import Rig


def emptied(rig: Rig, name: str = "q") -> None:
    """Make a queue with its address, and delete it."""
    rig.send(name, "x")
    rig.broker.queues.delete(rig.queue(name), "test")


def later(rig: Rig, seconds: float) -> None:
    rig.wait(int(seconds * 1000))


def test_an_address_goes_with_its_last_queue() -> None:
    rig = Rig()
    emptied(rig)
    assert "q" not in rig.broker.table.addresses


def test_one_that_is_not_to_go_stays_and_is_told_of_once() -> None:
    rig = Rig(auto_delete_addresses="false")
    emptied(rig)
    later(rig, 3600)
    assert "q" in rig.broker.table.addresses
    emptied(rig)
    assert "q" in rig.broker.table.addresses


def test_one_with_a_delay_goes_when_that_is_over_unless_it_is_used_again() -> None:
    rig = Rig(auto_delete_addresses_delay="10s")
    emptied(rig, "unused")
    emptied(rig, "used")
    later(rig, 5)
    rig.send("used", "again")
    later(rig, 6)
    later(rig, 2)
    assert list(rig.broker.table.addresses) == ["used"]
    assert not rig.broker.lingering.since


def test_they_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "KEPT_MAX", 3)
    rig = Rig(auto_delete_addresses="false")
    for number in range(5):
        emptied(rig, f"q{number}")
    assert list(rig.broker.table.addresses) == ["q2", "q3", "q4"]


def test_who_makes_many_pushes_out_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "KEPT_MAX", 4)
    rig = Rig(auto_delete_addresses="false")
    for user, name in [("mine", "mine"), ("", "sent"), *(("flood", f"f{number}") for number in range(5))]:
        definition = QueueDefinition(name=name, address=name, user=user)
        rig.broker.queues.delete(rig.broker.queues.create(definition), "test")
    assert list(rig.broker.table.addresses) == ["mine", "sent", "f3", "f4"]
    lasts = durable_subscription("c.s", "news", "", SubscriptionOwner("c", "s"))
    rig.broker.queues.delete(rig.broker.queues.create(lasts), "test")
    assert list(rig.broker.table.addresses) == ["mine", "sent", "f4", "news"]
    assert {owner: list(names) for owner, names in rig.broker.lingering.held.items()} == {
        "user mine": ["mine"], "": ["sent"], "user flood": ["f4"], "client c": ["news"],
    }  # fmt: skip
    rig.send("sent", "again")
    later(rig, 60)
    assert "" not in rig.broker.lingering.held


def test_a_queue_may_be_made_but_not_its_address() -> None:
    rig = Rig(auto_create_addresses="false")
    with pytest.raises(InvalidDestination, match="AMQ229203"):
        rig.send("q", "x")
    with pytest.raises(InvalidDestination, match="AMQ229203"):
        rig.reader("/topic/t")
    rig.broker.queues.declare("q", 3)
    rig.broker.queues.declare("t", 3)
    rig.send("q", "x")
    rig.reader("/topic/t")
    assert rig.queue("q").count == 1


def test_a_name_that_is_a_uuid_has_the_settings_of_its_name_space() -> None:
    policies = Policies()
    policies.add("temporary.#", {"max_messages": "7"})
    policies.namespace = "temporary"
    for name in ("0f3c8a6e-1111-2222-3333-123456789abc", "ID:host-45187-1745501083698-10000:1:10001"):
        assert policies.of(name).max_messages == 7
    assert policies.of("temporary.x").max_messages == 7
    assert policies.of("0F3C8A6E-1111-2222-3333-123456789ABC").max_messages != 7
    assert policies.of("q").max_messages != 7


def test_a_literal_name_covers_nothing_else() -> None:
    policies = Policies()
    policies.add("a.#", {"max_deliveries": "2"})
    policies.put("a.*", {"max_deliveries": 3}, literal=True)
    assert [policies.of(name).max_deliveries for name in ("a.b", "a.*", "b")] == [2, 3, 10]
