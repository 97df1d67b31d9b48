"""Settings and rights that an operator gives a running broker: what holds, what stays, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrepot.base.errors import AccessDenied, EntrepotError
from entrepot.config.artemis.addresses import EVERYTHING
from entrepot.config.founding import add_policies
from entrepot.config.model import BrokerConfig, PolicyEntry
from entrepot.core import amendments
from entrepot.core.addressing import amending as settings
from entrepot.core.addressing.policy import Policies
from entrepot.core.operators.amending_verbs import KINDS, Amending
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.security import amending as rights
from entrepot.core.security.access import SEND, Rule
from entrepot.core.security.directory import Directory, Subject, User
from entrepot.core.security.permissions import held_by, of_queue, of_temporary, of_topic
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from kit import Rig

SEVEN = ("a", "", "", "", "", "", "")


def do(rig: Rig, name: str, *values: Any) -> Any:
    found = control(rig.broker, Census(), "broker").call(name, list(values))
    rig.turn()
    return found


def fail(rig: Rig, name: str, *values: Any) -> str:
    with pytest.raises(EntrepotError) as found:
        do(rig, name, *values)
    return str(found.value)


def shown(rig: Rig, address: str) -> dict[str, Any]:
    return dict(json.loads(do(rig, "getAddressSettingsAsJSON", address)))


def guarded(rig: Rig, *, narrowest: bool = True) -> None:
    rules = [Rule("#", UNTYPED, {"a": SEND})]
    rig.broker.access.protect(Directory([User("ann", "plain:x", ["a"])]), rules, narrowest=narrowest)


def may_send(rig: Rig, group: str, name: str) -> bool:
    rig.broker.table.address(name)
    rig.broker.queues.need(Destination(name, ANYCAST))
    try:
        rig.broker.access.send(Subject("x", [group]), [Destination(name, ANYCAST)])
    except AccessDenied:
        return False
    return True


def test_settings_replace_those_of_their_pattern_and_reach_queues_that_exist() -> None:
    rig = Rig({"orders.*": {"max-delivery-attempts": "3", "redelivery-delay": "70"}, "#": {"expiry-address": "old"}})
    rig.send_all("orders.a", range(1))
    said = {"maxDeliveryAttempts": 5, "addressFullMessagePolicy": "FAIL", "pageSizeBytes": 100, "noExpiry": True}
    answer = json.loads(do(rig, "addAddressSettings", "orders.*", json.dumps(said)))
    assert answer == {"maxDeliveryAttempts": 5, "addressFullMessagePolicy": "FAIL", "noExpiry": True}
    policy = rig.queue("orders.a").policy
    assert (policy.max_deliveries, policy.redelivery_delay, policy.expiry_address) == (5, 0, "old")
    found = shown(rig, "orders.a")
    assert (found["maxDeliveryAttempts"], found["redeliveryDelay"], found["expiryAddress"]) == (5, 0, "old")
    assert found["addressFullMessagePolicy"] == "FAIL"
    do(rig, "addAddressSettings", "orders.*", '{"redeliveryDelay": 40}')
    assert shown(rig, "orders.a")["redeliveryDelay"] == 40
    assert shown(rig, "orders.a")["maxDeliveryAttempts"] == 10, "the second call stands in the place of the first"


def test_settings_stay_after_a_restart_and_are_there_before_queues_are_made_anew() -> None:
    rig = Rig({"q": {"max-delivery-attempts": "3"}})
    do(rig, "addAddressSettings", "q", '{"maxDeliveryAttempts": 7}')
    do(rig, "addAddressSettings", "last", '{"defaultLastValueQueue": true, "defaultLastValueKey": "k"}')
    rig.send_all("q", range(1))
    rig.broker.queues.need(Destination("last", ANYCAST))
    rig.turn()
    rig.restart("kill")
    assert int(rig.queue("q").policy.max_deliveries) == 7
    assert rig.queue("last").traits.last_value_key == "k"
    do(rig, "removeAddressSettings", "q")
    assert shown(rig, "q")["maxDeliveryAttempts"] == 3, "the configuration's holds again"
    assert do(rig, "removeAddressSettings", "q") is None, "a second time there is nothing to do"
    rig.restart("kill")
    assert shown(rig, "q")["maxDeliveryAttempts"] == 3


def test_what_holds_below_all_stays_whatever_is_said_of_everything() -> None:
    policies = Policies()
    config = BrokerConfig(
        policies=(PolicyEntry(pattern=EVERYTHING, settings={"auto_delete": True, "max_deliveries": 3}),),
        base={"auto_delete": True},
    )
    add_policies(config, policies)
    policies.amend(EVERYTHING, {"id_cache": 5})
    given = policies.of("x").given
    assert (given.auto_delete, given.max_deliveries, given.id_cache) == (True, 10, 5)
    policies.amend(EVERYTHING, {"id_cache": 6})
    policies.unamend()
    given = policies.of("x").given
    assert (given.auto_delete, given.max_deliveries, given.id_cache) == (True, 3, 20_000)


def test_entries_of_classic_stand_beside_what_an_operator_says() -> None:
    policies = Policies()
    policies.put("q", {"max_deliveries": 3}, MULTICAST)
    policies.amend("q", {"id_cache": 5})
    assert (policies.of("q", MULTICAST).given.max_deliveries, policies.of("q", MULTICAST).given.id_cache) == (3, 5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("q", "no json"), "not a JSON object"),
        (("q", '{"maxDeliveryAttemps": 3}'), "maxDeliveryAttempts"),
        (("q", '{"maxDeliveryAttempts": "many"}'), "max-delivery-attempts"),
        (("q", '{"maxDeliveryAttempts": [1]}'), "maxDeliveryAttempts"),
        (("q", '{"maxSizeBytes": -2}'), "max-size-bytes"),
        (("", "{}"), "no address is named"),
        (("q", "DLQ", "EXP", 1), "give (pattern, JSON)"),
    ],
)
def test_wrong_settings_change_nothing_and_say_what_to_do(given: tuple[object, ...], told: str) -> None:
    rig = Rig()
    before = shown(rig, "q")
    assert told in fail(rig, "addAddressSettings", *given)
    assert shown(rig, "q") == before
    assert not rig.broker.notes.of(settings.PART)


def test_no_more_patterns_than_memory_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amendments, "AMENDED_MOST", 2)
    rig = Rig()
    do(rig, "addAddressSettings", "a", "{}")
    do(rig, "addAddressSettings", "b", "{}")
    do(rig, "addAddressSettings", "a", "{}")
    assert "remove some" in fail(rig, "addAddressSettings", "c", "{}")
    monkeypatch.setattr(amendments, "AMENDED_MOST", 1)
    do(rig, "addSecuritySettings", "a", *SEVEN)
    assert "remove some" in fail(rig, "addSecuritySettings", "b", *SEVEN)


def test_a_note_that_cannot_be_read_is_told_of_and_keeps_no_broker_from_starting() -> None:
    rig = Rig()
    rig.broker.notes.put(settings.PART, "q", '{"of a later version": 1}')
    ((pattern, why),) = settings.restore(rig.broker.policies, rig.broker.notes)
    assert pattern == "q"
    assert "of a later version" in why


def test_rights_replace_those_of_their_pattern_at_once_and_after_a_restart() -> None:
    rig = Rig()
    guarded(rig)
    assert may_send(rig, "a", "orders.x")
    do(rig, "addSecuritySettings", "orders.#", "b", "b,c", "", "", "", "", "")
    assert (may_send(rig, "a", "orders.x"), may_send(rig, "b", "orders.x")) == (False, True)
    rows = {row["name"]: row for row in json.loads(do(rig, "getRolesAsJSON", "orders.x"))}
    assert [name for name, row in rows.items() if row["send"]] == ["b"]
    assert [name for name, row in rows.items() if row["consume"]] == ["b", "c"]
    assert not rows["b"]["createDurableQueue"]
    rig.restart("kill")
    guarded(rig)
    rights.restore(rig.broker.access, rig.broker.notes)
    assert not may_send(rig, "a", "orders.x")
    do(rig, "removeSecuritySettings", "orders.#")
    assert may_send(rig, "a", "orders.x"), "the wider pattern counts again"
    do(rig, "addSecuritySettings", "#", "b", *SEVEN[1:])
    do(rig, "addSecuritySettings", "#", "c", *SEVEN[1:])
    assert [may_send(rig, one, "orders.x") for one in "abc"] == [False, False, True]
    do(rig, "removeSecuritySettings", "#")
    assert [may_send(rig, one, "orders.x") for one in "abc"] == [True, False, False]
    do(rig, "removeSecuritySettings", "#")
    assert may_send(rig, "a", "orders.x"), "a second time there is nothing to do"


def test_rights_on_temporary_destinations_are_those_on_everything() -> None:
    rig = Rig()
    guarded(rig)
    access = rig.broker.access
    place = Destination("ID:1", ANYCAST, temporary=True)
    access.create(Subject("x", ["a"]), place)
    do(rig, "addSecuritySettings", "#", "b", "", "", "", "b", "", "", "", "b", "")
    access.create(Subject("x", ["b"]), place)
    with pytest.raises(AccessDenied):
        access.create(Subject("x", ["a"]), place)


def test_every_kind_has_its_argument() -> None:
    rig = Rig()
    guarded(rig)
    do(rig, "addSecuritySettings", "q", *KINDS)
    rows = {row["name"]: row for row in json.loads(do(rig, "getRolesAsJSON", "q"))}
    assert {kind for kind in KINDS if rows[kind][kind] and sum(bool(rows[kind][one]) for one in KINDS) == 1} == set(
        KINDS
    )
    assert Amending(rig.broker).operations().keys() >= {"addSecuritySettings", "removeSecuritySettings"}


def test_wrong_rights_change_nothing_and_say_what_to_do() -> None:
    rig = Rig()
    guarded(rig)
    assert "name the roles" in fail(rig, "addSecuritySettings", "q", "*", "", "", "", "", "", "")
    assert "argument 8" in fail(rig, "addSecuritySettings", "q", "a", "", "", "", "", "")
    assert "name the address" in fail(rig, "addSecuritySettings", "q::q", *SEVEN)
    assert "no address is named" in fail(rig, "addSecuritySettings", "", *SEVEN)
    assert "give (pattern" in fail(rig, "addSecuritySettings", "q", *SEVEN, *SEVEN)
    guarded(rig, narrowest=False)
    assert "rules add up" in fail(rig, "addSecuritySettings", "q", *SEVEN)
    assert "rules add up" in fail(rig, "removeSecuritySettings", "q")
    assert not rig.broker.notes.of(rights.PART)


def test_rights_wait_where_nobody_is_asked_for_any() -> None:
    rig = Rig()
    do(rig, "addSecuritySettings", "#", "b", *SEVEN[1:])
    assert may_send(rig, "a", "q")
    guarded(rig)
    rights.restore(rig.broker.access, rig.broker.notes)
    assert (may_send(rig, "a", "q"), may_send(rig, "b", "q")) == (False, True)
    guarded(rig, narrowest=False)
    rights.restore(rig.broker.access, rig.broker.notes)
    assert may_send(rig, "a", "q"), "where rules add up, those of an operator are no rules"


def test_permissions_are_rights_together() -> None:
    held = held_by({"send": "a, b", "createAddress": "a", "createDurableQueue": "a", "createNonDurableQueue": "b"})
    assert of_queue(held["a"]) & ~of_topic(held["a"]) == 0
    assert of_queue(held["b"]) == of_temporary(held["b"]) == SEND
